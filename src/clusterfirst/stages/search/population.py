"""A population of routes, and children of two of them: where small maps start again.

Order crossover and split (Prins, Computers and Operations Research 31, 2004), as in HGS
(Vidal et al., Operations Research 60, 2012): a child visits some customers in the order
of one parent, then the others in that of the other, and is cut into routes at least
cost. The annealing that follows takes the place of a local search.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from clusterfirst.problem.instance import Instance, IntArray
from clusterfirst.stages.compiled import kernel
from clusterfirst.stages.routes import Routes

SAME = 1e-9  # of the cost: nearer ones count as the same routes


class Population:
    """The shortest routes that falls of the temperature ended with."""

    def __init__(self, instance: Instance, most: int, seed: int) -> None:
        self.instance = instance
        self.most = most
        self.rng = np.random.default_rng(seed)
        self.members: list[tuple[float, Routes]] = []  # shortest first

    def offer(self, routes: Routes) -> None:
        """Take routes in, unless they are here already or too long."""
        cost = float(routes.lengths(self.instance).sum())
        if any(abs(cost - other) <= SAME * cost for other, _ in self.members):
            return
        self.members.append((cost, routes))
        self.members.sort(key=lambda member: member[0])
        del self.members[self.most :]

    def child(self) -> Routes:
        """Routes that come from two members; a copy where the fleet is too small."""
        first, second = self._parent(), self._parent()
        order = crossed(
            giant_tour(self.instance, first),
            giant_tour(self.instance, second),
            *self.rng.integers(self.instance.num_customers, size=2).tolist(),
        )
        child, limit = split(self.instance, order), self.instance.vehicles
        return child if limit is None or len(child) <= limit else first

    def _parent(self) -> Routes:
        """The shorter of two drawn members."""
        return self.members[int(self.rng.integers(len(self.members), size=2).min())][1]


def giant_tour(instance: Instance, routes: Routes) -> IntArray:
    """All customers, route by route in the order of the directions they lie in."""
    plane = instance.plane
    middles = np.add.reduceat(plane[routes.stops], routes.starts[:-1])
    x, y = (middles / routes.sizes[:, None] - plane[0]).T
    return np.concatenate([routes[r] for r in np.argsort(np.arctan2(y, x))])


def crossed(first: IntArray, second: IntArray, start: int, end: int) -> IntArray:
    """Order crossover: `first` from start to end, round the end, then as `second`."""
    size = (end - start) % len(first) + 1
    kept = np.roll(first, -start)[:size]
    others = np.roll(second, -(end + 1))
    missing = np.ones(len(first) + 1, dtype=bool)
    missing[kept] = False
    return np.concatenate([kept, others[missing[others]]])


def split(instance: Instance, order: IntArray) -> Routes:
    """The shortest routes that visit customers in this order, one after the other."""
    n = len(order)
    cost, begin = np.zeros(n + 1), np.zeros(n + 1, dtype=np.int64)
    _split(
        instance.lengths(0, order),
        instance.lengths(order[:-1], order[1:]),
        instance.lengths(order, 0),
        instance.demand_units[order],
        instance.capacity_units,
        cost,
        begin,
    )
    starts = [n]
    while starts[-1] > 0:
        starts.append(int(begin[starts[-1]]))
    return Routes(order, np.array(starts[::-1], dtype=np.int64))


@kernel
def _split(
    out: Any,
    legs: Any,
    back: Any,
    demands: Any,
    capacity: int,
    cost: Any,
    begin: Any,
) -> None:
    """Least cost of the first j customers, and where their last route begins."""
    for j in range(1, len(cost)):
        cost[j] = math.inf
        load, way, i = demands[j - 1], 0.0, j - 1
        while True:
            whole = cost[i] + out[i] + way + back[j - 1]
            if whole < cost[j]:
                cost[j] = whole
                begin[j] = i
            if i == 0 or load + demands[i - 1] > capacity:
                break
            i -= 1
            load += demands[i]
            way += legs[i]
