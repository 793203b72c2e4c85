"""The doors: read and write any file; its suffix chooses the format."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clusterfirst.files import sets
from clusterfirst.files.atomic import write_bytes, write_text
from clusterfirst.files.csv_files import format_orders, parse_orders
from clusterfirst.files.day import Asked
from clusterfirst.files.driver_sheets import format_sheets
from clusterfirst.files.export import (
    format_gpx,
    format_stops,
    format_workbook,
    geojson_document,
    require_degrees,
)
from clusterfirst.files.json_files import instance_document, parse_instance
from clusterfirst.files.map_page import format_map
from clusterfirst.files.sets import Entry, SetContext
from clusterfirst.files.solutions import (
    format_sol,
    holds_stops,
    nothing_found,
    parse_routes,
    parse_sol,
    parse_solution_json,
    solution_document,
)
from clusterfirst.files.source import (
    DEFAULT_LIMITS,
    Limits,
    named,
    read_bytes,
    read_text,
    warn,
)
from clusterfirst.files.strict_json import write_json
from clusterfirst.files.tables import TABLES, sheets, table_text
from clusterfirst.files.vrplib import parse_vrp
from clusterfirst.files.vrplib_writing import format_vrp
from clusterfirst.problem.changes import Changes
from clusterfirst.problem.city import City
from clusterfirst.problem.errors import InputError, Problem, quote
from clusterfirst.problem.instance import Instance, Rounding
from clusterfirst.problem.solution import Solution, judge

PathLike = str | os.PathLike[str]
INSTANCE_SUFFIXES = (".vrp", ".json", ".csv", ".xlsx")
SET_SUFFIXES = (".txt", ".npz")
PICTURES = (".png", ".svg")
SHEETS = ".sheets.html"  # pages for drivers; any other .html is the map
NOTHING_MORE = Asked()
SOLUTION_SUFFIXES = (
    ".sol",
    ".json",
    ".csv",
    ".xlsx",
    ".html",
    ".geojson",
    ".gpx",
    *PICTURES,
)


@dataclass(frozen=True)
class Extras:
    """What pages for people may show besides the plan."""

    changes: Changes | None = None  # since another plan, on the map
    start: float | None = None  # of the routes, minutes after midnight, on the sheets
    basemap: Path | None = None  # a PMTiles file behind the routes of the map


def read_instance(
    path: PathLike,
    *,
    rounding: Rounding | None = None,
    vehicles: int | None = None,
    city: City | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Instance:
    """Return the instance in a .vrp, .json or (with its city) orders .csv file.

    `rounding` and `vehicles` replace what the file says; no rounding is the
    default of a .vrp file. A set (.txt, .npz) is taken if it holds one instance.
    """
    suffix = Path(path).suffix.lower()
    if suffix in SET_SUFFIXES:
        entries = read_instances(path, city=city, rounding=rounding, limits=limits)
        if len(entries) != 1:
            rule = "one is needed here; read a set with read_instances"
            got = f"{len(entries)} instances"
            raise InputError(Problem("E154", "file", got, rule), quote(str(path)))
        instance = entries[0].instance
        return instance if vehicles is None else instance.replace(vehicles=vehicles)
    if suffix in TABLES and city is not None:
        day = read_orders(path, city, vehicles=vehicles, limits=limits)
        return day if rounding is None else day.replace(rounding=rounding)
    with named(path):
        text = table_text(path, limits)
        if suffix == ".vrp":
            instance = parse_vrp(text, limits, Path(path).stem)
        elif suffix == ".json":
            instance = parse_instance(text, limits, Path(path).stem)
        elif suffix in TABLES:
            rule = "a table of orders needs its city and a capacity"
            hint = "add --city FOLDER, and --capacity Q unless the city has one"
            raise InputError(Problem("E143", "city", "none", rule, hint))
        else:
            raise InputError(_unknown(path, INSTANCE_SUFFIXES + SET_SUFFIXES))
        changes: dict[str, Any] = {"rounding": rounding, "vehicles": vehicles}
        changes = {key: new for key, new in changes.items() if new is not None}
        if changes:
            instance = instance.replace(**changes)
        if suffix == ".vrp" and rounding is None:
            _warn_of_whole_coordinates(instance, path)
        _warn_of_oddities(instance, path)
        return instance


def read_instances(
    path: PathLike,
    *,
    city: City | None = None,
    rounding: Rounding | None = None,
    first: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> list[Entry]:
    """Return the instances of a set with their references (`first` = so many).

    Sets are LEHD .txt and .npz; any other file is a set of one.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SET_SUFFIXES:
        return [Entry(read_instance(path, rounding=rounding, city=city, limits=limits))]
    with named(path):
        context = SetContext(Path(path).stem, city, rounding or "none", first, limits)
        if suffix == ".npz":
            data = read_bytes(path, limits.max_bytes, "--max-bytes")
            entries = sets.parse_npz(data, context)
        else:
            entries = sets.parse_lehd(read_text(path, limits), context)
        if entries and rounding is None:
            _warn_of_whole_coordinates(entries[0].instance, path)
    return entries


