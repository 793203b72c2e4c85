"""Instances as JSON, with fleets, hours, pins and groups (docs/formats.md)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from clusterfirst.files.source import Limits, check_title
from clusterfirst.files.strict_json import Checker, kind_of, parse_json
from clusterfirst.problem.constraints import AMOUNTS, WORDS, Constraints
from clusterfirst.problem.fleet import Fleet
from clusterfirst.problem.instance import Instance

ASKED = {"fleet", "durations", "speed", "allow_unserved", "columns"}
ORDER_KEYS = {*WORDS, *AMOUNTS}
LIMITS = ("max_stops", "max_distance", "max_duration")  # null: none
FLEET_KEYS = {"name", "capacity", "count", *LIMITS, "fixed_cost", "optional"}


def parse_constraints(
    check: Checker, document: dict[str, Any], places: list[dict[str, Any]]
) -> Constraints | None:
    """Return what the document asks beyond one capacity, or None."""
    asked = document.keys() & (ASKED - {"columns"})
    used = {key for place in places[1:] for key in place.keys() & ORDER_KEYS}
    if not asked and not used:
        return None
    if document.get("fleet") is None:
        rule = f"a fleet is needed beside {', '.join(sorted(asked | used))}"
        check.complain("E111", "fleet", "nothing", rule)
        return None
    fleet = _fleet(check, document["fleet"])
    fields: dict[str, Any] = {}
    if document.get("durations") is not None:
        fields["durations"] = check.square(document["durations"], "durations")
    if document.get("speed") is not None:
        fields["speed"] = float(check.number(document["speed"], "speed"))
    allow = document.get("allow_unserved", False)
    if not isinstance(allow, bool):
        check.complain("E306", "allow_unserved", kind_of(allow), "true or false")
    for key in used & set(WORDS):
        words = [
            check.text(place.get(key, ""), f"customers[{i}].{key}")
            for i, place in enumerate(places[1:])
        ]
        fields[key] = ("", *words)
    for key in used & AMOUNTS.keys():
        values = [
            check.number(place.get(key, AMOUNTS[key]), f"customers[{i}].{key}")
            for i, place in enumerate(places[1:])
        ]
        fields[key] = np.array([0.0, *values], dtype=np.float64)
    check.stop_if_wrong()
    return Constraints(fleet, allow_unserved=allow, **fields)


def _fleet(check: Checker, value: Any) -> Fleet:
    rows = [
        check.mapping(row, f"fleet[{i}]", FLEET_KEYS)
        for i, row in enumerate(check.items(value, "fleet"))
    ]
    columns: dict[str, list[Any]] = {key: [] for key in FLEET_KEYS}
    for i, row in enumerate(rows):
        where = f"fleet[{i}]"
        columns["name"].append(check.text(row.get("name"), f"{where}.name"))
        exact = check.exact(row.get("capacity"), f"{where}.capacity")
        columns["capacity"].append(exact)
        columns["count"].append(check.whole(row.get("count", 1), f"{where}.count"))
        for key in LIMITS:
            most = row.get(key)
            known = most is not None
            number = check.number(most, f"{where}.{key}") if known else math.inf
            columns[key].append(number)
        cost = check.number(row.get("fixed_cost", 0), f"{where}.fixed_cost")
        columns["fixed_cost"].append(cost)
        may = row.get("optional", True)
        if not isinstance(may, bool):
            check.complain("E306", f"{where}.optional", kind_of(may), "true or false")
        columns["optional"].append(may is not False)
    check.stop_if_wrong()
    return Fleet(
        tuple(columns.pop("name")),
        np.array(columns.pop("capacity"), dtype=np.float64),
        np.array(columns.pop("count"), dtype=np.float64),
        **{key: np.array(cells) for key, cells in columns.items()},
    )


def parse_columns(
    check: Checker, document: dict[str, Any], size: int
) -> dict[str, tuple[str, ...]]:
    """Return what else is known of each row, under the names of the columns."""
    given = document.get("columns", {})
    if not isinstance(given, dict):
        check.complain("E306", "columns", kind_of(given), "an object { } is needed")
        return {}
    columns = {}
    for name, cells in given.items():
        items = check.items(cells, f"columns.{name}")
        if len(items) != size:
            rule, got = f"{size} are needed, the depot's first", f"{len(items)} cells"
            check.complain("E113", f"columns.{name}", got, rule)
        columns[name] = tuple(check.text(c, f"columns.{name}") for c in items)
    return columns


def constraints_document(constraints: Constraints) -> dict[str, Any]:
    """Return the keys of an instance that hold its constraints."""
    fleet = constraints.fleet
    document: dict[str, Any] = {
        "fleet": [
            {
                "name": name,
                "capacity": fleet.capacities[k].item(),
                "count": fleet.counts[k].item(),
                **{
                    key: getattr(fleet, key)[k].item()
                    for key in LIMITS
                    if math.isfinite(getattr(fleet, key)[k])
                },
                "fixed_cost": fleet.fixed_cost[k].item(),
                "optional": fleet.optional[k].item(),
            }
            for k, name in enumerate(fleet.names)
        ],
        "allow_unserved": constraints.allow_unserved,
    }
    if constraints.durations is not None:
        document["durations"] = constraints.durations.tolist()
    if constraints.speed is not None:
        document["speed"] = constraints.speed
    return document


def order_keys(constraints: Constraints, row: int) -> dict[str, Any]:
    """Return the keys of one order."""
    found: dict[str, Any] = {
        key: getattr(constraints, key)[row]
        for key in WORDS
        if getattr(constraints, key)
    }
    for key in AMOUNTS:
        values = getattr(constraints, key)
        if values is not None:
            found[key] = values[row].item()
    return {key: value for key, value in found.items() if value != ""}


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
    if not document:
        check.stop_if_wrong()
    check.header(document, FORMAT, VERSION)
    for key in ("capacity", "depot", "customers"):
        if key not in document:
            code = "E122" if key == "capacity" else "E111"
            check.complain(code, key, "nothing", "it is needed")
    customers = check.items(document.get("customers", []), "customers")
    if len(customers) > limits.max_customers:
        rule = f"the limit is {limits.max_customers} (--max-customers)"
        check.complain("E401", "customers", str(len(customers)), rule)
        check.stop_if_wrong()
    places, broken = _places(check, document, customers)
    axes = _axes(check, next((place for place in places if place), {}))
    fields = _optional(check, document, axes, len(places))
    name = check.text(document.get("name", default_name), "name")
    demands, coords, ids = _rows(check, places, axes, broken)
    capacity = check.exact(document.get("capacity", 1), "capacity")
    with check.going_on():
        fields["constraints"] = parse_constraints(Checker(), document, places)
    fields["columns"] = parse_columns(check, document, len(places))
    with check.going_on():
        check_title(name, "name")
    if not axes and "matrix" not in document:
        check.stop_if_wrong()
    found = None
    with check.going_on():
        found = Instance(
            demands=np.array(demands, dtype=np.float64),
            capacity=capacity,
            coords=np.array(coords, dtype=np.float64) if axes else None,
            name=name,
            ids=tuple(ids),
            max_customers=limits.max_customers,
            **fields,
        )
    check.stop_if_wrong()
    assert found is not None
    return found


def _places(
    check: Checker, document: dict[str, Any], customers: list[Any]
) -> tuple[list[dict[str, Any]], set[int]]:
    """The depot and the customers as objects, and the rows that are none."""
    places, broken = [], set()
    rows = [("depot", document.get("depot"), PLACE_KEYS)]
    rows += [(f"customers[{i}]", c, CUSTOMER_KEYS) for i, c in enumerate(customers)]
    for row, (where, given, keys) in enumerate(rows):
        if not isinstance(given, dict):
            broken.add(row)
        missing = row == 0 and "depot" not in document  # that was said
        places.append({} if missing else check.mapping(given, where, keys))
    return places, broken


def _axes(check: Checker, depot: dict[str, Any]) -> tuple[str, ...]:
    """Names of the coordinates, in Instance's order; none for a bare matrix."""
    degrees, plane = depot.keys() & {"lat", "lon"}, depot.keys() & {"x", "y"}
    if degrees and plane:
        check.complain("E306", "depot", "x, y and lat, lon", "one pair is needed")
    if degrees:
        return ("lon", "lat")
    return ("x", "y") if plane else ()


