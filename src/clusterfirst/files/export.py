"""Solutions for other programs: one row per stop (CSV), and GeoJSON for maps."""

from __future__ import annotations

from typing import Any

import numpy as np

from clusterfirst.files.csv_files import format_table
from clusterfirst.files.vrplib_writing import plain_text
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge


def format_stops(instance: Instance, solution: Solution) -> str:
    """Return a table with a row per stop, from depot to depot on each route.

    `load` and `distance` count from the start of the route to this stop.
    """
    degrees = instance.metric == "greatcircle"
    axes = (
        [] if instance.coords is None else (["lat", "lon"] if degrees else ["x", "y"])
    )
    header = ["route", "stop", "id", "demand", "load", "distance", *axes]
    rows = []
    for number, route in enumerate(solution.routes, start=1):
        stops = np.array([0, *route, 0])
        units = np.cumsum(instance.demand_units[stops])
        loads = units * instance.capacity / instance.capacity_units
        legs = instance.lengths(stops[:-1], stops[1:])
        way = np.concatenate([[0.0], np.cumsum(legs)])
        for i, row in enumerate(stops.tolist()):
            numbers = [float(instance.demands[row]), float(loads[i]), float(way[i])]
            if instance.coords is not None:
                point = instance.coords[row].tolist()
                numbers += point[::-1] if degrees else point
            rows.append([number, i, instance.ids[row], *map(plain_text, numbers)])
    return format_table(header, rows)


def geojson_document(instance: Instance, solution: Solution) -> dict[str, Any]:
    """Return a FeatureCollection: a line per route, a point per stop and depot."""
    require_degrees(instance)
    assert instance.coords is not None
    points = instance.coords.tolist()
    depot = {"kind": "depot", "id": instance.ids[0]}
    features = [_feature("Point", points[0], depot)]
    loads = judge(instance, solution).loads
    for number, route in enumerate(solution.routes, start=1):
        line = [points[row] for row in (0, *route, 0)]
        facts = {"kind": "route", "route": number, "load": loads[number - 1]}
        features.append(_feature("LineString", line, facts))
        for stop, row in enumerate(route, start=1):
            facts = {
                "kind": "stop",
                "route": number,
                "stop": stop,
                "id": instance.ids[row],
                "demand": instance.demands[row].item(),
            }
            features.append(_feature("Point", points[row], facts))
    return {"type": "FeatureCollection", "features": features}


def require_degrees(instance: Instance) -> None:
    """Refuse an instance that is not on the globe."""
    if instance.metric != "greatcircle" or instance.coords is None:
        rule = "GeoJSON needs lat and lon; write .csv or .json"
        raise InputError(Problem("E153", "metric", instance.metric, rule))


def _feature(kind: str, coordinates: Any, facts: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "Feature",
        "geometry": {"type": kind, "coordinates": coordinates},
        "properties": facts,
    }