def read_orders(
    path: PathLike,
    city: City,
    capacity: float | None = None,
    vehicles: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    *,
    asked: Asked = NOTHING_MORE,
) -> Instance:
    """Return the day of a table of orders; the city has the defaults.

    `asked` is what goes beyond one capacity: vehicles, hours, street matrices.
    """
    with named(path):
        orders = parse_orders(table_text(path, limits), city)
        if len(orders.rows) > limits.max_customers:
            rule = f"the limit is {limits.max_customers} (--max-customers)"
            raise InputError(Problem("E401", "customers", str(len(orders.rows)), rule))
        if asked.fleet is not None:
            capacity = float(asked.fleet.capacities.max())
        instance = city.day(
            np.array(orders.rows, dtype=np.int64),
            np.array(orders.demands, dtype=np.float64),
            capacity=capacity,
            vehicles=vehicles,
            name=Path(path).stem,
        )
        if not orders.rows:
            rule = "there are no orders: nothing is planned"
            warn(Problem("W136", Path(path).name, "only a header", rule))
        instance = asked.of(instance, orders, city)
        _warn_of_oddities(instance, path)
        return instance


def read_solution(
    path: PathLike,
    instance: Instance,
    limits: Limits = DEFAULT_LIMITS,
    *,
    strangers: bool = False,
) -> tuple[Solution, float | None]:
    """Return the routes of a .sol or .json file, and the cost it states.

    Tables of stops (.csv, .xlsx) are read too; they state no cost. With `strangers`,
    ids that the instance does not have become -1.
    """
    suffix = Path(path).suffix.lower()
    with named(path):
        if suffix == ".xlsx":
            texts = [
                text for text in sheets(path, limits).values() if holds_stops(text)
            ]
            if not texts:
                raise nothing_found(Path(path).name)
            return parse_routes(texts, instance, strangers=strangers), None
        text = read_text(path, limits)
        if suffix == ".csv":
            return parse_routes([text], instance, strangers=strangers), None
        if suffix == ".sol":
            return parse_sol(text)
        if suffix == ".json":
            return parse_solution_json(text, instance, strangers=strangers)
        raise InputError(_unknown(path, (".sol", ".json", ".csv", ".xlsx")))


def write_instance(path: PathLike, instance: Instance) -> None:
    """Write a .vrp or .json file, or the orders (.csv) of a day of a city."""
    suffix = Path(path).suffix.lower()
    with named(path):
        if suffix == ".vrp":
            write_text(path, format_vrp(instance))
        elif suffix == ".json":
            write_json(path, instance_document(instance))
        elif suffix == ".csv":
            if instance.city_rows is None:
                rule = "only the orders of a city's day go into .csv; write .json"
                raise InputError(Problem("E152", "city", "none", rule))
            write_text(path, format_orders(instance))
        else:
            raise InputError(_unknown(path, INSTANCE_SUFFIXES))


def write_instances(path: PathLike, instances: Sequence[Instance]) -> None:
    """Write a set of instances of one size as .npz (names, no ids, no fleet)."""
    with named(path):
        if Path(path).suffix.lower() != ".npz":
            raise InputError(_unknown(path, (".npz",)))
        write_bytes(path, sets.format_npz(instances))


