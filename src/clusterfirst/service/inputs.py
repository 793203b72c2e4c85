"""From the body of a request to an instance, by the package's own readers.

Tables go through a file of our own naming, because every reader starts at one; what
is wrong comes back with the line of the table and never with that file's path.
"""

from __future__ import annotations

import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from clusterfirst.files import read_instance, read_locations
from clusterfirst.files.csv_files import parse_orders
from clusterfirst.files.json_files import instance_of
from clusterfirst.files.source import (
    Complaints,
    Limits,
    check_title,
    heard_warnings,
    plain_number,
    warn,
)
from clusterfirst.files.strict_json import Checker, parse_json
from clusterfirst.files.tables import ALIASES, format_table, parse_table, table_text
from clusterfirst.problem.city import City, oddities
from clusterfirst.problem.errors import (
    ClusterfirstError,
    InputError,
    Problem,
    quote,
)
from clusterfirst.problem.instance import Instance
from clusterfirst.service.choices import solve_options, word_of
from clusterfirst.service.problems import Refusal
from clusterfirst.service.settings import ServiceLimits
from clusterfirst.solving.options import SolveOptions

JSON = "application/json"
CSV = "text/csv"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
SUFFIX = {CSV: ".csv", XLSX: ".xlsx"}
UPLOAD = "upload"  # the name of our own file for what was sent
OWN_COLUMNS = ("id", "lat", "lon", "x", "y", "demand")
PLAN_KEYS = {"instance", "city", "orders", "capacity", "vehicles", "options", "name"}
Value = TypeVar("Value")
FindCity = Callable[[str], City]
_one_reader = threading.Lock()  # catching warnings is not for several threads


@dataclass(frozen=True)
class Body:
    """What was sent, and the words after the question mark."""

    content: bytes
    kind: str
    query: Mapping[str, str]


@dataclass(frozen=True)
class Wish:
    """What a plan is asked for."""

    instance: Instance
    options: SolveOptions
    chosen: dict[str, Any]  # the options as they were given
    warnings: tuple[str, ...] = ()


def read_wish(body: Body, limits: ServiceLimits, find_city: FindCity) -> Wish:
    """An instance and options out of JSON, or out of a table and the query."""
    body = as_csv(body, limits)  # takes long, and others shall read meanwhile
    with _one_reader, heard_warnings() as lines:
        if body.kind == JSON:
            instance, chosen = _from_json(body, limits, find_city)
        else:
            instance, chosen = _from_table(body, limits, find_city)
        options = solve_options(chosen, limits)
    said = [line.replace(f" {UPLOAD}{SUFFIX[CSV]}", "") for line in lines]
    return Wish(instance, options, chosen, tuple(said))


def document_of(body: Body, keys: set[str]) -> dict[str, Any]:
    """The JSON object of a body without unknown keys."""
    if body.kind != JSON:
        rule = f"Content-Type: {JSON} is needed here"
        raise Refusal(Problem("E502", "body", body.kind, rule))
    check = Checker()
    document = check.mapping(parse_json(read_text_of(body.content)), "the body", keys)
    check.stop_if_wrong()
    return document


def read_text_of(content: bytes) -> str:
    """The text of a body."""
    try:
        text = content.decode("utf-8-sig")
        text.encode("utf-8")
    except UnicodeError as error:
        raise InputError(
            Problem("E103", "body", "bytes that are not UTF-8", "UTF-8 is needed")
        ) from error
    return text


def _from_json(
    body: Body, limits: ServiceLimits, find_city: FindCity
) -> tuple[Instance, dict[str, Any]]:
    check = Checker()
    parsed = parse_json(read_text_of(body.content))
    document = check.mapping(parsed, "the body", PLAN_KEYS)
    options, instance = document.get("options", {}), None
    with check.going_on():
        solve_options(options, limits)
    if ("instance" in document) == ("city" in document):
        rule = "either an instance, or a city with orders is needed"
        check.complain("E306", "the body", rule=rule)
    with check.going_on():
        if "instance" in document:
            instance = instance_of(document["instance"], limits.of_files)
        elif "city" in document:
            city = find_city(_text_of(document["city"], "city"))
            instance = read_day(document, city, limits)
    check.stop_if_wrong()
    assert instance is not None
    return instance, options


