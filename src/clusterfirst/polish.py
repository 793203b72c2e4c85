"""Better routes until the deadline: the anytime part of `solve`.

From any feasible routes: local search, then ruin and recreate while the temperature
falls with the share of the time that is used. Two threads work at once: on two halves
of the map, cut anew along another line from time to time so that no seam stays, or,
when the instance is small, on two copies of which the better one survives.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from clusterfirst.clock import Deadline
from clusterfirst.compiled import Ground
from clusterfirst.errors import InputError, Problem
from clusterfirst.instance import FloatArray, Instance
from clusterfirst.local_search import descend, notes_for
from clusterfirst.regions import Region, Routes, halves, make_region, whole_ground
from clusterfirst.ruin_recreate import anneal
from clusterfirst.solution import Solution, judge

NEIGHBOURS = 30
SMALLEST_CUT = 300  # customers; below, two copies instead of two halves
HOT, COLD = 0.7, 0.06  # temperatures in mean distances to the ten nearest neighbours
CHUNK = 500  # iterations between two looks at the clock
LOOKS = 1000  # customers looked at by the descent between two looks at the clock
ROUNDS = 16
GOLDEN = 0.6180339887498949  # its multiples spread cutting lines evenly

OnImprovement = Callable[[Routes, float, float], None]


@dataclass(frozen=True)
class PolishSettings:
    """`iterations` (per thread) ends the search by count, repeatably."""

    seed: int = 0
    iterations: int | None = None
    threads: int = 2


@dataclass(frozen=True)
class Polished:
    """Routes never worse than the start; history holds (seconds, cost)."""

    routes: Routes
    cost: float
    history: list[tuple[float, float]] = field(default_factory=list)


@dataclass(frozen=True)
class _Budget:
    """Which share of the allowed time or iterations is used."""

    start: float
    seconds: float
    iterations: float

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
    current: Routes = [list(route) for route in routes]
    best = Polished(current, verdict.cost, [(0.0, verdict.cost)])
    if deadline.left() == math.inf and settings.iterations is None:
        rule = "a time limit or a number of iterations is needed"
        raise InputError(Problem("E404", "polish", "neither", rule))
    if instance.num_customers < 2:
        return best
    limit = math.inf if settings.iterations is None else max(settings.iterations, 1)
    budget = _Budget(start, max(deadline.left(), 1e-9), limit)
    search = _Search(instance, settings, budget)
    with ThreadPoolExecutor(settings.threads) as pool:
        for step in range(ROUNDS):
            regions = search.regions(current, step)
            done = list(pool.map(search.work, regions, [step] * len(regions)))
            search.done = max(done)
            current, found = search.merge(regions)
            if _length(instance, found) < best.cost * (1 - 1e-12):
                cost = judge(instance, Solution(found)).cost
                seconds = time.perf_counter() - start
                best = Polished(found, cost, [*best.history, (seconds, cost)])
                if on_improvement is not None:
                    on_improvement(found, cost, seconds)
    return best


def _length(instance: Instance, routes: Routes) -> float:
    flat = np.concatenate([[0, *route] for route in routes])
    return float(instance.lengths(flat, np.append(flat[1:], 0)).sum())


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

    def regions(self, routes: Routes, step: int) -> list[Region]:
        """Cut the routes in two, or copy them."""
        threads = self.settings.threads
        seed = (self.settings.seed * ROUNDS + step) * 2
        limit = self.instance.vehicles
        spare = math.inf if limit is None else limit - len(routes)
        if threads == 1 or self.plane is None or len(routes) < 4:
            slots = len(routes) + int(min(spare, 4))
            return [
                make_region(self.ground, routes, slots, seed + i)
                for i in range(threads)
            ]
        parts = halves(self.plane, routes, math.pi * GOLDEN * (step + 1))
        extra = (int(min(spare, 8) + 1) // 2, int(min(spare, 8)) // 2)
        return [
            make_region(self.ground, part, len(part) + extra[i], seed + i)
            for i, part in enumerate(parts)
        ]

    def work(self, region: Region, step: int) -> int:
        """Anneal one region for this round's share; return the iterations so far."""
        until = (step + 1) / ROUNDS
        state = (region.tours, region.best, region.memory)
        done = self.done
        if step == 0:
            self._descend(region, until)
        while (used := self.budget.used(done)) < until:
            temperature = self.scale * HOT * (COLD / HOT) ** used
            anneal(region.ground, state, region.rng, CHUNK, temperature)
            done += CHUNK
        return done

    def _descend(self, region: Region, until: float) -> None:
        """Bring a fresh region to a local optimum first: a hundred times faster."""
        notes = notes_for(region.ground, region.tours)
        while notes.ends[1] and self.budget.used(0) < until:
            change = descend(region.ground, region.tours, notes, LOOKS)
            region.memory.cost[:] += change
        for kept, found in zip(region.best, region.tours, strict=True):
            np.copyto(kept, found)

    def merge(self, regions: list[Region]) -> tuple[Routes, Routes]:
        """Return the current and the best routes of all regions together."""
        together = sum(len(r.members) - 1 for r in regions)
        if together == self.instance.num_customers:
            chosen = regions
        else:
            chosen = [min(regions, key=lambda r: r.cost)]
        now = [route for r in chosen for route in r.routes(best=False)]
        found = [route for r in chosen for route in r.routes(best=True)]
        return now, found
