"""CVRPLIB instances (.vrp), read strictly.

Other readers drop customers, take NaN and treat every metric as Euclidean without
a word (reliability notes, section 1); this one reads what it understands and
refuses the rest with the line. Node ids are 1..DIMENSION in file order; customer k
is the k-th node that is not the depot, as in .sol files, and that number is its id.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from clusterfirst.files.source import (
    Complaints,
    Limits,
    check_title,
    number_hint,
    plain_number,
    plain_numbers,
    warn,
)
from clusterfirst.problem.checks import MAX_COORDINATE
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import FloatArray, Instance

KEYS = {
    "NAME",
    "COMMENT",
    "TYPE",
    "DIMENSION",
    "CAPACITY",
    "VEHICLES",
    "EDGE_WEIGHT_TYPE",
    "EDGE_WEIGHT_FORMAT",
    "NODE_COORD_TYPE",
    "DISPLAY_DATA_TYPE",
}
LIMIT_KEYS = {"DISTANCE", "SERVICE_TIME"}  # other problems, unless they are 0
KNOWN_KEYS = KEYS | LIMIT_KEYS
SECTIONS = {
    "NODE_COORD_SECTION",
    "DEMAND_SECTION",
    "DEPOT_SECTION",
    "EDGE_WEIGHT_SECTION",
    "DISPLAY_DATA_SECTION",
}
COLUMNS = {"NODE_COORD_SECTION": "id x y", "DEMAND_SECTION": "id demand"}
# For each format of a symmetric matrix: the triangle in reading order, as numpy's
# function and its diagonal offset. A column-wise triangle is the other one by rows.
TRIANGLES = {
    "LOWER_ROW": ("lower", -1),
    "LOWER_DIAG_ROW": ("lower", 0),
    "UPPER_ROW": ("upper", 1),
    "UPPER_DIAG_ROW": ("upper", 0),
    "LOWER_COL": ("upper", 1),
    "LOWER_DIAG_COL": ("upper", 0),
    "UPPER_COL": ("lower", -1),
    "UPPER_DIAG_COL": ("lower", 0),
}
_NUMBER_STARTS = set("0123456789+-.")
_KEYWORD = re.compile(r"([A-Za-z][A-Za-z_0-9]*)\s*(:?)\s*(.*)")

Row = tuple[int, list[str]]  # line number and words


@dataclass
class _Scan(Complaints):
    """The lines of a file, sorted into keys and sections."""

    keys: dict[str, tuple[str, int]] = field(default_factory=dict)
    sections: dict[str, list[Row]] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    last_line: int = 0

    def value(self, key: str) -> str:
        return self.keys.get(key, ("", 0))[0]


def parse_vrp(text: str, limits: Limits, default_name: str = "") -> Instance:
    """Return the instance in the text of a .vrp file, distances unrounded."""
    scan = _scan(text)
    scan.stop_if_wrong()
    size = _dimension(scan, limits)
    capacity = _capacity(scan)
    explicit = _explicit(scan)
    vehicles = _vehicles(scan)
    _check_scope(scan, explicit)
    _check_widths(scan)
    scan.stop_if_wrong()
    coords = None
    if "NODE_COORD_SECTION" in scan.sections:
        coords = _coordinates(scan, size)
    matrix = _matrix(scan, size) if explicit else None
    demands = _demands(scan, size)
    depot = _depot(scan, size)
    scan.stop_if_wrong()
    if demands[depot] != 0:
        got = f"{demands[depot]:g}"
        raise InputError(Problem("E119", "depot demand", got, "must be 0"))
    order = np.concatenate([[depot], np.delete(np.arange(size), depot)])
    name = scan.value("NAME") if "NAME" in scan.keys else default_name
    check_title(name, "NAME")
    if scan.unknown:
        got = ", ".join(scan.unknown[:5])
        warn(Problem("W110", "keys", got, "not known here, and ignored"))
    return Instance(
        demands=demands[order],
        capacity=capacity,
        coords=None if coords is None else coords[order],
        matrix=None if matrix is None else matrix[np.ix_(order, order)],
        metric="matrix" if explicit else "euclidean",
        vehicles=vehicles,
        name=name,
        max_customers=limits.max_customers,
    )


def _scan(text: str) -> _Scan:
    scan = _Scan()
    rows: list[Row] | None = None
    ended = False
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        scan.last_line = number
        if ended:
            scan.complain("E110", f"line {number}", line, "nothing may follow EOF")
            break
        keyword = None if line[0] in _NUMBER_STARTS else _KEYWORD.fullmatch(line)
        if keyword is None:
            if rows is None:
                rule = "a keyword such as DIMENSION is needed here"
                scan.complain("E110", f"line {number}", line, rule)
                break
            rows.append((number, line.split()))
            continue
        key, colon, rest = keyword.groups()
        key = key.upper()
        if key == "EOF":
            ended = True
        elif key.endswith("_SECTION"):
            if key in scan.sections:
                scan.complain("E110", f"line {number}", key, "it is given twice")
            rows = scan.sections.setdefault(key, [])
            if rest:
                rows.append((number, rest.split()))
        elif colon or key in KNOWN_KEYS:
            rows = None
            _add_key(scan, key, rest.strip(), number)
        else:
            rule = "a keyword or a row of numbers is needed here"
            scan.complain("E110", f"line {number}", line, rule)
            break
    return scan


def _add_key(scan: _Scan, key: str, value: str, number: int) -> None:
    if key not in KNOWN_KEYS:
        scan.unknown.append(key)
        return
    before, line = scan.keys.get(key, (value, number))
    if before != value and key != "COMMENT":
        code = "E115" if key == "DIMENSION" else "E110"
        rule = f"line {line} says {before}"
        scan.complain(code, f"{key} in line {number}", value, rule)
    scan.keys.setdefault(key, (value, number))


def _whole(text: str) -> int | None:
    """A whole number in plain digits; more than 18 digits is never meant."""
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text) else None


def _dimension(scan: _Scan, limits: Limits) -> int:
    text = scan.value("DIMENSION")
    size = _whole(text)
    if size is None or size < 1:
        rule = "must be a whole number of at least 1"
        scan.complain("E115", "DIMENSION", text or "nothing", rule)
        return 0
    if size > limits.max_customers + 1:
        rule = f"the limit is {limits.max_customers} customers (--max-customers)"
        scan.complain("E114", "DIMENSION", text, rule)
    return size


def _capacity(scan: _Scan) -> float:
    if "CAPACITY" not in scan.keys:
        scan.complain("E122", "CAPACITY", "nothing", "a capacity is needed")
        return 0
    text = scan.value("CAPACITY")
    value = plain_number(text)
    if value is None or value <= 0:
        rule = "must be a finite number above 0"
        scan.complain("E123", "CAPACITY", text or "nothing", rule)
        return 0
    scan.require_exact(text, "CAPACITY")
    return value


def _vehicles(scan: _Scan) -> int | None:
    if "VEHICLES" not in scan.keys:
        return None
    value = _whole(scan.value("VEHICLES"))
    if value is None or value < 1:
        rule = "must be a whole number of at least 1"
        scan.complain("E404", "VEHICLES", scan.value("VEHICLES") or "nothing", rule)
    return value


def _explicit(scan: _Scan) -> bool:
    """Whether distances are given as a matrix."""
    kind = scan.value("EDGE_WEIGHT_TYPE").upper()
    if kind not in {"EUC_2D", "EXPLICIT"}:
        rule = "supported: EUC_2D, EXPLICIT"
        scan.complain("E120", "EDGE_WEIGHT_TYPE", kind or "nothing", rule)
    layout = scan.value("EDGE_WEIGHT_FORMAT").upper()
    if kind == "EXPLICIT" and layout not in {"FULL_MATRIX", *TRIANGLES}:
        rule = f"supported: FULL_MATRIX, {', '.join(TRIANGLES)}"
        scan.complain("E120", "EDGE_WEIGHT_FORMAT", layout or "nothing", rule)
    return kind == "EXPLICIT"


def _check_scope(scan: _Scan, explicit: bool) -> None:
    """Refuse other problems than the CVRP, and files that end early."""
    kind = scan.value("TYPE").upper()
    if kind not in {"", "CVRP"}:
        scan.complain("E121", "TYPE", kind, "only CVRP is solved here")
    for key in sorted(LIMIT_KEYS & scan.keys.keys()):
        if plain_number(scan.value(key)) != 0:
            rule = "only CVRP is solved here, this would be ignored"
            scan.complain("E121", key, scan.value(key) or "nothing", rule)
    for key in scan.sections.keys() - SECTIONS:
        rule = "only CVRP is solved here, this would be ignored"
        scan.complain("E121", "section", key, rule)
    if scan.value("NODE_COORD_TYPE").upper() not in {"", "TWOD_COORDS", "NO_COORDS"}:
        rule = "only TWOD_COORDS is supported"
        scan.complain("E120", "NODE_COORD_TYPE", scan.value("NODE_COORD_TYPE"), rule)
    geometry = "EDGE_WEIGHT_SECTION" if explicit else "NODE_COORD_SECTION"
    for key in (geometry, "DEMAND_SECTION"):
        if key not in scan.sections:
            rule = f"the file ends before {key}"
            scan.complain("E111", f"line {scan.last_line}", rule=rule)
    if not scan.sections.get("DEPOT_SECTION"):
        rule = "exactly one depot is needed"
        scan.complain("E118", "DEPOT_SECTION", "nothing", rule)


def _check_widths(scan: _Scan) -> None:
    """Every row of a table has the right number of words."""
    for section, columns in COLUMNS.items():
        width = len(columns.split())
        for number, words in scan.sections.get(section, []):
            if len(words) != width:
                rule = f"{section} needs {width} ({columns})"
                got = f"{len(words)} values"
                scan.complain("E112", f"line {number}", got, rule)


def _coordinates(scan: _Scan, size: int) -> FloatArray:
    section = "NODE_COORD_SECTION"
    rows = scan.sections[section]
    if len(rows) != size:
        rule = f"{section} has {len(rows)} rows"
        scan.complain("E113", "DIMENSION", str(size), rule)
        scan.stop_if_wrong()
    seen: dict[str, int] = {}
    for expected, (number, words) in enumerate(rows, start=1):
        if words[0] in seen:
            rule = f"it appears twice (first in line {seen[words[0]]})"
            scan.complain("E116", f"line {number}", f"node id {words[0]}", rule)
        elif words[0] != str(expected):
            rule = f"ids are 1, 2, 3 ... in file order: {expected} is needed"
            scan.complain("E116", f"line {number}", f"node id {words[0]}", rule)
        seen.setdefault(words[0], number)
    scan.stop_if_wrong()
    columns = [_column(scan, rows, axis) for axis in (1, 2)]
    return np.array(columns).T


def _column(scan: _Scan, rows: list[Row], axis: int) -> list[float]:
    """One coordinate of every node; a wrong one is named."""
    values = plain_numbers([words[axis] for _, words in rows])
    if values is not None and max(map(abs, values)) <= MAX_COORDINATE:
        return values
    for number, words in rows:
        where = f"line {number}: node {words[0]} {'xy'[axis - 1]}"
        value, word = plain_number(words[axis]), words[axis]
        if value is None:
            rule = "must be a finite number"
            scan.complain("E131", where, word, rule, number_hint(word))
        elif abs(value) > MAX_COORDINATE:
            rule = f"the absolute value must be at most {MAX_COORDINATE:g}"
            scan.complain("E132", where, word, rule)
    return [0.0] * len(rows)


def _demands(scan: _Scan, size: int) -> FloatArray:
    demands = np.full(size, np.nan)
    seen: dict[int, int] = {}
    for number, (name, word) in scan.sections["DEMAND_SECTION"]:
        node, value = _whole(name), plain_number(word)
        where = f"line {number}: node {name} demand"
        if node is None or not 1 <= node <= size:
            rule = f"nodes are numbered 1 to {size}"
            scan.complain("E117", where, f"node {name}", rule)
        elif node in seen:
            rule = f"node id {node} appears twice (first in line {seen[node]})"
            scan.complain("E116", where, word, rule)
        elif value is None:
            rule = "must be a finite number"
            scan.complain("E134", where, word, rule, number_hint(word))
        elif value < 0:
            scan.complain("E133", where, word, "must be at least 0")
        else:
            scan.require_exact(word, where)
            demands[node - 1] = value
        if node is not None:
            seen.setdefault(node, number)
    for i in np.flatnonzero(np.isnan(demands)).tolist():
        if i + 1 not in seen:
            rule = "every node needs a demand"
            scan.complain("E117", "DEMAND_SECTION", f"no demand of node {i + 1}", rule)
    return demands


def _depot(scan: _Scan, size: int) -> int:
    """Row of the depot; the list ends with -1."""
    words = [word for _, row in scan.sections["DEPOT_SECTION"] for word in row]
    depots = words[: words.index("-1")] if "-1" in words else words
    depot = _whole(depots[0]) if len(depots) == 1 else None
    if depot is None or not 1 <= depot <= size:
        rule = f"exactly one depot is supported, a node from 1 to {size}"
        scan.complain("E118", "DEPOT_SECTION", ", ".join(depots) or "nothing", rule)
        return 0
    return depot - 1


def _matrix(scan: _Scan, size: int) -> FloatArray:
    section = "EDGE_WEIGHT_SECTION"
    parts = [_weights(scan, row) for row in scan.sections[section]]
    scan.stop_if_wrong()
    values = np.concatenate([np.empty(0), *parts])
    layout = scan.value("EDGE_WEIGHT_FORMAT").upper()
    side, offset = TRIANGLES.get(layout, ("full", 0))
    triangle = size * (size + 1 if offset == 0 else size - 1) // 2
    needed = size * size if side == "full" else triangle
    if len(values) != needed:
        rule = f"{layout} of {size} nodes needs {needed}"
        scan.complain("E113", section, f"{len(values)} values", rule)
        scan.stop_if_wrong()
    if side == "full":
        return values.reshape(size, size)
    matrix = np.zeros((size, size))
    indices = np.tril_indices if side == "lower" else np.triu_indices
    matrix[indices(size, offset)] = values
    return np.maximum(matrix, matrix.T)


def _weights(scan: _Scan, row: Row) -> list[float]:
    number, words = row
    values = plain_numbers(words)
    if values is not None and min(values, default=0) >= 0:
        return values
    for word in words:
        value = plain_number(word)
        if value is None or value < 0:
            rule = "must be a finite distance of at least 0"
            scan.complain("E131", f"line {number}", word, rule, number_hint(word))
    return []
