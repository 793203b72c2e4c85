"""A second checker, in exact fractions; shares no code with `clusterfirst`.

It takes what the user wrote (numbers as text or float) and what came back (routes as
lists of rows, and a cost), and recomputes everything: visits, loads as fractions,
lengths with forty decimals.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from itertools import pairwise

DIGITS = Context(prec=40)
EARTH_KM = 6371.0088
CLOSE = 1e-9  # relative, of a sum of floats
ON_A_STEP = Decimal("1e-9")  # so near to where rounding steps a float may go either way

Number = float | int | str


@dataclass(frozen=True)
class Day:
    """An instance as it was written down."""

    demands: Sequence[Number]  # row 0 is the depot
    capacity: Number
    points: Sequence[tuple[float, float]] | None = None
    matrix: Sequence[Sequence[float]] | None = None
    metric: str = "euclidean"
    rounding: str = "none"
    vehicles: int | None = None


def exact(number: Number) -> Fraction:
    """What was written, as a fraction: a float means its shortest decimal."""
    return Fraction(str(number))


def faults(day: Day, routes: Sequence[Sequence[int]], cost: float) -> list[str]:
    """Everything that is wrong with an answer."""
    found = []
    visits = Counter(row for route in routes for row in route)
    everyone = set(range(1, len(day.demands)))
    if visits.keys() != everyone or any(times != 1 for times in visits.values()):
        found.append(f"visits are wrong: {dict(visits)}")
        return found
    if any(not route for route in routes):
        found.append("an empty route")
    if day.vehicles is not None and len(routes) > day.vehicles:
        found.append(f"{len(routes)} routes for {day.vehicles} vehicles")
    capacity = exact(day.capacity)
    for number, route in enumerate(routes, start=1):
        load = sum((exact(day.demands[row]) for row in route), Fraction(0))
        if load > capacity:
            found.append(f"route {number}: load {load} of {capacity}")
    least, most = length(day, routes)
    slack = Decimal(CLOSE) * max(abs(most), Decimal(1) if most else Decimal(0))
    if not (least - slack <= Decimal(cost) <= most + slack):
        found.append(f"cost {cost} is not within {least} and {most}")
    return found


def length(day: Day, routes: Sequence[Sequence[int]]) -> tuple[Decimal, Decimal]:
    """Least and greatest length that floats may give: equal but next to a step."""
    least = most = Decimal(0)
    for route in routes:
        stops = [0, *route, 0]
        for a, b in pairwise(stops):
            low, high = _rounded(_distance(day, a, b), day.rounding)
            least, most = least + low, most + high
    return least, most


def _distance(day: Day, a: int, b: int) -> Decimal:
    if day.matrix is not None:
        return Decimal(day.matrix[a][b])
    assert day.points is not None
    if day.metric == "greatcircle":
        return Decimal(_haversine(day.points[a], day.points[b]))
    squares = [
        DIGITS.power(DIGITS.subtract(Decimal(p), Decimal(q)), 2)
        for p, q in zip(day.points[a], day.points[b], strict=True)
    ]
    return DIGITS.sqrt(DIGITS.add(*squares))


def _haversine(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Kilometres by the angle between two unit vectors, not by half-angles."""
    u, v = ([math.radians(x) for x in p] for p in (a, b))

    def unit(p: list[float]) -> tuple[float, float, float]:
        lon, lat = p
        east = math.cos(lat)
        return east * math.cos(lon), east * math.sin(lon), math.sin(lat)

    (x, y, z), (i, j, k) = unit(u), unit(v)
    cross = math.hypot(y * k - z * j, z * i - x * k, x * j - y * i)
    return EARTH_KM * math.atan2(cross, x * i + y * j + z * k)


def _rounded(value: Decimal, rounding: str) -> tuple[Decimal, Decimal]:
    """A distance as PyVRP's rounding of that name gives it; both, next to a step."""
    if rounding == "none":
        return value, value
    times, half = {"round": (1, 1), "trunc": (1, 0), "dimacs": (10, 0)}.get(
        rounding, (1000, 1)
    )
    scaled = value * times + Decimal(half) / 2
    near = ON_A_STEP * max(Decimal(1), scaled)
    return tuple(
        (scaled + off).to_integral_value("ROUND_FLOOR") for off in (-near, near)
    )  # type: ignore[return-value]  # two of them
