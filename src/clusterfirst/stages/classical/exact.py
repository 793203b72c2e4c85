"""Instances that need no search: where a solution is optimal, and why.

Up to eight customers every way to split them is tried, by dynamic programming over
sets. Beyond that two cases are plain: every customer fills a vehicle, or all of them
fit in one and the tour is short enough to be solved exactly.
"""

from __future__ import annotations

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import Instance, IntArray
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
    tour, order = _tours(instance)
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
            routes.append(order[taken[k][rest]])
            rest ^= taken[k][rest]
    return Routes.of(routes)


def _tours(instance: Instance) -> tuple[list[float], dict[int, IntArray]]:
    """Length of the shortest tour of every set that fits (else inf), and the tour."""
    n, units = instance.num_customers, instance.demand_units
    members = [[i + 1 for i in range(n) if s >> i & 1] for s in range(1 << n)]
    fits = [int(units[rows].sum()) <= instance.capacity_units for rows in members]
    sets = [s for s in range(1, 1 << n) if fits[s]]
    routes = Routes.of(members[s] for s in sets)
    found = improve(instance, routes, True, TourSettings(), Deadline.never())
    tour = [0.0] + [np.inf] * ((1 << n) - 1)
    for s, length in zip(sets, found.lengths(instance).tolist(), strict=True):
        tour[s] = length
    return tour, dict(zip(sets, found, strict=True))
