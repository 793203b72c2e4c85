"""An instance is checked at birth, immutable, and exact about loads."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterfirst.problem.errors import InfeasibleError, InputError
from clusterfirst.problem.instance import ROUNDINGS, Instance, round_distances
from strategies import instances, small_day

FAST = settings(max_examples=60, deadline=None)


@FAST
@given(instances())
def test_distances_are_a_symmetric_table(instance: Instance) -> None:
    """Distances are finite, symmetric, at least 0, and 0 from a row to itself."""
    table = instance.distances
    assert np.isfinite(table).all()
    assert (table >= 0).all()
    assert np.array_equal(table, table.T)
    assert not np.diagonal(table).any()


@FAST
@given(instances(metrics=("euclidean",)))
def test_euclidean_distances_are_the_textbooks(instance: Instance) -> None:
    """Unrounded distances agree with math.dist."""
    plain = instance.replace(rounding="none")
    for a, p in enumerate(plain.coords.tolist()):
        for b, q in enumerate(plain.coords.tolist()):
            assert plain.distances[a, b] == pytest.approx(math.dist(p, q), rel=1e-12)


@given(st.floats(0, 1e9))
def test_roundings_are_pyvrps(value: float) -> None:
    """The five roundings do what PyVRP's functions of these names do."""
    expected = {
        "none": value,
        "round": math.floor(value + 0.5),
        "trunc": math.floor(value),
        "dimacs": math.floor(10 * value),
        "exact": math.floor(1000 * value + 0.5),
    }
    for name in ROUNDINGS:
        assert round_distances(np.array([value]), name)[0] == expected[name]


def test_great_circle_matches_known_distances() -> None:
    """A quarter of the globe, a degree of latitude, and Paris to London."""
    points = [[0, 0], [90, 0], [0, 1], [2.3522, 48.8566], [-0.1276, 51.5072]]
    globe = Instance(
        demands=[0, 1, 1, 1, 1], capacity=9, coords=points, metric="greatcircle"
    )
    assert globe.distances[0, 1] == pytest.approx(10_007.557, abs=0.01)
    assert globe.distances[0, 2] == pytest.approx(111.195, abs=0.01)
    assert globe.distances[3, 4] == pytest.approx(343.5, abs=1)
    assert globe.unit == "km"


@FAST
@given(instances())
def test_units_are_exact(instance: Instance) -> None:
    """Integer units stand in the ratio of the decimal numbers given."""
    scale = Fraction(instance.capacity_units) / Fraction(repr(float(instance.capacity)))
    for unit, demand in zip(instance.demand_units, instance.demands, strict=True):
        assert Fraction(int(unit)) == Fraction(repr(float(demand))) * scale


@FAST
@given(instances())
def test_min_vehicles_is_the_exact_ceiling(instance: Instance) -> None:
    """K_min is the smallest K with K Q >= sum d, in exact arithmetic."""
    total = sum(Fraction(repr(float(d))) for d in instance.demands.tolist())
    capacity = Fraction(repr(float(instance.capacity)))
    k = instance.min_vehicles
    assert k * capacity >= total
    assert k == 0 or (k - 1) * capacity < total


def test_float_sums_would_get_the_fleet_wrong() -> None:
    """Three demands of 0.1 fill a vehicle of 0.3: one vehicle, not two."""
    day = Instance(demands=[0, 0.1, 0.1, 0.1], capacity=0.3, coords=np.zeros((4, 2)))
    assert math.ceil(day.demands.sum() / day.capacity) == 2
    assert day.min_vehicles == 1


@FAST
@given(instances())
def test_arrays_cannot_be_written(instance: Instance) -> None:
    """Nobody can change an instance behind its back."""
    for name in ("demands", "coords", "matrix", "demand_units", "distances"):
        array = getattr(instance, name)
        if array is not None and array.size:
            with pytest.raises(ValueError, match="read-only"):
                array[..., 0] = 1


