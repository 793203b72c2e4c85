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
from clusterfirst.stages.compiled import kernel
from clusterfirst.stages.neighbours import nearest_customers
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.search_state import SearchState
from clusterfirst.stages.tours.routing import QUICK, improve

PAIRS = 60_000  # pairs of neighbours looked at, about; at least 20 per customer
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
    n = instance.num_customers
    near = nearest_customers(instance, most, deadline)
    deadline.look()
    own = np.repeat(np.arange(1, n + 1), near.shape[1])
    low, high = np.minimum(own, near.ravel()), np.maximum(own, near.ravel())
    deadline.look()
    keys = np.unique(low * (n + 1) + high)
    return np.column_stack([keys // (n + 1), keys % (n + 1)])


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
