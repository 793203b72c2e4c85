"""A plan as a workbook: an overview, a sheet per route, and the orders that stay."""

from __future__ import annotations

import io
import re
from typing import Any

from clusterfirst.files.export import stop_cells, stop_header
from clusterfirst.files.plan import Plan, plan_of
from clusterfirst.files.source import plain_number
from clusterfirst.files.tables import need_openpyxl
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution

MAX_TITLE = 31  # characters, and none of these:
_NOT_IN_TITLES = re.compile(r"[\[\]:*?/\\']")
WORDS = {"vehicle", "id"}  # columns that are text even where they look like numbers


def format_workbook(instance: Instance, solution: Solution) -> bytes:
    """Return an .xlsx file, which can be edited and read back as a solution."""
    openpyxl = need_openpyxl()
    plan = plan_of(instance, solution)
    book = openpyxl.Workbook()
    overview = book.active
    overview.title = "overview"
    _fill(overview, *_overview(plan))
    titles = {"overview"}
    header = stop_header(plan)
    for route in plan.routes:
        rows = [stop_cells(plan, route, line) for line in route.lines]
        title = _title(f"route {route.name}", titles)
        _fill(book.create_sheet(title), header, rows)
    if plan.verdict.unserved:
        own = ("id", "demand")
        names = [*own, *plan.columns(own)]
        rows = [
            [
                instance.ids[row],
                f"{instance.demands[row]}",
                *(cells[row] for cells in instance.columns.values()),
            ]
            for row in plan.verdict.unserved
        ]
        _fill(book.create_sheet(_title("unserved", titles)), names, rows)
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def _overview(plan: Plan) -> tuple[list[str], list[list[Any]]]:
    header = ["vehicle", "stops", "load", "capacity", "length"]
    header += ["minutes"] if plan.timed else []
    rows = [
        [
            route.name,
            str(len(route.stops)),
            f"{route.load:.10g}",
            f"{route.capacity:.10g}",
            plan.length_text(route.length),
            *([f"{route.minutes or 0:.1f}"] if plan.timed else []),
        ]
        for route in plan.routes
    ]
    return header, rows


def _title(wish: str, taken: set[str]) -> str:
    """A name of a sheet that no other has; spreadsheets do not tell a from A."""
    safe = _NOT_IN_TITLES.sub("_", wish)
    title, number = safe[:MAX_TITLE], 2
    while title.lower() in taken:
        end = f" {number}"
        title, number = safe[: MAX_TITLE - len(end)] + end, number + 1
    taken.add(title.lower())
    return title


def _fill(sheet: Any, header: list[str], rows: list[list[Any]]) -> None:
    """Write a table: numbers as numbers, everything else as text, never a formula."""
    widths = [len(name) for name in header]
    for at, row in enumerate([header, *rows], start=1):
        for column, value in enumerate(row, start=1):
            text = str(value)
            number = None if header[column - 1] in WORDS else plain_number(text)
            cell = sheet.cell(at, column)
            if number is None or at == 1:
                cell.value = _printable(text)
                cell.data_type = "s"
            else:
                cell.value = int(number) if number.is_integer() else number
            widths[column - 1] = max(widths[column - 1], min(len(text), 40))
    for column, width in enumerate(widths, start=1):
        letter = sheet.cell(1, column).column_letter
        sheet.column_dimensions[letter].width = width + 2
    sheet.freeze_panes = "A2"


def _printable(text: str) -> str:
    """Text without the control characters that a workbook cannot hold."""
    return "".join(c if c.isprintable() or c in "\n\t" else " " for c in text)
