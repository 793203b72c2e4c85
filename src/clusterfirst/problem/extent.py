"""Where a city is and how large: what a person needs to see that it is theirs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clusterfirst.problem.city import City
from clusterfirst.problem.distances import great_circle
from clusterfirst.problem.errors import Problem
from clusterfirst.problem.instance import FloatArray

MORE_COMPACT = 20  # times nearer with lat and lon exchanged: they were
FAR = 3  # times the extent of all others: hardly a depot of this city


@dataclass(frozen=True)
class Extent:
    """The middle, the size and the reach of a city, in its own unit."""

    centre: tuple[float, float]  # x, y or lon, lat
    width: float
    height: float
    farthest: float  # from the depot
    degrees: bool

    def __str__(self) -> str:
        x, y = self.centre
        unit = " km" if self.degrees else ""
        size = f"{self.width:.3g} x {self.height:.3g}{unit}"
        away = f"farthest {self.farthest:.3g}{unit} from the depot"
        if not self.degrees:
            return f"centre ({x:.6g}, {y:.6g}), {size}, {away}"
        north = f"{abs(y):.2f} {'N' if y >= 0 else 'S'}"
        east = f"{abs(x):.2f} {'E' if x >= 0 else 'W'}"
        return f"centre {north} {east}, {size}, {away}"


def extent_of(city: City) -> Extent:
    """Return where a city is."""
    low, high = city.coords.min(axis=0), city.coords.max(axis=0)
    centre = (low + high) / 2
    degrees = city.metric == "greatcircle"
    across = np.array([[low[0], centre[1]], [high[0], centre[1]]])
    along = np.array([[centre[0], low[1]], [centre[0], high[1]]])
    width, height = (float(_apart(p[:1], p[1:], degrees)[0]) for p in (across, along))
    away = _apart(city.coords[:1], city.coords, degrees)
    x, y = centre.tolist()
    return Extent((x, y), width, height, float(away.max()), degrees)


def oddities(city: City) -> list[Problem]:
    """Say what is probably wrong: exchanged columns, or a depot of another place."""
    problems = []
    exchanged = _exchanged(city)
    if len(exchanged):
        names = ", ".join(city.ids[row] for row in exchanged[:5].tolist())
        rule = f"with lat and lon exchanged they are {MORE_COMPACT} times nearer"
        got = f"{len(exchanged)} far from all others: {names}"
        problems.append(Problem("W132", "locations", got, rule))
    if city.num_locations > 1 and 0 not in exchanged:
        degrees = city.metric == "greatcircle"
        others = city.coords[1:]
        spread = np.vstack([others.min(axis=0), others.max(axis=0)])
        size = float(_apart(spread[:1], spread[1:], degrees)[0])
        nearest = float(_apart(city.coords[:1], others, degrees).min())
        if nearest > FAR * size > 0:
            got = f"{nearest:.3g} from the nearest location"
            rule = f"all others lie within {size:.3g}; is this their depot?"
            problems.append(Problem("W133", f"depot {city.ids[0]}", got, rule))
    return problems


def _exchanged(city: City) -> np.ndarray:
    """Rows that lie with the others once their columns are exchanged."""
    swapped = city.coords[:, ::-1]
    if city.metric != "greatcircle" or len(city.coords) < 3:
        return np.empty(0, dtype=np.int64)
    middle = np.median(city.coords, axis=0, keepdims=True)
    legal = np.abs(swapped[:, 1]) <= 90
    away = great_circle(middle, city.coords)
    turned = great_circle(middle, np.where(legal[:, None], swapped, city.coords))
    return np.flatnonzero(legal & (turned * MORE_COMPACT < away))


def _apart(a: FloatArray, b: FloatArray, degrees: bool) -> FloatArray:
    if degrees:
        return great_circle(a, b)
    way: FloatArray = np.hypot(*(a - b).T)
    return way