def test_caller_keeps_the_arrays() -> None:
    """An instance copies what it is given."""
    coords = np.zeros((2, 2))
    day = Instance(demands=[0, 1], capacity=1, coords=coords)
    coords[1] = 5
    assert day.coords is not None
    assert day.coords.tolist() == [[0, 0], [0, 0]]


@FAST
@given(instances(min_customers=1))
def test_same_as_sees_every_field(instance: Instance) -> None:
    """A copy is the same; a change in any field is seen."""
    assert instance.same_as(instance.replace())
    assert not instance.same_as(instance.replace(name=instance.name + "x"))
    assert not instance.same_as(
        instance.replace(capacity=round(instance.capacity + 1, 6))
    )
    rows = np.arange(instance.num_customers + 1) + 7
    assert not instance.same_as(instance.replace(city_rows=rows))


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("E113", {"coords": [[0, 0]]}),
        ("E119", {"demands": [1, 1, 1, 1, 1]}),
        ("E120", {"metric": "manhattan"}),
        ("E120", {"rounding": "up"}),
        ("E120", {"metric": "matrix"}),
        ("E123", {"capacity": math.nan}),
        ("E123", {"capacity": -1}),
        ("E131", {"coords": [[0, math.nan]] * 5}),
        ("E132", {"coords": [[0, 1e10]] * 5}),
        ("E132", {"coords": [[0, 95]] * 5, "metric": "greatcircle"}),
        ("E133", {"demands": [0, 1, 1, 1, -1]}),
        ("E134", {"demands": [0, 1, 1, 1, math.inf]}),
        ("E136", {"demands": [0, 1, 1, 1, 0.1234567]}),
        ("E137", {"demands": [0, 1, 1, 1, 2.0**54]}),
        ("E306", {"capacity": "50"}),
        ("E306", {"demands": ["a"]}),
        ("E308", {"ids": ("0", "1", "2", "3", "3")}),
        ("E308", {"ids": ("0",)}),
        ("E401", {"max_customers": 3}),
        ("E404", {"vehicles": 0}),
        ("E404", {"vehicles": 2.5}),
        ("E404", {"vehicles": "3"}),
        ("E405", {"city_rows": [0, 1]}),
    ],
)
def test_every_rule_is_checked_at_birth(code: str, changes: dict[str, object]) -> None:
    """Each broken rule raises its own code, also through `replace`."""
    if "matrix" in changes:
        changes = {**changes, "coords": None, "ids": ()}
    with pytest.raises(InputError) as info:
        small_day().replace(**changes)
    assert code in {problem.code for problem in info.value.problems}


def test_swapped_degrees_get_a_hint() -> None:
    """A latitude beyond 90 asks whether lat and lon are swapped."""
    with pytest.raises(InputError, match=r"swapped\?"):
        Instance(demands=[0], capacity=1, coords=[[-1.3, -147.9]], metric="greatcircle")


def test_infeasibility_is_named() -> None:
    """Too large a demand and too small a fleet are named, all of them."""
    day = small_day().replace(demands=[0, 8, 9, 1, 1], vehicles=2)
    codes = [problem.code for problem in day.infeasibility()]
    assert codes == ["E201", "E201", "E202"]
    with pytest.raises(InfeasibleError, match="customer 2"):
        day.require_feasible()


def test_geometry_of_a_bare_matrix_is_refused() -> None:
    """A method that needs coordinates says so."""
    bare = Instance(
        demands=[0, 1], capacity=1, matrix=np.zeros((2, 2)), metric="matrix"
    )
    with pytest.raises(InputError, match="E141"):
        _ = bare.plane


def test_plane_of_the_globe_is_in_km() -> None:
    """At the scale of a city, plane distances are the great circle's within 0.1 %."""
    rng = np.random.default_rng(0)
    coords = [-47.9, -1.3] + rng.random((20, 2)) / 5
    globe = Instance(
        demands=np.zeros(20), capacity=1, coords=coords, metric="greatcircle"
    )
    flat = np.linalg.norm(globe.plane[:, None] - globe.plane[None], axis=2)
    assert np.allclose(flat, globe.distances, rtol=1e-3)
