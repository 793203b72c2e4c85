"""What it would cost to serve an order elsewhere, and which limits that would break."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clusterfirst.files.solutions import route_names
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge

# What a violation that a move would bring is called.
LIMITS = {
    "E801": "capacity",
    "E807": "number of vehicles",
    "E821": "stops",
    "E822": "longest distance",
    "E823": "longest duration",
    "E824": "not allowed on it",
    "E825": "its group",
    "E826": "an order it must not ride with",
    "E828": "a vehicle that must drive",
}
# Other vehicles, the nearest ones, whose limits are looked at: all of them on a day of
# a few thousand orders, because looking at one takes as long as judging the plan.
LEAST_JUDGED, JUDGED_STOPS = 25, 4_000_000


@dataclass(frozen=True)
class Alternative:
    """The order on another vehicle, at its best place there."""

    vehicle: str
    route: int | None  # of the plan, from 0; None for one of its own
    extra: float  # change of the cost of the whole plan
    broken: tuple[str, ...]  # limits that it would break

    @property
    def said(self) -> str:
        """The vehicle, the price, and what stands against it."""
        against = f" ({', '.join(self.broken)})" if self.broken else ""
        return f"{self.vehicle} {self.extra:+.5g}{against}"


def alternatives(
    instance: Instance, solution: Solution, row: int
) -> tuple[list[Alternative], int]:
    """What every other vehicle would cost, cheapest first, and how many are left out.

    Idle vehicles that are alike, also in what they may take, are one.
    """
    names = list(route_names(instance, solution))
    routes = [[c for c in route if c != row] for route in solution.routes]
    home = next((k for k, r in enumerate(solution.routes) if row in r), -1)
    drives = list(solution.vehicles or range(len(routes)))
    _add_idle(instance, row, routes, drives, names)
    kept = [k for k, route in enumerate(routes) if route or k == home]
    before = judge(instance, _plan(instance, routes, drives))
    now = judge(instance, solution).cost if home >= 0 else before.cost
    there = {str(problem) for problem in before.violations}
    tried = []
    for k in range(len(routes)):
        if k == home or (not routes[k] and k in kept):
            continue
        walk = np.array([0, *routes[k], 0])
        detour = instance.lengths(walk[:-1], row) + instance.lengths(row, walk[1:])
        detour -= instance.lengths(walk[:-1], walk[1:]) if routes[k] else 0.0
        at = int(detour.argmin())
        tried.append((float(detour[at]), k, at))
    most = max(LEAST_JUDGED, JUDGED_STOPS // (1 + instance.num_customers))
    found = []
    for _, k, at in sorted(tried)[:most]:
        moved = [list(route) for route in routes]
        moved[k].insert(at, row)
        verdict = judge(instance, _plan(instance, moved, drives))
        new = [p.code for p in verdict.violations if str(p) not in there]
        broken = dict.fromkeys(LIMITS[code] for code in new if code in LIMITS)
        route = k if k < len(solution.routes) else None
        extra = verdict.cost - now
        found.append(Alternative(names[k], route, extra, tuple(broken)))
    found.sort(key=lambda other: other.extra)
    return found, max(0, len(tried) - most)


def _add_idle(
    instance: Instance,
    row: int,
    routes: list[list[int]],
    drives: list[int],
    names: list[str],
) -> None:
    """One idle vehicle of each sort may open a route; of a plain day, a new one."""
    if instance.constraints is None:
        if instance.vehicles is None or len(routes) < instance.vehicles:
            routes.append([])
            drives.append(len(drives))
            names.append("a new vehicle")
        return
    fleet = instance.constraints.fleet
    classes, allowed = instance.constraints.wishes
    may = allowed[classes[row] if len(classes) else 0]
    seen: set[tuple[int, bool]] = set()
    for v in sorted(set(range(fleet.size)) - set(drives)):
        sort = int(fleet.kind[v]), bool(may[v])
        if sort not in seen:
            seen.add(sort)
            routes.append([])
            drives.append(v)
            names.append(fleet.vehicle_names[v])


def _plan(instance: Instance, routes: list[list[int]], drives: list[int]) -> Solution:
    some = [(route, v) for route, v in zip(routes, drives, strict=True) if route]
    vehicles = None if instance.constraints is None else [v for _, v in some]
    return Solution([route for route, _ in some], vehicles)
