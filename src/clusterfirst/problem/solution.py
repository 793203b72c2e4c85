"""Routes, and the one judge of every answer that leaves the package.

The judge shares no code with the stages that make solutions: it takes routes and
the instance, recounts visits and loads in exact integers and adds up distances.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from clusterfirst.problem.errors import Problem
from clusterfirst.problem.instance import Instance


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


def judge(
    instance: Instance, solution: Solution, *, stated_cost: float | None = None
) -> Verdict:
    """Recompute cost and loads from scratch and list every violation.

    A stated cost is compared to within 1e-6 relative (and half a unit in the last
    place for rounded metrics, where costs are whole numbers).
    """
    n = instance.num_customers
    violations: list[Problem] = []
    visits = np.zeros(n + 1, dtype=np.int64)
    loads: list[float] = []
    cost = 0.0
    for number, route in enumerate(solution.routes, start=1):
        unknown = [c for c in route if not 1 <= c <= n]
        for c in unknown:
            what = "the depot" if c == 0 else f"customer {c}"
            rule = f"customers are numbered 1 to {n}"
            violations.append(Problem("E804", f"route {number}", what, rule))
        stops = np.array([c for c in route if 1 <= c <= n], dtype=np.int64)
        np.add.at(visits, stops, 1)
        if not len(stops):
            rule = "every route must serve a customer"
            violations.append(Problem("E805", f"route {number}", "no customer", rule))
            loads.append(0)
            continue
        load_units = int(instance.demand_units[stops].sum())
        loads.append(load_units * instance.capacity / instance.capacity_units)
        if load_units > instance.capacity_units:
            rule = f"capacity is {instance.capacity}"
            got = f"load {loads[-1]:.10g}"
            violations.append(Problem("E801", f"route {number}", got, rule))
        path = np.concatenate([[0], stops, [0]])
        cost += float(instance.lengths(path[:-1], path[1:]).sum())
    for c in np.flatnonzero(visits[1:] == 0).tolist():
        where = f"customer {instance.ids[c + 1]}"
        violations.append(Problem("E802", where, "no visit", "one visit is needed"))
    for c in np.flatnonzero(visits[1:] > 1).tolist():
        where = f"customer {instance.ids[c + 1]}"
        got = f"{visits[c + 1]} visits"
        violations.append(Problem("E803", where, got, "one visit is needed"))
    if instance.vehicles is not None and len(solution.routes) > instance.vehicles:
        got = f"{len(solution.routes)} routes"
        rule = f"the fleet limit is {instance.vehicles}"
        violations.append(Problem("E807", "vehicles", got, rule))
    if stated_cost is not None and not costs_agree(stated_cost, cost):
        rule = f"recomputed with rounding '{instance.rounding}' it is {cost:.10g}"
        violations.append(Problem("E806", "cost", f"{stated_cost:.10g}", rule))
    return Verdict(cost, tuple(loads), tuple(violations))


def costs_agree(a: float, b: float) -> bool:
    """Whether two costs are equal up to float noise."""
    return abs(a - b) <= 1e-6 * max(1.0, abs(a), abs(b))