def _rows(
    check: Checker,
    places: list[dict[str, Any]],
    axes: tuple[str, ...],
    broken: set[int],
) -> tuple[list[float], list[list[float]], list[str]]:
    demands: list[float] = [0.0]
    coords: list[list[float]] = []
    ids: list[str] = []
    for row, place in enumerate(places):
        where = "depot" if row == 0 else f"customers[{row - 1}]"
        if row in broken:
            place = {"id": where, "demand": 0, **dict.fromkeys(axes, 0.0)}
        known = len(check.problems)
        name = check.text(place.get("id", str(row)), f"{where}.id")
        ids.append(where if len(check.problems) > known else name)
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
            ids[row] = f"customers[{row - 1}]"  # stands in, for what else is wrong


def _optional(
    check: Checker, document: dict[str, Any], axes: tuple[str, ...], size: int
) -> dict[str, Any]:
    """Fields that may be missing, as arguments of Instance."""
    fields: dict[str, Any] = {
        "metric": "greatcircle" if "lat" in axes else "euclidean",
        "rounding": check.text(document.get("rounding", "none"), "rounding"),
        "degrees": "lat" in axes,
    }
    if "matrix" in document:
        fields["metric"] = "matrix"
        known = len(check.problems)
        fields["matrix"] = check.square(document["matrix"], "matrix")
        if len(check.problems) > known:
            fields["matrix"] = np.zeros((size, size))  # for what else is wrong
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
