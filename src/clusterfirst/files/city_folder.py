"""A city on disk: a folder with `city.json` and `locations.csv`.

`city.json` holds the depot's id, the defaults of a day and the hash of the
coordinates, which is checked on reading: models and days remember it, and an
edited table would silently be another city.
"""

from __future__ import annotations

import os
from pathlib import Path

from clusterfirst.files.atomic import make_folder, write_text
from clusterfirst.files.csv_files import format_locations, parse_locations
from clusterfirst.files.json_files import Checker, format_json, parse_json
from clusterfirst.files.source import (
    DEFAULT_LIMITS,
    Limits,
    check_title,
    named,
    read_text,
)
from clusterfirst.problem.city import City
from clusterfirst.problem.errors import InputError, Problem

FORMAT = "clusterfirst-city"
VERSION = 1
KEYS = {"format", "version", "name", "depot", "metric", "capacity", "vehicles", "hash"}
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
        check.stop_if_wrong()
        check_title(name, "name")
    city = read_locations(place / "locations.csv", depot, limits)
    with named(place / "city.json"):
        metric = document.get("metric", city.metric)
        if metric != city.metric or stored != city.hash:
            rule = f"locations.csv is another city (hash {city.hash[:12]}...)"
            hint = "if the change is meant, run `clusterfirst city init` again"
            got = stored[:12] + "..."
            raise InputError(Problem("E408", "hash", got, rule, hint))
        return city.replace(name=name, capacity=capacity, vehicles=vehicles)


def read_locations(
    path: str | os.PathLike[str], depot: str, limits: Limits = DEFAULT_LIMITS
) -> City:
    """Return the city of a table of locations, one of which is the depot."""
    with named(path):
        coords, ids, metric = parse_locations(read_text(path, limits), depot)
        if len(ids) - 1 > limits.max_customers:
            rule = f"the limit is {limits.max_customers} (--max-customers)"
            raise InputError(Problem("E401", "locations", str(len(ids) - 1), rule))
        return City(coords, ids=tuple(ids), metric=metric)


def write_city(folder: str | os.PathLike[str], city: City) -> None:
    """Write a city as a folder; `city.json` comes last and makes it valid."""
    place = make_folder(folder)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "name": city.name,
        "depot": city.ids[0],
        "metric": city.metric,
        "capacity": city.capacity,
        "vehicles": city.vehicles,
        "hash": city.hash,
    }
    text = format_json(document)
    write_text(place / "locations.csv", format_locations(city))
    write_text(place / "city.json", text)


def bundled_city() -> City:
    """Return the city that comes with the package: the paper's, drawn by us."""
    return read_city(BUNDLED)
