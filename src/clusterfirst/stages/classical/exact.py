"""Instances that need no search: where a solution is optimal, and why.

Up to eight customers every way to split them is tried, by dynamic programming over
sets. Beyond that two cases are plain: every customer fills a vehicle, or all of them
fit in one and the tour is short enough to be solved exactly.
"""

from __future__ import annotations

import numpy as np

from clusterfirst.problem.instance import FloatArray, Instance
from clusterfirst.stages.routes import Routes

FEW = 8  # customers up to which every split is tried
ONE_TOUR = 12  # customers up to which the shortest tour is found


def optimal_routes(instance: Instance) -> tuple[Routes, str] | None:
    """Optimal routes and the reason why they are, where that takes milliseconds.

    None: the instance is not of these kinds, or nothing fits into its fleet limit.
    """
    n = instance.num_customers
    if n <= FEW:
        routes = _best_split(instance)
        return None if routes is None else (routes, "every split was tried")
    units = np.sort(instance.demand_units[1:])
    rows = np.arange(1, n + 1)
    limit = n if instance.vehicles is None else instance.vehicles
    if int(units[:2].sum()) > instance.capacity_units and n <= limit:
        return Routes(rows, np.arange(n + 1)), "no two customers fit in one vehicle"
    # Two routes are no shorter than one through both: true of plain distances, not of
    # rounded ones or of a matrix.
    plain = instance.metric != "matrix" and instance.rounding == "none"
    fits = int(units.sum()) <= instance.capacity_units
    if plain and fits and n <= ONE_TOUR:
        tour = _walk(instance, _paths(instance), (1 << n) - 1)
        return Routes.of([tour]), "one vehicle holds all, and its tour is the shortest"
    return None


def _best_split(instance: Instance) -> Routes | None:
    """The cheapest split into tours; None if the fleet limit allows none."""
    n = instance.num_customers
    everyone = (1 << n) - 1
    limit = n if instance.vehicles is None else min(n, instance.vehicles)
    path = _paths(instance)
    chosen = np.arange(everyone + 1)[:, None] >> np.arange(n) & 1
    loads = chosen @ instance.demand_units[1:]
    closed = (path + instance.distances[1:, 0]).min(axis=1)
    tour = np.where(loads <= instance.capacity_units, closed, np.inf).tolist()
    # best[k][s]: least length of the customers in s on at most k routes
    best = [[0.0] + [np.inf] * everyone]
    taken = [[0] * (everyone + 1)]
    for _ in range(limit):
        before, now, first = best[-1], list(best[-1]), list(taken[-1])
        for rest in range(1, everyone + 1):
            lowest = rest & -rest  # some route serves the first customer: that one
            part = rest
            while part:
                length = tour[part] + before[rest ^ part]
                if part & lowest and length < now[rest]:
                    now[rest], first[rest] = length, part
                part = (part - 1) & rest
        best.append(now)
        taken.append(first)
    if best[-1][everyone] == np.inf:
        return None
    routes, rest = [], everyone
    for k in range(limit, 0, -1):
        if rest and best[k][rest] < best[k - 1][rest]:
            routes.append(_walk(instance, path, taken[k][rest]))
            rest ^= taken[k][rest]
    return Routes.of(routes)


def _paths(instance: Instance) -> FloatArray:
    """(sets, n) the shortest path through a set to each of its customers.

    Paths begin at the depot (Held and Karp 1962).
    """
    n, d = instance.num_customers, instance.distances
    customers = np.arange(n)
    path = np.full((1 << n, n), np.inf)
    path[1 << customers, customers] = d[0, 1:]
    for members in range(1, 1 << n):
        others = np.flatnonzero(members >> customers & 1 == 0)
        onward = path[members][:, None] + d[1:, others + 1]
        path[members | 1 << others, others] = onward.min(axis=0)
    return path


def _walk(instance: Instance, path: FloatArray, members: int) -> list[int]:
    """The shortest tour of a set, backwards from its last customer."""
    d, route, onward = instance.distances, [], 0
    while members:
        i = int((path[members] + d[1:, onward]).argmin())
        route.append(i + 1)
        members ^= 1 << i
        onward = i + 1
    return route[::-1]
