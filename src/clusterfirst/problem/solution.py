"""Routes, and the one judge of every answer that leaves the package.

The judge shares no code with the stages that make solutions: it takes routes and
the instance, recounts visits and loads in exact integers and adds up distances.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from clusterfirst.problem.errors import Problem
from clusterfirst.problem.instance import MAX_EXACT, FloatArray, Instance, IntArray


@dataclass(frozen=True)
class Solution:
    """Routes as tuples of customer numbers 1..n, depot left out.

    A solution is a set of undirected cycles (the paper, Lemma 2); `canonical`
    picks one writing of it, so that equal solutions compare equal.
    """

    routes: tuple[tuple[int, ...], ...]

    def __init__(self, routes: Iterable[Iterable[int]]) -> None:
        object.__setattr__(
            self, "routes", tuple(tuple(int(c) for c in route) for route in routes)
        )

    def canonical(self) -> Solution:
        """Each route starts at its smaller end; routes are sorted; no empty ones."""
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

    @classmethod
    def from_edges(cls, edges: Counter[tuple[int, int]]) -> Solution:
        """Rebuild routes from the edge multiset of a feasible solution."""
        left = Counter(edges)
        neighbours: dict[int, list[int]] = {}
        for (a, b), times in edges.items():
            for _ in range(times):
                neighbours.setdefault(a, []).append(b)
                neighbours.setdefault(b, []).append(a)
        routes = []
        for start in sorted(neighbours.get(0, [])):
            if not left[0, start]:
                continue  # this route was walked from its other end
            left[0, start] -= 1
            route, here = [start], start
            while True:
                onward = next(
                    (
                        b
                        for b in sorted(neighbours[here])
                        if left[min(here, b), max(here, b)]
                    ),
                    0,
                )
                left[min(here, onward), max(here, onward)] -= 1
                if onward == 0:
                    break
                route.append(onward)
                here = onward
            routes.append(route)
        return cls(routes).canonical()


@dataclass(frozen=True)
class Verdict:
    """What the judge found: the cost, the loads, and every violation."""

    cost: float
    loads: tuple[float, ...]
    violations: tuple[Problem, ...]

    @property
    def feasible(self) -> bool:
        """Whether nothing is violated."""
        return not self.violations


@dataclass(frozen=True, eq=False)
class _Stops:
    """All routes one behind the other; what is no customer is left out."""

    customer: IntArray  # (S,)
    route: IntArray  # (S,) which of the routes, from 0
    count: IntArray  # (R,) stops per route

    def sums(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """(R,) the sum of `values` (S,) over each route; 0 for one without stops."""
        total = np.zeros(len(self.count), dtype=values.dtype)
        starts = np.cumsum(self.count) - self.count
        some = self.count > 0
        if len(values):
            total[some] = np.add.reduceat(values, starts[some])
        return total


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
    loads = _loads(instance, stops, visits, violations)
    cost = float(_lengths(instance, stops).sum())
    for c in (np.flatnonzero(visits[1:] == 0) + 1).tolist():
        where = f"customer {instance.ids[c]}"
        violations.append(Problem("E802", where, "no visit", "one visit is needed"))
    for c in (np.flatnonzero(visits[1:] > 1) + 1).tolist():
        where, got = f"customer {instance.ids[c]}", f"{visits[c]} visits"
        violations.append(Problem("E803", where, got, "one visit is needed"))
    if instance.vehicles is not None and len(solution.routes) > instance.vehicles:
        got = f"{len(solution.routes)} routes"
        rule = f"the fleet limit is {instance.vehicles}"
        violations.append(Problem("E807", "vehicles", got, rule))
    if stated_cost is not None and not costs_agree(stated_cost, cost):
        rule = f"recomputed with rounding '{instance.rounding}' it is {cost:.10g}"
        violations.append(Problem("E806", "cost", f"{stated_cost:.10g}", rule))
    return Verdict(cost, loads, tuple(violations))


def _stops(instance: Instance, solution: Solution, violations: list[Problem]) -> _Stops:
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
    return _Stops(customer, route, np.bincount(route, minlength=len(routes)))


def _loads(
    instance: Instance, stops: _Stops, visits: IntArray, violations: list[Problem]
) -> tuple[float, ...]:
    """The load of each route, added up in exact integers."""
    units = instance.demand_units
    if visits.max() >= 2**63 // MAX_EXACT:  # visited so often that a sum might wrap
        units = units.astype(object)
    totals = stops.sums(units[stops.customer]).tolist()
    scale, limit = instance.capacity, instance.capacity_units
    loads = tuple(total * scale / limit for total in totals)
    for number, total in enumerate(totals):
        if total > limit:
            rule, got = f"capacity is {scale}", f"load {loads[number]:.10g}"
            violations.append(Problem("E801", f"route {number + 1}", got, rule))
    return loads


def _lengths(instance: Instance, stops: _Stops) -> FloatArray:
    """(R,) the length of each route, from the depot to the depot."""
    if not len(stops.customer):
        return np.zeros(len(stops.count))
    first = np.diff(stops.route, prepend=-1) != 0
    before = np.where(first, 0, np.roll(stops.customer, 1))
    last = np.diff(stops.route, append=-1) != 0
    legs = instance.lengths(before, stops.customer)
    legs[last] += instance.lengths(stops.customer[last], 0)
    return stops.sums(legs)


def costs_agree(a: float, b: float) -> bool:
    """Whether two costs are equal up to float noise."""
    return abs(a - b) <= 1e-6 * max(1.0, abs(a), abs(b))
