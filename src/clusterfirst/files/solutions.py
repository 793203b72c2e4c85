"""Solutions: CVRPLIB .sol, our JSON and our tables, read without judging them.

A reader only says what the file says; whether the routes are right is the judge's
business (solution.py), so the wrong customers of a .sol come through as numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from clusterfirst.files.source import Complaints, plain_number
from clusterfirst.files.strict_json import Checker, parse_json
from clusterfirst.files.tables import Table, parse_table
from clusterfirst.files.vrplib_writing import plain_text
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.fleet import MAX_VEHICLES
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, Verdict, judge


def parse_sol(text: str) -> tuple[Solution, float | None]:
    """Return the routes and the stated cost of a .sol file."""
    wrong = Complaints()
    routes: list[list[int]] = []
    costs: list[float] = []
    for number, line in enumerate(text.split("\n"), start=1):
        line, where = line.strip(), f"line {number}"
        if not line or line.startswith("#") or line.upper() == "EOF":
            continue
        head, _, rest = line.partition(":")
        title = head.lower().replace("#", " ").split()
        words = rest.split()
        if title[:1] == ["route"] and len(title) <= 2 and ":" in line:
            bad = [w for w in words if not re.fullmatch(r"[+-]?[0-9]{1,18}", w)]
            for word in bad:
                rule = "customers are whole numbers"
                wrong.complain("E811", where, word, rule)
            routes.append([] if bad else [int(word) for word in words])
        elif title[:1] == ["cost"] and len(title) + len(words) == 2:
            value = plain_number([*title, *words][1])
            if value is None:
                rule = "a finite number is needed as the cost"
                wrong.complain("E812", where, line, rule)
            else:
                costs.append(value)
        else:
            rule = '"Route #1: 3 4" or "Cost 12" is needed'
            wrong.complain("E811", where, line, rule)
    if len(set(costs)) > 1:
        got = ", ".join(plain_text(cost) for cost in costs)
        wrong.complain("E812", "cost", got, "it is given more than once")
    wrong.stop_if_wrong()
    return Solution(routes), costs[0] if costs else None


def format_sol(instance: Instance, solution: Solution) -> str:
    """Return the text of a .sol file with the recomputed cost."""
    lines = [
        f"Route #{number}: {' '.join(map(str, route))}"
        for number, route in enumerate(solution.routes, start=1)
    ]
    cost = judge(instance, solution).cost
    return "\n".join([*lines, f"Cost {plain_text(cost)}", ""])


def parse_solution_json(
    text: str, instance: Instance, *, strangers: bool = False
) -> tuple[Solution, float | None]:
    """Return the routes and the stated cost of a JSON solution.

    `routes` is a list of lists of customer ids; all other keys but `cost` belong
    to whoever wrote the file. With `strangers`, ids the instance does not have come
    through as -1.
    """
    return solution_of(parse_json(text), instance, strangers=strangers)


def solution_of(
    document: Any, instance: Instance, *, strangers: bool = False
) -> tuple[Solution, float | None]:
    """The same, of what `parse_json` made of a text or of a part of it."""
    check = Checker()
    if not isinstance(document, dict) or "routes" not in document:
        rule = 'an object with "routes" is needed'
        raise InputError(Problem("E811", "the document", rule=rule))
    row_of = {name: row for row, name in enumerate(instance.ids)}
    routes = []
    for i, route in enumerate(check.items(document["routes"], "routes")):
        stops = check.items(route, f"routes[{i}]")
        names = [check.text(c, f"routes[{i}][{j}]") for j, c in enumerate(stops)]
        for name in names:
            if name not in row_of and not strangers:
                rule = "the instance has no such id"
                check.complain("E813", f"routes[{i}]", name, rule)
        routes.append([row_of.get(name, -1) for name in names])
    cost = document.get("cost")
    stated = None if cost is None else float(check.number(cost, "cost"))
    drives = _vehicles(check, document.get("vehicles"), instance, strangers=strangers)
    check.stop_if_wrong()
    return Solution(routes, drives), stated


def _vehicles(
    check: Checker, value: Any, instance: Instance, *, strangers: bool
) -> list[int] | None:
    """The vehicle of each route by its name, or its number where vehicles have none.

    With `strangers`, vehicles that the fleet does not have come through as -1.
    """
    if value is None:
        return None
    if instance.constraints is None:
        items = check.items(value, "vehicles")
        return _numbers([item if isinstance(item, str) else "" for item in items])
    place = {name: v for v, name in enumerate(instance.constraints.fleet.vehicle_names)}
    found = []
    for i, item in enumerate(check.items(value, "vehicles")):
        name = check.text(item, f"vehicles[{i}]")
        if name not in place and not strangers:
            rule = "the fleet has no vehicle of this name"
            check.complain("E829", f"vehicles[{i}]", name, rule)
        found.append(place.get(name, -1))
    return found


def _numbers(names: Sequence[str]) -> list[int] | None:
    """Routes of a plain day by their numbers, where these are not simply 1, 2, 3 ..."""
    if not all(name.isdecimal() and 0 < int(name) <= MAX_VEHICLES for name in names):
        return None
    found = [int(name) - 1 for name in names]
    own = len(set(found)) == len(found) and found != list(range(len(found)))
    return found if own else None


def solution_document(instance: Instance, solution: Solution) -> dict[str, Any]:
    """Return a solution as a plain document, under the user's own ids."""
    verdict = judge(instance, solution)
    return {
        "instance": instance.name,
        "cost": verdict.cost,
        "unit": instance.unit,
        "rounding": instance.rounding,
        **plan_document(instance, solution, verdict),
        "capacity": instance.capacity,
    }


