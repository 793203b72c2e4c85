"""Fleets, hours, pins and groups as JSON: keys of the instance and of its orders."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from clusterfirst.files.strict_json import Checker, kind_of
from clusterfirst.problem.constraints import Constraints
from clusterfirst.problem.fleet import Fleet

ASKED = {"fleet", "durations", "speed", "allow_unserved", "columns"}
WORDS = ("vehicle", "not_vehicle", "group", "apart")
AMOUNTS = {"service": 0.0, "priority": 1.0}
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
