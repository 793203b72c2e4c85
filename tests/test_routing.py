"""Tours: shortest when small, never worse than given, the same every time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.stages.classical.exact import optimal_routes
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.tours.routing import MAX_BLOCK, tours
from clusterfirst.stages.tours.tsp import solve_blocks


def instance_of(points: np.ndarray, **more: object) -> Instance:
    """Unit demands and a vehicle that takes everyone."""
    n = len(points) - 1
    return Instance(np.array([0] + [1] * n), max(n, 1), coords=points, **more)  # type: ignore[arg-type]  # test helper


def grid(draw: st.DrawFn, most: int) -> np.ndarray:
    """Points on a small grid: ties and duplicates are common."""
    point = st.tuples(st.integers(0, 5), st.integers(0, 5))
    return np.array(draw(st.lists(point, min_size=2, max_size=most)), dtype=float)


grids = st.composite(grid)


def length(block: np.ndarray, order: Sequence[int]) -> float:
    """Length of the closed tour through the depot, 0."""
    stops = np.array([0, *order])
    return float(block[stops, np.roll(stops, -1)].sum())


def tour_of(block: np.ndarray, kicks: float) -> list[int]:
    """The order in which one cluster is visited."""
    order = np.arange(1, len(block))
    ends = np.array([0, len(order)])
    solve_blocks(block.ravel(), ends, order, kicks)
    return order.tolist()


def shortest(block: np.ndarray) -> float:
    """Tour length by trying all orders."""
    rest = range(1, len(block))
    return min(length(block, order) for order in itertools.permutations(rest))


@given(grids(most=7))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_small_tours_are_optimal(points: np.ndarray) -> None:
    """They equal brute force, ties and duplicates included."""
    instance = instance_of(points)
    found = tours(instance, np.zeros(len(points) - 1, dtype=np.int64))
    assert judge(instance, Solution(found)).cost == pytest.approx(
        shortest(instance.distances)
    )


@pytest.mark.parametrize("stops", [3, 5, 8, 11])
def test_local_search_is_near_optimal(stops: int) -> None:
    """Kicks bring the local search to the exact length on nearly every instance."""
    rng = np.random.default_rng(stops)
    missed = 0
    for _ in range(20):
        points = rng.random((stops + 1, 2))
        instance = instance_of(points)
        block, exact = instance.distances, optimal_routes(instance)
        assert exact is not None
        best = float(exact[0].lengths(instance).sum())
        order = tour_of(block, kicks=10)
        assert sorted(order) == list(range(1, stops + 1))
        found = length(block, order)
        assert found >= best - 1e-9
        missed += found > best + 1e-9
    assert missed <= 1


@given(grids(most=40), st.integers(0, 10**6))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_given_orders_are_never_made_worse(points: np.ndarray, seed: int) -> None:
    """A start tour is improved or kept, and nobody is lost."""
    instance = instance_of(points)
    rng = np.random.default_rng(seed)
    route = (rng.permutation(len(points) - 1) + 1).tolist()
    before = judge(instance, Solution([route])).cost
    verdict = judge(instance, Solution(tours(instance, [route], 1.0)))
    assert verdict.feasible
    assert verdict.cost <= before + 1e-9


@pytest.mark.parametrize("rounding", ["none", "round", "dimacs"])
def test_every_rounding_is_respected(rounding: str) -> None:
    """Tours are optimal in the rounded metric, not only in the plain one."""
    points = np.random.default_rng(3).random((8, 2)) * 9
    instance = instance_of(points, rounding=rounding)
    found = tours(instance, [list(range(1, 8))])
    assert judge(instance, Solution(found)).cost == pytest.approx(
        shortest(instance.distances)
    )


def test_a_bare_matrix_is_enough() -> None:
    """Tours need distances only."""
    points = np.random.default_rng(4).random((30, 2))
    plain = instance_of(points)
    bare = Instance(
        plain.demands, plain.capacity, matrix=plain.distances, metric="matrix"
    )
    labels = np.arange(29) // 10
    assert tours(bare, labels) == tours(plain, labels)


def test_tours_are_repeatable_and_canonical() -> None:
    """The same clusters give the same tours, in canonical direction and order."""
    instance = instance_of(np.random.default_rng(5).random((200, 2)))
    labels = np.random.default_rng(6).integers(0, 6, 199)
    first, second = tours(instance, labels), tours(instance, labels)
    assert first == second
    assert [list(r) for r in Solution(first).canonical().routes] == first


def test_a_passed_deadline_still_gives_everyone_a_tour() -> None:
    """With no time at all, clusters come back in some order, complete."""
    instance = instance_of(np.random.default_rng(7).random((300, 2)))
    found = tours(instance, np.arange(299) // 20, deadline=Deadline.after(0.0))
    assert sorted(c for route in found for c in route) == list(range(1, 300))


def test_very_long_tours_stay_complete_and_short() -> None:
    """A tour beyond one block is optimised by windows, far below a random order."""
    n = MAX_BLOCK + 300
    instance = instance_of(np.random.default_rng(8).random((n + 1, 2)))
    found = tours(instance, np.zeros(n, dtype=np.int64), 0.1)
    verdict = judge(instance, Solution(found))
    assert verdict.feasible
    assert verdict.cost < 0.95 * np.sqrt(n)  # optimal is about 0.7124 sqrt(n A)


def test_routes_agree_with_the_judge() -> None:
    """Grouping by label loses nobody; lengths and loads are the judge's."""
    instance = instance_of(np.random.default_rng(9).random((50, 2)))
    labels = np.random.default_rng(10).integers(0, 9, 49)
    routes = Routes.of_labels(labels)
    assert sorted(routes.stops.tolist()) == list(range(1, 50))
    assert [sorted(r) for r in routes.lists()] == routes.lists()
    verdict = judge(instance, Solution(routes.lists()))
    assert routes.lengths(instance) == pytest.approx(verdict.lengths)
    assert routes.sums(instance.demands) == pytest.approx(verdict.loads)
    again = Routes.of([[], *routes, []])
    assert [list(route) for route in again] == routes.lists()
    assert len(again) == len(routes)
    assert not len(Routes.of([]))
