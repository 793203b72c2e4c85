"""Instances as JSON (docs/formats.md)."""

from __future__ import annotations

from typing import Any

import numpy as np

from clusterfirst.files.json_constraints import (
    ASKED,
    ORDER_KEYS,
    constraints_document,
    order_keys,
    parse_columns,
    parse_constraints,
)
from clusterfirst.files.source import Limits, check_title
from clusterfirst.files.strict_json import MAX_DEPTH as MAX_DEPTH
from clusterfirst.files.strict_json import Checker as Checker
from clusterfirst.files.strict_json import format_json as format_json
from clusterfirst.files.strict_json import parse_json as parse_json
from clusterfirst.files.strict_json import write_json as write_json
from clusterfirst.problem.instance import Instance

FORMAT = "clusterfirst-instance"
VERSION = 1
MAX_ROW = 2**53  # of a city; far beyond any, and exact in a float
KEYS = {
    "format",
    "version",
    "name",
    "metric",
    "rounding",
    "capacity",
    "vehicles",
    "depot",
    "customers",
    "matrix",
    "city",
    *ASKED,
}
PLACE_KEYS = {"id", "x", "y", "lat", "lon"}
CUSTOMER_KEYS = {*PLACE_KEYS, "demand", *ORDER_KEYS}


def parse_instance(text: str, limits: Limits, default_name: str = "") -> Instance:
    """Return the instance in a JSON text."""
    return instance_of(parse_json(text), limits, default_name)


def instance_of(parsed: Any, limits: Limits, default_name: str = "") -> Instance:
    """Return the instance in what `parse_json` made of a text or of a part of it."""
    check = Checker()
    document = check.mapping(parsed, "the document", KEYS)
    check.stop_if_wrong()
    check.header(document, FORMAT, VERSION)
    for key in ("capacity", "depot", "customers"):
        if key not in document:
            code = "E122" if key == "capacity" else "E111"
            check.complain(code, key, "nothing", "it is needed")
    check.stop_if_wrong()
    customers = check.items(document["customers"], "customers")
    if len(customers) > limits.max_customers:
        rule = f"the limit is {limits.max_customers} (--max-customers)"
        check.complain("E401", "customers", str(len(customers)), rule)
    check.stop_if_wrong()
    places = [check.mapping(document["depot"], "depot", PLACE_KEYS)]
    for i, row in enumerate(customers):
        places.append(check.mapping(row, f"customers[{i}]", CUSTOMER_KEYS))
    check.stop_if_wrong()
    axes = _axes(check, places[0])
    fields = _optional(check, document, axes)
    name = check.text(document.get("name", default_name), "name")
    demands, coords, ids = _rows(check, places, axes)
    capacity = check.exact(document["capacity"], "capacity")
    fields["constraints"] = parse_constraints(check, document, places)
    fields["columns"] = parse_columns(check, document, len(places))
    check.stop_if_wrong()
    check_title(name, "name")
    return Instance(
        demands=np.array(demands, dtype=np.float64),
        capacity=capacity,
        coords=np.array(coords, dtype=np.float64) if axes else None,
        name=name,
        ids=tuple(ids),
        max_customers=limits.max_customers,
        **fields,
    )


def _axes(check: Checker, depot: dict[str, Any]) -> tuple[str, ...]:
    """Names of the coordinates, in Instance's order; none for a bare matrix."""
    degrees, plane = depot.keys() & {"lat", "lon"}, depot.keys() & {"x", "y"}
    if degrees and plane:
        check.complain("E306", "depot", "x, y and lat, lon", "one pair is needed")
    if degrees:
        return ("lon", "lat")
    return ("x", "y") if plane else ()


def _rows(
    check: Checker, places: list[dict[str, Any]], axes: tuple[str, ...]
) -> tuple[list[float], list[list[float]], list[str]]:
    demands: list[float] = [0.0]
    coords, ids = [], []
    for row, place in enumerate(places):
        where = "depot" if row == 0 else f"customers[{row - 1}]"
        ids.append(check.text(place.get("id", str(row)), f"{where}.id"))
        for key in place.keys() & (PLACE_KEYS - {"id", *axes}):
            rule = f"the depot has {' and '.join(axes) or 'no coordinates'}"
            check.complain("E306", where, key, rule)
        if axes:
            point = [check.number(place.get(a), f"{where}.{a}") for a in axes]
            coords.append(point)
        if row:
            demands.append(check.exact(place.get("demand"), f"{where}.demand"))
    _unique_ids(check, ids)
    return demands, coords, ids


def _unique_ids(check: Checker, ids: list[str]) -> None:
    """Duplicates by their path in the document; Instance checks the rest."""
    first: dict[str, int] = {}
    for row, name in enumerate(ids):
        if first.setdefault(name, row) != row:
            other = first[name]
            used = "depot" if other == 0 else f"customers[{other - 1}]"
            rule = f"already used by {used}"
            check.complain("E308", f"customers[{row - 1}].id", name, rule)


def _optional(
    check: Checker, document: dict[str, Any], axes: tuple[str, ...]
) -> dict[str, Any]:
    """Fields that may be missing, as arguments of Instance."""
    fields: dict[str, Any] = {
        "metric": "greatcircle" if "lat" in axes else "euclidean",
        "rounding": check.text(document.get("rounding", "none"), "rounding"),
        "degrees": "lat" in axes,
    }
    if "matrix" in document:
        fields["metric"] = "matrix"
        fields["matrix"] = check.square(document["matrix"], "matrix")
    if "metric" in document:
        stated = check.text(document["metric"], "metric")
        if stated != fields["metric"]:
            rule = f"the coordinates given make it {fields['metric']}"
            check.complain("E120", "metric", stated, rule)
    if document.get("vehicles") is not None:
        fields["vehicles"] = check.whole(document["vehicles"], "vehicles")
    if document.get("city") is not None:
        city = check.mapping(document["city"], "city", {"hash", "rows"})
        fields["city_hash"] = check.text(city.get("hash", ""), "city.hash")
        if city.get("rows") is not None:
            rows = check.items(city["rows"], "city.rows")
            whole = [check.whole(row, f"city.rows[{i}]") for i, row in enumerate(rows)]
            fields["city_rows"] = np.clip(whole, -1, MAX_ROW)
    return fields


def instance_document(instance: Instance) -> dict[str, Any]:
    """Return an instance as a plain document that reads back equal."""
    axes = ("lon", "lat") if instance.degrees else ("x", "y")
    points = None if instance.coords is None else instance.coords.tolist()
    places: list[dict[str, Any]] = [{"id": name} for name in instance.ids]
    demands = instance.demands.tolist()
    for row, place in enumerate(places):
        if points is not None:
            place.update(zip(axes, points[row], strict=True))
        if row:
            place["demand"] = demands[row]
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "name": instance.name,
        "metric": instance.metric,
        "rounding": instance.rounding,
        "capacity": instance.capacity,
        "vehicles": instance.vehicles,
        "depot": places[0],
        "customers": places[1:],
    }
    if instance.constraints is not None:
        for row, place in enumerate(places[1:], start=1):
            place.update(order_keys(instance.constraints, row))
        document.update(constraints_document(instance.constraints))
    if instance.columns:
        document["columns"] = {k: list(v) for k, v in instance.columns.items()}
    if instance.matrix is not None:
        document["matrix"] = instance.matrix.tolist()
    if instance.city_rows is not None or instance.city_hash:
        rows = None if instance.city_rows is None else instance.city_rows.tolist()
        document["city"] = {"hash": instance.city_hash, "rows": rows}
    return document
