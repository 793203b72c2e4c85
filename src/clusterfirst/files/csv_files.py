"""Tables of locations and of the orders of a day."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import repeat

import numpy as np

from clusterfirst.files.source import Complaints, number_hint, plain_number
from clusterfirst.files.tables import Table, check_ids, format_table, parse_table
from clusterfirst.files.vrplib_writing import plain_text
from clusterfirst.problem.city import City
from clusterfirst.problem.constraints import AMOUNTS, WORDS
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import FloatArray, Instance, Metric

MINUTES = re.compile(r"(\d{1,4}):([0-5]\d)", re.ASCII)


@dataclass(frozen=True)
class Places:
    """Locations as a table has them."""

    coords: FloatArray
    ids: list[str]
    metric: Metric
    columns: dict[str, tuple[str, ...]]  # what else it says of each

    def rows(self, rows: Sequence[int]) -> Places:
        """Return some of them, in this order."""
        columns = {
            name: tuple(cells[row] for row in rows)
            for name, cells in self.columns.items()
        }
        picked = [self.ids[row] for row in rows]
        return Places(self.coords[list(rows)], picked, self.metric, columns)


@dataclass(frozen=True)
class Orders:
    """A day as a table has it: cells are those of the orders, without the depot."""

    rows: list[int]  # of the city
    demands: list[float]
    words: dict[str, tuple[str, ...]] = field(default_factory=dict)
    amounts: dict[str, list[float]] = field(default_factory=dict)
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)


def parse_locations(text: str, depot: str) -> Places:
    """Return the locations, the depot first."""
    wrong = Complaints()
    places = _places(text, wrong)
    if depot not in places.ids:
        rule = "no location has this id; name the depot's (--depot ID)"
        wrong.complain("E118", "depot", depot, rule)
    wrong.stop_if_wrong()
    at = places.ids.index(depot)
    return places.rows([at, *range(at), *range(at + 1, len(places.ids))])


def parse_new_locations(text: str) -> Places:
    """Return further locations of a city."""
    wrong = Complaints()
    found = _places(text, wrong)
    wrong.stop_if_wrong()
    return found


def _places(text: str, wrong: Complaints) -> Places:
    table = parse_table(text, [("id", "x", "y"), ("id", "lat", "lon")])
    degrees = "lat" in table.columns and "lon" in table.columns
    axes = ("lon", "lat") if degrees else ("x", "y")
    check_ids(table, wrong)
    coords = np.array([table.numbers(axis, wrong) for axis in axes]).T
    if degrees:
        _check_degrees(table.lines(), coords, wrong)
    others = table.others(["id", *axes])
    columns = {name: tuple(table.column(name)) for name in others}
    metric: Metric = "greatcircle" if degrees else "euclidean"
    return Places(coords, table.column("id"), metric, columns)


def _check_degrees(lines: Sequence[int], coords: FloatArray, wrong: Complaints) -> None:
    """Name the line of every place that is not on the globe."""
    for axis, (name, most) in enumerate((("lon", 180), ("lat", 90))):
        for row in np.flatnonzero(np.abs(coords[..., axis]) > most).tolist():
            got, where = plain_text(coords[row, axis]), f"line {lines[row]} {name}"
            rule = f"the absolute value must be at most {most}"
            wrong.complain("E132", where, got, rule, "are lat and lon swapped?")


def format_locations(city: City) -> str:
    """Return locations.csv of a city, depot first."""
    degrees = city.metric == "greatcircle"
    points = city.coords[:, ::-1] if degrees else city.coords
    header = ("id", "lat", "lon") if degrees else ("id", "x", "y")
    cells = ([*map(plain_text, point)] for point in points.tolist())
    ids = _writable(city.ids)
    others = zip(*city.columns.values(), strict=True) if city.columns else repeat(())
    rows = ([name, *row, *more] for name, row, more in zip(ids, cells, others))  # noqa: B905  # repeat() has no end
    return format_table([*header, *city.columns], rows)


def parse_orders(text: str, city: City) -> Orders:
    """Return the orders of a day; every wrong line is named."""
    table = parse_table(text, [("id", "demand")])
    wrong = Complaints()
    words = {name: tuple(table.column(name)) for name in WORDS if name in table.columns}
    amounts = {
        name: amount_column(table, name, empty, wrong)
        for name, empty in AMOUNTS.items()
        if name in table.columns
    }
    wrong.stop_if_wrong()
    others = table.others(["id", "demand", *WORDS, *AMOUNTS])
    columns = {name: tuple(table.column(name)) for name in others}
    return Orders(*_orders(table, city), words, amounts, columns)


def amount_column(
    table: Table, name: str, empty: float, wrong: Complaints
) -> list[float]:
    """Return amounts of at least 0; times may be written 1:30 for 90 minutes."""
    values = []
    for line, cell in zip(table.lines(), table.digits(name), strict=True):
        clock = MINUTES.fullmatch(cell)
        value = empty if not cell else plain_number(cell)
        if clock is not None and name in ("service", "max_duration"):
            value = 60.0 * int(clock[1]) + int(clock[2])
        if value is None or value < 0:
            rule = "must be a number of at least 0"
            wrong.complain("E313", f"line {line} {name}", cell, rule, number_hint(cell))
        values.append(value or 0.0)
    return values


def parse_days(text: str, city: City) -> list[tuple[str, list[int], list[float]]]:
    """Return date, city rows and demands of each day of a table of orders.

    Without a column `date` the table is one day, and its date is "".
    """
    table = parse_table(text, [("id", "demand")])
    if "date" not in table.columns:
        return [("", *_orders(table, city))]
    wrong = Complaints()
    lines: dict[str, list[tuple[int, list[str]]]] = {}
    for row, date in zip(table.rows, table.column("date"), strict=True):
        if not date:
            rule = "every order of a table with dates needs one"
            wrong.complain("E412", f"line {row[0]} date", "an empty cell", rule)
        lines.setdefault(date, []).append(row)
    wrong.stop_if_wrong()
    return [(date, *_orders(table.part(rows), city)) for date, rows in lines.items()]


def _orders(table: Table, city: City) -> tuple[list[int], list[float]]:
    wrong = Complaints()
    check_ids(table, wrong, hint="add the demands up in one line")
    demands = table.numbers("demand", wrong)
    for line, cell in zip(table.lines(), table.digits("demand"), strict=True):
        if plain_number(cell) is not None:
            wrong.require_exact(cell, f"line {line} demand")
    for line, name, demand in zip(
        table.lines(), table.column("id"), demands, strict=True
    ):
        if demand < 0:
            where = f"line {line} demand"
            rule = "must be at least 0"
            wrong.complain("E133", where, plain_text(demand), rule)
        row = city.row_of.get(name)
        if row is None and name:
            rule = f"city {city.name or '(no name)'} has no such location"
            wrong.complain("E407", f"line {line} id", name, rule)
        elif row == 0:
            rule = "this is the depot, which orders nothing"
            wrong.complain("E407", f"line {line} id", name, rule)
    wrong.stop_if_wrong()
    return [city.row_of[name] for name in table.column("id")], demands


def format_orders(instance: Instance) -> str:
    """Return orders.csv of a day, with all that its orders ask for."""
    columns = {
        "id": list(_writable(instance.ids[1:])),
        "demand": [*map(plain_text, instance.demands[1:].tolist())],
    }
    if (asked := instance.constraints) is not None:
        for name in WORDS:
            columns[name] = list(getattr(asked, name)[1:])
        for name in AMOUNTS:
            given = getattr(asked, name)
            columns[name] = [] if given is None else [*map(plain_text, given[1:])]
    columns |= {name: list(cells[1:]) for name, cells in instance.columns.items()}
    kept = ("id", "demand")
    there = {name: cells for name, cells in columns.items() if cells or name in kept}
    return format_table([*there], zip(*there.values(), strict=True))


def _writable(ids: Sequence[str]) -> Sequence[str]:
    """Ids that a table gives back; readers take the spaces around a cell away."""
    for name in ids:
        if name != name.strip():
            rule = "an id in a table must not start or end with a space"
            raise InputError(Problem("E308", "id", repr(name), rule))
    return ids
