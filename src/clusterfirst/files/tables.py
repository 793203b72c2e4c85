"""Tables people make: CSV in the dialects of spreadsheets, and .xlsx.

Columns go by name, in any order and case; common other names are known. The separator
may be a comma, a semicolon or a tab, and with the last two a number may have a decimal
comma.
"""

from __future__ import annotations

import csv
import io
import os
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clusterfirst.files.source import (
    DEFAULT_LIMITS,
    Complaints,
    Limits,
    number_hint,
    plain_number,
    plain_numbers,
    read_bytes,
    read_text,
)
from clusterfirst.files.vrplib_writing import plain_text
from clusterfirst.problem.errors import InputError, Problem

SEPARATORS = ",;\t"
TABLES = (".csv", ".xlsx")
ALIASES = {
    "id": ("customer", "name"),
    "lat": ("latitude",),
    "lon": ("lng", "longitude"),
    "demand": ("qty", "quantity", "weight"),
}
UNPACKED = 2048  # bytes per customer: what an .xlsx may have inside, as XML
# What makes a spreadsheet compute a cell; the last four are the wide forms.
FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_COMMA_NUMBER = re.compile(r"[+-]?\d+,\d+", re.ASCII)


@dataclass(frozen=True)
class Table:
    """A header, and rows with the line each ends in."""

    columns: tuple[str, ...]
    rows: list[tuple[int, list[str]]]
    comma: bool = False  # whether numbers may have a decimal comma

    def column(self, name: str) -> list[str]:
        """Return the cells under one name."""
        at = self.columns.index(name)
        return [cells[at] for _, cells in self.rows]

    def lines(self) -> list[int]:
        """Return the line number of each row."""
        return [line for line, _ in self.rows]

    def part(self, rows: list[tuple[int, list[str]]]) -> Table:
        """Return the same table with some of its rows."""
        return replace(self, rows=rows)

    def digits(self, name: str) -> list[str]:
        """Return the cells under one name with decimal points."""
        cells = self.column(name)
        if not self.comma:
            return cells
        return [c.replace(",", ".") if _COMMA_NUMBER.fullmatch(c) else c for c in cells]

    def numbers(self, name: str, wrong: Complaints) -> list[float]:
        """Return the numbers under one name; every cell that is none is named."""
        cells = self.digits(name)
        quick = plain_numbers(cells)
        if quick is not None:
            return quick
        values = []
        for line, cell in zip(self.lines(), cells, strict=True):
            value = plain_number(cell)
            if value is None:
                rule = "must be a finite number"
                where = f"line {line} {name}"
                got = cell or "an empty cell"
                wrong.complain("E313", where, got, rule, number_hint(cell))
            values.append(value or 0.0)
        return values

    def others(self, known: Iterable[str]) -> list[str]:
        """Return the names of the columns that are not among those known."""
        taken = {"", *known}
        return [
            c for c in self.columns if c not in taken and self.columns.count(c) == 1
        ]


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
    columns = _canonical_names([name.lower() for name in header], wanted, header_line)
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
    return Table(columns, rows[1:], comma=separator != ",")


def _canonical_names(
    names: list[str], wanted: Sequence[tuple[str, ...]], line: int
) -> tuple[str, ...]:
    """Our names for columns that go by another common one."""
    for name in {name for names in wanted for name in names} & ALIASES.keys():
        other = [alias for alias in ALIASES[name] if alias in names]
        if name in names or not other:
            continue
        if len(other) > 1:
            rule = f"which of them is the {name}? Call that column {name}"
            raise InputError(Problem("E311", f"line {line}", ", ".join(other), rule))
        names = [name if column == other[0] else column for column in names]
    return tuple(names)


def check_ids(table: Table, wrong: Complaints, hint: str = "") -> None:
    """Refuse empty ids and, with both lines, ids that appear twice."""
    first: dict[str, int] = {}
    for line, name in zip(table.lines(), table.column("id"), strict=True):
        if not name:
            rule = "an id is needed"
            wrong.complain("E308", f"line {line} id", "an empty cell", rule)
        elif name in first:
            rule = f"already used in line {first[name]}"
            wrong.complain("E308", f"line {line} id", name, rule, hint)
        first.setdefault(name, line)


