"""A city on disk: a folder with `city.json` and `locations.csv`.

`city.json` holds the depot's id, the defaults of a day and the hash of the
coordinates, which is checked on reading: models and days remember it, and an
edited table would silently be another city. `distances.npy` is there if the city has
a matrix, whose hash is checked, too. A city that has grown keeps the hash of
its founding rows; how many they are (`founded`), and rows and hash of the whole table
(`grown`), stand beside it.
"""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path
from typing import Any

import numpy as np

from clusterfirst.files.atomic import make_folder, write_bytes, write_text
from clusterfirst.files.csv_files import (
    Places,
    format_locations,
    parse_locations,
    parse_new_locations,
)
from clusterfirst.files.lock import locked
from clusterfirst.files.outputs import Outputs
from clusterfirst.files.source import (
    DEFAULT_LIMITS,
    Complaints,
    Limits,
    check_title,
    named,
    read_bytes,
    read_text,
    warn,
)
from clusterfirst.files.strict_json import Checker, format_json, parse_json
from clusterfirst.files.tables import table_text
from clusterfirst.files.vrplib_writing import plain_text
from clusterfirst.problem.city import MATRIX_ROWS, City
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import FloatArray

FORMAT = "clusterfirst-city"
VERSION = 1
KEYS = {"format", "version", "name", "depot", "metric", "capacity", "vehicles", "hash"}
KEYS |= {"grown", "matrix"}
MATRIX = "distances.npy"
GROWN = {"founded", "rows", "table"}  # rows under `hash`; rows and hash of all
MAX_MATRIX = 8 * MATRIX_ROWS**2 + 1000  # bytes
BUNDLED = Path(__file__).parent.parent / "data" / "city"
BUNDLED_ORDERS = BUNDLED / "orders.csv"


def read_city(folder: str | os.PathLike[str], limits: Limits = DEFAULT_LIMITS) -> City:
    """Return the city in a folder; the table must match the hash."""
    place = Path(folder)
    check = Checker()
    with named(folder):
        if not place.is_dir():
            rule = "a folder made by `clusterfirst city` is needed"
            raise InputError(Problem("E102", "city", str(folder), rule))
    with named(place / "city.json"):
        text = read_text(place / "city.json", limits)
        document = check.mapping(parse_json(text), "the document", KEYS)
        check.header(document, FORMAT, VERSION)
        depot = check.text(document.get("depot"), "depot")
        name = check.text(document.get("name", ""), "name")
        stored = check.text(document.get("hash"), "hash")
        capacity, vehicles = document.get("capacity"), document.get("vehicles")
        capacity = None if capacity is None else check.exact(capacity, "capacity")
        vehicles = None if vehicles is None else check.whole(vehicles, "vehicles")
        grown = _grown(document.get("grown"), check)
        streets = document.get("matrix")
        streets = "" if streets is None else check.text(streets, "matrix")
        check.stop_if_wrong()
        check_title(name, "name")
    places = _read_table(place / "locations.csv", depot, limits)
    size, metric = len(places.ids), places.metric
    founded, rows, table = grown or (size, size, stored)
    known = places.rows(range(min(rows, size)))
    with named(place / "city.json"):
        city = City(
            known.coords,
            tuple(known.ids),
            metric,
            name,
            capacity,
            vehicles,
            founded=None if grown is None else founded,
            columns=known.columns,
        )
        whole = (city.hash_of(), city.hash) == (table, stored)
        if document.get("metric", metric) != metric or not whole:
            rule = f"locations.csv is another city (hash {city.hash[:12]}...)"
            hint = "if the change is meant, run `clusterfirst city init` again"
            got = stored[:12] + "..."
            raise InputError(Problem("E408", "hash", got, rule, hint))
    if streets:
        city = city.replace(matrix=_read_matrix(place / MATRIX, streets))
    if rows < size:
        _warn_of_strange_rows(place, size - rows)
    return city


def _read_matrix(path: Path, wanted: str) -> FloatArray:
    """The distances of a city folder; they must match their hash."""
    with named(path):
        try:
            data = read_bytes(path, MAX_MATRIX)
            found = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
            whole = found.dtype == np.float64 and found.ndim == 2
        except (ValueError, EOFError) as error:
            if isinstance(error, InputError):
                raise
            whole = False
        if not whole or hashlib.sha256(found.tobytes()).hexdigest() != wanted:
            rule = "these are not the distances that city.json knows"
            hint = "if the change is meant, run `clusterfirst city init` again"
            got = wanted[:12] + "..."
            raise InputError(Problem("E408", "matrix", got, rule, hint))
        distances: FloatArray = found
        return distances


