"""JSON read and written strictly (docs/formats.md).

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
from clusterfirst.files.source import Complaints
from clusterfirst.problem.checks import inexact
from clusterfirst.problem.errors import MAX_LINES, InputError, Problem, quote

MAX_DIGITS = 30
MAX_DEPTH = 100
_MARKS = np.zeros(256, dtype=np.int8)  # what a byte does to the depth; 2: a quote
_MARKS[list(b"[{")], _MARKS[list(b"]}")], _MARKS[ord('"')] = 1, -1, 2


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
            self.complain("E306", where, kind_of(value), "an object { } is needed")
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
            self.complain("E306", where, kind_of(value), "a list [ ] is needed")
            return []
        return value

    def number(self, value: Any, where: str) -> float:
        """Return a number; 0 stands in for a wrong one."""
        if isinstance(value, _BadNumber):
            self.complain(value.code, where, value.text, value.rule)
            return 0
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.complain("E306", where, kind_of(value), "must be a number")
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

    def square(self, value: Any, where: str) -> list[list[float]]:
        """Return as many numbers in each row as there are rows."""
        rows = [
            self.items(row, f"{where}[{i}]")
            for i, row in enumerate(self.items(value, where))
        ]
        for i, row in enumerate(rows):
            if len(row) != len(rows):
                rule = f"{len(rows)} are needed"
                self.complain("E113", f"{where}[{i}]", f"{len(row)} numbers", rule)
        return [
            [self.number(cell, f"{where}[{i}][{j}]") for j, cell in enumerate(row)]
            for i, row in enumerate(rows)
        ]

    def whole(self, value: Any, where: str) -> int:
        """Return a whole number."""
        number = self.number(value, where)
        if not isinstance(number, int):
            self.complain("E306", where, str(number), "must be a whole number")
            return 0
        return number

    def text(self, value: Any, where: str) -> str:
        """Return a string."""
        if not isinstance(value, str):
            self.complain("E306", where, kind_of(value), "a string is needed")
            return ""
        return value

    def header(self, document: dict[str, Any], name: str, version: int) -> None:
        """Check `format` and `version`, which say what the document is."""
        if document.get("format", name) != name:
            rule = f'"{name}" is needed'
            self.complain("E309", "format", kind_of(document["format"]), rule)
        found = document.get("version", version)
        if not isinstance(found, int) or not 1 <= found <= version:
            rule = f"this program reads up to version {version}"
            self.complain("E309", "version", kind_of(found), rule)


def kind_of(value: Any) -> str:
    """Return the value with its JSON type, as a person would say it."""
    if isinstance(value, _BadNumber):
        return value.text
    names = {bool: "boolean", str: "string", list: "list", dict: "object"}
    if value is None:
        return "null"
    shown = "" if isinstance(value, list | dict) else quote(json.dumps(value))[:60]
    name = names.get(type(value), "number")
    return f"{shown} ({name})" if shown else f"{'an' if name[0] == 'o' else 'a'} {name}"