def verdict_document(
    instance: Instance, solution: Solution, verdict: Verdict, stated: float | None
) -> dict[str, Any]:
    """Return what the judge found, and the cost that the file states."""
    return {
        "feasible": verdict.feasible,
        "cost": verdict.cost,
        "unit": instance.unit,
        "rounding": instance.rounding,
        "stated_cost": stated,
        "routes": len(solution.routes),
        "loads": list(verdict.loads),
        "capacity": instance.capacity,
        "violations": [problem.as_dict() for problem in verdict.violations],
    }


def plan_document(
    instance: Instance, solution: Solution, verdict: Verdict
) -> dict[str, Any]:
    """Return routes, loads and, where there are any, vehicles and orders that stay."""
    ids = instance.ids
    document: dict[str, Any] = {
        "routes": [[ids[c] for c in route] for route in solution.routes],
        "loads": list(verdict.loads),
    }
    if instance.constraints is not None:
        document["vehicles"] = list(route_names(instance, solution))
        document["lengths"] = list(verdict.lengths)
        if verdict.minutes:
            document["minutes"] = list(verdict.minutes)
        document["unserved"] = [ids[c] for c in verdict.unserved]
    elif solution.vehicles is not None:
        document["vehicles"] = list(route_names(instance, solution))
    return document


def route_names(instance: Instance, solution: Solution) -> tuple[str, ...]:
    """Return what people call each route: its vehicle, or its number."""
    drives = solution.vehicles or range(len(solution.routes))
    if instance.constraints is None:
        return tuple(str(v + 1) for v in drives)
    names = instance.constraints.fleet.vehicle_names
    return tuple(names[v] if 0 <= v < len(names) else "?" for v in drives)


WANTED = [("route", "id"), ("vehicle", "id")]


def parse_routes(
    texts: Iterable[str], instance: Instance, *, strangers: bool = False
) -> Solution:
    """Return the routes in one or several tables (the sheets of a workbook).

    A row per stop belongs to the vehicle it names, where the day has vehicles by name,
    or else to its route; `stop` gives the order (1, 2, 2.5, 3 ...), and without that
    column the order is that of the rows. Rows of the depot are passed over.
    """
    names: dict[str, int] = {}
    if instance.constraints is not None:
        fleet = instance.constraints.fleet
        names = {name: v for v, name in enumerate(fleet.vehicle_names)}
    row_of = {name: row for row, name in enumerate(instance.ids)}
    key = "route"
    routes: dict[str, list[tuple[float, int]]] = {}
    wrong = Complaints()
    for text in texts:
        table = _table(text)
        key = "vehicle" if names and "vehicle" in table.columns else "route"
        if key not in table.columns:
            key = "vehicle"
        stops = _stops(table, wrong)
        for line, route, stop, name in zip(
            table.lines(), table.column(key), stops, table.column("id"), strict=True
        ):
            if name == instance.ids[0]:
                continue
            if name not in row_of and not strangers:
                rule = "the instance has no such id"
                wrong.complain("E813", f"line {line} id", name, rule)
            known = not names or key != "vehicle" or route in names or strangers
            if not route or not known:
                rule = "the fleet has no vehicle of this name"
                wrong.complain("E829", f"line {line} {key}", route or "nothing", rule)
            routes.setdefault(route, []).append((stop, row_of.get(name, -1)))
    wrong.stop_if_wrong()
    ordered = {
        route: [row for _, row in sorted(stops, key=lambda stop: stop[0])]
        for route, stops in routes.items()
    }
    drives = None if names else _numbers(list(ordered))
    if names and ((strangers and key == "vehicle") or set(ordered) <= set(names)):
        drives = [names.get(route, -1) for route in ordered]
    return Solution(ordered.values(), drives)


def _table(text: str) -> Table:
    try:
        return parse_table(text, [("route", "vehicle", "id")])
    except InputError:
        return parse_table(text, WANTED)


def holds_stops(text: str) -> bool:
    """Whether a sheet is a table of stops, and not an overview."""
    try:
        return "stop" in _table(text).columns
    except InputError:
        return False


def _stops(table: Table, wrong: Complaints) -> list[float]:
    if "stop" in table.columns:
        return table.numbers("stop", wrong)
    return [float(at) for at in range(len(table.rows))]


def nothing_found(path: str) -> InputError:
    """What to say of a workbook without routes."""
    rule = "no sheet has columns route or vehicle, stop and id"
    return InputError(Problem("E811", "file", path, rule))
