"""Routes, and the one judge of every answer that leaves the package.

The judge shares no code with the stages that make solutions: it takes routes and
the instance, recounts visits and loads in exact integers and adds up distances.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np

from clusterfirst.problem.constraints import Constraints
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.fleet import BoolArray
from clusterfirst.problem.instance import MAX_EXACT, FloatArray, Instance, IntArray
from clusterfirst.problem.stops import Stops


@dataclass(frozen=True)
class Solution:
    """Routes as tuples of customer numbers 1..n, depot left out.

    Without constraints a solution is a set of undirected cycles (the paper, Lemma 2);
    `canonical` picks one writing of it, so that equal solutions compare equal.
    `vehicles` are the numbers, from 0, of the vehicles that drive the routes; without
    them route k is driven by vehicle k. On a plain day, whose vehicles are all alike,
    they are what the routes are called, whatever the size of the fleet.
    """

    routes: tuple[tuple[int, ...], ...]
    vehicles: tuple[int, ...] | None = None

    def __init__(
        self,
        routes: Iterable[Iterable[int]],
        vehicles: Iterable[int] | None = None,
    ) -> None:
        listed = tuple(tuple(int(c) for c in route) for route in routes)
        object.__setattr__(self, "routes", listed)
        named = None if vehicles is None else tuple(int(v) for v in vehicles)
        if named is not None and len(named) != len(listed):
            rule = f"one for each of {len(listed)} routes is needed"
            raise InputError(Problem("E829", "vehicles", str(len(named)), rule))
        object.__setattr__(self, "vehicles", named)

    def canonical(self) -> Solution:
        """Each route starts at its smaller end; routes are sorted; no empty ones.

        Where vehicles are named, routes stay as they are driven, by vehicle.
        """
        if self.vehicles is not None:
            pairs = sorted(zip(self.vehicles, self.routes, strict=True))
            kept = [(v, route) for v, route in pairs if route]
            return Solution([r for _, r in kept], [v for v, _ in kept])
        directed = (r if r[0] <= r[-1] else r[::-1] for r in self.routes if r)
        return Solution(sorted(directed))

    def edges(self) -> Counter[tuple[int, int]]:
        """Undirected edges with multiplicity (a one-customer route has one twice)."""
        count: Counter[tuple[int, int]] = Counter()
        for route in self.routes:
            stops = (0, *route, 0)
            for a, b in pairwise(stops):
                count[min(a, b), max(a, b)] += 1
        return count


@dataclass(frozen=True)
class Verdict:
    """What the judge found: the cost, sums of each route, and every violation.

    `cost` is the length of all routes and the fixed costs of the vehicles they take.
    """

    cost: float
    loads: tuple[float, ...]
    violations: tuple[Problem, ...]
    lengths: tuple[float, ...] = ()
    minutes: tuple[float, ...] = ()  # with service; empty where times are not known
    unserved: tuple[int, ...] = ()  # customers without a visit

    @property
    def feasible(self) -> bool:
        """Whether nothing is violated."""
        return not self.violations


def judge(
    instance: Instance, solution: Solution, *, stated_cost: float | None = None
) -> Verdict:
    """Recompute cost and loads from scratch and list every violation.

    A stated cost is compared to within 1e-6 relative (and half a unit in the last
    place for rounded metrics, where costs are whole numbers).
    """
    violations: list[Problem] = []
    stops = _stops(instance, solution, violations)
    for number in (np.flatnonzero(stops.count == 0) + 1).tolist():
        rule = "every route must serve a customer"
        violations.append(Problem("E805", f"route {number}", "no customer", rule))
    visits = np.bincount(stops.customer, minlength=instance.num_customers + 1)
    unserved = (np.flatnonzero(visits[1:] == 0) + 1).tolist()
    constraints = instance.constraints
    for c in unserved if constraints is None or not constraints.allow_unserved else ():
        where = f"customer {instance.ids[c]}"
        violations.append(Problem("E802", where, "no visit", "one visit is needed"))
    for c in (np.flatnonzero(visits[1:] > 1) + 1).tolist():
        where, got = f"customer {instance.ids[c]}", f"{visits[c]} visits"
        violations.append(Problem("E803", where, got, "one visit is needed"))
    drives = _vehicles(instance, solution, violations)
    loads = _loads(instance, stops, visits, drives, violations)
    lengths, minutes = stops.ways(instance.lengths), None
    cost = float(lengths.sum())
    if constraints is not None and drives is not None:
        minutes = _minutes(instance, stops)
        cost += float(
            constraints.fleet.fixed_cost[constraints.fleet.kind][drives].sum()
        )
        violations += fleet_violations(constraints, drives)
        violations += route_violations(constraints, drives, stops, lengths, minutes)
        violations += order_violations(instance, constraints, drives, stops)
    if stated_cost is not None and not costs_agree(stated_cost, cost):
        rule = f"recomputed with rounding '{instance.rounding}' it is {cost:.10g}"
        violations.append(Problem("E806", "cost", f"{stated_cost:.10g}", rule))
    return Verdict(
        cost,
        loads,
        tuple(violations),
        tuple(lengths.tolist()),
        () if minutes is None else tuple(minutes.tolist()),
        tuple(unserved),
    )


def _stops(instance: Instance, solution: Solution, violations: list[Problem]) -> Stops:
    """The stops in arrays; numbers that belong to no customer are named."""
    n, routes = instance.num_customers, solution.routes
    listed = np.array([len(route) for route in routes], dtype=np.int64)
    every = chain.from_iterable(routes)
    try:
        customer = np.fromiter(every, dtype=np.int64, count=int(listed.sum()))
    except OverflowError:  # a number that no machine word holds: nobody's, too
        kept = (c if 0 <= c <= n else -1 for c in chain.from_iterable(routes))
        customer = np.fromiter(kept, dtype=np.int64, count=int(listed.sum()))
    known = (customer >= 1) & (customer <= n)
    route = np.repeat(np.arange(len(routes)), listed)
    if not known.all():
        words = [c for r in routes for c in r if not 1 <= c <= n]
        for number, c in zip((route[~known] + 1).tolist(), words, strict=True):
            what = "the depot" if c == 0 else f"customer {c}"
            rule = f"customers are numbered 1 to {n}"
            violations.append(Problem("E804", f"route {number}", what, rule))
        customer, route = customer[known], route[known]
    return Stops(customer, route, np.bincount(route, minlength=len(routes)))


def _vehicles(
    instance: Instance, solution: Solution, violations: list[Problem]
) -> IntArray | None:
    """(R,) the vehicle of each route; None where there are too many of them."""
    size = instance.vehicles
    if size is not None and len(solution.routes) > size:
        got = f"{len(solution.routes)} routes"
        rule = f"the fleet limit is {size}"
        violations.append(Problem("E807", "vehicles", got, rule))
        if solution.vehicles is None:
            return None
    drives = np.arange(len(solution.routes))
    if solution.vehicles is None:
        return drives
    plain = instance.constraints is None  # then they are the numbers of routes
    wrong = [v for v in solution.vehicles if v < 0 or not (plain or v < (size or 0))]
    for v in wrong:
        rule = f"vehicles are numbered 0 to {(size or 0) - 1}"
        violations.append(Problem("E829", "vehicles", f"vehicle {v}", rule))
    return None if wrong else np.array(solution.vehicles, dtype=np.int64)


def _loads(
    instance: Instance,
    stops: Stops,
    visits: IntArray,
    drives: IntArray | None,
    violations: list[Problem],
) -> tuple[float, ...]:
    """The load of each route, added up in exact integers."""
    units = instance.demand_units
    if visits.max() >= 2**63 // MAX_EXACT:  # visited so often that a sum might wrap
        units = units.astype(object)
    totals = stops.sums(units[stops.customer]).tolist()
    limits = [instance.capacity_units] * len(totals)
    if instance.vehicle_units is not None and drives is not None:
        limits = instance.vehicle_units[drives].tolist()
    loads = tuple(instance.plain_load(total) for total in totals)
    for number, (total, limit) in enumerate(zip(totals, limits, strict=True)):
        if total > limit:
            rule = f"capacity is {_plain(instance.plain_load(limit))}"
            got = f"load {loads[number]:.10g}"
            violations.append(Problem("E801", f"route {number + 1}", got, rule))
    return loads


def _plain(value: float) -> str:
    return f"{value:.15g}"


def _minutes(instance: Instance, stops: Stops) -> FloatArray | None:
    """(R,) how long each route takes, with the service at its stops."""
    constraints = instance.constraints
    if constraints is None or not constraints.timed:
        return None
    minutes = stops.ways(instance.minutes)
    if constraints.service is not None:
        minutes = minutes + stops.sums(constraints.service[stops.customer])
    return minutes


def costs_agree(a: float, b: float) -> bool:
    """Whether two costs are equal up to float noise."""
    return abs(a - b) <= 1e-6 * max(1.0, abs(a), abs(b))


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
