"""Hypothesis strategies for instances, solutions, cities and damaged files.

Shared by the property tests and by campaign/files.py.
"""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from clusterfirst import files
from clusterfirst.files.csv_files import format_locations, format_orders
from clusterfirst.files.export import format_stops, format_workbook
from clusterfirst.files.json_files import instance_document
from clusterfirst.files.matrices import read_matrices
from clusterfirst.files.sets import format_npz
from clusterfirst.files.solutions import format_sol, solution_document
from clusterfirst.files.strict_json import format_json
from clusterfirst.files.vehicles import parse_fleet, read_fleet
from clusterfirst.files.vrplib_writing import format_vrp
from clusterfirst.problem.city import City
from clusterfirst.problem.constraints import Constraints
from clusterfirst.problem.errors import MAX_LINES, InputError, InputWarning
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution

SHARED = "/work/shared/data"  # for measuring; tests skip where it does not exist

PRINTABLE = st.characters(min_codepoint=32, max_codepoint=0x24F).filter(
    lambda c: c.isprintable()
)
NAMES = st.text(PRINTABLE, max_size=20).map(str.strip)
IDS = st.text(PRINTABLE, min_size=1, max_size=12)
WHOLE = st.integers(-1000, 1000).map(float)
ANY = st.floats(-1e9, 1e9, allow_nan=False, width=64)
UNIT = st.floats(0, 1, width=32)
GRID = st.integers(0, 3).map(float)  # duplicates, ties, collinear points


@st.composite
def instances(
    draw: st.DrawFn,
    min_customers: int = 0,
    max_customers: int = 8,
    metrics: tuple[str, ...] = ("euclidean", "greatcircle", "matrix"),
    own_ids: bool = True,
    city_rows: bool = True,
) -> Instance:
    """Draw any valid instance; demand never exceeds the capacity."""
    n = draw(st.integers(min_customers, max_customers))
    metric = draw(st.sampled_from(metrics))
    fields: dict[str, Any] = {"metric": metric, "name": draw(NAMES)}
    if metric == "greatcircle":
        point = st.tuples(st.floats(-180, 180), st.floats(-90, 90))
    else:
        number = draw(st.sampled_from([WHOLE, ANY, UNIT, GRID]))
        point = st.tuples(number, number)
    if metric == "matrix":
        cells = draw(
            st.lists(st.floats(0, 1e6), min_size=(n + 1) ** 2, max_size=(n + 1) ** 2)
        )
        upper = np.triu(np.array(cells).reshape(n + 1, n + 1), 1)
        fields["matrix"] = upper + upper.T
    if metric != "matrix" or draw(st.booleans()):
        fields["coords"] = draw(st.lists(point, min_size=n + 1, max_size=n + 1))
    scale = draw(st.sampled_from([1, 1, 10, 1000]))
    capacity = draw(st.integers(1, 200))
    units = draw(st.lists(st.integers(0, capacity), min_size=n, max_size=n))
    fields["demands"] = [0.0, *(unit / scale for unit in units)]
    if own_ids and draw(st.booleans()):
        ids = draw(st.lists(IDS, min_size=n + 1, max_size=n + 1, unique=True))
        fields["ids"] = tuple(ids)
    if city_rows and draw(st.booleans()):
        rows = draw(st.lists(st.integers(1, 5000), min_size=n, max_size=n))
        fields["city_rows"] = np.array([0, *rows])
        fields["city_hash"] = draw(st.text("0123456789abcdef", max_size=64))
    return Instance(
        capacity=capacity / scale,
        vehicles=draw(st.none() | st.integers(1, 50)),
        rounding=draw(st.sampled_from(["none", "round", "trunc", "dimacs", "exact"])),
        **fields,
    )


