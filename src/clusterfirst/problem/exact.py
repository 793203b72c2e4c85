"""Demands and capacity as exact integers, and what no float can hold exactly."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt

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
