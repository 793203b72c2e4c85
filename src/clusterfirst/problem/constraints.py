"""What a day may ask beyond one capacity: a mixed fleet, hours, pins, groups.

A plain CVRP has none of it (`Instance.constraints` is None). Times are minutes. Rows
are those of the instance: 0 is the depot, which orders nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from clusterfirst.problem.errors import Problem, stop_if_wrong
from clusterfirst.problem.fleet import (
    BoolArray,
    Fleet,
    FloatArray,
    IntArray,
    same_fields,
)

MAX_MINUTES = 1e7  # twenty years
WORDS = ("vehicle", "not_vehicle", "group", "apart")  # what may be asked of an order
AMOUNTS = {"service": 0.0, "priority": 1.0}  # and what an empty cell means


@dataclass(frozen=True, eq=False)
class Constraints:
    """The side constraints of a day; `Instance` checks them against its rows.

    Parameters
    ----------
    fleet
        The vehicles.
    durations
        (n + 1, n + 1) minutes from row to row, not necessarily symmetric.
    speed
        Distance per hour, where there are no durations.
    service
        (n + 1,) minutes at each stop.
    vehicle, not_vehicle
        (n + 1,) names of the vehicles that alone may, or may not, take an order:
        "Anna", "Anna|Ben", or the name of a kind; "" is no wish.
    priority
        (n + 1,) what it is worth to serve an order, 1 by default: where not all can
        be served, the priorities of those that stay add up to as little as possible.
    group, apart
        (n + 1,) orders of one group share a vehicle; no two of one `apart` do.
    allow_unserved
        Whether orders may stay at all.
    """

    fleet: Fleet
    durations: FloatArray | None = None
    speed: float | None = None
    service: FloatArray | None = None
    vehicle: tuple[str, ...] = ()
    not_vehicle: tuple[str, ...] = ()
    priority: FloatArray | None = None
    group: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    allow_unserved: bool = False

    @property
    def timed(self) -> bool:
        """Whether it is known how long a leg takes."""
        return self.durations is not None or self.speed is not None

    @cached_property
    def wishes(self) -> tuple[IntArray, BoolArray]:
        """(n + 1,) class of each order, and (C, V) what vehicles a class allows.

        Class 0 allows all; few orders have wishes, and many of those the same.
        """
        everyone = np.ones(self.fleet.size, dtype=np.bool_)
        rows, allowed = {("", ""): 0}, [everyone]
        pairs = list(
            zip(self._cells("vehicle"), self._cells("not_vehicle"), strict=True)
        )
        for pair in pairs:
            if pair not in rows:
                rows[pair] = len(allowed)
                may = self.fleet.named(pair[0])[0] if pair[0] else everyone
                not_these = self.fleet.named(pair[1])[0] if pair[1] else ~everyone
                allowed.append(may & ~not_these)
        return np.array([rows[pair] for pair in pairs], dtype=np.int64), np.array(
            allowed
        )

    @cached_property
    def groups(self) -> IntArray:
        """(n + 1,) number of the group of each order, -1 for none."""
        return numbered(self.group)

    @cached_property
    def aparts(self) -> IntArray:
        """(n + 1,) number of the orders each must not meet, -1 for none."""
        return numbered(self.apart)

    def _cells(self, name: str) -> tuple[str, ...]:
        """Names, row by row; `checked` has made the lengths agree."""
        given: tuple[str, ...] = getattr(self, name)
        other = self.vehicle or self.not_vehicle
        return given or ("",) * len(other)

    def same_as(self, other: Constraints) -> bool:
        """Whether two sets of constraints are equal."""
        return same_fields(self, other)

    def replace(self, **changes: Any) -> Constraints:
        """Return a copy with some fields changed."""
        return replace(self, **changes)

    def reordered(self, order: IntArray, fleet: Fleet) -> Constraints:
        """The same for rows in another order, with another table of vehicles."""
        changes: dict[str, Any] = {"fleet": fleet}
        if self.durations is not None:
            changes["durations"] = self.durations[np.ix_(order, order)]
        for name in AMOUNTS:
            if getattr(self, name) is not None:
                changes[name] = getattr(self, name)[order]
        for name in WORDS:
            cells = getattr(self, name)
            changes[name] = tuple(cells[row] for row in order.tolist() if cells)
        return self.replace(**changes)


def numbered(words: Sequence[str]) -> IntArray:
    """0, 1, ... for words in the order they first appear; -1 for the empty one."""
    numbers: dict[str, int] = {"": -1}
    found = [numbers.setdefault(word, len(numbers) - 1) for word in words]
    return np.array(found, dtype=np.int64)


def checked(constraints: Constraints, ids: Sequence[str]) -> Constraints:
    """Return constraints that fit the rows of an instance, or say what does not."""
    problems: list[Problem] = []
    size = len(ids)
    changes: dict[str, Any] = {}
    if constraints.durations is not None:
        changes["durations"] = _durations(constraints.durations, size, problems)
    for name in AMOUNTS:
        values = getattr(constraints, name)
        if values is not None:
            changes[name] = _amounts(name, values, ids, problems)
    for name in WORDS:
        cells = getattr(constraints, name)
        if cells and len(cells) != size:
            rule = f"{size} are needed, the depot's first"
            problems.append(Problem("E432", name, f"{len(cells)} cells", rule))
        # All empty is the same as none, and compares so.
        changes[name] = ("", *cells[1:]) if any(cells[1:]) else ()
    speed = constraints.speed
    if speed is not None and not (np.isfinite(speed) and speed > 0):
        rule = "must be a distance per hour above 0"
        problems.append(Problem("E432", "speed", f"{speed}", rule))
    if np.isfinite(constraints.fleet.max_duration).any() and not constraints.timed:
        rule = "a longest duration needs a matrix of durations, or a speed"
        hint = "--durations FILE or --speed KMH"
        problems.append(Problem("E435", "max_duration", rule=rule, hint=hint))
    stop_if_wrong(problems)
    result = constraints.replace(**changes)
    _check_names(result, ids, problems)
    stop_if_wrong(problems)
    _check_contradictions(result, ids, problems)
    stop_if_wrong(problems)
    for f in fields(result):
        if isinstance(value := getattr(result, f.name), np.ndarray):
            value.setflags(write=False)
    return result


def _durations(given: FloatArray, size: int, problems: list[Problem]) -> FloatArray:
    matrix = np.array(given, dtype=np.float64)
    if matrix.shape != (size, size):
        rule = f"({size}, {size}) is needed"
        problems.append(Problem("E113", "durations", f"shape {matrix.shape}", rule))
        return matrix
    bad = ~np.isfinite(matrix) | (matrix < 0) | (matrix > MAX_MINUTES)
    for i, j in np.argwhere(bad)[:21].tolist():
        rule = "minutes of at least 0 are needed; is there a way at all?"
        problems.append(
            Problem("E131", f"durations[{i}][{j}]", f"{matrix[i, j]}", rule)
        )
    return matrix


def _amounts(
    name: str, given: FloatArray, ids: Sequence[str], problems: list[Problem]
) -> FloatArray:
    values = np.array(given, dtype=np.float64)
    if values.shape != (len(ids),):
        rule = f"{len(ids)} are needed, the depot's first"
        problems.append(Problem("E432", name, f"shape {values.shape}", rule))
        return values
    values[0] = 0.0  # the depot orders nothing
    for row in np.flatnonzero(~((values >= 0) & (values <= MAX_MINUTES))).tolist():
        rule = f"a number from 0 to {MAX_MINUTES:g} is needed"
        problems.append(
            Problem("E432", f"{name} of {ids[row]}", f"{values[row]}", rule)
        )
    return values


def _check_names(
    constraints: Constraints, ids: Sequence[str], problems: list[Problem]
) -> None:
    known = ", ".join(constraints.fleet.vehicle_names[:5])
    if constraints.fleet.size > 5:
        known += ", ..."
    for name in ("vehicle", "not_vehicle"):
        for row, cell in enumerate(getattr(constraints, name)):
            if cell and (stranger := constraints.fleet.named(cell)[1]):
                rule = f"no vehicle has this name; there are {known}"
                where = f"{name} of {ids[row]}"
                problems.append(Problem("E433", where, stranger, rule))


def _check_contradictions(
    constraints: Constraints, ids: Sequence[str], problems: list[Problem]
) -> None:
    """Orders and groups that exclude every vehicle, or each other."""
    kinds, allowed = constraints.wishes
    if len(kinds):
        somebody = allowed.sum(axis=1) > 0
        for row in np.flatnonzero(~somebody[kinds]).tolist():
            rule = "it is pinned to vehicles that are forbidden: none is left"
            problems.append(Problem("E434", f"order {ids[row]}", "", rule))
    for members in members_of(constraints.groups):
        names = ", ".join(ids[row] for row in members[:5].tolist())
        if len(kinds) and not np.all(allowed[kinds[members]], axis=0).any():
            rule = "no vehicle is allowed for all of the group"
            problems.append(Problem("E434", f"group of {names}", "", rule))
        if len(constraints.aparts):
            apart = constraints.aparts[members]
            apart = apart[apart >= 0]
            if len(np.unique(apart)) < len(apart):
                rule = "two of them share a group and must not share a vehicle"
                problems.append(Problem("E434", f"group of {names}", "", rule))


def members_of(numbers: IntArray) -> list[IntArray]:
    """The rows of each group."""
    order = np.argsort(numbers, kind="stable")
    order = order[numbers[order] >= 0]
    if not len(order):
        return []
    return np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)
