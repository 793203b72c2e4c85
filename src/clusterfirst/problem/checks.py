"""What the fields of an instance must be, one by one, as sentences.

Demands and capacity are exact integers; what no float can hold exactly is refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from clusterfirst.problem.distances import ROUNDINGS, FloatArray
from clusterfirst.problem.errors import InputError, Problem

MAX_DECIMALS = 6
MAX_EXACT = 2**53
SAFE_DIGITS = 15  # so many significant digits come out of a float as they went in
TOO_LARGE = "this cannot be represented exactly; use a larger unit of demand"
TOO_FINE = f"at most {MAX_DECIMALS} decimals are exact"


def inexact(text: str, where: str) -> Problem | None:
    """Say why a plain number, as it is written, is not what a float makes of it."""
    if len(text) <= SAFE_DIGITS and "e" not in text and "E" not in text:
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:  # an exponent of twenty digits
        return Problem("E136", where, text, TOO_FINE)
    if number == Decimal(repr(float(text))):
        return None
    if _decimals(number) > MAX_DECIMALS:
        return Problem("E136", where, text, TOO_FINE)
    return Problem("E137", where, text, TOO_LARGE)


def _decimals(number: Decimal) -> int:
    """Digits behind the point, without zeros at the end."""
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        return 0
    zeros = len(digits) - len("".join(map(str, digits)).rstrip("0"))
    return max(0, -exponent - zeros)


def require_exact_integers(values: Any, where: str) -> None:
    """Refuse whole numbers that become others as floats."""
    if isinstance(values, np.ndarray):
        whole = values if values.dtype.kind in "iu" else np.empty(0, dtype=np.int64)
        large = bool(whole.size) and int(whole.max()) > MAX_EXACT
    else:
        items = values if isinstance(values, list | tuple) else [values]
        large = any(
            isinstance(item, int | np.integer) and int(item) > MAX_EXACT
            for item in items
        )
    if large:
        got = f"a whole number above {MAX_EXACT}"
        raise InputError(Problem("E137", where, got, TOO_LARGE))


def exact_units(
    demands: npt.NDArray[np.float64], capacities: Sequence[float], ids: Sequence[str]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return demands and capacities as exact integers in a common decimal unit."""
    size = len(demands)
    values = [*demands.tolist(), *map(float, capacities)]
    units = [int(value) for value in values]
    if not all(value.is_integer() for value in values):
        written = [Decimal(repr(value)) for value in values]
        decimals = [_decimals(number) for number in written]
        for i, digits in enumerate(decimals):
            if digits > MAX_DECIMALS:
                where = f"demand of {ids[i]}" if i < len(ids) else "capacity"
                raise InputError(Problem("E136", where, repr(values[i]), TOO_FINE))
        # Scaled as decimals: near 2**53 a product of floats is off by one.
        units = [int(number.scaleb(max(decimals))) for number in written]
    largest = max(units[size:])
    if sum(units[:size]) > MAX_EXACT or largest > MAX_EXACT:
        total = f"total {sum(values[:size]):.3g}, capacity {max(capacities):.3g}"
        raise InputError(Problem("E137", "demands", total, TOO_LARGE))
    both = np.array(units, dtype=np.int64)
    return both[:size], both[size:]


Metric = Literal["euclidean", "greatcircle", "matrix"]

METRICS: tuple[str, ...] = get_args(Metric)
MAX_COORDINATE = 1e9
MAX_ID_LENGTH = 200


def plain_number(value: Any) -> str:
    """A number as a person would write it."""
    return str(int(value)) if float(value).is_integer() else f"{float(value):.6g}"