def write_solution(
    path: PathLike,
    instance: Instance,
    solution: Solution,
    document: Mapping[str, Any] | None = None,
    *,
    extras: Extras | None = None,
) -> None:
    """Write .sol, .json, .csv (a row per stop), .geojson, .png or .svg.

    `document` is what goes into the .json, by default `solution_document`.
    """
    suffix = Path(path).suffix.lower()
    with named(path):
        require_solution_fits(path, instance)
        violations = judge(instance, solution).violations
        unknown = [p for p in violations if p.code == "E804"]
        if unknown:  # numbers that belong to no customer cannot be written
            raise InputError(unknown)
        if suffix == ".sol":
            write_text(path, format_sol(instance, solution))
        elif suffix == ".csv":
            write_text(path, format_stops(instance, solution))
        elif suffix in PICTURES:
            from clusterfirst.files.picture import write_picture

            write_picture(path, instance, solution)
        elif suffix == ".geojson":
            write_json(path, geojson_document(instance, solution))
        elif suffix == ".gpx":
            write_text(path, format_gpx(instance, solution))
        elif suffix == ".xlsx":
            write_bytes(path, format_workbook(instance, solution))
        elif suffix == ".html":
            write_text(path, _page(path, instance, solution, extras or Extras()))
        else:
            if document is None:
                document = solution_document(instance, solution)
            write_json(path, document)


def require_solution_fits(path: PathLike, instance: Instance) -> None:
    """Refuse a format that cannot hold the routes of this instance."""
    suffix = Path(path).suffix.lower()
    if suffix not in SOLUTION_SUFFIXES:
        raise InputError(_unknown(path, SOLUTION_SUFFIXES))
    if suffix in (".geojson", ".gpx"):
        require_degrees(instance, suffix[1:].upper())
    elif needs_places(path) and instance.coords is None:
        rule = "a picture needs coordinates, and the instance has only a matrix"
        raise InputError(Problem("E141", "coords", rule=rule))


def needs_places(path: PathLike) -> bool:
    """Whether a format is a picture or a map."""
    name = Path(path).name.lower()
    return name.endswith((*PICTURES, ".html")) and not name.endswith(SHEETS)


def _page(
    path: PathLike, instance: Instance, solution: Solution, extras: Extras
) -> str:
    """A map, or pages for drivers; the end of the name says which."""
    if Path(path).name.lower().endswith(SHEETS):
        return format_sheets(instance, solution, extras.start)
    return format_map(instance, solution, extras.changes, extras.basemap)


def _unknown(path: PathLike, suffixes: tuple[str, ...]) -> Problem:
    got = Path(path).suffix or "no suffix"
    return Problem("E106", "file", got, f"known here: {', '.join(suffixes)}")


def _warn_of_whole_coordinates(instance: Instance, path: PathLike) -> None:
    coords = instance.coords
    if coords is None or len(coords) < 2 or instance.metric != "euclidean":
        return
    if (coords == np.floor(coords)).all():
        rule = "CVRPLIB rounds such distances; costs compare with --rounding round"
        where = f"{Path(path).name} rounding"
        warn(Problem("W152", where, "none, on whole-number coordinates", rule))


def _warn_of_oddities(instance: Instance, path: PathLike) -> None:
    """Accepted, but worth a line: demands of 0, and degrees taken for a plane."""
    name = Path(path).name
    zero = np.flatnonzero(instance.demands[1:] == 0) + 1
    if len(zero):
        who = ", ".join(instance.ids[row] for row in zero[:5].tolist())
        got = f"0 for {len(zero)} customer(s): {who}"
        rule = "accepted: they are visited and load nothing"
        warn(Problem("W135", f"{name} demand", got, rule))
    if instance.metric == "euclidean" and _look_like_degrees(instance):
        rule = "these look like degrees; distances are taken in the plane"
        hint = "name the columns lat and lon for km"
        warn(Problem("W314", f"{name} coordinates", rule=rule, hint=hint))


def _look_like_degrees(instance: Instance) -> bool:
    """In the range of degrees but not the unit square, not whole, and close together
    compared with their distance from the origin.
    """
    coords = instance.coords
    if coords is None or len(coords) < 3 or (coords == np.floor(coords)).all():
        return False
    spread = float(np.ptp(coords, axis=0).max())
    far = float(np.abs(coords.mean(axis=0)).max())
    in_range = bool((np.abs(coords) <= [180.0, 90.0]).all())
    in_unit_square = bool((np.abs(coords) <= 1).all())
    return in_range and not in_unit_square and 0 < spread <= 5 and far > 2 * spread
