"""The table of bad input: rows of the reliability notes, section 7.

Rows 1-46, 48, 59 and 60, with the changes this project makes: EXPLICIT is read,
zero customers and demand 0 are accepted, the limit is 100,000 customers.
`test_bad_input.py` sends every case through Python and through the command line.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Content = bytes | Callable[[Path], None]

VRP = """NAME : tiny
TYPE : CVRP
DIMENSION : 4
EDGE_WEIGHT_TYPE : EUC_2D
CAPACITY : 10
NODE_COORD_SECTION
1 0 0.5
2 4 0
3 0 3
4 1 1
DEMAND_SECTION
1 0
2 5
3 6
4 7
DEPOT_SECTION
1
-1
EOF
"""
DAY: dict[str, Any] = {
    "capacity": 10,
    "depot": {"id": "d", "x": 0, "y": 0.5},
    "customers": [
        {"id": "a", "x": 1, "y": 2, "demand": 3},
        {"id": "b", "x": 2, "y": 2, "demand": 4},
    ],
}
LOCATIONS = "id,x,y\nd,0,0.5\na,1,2\nb,2,2\n"
ORDERS = "id,demand\na,3\nb,4\n"


@dataclass(frozen=True)
class Case:
    """One bad (or odd) input and what must be said about it."""

    row: int
    what: str
    code: str  # "" for input that is accepted without a word
    shows: str  # part of the line: the place, or what was found
    name: str  # of the file; orders.csv and locations.csv are read as such
    content: Content

    def __str__(self) -> str:
        return f"row{self.row}-{self.what}".replace(" ", "-")


def vrp(row: int, what: str, code: str, shows: str, *change: str) -> Case:
    """The small .vrp with one text replaced by another."""
    old, new = change
    assert old in VRP
    text = VRP.replace(old, new, 1)
    return Case(row, what, code, shows, "a.vrp", text.encode())


def day(row: int, what: str, code: str, shows: str, **changes: Any) -> Case:
    """The small JSON day with keys replaced; customer 0's with `first`."""
    document = json.loads(json.dumps(DAY))
    document["customers"][0].update(changes.pop("first", {}))
    document.update(changes)
    text = json.dumps(document)
    return Case(row, what, code, shows, "a.json", text.encode())


def raw(row: int, what: str, code: str, shows: str, *file: Any) -> Case:
    """A file given by name and content."""
    name, content = file
    data = content.encode() if isinstance(content, str) else content
    return Case(row, what, code, shows, name, data)


def _zip() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    return stream.getvalue()


