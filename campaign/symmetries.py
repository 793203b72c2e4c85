"""The same day written down in another way gets the same partition.

    python campaign/symmetries.py [--count 8] [--seconds 600]

Days of a hundred customers, shipped models, no search: renumbered customers, a scaled
map, demands in another unit (all must be equal), and a turned, mirrored and shifted
map, where sums in fp32 may break a tie another way; those are counted.
"""

from __future__ import annotations

import random
import sys
from functools import lru_cache
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from record import Notes, Promise, main

from clusterfirst import (
    Instance,
    SolveOptions,
    bundled_city,
    sample_day,
    sample_world,
    solve,
)

CUSTOMERS = 100
WAYS = ("renumbered", "scaled", "units", "turned", "mirrored", "shifted")
EXACT = ("renumbered", "scaled", "units")  # nothing is rounded in another way
DECODINGS = {
    "general fast": ("general", "fast"),
    "general exact": ("general", "exact"),
    "city-psi fast": ("city-psi", "fast"),
    "city-psi exact": ("city-psi", "exact"),
}
PER_DAY = len(DECODINGS) * len(WAYS)


def day_of(model: str, number: int) -> Instance:
    """A day of the bundled city for its model, of anywhere for the general one."""
    if model == "general":
        return sample_world(CUSTOMERS, seed=515, index=number)
    return sample_day(bundled_city(), CUSTOMERS, seed=515, index=number)


def partition(day: Instance, model: str, assign: str, names: np.ndarray) -> object:
    """Who shares a route, by the names of the day as it was first written."""
    exact = {"fleet": "kmin", "recentre": 0} if assign == "exact" else {}
    options = SolveOptions(
        "neural", iterations=1000, assign=assign, model=model, polish=False, **exact
    )
    routes = solve(day, options).solution.routes
    return {frozenset(names[list(route)].tolist()) for route in routes}


@lru_cache(maxsize=4)
def first(decoding: str, index: int) -> tuple[Instance, object]:
    """A day as it was first written, and its partition."""
    model, assign = DECODINGS[decoding]
    day = day_of(model, index)
    return day, partition(day, model, assign, np.arange(CUSTOMERS + 1))


def moved(day: Instance, how: str, rng: random.Random) -> tuple[Instance, np.ndarray]:
    """The day written down in another way, and the first name of each row."""
    names = np.arange(CUSTOMERS + 1)
    assert day.coords is not None
    points, middle = day.coords, day.coords.mean(axis=0)
    if how == "renumbered":
        others = rng.sample(range(1, CUSTOMERS + 1), CUSTOMERS)
        names = np.array([0, *others])
        rows = None if day.city_rows is None else day.city_rows[names]
        return day.replace(
            demands=day.demands[names], coords=points[names], ids=(), city_rows=rows
        ), names
    if how == "units":
        times = rng.choice([2, 7, 10, 1000])
        return day.replace(
            demands=times * day.demands, capacity=times * day.capacity
        ), names
    if how == "scaled":  # by a power of two no digit changes
        points = points * rng.choice([0.25, 2.0, 1024.0])
    elif how == "turned":
        angle = rng.uniform(0, 2 * np.pi)
        turn = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        points = (points - middle) @ np.array(turn).T + middle
    elif how == "mirrored":
        points = points * np.array([-1.0, 1.0])
    else:
        points = points + np.array([rng.uniform(-9, 9), rng.uniform(-9, 9)])
    return day.replace(coords=points), names


def kind(number: int) -> str:
    """The decoding of a case."""
    return list(DECODINGS)[number % PER_DAY // len(WAYS)]


def one(number: int, notes: Notes) -> None:
    """One day, one decoding, one other way to write it."""
    index, decoding, how = number // PER_DAY, kind(number), WAYS[number % len(WAYS)]
    model, assign = DECODINGS[decoding]
    rng = random.Random(f"symmetries {number}")
    day, expected = first(decoding, index)
    other, names = moved(day, how, rng)
    same = partition(other, model, assign, names) == expected
    notes.count(f"{how}, {decoding}: {'same' if same else 'other'}")
    if not same and how in EXACT:
        notes.fail(f"{decoding}, day {index}, {how}: another partition")


PROMISE = Promise(
    "symmetries",
    "Answers of the network without search do not depend on numbering, on the scale of "
    "the map or on the unit of demand; turned, mirrored and shifted maps get the same "
    "partition but for ties in fp32, which are counted.",
    full=200 * PER_DAY,
    case=one,
    unit="days in another way (200 of each)",
    kind=kind,
    seconds=300.0,  # HiGHS needs a minute or two for some partitions
)

if __name__ == "__main__":
    sys.exit(main(PROMISE))
