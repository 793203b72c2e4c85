"""A plan for drivers: HTML that prints one page per route."""

from __future__ import annotations

import html
import math
from pathlib import Path

from clusterfirst.files.plan import Plan, RouteLines, StopLine, plan_of
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution

STYLE = Path(__file__).parent / "sheets" / "page.css"
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def format_sheets(
    instance: Instance, solution: Solution, start: float | None = None
) -> str:
    """Return the pages; with a `start` (minutes after midnight) the times of day."""
    plan = plan_of(instance, solution)
    pages = [_page(plan, route, start) for route in plan.routes]
    if plan.verdict.unserved:
        pages.append(_unserved(plan))
    title = html.escape(instance.name or "Routes")
    style = STYLE.read_text(encoding="utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f"<title>{title}</title>\n<style>\n{style}</style></head>\n<body>\n"
        + "\n".join(pages)
        + "\n</body></html>\n"
    )


def _page(plan: Plan, route: RouteLines, start: float | None) -> str:
    instance = plan.instance
    unit = f" {instance.unit}" if instance.unit else ""
    facts = [
        f"{len(route.stops)} stops",
        f"load {route.load:.10g} of {route.capacity:.10g}",
        f"{plan.length_text(route.length)}{unit}",
    ]
    if route.minutes is not None:
        facts.append(_minutes(route.minutes))
        if start is not None:
            facts.append(f"{clock(start)} to {clock(start + route.minutes)}")
    header = ["", "stop", "id", *instance.columns, "demand", "so far"]
    header += ["leg", f"way{unit}"]
    if plan.timed:
        header.append("arrival" if start is not None else "after")
    rows = [
        _row(plan, line, start, last=line is route.lines[-1]) for line in route.lines
    ]
    words = html.escape(", ".join(facts))
    table = _table(header, rows, words=3 + len(instance.columns))
    title = _heading(plan, route)
    return f"<section><h1>{title}</h1>\n<p>{words}</p>\n{table}</section>"


def _table(header: list[str], rows: list[str], words: int) -> str:
    """A table whose columns after so many `words` are numbers."""
    names = "".join(
        f"<th{' class=n' if at >= words else ''}>{html.escape(name)}</th>"
        for at, name in enumerate(header)
    )
    body = "\n".join(rows)
    return f"<table><thead><tr>{names}</tr></thead><tbody>\n{body}\n</tbody></table>"


def _cells(words: list[str], kind: str = "") -> str:
    return "".join(f"<td{kind}>{html.escape(word)}</td>" for word in words)


def _heading(plan: Plan, route: RouteLines) -> str:
    day = f"{plan.instance.name}: " if plan.instance.name else ""
    kind = "route " if plan.instance.constraints is None else ""
    return html.escape(f"{day}{kind}{route.name}")


def _row(plan: Plan, line: StopLine, start: float | None, *, last: bool) -> str:
    instance = plan.instance
    depot = line.row == 0
    box = "" if depot else '<span class="box"></span>'
    number = "" if depot else str(line.number)
    own = [cells[line.row] for cells in instance.columns.values()]
    words = [number, instance.ids[line.row], *own]
    demand = "" if depot else f"{float(instance.demands[line.row]):.10g}"
    first = depot and not last
    so_far = "" if depot else f"{line.load:.10g}"
    numbers = [demand, so_far, "" if first else plan.length_text(line.leg)]
    numbers.append("" if first else plan.length_text(line.distance))
    if plan.timed and line.minutes is not None:
        numbers.append(
            clock(start + line.minutes) if start is not None else _minutes(line.minutes)
        )
    cells = _cells(words) + _cells(numbers, ' class="n"')
    kind = ' class="depot"' if depot else ""
    return f'<tr{kind}><td class="done">{box}</td>{cells}</tr>'


def _unserved(plan: Plan) -> str:
    instance, why = plan.instance, plan.reasons
    rows = []
    for row in plan.verdict.unserved:
        own = [cells[row] for cells in instance.columns.values()]
        demand = f"{float(instance.demands[row]):.10g}"
        words = [instance.ids[row], *own, demand, *([why[row]] if why else [])]
        rows.append(f"<tr>{_cells(words)}</tr>")
    header = ["id", *instance.columns, "demand", *(["why"] if why else [])]
    table = _table(header, rows, words=len(header))
    return f"<section><h1>Not served</h1>\n{table}</section>"


def _minutes(minutes: float) -> str:
    hours, rest = divmod(math.ceil(minutes - 1e-9), 60)
    return f"{hours} h {rest:02d}" if hours else f"{rest} min"


def clock(minutes: float) -> str:
    """Return a time of day; after midnight it starts again."""
    hours, rest = divmod(round(minutes) % 1440, 60)
    return f"{hours:02d}:{rest:02d}"