@st.composite
def partitions(draw: st.DrawFn, n: int) -> Solution:
    """Draw routes that visit customers 1..n once each, loads left aside."""
    order = draw(st.permutations(range(1, n + 1)))
    cuts = draw(st.sets(st.integers(1, n - 1))) if n > 1 else set()
    edges = [0, *sorted(cuts), n]
    routes = [order[a:b] for a, b in pairwise(edges)]
    return Solution(route for route in routes if route)


@st.composite
def cities(draw: st.DrawFn, max_locations: int = 8) -> City:
    """Draw a city in the plane or on the globe."""
    whole = draw(
        instances(
            max_customers=max_locations,
            metrics=("euclidean", "greatcircle"),
            city_rows=False,
        )
    )
    assert whole.coords is not None
    return City(
        whole.coords,
        ids=tuple(name.strip() or str(i) for i, name in enumerate(whole.ids))
        if len({name.strip() for name in whole.ids if name.strip()}) == len(whole.ids)
        else (),
        metric=whole.metric,
        name=whole.name,
        capacity=draw(st.none() | st.integers(1, 100)),
        vehicles=whole.vehicles,
    )


# --- files that are right, and what damage does to them ---------------------------


def small_day() -> Instance:
    """A small day with everything in it that a file can hold."""
    return Instance(
        demands=[0, 3, 1.5, 2, 7],
        capacity=7.5,
        coords=[[0.5, 0.5], [0, 0], [1, 0.25], [0.1, 0.9], [0.3, 0.3]],
        vehicles=3,
        name="small",
    )


def lehd_line() -> str:
    """A LEHD line of two customers with its solution."""
    return (
        "depot,0.5,0.5,customer,0.1,0.2,0.3,0.4,capacity,50.0,"
        "demand,0,3,4,cost,1.25,node_flag,2,1,1,0"
    )


def corpus() -> dict[str, list[bytes]]:
    """Valid files by suffix, as starting points for damage."""
    day = small_day()
    matrix = day.replace(metric="matrix", matrix=day.distances, name="matrix")
    globe = day.replace(metric="greatcircle", vehicles=None)
    solution = Solution([[1, 2], [3], [4]])
    city = small_town()
    orders = city.day(np.array([1, 3]), np.array([2, 5]))
    stops = format_stops(day, solution).encode()
    rl4co = io.BytesIO()
    np.savez(
        rl4co,
        depot=np.full((2, 2), 0.5, np.float32),
        locs=np.full((2, 3, 2), 0.25, np.float32),
        demand=np.full((2, 3), 4, np.float32),
        capacity=np.full(2, 50, np.float32),
    )
    return {
        ".vrp": [format_vrp(day).encode(), format_vrp(matrix).encode()],
        ".json": [
            format_json(instance_document(each)).encode()
            for each in (day, matrix, globe, orders, limited_day())
        ],
        ".sol": [format_sol(day, solution).encode()],
        ".solution.json": [format_json(solution_document(day, solution)).encode()],
        ".csv": [format_orders(orders).encode()],
        ".locations.csv": [format_locations(city).encode()],
        ".txt": [(lehd_line() + "\n").encode() * 2],
        ".npz": [format_npz([day, day]), rl4co.getvalue()],
        ".routes.csv": [stops],
        ".vehicles.csv": [FLEET.encode()],
        **_tables(day),
        **({} if find_spec("openpyxl") is None else _workbooks(day, solution)),
    }


def small_town() -> City:
    """Where the corpus has its orders."""
    return City(small_day().coords, ids=("depot", "a", "b", "c", "d"), capacity=9)


FLEET = """name,capacity,count,max_stops,max_distance,max_duration,fixed_cost,optional
Anna,9,1,12,120.5,8:00,10,no
Ben,7.5,2,,,480,,yes
"""


