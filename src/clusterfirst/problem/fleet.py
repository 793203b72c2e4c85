"""The vehicles of a day: a table with a row per kind, and every vehicle by name."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from clusterfirst.problem.errors import Problem, stop_if_wrong

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
MAX_VEHICLES = 100_000
MAX_NAME = 200
SEPARATOR = "|"  # between the names of several vehicles in one cell


def same_fields(one: Any, other: Any, skip: str = "") -> bool:
    """Whether two records are equal field by field, array by array."""
    if type(one) is not type(other):
        return False
    for f in fields(one):
        a, b = getattr(one, f.name), getattr(other, f.name)
        if f.name == skip:
            continue
        if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
            equal = np.array_equal(a, b)
        elif hasattr(a, "same_as"):
            equal = a.same_as(b)
        else:
            equal = bool(a == b)
        if not equal:
            return False
    return True


@dataclass(frozen=True, eq=False)
class Fleet:
    """A checked table of vehicles; a limit that is missing is infinite.

    Parameters
    ----------
    names
        (T,) of the kinds; "van" with a count of 3 is "van 1", "van 2" and "van 3".
    capacities
        (T,) in the unit of the demands.
    counts
        (T,) vehicles of each kind, one by default.
    max_stops, max_distance, max_duration
        (T,) of one route: customers, length in the unit of the costs, minutes.
    fixed_cost
        (T,) added to the cost for each vehicle that drives.
    optional
        (T,) whether a vehicle may stay at home, which it may by default.
    """

    names: tuple[str, ...]
    capacities: FloatArray
    counts: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    max_stops: FloatArray = field(default_factory=lambda: np.empty(0))
    max_distance: FloatArray = field(default_factory=lambda: np.empty(0))
    max_duration: FloatArray = field(default_factory=lambda: np.empty(0))
    fixed_cost: FloatArray = field(default_factory=lambda: np.empty(0))
    optional: BoolArray = field(default_factory=lambda: np.empty(0, dtype=np.bool_))

    def __post_init__(self) -> None:
        kinds = len(self.names)
        missing = {"counts": 1, "fixed_cost": 0, "optional": True}
        problems: list[Problem] = []
        for f in fields(self)[1:]:
            given = np.asarray(getattr(self, f.name))
            if f.name != "capacities" and not given.size:
                given = np.full(kinds, missing.get(f.name, np.inf))
            if given.shape != (kinds,):
                rule = f"one number for each of {kinds} vehicles is needed"
                problems.append(Problem("E431", f.name, f"shape {given.shape}", rule))
                continue
            given = given.astype(bool if f.name == "optional" else np.float64)
            object.__setattr__(self, f.name, given)
        stop_if_wrong(problems)
        _check(self, problems)
        stop_if_wrong(problems)
        object.__setattr__(self, "counts", self.counts.astype(np.int64))
        for f in fields(self)[1:]:
            getattr(self, f.name).setflags(write=False)

    @classmethod
    def of_one_kind(cls, capacity: float, count: int) -> Fleet:
        """Vehicles that are all alike: "vehicle 1", "vehicle 2" ..."""
        return cls(("vehicle",), np.array([capacity]), np.array([count]))

    @property
    def size(self) -> int:
        """Number of vehicles V."""
        return len(self.kind)

    @cached_property
    def kind(self) -> IntArray:
        """(V,) the row of the table that each vehicle comes from."""
        return np.repeat(np.arange(len(self.names)), self.counts)

    @cached_property
    def vehicle_names(self) -> tuple[str, ...]:
        """(V,) the name of each vehicle."""
        return tuple(
            name if count == 1 else f"{name} {number}"
            for name, count in zip(self.names, self.counts.tolist(), strict=True)
            for number in range(1, count + 1)
        )

    @cached_property
    def called(self) -> dict[str, IntArray]:
        """The vehicles that go by a name: one, or all those of a kind."""
        found = {name: np.flatnonzero(self.kind == k) for k, name in _numbered(self)}
        return found | {n: np.array([v]) for v, n in enumerate(self.vehicle_names)}

    def named(self, cell: str) -> tuple[BoolArray, str]:
        """Return (V,) which vehicles "Anna|van" means, and a name that none has."""
        mask = np.zeros(self.size, dtype=np.bool_)
        for name in (part.strip() for part in cell.split(SEPARATOR)):
            if name not in self.called:
                return mask, name
            mask[self.called[name]] = True
        return mask, ""

    def same_as(self, other: Fleet) -> bool:
        """Whether two tables are equal."""
        return same_fields(self, other)


def _numbered(fleet: Fleet) -> list[tuple[int, str]]:
    return list(enumerate(fleet.names))


def _check(fleet: Fleet, problems: list[Problem]) -> None:
    def refuse(bad: BoolArray, column: str, rule: str) -> None:
        for row in np.flatnonzero(bad).tolist():
            got = f"{getattr(fleet, column)[row]:g}"
            problems.append(
                Problem("E431", f"{column} of vehicle {fleet.names[row]}", got, rule)
            )

    if not fleet.names:
        rule = "must be at least one vehicle"
        problems.append(Problem("E431", "vehicles", "none", rule))
    for row, name in _numbered(fleet):
        good = isinstance(name, str) and name.strip() == name and name.isprintable()
        if not (good and 0 < len(name) <= MAX_NAME) or SEPARATOR in name:
            rule = f"a printable name of at most {MAX_NAME} characters without |"
            where = f"name of vehicle {row + 1}"
            problems.append(Problem("E431", where, repr(name), rule))
    finite = np.isfinite(fleet.capacities) & (fleet.capacities > 0)
    refuse(~finite, "capacities", "must be a finite number above 0")
    whole = (fleet.counts >= 1) & (fleet.counts == np.floor(fleet.counts))
    refuse(~whole, "counts", "must be a whole number of at least 1")
    stops = np.isinf(fleet.max_stops) | (fleet.max_stops == np.floor(fleet.max_stops))
    refuse(~(stops & (fleet.max_stops >= 1)), "max_stops", "at least 1, and whole")
    for column in ("max_distance", "max_duration"):
        refuse(~(getattr(fleet, column) > 0), column, "must be above 0")
    cost = np.isfinite(fleet.fixed_cost) & (fleet.fixed_cost >= 0)
    refuse(~cost, "fixed_cost", "it must be a finite number of at least 0")
    stop_if_wrong(problems)
    if fleet.counts.sum() > MAX_VEHICLES:
        rule = f"the limit is {MAX_VEHICLES} vehicles"
        problems.append(Problem("E431", "count", f"{fleet.counts.sum():g}", rule))
        return
    _unique(fleet, problems)


def _unique(fleet: Fleet, problems: list[Problem]) -> None:
    """No name may mean two things: "van 2" is a row, or the second van, not both."""
    counts = fleet.counts.astype(int).tolist()
    seen = set(fleet.names)
    if len(seen) < len(fleet.names):
        twice = next(n for n in fleet.names if fleet.names.count(n) > 1)
        rule = "two vehicles have this name; give a count, or other names"
        problems.append(Problem("E431", "name", twice, rule))
    for name, count in zip(fleet.names, counts, strict=True):
        for number in range(1, count + 1) if count > 1 else ():
            if f"{name} {number}" in seen:
                rule = f"this is also vehicle {number} of the {count} called {name}"
                problems.append(Problem("E431", "name", f"{name} {number}", rule))
