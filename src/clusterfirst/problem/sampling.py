"""Drawing cities, days and test sets; every draw is a function of (seed, index).

Any part of a set can therefore be drawn again anywhere, in any order. Three
sources: days of a city (the paper, Section 3), the public test sets of the field
by name, and `world`, the mix of maps, demands and capacities that the general
model is trained on.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np

from clusterfirst.problem.city import City
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import FloatArray, Instance, IntArray

Layout = Literal["uniform", "clustered"]


def generator(seed: int, index: int) -> np.random.Generator:
    """Counter-based generator of instance `index` of `seed`."""
    return np.random.Generator(
        np.random.Philox(key=np.array([seed, index], dtype=np.uint64))
    )


# --- cities and their days --------------------------------------------------


def sample_city(
    locations: int = 3000, *, seed: int, layout: Layout = "uniform", name: str = ""
) -> City:
    """Draw a city in the unit square with a central depot (the paper, Section 3)."""
    rng = generator(seed, 0)
    if layout == "uniform":
        points = rng.random((locations, 2))
    else:
        points = _clustered(rng, locations, np.empty((0, 2)))
    return City(np.vstack([[0.5, 0.5], points]), name=name)


def sample_day(
    city: City,
    customers: int,
    *,
    seed: int,
    index: int,
    capacity: float | None = None,
    demand: tuple[int, int] = (1, 9),
) -> Instance:
    """Draw day `index`: distinct customers, whole demands from `demand` inclusive.

    The capacity is the city's own, or else the paper's Q = 50.
    """
    if not 0 <= customers <= city.num_locations:
        rule = f"the city has {city.num_locations} locations"
        raise InputError(Problem("E401", "customers", str(customers), rule))
    rng = generator(seed, index)
    rows = np.sort(rng.choice(city.num_locations, customers, replace=False)) + 1
    demands = rng.integers(demand[0], demand[1], customers, endpoint=True)
    if capacity is None:
        capacity = 50 if city.capacity is None else city.capacity
    name = f"{city.name or 'city'}-n{customers}-s{seed}-{index}"
    return city.day(rows, demands, capacity=capacity, name=name)


def sample_uniform(
    customers: int, *, seed: int, index: int, capacity: float = 50
) -> Instance:
    """Draw the field's standard instance: depot and customers i.i.d. uniform.

    The paper's second setting (Section 3, "without the spatial support") trains on
    such instances; the public test sets follow the same law from other generators.
    """
    rng = generator(seed, index)
    return Instance(
        demands=np.concatenate([[0], rng.integers(1, 10, customers)]),
        capacity=capacity,
        coords=rng.random((customers + 1, 2)),
        name=f"uniform-n{customers}-s{seed}-{index}",
    )


# --- the world: what the general model is trained on --------------------------

# Draws at the paper's own law, so that its city does not suffer from the mix.
PAPER_SHARE = 0.3
STANDARD_CAPACITY = {100: 50, 200: 80, 500: 100, 1000: 250}


def sample_world(customers: int, *, seed: int, index: int) -> Instance:
    """Draw any kind of instance: map, depot, demands and route size all vary.

    The kinds are those of the X and XML100 benchmarks (Uchoa et al. 2017, Table 1)
    plus streets; customers per route are log-uniform in 3..50. A share follows the
    paper's law (uniform, demand 1..9, Q = 50 or the standard capacities).
    """
    rng = generator(seed, index)
    name = f"world-n{customers}-s{seed}-{index}"
    if rng.random() < PAPER_SHARE:
        depot = [0.5, 0.5] if rng.random() < 0.5 else rng.random(2)
        coords = np.vstack([depot, rng.random((customers, 2))])
        demands = rng.integers(1, 10, customers)
        capacity = 50
        if rng.random() < 0.4:
            nearest = min(STANDARD_CAPACITY, key=lambda n: abs(n - customers))
            capacity = STANDARD_CAPACITY[nearest]
        return Instance(
            demands=np.concatenate([[0], demands]),
            capacity=capacity,
            coords=coords,
            name=name,
        )
    depot = some_depot(rng)
    coords = np.vstack([depot, some_places(rng, customers)])
    if rng.random() < 0.3:  # whole-number grids bring ties, as CVRPLIB does
        coords = np.round(coords * 1000)
    demands = some_demands(rng, coords[1:])
    per_route = np.exp(rng.uniform(np.log(3), np.log(min(50, max(4, customers / 2)))))
    capacity = max(int(np.ceil(per_route * demands.mean())), int(demands.max()))
    return Instance(
        demands=np.concatenate([[0], demands]),
        capacity=capacity,
        coords=coords,
        name=name,
    )


def some_depot(rng: np.random.Generator) -> FloatArray:
    """In the middle, in a corner or anywhere."""
    kind = rng.integers(3)
    if kind == 0:
        return np.array([0.5, 0.5])
    return np.zeros(2) if kind == 1 else rng.random(2)


def some_places(rng: np.random.Generator, count: int, kinds: int = 4) -> FloatArray:
    """Uniform, clustered, half of each, or (the fourth kind) along streets."""
    kind = rng.integers(kinds)
    if kind == 0:
        return rng.random((count, 2))
    if kind == 1:
        return _clustered(rng, count, np.empty((0, 2)))
    if kind == 2:
        return _clustered(rng, count, rng.random((count // 2, 2)))
    return _streets(rng, count)


def _clustered(rng: np.random.Generator, count: int, start: FloatArray) -> FloatArray:
    """Points drawn towards 3..8 centres with density exp(-distance / 0.04).

    This is Uchoa et al.'s law on the unit square; `start` are points that are
    already there (half of them uniform gives their mixed kind).
    """
    centres = rng.random((rng.integers(3, 9), 2))
    points = [start]
    missing = count - len(start)
    while missing > 0:
        tries = rng.random((4096, 2))
        apart = np.linalg.norm(tries[:, None] - centres[None], axis=2)
        chance = np.exp(-apart / 0.04).sum(axis=1)
        kept = tries[rng.random(4096) < chance][:missing]
        points.append(kept)
        missing -= len(kept)
    drawn: FloatArray = np.vstack(points)[:count]
    return drawn


def _streets(rng: np.random.Generator, count: int) -> FloatArray:
    """Points along straight streets, more of them on the longer ones."""
    streets = int(rng.integers(6, 25))
    ends = rng.random((streets, 2, 2))
    grid = rng.random(streets) < 0.7  # most streets follow the compass
    axis = rng.integers(2, size=streets)
    rows = np.flatnonzero(grid)
    ends[rows, 1, axis[rows]] = ends[rows, 0, axis[rows]]
    length = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1) + 1e-9
    which = rng.choice(streets, count, p=length / length.sum())
    along = rng.random((count, 1))
    points = ends[which, 0] * (1 - along) + ends[which, 1] * along
    jittered: FloatArray = points + rng.normal(0, 0.004, (count, 2))
    return np.clip(jittered, 0, 1)


def some_demands(rng: np.random.Generator, points: FloatArray) -> IntArray:
    """One of the seven demand kinds of Uchoa et al. (2017)."""
    count, kind = len(points), rng.integers(7)
    ranges = {1: (1, 10), 2: (5, 10), 3: (1, 100), 4: (50, 100)}
    if kind == 0:
        return np.ones(count, dtype=np.int64)
    if kind in ranges:
        low, high = ranges[int(kind)]
        return rng.integers(low, high, count, endpoint=True)
    small = rng.integers(1, 50, count, endpoint=True)
    large = rng.integers(51, 100, count, endpoint=True)
    if kind == 5:  # by quadrant: neighbours have demands alike
        middle = (points.min(axis=0) + points.max(axis=0)) / 2
        side = points > middle
        return np.where(side[:, 0] == side[:, 1], small, large)
    many_small = rng.random(count) < rng.uniform(0.7, 0.95)
    return np.where(many_small, rng.integers(1, 11, count), large)


# --- the public test sets of the field ----------------------------------------


@dataclass(frozen=True)
class PublicSet:
    """A published test set that one numpy generator redraws to the bit."""

    seed: int
    count: int
    customers: int
    capacity: int
    sha256: str  # of the drawn arrays: depot, customers, demand
    note: str = ""


def _public_sets() -> dict[str, PublicSet]:
    """The sets in the table beside this file."""
    text = Path(__file__).with_name("public_sets.txt").read_text(encoding="utf-8")
    found = {}
    for line in text.splitlines()[1:]:  # the first one says what the columns are
        columns, _, note = line.partition(" | ")
        name, *numbers, digest = columns.split()
        seed, count, customers, capacity = map(int, numbers)
        found[name] = PublicSet(seed, count, customers, capacity, digest, note)
    return found


PUBLIC_SETS = _public_sets()


@cache
def _public_arrays(name: str) -> tuple[FloatArray, FloatArray, IntArray]:
    """Depots (B, 2), customers (B, N, 2) and demands (B, N) of a public set.

    The order of draws is Kool's and Nazari's; numpy's legacy generator is part of
    the definition of these sets.
    """
    spec = PUBLIC_SETS[name]
    legacy = np.random.RandomState(spec.seed)
    depot = legacy.uniform(size=(spec.count, 2))
    customers = legacy.uniform(size=(spec.count, spec.customers, 2))
    demand = legacy.randint(1, 10, size=(spec.count, spec.customers))
    return depot, customers, demand


def public_set_hash(name: str) -> str:
    """SHA-256 of the arrays as drawn here, to compare with the stored one."""
    depot, customers, demand = _public_arrays(name)
    digest = hashlib.sha256(depot.astype("<f8").tobytes())
    digest.update(customers.astype("<f8").tobytes())
    digest.update(demand.astype("<i8").tobytes())
    return digest.hexdigest()


def sample_public(name: str, index: int) -> Instance:
    """Instance `index` of a public test set."""
    if name not in PUBLIC_SETS:
        rule = f"known sets: {', '.join(PUBLIC_SETS)}"
        raise InputError(Problem("E406", "set", name, rule))
    spec = PUBLIC_SETS[name]
    if not 0 <= index < spec.count:
        rule = f"{name} has instances 0 to {spec.count - 1}"
        raise InputError(Problem("E406", "index", str(index), rule))
    depot, customers, demand = _public_arrays(name)
    return Instance(
        demands=np.concatenate([[0], demand[index]]),
        capacity=spec.capacity,
        coords=np.vstack([depot[index], customers[index]]),
        name=f"{name}-{index}",
    )