def limited_day() -> Instance:
    """The small day with vehicles, hours, wishes and minutes of driving."""
    asked = Constraints(
        parse_fleet(FLEET),
        durations=small_day().distances + 0.5,
        service=np.full(5, 3.0),
        vehicle=("", "Anna", "", "", ""),
        not_vehicle=("", "", "Ben", "", ""),
        priority=np.array([1.0, 2, 1, 1, 1]),
        group=("", "", "", "g", "g"),
        apart=("", "x", "x", "", ""),
        allow_unserved=True,
    )
    return small_day().replace(vehicles=None, constraints=asked)


def _tables(day: Instance) -> dict[str, list[bytes]]:
    """Distances and minutes between rows, in each format they are read from."""
    rows = day.distances.round(3).tolist()
    wide = "\n".join(",".join(map(str, row)) for row in rows) + "\n"
    names = [str(i) for i in range(len(rows))]
    lines = [";".join(["", *names])]
    lines += [";".join(map(str, [i, *row])) for i, row in enumerate(rows)]
    packed, plain = io.BytesIO(), io.BytesIO()
    tables = {"distances": day.distances, "durations": day.distances}
    np.savez(packed, **tables, ids=np.array(names))
    np.savez(plain, **tables)
    osrm = {"code": "Ok", "distances": rows, "durations": rows}
    found = {
        ".csv": [wide.encode(), "\n".join(lines).encode()],
        ".npz": [packed.getvalue(), plain.getvalue()],
        ".json": [json.dumps(osrm).encode()],
    }
    kinds = ("matrix", "durations")
    return {f".{kind}{suffix}": found[suffix] for kind in kinds for suffix in found}


def _workbooks(day: Instance, solution: Solution) -> dict[str, list[bytes]]:
    """Orders and routes as spreadsheets write them."""
    import openpyxl

    book, orders = openpyxl.Workbook(), io.BytesIO()
    for row in (("id", "demand"), ("a", 2), ("c", 5.5)):
        book.active.append(row)
    book.save(orders)
    return {
        ".orders.xlsx": [orders.getvalue()],
        ".routes.xlsx": [format_workbook(day, solution)],
    }


# Words that have broken parsers before: numbers that are none, other alphabets'
# digits, huge values, keywords of the formats, quotes, and control characters.
NASTY = [
    *(b"nan", b"NaN", b"inf", b"-Infinity", b"1e999", b"1e308", b"-1", b"0", b"1_0"),
    *(b"9" * 40, b"2000000000", b"1,5", b"0x10", b"true", b"null", b"{}", b"[", b"]"),
    *("١٢".encode(), b"\xff\xfe", b"\x00", b"\xef\xbb\xbf", b"\r\n", b"\n\n", b"\t"),
    *(b'"', b"'", b";", b",", b":", b"#", b"EOF", b"-1\n", b"\xed\xa0\x80", b"\\ud800"),
    *(b"DIMENSION : 1\n", b"DEPOT_SECTION\n", b"EXPLICIT", b"FULL_MATRIX", b"GEO"),
    *(b"Route #1: 1 2\n", b"Cost nan\n", b"depot,", b"demand,", b"id,id,", b"=1+1"),
]


@st.composite
def damaged(draw: st.DrawFn, valid: list[bytes]) -> bytes:
    """Draw a valid file with a few cuts, copies, swaps, bytes or nasty words."""
    data = draw(st.sampled_from(valid))
    for _ in range(draw(st.integers(1, 4))):
        data = _damage(draw, data)
    return data


def _damage(draw: st.DrawFn, data: bytes) -> bytes:
    a = draw(st.integers(0, len(data)))
    b = draw(st.integers(a, min(len(data), a + draw(st.sampled_from([1, 8, 60])))))
    kind = draw(st.sampled_from(["word", "byte", "cut", "end", "copy", "line"]))
    if kind == "word":
        return data[:a] + draw(st.sampled_from(NASTY)) + data[b:]
    if kind == "byte":
        return data[:a] + draw(st.binary(max_size=3)) + data[a + 1 :]
    if kind == "cut":
        return data[:a] + data[b:]
    if kind == "end":
        return data[:a]
    if kind == "copy":
        return data[:b] + data[a:b] * draw(st.integers(1, 3)) + data[b:]
    lines = data.split(b"\n")
    i, j = draw(st.tuples(*[st.integers(0, len(lines) - 1)] * 2))
    lines[i], lines[j] = lines[j], lines[i]
    return b"\n".join(lines)


