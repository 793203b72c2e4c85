"""Clarke and Wright (1964): merge routes end to end by their savings.

Parallel version with a shape parameter: s_ij = d(0,i) + d(0,j) - shape * d(i,j).
Only near pairs are looked at when there are many customers; a bare distance matrix
is enough. Shape 1 is the original; others are tried until time is up.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np

from clusterfirst.problem.clock import Deadline, TimeUpError
from clusterfirst.problem.instance import Instance, IntArray
from clusterfirst.stages.compiled import inlined, kernel
from clusterfirst.stages.neighbours import nearest_customers
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.search_state import SearchState
from clusterfirst.stages.tours.routing import QUICK, improve

PAIRS = 30_000  # pairs of neighbours looked at, about; at least 20 per customer
SHAPES = (1.0, 1.2, 0.9, 1.4, 0.8, 1.1, 1.3, 0.7, 1.6, 1.05, 0.95, 1.15, 1.25)
SPREAD = 0.1  # later tries multiply each saving by 1 +- this


def savings(state: SearchState) -> None:
    """Offer the routes of each shape, then of randomly disturbed savings."""
    instance = state.instance
    with state.stage("neighbours"):
        most = max(20, PAIRS // instance.num_customers)
        try:
            pairs = near_pairs(instance, most, state.deadline)
        except TimeUpError:
            return
        apart = instance.lengths(pairs[:, 0], pairs[:, 1])
        out = instance.lengths(0, np.arange(instance.num_customers + 1))
    rng = np.random.default_rng(state.seed)
    best_shape = 1.0
    for turn in count():
        if state.finished:
            return
        noisy = turn >= len(SHAPES)
        shape = best_shape if noisy else SHAPES[turn]
        gain = out[pairs[:, 0]] + out[pairs[:, 1]] - shape * apart
        if noisy:
            gain *= rng.uniform(1 - SPREAD, 1 + SPREAD, len(gain))
        with state.stage("merge"):
            order = np.argsort(-gain, kind="stable")
            if instance.vehicles is None:  # a limit may need merges at a loss
                order = order[gain[order] > 0]
            routes = _merged(instance, pairs[order])
        with state.stage("tours"):
            routes = improve(instance, routes, False, QUICK, state.deadline)
        before = state.best_cost
        if state.offer(routes) < before and not noisy:
            best_shape = shape
        state.end_round()


def near_pairs(instance: Instance, most: int, deadline: Deadline) -> IntArray:
    """Pairs (p, 2) of customers, each with its nearest; TimeUpError when time is up."""
    near = nearest_customers(instance, most, deadline)
    deadline.look()
    pairs = np.empty((near.size, 2), dtype=np.int64)
    return pairs[: _each_once(near, pairs)]


def _merged(instance: Instance, pairs: IntArray) -> Routes:
    """Routes after merging along these pairs in turn."""
    load = instance.demand_units.copy()
    left, right = np.zeros((2, len(load)), dtype=np.int64)
    ways = (np.arange(len(load)), left, right)
    _merge_within(pairs, load, instance.capacity_units, ways)
    return routes_of(left, right)


def routes_of(left: IntArray, right: IntArray) -> Routes:
    """Routes from the two neighbours of each customer (0: the depot); uses them up."""
    stops = np.empty(len(left) - 1, dtype=np.int64)
    starts = np.zeros(len(left), dtype=np.int64)
    return Routes(stops, starts[: 1 + _read(left, right, stops, starts)])


@kernel
def _each_once(near: Any, pairs: Any) -> int:
    """Fill in the pairs of customers that are near, smaller number first."""
    found = 0
    for row in range(len(near)):
        own = row + 1
        for i in range(near.shape[1]):
            other = near[row, i]
            if other == own:
                continue
            mutual = False
            if other < own:  # then the other may have named the pair
                for j in range(near.shape[1]):
                    mutual |= near[other - 1, j] == own
            if not mutual:
                pairs[found, 0] = min(own, other)
                pairs[found, 1] = max(own, other)
                found += 1
    return found


@kernel
def _read(left: Any, right: Any, stops: Any, starts: Any) -> int:
    """Write down the routes from end to end; return their number.

    A customer with a neighbour on both sides is inside a route; its end will come.
    """
    at, count = 0, 0
    for end in range(1, len(left)):
        if left[end] == -1 or (left[end] > 0 and right[end] > 0):
            continue
        last, here = 0, end
        while here > 0:
            stops[at] = here
            at += 1
            onward = left[here] if left[here] != last else right[here]
            last = here
            left[here] = -1
            here = onward
        count += 1
        starts[count] = at
    return count


@kernel
def _merge_within(pairs: Any, load: Any, capacity: int, ways: Any) -> None:
    """Neighbours of each customer (0: the depot) after all merges that fit."""
    merge(pairs, load, capacity, ways, None)


@inlined
def merge(pairs: Any, load: Any, capacity: int, ways: Any, limits: Any) -> None:
    """The same within one capacity, or (not None) within the limits of vehicles."""
    root, left, right = ways
    for p in range(len(pairs)):
        a, b = pairs[p, 0], pairs[p, 1]
        if (left[a] and right[a]) or (left[b] and right[b]):
            continue
        x, y = _root_of(root, a), _root_of(root, b)
        if x == y or load[x] + load[y] > capacity:
            continue
        if limits is not None and not _may_merge(load, limits, p, x, y):
            continue
        root[y] = x
        load[x] += load[y]
        _join(left, right, a, b)


@inlined
def _may_merge(load: Any, limits: Any, p: int, x: int, y: int) -> bool:
    """Whether some kind of vehicle may drive routes x and y as one; if so, it is noted.

    What pair p saves in length and minutes is taken off; x stands for the new route.
    """
    gain, saved, sums, kinds = limits
    wish = max(sums.wish[x], sums.wish[y])
    if min(sums.wish[x], sums.wish[y]) not in (0, wish):
        return False
    both = load[x] + load[y]
    stops = sums.stops[x] + sums.stops[y]
    length = sums.length[x] + sums.length[y] - gain[p]
    minutes = sums.minutes[x] + sums.minutes[y] - saved[p]
    for k in range(len(kinds.capacity)):
        fits = both <= kinds.capacity[k] and stops <= kinds.stops[k]
        fits = fits and length <= kinds.longest[k] and minutes <= kinds.slowest[k]
        if fits and kinds.allowed[wish, k]:
            sums.stops[x], sums.length[x], sums.minutes[x] = stops, length, minutes
            sums.wish[x] = wish
            return True
    return False


@inlined
def _root_of(root: Any, customer: int) -> int:
    """The customer that stands for a route; ways there get shorter."""
    while root[customer] != customer:
        root[customer] = root[root[customer]]
        customer = root[customer]
    return customer


@inlined
def _join(left: Any, right: Any, a: int, b: int) -> None:
    """Make the ends of two routes neighbours."""
    if left[a]:
        right[a] = b
    else:
        left[a] = b
    if left[b]:
        right[b] = a
    else:
        left[b] = a
