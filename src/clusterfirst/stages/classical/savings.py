"""Clarke and Wright (1964): merge routes end to end by their savings.

Parallel version with a shape parameter: s_ij = d(0,i) + d(0,j) - shape * d(i,j).
Only near pairs are looked at when there are many customers; a bare distance matrix
is enough. Shape 1 is the original; others are tried until time is up.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import Instance, IntArray
from clusterfirst.stages.compiled import kernel
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.search_state import SearchState
from clusterfirst.stages.tours.routing import QUICK, improve

PAIRS = 60_000  # pairs of neighbours looked at, about; at least 20 per customer
SHAPES = (1.0, 1.2, 0.9, 1.4, 0.8, 1.1, 1.3, 0.7, 1.6, 1.05, 0.95, 1.15, 1.25)
LOOK = 2000  # customers whose neighbours are found between two looks at the clock
SPREAD = 0.1  # later tries multiply each saving by 1 +- this


def savings(state: SearchState) -> None:
    """Offer the routes of each shape, then of randomly disturbed savings."""
    instance = state.instance
    with state.stage("neighbours"):
        most = max(20, PAIRS // instance.num_customers)
        pairs = near_pairs(instance, most, state.deadline)
        if pairs is None:
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


def near_pairs(instance: Instance, most: int, deadline: Deadline) -> IntArray | None:
    """Pairs (p, 2) of customers, each with its nearest; None when time is up."""
    n = instance.num_customers
    most = min(most, n - 1)
    if most < 1:
        return np.empty((0, 2), dtype=np.int64)
    parts = []
    for part in _nearest(instance, most):
        parts.append(part)
        if deadline.passed():
            return None
    near = np.concatenate(parts)
    if deadline.passed():
        return None
    own = np.repeat(np.arange(1, n + 1), near.shape[1])
    both = np.column_stack(
        [np.minimum(own, near.ravel()), np.maximum(own, near.ravel())]
    )
    both = both[both[:, 0] < both[:, 1]]
    if deadline.passed():
        return None
    keys = np.unique(both[:, 0] * (n + 1) + both[:, 1])
    return np.column_stack([keys // (n + 1), keys % (n + 1)])


def _nearest(instance: Instance, most: int) -> Iterator[IntArray]:
    """(rows, most or one more) near customers of some customers, then of the next."""
    n = instance.num_customers
    if instance.coords is None:
        rows = np.arange(1, n + 1)
        for row in range(1, n + 1):
            away = instance.lengths(row, rows)
            away[row - 1] = np.inf
            yield np.argpartition(away, most - 1)[None, :most] + 1
        return
    from scipy.spatial import cKDTree

    points = instance.plane[1:]
    tree = cKDTree(points)
    for first in range(0, n, LOOK):
        yield tree.query(points[first : first + LOOK], k=most + 1)[1] + 1


def _merged(instance: Instance, pairs: IntArray) -> Routes:
    """Routes after merging along these pairs in turn."""
    load = instance.demand_units.copy()
    left, right = np.zeros((2, len(load)), dtype=np.int64)
    ways = (np.arange(len(load)), left, right)
    _merge(pairs, load, instance.capacity_units, ways)
    routes = []
    onward = np.column_stack([left, right]).tolist()
    seen = [False] * len(onward)
    for start in range(1, len(onward)):
        if seen[start] or (onward[start][0] and onward[start][1]):
            continue  # inside a route; its end will come
        route, before, here = [], 0, start
        while here:
            seen[here] = True
            route.append(here)
            a, b = onward[here]
            before, here = here, a if a != before else b
            if here == before:
                break
        routes.append(route)
    return Routes.of(routes)


@kernel
def _merge(pairs: Any, load: Any, capacity: int, ways: Any) -> None:
    """Neighbours of each customer (0: the depot) after all merges that fit."""
    root, left, right = ways
    for p in range(len(pairs)):
        a, b = pairs[p, 0], pairs[p, 1]
        if (left[a] and right[a]) or (left[b] and right[b]):
            continue
        x, y = a, b
        while root[x] != x:
            root[x] = root[root[x]]
            x = root[x]
        while root[y] != y:
            root[y] = root[root[y]]
            y = root[y]
        if x == y or load[x] + load[y] > capacity:
            continue
        root[y] = x
        load[x] += load[y]
        if left[a]:
            right[a] = b
        else:
            left[a] = b
        if left[b]:
            right[b] = a
        else:
            left[b] = a
