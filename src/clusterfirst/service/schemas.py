"""The OpenAPI side of each endpoint: bodies, answers and examples.

Bodies are read by the package's own strict readers, so these schemas describe and do
not check. The examples are what the tests send.
"""

from __future__ import annotations

from typing import Any

from clusterfirst.service.choices import OPTION_KEYS
from clusterfirst.service.inputs import CSV, JSON, XLSX

SQUARE: dict[str, Any] = {
    "name": "square",
    "capacity": 6,
    "depot": {"id": "depot", "lat": 51.05, "lon": 3.72},
    "customers": [
        {"id": "north", "lat": 51.07, "lon": 3.72, "demand": 3},
        {"id": "north-east", "lat": 51.07, "lon": 3.74, "demand": 2},
        {"id": "east", "lat": 51.05, "lon": 3.75, "demand": 4},
        {"id": "south", "lat": 51.03, "lon": 3.72, "demand": 2},
        {"id": "west", "lat": 51.05, "lon": 3.70, "demand": 1},
    ],
}
PLAN_EXAMPLE = {"instance": SQUARE, "options": {"time_limit": 0.2}}
TABLE_EXAMPLE = (
    "id,lat,lon,demand\ndepot,51.05,3.72,0\nnorth,51.07,3.72,3\neast,51.05,3.75,4\n"
)
CHECK_EXAMPLE = {
    "instance": SQUARE,
    "routes": [["north", "north-east"], ["east", "south"], ["west"]],
}
MOVE_EXAMPLE = {"customer": "north", "route": 1, "apply": False}
QUOTE_EXAMPLE = {"lat": 51.06, "lon": 3.73, "demand": 1}
CITY_QUOTE_EXAMPLE = {
    "city": "bundled",
    "orders": [{"id": "4", "demand": 3}, {"id": "39", "demand": 5}],
    "order": {"x": 0.4, "y": 0.6, "demand": 2},
    "completions": 3,
}
LEARN_EXAMPLE = {"hours": 3}
FORECAST_EXAMPLE = {"city": "bundled", "days": 5, "growth": 1.1}
REPLAN_EXAMPLE = {
    "add": [{"id": "new", "lat": 51.06, "lon": 3.73, "demand": 1}],
    "remove": ["west"],
}
VROOM_EXAMPLE = {
    "jobs": [
        {"id": 1, "location": [3.72, 51.07], "delivery": [3]},
        {"id": 2, "location": [3.75, 51.05], "delivery": [4]},
    ],
    "vehicles": [
        {"id": 7, "start": [3.72, 51.05], "end": [3.72, 51.05], "capacity": [5]},
        {"id": 8, "start": [3.72, 51.05], "end": [3.72, 51.05], "capacity": [5]},
    ],
}

_ID = {"type": "string", "minLength": 1, "maxLength": 200}
_NUMBER = {"type": "number"}
PLACE = {
    "type": "object",
    "properties": {
        "id": _ID,
        "lat": {"type": "number", "minimum": -90, "maximum": 90},
        "lon": {"type": "number", "minimum": -180, "maximum": 180},
        "x": _NUMBER,
        "y": _NUMBER,
        "demand": {"type": "number", "minimum": 0},
    },
}
INSTANCE = {
    "type": "object",
    "description": "An instance as in docs/formats.md.",
    "required": ["capacity", "depot", "customers"],
    "properties": {
        "name": {"type": "string"},
        "capacity": {"type": "number", "exclusiveMinimum": 0},
        "vehicles": {"type": ["integer", "null"], "minimum": 1},
        "rounding": {"enum": ["none", "round", "trunc", "dimacs", "exact"]},
        "depot": PLACE,
        "customers": {"type": "array", "items": PLACE},
        "matrix": {"type": "array", "items": {"type": "array", "items": _NUMBER}},
    },
}
OPTIONS = {
    "type": "object",
    "description": "As on the command line: " + ", ".join(sorted(OPTION_KEYS)),
    "additionalProperties": False,
    "properties": {
        "method": {"type": "string"},
        "model": {"type": "string"},
        "time_limit": {"type": "number", "minimum": 0.05},
        "iterations": {"type": "integer", "minimum": 1},
        "seed": {"type": "integer", "minimum": 0},
        "seed_sets": {"type": "integer", "minimum": 1},
        "fleet": {"enum": ["kmin", "best"]},
        "polish": {"type": "boolean"},
    },
}
PLAN_BODY = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "instance": INSTANCE,
        "city": {"type": "string"},
        "orders": {"type": "array", "items": {"type": "object"}},
        "capacity": {"type": "number", "exclusiveMinimum": 0},
        "vehicles": {"type": "integer", "minimum": 1},
        "name": {"type": "string"},
        "options": OPTIONS,
    },
}
ROUTES = {"type": "array", "items": {"type": "array", "items": _ID}}
PLAN = {
    "type": "object",
    "required": ["id", "status", "version"],
    "properties": {
        "id": {"type": "string"},
        "status": {"enum": ["queued", "running", "done", "stopped", "failed"]},
        "statement": {"type": "string"},
        "version": {"type": "integer"},
        "parent": {"type": ["string", "null"]},
        "cost": _NUMBER,
        "unit": {"type": "string"},
        "routes": ROUTES,
        "loads": {"type": "array", "items": _NUMBER},
        "lengths": {"type": "array", "items": _NUMBER},
        "capacities": {"type": "array", "items": _NUMBER},
        "minutes": {"type": "array", "items": _NUMBER},
        "history": {"type": "array", "items": {"type": "object"}},
        "problems": {"type": "array", "items": {"type": "object"}},
    },
}
PROBLEM = {
    "type": "object",
    "required": ["status", "code", "detail", "problems"],
    "properties": {
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "detail": {"type": "string"},
        "problems": {"type": "array", "items": {"type": "object"}},
    },
}


def body(
    schema: dict[str, Any], example: Any, *, tables: bool = False
) -> dict[str, Any]:
    """The part of an operation that describes its body."""
    content: dict[str, Any] = {JSON: {"schema": schema, "example": example}}
    if tables:
        text = {"type": "string"}
        content[CSV] = {"schema": text, "example": TABLE_EXAMPLE}
        content[XLSX] = {"schema": {"type": "string", "format": "binary"}}
    return {"requestBody": {"required": True, "content": content}}


def answers(*good: int, schema: dict[str, Any] | None = None) -> dict[int | str, Any]:
    """The answers of an operation: the good ones, and problems."""
    problem = {"application/problem+json": {"schema": PROBLEM}}
    found: dict[int | str, Any] = {
        status: {"description": "a problem", "content": problem}
        for status in (400, 401, 403, 404, 405, 408, 409, 413, 415, 422, 429)
    }
    for status in good:
        found[status] = {
            "description": "done",
            "content": {JSON: {"schema": schema or {}}},
        }
    return found