def _grown(value: Any, check: Checker) -> tuple[int, int, str] | None:
    """Founding rows, all rows and the hash of all, if locations were added."""
    if value is None:
        return None
    grown = check.mapping(value, "grown", GROWN)
    founded = check.whole(grown.get("founded"), "grown.founded")
    rows = check.whole(grown.get("rows"), "grown.rows")
    if not 1 <= founded <= rows:
        rule = "founded is at least 1 and at most rows"
        check.complain("E306", "grown", f"{founded} of {rows}", rule)
    return founded, rows, check.text(grown.get("table"), "grown.table")


def _warn_of_strange_rows(place: Path, count: int) -> None:
    """Rows after those that city.json knows: adding them was cut short."""
    rule = "left out: they are not in city.json"
    hint = "`clusterfirst city add-locations` adds them"
    where = f"{place.name}/locations.csv"
    warn(Problem("W408", where, f"{count} further rows", rule, hint))


def read_locations(
    path: str | os.PathLike[str], depot: str, limits: Limits = DEFAULT_LIMITS
) -> City:
    """Return the city of a table of locations, one of which is the depot."""
    found = _read_table(path, depot, limits)
    with named(path):
        return City(
            found.coords,
            ids=tuple(found.ids),
            metric=found.metric,
            columns=found.columns,
        )


def _read_table(path: str | os.PathLike[str], depot: str, limits: Limits) -> Places:
    with named(path):
        places = parse_locations(table_text(path, limits), depot)
        if len(places.ids) - 1 > limits.max_customers:
            rule = f"the limit is {limits.max_customers} (--max-customers)"
            got = str(len(places.ids) - 1)
            raise InputError(Problem("E401", "locations", got, rule))
        return places


FILES = ("locations.csv", "city.json")


def write_city(folder: str | os.PathLike[str], city: City) -> None:
    """Write a city as a folder; `city.json` comes last and makes it valid."""
    place = make_folder(folder)
    Outputs().resumed(place, FILES, ours=True)
    text = _document(city)
    write_text(place / "locations.csv", format_locations(city))
    if city.matrix is not None:
        buffer = io.BytesIO()
        np.save(buffer, np.ascontiguousarray(city.matrix + 0.0, dtype="<f8"))
        write_bytes(place / MATRIX, buffer.getvalue())
    write_text(place / "city.json", text)


def _document(city: City) -> str:
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "name": city.name,
        "depot": city.ids[0],
        "metric": city.metric,
        "capacity": city.capacity,
        "vehicles": city.vehicles,
        "hash": city.hash,
    }
    if city.matrix is not None:
        document["matrix"] = city.matrix_hash
    if city.founded is not None:
        document["grown"] = {
            "founded": city.founded,
            "rows": len(city.coords),
            "table": city.hash_of(),
        }
    return format_json(document)


def add_locations(
    folder: str | os.PathLike[str],
    path: str | os.PathLike[str],
    limits: Limits = DEFAULT_LIMITS,
) -> tuple[City, int]:
    """Add the locations of a table to a city; return it, and how many are new.

    The city keeps its identity and its rows their numbers. A location it has already,
    at the same place, is passed over. A kill leaves the city as it was.
    """
    with locked(folder):
        city = read_city(folder, limits)
        with named(path):
            places = parse_new_locations(table_text(path, limits))
            _require_same_places(city, places.coords, places.ids, places.metric)
        new = [row for row, name in enumerate(places.ids) if name not in city.row_of]
        if new:
            # From now on rows after these are strange to city.json, until it is
            # written again at the end.
            known = city.replace(founded=city.founded or len(city.coords))
            with named(path):
                added = places.rows(new)
                city = city.grown(added.coords, added.ids, added.columns)
            Outputs().resumed(Path(folder), FILES, ours=True)
            write_text(Path(folder) / "city.json", _document(known))
            write_city(folder, city)
        return city, len(new)


def _require_same_places(
    city: City, coords: FloatArray, ids: list[str], metric: str
) -> None:
    """Refuse places in other units, and ids that the city has elsewhere."""
    if metric != city.metric:
        rule = f"the city's locations are {_axes(city.metric)}"
        raise InputError(Problem("E409", "columns", _axes(metric), rule))
    wrong = Complaints()
    for name, point in zip(ids, coords, strict=True):
        row = city.row_of.get(name)
        if row is not None and (city.coords[row] != point).any():
            at = ", ".join(map(plain_text, city.coords[row].tolist()))
            rule = f"the city has it at ({at}); a place that moved gets a new id"
            got = f"({', '.join(map(plain_text, point.tolist()))})"
            wrong.complain("E409", f"location {name}", got, rule)
    wrong.stop_if_wrong()


def _axes(metric: str) -> str:
    return "lat, lon" if metric == "greatcircle" else "x, y"


def bundled_city() -> City:
    """Return the city that comes with the package: the paper's, drawn by us."""
    return read_city(BUNDLED)
