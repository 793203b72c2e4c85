"""The past days of a city, kept in its folder as `days.jsonl`.

One day is one line: date, name, rows of the city, demands and a hash of them. Lines are
only ever added, under a lock and into a file that takes the place of the old one, so a
kill leaves the days as they were. A day counts once: by its date, or by its orders
where it or the one before has no date.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from clusterfirst.files.atomic import write_text
from clusterfirst.files.city_folder import read_city
from clusterfirst.files.csv_files import parse_days
from clusterfirst.files.lock import locked
from clusterfirst.files.outputs import Outputs
from clusterfirst.files.source import DEFAULT_LIMITS, MEGABYTE, Limits, named
from clusterfirst.files.source import read_bytes as read_file
from clusterfirst.files.tables import table_text
from clusterfirst.problem.city import City
from clusterfirst.problem.errors import InputError, InputWarning, Problem
from clusterfirst.problem.instance import FloatArray, Instance, IntArray

FILE = "days.jsonl"
FORMAT = "clusterfirst-days"
VERSION = 1
MAX_BYTES = 1024 * MEGABYTE
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
NO_WEEKDAY = -1


@dataclass(frozen=True, eq=False)
class PastDay:
    """The orders of one day: distinct rows of the city, and a demand for each."""

    rows: IntArray
    demands: FloatArray
    date: datetime.date | None = None
    name: str = ""

    @property
    def weekday(self) -> int:
        """0 for Monday to 6 for Sunday; NO_WEEKDAY without a date."""
        return NO_WEEKDAY if self.date is None else self.date.weekday()

    @cached_property
    def digest(self) -> str:
        """Hash of the orders, whatever their order in the file."""
        order = np.argsort(self.rows)
        digest = hashlib.sha256(self.rows[order].astype("<i8").tobytes())
        digest.update(self.demands[order].astype("<f8").tobytes())
        return digest.hexdigest()[:24]

    def line(self) -> str:
        """Return the day as a line of the file."""
        known: dict[str, Any] = {
            "date": None if self.date is None else self.date.isoformat(),
            "name": self.name,
            "orders": self.digest,
            "rows": self.rows.tolist(),
            "demands": [int(d) if d.is_integer() else d for d in self.demands.tolist()],
        }
        return json.dumps(known, ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True, eq=False)
class History:
    """All past days of a city, in the order they were added."""

    city: City
    days: tuple[PastDay, ...] = ()

    def __len__(self) -> int:
        return len(self.days)

    @cached_property
    def orders(self) -> IntArray:
        """Orders of each day."""
        return np.array([len(day.rows) for day in self.days], dtype=np.int64)

    @cached_property
    def loads(self) -> FloatArray:
        """Demand of each day."""
        return np.array([day.demands.sum() for day in self.days], dtype=np.float64)

    @cached_property
    def weekdays(self) -> IntArray:
        """Weekday of each day."""
        return np.array([day.weekday for day in self.days], dtype=np.int64)

    @cached_property
    def rows(self) -> IntArray:
        """Rows of all orders, day after day."""
        parts = [day.rows for day in self.days]
        return np.concatenate([np.empty(0, dtype=np.int64), *parts])

    @cached_property
    def demands(self) -> FloatArray:
        """Demands of all orders, day after day."""
        parts = [day.demands for day in self.days]
        return np.concatenate([np.empty(0), *parts])

    @cached_property
    def times_ordered(self) -> IntArray:
        """How many days each row of the city had an order on; (|X| + 1,)."""
        return np.bincount(self.rows, minlength=len(self.city.coords))

    @cached_property
    def digest(self) -> str:
        """Hash of all days and of what they are rows of."""
        places = self.city.hash_of() + self.city.matrix_hash
        digest = hashlib.sha256(places.encode())
        for day in self.days:
            digest.update(f"{day.date} {day.digest};".encode())
        return digest.hexdigest()[:24]

    def in_city(self, city: City) -> History:
        """Return the same days in the same city under other defaults."""
        return History(city, self.days)

    def part(self, first: int, last: int | None = None) -> History:
        """Return the days first to last - 1, to fit on some and judge on others."""
        return History(self.city, self.days[first:last])

    def instance(self, number: int, *, capacity: float | None = None) -> Instance:
        """Return a past day as an instance."""
        day = self.days[number]
        label = day.name or (str(day.date) if day.date else f"day-{number}")
        return self.city.day(day.rows, day.demands, capacity=capacity, name=label)


def read_history(folder: str | os.PathLike[str], city: City | None = None) -> History:
    """Return the past days in a city folder; none is no error."""
    city = read_city(folder) if city is None else city
    path = Path(folder) / FILE
    if not path.exists():
        return History(city)
    with named(path):
        text = read_file(path, MAX_BYTES).decode("utf-8", "replace")
        return History(city, tuple(_parse(text, city)))


def add_days(
    folder: str | os.PathLike[str],
    paths: Sequence[str | os.PathLike[str]],
    limits: Limits = DEFAULT_LIMITS,
) -> tuple[History, int]:
    """Add the days of some tables of orders; return all days, and how many are new.

    Every table is checked before anything is written. Days that the city has already
    are passed over with a warning.
    """
    with locked(folder):
        history = read_history(folder)
        given: list[PastDay] = []
        for path in paths:
            with named(path):
                text = table_text(path, limits)
                given += days_of_table(text, Path(path).stem, history.city)
        new = _only_new(history, given)
        if new:
            history = History(history.city, (*history.days, *new))
            write_history(folder, history)
    return history, len(new)


def write_history(folder: str | os.PathLike[str], history: History) -> None:
    """Write past days beside the city they are of; `add_days` adds some."""
    Outputs().resumed(Path(folder), [FILE], ours=True)
    header = {"format": FORMAT, "version": VERSION, "city": history.city.hash}
    lines = [json.dumps(header), *(day.line() for day in history.days), ""]
    write_text(Path(folder) / FILE, "\n".join(lines))


# --- tables of orders ----------------------------------------------------------


def days_of_table(text: str, name: str, city: City) -> list[PastDay]:
    """The days of one table; a name that is a date is the date of its day."""
    found = parse_days(text, city)
    return [_day(city, date, name, rows, demands) for date, rows, demands in found]


def _day(
    city: City, date: str, stem: str, rows: list[int], demands: list[float]
) -> PastDay:
    where = f"day {date}" if date else "orders"
    if not rows:
        rule = "a day without orders teaches nothing; leave it out"
        raise InputError(Problem("E101", where, "0 orders", rule))
    when = date_of(date) if date else date_in(stem)
    day = PastDay(np.array(rows), np.array(demands, dtype=float), when, stem)
    if city.capacity is not None:
        instance = city.day(day.rows, day.demands, vehicles=len(rows))
        too_large = [p for p in instance.infeasibility() if p.code == "E201"]
        if too_large:
            raise InputError(too_large)
    return day


def date_of(text: str) -> datetime.date:
    """The date that a text is."""
    try:
        return datetime.date.fromisoformat(text)
    except ValueError as error:
        rule = "a date is written YYYY-MM-DD, as 2026-11-18"
        raise InputError(Problem("E412", "date", text or "nothing", rule)) from error


def date_in(name: str) -> datetime.date | None:
    """The date that a name is, if it is one."""
    try:
        return datetime.date.fromisoformat(name)
    except ValueError:
        return None


def _only_new(history: History, given: Sequence[PastDay]) -> list[PastDay]:
    """The days that the city has not; a date with two sets of orders is refused."""
    dated = {day.date: day.digest for day in history.days if day.date is not None}
    known = {day.digest for day in history.days}
    undated = {day.digest for day in history.days if day.date is None}
    new: list[PastDay] = []
    for day in given:
        if day.date in dated and dated[day.date] != day.digest:
            rule = "this date has other orders already; a past day does not change"
            raise InputError(Problem("E412", f"day {day.name}", str(day.date), rule))
        if day.date in dated or (day.date is None and day.digest in known):
            continue
        if day.digest in undated:  # one day, that has its date now
            undated.remove(day.digest)
            continue
        new.append(day)
        known.add(day.digest)
        if day.date is None:
            undated.add(day.digest)
        else:
            dated[day.date] = day.digest
    if len(new) < len(given):
        count = len(given) - len(new)
        rule = f"passed over: the city has {'it' if count == 1 else 'them'} already"
        problem = Problem("W412", "days", f"{count} of {len(given)}", rule)
        warnings.warn(str(problem), InputWarning, stacklevel=3)
    return new


# --- the file ------------------------------------------------------------------


def _parse(text: str, city: City) -> list[PastDay]:
    lines = text.splitlines()
    try:
        header = json.loads(lines[0])
        known = (header["format"], header["version"], header["city"])
    except (LookupError, ValueError, TypeError, RecursionError) as error:
        raise _damaged(1) from error
    if known != (FORMAT, VERSION, city.hash):
        rule = f"days of this city, format {FORMAT} {VERSION}, are needed"
        raise InputError(Problem("E413", "line 1", str(known), rule))
    return [_parse_line(line, i, city) for i, line in enumerate(lines[1:], start=2)]


def _parse_line(line: str, number: int, city: City) -> PastDay:
    try:
        known = json.loads(line)
        date = known["date"]
        day = PastDay(
            np.array(known["rows"], dtype=np.int64),
            np.array(known["demands"], dtype=np.float64),
            None if date is None else datetime.date.fromisoformat(date),
            str(known["name"]),
        )
        within = len(day.rows) and day.rows.min() >= 1
        within = within and day.rows.max() <= city.num_locations
        if within and day.digest == known["orders"]:
            return day
    except (LookupError, ValueError, TypeError, OverflowError, RecursionError):
        pass
    raise _damaged(number)


def _damaged(line: int) -> InputError:
    rule = "the days of this city are damaged here; take the file from a backup"
    return InputError(Problem("E413", f"line {line}", rule=rule))
