"""Our JSON: instances, and any document written strictly (docs/formats.md).

JSON as the standard has it: no NaN, no duplicate keys, no unknown keys, no
numbers that a float cannot hold. The place of a wrong value is given as a path,
`customers[17].demand`.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from clusterfirst.files.atomic import write_text
from clusterfirst.files.source import Complaints, Limits, check_title
from clusterfirst.problem.errors import MAX_LINES, InputError, Problem, quote
from clusterfirst.problem.exact import inexact
from clusterfirst.problem.instance import Instance

FORMAT = "clusterfirst-instance"
VERSION = 1
MAX_DIGITS = 30
MAX_DEPTH = 100
_MARKS = np.zeros(256, dtype=np.int8)  # what a byte does to the depth; 2: a quote
_MARKS[list(b"[{")], _MARKS[list(b"]}")], _MARKS[ord('"')] = 1, -1, 2
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
}
PLACE_KEYS = {"id", "x", "y", "lat", "lon"}


@dataclass(frozen=True)
class _BadNumber:
    """A number JSON or a float cannot hold; reported where it is used."""

    text: str
    code: str
    rule: str


class _Inexact(float):
    """A number that the float is not quite; where it matters, it is refused."""

    text: str


def parse_json(text: str) -> Any:
    """Return the document; bad numbers are marked, other faults raised."""
    _require_shallow(text)
    try:
        return json.loads(
            text,
            parse_constant=_constant,
            parse_int=_integer,
            parse_float=_decimal,
            object_pairs_hook=_unique,
        )
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        rule = f"this is not JSON: {error.msg}"
        raise InputError(Problem("E302", where, rule=rule)) from error
    except RecursionError as error:
        raise InputError(_too_deep()) from error


def _require_shallow(text: str) -> None:
    """Count brackets outside of strings, before the parser goes down with them."""
    data = text.encode("utf-8", "replace")
    if b"\\" in data:
        data = re.sub(rb"\\.", b"__", data, flags=re.DOTALL)
    marks = np.frombuffer(data, dtype=np.uint8)
    marks = marks[_MARKS[marks] != 0]
    outside = np.cumsum(marks == ord('"')) % 2 == 0
    steps = _MARKS[marks[outside]]
    if np.cumsum(steps[steps != 2], dtype=np.int64).max(initial=0) > MAX_DEPTH:
        raise InputError(_too_deep())


def _too_deep() -> Problem:
    rule = f"more than {MAX_DEPTH} levels; an instance needs 4"
    return Problem("E303", "nesting", rule=rule)


def _constant(text: str) -> _BadNumber:
    return _BadNumber(text, "E301", "JSON has no such number")


def _integer(text: str) -> int | _BadNumber:
    if len(text) <= MAX_DIGITS:
        return int(text)
    rule = f"a number of {len(text)} digits; the limit is {MAX_DIGITS}"
    return _BadNumber(text, "E304", rule)


def _decimal(text: str) -> float | _BadNumber:
    value = float(text)
    if abs(value) != float("inf"):
        if inexact(text, "") is None:
            return value
        marked = _Inexact(value)
        marked.text = text
        return marked
    return _BadNumber(text, "E301", "no float can hold this number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise InputError(Problem("E305", "key", key, "it is given twice"))
            seen.add(key)
    return document


def write_json(path: str | os.PathLike[str], document: Mapping[str, Any]) -> None:
    """Write a document of plain values; NaN and infinity are refused."""
    write_text(path, format_json(document))


def format_json(document: Mapping[str, Any]) -> str:
    """Return the text of a document: one key, or one item of a list, per line."""
    try:
        lines = [f"{_compact(key)}: {_lines(value)}" for key, value in document.items()]
        text = "{\n" + ",\n".join(lines) + "\n}\n"
        text.encode("utf-8")  # lone surrogates have no UTF-8
    except (ValueError, TypeError, RecursionError) as error:
        rule = f"this cannot be written as JSON: {quote(str(error))}"
        raise InputError(Problem("E301", "document", rule=rule)) from error
    return text


def _compact(value: Any) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def _lines(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return _compact(value)
    return "[\n " + ",\n ".join(map(_compact, value)) + "\n]"


# --- checking a document, key by key --------------------------------------------


class Checker(Complaints):
    """Takes values out of a parsed document and remembers what is wrong."""

    def mapping(self, value: Any, where: str, keys: set[str]) -> dict[str, Any]:
        """Return an object without unknown keys."""
        if not isinstance(value, dict):
            self.complain("E306", where, _kind(value), "an object { } is needed")
            return {}
        for key in value.keys() - keys:
            # Only for lines that will be printed: a million keys must not hang.
            few = len(self.problems) < MAX_LINES
            close = difflib.get_close_matches(key, keys, n=1) if few else []
            hint = f'; did you mean "{close[0]}"?' if close else ""
            self.complain("E307", f"key in {where}", key, f"it is not known{hint}")
        return value

    def items(self, value: Any, where: str) -> list[Any]:
        """Return a list."""
        if not isinstance(value, list):
            self.complain("E306", where, _kind(value), "a list [ ] is needed")
            return []
        return value

    def number(self, value: Any, where: str) -> float:
        """Return a number; 0 stands in for a wrong one."""
        if isinstance(value, _BadNumber):
            self.complain(value.code, where, value.text, value.rule)
            return 0
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.complain("E306", where, _kind(value), "a number is needed")
            return 0
        return value

    def exact(self, value: Any, where: str) -> float:
        """Return a demand or capacity, which adds up exactly."""
        number = self.number(value, where)
        if isinstance(number, _Inexact):
            self.require_exact(number.text, where)
        elif isinstance(number, int):
            self.require_exact(f"{number}.0", where)
        return number

    def whole(self, value: Any, where: str) -> int:
        """Return a whole number."""
        number = self.number(value, where)
        if not isinstance(number, int):
            self.complain("E306", where, str(number), "a whole number is needed")
            return 0
        return number

    def text(self, value: Any, where: str) -> str:
        """Return a string."""
        if not isinstance(value, str):
            self.complain("E306", where, _kind(value), "a string is needed")
            return ""
        return value

    def header(self, document: dict[str, Any], name: str, version: int) -> None:
        """Check `format` and `version`, which say what the document is."""
        if document.get("format", name) != name:
            rule = f'"{name}" is needed'
            self.complain("E309", "format", _kind(document["format"]), rule)
        found = document.get("version", version)
        if not isinstance(found, int) or not 1 <= found <= version:
            rule = f"this program reads up to version {version}"
            self.complain("E309", "version", _kind(found), rule)


def _kind(value: Any) -> str:
    """Return the value with its JSON type, as a person would say it."""
    if isinstance(value, _BadNumber):
        return value.text
    names = {bool: "boolean", str: "string", list: "list", dict: "object"}
    if value is None:
        return "null"
    shown = "" if isinstance(value, list | dict) else quote(json.dumps(value))[:60]
    name = names.get(type(value), "number")
    return f"{shown} ({name})" if shown else f"{'an' if name[0] == 'o' else 'a'} {name}"


# --- instances ------------------------------------------------------------------


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
        places.append(check.mapping(row, f"customers[{i}]", {*PLACE_KEYS, "demand"}))
    check.stop_if_wrong()
    axes = _axes(check, places[0])
    fields = _optional(check, document, axes)
    name = check.text(document.get("name", default_name), "name")
    demands, coords, ids = _rows(check, places, axes)
    capacity = check.exact(document["capacity"], "capacity")
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
    }
    if "matrix" in document:
        fields["metric"] = "matrix"
        fields["matrix"] = _matrix(check, document["matrix"])
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


def _matrix(check: Checker, value: Any) -> list[list[float]]:
    rows = check.items(value, "matrix")
    numbers = []
    for i, row in enumerate(rows):
        cells = check.items(row, f"matrix[{i}]")
        if len(cells) != len(rows):
            rule = f"{len(rows)} are needed"
            check.complain("E113", f"matrix[{i}]", f"{len(cells)} numbers", rule)
        numbers.append(
            [check.number(cell, f"matrix[{i}][{j}]") for j, cell in enumerate(cells)]
        )
    return numbers


def instance_document(instance: Instance) -> dict[str, Any]:
    """Return an instance as a plain document that reads back equal."""
    axes = ("lon", "lat") if instance.metric == "greatcircle" else ("x", "y")
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
    if instance.matrix is not None:
        document["matrix"] = instance.matrix.tolist()
    if instance.city_rows is not None or instance.city_hash:
        rows = None if instance.city_rows is None else instance.city_rows.tolist()
        document["city"] = {"hash": instance.city_hash, "rows": rows}
    return document
