"""Petal (Foster and Ryan 1976): choose the best routes from a pool of petals.

A petal is a stretch of customers in angular order that fits in one vehicle. The best
ring of petals of an order is a shortest path round the circle and is found exactly.
Orders are many: the angle itself, spirals (the angle grows with the radius), sweeps
of the near and the far customers apart, which let routes pass one behind the other,
and slightly disturbed ones. Of all their routes a set-partitioning program (HiGHS)
picks the best.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np

from clusterfirst.problem.clock import NEVER, Deadline, TimeUpError
from clusterfirst.problem.instance import FloatArray, Instance, IntArray
from clusterfirst.stages.classical.sweep import angular_order, reach, sweep
from clusterfirst.stages.compiled import kernel
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.search.pool import recombine
from clusterfirst.stages.search_state import SearchState, fleet_limit
from clusterfirst.stages.tours.routing import QUICK, improve

TWISTS = (0.0, 0.35, -0.35, 0.8, -0.8)  # radians from the depot to the rim
RINGS = (0.2, 0.3, 0.45, 0.6)  # shares of the customers that count as near
JITTER = 0.5  # disturbance of the angle, in mean petal widths
PIECE = 2000  # positions whose petals are made between two looks at the clock
MAX_WORK = 3e8  # insertion steps; beyond it petals are too long and a sweep is made
POOL_SHARE = 0.6  # of the time goes into the pool, the rest into choosing
ORDERS = 40  # orders tried when no clock and no iterations say otherwise
MOST_RINGS = 1000  # whose routes are chosen from
MOST_CHOSEN_FROM = 2000  # customers above which HiGHS would only lose the time


def petal(state: SearchState) -> None:
    """Offer rings of petals of many orders, then the best cover from all of them."""
    instance = state.instance
    order = angular_order(instance)
    longest = int(reach(instance.demand_units[order], instance.capacity_units).max())
    if float(len(order)) * longest * longest > MAX_WORK:
        state.notes.append("petals are too long here: the best sweep is given")
        sweep(state)
        return
    rings: list[list[list[int]]] = []
    small = instance.num_customers <= MOST_CHOSEN_FROM
    building = state.deadline.share(POOL_SHARE if small else 1.0)
    rng = np.random.default_rng(state.seed)
    endless = state.iterations is None and state.deadline.left() == np.inf
    for turn in count():
        if state.finished or building.passed() or (endless and turn >= ORDERS):
            break
        parts = _parts(instance, turn, rng)
        try:
            routes = [route for part in parts for route in _ring(state, part)]
        except TimeUpError:
            break
        ring = Routes.of(routes)
        state.offer(ring)
        if turn < MOST_RINGS:
            rings.append(ring.lists())
        state.end_round()
    if small and state.answered:
        with state.stage("cover"):
            state.offer(Routes.of(recombine(instance, rings, state.deadline)))


def _parts(instance: Instance, turn: int, rng: np.random.Generator) -> list[IntArray]:
    """Circular orders that together hold every customer once: one, or near and far."""
    if turn < len(TWISTS):
        return [angular_order(instance, TWISTS[turn])]
    if turn < len(TWISTS) + len(RINGS):
        return _near_and_far(instance, RINGS[turn - len(TWISTS)], 0.0)
    share = rng.uniform(0.1, 0.7)
    twist = rng.normal(0.0, 0.5)
    if turn % 2:
        return _near_and_far(instance, share, twist)
    width = JITTER * 2 * np.pi / max(instance.min_vehicles, 1)
    noise = rng.normal(0.0, width, instance.num_customers)
    return [angular_order(instance, twist, noise)]


def _near_and_far(instance: Instance, share: float, twist: float) -> list[IntArray]:
    order = angular_order(instance, twist)
    away = instance.plane[1:] - instance.plane[0]
    radius = np.hypot(away[:, 0], away[:, 1])
    near = radius[order - 1] <= np.quantile(radius, share)
    return [part for part in (order[near], order[~near]) if len(part)]


def _ring(state: SearchState, order: IntArray) -> Routes:
    """Tours of the shortest ring of petals of an order.

    A charge per route grows until the number of routes is near its minimum if the
    fleet is limited.
    """
    instance = state.instance
    with state.stage("petals"):
        table = petal_lengths(instance, order, state.deadline)
    twice = np.concatenate([order, order])
    n, widest = table.shape
    units = int(instance.demand_units[order].sum())
    fewest = -(-units // instance.capacity_units)
    spare = fleet_limit(state.instance) - instance.min_vehicles
    charge = 0.0
    for _ in range(12):
        with state.stage("petals"):
            cuts = _shortest_ring(table + charge, min(widest, n), state.deadline)
        if len(cuts) <= fewest + spare:
            break
        charge = max(2 * charge, 0.05 * float(table[:, 0].mean()))
    ends = np.append(cuts[1:], cuts[0] + n)
    pairs = zip(cuts.tolist(), ends.tolist(), strict=True)
    rows = Routes.of(twice[a:b] for a, b in pairs)
    with state.stage("tours"):
        return improve(instance, rows, True, QUICK, state.deadline)


def petal_lengths(
    instance: Instance, order: IntArray, deadline: Deadline = NEVER
) -> FloatArray:
    """Estimated tour length [i, w] of the w + 1 customers from position i on.

    Infinite where they do not fit in one vehicle. TimeUpError when time is up.
    """
    counts = reach(instance.demand_units[order], instance.capacity_units)
    widest = int(counts.max())
    twice = np.concatenate([order, order])
    ahead = twice[np.arange(len(order))[:, None] + np.arange(widest)[None, :]]
    band = instance.lengths(ahead, order[:, None])
    lengths, after = np.full(band.shape, np.inf), np.empty(widest, dtype=np.int64)
    out = instance.lengths(0, order)
    for begin in range(0, len(order), PIECE):
        deadline.look()
        some = range(begin, min(begin + PIECE, len(order)))
        _insert_all((some.start, some.stop), band, out, counts, after, lengths)
    return lengths


@kernel
def _insert_all(
    some: Any, band: Any, out: Any, counts: Any, after: Any, lengths: Any
) -> None:
    """Tour length of each stretch, customers inserted in turn where cheapest.

    `some` are the first and the end of the positions to begin at. band[i, w] is the
    distance from position i to position i + w, out[i] that from the depot to i.
    """
    n = len(band)
    for i in range(some[0], some[1]):
        first, total = 0, 2.0 * out[i]  # the route as a chain of offsets, -1 ends it
        after[0] = -1
        lengths[i, 0] = total
        for w in range(1, counts[i]):
            here = (i + w) % n
            best, best_at = (
                out[here]
                + band[i + first - (i + first) // n * n, w - first]
                - out[(i + first) % n],
                -2,
            )
            a = first
            while a >= 0:
                b = after[a]
                to_a = band[(i + a) % n, w - a]
                if b < 0:
                    extra = to_a + out[here] - out[(i + a) % n]
                else:
                    low, high = min(a, b), max(a, b)
                    extra = (
                        to_a
                        + band[(i + b) % n, w - b]
                        - band[(i + low) % n, high - low]
                    )
                if extra < best:
                    best, best_at = extra, a
                a = b
            if best_at == -2:
                after[w] = first
                first = w
            else:
                after[w] = after[best_at]
                after[best_at] = w
            total += best
            lengths[i, w] = total


def _shortest_ring(table: FloatArray, starts: int, deadline: Deadline) -> IntArray:
    """First positions of the stretches of the cheapest partition of the circle.

    Where time is up, of the starts tried until then; TimeUpError if there is none.
    """
    n = len(table)
    value, came = np.empty(n + 1), np.zeros(n + 1, dtype=np.int64)
    best, best_start, best_came = np.inf, 0, came
    deadline.look()
    for start in range(starts):
        if start and deadline.passed():
            break
        total = _ring_from(table, start, best, value, came)
        if total < best:
            best, best_start, best_came = total, start, came.copy()
    cuts, at = [], n
    while at > 0:  # each stretch begins before it ends
        at = int(best_came[at])
        cuts.append(best_start + at)
    return np.array(cuts[::-1])


@kernel
def _ring_from(table: Any, start: int, best: float, value: Any, came: Any) -> float:
    """Shortest path round the circle from a start; no further than the best one."""
    n, widest = table.shape
    value[:] = np.inf
    value[0] = 0.0
    for a in range(n):
        if value[a] == np.inf or value[a] >= best:
            continue
        for w in range(min(widest, n - a)):
            longer = value[a] + table[(start + a) % n, w]
            if longer < value[a + w + 1]:
                value[a + w + 1] = longer
                came[a + w + 1] = a
    return float(value[n])