def as_array(value: Any, name: str, ndim: int) -> npt.NDArray[Any]:
    """A fresh float64 copy with the right number of axes, or an error."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        rule = f"a {ndim}-dimensional array of numbers is needed"
        raise InputError(Problem("E306", name, str(value), rule)) from error
    if array.ndim != ndim:
        rule = f"{ndim} dimension(s) are needed"
        raise InputError(Problem("E306", name, f"shape {array.shape}", rule))
    return array


def check_options(instance: Any, problems: list[Problem]) -> None:
    """Metric, rounding, fleet limit and capacity of an instance."""
    if instance.metric not in METRICS:
        rule = f"one of {', '.join(METRICS)}"
        problems.append(Problem("E120", "metric", str(instance.metric), rule))
    if instance.rounding not in ROUNDINGS:
        rule = f"one of {', '.join(ROUNDINGS)}"
        problems.append(Problem("E120", "rounding", str(instance.rounding), rule))
    vehicles = instance.vehicles
    whole = isinstance(vehicles, int | np.integer) and not isinstance(vehicles, bool)
    if vehicles is not None and not (whole and vehicles >= 1):
        rule = "must be a whole number of at least 1"
        problems.append(Problem("E404", "vehicles", str(vehicles), rule))
    capacity = instance.capacity
    if isinstance(capacity, bool) or not isinstance(
        capacity, (int, float, np.integer, np.floating)
    ):
        rule = "must be a number"
        problems.append(Problem("E306", "capacity", str(capacity), rule))
    elif not (math.isfinite(capacity) and capacity > 0):
        rule = "must be a finite number above 0"
        problems.append(Problem("E123", "capacity", str(capacity), rule))


def check_ids(ids: Sequence[str], n: int, problems: list[Problem]) -> None:
    """Names that are there, printable, not too long, and used once."""
    if len(ids) != n + 1:
        rule = f"{n + 1} are needed, the depot's first"
        problems.append(Problem("E308", "ids", str(len(ids)), rule))
        return
    seen: dict[str, int] = {}
    for i, name in enumerate(ids):
        if not isinstance(name, str) or not name or not name.isprintable():
            rule = "a non-empty name of printable characters is needed"
            problems.append(Problem("E308", f"id of row {i}", repr(name), rule))
        elif len(name) > MAX_ID_LENGTH:
            rule = f"at most {MAX_ID_LENGTH} characters"
            problems.append(Problem("E308", f"id of row {i}", name, rule))
        elif name in seen:
            rule = f"already used by row {seen[name]}"
            problems.append(Problem("E308", f"id of row {i}", name, rule))
        seen.setdefault(name, i)


def check_demands(
    demands: FloatArray, ids: Sequence[str], problems: list[Problem]
) -> None:
    """Finite demands of at least 0; the depot orders nothing."""
    for i in np.flatnonzero(~np.isfinite(demands)).tolist():
        rule = "must be a finite number"
        problems.append(Problem("E134", f"demand of {ids[i]}", str(demands[i]), rule))
    for i in np.flatnonzero(demands < 0).tolist():
        rule = "must be at least 0"
        problems.append(Problem("E133", f"demand of {ids[i]}", str(demands[i]), rule))
    if demands[0] > 0:
        problems.append(
            Problem("E119", "demand of the depot", str(demands[0]), "must be 0")
        )


def checked_coords(
    given: Any, degrees: bool, ids: Sequence[str], problems: list[Problem]
) -> FloatArray:
    """(n + 1, 2) finite coordinates in their range."""
    coords, n = as_array(given, "coords", 2), len(ids) - 1
    if coords.shape != (n + 1, 2):
        rule = f"({n + 1}, 2) is needed: one row per demand, depot first"
        problems.append(Problem("E113", "coords", f"shape {coords.shape}", rule))
        return coords
    axes = ("lon", "lat") if degrees else ("x", "y")
    limits = (180.0, 90.0) if degrees else (MAX_COORDINATE, MAX_COORDINATE)
    for axis in (0, 1):
        column = coords[:, axis]
        for i in np.flatnonzero(~np.isfinite(column)).tolist():
            where = f"{axes[axis]} of {ids[i]}"
            rule = "must be a finite number"
            problems.append(Problem("E131", where, str(column[i]), rule))
        for i in np.flatnonzero(np.abs(column) > limits[axis]).tolist():
            where = f"{axes[axis]} of {ids[i]}"
            rule = f"the absolute value must be at most {limits[axis]:g}"
            hint = "are lat and lon swapped?" if degrees else ""
            problems.append(Problem("E132", where, str(column[i]), rule, hint))
    return coords


def checked_matrix(given: Any, n: int, problems: list[Problem]) -> FloatArray:
    """(n + 1, n + 1) distances of at least 0, with 0 on the diagonal."""
    matrix = as_array(given, "matrix", 2)
    if matrix.shape != (n + 1, n + 1):
        rule = f"({n + 1}, {n + 1}) is needed"
        problems.append(Problem("E113", "matrix", f"shape {matrix.shape}", rule))
        return matrix
    bad = np.argwhere(
        ~np.isfinite(matrix) | (matrix < 0) | (matrix > 4 * MAX_COORDINATE)
    )
    for i, j in bad[:21].tolist():
        rule = "must be a finite distance of at least 0"
        problems.append(Problem("E131", f"matrix[{i}][{j}]", str(matrix[i, j]), rule))
    if not len(bad):
        for i in np.flatnonzero(np.diagonal(matrix))[:21].tolist():
            rule = "the diagonal must be 0"
            where = f"matrix[{i}][{i}]"
            problems.append(Problem("E131", where, str(matrix[i, i]), rule))
    return matrix