# Right arrays of each layout, for two instances of two customers.
LAYOUTS: list[dict[str, Any]] = [
    {
        "coords": np.full((2, 3, 2), 0.5),
        "demand": np.array([[0, 1, 2], [0, 3, 4]]),
        "capacity": np.array([9, 9]),
        "name": np.array(["a", "b"]),
        "ref_cost": np.array([1.5, 2]),
        "ref_routes": np.array([0, 1, 2, 0, 0, 2, 0, 1, 0]),
        "ref_off": np.array([0, 4, 9]),
    },
    {
        "depot": np.full((2, 2), 0.5),
        "locs": np.full((2, 2, 2), 0.25),
        "demand": np.array([[1, 2], [3, 4]], dtype=np.float32),
        "capacity": np.array(9.0),
    },
    {
        "pool_xy_m": np.full((3, 2), 0.25),
        "off": np.array([0, 2, 3]),
        "loc": np.array([0, 1, 2]),
        "size": np.array([1, 2, 3]),
        "capacity": np.array(9),
    },
]


@st.composite
def odd_sets(draw: st.DrawFn) -> bytes:
    """Draw an .npz of a known layout with some arrays of any type and shape.

    One of its members may be damaged before packing: the checksums of a packed
    file would keep damage from the array reader.
    """
    members = {}
    for name, right in draw(st.sampled_from(LAYOUTS)).items():
        array = right
        if draw(st.integers(0, 5)) == 0:
            array = _odd_array(draw)
        stream = io.BytesIO()
        np.save(stream, array)
        members[name] = stream.getvalue()
    if draw(st.booleans()):
        name = draw(st.sampled_from(sorted(members)))
        members[name] = _damage(draw, members[name])
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return packed.getvalue()


def _odd_array(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    """An array of any type and shape with a value that may be nasty."""
    dtype = draw(st.sampled_from(["<f8", "<i8", "u1", "<f4", "<U3", "?"]))
    shape = draw(st.lists(st.sampled_from([0, 1, 2, 3]), max_size=3))
    fill = draw(st.sampled_from([0, 1, 2, -1, 9, float("nan"), 1e300]))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NaN has no whole number
        return np.full(shape, fill, dtype="<f8").astype(dtype)


def read_any(kind: str, path: Path) -> object:
    """Read a file of the corpus by the function that is for its kind."""
    if kind in {".sol", ".solution.json", ".routes.csv", ".routes.xlsx"}:
        return files.read_solution(path, small_day())
    if kind == ".locations.csv":
        return files.read_locations(path, "depot")
    if kind == ".vehicles.csv":
        return read_fleet(path)
    if kind.startswith((".matrix", ".durations")):
        return read_matrices(path, durations=kind.startswith(".durations"))
    if kind in {".csv", ".orders.xlsx"}:
        return files.read_orders(path, small_town())
    return files.read_instances(path)


def verdict_on(kind: str, data: bytes, folder: Path) -> str:
    """Read damaged bytes: "read", or "refused" with fit lines; else it raises."""
    path = folder / f"fuzz{kind}"
    path.write_bytes(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            found = read_any(kind, path)
    except InputError as error:
        lines = str(error).splitlines()
        assert lines
        assert len(lines) <= MAX_LINES + 1, lines
        assert all(len(line) <= 300 and line.isprintable() for line in lines), lines
        return "refused"
    if isinstance(found, list):  # what is read is a whole instance: usable
        for entry in found:
            assert np.isfinite(entry.instance.distances).all()
            assert entry.instance.min_vehicles >= 0
    return "read"
