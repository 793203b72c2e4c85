"""What a day's constraints say about routes: one sentence for each that is broken.

Part of the judge (`solution.py`); shares no code with the stages that keep them.
"""

from __future__ import annotations

import numpy as np

from clusterfirst.problem.constraints import Constraints
from clusterfirst.problem.errors import Problem
from clusterfirst.problem.fleet import BoolArray, FloatArray, IntArray
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.stops import Stops

TOLERANCE = 1e-9  # of a length or duration, relative: float noise breaks no limit


def fleet_violations(constraints: Constraints, vehicle: IntArray) -> list[Problem]:
    """Vehicles that drive twice, or stay at home and must not.

    `vehicle` is (R,) the vehicle of each route.
    """
    fleet = constraints.fleet
    names, problems = fleet.vehicle_names, []
    used = np.bincount(vehicle, minlength=fleet.size)
    for v in np.flatnonzero(used > 1).tolist():
        got, rule = f"{used[v]} routes", "a vehicle drives one route"
        problems.append(Problem("E827", f"vehicle {names[v]}", got, rule))
    for v in np.flatnonzero((used == 0) & ~fleet.optional[fleet.kind]).tolist():
        rule = "it is not optional: a route is needed"
        problems.append(Problem("E828", f"vehicle {names[v]}", "no route", rule))
    return problems


def route_violations(
    constraints: Constraints,
    vehicle: IntArray,
    stops: Stops,
    lengths: FloatArray,
    minutes: FloatArray | None,
) -> list[Problem]:
    """Routes with too many stops, too long, or too slow."""
    fleet = constraints.fleet
    kind = fleet.kind[vehicle]
    counts = stops.count.astype(np.float64)
    limits = [("E821", counts, fleet.max_stops, "stops")]
    limits.append(("E822", lengths, fleet.max_distance, "long"))
    if minutes is not None:
        limits.append(("E823", minutes, fleet.max_duration, "minutes"))
    problems = []
    for code, found, most, word in limits:
        most = most[kind]
        over = found > np.where(np.isinf(most), most, most * (1 + TOLERANCE))
        for route in np.flatnonzero(over).tolist():
            name = fleet.vehicle_names[vehicle[route]]
            rule = f"the limit of vehicle {name} is {most[route]:.10g}"
            got = f"{found[route]:.10g} {word}"
            problems.append(Problem(code, f"route {route + 1}", got, rule))
    return problems


def order_violations(
    instance: Instance, constraints: Constraints, vehicle: IntArray, stops: Stops
) -> list[Problem]:
    """Orders on a vehicle they must not ride, groups torn apart or put together."""
    problems = []
    names, ids = constraints.fleet.vehicle_names, instance.ids
    driven_by = vehicle[stops.route]
    classes, allowed = constraints.wishes
    if len(classes):
        wrong = ~allowed[classes[stops.customer], driven_by]
        for at in np.flatnonzero(wrong).tolist():
            where = f"order {ids[stops.customer[at]]}"
            rule = "this vehicle is not allowed to take it"
            problems.append(Problem("E824", where, names[driven_by[at]], rule))
    rides = np.full(instance.num_customers + 1, -1, dtype=np.int64)
    rides[stops.customer] = driven_by
    for number in _torn(constraints.groups, rides):
        group = np.flatnonzero(constraints.groups == number)
        where = f"group {constraints.group[group[0]]}"
        got = ", ".join(
            f"{ids[row]} on {names[v] if v >= 0 else 'none'}"
            for row, v in zip(
                group[:6].tolist(), rides[group[:6]].tolist(), strict=True
            )
        )
        problems.append(Problem("E825", where, got, "one vehicle must take all of it"))
    for row, other in _met(constraints.aparts, rides):
        got = f"both on {names[rides[row]]}"
        where = f"orders {ids[other]} and {ids[row]}"
        problems.append(Problem("E826", where, got, "they must not share a vehicle"))
    return problems


def _torn(groups: IntArray, rides: IntArray) -> list[int]:
    """The groups whose members do not all ride together."""
    if not len(groups):
        return []
    rows = np.flatnonzero(groups >= 0)
    low = np.full(groups.max() + 1, np.iinfo(np.int64).max)
    high = np.full(groups.max() + 1, -2)
    np.minimum.at(low, groups[rows], rides[rows])
    np.maximum.at(high, groups[rows], rides[rows])
    torn: BoolArray = low != high
    return np.flatnonzero(torn).tolist()


def _met(aparts: IntArray, rides: IntArray) -> list[tuple[int, int]]:
    """Pairs of orders that ride together and must not; each with one before it."""
    if not len(aparts):
        return []
    rows = np.flatnonzero((aparts >= 0) & (rides >= 0))
    order = rows[np.lexsort((rows, rides[rows], aparts[rows]))]
    same = (np.diff(aparts[order]) == 0) & (np.diff(rides[order]) == 0)
    at = np.flatnonzero(same)
    return list(zip(order[at + 1].tolist(), order[at].tolist(), strict=True))
