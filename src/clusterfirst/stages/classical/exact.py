"""Instances that need no search: where a solution is optimal, and why.

Up to eight customers every way to split them is tried, by dynamic programming over
sets. Beyond that two cases are plain: every customer fills a vehicle, or all of them
fit in one and the tour is short enough to be solved exactly.
"""

from __future__ import annotations

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import FloatArray, Instance
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.tours.routing import TourSettings, improve

FEW = 8  # customers up to which every split is tried


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
    settings = TourSettings()
    if plain and fits and n <= settings.exact:
        tour = improve(instance, Routes.of([rows]), True, settings, Deadline.never())
        return tour, "one vehicle holds all, and its tour is the shortest"
    return None


def _best_split(instance: Instance) -> Routes | None:
    """The cheapest split into tours; None if the fleet limit allows none."""
    n = instance.num_customers
    everyone = (1 << n) - 1
    limit = n if instance.vehicles is None else min(n, instance.vehicles)
    tour, last = _tours(instance)
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
            routes.append(_walk(instance, last, taken[k][rest]))
            rest ^= taken[k][rest]
    return Routes.of(routes)


def _tours(instance: Instance) -> tuple[list[float], FloatArray]:
    """Length of the shortest tour of every set that fits (else inf); Held and Karp.

    The second array is (sets, n): shortest path from the depot through a set that ends
    at each of its customers.
    """
    n = instance.num_customers
    d = instance.distances
    path = np.full((1 << n, n), np.inf)
    path[0] = 0.0
    tour = [0.0] + [np.inf] * ((1 << n) - 1)
    for members in range(1, 1 << n):
        inside = [i for i in range(n) if members >> i & 1]
        for i in inside:
            before = members ^ (1 << i)
            path[members, i] = (
                (path[before] + d[1:, i + 1]).min() if before else d[0, i + 1]
            )
        rows = np.array(inside) + 1
        if int(instance.demand_units[rows].sum()) <= instance.capacity_units:
            tour[members] = float((path[members] + d[1:, 0]).min())
    return tour, path


def _walk(instance: Instance, path: FloatArray, members: int) -> list[int]:
    """The shortest tour of a set, backwards from its last customer."""
    d, route, onward = instance.distances, [], 0
    while members:
        i = int((path[members] + d[1:, onward]).argmin())
        route.append(i + 1)
        members ^= 1 << i
        onward = i + 1
    return route[::-1]
