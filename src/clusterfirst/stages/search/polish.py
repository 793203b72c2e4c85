"""Better routes until the deadline: the anytime part of `solve`.

From any feasible routes: simulated annealing while the temperature falls with the share
of the time that is used. Threads work on parts of the map, cut anew along other lines
in every round so that no seam stays; where the map is too small to be cut, several work
on copies of the same part, of which the best goes on. With much time per customer the
temperature falls several times, and the best routes of all that it left are chosen.
On small maps it falls once, and a genetic search goes on from what it left.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.search.annealing import anneal, make_plan
from clusterfirst.stages.search.genetic.breeding import Breeding
from clusterfirst.stages.search.regions import (
    Region,
    make_region,
    parts,
    together,
    whole_data,
)
from clusterfirst.stages.search.schedule import PolishSettings as PolishSettings
from clusterfirst.stages.search.schedule import Schedule

GOLDEN = 0.6180339887498949  # its multiples spread cutting lines evenly

OnImprovement = Callable[[list[list[int]], float, float], None]


@dataclass(frozen=True)
class Polished:
    """Routes never worse than the start."""

    routes: list[list[int]]
    cost: float
    history: list[tuple[float, float]]  # (seconds, cost), the start first


def polish(
    instance: Instance,
    routes: Sequence[Sequence[int]],
    settings: PolishSettings,
    deadline: Deadline,
    on_improvement: OnImprovement | None = None,
) -> Polished:
    """Improve feasible routes until the deadline or the number of iterations.

    Parameters
    ----------
    routes
        Customer rows of each route, from any method.
    on_improvement
        Called with (routes, cost, seconds) from this thread.
    """
    begin = time.perf_counter()
    breeds = instance.coords is not None
    verdict = judge(instance, Solution(routes))
    if not verdict.feasible:
        raise InputError(verdict.violations)
    if deadline.left() == math.inf and settings.iterations is None:
        rule = "a time limit or a number of iterations is needed"
        raise InputError(Problem("E404", "polish", "neither", rule))
    schedule = Schedule.of(instance, settings, deadline, breeds=breeds)
    current = Routes.of(routes)
    cost = float(current.lengths(instance).sum())
    start = Polished(current.lists(), cost, [(0.0, cost)])
    if instance.num_customers < 2 or deadline.passed():
        return start
    search = _Search(instance, settings, schedule)
    progress = _Progress(instance, start, begin, on_improvement)
    with ThreadPoolExecutor(settings.threads) as pool:
        for step in range(schedule.rounds):
            if schedule.used(search.done) >= 1.0:
                break
            if schedule.breeds(step):
                best = Routes.of(progress.best.routes)
                progress.offer(search.breed(pool, best, step))
            else:
                regions = search.regions(current, step)
                done = pool.map(search.work, regions, [step] * len(regions))
                search.done = max(done)
                current, found = search.merge(regions)
                progress.offer(found)
                if schedule.falls > 1 and schedule.ends_fall(step):
                    search.end_fall(regions)
            if settings.on_round is not None:
                settings.on_round(min(1.0, schedule.used(search.done)))
    if search.ends and not deadline.passed():
        from clusterfirst.stages.search.pool import recombine

        ends = sorted(search.ends, key=lambda end: float(end.lengths(instance).sum()))
        lists = [routes.lists() for routes in ends[: settings.pool_ends]]
        lists += [start.routes, progress.best.routes]
        mixed = recombine(instance, lists, deadline)
        progress.offer(Routes.of(mixed))
    return progress.best


@dataclass
class _Progress:
    """The best routes so far, and who wants to know."""

    instance: Instance
    best: Polished
    begin: float
    on_improvement: OnImprovement | None

    def offer(self, found: Routes) -> None:
        cost = float(found.lengths(self.instance).sum())
        if cost >= self.best.cost * (1 - 1e-12):
            return
        seconds = time.perf_counter() - self.begin
        history = [*self.best.history, (seconds, cost)]
        self.best = Polished(found.lists(), cost, history)
        if self.on_improvement is not None:
            self.on_improvement(self.best.routes, cost, seconds)


def useful_threads(instance: Instance, cores: int) -> int:
    """How many of the cores help at this size: a few copies of each part do."""
    settings = PolishSettings()
    most = max(1, instance.num_customers // settings.smallest_part)
    return min(cores, settings.copies * most)


def warm_up() -> None:
    """Compile the kernels, or load them from numba's cache, before they are needed."""
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    square = Instance(demands=np.array([0, 1, 1, 1]), capacity=2, coords=corners)
    settings = PolishSettings(iterations=1, threads=1)
    polish(square, [[1], [2], [3]], settings, Deadline.never())


