"""One order in five sentences: where it is, why, and what other vehicles would cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from clusterfirst.files.solutions import route_names
from clusterfirst.problem.errors import InputError, Problem
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
MOST_JUDGED = 25  # other vehicles, the nearest ones, whose limits are looked at
MOST_NAMED = 6


@dataclass(frozen=True)
class Alternative:
    """The order on another vehicle, at its best place there."""

    vehicle: str
    extra: float  # change of the cost of the whole plan
    broken: tuple[str, ...]  # limits that it would break

    @property
    def said(self) -> str:
        """The vehicle, the price, and what stands against it."""
        against = f" ({', '.join(self.broken)})" if self.broken else ""
        return f"{self.vehicle} {self.extra:+.5g}{against}"


@dataclass(frozen=True)
class Reasons:
    """Why an order is where it is."""

    order: str
    sentences: tuple[str, ...]
    others: tuple[Alternative, ...]  # cheapest first

    def as_dict(self) -> dict[str, Any]:
        """Everything for JSON."""
        return {
            "customer": self.order,
            "sentences": list(self.sentences),
            "vehicles": [
                {"vehicle": a.vehicle, "extra": a.extra, "breaks": list(a.broken)}
                for a in self.others
            ],
        }


def why(instance: Instance, solution: Solution, order: str) -> Reasons:
    """Explain where one order is; raises InputError for an id that is none."""
    if order not in instance.ids[1:]:
        rule = "the instance has no order of this id"
        raise InputError(Problem("E813", "--customer", order, rule))
    row = instance.ids.index(order)
    verdict = judge(instance, solution)
    wrong = [p for p in verdict.violations if p.code in ("E803", "E804", "E829")]
    if wrong:
        raise InputError(wrong)
    others = alternatives(instance, solution, row)
    free = [other for other in others if not other.broken]
    if row in verdict.unserved:
        first = _unserved(instance, row, others)
    else:
        first = _where(instance, solution, row)
    sentences = [
        *first,
        _cheapest(instance, others),
        _all(others),
        _binding(free, others),
    ]
    return Reasons(order, tuple(sentences), tuple(others))


def alternatives(instance: Instance, solution: Solution, row: int) -> list[Alternative]:
    """What every other vehicle would cost, cheapest first."""
    names = list(route_names(instance, solution))
    routes = [[c for c in route if c != row] for route in solution.routes]
    home = next((k for k, r in enumerate(solution.routes) if row in r), -1)
    drives = list(solution.vehicles or range(len(routes)))
    _add_idle(instance, routes, drives, names)
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
    found = []
    for _, k, at in sorted(tried)[:MOST_JUDGED]:
        moved = [list(route) for route in routes]
        moved[k].insert(at, row)
        verdict = judge(instance, _plan(instance, moved, drives))
        new = [p.code for p in verdict.violations if str(p) not in there]
        broken = dict.fromkeys(LIMITS[code] for code in new if code in LIMITS)
        found.append(Alternative(names[k], verdict.cost - now, tuple(broken)))
    return sorted(found, key=lambda other: other.extra)


def _add_idle(
    instance: Instance, routes: list[list[int]], drives: list[int], names: list[str]
) -> None:
    """One idle vehicle of each kind may open a route; of a plain day, a new one."""
    if instance.constraints is None:
        if instance.vehicles is None or len(routes) < instance.vehicles:
            routes.append([])
            drives.append(len(drives))
            names.append("a new vehicle")
        return
    fleet = instance.constraints.fleet
    idle = sorted(set(range(fleet.size)) - set(drives))
    seen: set[int] = set()
    for v in idle:
        if int(fleet.kind[v]) not in seen:
            seen.add(int(fleet.kind[v]))
            routes.append([])
            drives.append(v)
            names.append(fleet.vehicle_names[v])


def _plan(instance: Instance, routes: list[list[int]], drives: list[int]) -> Solution:
    some = [(route, v) for route, v in zip(routes, drives, strict=True) if route]
    vehicles = None if instance.constraints is None else [v for _, v in some]
    return Solution([route for route, _ in some], vehicles)


def _where(instance: Instance, solution: Solution, row: int) -> list[str]:
    names = route_names(instance, solution)
    k = next(k for k, route in enumerate(solution.routes) if row in route)
    route, ids = solution.routes[k], instance.ids
    at = route.index(row)
    walk = (0, *route, 0)
    a, b = walk[at], walk[at + 2]
    saved = float(
        instance.lengths(a, row) + instance.lengths(row, b) - instance.lengths(a, b)
    )
    verdict = judge(instance, solution)
    unit = f" {instance.unit}" if instance.unit else ""
    name = names[k] if instance.constraints is not None else f"route {names[k]}"
    first = (
        f"Order {ids[row]} (demand {float(instance.demands[row]):.10g}) is stop "
        f"{at + 1} of {len(route)} on {name}, between {ids[a]} and {ids[b]}."
    )
    second = (
        f"It makes that route {saved:.5g}{unit} longer; the route has load "
        f"{verdict.loads[k]:.10g} and {verdict.lengths[k]:.5g}{unit}"
    )
    if verdict.minutes:
        second += f", {verdict.minutes[k]:.0f} minutes"
    return [first, second + "."]


def _unserved(instance: Instance, row: int, others: list[Alternative]) -> list[str]:
    return [
        f"Order {instance.ids[row]} (demand {float(instance.demands[row]):.10g}) "
        "is not served.",
        f"Of {len(others)} vehicles, {sum(not o.broken for o in others)} could take it "
        "as they are.",
    ]


def _cheapest(instance: Instance, others: list[Alternative]) -> str:
    if not others:
        return "There is no other vehicle."
    best = others[0]
    unit = f" {instance.unit}" if instance.unit else ""
    change = "more" if best.extra >= 0 else "less"
    against = (
        f"but breaks: {', '.join(best.broken)}"
        if best.broken
        else "and breaks no limit"
    )
    return (
        f"The nearest other vehicle is {best.vehicle}: there the plan costs "
        f"{abs(best.extra):.5g}{unit} {change}, {against}."
    )


def _all(others: list[Alternative]) -> str:
    if len(others) < 2:
        return "No further vehicle comes into question."
    named = "; ".join(other.said for other in others[1 : MOST_NAMED + 1])
    more = len(others) - 1 - MOST_NAMED
    return f"The others: {named}{f'; and {more} more' if more > 0 else ''}."


def _binding(free: list[Alternative], others: list[Alternative]) -> str:
    gains = [other for other in free if other.extra < 0]
    if gains:
        other = gains[0].vehicle
        return f"It could move to {other} at once, and the plan would be shorter."
    cheaper = [other for other in others if other.broken and other.extra < 0]
    if cheaper:
        limits = dict.fromkeys(word for other in cheaper for word in other.broken)
        return f"What keeps it from a cheaper vehicle: {', '.join(limits)}."
    if free:
        return f"No limit binds: {len(free)} other vehicles have room and cost more."
    limits = dict.fromkeys(word for other in others for word in other.broken)
    return f"No other vehicle can take it: {', '.join(limits) or 'there is none'}."
