"""Better routes until the deadline: the anytime part of `solve`.

From any feasible routes: local search, then ruin and recreate while the temperature
falls with the share of the time that is used, then local search with SWAP*. Two threads
work at once: on two halves of the map, cut anew along another line from time to time so
that no seam stays, or, when the instance is small, on two copies of which the better
one survives.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import FloatArray, Instance
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.stages.compiled import Flat, Ground
from clusterfirst.stages.search.local_search import descend, notes_for
from clusterfirst.stages.search.regions import (
    Region,
    halves,
    make_region,
    together,
    too_large,
    whole_ground,
)
from clusterfirst.stages.search.ruin_recreate import anneal
from clusterfirst.stages.search.swap_star import exchange_routes, exchanges_for

NEIGHBOURS = 30
SMALLEST_CUT = 300  # customers; below, two copies instead of two halves
# Temperatures in mean distances to the ten nearest neighbours. The best first one grows
# with the iterations per customer: 0.1 at 5, 0.2 at 20, 0.4 at 80, 1 at 400 (LOG.md).
HOT_EACH, HOTTEST, COLD = 0.045, 1.0, 0.05
SPEED = 150_000  # iterations per second and thread, to foresee a run by the clock
CHUNK = 500  # iterations between two looks at the clock
LOOKS = 1000  # customers looked at by the descent between two looks at the clock
ROUNDS = 16  # times the map is cut, at least
MOST_ROUNDS = 200
ROUND_SECONDS = 0.2  # of a longer run, plus this per customer: a cut costs 10 us each
ROUND_SECONDS_EACH = 2e-4
LAST_SECONDS_EACH = 2e-5  # per customer, for the last descent
LAST_SHARE = 0.03  # of the time, at most
TIDY_SECONDS_EACH = 5e-6  # kept back for reading and judging the answer
GOLDEN = 0.6180339887498949  # its multiples spread cutting lines evenly

Routes = list[list[int]]
OnImprovement = Callable[[Routes, float, float], None]


@dataclass(frozen=True)
class PolishSettings:
    """`iterations` per thread (rounded up to CHUNK) end the search, repeatably."""

    seed: int = 0
    iterations: int | None = None
    threads: int = 2


@dataclass(frozen=True)
class Polished:
    """Routes never worse than the start."""

    routes: Routes
    cost: float
    history: list[tuple[float, float]]  # (seconds, cost), the start first
    note: str = ""  # why nothing was tried, if so


@dataclass(frozen=True)
class _Budget:
    """How much of the allowed time or iterations is used."""

    start: float
    seconds: float
    iterations: float

    @classmethod
    def of(
        cls, instance: Instance, settings: PolishSettings, deadline: Deadline
    ) -> _Budget:
        left = deadline.left() - TIDY_SECONDS_EACH * instance.num_customers
        limit = math.inf if settings.iterations is None else settings.iterations
        return cls(time.perf_counter(), max(left, 1e-9), max(limit, 1))

    def used(self, done: int) -> float:
        passed = time.perf_counter() - self.start
        return max(passed / self.seconds, done / self.iterations)


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
    start = time.perf_counter()
    verdict = judge(instance, Solution(routes))
    if not verdict.feasible:
        raise InputError(verdict.violations)
    if deadline.left() == math.inf and settings.iterations is None:
        rule = "a time limit or a number of iterations is needed"
        raise InputError(Problem("E404", "polish", "neither", rule))
    current = Flat.of(routes)
    cost = _length(instance, current)
    best = Polished(current.lists(), cost, [(0.0, cost)])
    note = too_large(instance)
    if instance.num_customers < 2 or deadline.passed() or note:
        return replace(best, note=note)
    search = _Search(instance, settings, _Budget.of(instance, settings, deadline))
    with ThreadPoolExecutor(settings.threads) as pool:
        for step in range(search.rounds):
            if search.used() >= 1.0:
                break
            regions = search.regions(current, step)
            search.done = max(pool.map(search.work, regions, [step] * len(regions)))
            current, found = search.merge(regions)
            cost = _length(instance, found)
            if cost < best.cost * (1 - 1e-12):
                seconds = time.perf_counter() - start
                lists = found.lists()
                best = Polished(lists, cost, [*best.history, (seconds, cost)])
                if on_improvement is not None:
                    on_improvement(lists, cost, seconds)
    return best


def warm_up() -> None:
    """Compile the kernels, or load them from numba's cache, before they are needed."""
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    square = Instance(demands=np.array([0, 1, 1, 1]), capacity=2, coords=corners)
    settings = PolishSettings(iterations=1, threads=1)
    polish(square, [[1], [2], [3]], settings, Deadline.never())


