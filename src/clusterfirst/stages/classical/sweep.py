"""Sweep (Gillett and Miller 1974): fill vehicles in the order of the angle.

From each start angle and in both directions, customers are taken in turn while they
fit. A route is a stretch of the circular order, and only the last one of a sweep
depends on where it started, so all 2n sweeps share about 4n tours.
"""

from __future__ import annotations

import numpy as np

from clusterfirst.problem.instance import FloatArray, Instance, IntArray
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.search_state import SearchState
from clusterfirst.stages.tours.routing import QUICK, improve

BATCH_STOPS = 4000  # customers whose tours are computed between two looks at the clock
MEMORY = 200_000  # tours remembered
GOLDEN = 0.6180339887498949  # its multiples spread start angles evenly

Stretch = tuple[int, int]  # first position in the circular order, and length


def sweep(state: SearchState) -> None:
    """Offer the best of all sweeps; start angles are spread if time is short."""
    forward = angular_order(state.instance)
    ways = [_Way(state, forward), _Way(state, forward[::-1].copy())]
    n = len(forward)
    starts = np.argsort(np.arange(n) * GOLDEN % 1.0, kind="stable")
    per_batch = max(1, BATCH_STOPS // n)
    for at in range(0, n, per_batch):
        for way in ways:
            if state.finished:
                return
            way.try_starts(starts[at : at + per_batch].tolist())
            state.end_round()


def angular_order(
    instance: Instance, twist: float = 0.0, noise: FloatArray | None = None
) -> IntArray:
    """Customer rows by angle around the depot, nearer ones first at equal angles.

    `twist` adds so many radians per unit of relative radius: a spiral sweep; `noise`
    (n,) is added to the angles.
    """
    away = instance.plane[1:] - instance.plane[0]
    radius = np.hypot(away[:, 0], away[:, 1])
    angle = np.arctan2(away[:, 1], away[:, 0])
    angle += twist * radius / max(float(radius.max()), 1e-300)
    if noise is not None:
        angle += noise
    angle %= 2 * np.pi
    return np.lexsort([radius, angle]) + 1


def reach(units: IntArray, capacity: int) -> IntArray:
    """How many customers fit in one vehicle from each position on, round the circle."""
    n = len(units)
    upto = np.cumsum(np.concatenate([[0], units, units]))
    ends = np.searchsorted(upto, upto[:n] + capacity, side="right") - 1
    counts: IntArray = np.minimum(ends - np.arange(n), n)
    return counts


class _Way:
    """One direction of the sweep, with the tours it has seen."""

    def __init__(self, state: SearchState, order: IntArray) -> None:
        self.state, self.order = state, order
        instance = state.instance
        self.twice = np.concatenate([order, order])
        self.reach = reach(instance.demand_units[order], instance.capacity_units)
        self.known: dict[Stretch, tuple[IntArray, float]] = {}

    def try_starts(self, starts: list[int]) -> None:
        """Offer the sweeps from these positions."""
        plans = [self.stretches(start) for start in starts]
        self.learn(list({part for plan in plans for part in plan}))
        for plan in plans:
            if any(part not in self.known for part in plan):
                return  # time is up
            if sum(self.known[part][1] for part in plan) < self.state.best_cost:
                self.state.offer(Routes.of(self.known[part][0] for part in plan))

    def stretches(self, start: int) -> list[Stretch]:
        """Stretches of the sweep that starts at this position."""
        n = len(self.order)
        parts, at, left = [], start, n
        while left:
            count = min(int(self.reach[at]), left)
            parts.append((at, count))
            at, left = (at + count) % n, left - count
        return parts

    def learn(self, parts: list[Stretch]) -> None:
        """Compute the tours of new stretches, in one compiled call."""
        if len(self.known) > MEMORY:
            self.known.clear()
        new = [part for part in parts if part not in self.known]
        rows = Routes.of(self.twice[at : at + count] for at, count in new)
        with self.state.stage("tours"):
            routes = improve(
                self.state.instance, rows, True, QUICK, self.state.deadline
            )
            lengths = routes.lengths(self.state.instance)
        for part, route, length in zip(new, routes, lengths.tolist(), strict=True):
            self.known[part] = (route, length)
