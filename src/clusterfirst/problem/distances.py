"""Formulas of distances: great circles, and rounding as benchmarks agree on it."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Rounding = Literal["none", "round", "trunc", "dimacs", "exact"]

ROUNDINGS: tuple[str, ...] = get_args(Rounding)
EARTH_RADIUS_KM = 6371.0088  # mean radius, IUGG


def round_distances(values: FloatArray, rounding: Rounding) -> FloatArray:
    """Round distances as PyVRP's function of the same name does."""
    if rounding == "none":
        return values
    if rounding == "round":
        return np.floor(values + 0.5)
    if rounding == "trunc":
        return np.floor(values)
    if rounding == "dimacs":
        return np.floor(values * 10)
    return np.floor(values * 1000 + 0.5)  # exact


def great_circle(a: FloatArray, b: FloatArray) -> FloatArray:
    """Haversine distance in km between (..., 2) arrays of (lon, lat) degrees."""
    a, b = np.radians(a), np.radians(b)
    half = (b - a) / 2
    chord = (
        np.sin(half[..., 1]) ** 2
        + np.cos(a[..., 1]) * np.cos(b[..., 1]) * np.sin(half[..., 0]) ** 2
    )
    angle: FloatArray = 2 * np.arcsin(np.sqrt(np.minimum(chord, 1.0)))
    return EARTH_RADIUS_KM * angle
