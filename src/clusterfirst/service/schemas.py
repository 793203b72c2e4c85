"""The OpenAPI side of each endpoint: bodies, answers and examples.

Bodies are read by the package's own strict readers, so these schemas, which stand in
`openapi.json`, describe and do not check. The examples are what the tests send.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clusterfirst.service.choices import OPTION_KEYS
from clusterfirst.service.inputs import CSV, JSON, XLSX

_FILE = Path(__file__).with_name("openapi.json")
_FOUND: dict[str, dict[str, Any]] = json.loads(_FILE.read_text(encoding="utf-8"))
EXAMPLES, SCHEMAS = _FOUND["examples"], _FOUND["schemas"]
INSTANCE, PLAN, PLAN_BODY = (SCHEMAS[n] for n in ("instance", "plan", "plan_body"))
PLAN_BODY["properties"] |= {
    "instance": INSTANCE,
    "options": SCHEMAS["options"]
    | {"description": "As on the command line: " + ", ".join(sorted(OPTION_KEYS))},
}


def body(
    example: str, schema: dict[str, Any] | None = None, *, tables: bool = False
) -> dict[str, Any]:
    """The part of an operation that describes its body."""
    own = {"schema": schema or {"type": "object"}, "example": EXAMPLES[example]}
    if not tables:
        return _required({JSON: own})
    workbook = {"schema": {"type": "string", "format": "binary"}}
    return _required({JSON: own, **_csv("table"), XLSX: workbook})


def table(example: str) -> dict[str, Any]:
    """The same of a table alone."""
    return _required(_csv(example))


def _csv(example: str) -> dict[str, Any]:
    return {CSV: {"schema": {"type": "string"}, "example": EXAMPLES[example]}}


def _required(content: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": content}}


def answers(*good: int, schema: dict[str, Any] | None = None) -> dict[int | str, Any]:
    """The answers of an operation: the good ones, and problems."""
    problem = {"application/problem+json": {"schema": SCHEMAS["problem"]}}
    found: dict[int | str, Any] = {
        status: {"description": "a problem", "content": problem}
        for status in (400, 401, 403, 404, 405, 408, 409, 413, 415, 422, 429)
    }
    done = {"description": "done", "content": {JSON: {"schema": schema or {}}}}
    return found | dict.fromkeys(good, done)