def format_table(header: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return CSV text; cells are quoted only where they must be."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([quiet(name) for name in header])
    writer.writerows([quiet(cell) for cell in row] for row in rows)
    return text.getvalue()


def format_records(records: Sequence[Mapping[str, Any]]) -> str:
    """Return CSV text of records by name; what one does not have stays empty."""
    names = list(dict.fromkeys(name for record in records for name in record))
    return format_table(names, ([r.get(name) for name in names] for r in records))


def quiet(cell: Any) -> Any:
    """A cell that no spreadsheet runs: formulas get an apostrophe in front.

    One that looks as if it had one gets one more, so that `_loud` undoes this.
    """
    text = str(cell)
    if not text.lstrip("'").startswith(FORMULA) or plain_number(text) is not None:
        return cell
    return f"'{text}"


def _loud(cell: str) -> str:
    """What `quiet` was given."""
    formula = cell.startswith("'") and cell.lstrip("'").startswith(FORMULA)
    return cell[1:] if formula else cell


# --- spreadsheets -------------------------------------------------------------------


def table_text(path: str | os.PathLike[str], limits: Limits = DEFAULT_LIMITS) -> str:
    """Return a table as CSV text; of an .xlsx file the first sheet."""
    if Path(path).suffix.lower() != ".xlsx":
        return read_text(path, limits)
    return next(iter(sheets(path, limits).values()))


def sheets(
    path: str | os.PathLike[str], limits: Limits = DEFAULT_LIMITS
) -> dict[str, str]:
    """Return every sheet of an .xlsx file as CSV text; row and line numbers agree."""
    data = read_bytes(path, limits.max_bytes, "--max-bytes")
    openpyxl = need_openpyxl()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(part.file_size for part in archive.infolist())
        most = UNPACKED * limits.max_customers
        if size <= most:
            book = openpyxl.load_workbook(
                io.BytesIO(data), read_only=True, data_only=True
            )
            found = {
                sheet.title: _sheet_text(sheet.iter_rows(values_only=True))
                for sheet in book.worksheets
            }
    except MemoryError:
        raise
    except Exception as error:  # a damaged file breaks openpyxl in any way it likes
        rule = "this is not an .xlsx file that can be read; save it again, or as CSV"
        raise InputError(Problem("E105", "file", str(error), rule)) from error
    if size > most:
        rule = f"the limit is {most} bytes (--max-customers times {UNPACKED})"
        raise InputError(Problem("E104", "file", f"{size} bytes unpacked", rule))
    if not any(text.strip() for text in found.values()):
        raise InputError(
            Problem("E101", "file", "only empty sheets", "a table is needed")
        )
    return found


def need_openpyxl() -> Any:
    """Return openpyxl, or say how to get it."""
    try:
        import openpyxl
    except ImportError as error:
        rule = "spreadsheets need openpyxl: pip install 'clusterfirst[excel]'"
        raise InputError(Problem("E422", "openpyxl", "nothing", rule)) from error
    return openpyxl


def _sheet_text(rows: Iterable[tuple[Any, ...]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    table = [[_cell(value) for value in row] for row in rows]
    # Spreadsheets count formatted cells as used: only what has a name is a column.
    width = max(
        (at + 1 for row in table[:1] for at, c in enumerate(row) if c), default=0
    )
    for row in table:
        cells = row[:width] if not any(row[width:]) else row
        writer.writerow(cells + [""] * (width - len(cells)))
    return text.getvalue()


def _cell(value: Any) -> str:
    """What a person sees in a cell, on one line."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return plain_text(value)
    # An apostrophe in front of a formula is ours: `_loud` takes it away again.
    return str(quiet(" ".join(str(value).split())))
