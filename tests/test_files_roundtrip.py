"""What is written reads back equal, number by number."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusterfirst import files
from clusterfirst.problem.city import City
from clusterfirst.problem.errors import InputError, InputWarning
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.sampling import sample_day
from clusterfirst.problem.solution import judge
from strategies import SHARED, cities, instances, partitions, small_day

# One folder serves all examples of a test: every example writes the file anew.
MANY = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
pytestmark = pytest.mark.filterwarnings(
    "ignore::clusterfirst.problem.errors.InputWarning"
)


@MANY
@given(instance=instances(metrics=("euclidean", "matrix")))
def test_vrp_reads_back_equal(tmp_path: Path, instance: Instance) -> None:
    """A .vrp gives back all it can hold; ids and city rows it cannot."""
    path = tmp_path / "a.vrp"
    files.write_instance(path, instance)
    plain = instance.replace(ids=(), city_rows=None, city_hash="")
    assert files.read_instance(path, rounding=instance.rounding).same_as(plain)


@MANY
@given(instance=instances())
def test_json_reads_back_equal(tmp_path: Path, instance: Instance) -> None:
    """JSON holds every field of every instance exactly."""
    path = tmp_path / "a.json"
    files.write_instance(path, instance)
    assert files.read_instance(path).same_as(instance)
    before = path.read_bytes()
    files.write_instance(path, files.read_instance(path))
    assert path.read_bytes() == before


@MANY
@given(city=cities())
def test_city_folder_reads_back_equal(tmp_path: Path, city: City) -> None:
    """A city folder keeps coordinates, ids, defaults and hash."""
    files.write_city(tmp_path / "city", city)
    again = files.read_city(tmp_path / "city")
    assert np.array_equal(again.coords, city.coords)
    assert (again.ids, again.hash) == (city.ids, city.hash)
    assert (again.name, again.capacity, again.vehicles, again.metric) == (
        city.name,
        city.capacity,
        city.vehicles,
        city.metric,
    )


@MANY
@given(city=cities(), data=st.data())
def test_orders_read_back_equal(
    tmp_path: Path, city: City, data: st.DataObject
) -> None:
    """The orders of a day, with their city, give the same day."""
    n = data.draw(st.integers(0, city.num_locations))
    day = sample_day(city, n, seed=data.draw(st.integers(0, 9)), index=0)
    path = tmp_path / "orders.csv"
    files.write_instance(path, day)
    again = files.read_orders(path, city, capacity=day.capacity)
    assert again.replace(name=day.name).same_as(day)


@MANY
@given(data=st.data())
@pytest.mark.parametrize("suffix", [".sol", ".json"])
def test_solution_reads_back_equal(
    tmp_path: Path, suffix: str, data: st.DataObject
) -> None:
    """Routes and cost come back from .sol and JSON, whatever the ids."""
    instance = data.draw(instances(min_customers=0))
    solution = data.draw(partitions(instance.num_customers))
    path = tmp_path / f"a{suffix}"
    files.write_solution(path, instance, solution)
    again, cost = files.read_solution(path, instance)
    assert again == solution
    assert cost == judge(instance, solution).cost


@MANY
@given(
    instance=instances(metrics=("euclidean",), own_ids=False, city_rows=False),
    count=st.integers(1, 3),
)
def test_npz_set_reads_back_equal(
    tmp_path: Path, instance: Instance, count: int
) -> None:
    """A set in our .npz layout gives back its instances."""
    plain = instance.replace(rounding="none", vehicles=None)
    files.write_instances(tmp_path / "a.npz", [plain] * count)
    again = files.read_instances(tmp_path / "a.npz")
    assert len(again) == count
    assert all(entry.instance.same_as(plain) for entry in again)


def test_losses_of_a_vrp_are_named(tmp_path: Path) -> None:
    """Writing own ids, city rows or a rounding into a .vrp warns."""
    day = small_day().replace(
        ids=("d", "a", "b", "c", "e"), city_rows=np.arange(5), rounding="round"
    )
    with pytest.warns(InputWarning, match=r"W151.*ids, city rows, rounding 'round'"):
        files.write_instance(tmp_path / "a.vrp", day)


def test_globe_is_not_written_as_vrp(tmp_path: Path) -> None:
    """Great-circle distances have no .vrp form: refused, nothing written."""
    globe = small_day().replace(metric="greatcircle")
    with pytest.raises(InputError, match="E151"):
        files.write_instance(tmp_path / "a.vrp", globe)
    assert list(tmp_path.iterdir()) == []


def test_bundled_city_is_the_papers_draw() -> None:
    """The bundled city is default_rng(2026) in float32 with a central depot."""
    points = np.random.default_rng(2026).random((3000, 2)).astype(np.float32)
    city = files.bundled_city()
    assert np.array_equal(city.coords[1:], points.astype(np.float64))
    assert city.coords[0].tolist() == [0.5, 0.5]
    assert (city.ids[0], city.ids[1], city.ids[-1]) == ("depot", "1", "3000")
    assert city.capacity == 50


def test_bundled_city_is_the_shared_one() -> None:
    """The bundled city has the points of shared/data/city/city.npz."""
    path = Path(SHARED, "city", "city.npz")
    if not path.exists():
        pytest.skip("shared data is not on this machine")
    with np.load(path) as stored:
        assert np.array_equal(files.bundled_city().coords[1:], stored["locations"])


def test_bundled_day_is_drawn_by_us() -> None:
    """The bundled orders are day (seed 1, index 0) with 200 customers."""
    city = files.bundled_city()
    day = sample_day(city, 200, seed=1, index=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read = files.read_orders(files.BUNDLED_ORDERS, city)
    assert read.replace(name=day.name).same_as(day)
