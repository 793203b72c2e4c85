"""A plan as a map in one HTML file that works without a network.

Leaflet is inlined; the page may load nothing (its content security policy says so), so
it can be sent by mail and opened anywhere. A street map, if there is one, is a PMTiles
archive inside the page, drawn by pmtiles.js, protomaps-leaflet.js and basemap.js.
"""

from __future__ import annotations

import base64
import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from clusterfirst.files.picture import LINE_STYLES, route_looks
from clusterfirst.files.plan import Plan, RouteLines, StopLine, plan_of
from clusterfirst.files.source import named, require_regular
from clusterfirst.problem.changes import Changes
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import FloatArray, Instance
from clusterfirst.problem.solution import Solution

SCRIPTS = ("pmtiles.js", "protomaps-leaflet.js", "basemap.js")
HEADER_BYTES = 127
MAGIC = b"PMTiles\x03"  # the third version of the format
TILE_TYPE = 99  # where the header says what a tile is
VECTOR = 1


def require_basemap(path: Path) -> Path:
    """Refuse what is not a PMTiles file of vector tiles; return the path."""
    with named(path):
        require_regular(path)
    try:
        with path.open("rb") as file:
            header = file.read(HEADER_BYTES)
    except OSError as error:
        rule = f"it cannot be read: {error.strerror or type(error).__name__}"
        raise InputError(Problem("E102", "--basemap", str(path), rule)) from error
    if len(header) < HEADER_BYTES or not header.startswith(MAGIC):
        rule = "a PMTiles file of version 3 is needed"
        raise InputError(Problem("E160", "--basemap", str(path), rule))
    if header[TILE_TYPE] != VECTOR:
        rule = "its tiles are pictures; vector tiles are needed"
        raise InputError(Problem("E160", "--basemap", str(path), rule))
    return path


HERE = Path(__file__).parent
PLANE = 1000.0  # a plane map is drawn in a square of this size
WORLD = 256 / 360  # pixels per degree of longitude at zoom 0
MOST_STREETS = 64 << 20  # bytes of a street map inside a page
CLOSE = 0.5  # quantile of the distances between neighbouring stops


def format_map(
    instance: Instance,
    solution: Solution,
    changes: Changes | None = None,
    basemap: Path | None = None,
) -> str:
    """Return the page; `changes` marks what is different from another plan.

    `basemap` is a PMTiles file that goes into the page: streets without a network.
    """
    if instance.coords is None:
        rule = "a map needs coordinates, and the instance has only a matrix"
        raise InputError(Problem("E141", "coords", rule=rule))
    plan = plan_of(instance, solution)
    points = _points(instance)
    document = {
        "degrees": instance.degrees,
        "scale": WORLD if instance.degrees else 1.0,
        "spacing": _spacing(points),
        "depot": {"at": _at(points, 0), "name": f"depot {instance.ids[0]}"},
        "routes": _routes(plan, points, changes),
        "unserved": [
            {
                "id": instance.ids[row],
                "at": _at(points, row),
                "facts": _facts(plan, row),
            }
            for row in plan.verdict.unserved
        ],
    }
    # No text of the user's may end the script that holds it.
    data = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    css = (HERE / "leaflet" / "leaflet.css").read_text(encoding="utf-8")
    parts = {
        "title": html.escape(instance.name or "Routes"),
        "summary": html.escape(_summary(plan, changes)),
        "leaflet_css": re.sub(r"url\([^)]*\)", "none", css),
        "css": (HERE / "map" / "page.css").read_text(encoding="utf-8"),
        "plan": data.replace("<", "\\u003c"),
        "leaflet_js": _script(HERE / "leaflet" / "leaflet.js"),
        "basemap": "" if basemap is None else _streets(instance, basemap),
        "js": _script(HERE / "map" / "page.js"),
    }
    page = (HERE / "map" / "page.html").read_text(encoding="utf-8")
    return re.sub(r"@(\w+)@", lambda found: parts[found[1]], page)