def _text_of(value: Any, where: str) -> str:
    check = Checker()
    text = check.text(value, where)
    check.stop_if_wrong()
    return text


def read_day(
    document: Mapping[str, Any], city: City, limits: ServiceLimits
) -> Instance:
    """The day of a city with the `orders` of a body."""
    check = Checker()
    orders = check.items(document.get("orders"), "orders")
    changes: dict[str, Any] = {}
    if document.get("capacity") is not None:
        changes["capacity"] = check.exact(document["capacity"], "capacity")
    if document.get("vehicles") is not None:
        changes["vehicles"] = check.whole(document["vehicles"], "vehicles")
    table = orders_table(check, orders)
    name = check.text(document.get("name", ""), "name")
    with check.going_on():
        check_title(name, "name")
    try:
        day = _day_of(table.encode(), city, changes, limits, check)
    except InputError as error:  # of a table that only we have seen
        raise InputError(map(_in_list, error.problems)) from None
    return day.replace(name=name)


def _in_list(problem: Problem) -> Problem:
    """A problem of a table's line as one of the list that the table was made of."""
    line = re.match(r"line (\d+) ?(.*)", problem.where)
    if line is None or int(line[1]) < 2:
        return problem
    where = f"orders[{int(line[1]) - 2}]" + (f".{line[2]}" if line[2] else "")
    rule = re.sub(
        r"\bline (\d+)\b", lambda word: f"orders[{int(word[1]) - 2}]", problem.rule
    )
    return replace(problem, where=where, rule=rule)


def _day_of(
    content: bytes,
    city: City,
    changes: Mapping[str, Any],
    limits: ServiceLimits,
    check: Complaints,
) -> Instance:
    """The day in a table; what is wrong with the figures is said beside its lines."""
    day = None
    with check.going_on():  # nobody has ordered anything yet: the figures alone
        changed = city.replace(**changes)
        changed.day(np.array([], dtype=np.int64), np.array([]))
    if check.problems:
        changes = {"capacity": city.capacity or 1.0}
    with check.going_on():
        day = through_file(content, _day_reader(city, changes, limits))
    check.stop_if_wrong()
    assert day is not None
    return day


def orders_table(check: Checker, orders: list[Any]) -> str:
    """A list of orders as the table that the reader of orders takes."""
    rows = [
        check.mapping(o, f"orders[{i}]", set(o) if isinstance(o, dict) else set())
        for i, o in enumerate(orders)
    ]
    columns = list(
        dict.fromkeys(["id", "demand", *(key for row in rows for key in row)])
    )
    for i, row in enumerate(rows):
        for key, value in row.items():
            plain = isinstance(value, str | int | float) and not isinstance(value, bool)
            if not plain or len(f"{value}".splitlines()) > 1:
                rule = "a number, or a string on one line is needed"
                check.complain("E306", f"orders[{i}].{key}", str(value), rule)
    return format_table(columns, ([row.get(c, "") for c in columns] for row in rows))


def _day_reader(
    city: City, changes: Mapping[str, Any], limits: ServiceLimits
) -> Callable[[Path], Instance]:
    home = city.replace(**changes)
    return lambda path: read_instance(path, city=home, limits=limits.of_files)


def _from_table(
    body: Body, limits: ServiceLimits, find_city: FindCity
) -> tuple[Instance, dict[str, Any]]:
    """A table of orders: of a city, or with coordinates and the depot in it."""
    query, check = dict(body.query), Checker()
    changes = query_figures(query, check)
    city_id, depot = query.pop("city", ""), query.pop("depot", "")
    name = query.pop("name", "")
    options = {key: word_of(value) for key, value in query.items()}
    found = None
    with check.going_on():
        solve_options(options, limits)
    with check.going_on():
        check_title(name, "name")
    with check.going_on():
        if city_id:
            city, content = find_city(city_id), body.content
        else:
            text = read_text_of(body.content)
            city, text = _city_in_table(text, depot, limits.of_files)
            for problem in oddities(city):
                warn(problem)
            content = text.encode()
        found = _day_of(content, city, changes, limits, check)
    check.stop_if_wrong()
    assert found is not None
    columns = found.columns if city_id else _carried(found.columns)
    return found.replace(name=name, columns=columns), options


