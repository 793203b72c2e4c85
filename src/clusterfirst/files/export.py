"""Plans for other programs: CSV (a row per stop), GeoJSON, GPX, a workbook."""

from __future__ import annotations

import io
import re
from typing import Any
from xml.sax.saxutils import escape

from clusterfirst.files.plan import Plan, RouteLines, StopLine, plan_of
from clusterfirst.files.source import plain_number
from clusterfirst.files.tables import format_table, need_openpyxl
from clusterfirst.files.vrplib_writing import plain_text
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution


def format_stops(instance: Instance, solution: Solution) -> str:
    """Return a table with a row per stop, from depot to depot on each route.

    `load`, `distance` and `minutes` count from the start of the route to this stop.
    """
    plan = plan_of(instance, solution)
    header = stop_header(plan)
    rows = [
        stop_cells(plan, route, line) for route in plan.routes for line in route.lines
    ]
    return format_table(header, rows)


def stop_header(plan: Plan) -> list[str]:
    """Return the names of the columns of a table of stops."""
    own = [
        "route",
        *(["vehicle"] if plan.instance.constraints is not None else []),
        "stop",
        "id",
        "demand",
        "load",
        "distance",
        *(["minutes"] if plan.timed else []),
        *_axes(plan.instance),
    ]
    return [*own, *plan.columns(tuple(own))]


def _axes(instance: Instance) -> list[str]:
    if instance.coords is None:
        return []
    return ["lat", "lon"] if instance.degrees else ["x", "y"]


def stop_cells(plan: Plan, route: RouteLines, line: StopLine) -> list[Any]:
    """Return the cells of one stop, as `stop_header` names them."""
    instance = plan.instance
    cells: list[Any] = [route.number]
    if instance.constraints is not None:
        cells.append(route.name)
    cells += [line.number, instance.ids[line.row]]
    cells.append(plain_text(float(instance.demands[line.row])))
    cells += [f"{line.load:.10g}", plan.length_text(line.distance)]
    if plan.timed:
        cells.append(f"{line.minutes or 0:.1f}")
    if instance.coords is not None:
        point = instance.coords[line.row].tolist()
        cells += map(plain_text, point[::-1] if instance.degrees else point)
    return [*cells, *(column[line.row] for column in instance.columns.values())]


def geojson_document(instance: Instance, solution: Solution) -> dict[str, Any]:
    """Return a FeatureCollection: a line per route, a point per stop and depot."""
    require_degrees(instance, "GeoJSON")
    assert instance.coords is not None
    points = instance.coords.tolist()
    plan = plan_of(instance, solution)
    depot = {"kind": "depot", "id": instance.ids[0]}
    features = [_feature("Point", points[0], depot)]
    for route in plan.routes:
        line = [points[stop.row] for stop in route.lines]
        facts: dict[str, Any] = {
            "kind": "route",
            "route": route.number,
            "name": route.name,
            "load": route.load,
            "capacity": route.capacity,
            "length": round(route.length, 6),
        }
        if route.minutes is not None:
            facts["minutes"] = round(route.minutes, 2)
        features.append(_feature("LineString", line, facts))
        for stop in route.stops:
            facts = {
                "kind": "stop",
                "route": route.number,
                "stop": stop.number,
                **_facts(instance, stop.row),
            }
            features.append(_feature("Point", points[stop.row], facts))
    for row in plan.verdict.unserved:
        facts = {"kind": "unserved", **_facts(instance, row)}
        if plan.reasons:
            facts["why"] = plan.reasons[row]
        features.append(_feature("Point", points[row], facts))
    return {"type": "FeatureCollection", "features": features}


def _facts(instance: Instance, row: int) -> dict[str, Any]:
    """What is known of an order; the user's own words do not replace ours."""
    own = {"id": instance.ids[row], "demand": instance.demands[row].item()}
    return {k: cells[row] for k, cells in instance.columns.items()} | own


def format_gpx(instance: Instance, solution: Solution) -> str:
    """Return a GPX route per vehicle, for navigation."""
    require_degrees(instance, "GPX")
    assert instance.coords is not None
    points = instance.coords.tolist()
    plan = plan_of(instance, solution)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<gpx version="1.1" creator="clusterfirst" '
        'xmlns="http://www.topografix.com/GPX/1/1">',
    ]
    for route in plan.routes:
        lines.append(f"<rte><name>{escape(route.name)}</name>")
        for stop in route.lines:
            lon, lat = points[stop.row]
            name = escape(instance.ids[stop.row])
            said = [c[stop.row] for c in instance.columns.values() if c[stop.row]]
            note = f"<desc>{escape('; '.join(said))}</desc>" if said else ""
            lines.append(
                f'<rtept lat="{lat:.7f}" lon="{lon:.7f}">'
                f"<name>{stop.number} {name}</name>{note}</rtept>"
            )
        lines.append("</rte>")
    return "\n".join([*lines, "</gpx>", ""])


def require_degrees(instance: Instance, what: str) -> None:
    """Refuse an instance that is not on the globe."""
    if not instance.degrees or instance.coords is None:
        rule = f"{what} needs lat and lon; write .csv or .json"
        raise InputError(Problem("E153", "metric", instance.metric, rule))


def _feature(kind: str, coordinates: Any, facts: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "Feature",
        "geometry": {"type": kind, "coordinates": coordinates},
        "properties": facts,
    }


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
        own = ("id", "demand", *(["why"] if plan.reasons else []))
        names = [*own, *plan.columns(own)]
        rows = [
            [
                instance.ids[row],
                f"{instance.demands[row]}",
                *([plan.reasons[row]] if plan.reasons else []),
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
