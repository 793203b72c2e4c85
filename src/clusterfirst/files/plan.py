"""A plan as people read it: each route stop by stop, with loads, ways and times."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from clusterfirst.files.solutions import route_names
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, Verdict, judge
from clusterfirst.problem.staying import reasons_to_stay

DIGITS = 5  # of the longest route; more than any driver needs
UNREADABLE = {"E804", "E829"}  # customers or vehicles that do not exist


@dataclass(frozen=True)
class StopLine:
    """One line of a route: a customer, or the depot at its two ends."""

    row: int
    number: int  # 0 at the start
    leg: float  # from the line before
    distance: float  # from the start
    load: float  # delivered up to here
    minutes: float | None  # from the start until the service here begins


@dataclass(frozen=True)
class RouteLines:
    """One route, from depot to depot."""

    number: int
    name: str  # of its vehicle, or the number
    load: float
    capacity: float
    length: float
    minutes: float | None
    lines: tuple[StopLine, ...]

    @property
    def stops(self) -> tuple[StopLine, ...]:
        """The lines that are customers."""
        return self.lines[1:-1]


@dataclass(frozen=True, eq=False)
class Plan:
    """All routes of a solution, and the orders that stay."""

    instance: Instance
    solution: Solution
    verdict: Verdict
    routes: tuple[RouteLines, ...]

    @cached_property
    def reasons(self) -> dict[int, str]:
        """Why each order stays that is not served, where orders may stay."""
        asked = self.instance.constraints
        wrong = {problem.code for problem in self.verdict.violations} & UNREADABLE
        if asked is None or not asked.allow_unserved or wrong:
            return {}
        said = reasons_to_stay(self.instance, self.solution)
        return {c: said[self.instance.ids[c]] for c in self.verdict.unserved}

    @property
    def timed(self) -> bool:
        """Whether it is known when a vehicle is where."""
        return bool(self.verdict.minutes)

    def length_text(self, value: float) -> str:
        """A length with as many digits as make sense beside the others."""
        longest = max(self.verdict.lengths, default=0.0)
        size = math.floor(math.log10(longest)) if longest > 0 else 0
        whole = self.instance.rounding != "none"
        return f"{value:.{0 if whole else max(0, DIGITS - 1 - size)}f}"

    def columns(self, taken: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        """The user's own columns, under names that are not ours."""
        return {
            name if name not in taken else f"{name}_": cells
            for name, cells in self.instance.columns.items()
        }


def plan_of(instance: Instance, solution: Solution) -> Plan:
    """Return the lines of every route; customers that do not exist are left out."""
    n = instance.num_customers
    verdict = judge(instance, solution)
    names = route_names(instance, solution)
    routes = []
    for k, route in enumerate(solution.routes):
        rows = np.array([0, *(c for c in route if 1 <= c <= n), 0])
        lines = _lines(instance, rows)
        minutes = verdict.minutes[k] if verdict.minutes else None
        capacity = _capacity(instance, solution, k)
        # On a plain day routes go by their numbers, which may be yesterday's.
        number = int(names[k]) if instance.constraints is None else k + 1
        routes.append(
            RouteLines(
                number,
                names[k],
                verdict.loads[k],
                capacity,
                verdict.lengths[k],
                minutes,
                lines,
            )
        )
    return Plan(instance, solution, verdict, tuple(routes))


def _capacity(instance: Instance, solution: Solution, route: int) -> float:
    if instance.vehicle_units is None:
        return float(instance.capacity)
    vehicle = route if solution.vehicles is None else solution.vehicles[route]
    vehicle = min(max(vehicle, 0), len(instance.vehicle_units) - 1)
    return instance.plain_load(int(instance.vehicle_units[vehicle]))


def _lines(instance: Instance, rows: np.ndarray) -> tuple[StopLine, ...]:
    legs = np.concatenate([[0.0], instance.lengths(rows[:-1], rows[1:])])
    way = np.cumsum(legs)
    units = np.cumsum(instance.demand_units[rows]).tolist()
    minutes: list[float | None] = [None] * len(rows)
    constraints = instance.constraints
    if constraints is not None and constraints.timed:
        drive = np.concatenate([[0.0], instance.minutes(rows[:-1], rows[1:])])
        service = np.zeros(len(rows))
        if constraints.service is not None:
            service[1:] = constraints.service[rows[:-1]]
        minutes = np.cumsum(drive + service).tolist()
    return tuple(
        StopLine(
            int(row),
            number,
            float(legs[number]),
            float(way[number]),
            instance.plain_load(units[number]),
            minutes[number],
        )
        for number, row in enumerate(rows)
    )
