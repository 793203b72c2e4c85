"""CSV tables: locations of a city and the orders of a day.

Columns go by name, in any order and case, further columns are ignored; the
separator may be a comma, a semicolon or a tab.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clusterfirst.files.source import (
    Complaints,
    number_hint,
    plain_number,
    plain_numbers,
)
from clusterfirst.files.vrplib_writing import plain_text
from clusterfirst.problem.city import City
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import FloatArray, Instance, Metric

SEPARATORS = ",;\t"
# What makes a spreadsheet compute a cell; the last four are the wide forms.
FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")


@dataclass(frozen=True)
class Table:
    """A header, and rows with the line each ends in."""

    columns: tuple[str, ...]
    rows: list[tuple[int, list[str]]]

    def column(self, name: str) -> list[str]:
        """Return the cells under one name."""
        at = self.columns.index(name)
        return [cells[at] for _, cells in self.rows]

    def lines(self) -> list[int]:
        """Return the line number of each row."""
        return [line for line, _ in self.rows]


def parse_table(text: str, wanted: Sequence[tuple[str, ...]]) -> Table:
    """Return the table, which must have one of the `wanted` sets of columns."""
    first = text.lstrip("\n").partition("\n")[0]
    separator = max(SEPARATORS, key=first.count)
    reader = csv.reader(io.StringIO(text), delimiter=separator, strict=True)
    rows: list[tuple[int, list[str]]] = []
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                rows.append((reader.line_num, [_loud(cell.strip()) for cell in cells]))
    except csv.Error as error:
        where, rule = f"line {reader.line_num}", f"this is not CSV: {error}"
        raise InputError(Problem("E312", where, rule=rule)) from error
    header_line, header = rows[0] if rows else (1, ["only empty cells"])
    columns = tuple(name.lower() for name in header)
    found = [names for names in wanted if set(names) <= set(columns)]
    twice = {name for names in found for name in names if columns.count(name) > 1}
    if len(found) != 1 or twice:
        needed = " or ".join(",".join(names) for names in wanted)
        rule = f"columns {needed} are needed, each once"
        got = separator.join(header)
        raise InputError(Problem("E311", f"line {header_line}", got, rule))
    wrong = Complaints()
    for line, cells in rows[1:]:
        if len(cells) != len(columns):
            rule = f"{len(columns)} are needed, as in the header"
            got = f"{len(cells)} fields"
            wrong.complain("E312", f"line {line}", got, rule)
        elif any("\n" in cell for cell in cells):
            rule = "a field must not go over several lines"
            wrong.complain("E312", f"line {line}", "a line break", rule)
    wrong.stop_if_wrong()
    return Table(columns, rows[1:])


def _numbers(table: Table, name: str, wrong: Complaints) -> list[float]:
    quick = plain_numbers(table.column(name))
    if quick is not None:
        return quick
    values = []
    for line, cell in zip(table.lines(), table.column(name), strict=True):
        value = plain_number(cell)
        if value is None:
            rule = "a finite number is needed"
            where = f"line {line} {name}"
            got = cell or "an empty cell"
            wrong.complain("E313", where, got, rule, number_hint(cell))
        values.append(value or 0.0)
    return values


def _check_ids(table: Table, wrong: Complaints, hint: str = "") -> None:
    """Refuse empty ids and, with both lines, ids that appear twice."""
    first: dict[str, int] = {}
    for line, name in zip(table.lines(), table.column("id"), strict=True):
        if not name:
            wrong.complain(
                "E308", f"line {line} id", "an empty cell", "an id is needed"
            )
        elif name in first:
            rule = f"already used in line {first[name]}"
            wrong.complain("E308", f"line {line} id", name, rule, hint)
        first.setdefault(name, line)


def parse_locations(text: str, depot: str) -> tuple[FloatArray, list[str], Metric]:
    """Return coordinates and ids, the depot's first, and the metric they mean."""
    wrong = Complaints()
    coords, ids, metric = _places(text, wrong)
    if depot not in ids:
        rule = "no location has this id; name the depot's (--depot ID)"
        wrong.complain("E118", "depot", depot, rule)
    wrong.stop_if_wrong()
    at = ids.index(depot)
    order = [at, *range(at), *range(at + 1, len(ids))]
    return coords[order], [ids[row] for row in order], metric


def parse_new_locations(text: str) -> tuple[FloatArray, list[str], Metric]:
    """Return coordinates and ids of further locations, and the metric they mean."""
    wrong = Complaints()
    found = _places(text, wrong)
    wrong.stop_if_wrong()
    return found


def _places(text: str, wrong: Complaints) -> tuple[FloatArray, list[str], Metric]:
    table = parse_table(text, [("id", "x", "y"), ("id", "lat", "lon")])
    degrees = "lat" in table.columns and "lon" in table.columns
    axes = ("lon", "lat") if degrees else ("x", "y")
    _check_ids(table, wrong)
    coords = np.array([_numbers(table, axis, wrong) for axis in axes]).T
    metric: Metric = "greatcircle" if degrees else "euclidean"
    return coords, table.column("id"), metric


def format_locations(city: City) -> str:
    """Return locations.csv of a city, depot first."""
    degrees = city.metric == "greatcircle"
    points = city.coords[:, ::-1] if degrees else city.coords
    header = ("id", "lat", "lon") if degrees else ("id", "x", "y")
    cells = ([*map(plain_text, point)] for point in points.tolist())
    ids = _writable(city.ids)
    rows = ([name, *row] for name, row in zip(ids, cells, strict=True))
    return format_table(header, rows)


def parse_orders(text: str, city: City) -> tuple[list[int], list[float]]:
    """Return the city rows and demands of a day; every wrong line is named."""
    return _orders(parse_table(text, [("id", "demand")]), city)


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
    return [
        (date, *_orders(Table(table.columns, rows), city))
        for date, rows in lines.items()
    ]


def _orders(table: Table, city: City) -> tuple[list[int], list[float]]:
    wrong = Complaints()
    _check_ids(table, wrong, hint="add the demands up in one line")
    demands = _numbers(table, "demand", wrong)
    for line, cell in zip(table.lines(), table.column("demand"), strict=True):
        if plain_number(cell) is not None:
            wrong.require_exact(cell, f"line {line} demand")
    for line, name, demand in zip(
        table.lines(), table.column("id"), demands, strict=True
    ):
        if demand < 0:
            where = f"line {line} demand"
            rule = "it must be at least 0"
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
    """Return orders.csv of a day."""
    demands = map(plain_text, instance.demands[1:].tolist())
    ids = _writable(instance.ids[1:])
    return format_table(("id", "demand"), zip(ids, demands, strict=True))


def _writable(ids: Sequence[str]) -> Sequence[str]:
    """Ids that a table gives back; readers take the spaces around a cell away."""
    for name in ids:
        if name != name.strip():
            rule = "an id in a table must not start or end with a space"
            raise InputError(Problem("E308", "id", repr(name), rule))
    return ids


def _quiet(cell: Any) -> Any:
    """A cell that no spreadsheet runs: formulas get an apostrophe in front.

    One that looks as if it had one gets one more, so that `_loud` undoes this.
    """
    text = str(cell)
    if not text.lstrip("'").startswith(FORMULA) or plain_number(text) is not None:
        return cell
    return f"'{text}"


def _loud(cell: str) -> str:
    """What `_quiet` was given."""
    formula = cell.startswith("'") and cell.lstrip("'").startswith(FORMULA)
    return cell[1:] if formula else cell


def format_table(header: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return CSV text; cells are quoted only where they must be."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_quiet(cell) for cell in row] for row in rows)
    return text.getvalue()