def _streets(instance: Instance, path: Path) -> str:
    """The scripts that draw a street map, and the map itself."""
    if not instance.degrees:
        rule = "a street map needs coordinates in degrees"
        raise InputError(Problem("E141", "--basemap", str(path), rule))
    size = require_basemap(path).stat().st_size
    if size > MOST_STREETS:
        rule = f"at most {MOST_STREETS >> 20} MB fit into a page; cut it to your city"
        raise InputError(Problem("E160", "--basemap", f"{size >> 20} MB", rule))
    data = path.read_bytes()
    scripts = "\n".join(_script(HERE / "leaflet" / name) for name in SCRIPTS)
    text = base64.b64encode(data).decode()
    kind = 'type="application/octet-stream"'
    return (
        f'<script id="streets" {kind}>{text}</script>\n<script>\n{scripts}\n</script>'
    )


def _script(path: Path) -> str:
    """A script without the comment that names a file beside it."""
    return re.sub(r"//# sourceMappingURL=.*", "", path.read_text(encoding="utf-8"))


def _points(instance: Instance) -> FloatArray:
    """(n + 1, 2) as Leaflet wants them: latitude, longitude, or y, x in a square."""
    assert instance.coords is not None
    if instance.degrees:
        return instance.coords[:, ::-1]
    low, extent = instance.coords.min(axis=0), np.ptp(instance.coords, axis=0).max()
    square: FloatArray = (instance.coords - low) * (PLANE / max(float(extent), 1e-300))
    return square[:, ::-1]


def _at(points: FloatArray, row: int) -> list[float]:
    return [round(value, 6) for value in points[row].tolist()]


def _spacing(points: FloatArray) -> float:
    """How far apart stops that lie close are; what lies on one spot does not count."""
    from scipy.spatial import cKDTree

    places = np.unique(points, axis=0)
    if len(places) < 2:
        return 1.0
    near, _ = cKDTree(places).query(places, k=2)
    return float(np.quantile(near[:, 1], CLOSE))


def _routes(
    plan: Plan, points: FloatArray, changes: Changes | None
) -> list[dict[str, Any]]:
    known = Solution([stop.row for stop in route.stops] for route in plan.routes)
    looks = route_looks(plan.instance.plane, known)
    unit = f" {plan.instance.unit}" if plan.instance.unit else ""
    return [
        {
            "name": route.name,
            "colour": colour,
            "dash": None if style == LINE_STYLES[0] else "6 4",
            "load": float(f"{route.load:.10g}"),
            "capacity": float(f"{route.capacity:.10g}"),
            "length": plan.length_text(route.length)
            + unit
            + ("" if route.minutes is None else f", {route.minutes:.0f} min"),
            "stops": [
                {
                    "id": plan.instance.ids[stop.row],
                    "route": route.name,
                    "number": stop.number,
                    "at": _at(points, stop.row),
                    "moved": changes is not None and stop.row in changes.moved,
                    "facts": _facts(plan, stop.row, route, stop, changes),
                }
                for stop in route.stops
            ],
        }
        for route, (colour, style) in zip(plan.routes, looks, strict=True)
    ]


def _facts(
    plan: Plan,
    row: int,
    route: RouteLines | None = None,
    stop: StopLine | None = None,
    changes: Changes | None = None,
) -> dict[str, str]:
    """What a click on an order shows."""
    instance = plan.instance
    facts = {"id": instance.ids[row]}
    if route is not None and stop is not None:
        facts["route"] = f"{route.name}, stop {stop.number} of {len(route.stops)}"
        facts["way"] = f"{plan.length_text(stop.leg)} from the stop before"
        if stop.minutes is not None:
            facts["after"] = f"{stop.minutes:.0f} minutes"
    else:
        facts["route"] = "not served"
        if plan.reasons:
            facts["why"] = plan.reasons[row]
    facts["demand"] = f"{float(instance.demands[row]):.10g}"
    if changes is not None and row in changes.moved:
        facts["before"] = changes.moved[row] or "not in the plan"
    return facts | {
        k: cells[row] for k, cells in instance.columns.items() if cells[row]
    }


def _summary(plan: Plan, changes: Changes | None) -> str:
    instance = plan.instance
    unit = f" {instance.unit}" if instance.unit else ""
    total = plan.length_text(sum(plan.verdict.lengths))
    served = instance.num_customers - len(plan.verdict.unserved)
    said = [f"{served} stops, {len(plan.routes)} routes, {total}{unit}"]
    if not plan.verdict.feasible:
        said.append("not feasible")
    if changes is not None:
        said.append(str(changes))
    return "; ".join(said)