class _Search:
    """What stays the same between rounds."""

    def __init__(
        self, instance: Instance, settings: PolishSettings, schedule: Schedule
    ) -> None:
        self.instance = instance
        self.settings = settings
        self.schedule = schedule
        self.data = whole_data(instance, settings.neighbours)
        self.scale = float(self.data.near_gap[1:, :10].mean())
        self.plane = None if instance.coords is None else instance.plane
        self.done = 0
        self.alone: Region | None = None  # of a single thread: there is nothing to cut
        self.copies = 1  # of each part
        self.ends: list[Routes] = []  # what each copy of the map was left with
        self.colonies: list[Breeding] = []  # one for each thread

    def regions(self, routes: Routes, step: int) -> list[Region]:
        """Cut the routes into parts, one per thread, or copies of fewer parts."""
        if self.alone is not None:
            return [self.alone]
        threads = self.settings.threads
        count = 1
        if self.plane is not None:
            each = self.instance.num_customers // self.settings.smallest_part
            count = max(1, min(threads, each, len(routes) // 2))
        self.copies = threads // count
        limit = self.instance.vehicles
        spare = self.settings.spare_routes * count
        if limit is not None:
            spare = min(spare, limit - len(routes))
        cut = [routes]
        if count > 1:
            assert self.plane is not None
            cut = parts(self.plane, routes, count, math.pi * GOLDEN * (step + 1))
        seed = (self.settings.seed * self.settings.most_rounds + step) * threads
        starts = [part for part in cut for _ in range(self.copies)]
        rooms = [spare // count + (i < spare % count) for i in range(count)]
        made = [
            make_region(
                self.data, start, len(start) + rooms[i // self.copies], seed + i
            )
            for i, start in enumerate(starts)
        ]
        if threads == 1:
            self.alone = made[0]
        return made

    def work(self, region: Region, step: int) -> int:
        """Anneal one region for this round's share; return the iterations so far."""
        schedule, chunk, done = self.schedule, self.settings.chunk, self.done
        until = (step + 1) / schedule.rounds
        plan = make_plan(self.settings, region)
        while (used := schedule.used(done)) < until:
            temperature = self.scale * schedule.temperature(used)
            anneal(region.data, region.state, plan, chunk, temperature)
            done += chunk
        return done

    def end_fall(self, regions: list[Region]) -> None:
        """Remember what each copy of the map was left with."""
        for copy in range(self.copies):
            mine = [
                region.routes(best=False) for region in regions[copy :: self.copies]
            ]
            self.ends.append(together(mine))

    def breed(self, pool: Executor, best: Routes, step: int) -> Routes:
        """Let every thread's colony go on from the best routes; return the best."""
        if not self.colonies:
            self.colonies = [
                Breeding(self.instance, self.data, best, self.settings, i)
                for i in range(self.settings.threads)
            ]
            for i, end in enumerate(self.ends):
                self.colonies[i % len(self.colonies)].adopt(end)
            self.ends = []
        length = float(best.lengths(self.instance).sum())
        for colony in self.colonies:
            if length < colony.length:
                colony.adopt(best)
        done = pool.map(self.raise_children, self.colonies, [step] * len(self.colonies))
        self.done = max(done)
        first = min(self.colonies, key=lambda colony: colony.length)
        return first.best if first.length < length else best

    def raise_children(self, colony: Breeding, step: int) -> int:
        """Breed for this round's share; return the iterations so far."""
        schedule, settings, done = self.schedule, self.settings, self.done
        until = (step + 1) / schedule.rounds
        customers = self.instance.num_customers
        children = math.ceil(settings.children / customers)
        while schedule.used(done) < until:
            colony.breed(children)
            done += math.ceil(children * settings.child * customers)
        return done

    def merge(self, regions: list[Region]) -> tuple[Routes, Routes]:
        """Return the current and the best routes of all regions together."""
        groups = [
            regions[i : i + self.copies] for i in range(0, len(regions), self.copies)
        ]
        now = [min(group, key=lambda r: float(r.memory.cost[0])) for group in groups]
        best = [min(group, key=lambda r: float(r.memory.cost[1])) for group in groups]
        return (
            together([r.routes(best=False) for r in now]),
            together([r.routes(best=True) for r in best]),
        )