def _npz(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def _claims_too_much() -> bytes:
    """A small array whose header promises 8 TB."""
    header = io.BytesIO()
    facts = {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
    np.lib.format.write_array_header_1_0(header, facts)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("coords.npy", header.getvalue())
    return stream.getvalue()


def _large(path: Path) -> None:
    path.touch()
    os.truncate(path, 2 << 30)  # sparse: 2 GB of nothing


HEAD = '{"capacity": 10, "depot": {"x": 0, "y": 0}, "customers": ['
NUMBER = HEAD + '{"id": "a", "x": %s, "y": 1, "demand": 1}]}'
GEO = "EDGE_WEIGHT_TYPE : GEO"
MATRIX = (
    "EDGE_WEIGHT_TYPE : EUC_2D",
    "EDGE_WEIGHT_TYPE : EXPLICIT\nEDGE_WEIGHT_FORMAT : LOWER_ROW\n"
    "EDGE_WEIGHT_SECTION\n1 2 3\n",
)
# Node 2 becomes the depot; the demands move with it.
DEPOT_2 = "1 5\n2 0\n3 6\n4 7\nDEPOT_SECTION\n2"
DEGREES: dict[str, Any] = {
    "depot": {"x": -47.93, "y": -1.29},
    "customers": [
        {"x": -48.02, "y": -1.40, "demand": 1},
        {"x": -48.03, "y": -1.34, "demand": 1},
    ],
}

REFUSED: list[Case] = [
    raw(1, "empty", "E101", "0 bytes", "a.vrp", b""),
    raw(1, "blank", "E101", "blank", "a.json", b" \n\n"),
    raw(2, "missing", "E102", "No such file", "a.vrp", lambda path: None),
    raw(2, "folder", "E102", "folder", "a.vrp", lambda path: path.mkdir()),
    raw(2, "long name", "E102", "too long", "a" * 300 + ".vrp", lambda path: None),
    raw(2, "no suffix", "E106", "no suffix", "instance", VRP),
    raw(2, "other suffix", "E106", ".xls", "a.xls", VRP),
    raw(3, "binary", "E103", "byte 0", "a.vrp", bytes(range(128, 256))),
    raw(3, "UTF-16", "E103", "UTF-16", "a.json", json.dumps(DAY).encode("utf-16")),
    raw(3, "latin-1", "E103", "byte 6", "a.vrp", b"NAME: \xe9"),
    raw(3, "NUL", "E103", "NUL byte at character 4", "a.vrp", b"NAME\0"),
    raw(4, "2 GB", "E104", "64 MB", "a.vrp", _large),
    raw(4, "pipe", "E104", "pipe or device", "a.vrp", lambda p: os.mkfifo(p)),
    raw(
        *(4, "device", "E104", "pipe or device", "a.json"),
        lambda path: path.symlink_to("/dev/zero"),
    ),
    raw(4, "array of 8 TB", "E321", "1000000000000", "a.npz", _claims_too_much()),
    raw(5, "gzip", "E105", "gzip", "a.vrp", gzip.compress(VRP.encode())),
    raw(5, "zip", "E105", "zip", "a.json", _zip()),
    raw(5, "xlsx as csv", "E105", ".xlsx", "orders.csv", _zip()),
    raw(6, "header only", "E111", "line 5", "a.vrp", VRP.split("NODE_COORD")[0]),
    raw(6, "one key", "E111", "NODE_COORD_SECTION", "a.vrp", "DIMENSION : 4\n"),
    raw(6, "set without arrays", "E322", "found x", "a.npz", _npz(x=np.zeros(3))),
    raw(7, "cut in a row", "E112", "line 9", "a.vrp", VRP[: VRP.index(" 3\n4 1")]),
    vrp(7, "wide row", "E112", "4 values", "2 4 0", "2 4 0 9"),
    raw(7, "cut set", "E321", "npz", "a.npz", _npz(x=np.zeros(3))[:-30]),
    raw(7, "cut LEHD line", "E331", "line 1", "a.txt", "depot,0.5,0.5,customer,1\n"),
    vrp(7, "words", "E110", "hello", "2 4 0\n", "hello world\n"),
    vrp(7, "after EOF", "E110", "EOF", "EOF\n", "EOF\n5 5 5\n"),
    vrp(8, "few rows", "E113", "400", "DIMENSION : 4", "DIMENSION : 400"),
    raw(
        *(8, "set of other shapes", "E323", "array demand", "a.npz"),
        _npz(coords=np.zeros((2, 3, 2)), demand=np.zeros((2, 2)), capacity=np.ones(2)),
    ),
    vrp(9, "many rows", "E113", "4 rows", "DIMENSION : 4", "DIMENSION : 3"),
    vrp(10, "huge", "E114", "2000000000", "DIMENSION : 4", "DIMENSION : 2000000000"),
    vrp(11, "missing", "E115", "nothing", "DIMENSION : 4\n", ""),
    vrp(11, "word", "E115", "abc", "DIMENSION : 4", "DIMENSION : abc"),
    vrp(11, "fraction", "E115", "4.5", "DIMENSION : 4", "DIMENSION : 4.5"),
    vrp(11, "negative", "E115", "-3", "DIMENSION : 4", "DIMENSION : -3"),
    vrp(11, "twice", "E115", "line", "CAPACITY", "DIMENSION : 5\nCAPACITY"),
    vrp(12, "repeated id", "E116", "first in line 8", "3 0 3", "2 0 3"),
    vrp(12, "out of order", "E116", "node id 3", "2 4 0\n3 0 3", "3 4 0\n2 0 3"),
    vrp(12, "gap", "E116", "node id 5", "4 1 1", "5 1 1"),
    vrp(12, "from 0", "E116", "node id 0", "1 0 0.5\n2 4", "0 0 0.5\n1 4"),
    vrp(12, "id no number", "E116", "2.5", "2 4 0", "2.5 4 0"),
    vrp(13, "unknown demand", "E117", "node 9", "4 7\n", "4 7\n9 1\n"),
    vrp(13, "no demand", "E117", "node 4", "4 7\n", ""),
    vrp(13, "demand twice", "E116", "appears twice", "4 7\n", "4 7\n4 8\n"),
    vrp(14, "no depot", "E118", "nothing", "DEPOT_SECTION\n1\n-1\n", ""),
    vrp(14, "two depots", "E118", "1, 3", "1\n-1", "1\n3\n-1"),
    vrp(14, "depot unknown", "E118", "9", "1\n-1", "9\n-1"),
    vrp(15, "depot demand", "E119", "7", "1 0\n2 5", "1 7\n2 5"),
    vrp(16, "GEO", "E120", "GEO", "EDGE_WEIGHT_TYPE : EUC_2D", GEO),
    vrp(16, "CEIL_2D", "E120", "CEIL_2D", "EUC_2D", "CEIL_2D"),
    vrp(16, "no type", "E120", "nothing", "EDGE_WEIGHT_TYPE : EUC_2D\n", ""),
    vrp(16, "EXPLICIT, no format", "E120", "FORMAT", "EUC_2D", "EXPLICIT"),
    vrp(16, "EXPLICIT, short", "E113", "3 values", *MATRIX),
    vrp(17, "VRPTW", "E121", "VRPTW", "TYPE : CVRP", "TYPE : VRPTW"),
    vrp(17, "windows", "E121", "TIME_WINDOW", "EOF", "TIME_WINDOW_SECTION\n1 0 9\nEOF"),
    vrp(17, "DISTANCE", "E121", "200", "CAPACITY", "DISTANCE : 200\nCAPACITY"),
    vrp(18, "missing", "E122", "CAPACITY", "CAPACITY : 10\n", ""),
    *(
        vrp(19, value, "E123", value, "CAPACITY : 10", f"CAPACITY : {value}")
        for value in ("0", "-5", "NaN", "inf", "1e999")
    ),
    *(
        vrp(20, f"x {value}", "E131", f"line 8: node 2 x: found {value}", "2 4", new)
        for value, new in (
            ("nan", "2 nan"),
            ("inf", "2 inf"),
            ("abc", "2 abc"),
            ("1,5", "2 1,5"),
            ("1_0", "2 1_0"),
            ("٣", "2 ٣"),
        )
    ),
    vrp(20, "endless digits", "E131", "node 2 x", "2 4", "2 " + "9" * 10**6 + "x"),
    vrp(21, "1e308", "E132", "1e308", "2 4", "2 1e308"),
    vrp(22, "negative", "E133", "node 3 demand: found -5", "3 6", "3 -5"),
    vrp(23, "nan", "E134", "node 3 demand: found nan", "3 6", "3 nan"),
    vrp(25, "7 decimals", "E136", "0.1234567", "3 6", "3 0.1234567"),
    vrp(26, "total", "E137", "total", "3 6", "3 9007199254740992"),
    vrp(26, "odd", "E137", "9007199254740993", "3 6", "3 9007199254740993"),
    vrp(26, "fine", "E136", "0.50000", "3 6", "3 0.5000000000000000000001"),
    vrp(26, "large", "E137", "CAPACITY", ": 10", ": 8999999999.000001"),
    *(
        raw(31, word, "E301", f"customers[0].x: found {word}", "a.json", NUMBER % word)
        for word in ("NaN", "Infinity", "-Infinity", "1e999")
    ),
    raw(32, "comma", "E302", "line 1 column", "a.json", '{"capacity": 1,}'),
    raw(32, "cut", "E302", "line 1 column", "a.json", json.dumps(DAY)[:-9]),
    raw(32, "two documents", "E302", "Extra data", "a.json", json.dumps(DAY) * 2),
    raw(33, "100,000 deep", "E303", "nesting", "a.json", "[" * 100_000),
    raw(33, "objects", "E303", "nesting", "a.json", '{"city":' * 100_000),
    raw(34, "long number", "E304", "5000 digits", "a.json", NUMBER % ("9" * 5000)),
    day(34, "long name", "E304", "200", name="n" * 1_000_000),
    raw(35, "twice", "E305", "capacity", "a.json", '{"capacity": 1, "capacity": 2}'),
    *(
        day(36, kind, "E306", f"customers[0].demand: found {kind}", first=new)
        for kind, new in (
            ('"3" (string)', {"demand": "3"}),
            ("true (boolean)", {"demand": True}),
            ("null", {"demand": None}),
            ("a list", {"demand": [3]}),
            ("an object", {"demand": {}}),
        )
    ),
    raw(36, "list document", "E306", "object", "a.json", "[]"),
    raw(36, "pickled set", "E321", "object", "a.npz", _npz(x=np.array([{}]))),
    day(36, "customers no list", "E306", "customers", customers={}),
    day(36, "vehicles 2.5", "E306", "whole", vehicles=2.5),
    day(36, "id number", "E306", "customers[0].id", first={"id": 7}),
    day(36, "mixed coordinates", "E306", "customers[0]", first={"lat": 1}),
    day(37, "capcity", "E307", 'did you mean "capacity"?', capcity=3),
    day(37, "demnd", "E307", 'did you mean "demand"?', first={"demnd": 3}),
    day(38, "duplicate", "E308", "customers[1].id: found b", first={"id": "b"}),
    day(38, "depot's", "E308", "used by depot", first={"id": "d"}),
    day(38, "empty", "E308", "row 1", first={"id": ""}),
    day(38, "10,000 characters", "E308", "200", first={"id": "x" * 10_000}),
    day(38, "NUL", "E308", "\\x00", first={"id": "a\0b"}),
    raw(39, "no header", "E311", "a,3", "orders.csv", "a,3\nb,4\n"),
    raw(39, "renamed", "E311", "X;Y;Demand", "orders.csv", "X;Y;Demand\n1;2;3\n"),
    raw(39, "twice", "E311", "each once", "orders.csv", "id,demand,demand\na,1,2\n"),
    raw(39, "locations", "E311", "id,lat,lon", "locations.csv", "id,lat\nd,1\n"),
    raw(39, "empty cells", "E311", "line 1", "orders.csv", ",,\n,\n"),
    raw(39, "no city", "E143", "--city", "a.csv", ORDERS),
    raw(40, "few fields", "E312", "line 3: found 1 fields", "orders.csv", ORDERS[:-3]),
    raw(40, "more fields", "E312", "3 fields", "orders.csv", "id,demand\na,3,x\n"),
    raw(40, "line break", "E312", "line 3", "orders.csv", 'id,demand\n"a\nb",3\n'),
    raw(40, "open quote", "E312", "CSV", "orders.csv", 'id,demand\n"a,3\n'),
    raw(
        40,
        "long field",
        "E312",
        "131072",
        "orders.csv",
        f"id,demand\n{'a' * 140_000},3",
    ),
    *(
        raw(41, cell, "E313", found, "orders.csv", f"id,demand\na,{cell}\n")
        for cell, found in (
            ("٣", "line 2 demand: found ٣"),
            ("1_000", "line 2 demand: found 1_000"),
            (" nan ", "line 2 demand: found nan"),
            ("$5", "line 2 demand: found $5"),
            ("", "an empty cell"),
            ('"1,5"', "decimal point"),
        )
    ),
    raw(
        41, "unknown ids", "E407", "line 4 id: found z", "orders.csv", ORDERS + "z,1\n"
    ),
    raw(41, "the depot", "E407", "the depot", "orders.csv", ORDERS + "d,1\n"),
    raw(41, "order twice", "E308", "used in line 2", "orders.csv", ORDERS + "a,1\n"),
    raw(41, "negative", "E133", "line 2", "orders.csv", "id,demand\na,-3\n"),
    raw(
        41, "x no number", "E313", "line 3 x", "locations.csv", "id,x,y\nd,0,0\na,?,2\n"
    ),
    raw(41, "no such depot", "E118", "found d", "locations.csv", "id,x,y\na,0,0\n"),
    raw(
        *(42, "swapped degrees", "E132", "swapped?", "locations.csv"),
        "id,lat,lon\nd,-147.9,-1.3\n",
    ),
    day(
        *(42, "swapped degrees in JSON", "E132", "swapped?"),
        depot={"lat": 147.9, "lon": 1.3},
        customers=[],
    ),
    raw(
        *(45, "too many", "E401", "100001", "a.json"),
        HEAD + ",".join(['{"x":0,"y":0,"demand":1}'] * 100_001) + "]}",
    ),
]


POINTS = VRP[VRP.index("1 0 0.5") : VRP.index("DEMAND")]
SAME = VRP.replace(POINTS, "".join(f"{i} 2.5 2\n" for i in (1, 2, 3, 4)))
MARKED = b"\xef\xbb\xbf" + VRP.replace("\n", "\r\n").encode()
ACCEPTED: list[Case] = [
    raw(3, "mark and CRLF", "", "", "a.vrp", MARKED),
    vrp(14, "depot 2", "", "", "1 0\n2 5\n3 6\n4 7\nDEPOT_SECTION\n1", DEPOT_2),
    vrp(16, "EXPLICIT", "", "", MATRIX[0], MATRIX[1].replace("3", "3 4 5 6")),
    vrp(24, "demand 0", "W135", "customer(s): 2", "3 6", "3 0"),
    day(24, "demand 0 in JSON", "W135", "customer(s): a", first={"demand": 0}),
    raw(
        24, "demand 0 in CSV", "W135", "customer(s): a", "orders.csv", "id,demand\na,0"
    ),
    vrp(25, "1.9", "", "", "3 6", "3 1.9"),
    vrp(37, "unknown key", "W110", "BEST", "CAPACITY", "BEST : 5\nCAPACITY"),
    day(30, "no customers", "", "", customers=[]),
    raw(30, "no orders", "", "", "orders.csv", "id,demand\n"),
    day(42, "degrees", "W314", "look like degrees", **DEGREES),
    vrp(42, "whole numbers", "W152", "--rounding round", "0 0.5", "0 5"),
    raw(43, "all identical", "", "", "a.vrp", SAME),
    day(43, "two identical", "", "", first={"x": 2, "y": 2}),
    day(44, "one customer", "", "", customers=DAY["customers"][:1]),
    day(44, "two customers", "", ""),
    vrp(44, "K = N", "", "", "2 5", "2 6"),
]
# Row, what, code, capacity, demands, fleet limit.
INFEASIBLE: list[tuple[int, str, str, float, list[float], int | None]] = [
    (27, "one too large", "E201", 50, [61, 1], None),
    (27, "30 too large", "E201", 50, [51] * 30, None),
    (28, "fleet too small", "E202", 50, [50, 50, 23], 2),
    (29, "does not pack", "E203|E204", 50, [26, 26, 26], 2),
]
# Row, argument of SolveOptions, value, words on the command line. What typer itself
# refuses ("10s") has no value in Python.
OPTIONS: list[tuple[int, str, Any, list[str]]] = [
    *(
        (46, "time_limit", value, ["--time-limit", str(value)])
        for value in (0, -1, float("nan"), float("inf"), 1e9)
    ),
    (46, "time_limit", "10s", ["--time-limit", "10s"]),
    (48, "seed", 2**70, ["--seed", str(2**70)]),
    (48, "seed", -1, ["--seed", "-1"]),
    (48, "method", "magic", ["--method", "magic"]),
    (48, "assign", "magic", ["--assign", "magic"]),
    (48, "iterations", 0, ["--iterations", "0"]),
]
# Row, what, code, text of the .sol for a day of four customers of 3, 1.5, 2 and 7
# in vehicles of 7.5, exit code of `check`.
SOLUTIONS: list[tuple[int, str, str, str, int]] = [
    (60, "missing", "E802", "Route #1: 1 2 3\n", 1),
    (60, "twice", "E803", "Route #1: 1 2 3\nRoute #2: 4\nRoute #3: 1\n", 1),
    (60, "unknown", "E804", "Route #1: 1 2 3 9\nRoute #2: 4\n", 1),
    (60, "depot inside", "E804", "Route #1: 1 2 0 3\nRoute #2: 4\n", 1),
    (60, "overload", "E801", "Route #1: 4 2\nRoute #2: 1 3\n", 1),
    (60, "empty route", "E805", "Route #1: 1 2 3\nRoute #2: 4\nRoute #3:\n", 1),
    (60, "wrong cost", "E806", "Route #1: 1 2 3\nRoute #2: 4\nCost 3.41\n", 1),
    (60, "too many", "E807", "".join(f"Route #{i}: {i}\n" for i in (1, 2, 3, 4)), 1),
    (60, "no solution", "E811", "hello\n", 2),
    (60, "word for customer", "E811", "Route #1: 1 two\n", 2),
    (60, "endless blanks", "E811", "route " + " " * 10**6 + "x\n", 2),
    (60, "NaN cost", "E812", "Route #1: 1\nCost nan\n", 2),
    (60, "two costs", "E812", "Route #1: 1\nCost 1\nCost 2\n", 2),
]
# Row, what, code, place under a folder that holds the file `taken`.
OUTPUTS: list[tuple[int, str, str, str]] = [
    (59, "no such folder", "E731", "none/a.sol"),
    (59, "under a file", "E731", "taken/a.sol"),
    (59, "a folder", "E731", "folder.sol"),
    (59, "unknown suffix", "E106|E404", "a.xyz"),
    (59, "full disk", "E732", "full.sol"),
    (59, "read-only", "E731", "readonly/a.sol"),
]
ROWS = {*range(1, 47), 48, 59, 60}
