"""A city is a checked table; its days remember their rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterfirst.problem.city import City, extent_of, oddities
from clusterfirst.problem.errors import InputError
from strategies import cities

FAST = settings(max_examples=50, deadline=None)


@FAST
@given(cities(), st.data())
def test_days_keep_rows_ids_and_places(city: City, data: st.DataObject) -> None:
    """A day's customers are the city's rows, in the order asked for."""
    rows = (
        data.draw(st.lists(st.integers(1, city.num_locations), unique=True))
        if city.num_locations
        else []
    )
    day = city.day(np.array(rows, dtype=np.int64), np.ones(len(rows)), capacity=3)
    assert day.city_rows is not None
    assert day.coords is not None
    assert day.city_rows.tolist() == [0, *rows]
    assert day.ids == tuple(city.ids[row] for row in [0, *rows])
    assert np.array_equal(day.coords, city.coords[[0, *rows]])
    assert day.city_hash == city.hash
    assert day.metric == city.metric


@FAST
@given(cities())
def test_hash_is_of_places_not_of_names(city: City) -> None:
    """Renaming keeps the hash; moving a location changes it."""
    renamed = tuple(f"new {i}" for i in range(len(city.ids)))
    assert city.replace(ids=renamed, name="other").hash == city.hash
    moved = city.coords.copy()
    moved[0, 0] = 1.25 if moved[0, 0] != 1.25 else 2.5
    assert city.replace(coords=moved).hash != city.hash


@FAST
@given(cities())
def test_row_of_is_the_inverse_of_ids(city: City) -> None:
    """Every id leads to its row."""
    assert [city.row_of[name] for name in city.ids] == list(range(len(city.ids)))


def test_minus_zero_is_the_same_place() -> None:
    """-0 and 0 are one coordinate and give one hash."""
    assert City(np.array([[0.0, -0.0]])).hash == City(np.array([[0.0, 0.0]])).hash


def test_defaults_of_a_day() -> None:
    """A day takes the city's capacity and fleet unless told otherwise."""
    city = City(np.zeros((3, 2)), capacity=7, vehicles=2)
    rows, demands = np.array([1]), np.array([1])
    assert city.day(rows, demands).capacity == 7
    assert city.day(rows, demands).vehicles == 2
    assert city.day(rows, demands, capacity=9, vehicles=5).capacity == 9
    with pytest.raises(InputError, match="E122"):
        city.replace(capacity=None).day(rows, demands)


def test_a_city_is_checked_like_an_instance() -> None:
    """Wrong coordinates and doubled ids are refused at birth."""
    with pytest.raises(InputError, match="E131"):
        City(np.array([[0, np.nan]]))
    with pytest.raises(InputError, match="E308"):
        City(np.zeros((2, 2)), ids=("a", "a"))


def test_a_city_says_where_it_is() -> None:
    """Centre, size and reach in words; exchanged columns and strays are named (B4)."""
    rng = np.random.default_rng(0)
    ghent = np.array([3.72, 51.05]) + rng.normal(0, 0.03, (50, 2))
    city = City(ghent, metric="greatcircle")
    assert str(extent_of(city)).startswith("centre 51.0")
    assert " km, farthest " in str(extent_of(city))
    assert oddities(city) == []
    mixed = ghent.copy()
    mixed[[4, 7]] = mixed[[4, 7], ::-1]
    (found,) = oddities(City(mixed, metric="greatcircle"))
    assert (found.code, "4, 7" in found.got) == ("W132", True)
    mixed = ghent.copy()
    mixed[0] = mixed[0, ::-1]
    (found,) = oddities(City(mixed, metric="greatcircle"))
    assert found.code == "W132"
    mixed[0] = [5.5, 47.0]
    (found,) = oddities(City(mixed, metric="greatcircle"))
    assert found.code == "W133"
    assert oddities(City(rng.random((5, 2)))) == []
    assert str(extent_of(City(np.array([[0.0, 0], [3, 4]])))) == (
        "centre (1.5, 2), 3 x 4, farthest 5 from the depot"
    )