def query_figures(query: dict[str, str], check: Checker) -> dict[str, Any]:
    """Take capacity and fleet limit out of a query."""
    figures: dict[str, Any] = {}
    if (capacity := query.pop("capacity", "")) != "":
        if (number := plain_number(capacity)) is None:
            check.complain("E306", "capacity", capacity, "must be a number")
        else:
            check.require_exact(capacity, "capacity")
            figures["capacity"] = number
    if (vehicles := query.pop("vehicles", "")) != "":
        if not (vehicles.isascii() and vehicles.isdigit() and len(vehicles) < 10):
            check.complain("E306", "vehicles", vehicles, "must be a whole number")
        else:
            figures["vehicles"] = int(vehicles)
    return figures


def _city_in_table(text: str, depot: str, limits: Limits) -> tuple[City, str]:
    """The locations of a table that has coordinates, and the table without its depot.

    The depot's line becomes an empty one, so that line numbers stay what they are.
    """
    try:
        table = parse_table(text, [("id", "lat", "lon"), ("id", "x", "y")])
    except InputError as error:
        if error.problems[0].code != "E311":
            raise
        rule = "orders without coordinates need a city; or add columns lat,lon or x,y"
        raise InputError(Problem("E143", "city", "none", rule)) from error
    names = table.column("id")
    if not names:
        rule = "a row for the depot and one for each order are needed"
        raise InputError(Problem("E118", "the table", "only a header", rule))
    home = next((n for n in names if n.lower() == "depot"), names[0])
    depot = depot or home
    lines = text.split("\n")
    if depot in names:
        lines[table.lines()[names.index(depot)] - 1] = ""
    orders = "\n".join(lines)
    try:
        city = through_file(
            text.encode(), lambda path: read_locations(path, depot, limits)
        )
    except InputError as error:
        raise InputError([*error.problems, *_of_orders(orders, names, error)]) from None
    return city, orders


def _of_orders(text: str, names: list[str], known: InputError) -> list[Problem]:
    """What else is wrong with the orders of a table whose places are wrong."""
    known_as = {(problem.code, problem.where) for problem in known.problems}
    home = max(names, key=len) + "'"  # a name that no order has
    ids = (home, *dict.fromkeys(name for name in names if name))
    city = City(np.arange(2.0 * len(ids)).reshape(-1, 2), ids=ids)
    try:
        parse_orders(text, city)
    except InputError as error:
        return [p for p in error.problems if (p.code, p.where) not in known_as]
    return []


def lines_of(body: Body, limits: ServiceLimits) -> dict[str, int]:
    """The line of each order of a table, for problems that name the order alone."""
    if body.kind == JSON:
        return {}
    try:
        text = read_text_of(as_csv(body, limits).content)
        table = parse_table(text, [("id",)])
    except InputError:
        return {}
    return dict(zip(map(quote, table.column("id")), table.lines(), strict=True))


def _carried(columns: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """The columns that say something the instance does not know by itself."""
    own = {
        *OWN_COLUMNS,
        *(word for name in OWN_COLUMNS for word in ALIASES.get(name, ())),
    }
    return {name: cells for name, cells in columns.items() if name not in own}


def as_csv(body: Body, limits: ServiceLimits) -> Body:
    """A table as CSV in UTF-8, whatever it came as."""
    if body.kind == JSON:
        return body
    text = through_file(
        body.content, lambda path: table_text(path, limits.of_files), SUFFIX[body.kind]
    )
    return replace(body, content=text.encode(), kind=CSV)


def through_file(
    content: bytes, read: Callable[[Path], Value], suffix: str = SUFFIX[CSV]
) -> Value:
    """Let a reader of files read bytes; what it says names no file."""
    with tempfile.TemporaryDirectory(prefix="clusterfirst-") as folder:
        path = Path(folder) / f"{UPLOAD}{suffix}"
        path.write_bytes(content)
        with nameless():
            return read(path)


@contextmanager
def nameless() -> Iterator[None]:
    """Take the file's path out of every error that comes out of the block."""
    try:
        yield
    except ClusterfirstError as error:
        error.source = ""
        raise
