"""The usual areas of a city's drivers, kept in its folder as `territories.json`.

Every row of the city has an area; `territories.py` finds them. The file remembers the
identity of the city and is replaced whole. Locations added to the city afterwards
belong to the area of the nearest one that was known.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from clusterfirst.files.city_folder import read_city
from clusterfirst.files.lock import locked
from clusterfirst.files.outputs import Outputs
from clusterfirst.files.source import MEGABYTE, named, read_bytes
from clusterfirst.files.strict_json import write_json
from clusterfirst.problem.changes import matching
from clusterfirst.problem.city import City
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import FloatArray, Instance, IntArray

FILE = "territories.json"
FORMAT = "clusterfirst-territories"
VERSION = 1
MAX_BYTES = 64 * MEGABYTE
DEPOT = -1


@dataclass(frozen=True, eq=False)
class Areas:
    """Who usually drives where."""

    city: City
    of_row: IntArray  # (|X| + 1,) the area of each row, from 0; DEPOT in row 0
    facts: dict[str, Any] = field(default_factory=dict)  # how they were found

    @property
    def count(self) -> int:
        """Number of areas."""
        return int(self.of_row.max(initial=DEPOT)) + 1

    def of_day(self, day: Instance) -> IntArray:
        """(n + 1,) the area of each customer of a day in this city."""
        if day.city_rows is None or day.city_hash != self.city.hash:
            rule = "orders of the city that these territories are of are needed"
            raise InputError(Problem("E405", "day", day.name or "orders", rule))
        found: IntArray = self.of_row[day.city_rows]
        return found


def members(area: IntArray) -> list[list[int]]:
    """The customers of each area on a day, as `Areas.of_day` has them."""
    return [np.flatnonzero(area == k).tolist() for k in range(int(area.max()) + 1)]


def usual_drivers(routes: Sequence[Sequence[int]], area: IntArray) -> IntArray:
    """(R,) the driver of each route by area, one each, or -1.

    As many stops as possible are in the usual area of who drives there.
    """
    return matching(members(area), routes)


def familiarity(
    routes: Sequence[Sequence[int]], area: IntArray, drivers: Sequence[int]
) -> float:
    """Share of the stops that are in the usual area of their driver."""
    stops = sum(len(route) for route in routes)
    known = sum(
        int((area[list(route)] == driver).sum())
        for route, driver in zip(routes, drivers, strict=True)
        if len(route)
    )
    return known / stops if stops else 1.0


def map_points(city: City) -> FloatArray:
    """(|X| + 1, 2) all locations on a plane map."""
    return city.everywhere().plane


# --- the file -------------------------------------------------------------------


def write_areas(folder: str | os.PathLike[str], areas: Areas) -> None:
    """Put areas into the folder of their city, in place of those before."""
    with locked(folder):
        now = read_city(folder)
        if now.hash != areas.city.hash:
            rule = "the city in this folder was replaced meanwhile; find them again"
            raise InputError(Problem("E408", "city", str(folder), rule))
        document = {
            "format": FORMAT,
            "version": VERSION,
            "city": areas.city.hash,
            "facts": areas.facts,
            "areas": areas.of_row[1:].tolist(),
        }
        Outputs().resumed(Path(folder), [FILE], ours=True)
        write_json(Path(folder) / FILE, document)


def read_areas(folder: str | os.PathLike[str], city: City | None = None) -> Areas:
    """Read the areas of a city; rows added since then belong to the nearest known."""
    city = read_city(folder) if city is None else city
    path = Path(folder) / FILE
    if not path.exists():
        rule = "this city has no territories yet"
        hint = "`clusterfirst territories CITY --vehicles M` finds them"
        raise InputError(Problem("E415", "territories", str(folder), rule, hint))
    with named(path):
        of_row, facts = _parse(read_bytes(path, MAX_BYTES), city)
    return Areas(city, _with_new_rows(of_row, city), facts)


def _parse(data: bytes, city: City) -> tuple[IntArray, dict[str, Any]]:
    try:
        document = json.loads(data)
        header = tuple(document[key] for key in ("format", "version", "city"))
        given = [DEPOT, *document["areas"]]
        facts = dict(document["facts"])
        of_row = np.array(given, dtype=np.int64)
        whole = all(type(value) is int for value in given)
    except (LookupError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise _damaged() from error
    if header != (FORMAT, VERSION, city.hash):
        rule = f"territories of this city, format {FORMAT} {VERSION}, are needed"
        raise InputError(Problem("E415", "territories", str(header), rule))
    found = np.unique(of_row[1:])
    numbered = whole and np.array_equal(found, np.arange(len(found)))
    if not numbered or not 2 <= len(of_row) <= len(city.coords):
        raise _damaged()
    return of_row, facts


def _damaged() -> InputError:
    rule = "the file is damaged; `clusterfirst territories` writes it again"
    return InputError(Problem("E415", "territories", rule=rule))


def _with_new_rows(of_row: IntArray, city: City) -> IntArray:
    from scipy.spatial import cKDTree

    known = len(of_row)
    if known == len(city.coords):
        return of_row
    points = map_points(city)
    _, nearest = cKDTree(points[1:known]).query(points[known:])
    return np.concatenate([of_row, of_row[1 + nearest]])
