"""Draws are functions of (seed, index), and the public sets are to the bit."""

from __future__ import annotations

import hashlib
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterfirst.problem.errors import InputError
from clusterfirst.problem.sampling import (
    PUBLIC_SETS,
    generator,
    public_set_hash,
    sample_city,
    sample_day,
    sample_public,
    sample_world,
)
from clusterfirst.problem.worlds import WORLDS

FAST = settings(max_examples=40, deadline=None)
SEEDS = st.integers(0, 2**63 - 1)
INDICES = st.integers(0, 2**40)


@FAST
@given(SEEDS, INDICES)
def test_a_draw_depends_on_seed_and_index_only(seed: int, index: int) -> None:
    """The same (seed, index) gives the same stream, another one another stream."""
    draw = generator(seed, index).random(4)
    assert np.array_equal(draw, generator(seed, index).random(4))
    assert not np.array_equal(draw, generator(seed, index + 1).random(4))
    assert not np.array_equal(draw, generator(seed ^ 1, index).random(4))


@FAST
@given(SEEDS, INDICES, st.integers(0, 30), st.integers(1, 9))
def test_days_follow_the_papers_law(
    seed: int, index: int, customers: int, top: int
) -> None:
    """Distinct locations, whole demands in range, Q = 50, drawn again equal."""
    city = sample_city(30, seed=5)
    day = sample_day(city, customers, seed=seed, index=index, demand=(1, top))
    assert day.city_rows is not None
    rows = day.city_rows.tolist()
    assert day.num_customers == customers == len(set(rows[1:]))
    assert rows[0] == 0
    assert all(1 <= row <= 30 for row in rows[1:])
    assert ((day.demands[1:] >= 1) & (day.demands[1:] <= top)).all()
    assert day.capacity == 50
    again = sample_day(city, customers, seed=seed, index=index, demand=(1, top))
    assert day.same_as(again)


@pytest.mark.parametrize("index", range(8))
def test_long_routes_are_long(index: int) -> None:
    """What `long` is for: vehicles that hold 30 customers and more of a mean demand."""
    day = WORLDS["long"](300, seed=1, index=index)
    assert 30 <= day.capacity / day.demands[1:].mean() <= 102


@pytest.mark.parametrize("name", sorted(WORLDS))
@pytest.mark.parametrize("customers", [1, 2, 40])
def test_every_named_world_is_solvable(name: str, customers: int) -> None:
    """As many customers as asked for, each of which fits; the same again."""
    for index in range(5):
        day, again = (WORLDS[name](customers, seed=2, index=index) for _ in range(2))
        assert day.num_customers == customers
        assert day.infeasibility() == []
        assert day.same_as(again)


@FAST
@given(SEEDS, INDICES, st.integers(4, 60))
def test_world_draws_are_solvable(seed: int, index: int, customers: int) -> None:
    """Every draw has the size asked for, fits the square or grid, and is feasible."""
    day = sample_world(customers, seed=seed, index=index)
    assert day.num_customers == customers
    assert day.coords is not None
    assert day.coords.min() >= 0
    assert day.coords.max() <= 1000
    assert day.infeasibility() == []
    assert day.same_as(sample_world(customers, seed=seed, index=index))


@pytest.mark.parametrize("layout", ["uniform", "clustered"])
def test_cities_fill_the_unit_square(layout: str) -> None:
    """A drawn city has its depot in the centre and its locations in the square."""
    city = sample_city(500, seed=3, layout=layout)  # type: ignore[arg-type]
    assert city.num_locations == 500
    assert city.coords[0].tolist() == [0.5, 0.5]
    assert city.coords.min() >= 0
    assert city.coords.max() <= 1


@pytest.mark.parametrize(
    "name", ["cvrp100", "lehd200", "lehd500", "cvrp1000", "tam1000"]
)
def test_public_sets_are_drawn_to_the_bit(name: str) -> None:
    """The arrays drawn here have the stored SHA-256."""
    assert public_set_hash(name) == PUBLIC_SETS[name].sha256


def test_public_instances_have_their_capacity_and_place() -> None:
    """An instance of a set is one of its rows; outside there is a sentence."""
    day = sample_public("lehd200", 127)
    assert (day.num_customers, day.capacity) == (200, 80)
    with pytest.raises(InputError, match="0 to 127"):
        sample_public("lehd200", 128)
    with pytest.raises(InputError, match="known sets"):
        sample_public("cvrp42", 0)


def test_too_many_customers_get_a_sentence() -> None:
    """A day cannot have more customers than its city has locations."""
    with pytest.raises(InputError, match="3 locations"):
        sample_day(sample_city(3, seed=0), 4, seed=0, index=0)


# First eight digits of the git blob SHA-1 of published pickles (NDS, Sym-NCO, HLGP).
BLOBS = [
    ("cvrp100", 4, "a4ac9eee"),
    ("cvrp100", 5, "22c176d4"),
    ("tam2000", 5, "dd7ecbf2"),
    ("tam5000", 5, "2acb3918"),
    ("tam7000", 5, "4f886c03"),
]


@pytest.mark.parametrize(("name", "protocol", "digits"), BLOBS)
def test_public_sets_are_the_published_files(
    name: str, protocol: int, digits: str
) -> None:
    """Pickled as their authors did, our draws are their files, bit for bit."""
    rows = []
    for index in range(PUBLIC_SETS[name].count):
        instance = sample_public(name, index)
        assert instance.coords is not None
        points, demands = instance.coords.tolist(), instance.demands.tolist()
        rows.append((points[0], points[1:], demands[1:], float(instance.capacity)))
    data = pickle.dumps(rows, protocol=protocol)
    blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
    assert blob.startswith(digits)