def _length(instance: Instance, routes: Flat) -> float:
    """Length of all routes, counted afresh."""
    out = instance.lengths(0, routes.stops[routes.starts[:-1]])
    back = instance.lengths(routes.stops[routes.starts[1:] - 1], 0)
    steps = instance.lengths(routes.stops[:-1], routes.stops[1:])
    steps[routes.starts[1:-1] - 1] = 0.0  # from one route to the next
    return float(out.sum() + back.sum() + steps.sum())


class _Search:
    """What stays the same between rounds."""

    def __init__(
        self, instance: Instance, settings: PolishSettings, budget: _Budget
    ) -> None:
        self.instance = instance
        self.settings = settings
        self.budget = budget
        self.ground: Ground = whole_ground(instance, NEIGHBOURS)
        self.scale = float(self.ground.near_gap[1:, :10].mean())
        self.plane: FloatArray | None = None
        if instance.num_customers >= SMALLEST_CUT and instance.coords is not None:
            self.plane = instance.plane
        self.done = 0
        foreseen = min(budget.iterations, budget.seconds * SPEED) * settings.threads
        each = foreseen / instance.num_customers
        self.hot = min(max(HOT_EACH * math.sqrt(each), COLD), HOTTEST)
        last = LAST_SECONDS_EACH * instance.num_customers / budget.seconds
        self.last_share = min(last, LAST_SHARE)
        # No more rounds than there is work for: the last one ends with a descent.
        self.rounds = ROUNDS
        if budget.iterations < ROUNDS * CHUNK:
            self.rounds = math.ceil(budget.iterations / CHUNK)
        elif budget.seconds < math.inf:
            each = ROUND_SECONDS + ROUND_SECONDS_EACH * instance.num_customers
            self.rounds = int(min(max(budget.seconds / each, ROUNDS), MOST_ROUNDS))

    def used(self) -> float:
        """Share of the budget that is used."""
        return self.budget.used(self.done)

    def regions(self, routes: Flat, step: int) -> list[Region]:
        """Cut the routes in two, or copy them."""
        threads = self.settings.threads
        seed = (self.settings.seed * MOST_ROUNDS + step) * 2
        limit = self.instance.vehicles
        spare = math.inf if limit is None else limit - len(routes.sizes)
        if threads == 1 or self.plane is None or len(routes.sizes) < 4:
            slots = len(routes.sizes) + int(min(spare, 4))
            return [
                make_region(self.ground, routes, slots, seed + i)
                for i in range(threads)
            ]
        parts = halves(self.plane, routes, math.pi * GOLDEN * (step + 1))
        extra = (int(min(spare, 8) + 1) // 2, int(min(spare, 8)) // 2)
        return [
            make_region(self.ground, part, len(part.sizes) + extra[i], seed + i)
            for i, part in enumerate(parts)
        ]

    def work(self, region: Region, step: int) -> int:
        """Anneal one region for this round's share; return the iterations so far."""
        until = (step + 1) / self.rounds
        last = step + 1 == self.rounds
        state = (region.tours, region.best, region.memory)
        done = self.done
        if step == 0:
            self._descend(region, until, exchanges=False)
        while (used := self.budget.used(done)) < until - self.last_share * last:
            temperature = self.scale * self.hot * (COLD / self.hot) ** used
            anneal(region.ground, state, region.rng, CHUNK, temperature)
            done += CHUNK
        if last:
            for now, best in zip(region.tours, region.best, strict=True):
                np.copyto(now, best)
            region.memory.cost[0] = region.memory.cost[1]
            self._descend(region, until, exchanges=True)
        return done

    def _descend(self, region: Region, until: float, *, exchanges: bool) -> None:
        """Bring a region to a local optimum: at first, a hundred times faster.

        Exchanges between routes (SWAP*) come where annealing has ended: they find what
        it left over, and before it they bring nothing that stays (LOG.md).
        """
        ground, tours = region.ground, region.tours
        notes, memory = notes_for(ground, tours), exchanges_for(ground, tours)
        route = 0
        while self.budget.used(0) < until:
            change = 0.0
            if notes.ends[1]:
                change = descend(ground, tours, notes, LOOKS, False)
            elif exchanges and route >= 0:
                route, change = exchange_routes(ground, tours, notes, memory, route)
            else:
                break
            region.memory.cost[:] += change
        for best, now in zip(region.best, tours, strict=True):
            np.copyto(best, now)

    def merge(self, regions: list[Region]) -> tuple[Flat, Flat]:
        """Return the current and the best routes of all regions together."""
        if sum(len(r.members) - 1 for r in regions) > self.instance.num_customers:
            regions = [min(regions, key=lambda r: r.cost)]  # they were copies
        now = together([r.routes(best=False) for r in regions])
        return now, together([r.routes(best=True) for r in regions])
