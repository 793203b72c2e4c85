"""Routes read back from our own tables, also after somebody edited them.

One row per stop. A row belongs to the vehicle it names, where the day has vehicles by
name, or else to its route; `stop` gives the order (1, 2, 2.5, 3 ...), and without that
column the order is that of the rows. Rows of the depot are passed over.
"""

from __future__ import annotations

from collections.abc import Iterable

from clusterfirst.files.source import Complaints
from clusterfirst.files.tables import Table, parse_table
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution

WANTED = [("route", "id"), ("vehicle", "id")]


def parse_routes(
    texts: Iterable[str], instance: Instance, *, strangers: bool = False
) -> Solution:
    """Return the routes in one or several tables (the sheets of a workbook)."""
    names: dict[str, int] = {}
    if instance.constraints is not None:
        fleet = instance.constraints.fleet
        names = {name: v for v, name in enumerate(fleet.vehicle_names)}
    row_of = {name: row for row, name in enumerate(instance.ids)}
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
            if not route or (names and key == "vehicle" and route not in names):
                rule = "the fleet has no vehicle of this name"
                wrong.complain("E829", f"line {line} {key}", route or "nothing", rule)
            routes.setdefault(route, []).append((stop, row_of.get(name, -1)))
    wrong.stop_if_wrong()
    ordered = {
        route: [row for _, row in sorted(stops, key=lambda stop: stop[0])]
        for route, stops in routes.items()
    }
    known = bool(names) and all(route in names for route in ordered)
    drives = [names[route] for route in ordered] if known else None
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
