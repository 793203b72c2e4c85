"""Classical cluster-first methods: feasible always, and no straw men."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from clusterfirst.problem.clock import NEVER, Deadline, TimeUpError
from clusterfirst.problem.errors import InputError
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.sampling import sample_world
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.solving.solver import SolveOptions, solve
from clusterfirst.stages.classical.fisher_jaikumar import (
    CANDIDATES,
    curve_seeds,
    insertion_costs,
)
from clusterfirst.stages.classical.fisher_jaikumar import _Map as Map
from clusterfirst.stages.classical.petal import petal_lengths
from clusterfirst.stages.classical.savings import near_pairs
from clusterfirst.stages.classical.sweep import angular_order, reach, sweep
from clusterfirst.stages.search_state import SearchState

CLASSICAL = ("fisher-jaikumar", "sweep", "petal", "savings")


@pytest.fixture(scope="module")
def town() -> Instance:
    """60 customers of the unit square, about 10 per route."""
    rng = np.random.default_rng(0)
    demands = np.concatenate([[0], rng.integers(1, 10, 60)])
    return Instance(demands, 50, coords=rng.random((61, 2)))


@pytest.mark.parametrize("method", CLASSICAL)
@pytest.mark.parametrize("index", range(6))
def test_every_method_is_feasible_on_every_kind_of_map(method: str, index: int) -> None:
    """Clustered, street and grid maps with any demands get feasible routes."""
    instance = sample_world(40, seed=7, index=index)
    result = solve(instance, SolveOptions(method=method, iterations=3))
    assert judge(instance, result.solution).feasible
    assert not result.notes


@pytest.mark.parametrize("method", CLASSICAL)
def test_a_hard_fleet_limit_is_kept(method: str, town: Instance) -> None:
    """With the fewest possible vehicles as the limit, no method exceeds it."""
    tight = town.replace(vehicles=town.min_vehicles)
    result = solve(tight, SolveOptions(method=method, iterations=3))
    assert result.verdict.feasible
    assert len(result.solution.routes) == town.min_vehicles


@pytest.mark.parametrize("method", CLASSICAL)
def test_methods_are_not_straw_men(method: str, town: Instance) -> None:
    """Each method comes within 15 % of the best of all of them."""
    cost = {
        name: solve(town, SolveOptions(method=name, iterations=30)).verdict.cost
        for name in CLASSICAL
    }
    assert cost[method] <= 1.15 * min(cost.values())


def test_savings_needs_no_coordinates_and_the_others_say_so(town: Instance) -> None:
    """A bare matrix is solved by savings and refused in words by the others."""
    bare = Instance(town.demands, 50, matrix=town.distances, metric="matrix")
    with_map = solve(town, SolveOptions(method="savings", iterations=2))
    without = solve(bare, SolveOptions(method="savings", iterations=2))
    assert without.verdict.cost == pytest.approx(with_map.verdict.cost)
    for method in ("fisher-jaikumar", "sweep", "petal"):
        with pytest.raises(InputError, match="savings"):
            solve(bare, SolveOptions(method=method, iterations=1))


def test_insertion_costs_are_the_papers(town: Instance) -> None:
    """Cost is d(0,i) + d(i,s) - d(0,s), zero at the seed itself."""
    seeds = np.array([3, 17, 40])
    cost, candidates = insertion_costs(town, seeds)
    assert candidates is None
    d = town.distances
    for i, (k, s) in itertools.product((1, 9, 60), enumerate(seeds)):
        assert cost[i - 1, k] == pytest.approx(d[0, i] + d[i, s] - d[0, s])
    assert cost[seeds - 1, np.arange(3)] == pytest.approx(0.0)


def test_many_seeds_get_candidates_that_agree_with_dense(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Above the dense limit, candidate costs equal the dense ones."""
    points = np.random.default_rng(1).random((101, 2))
    instance = Instance(np.array([0] + [1] * 100), 2, coords=points)
    seeds = np.arange(1, 51)
    dense, _ = insertion_costs(instance, seeds)
    monkeypatch.setattr("clusterfirst.stages.classical.fisher_jaikumar.DENSE_CELLS", 10)
    sparse, candidates = insertion_costs(instance, seeds)
    assert candidates is not None
    assert candidates.shape == (100, CANDIDATES)
    assert sparse == pytest.approx(np.take_along_axis(dense, candidates, axis=1))


@pytest.mark.parametrize("vehicles", [1, 7, 60])
def test_seeds_are_distinct_customers(vehicles: int, town: Instance) -> None:
    """As many distinct customers as vehicles, also when every customer is a seed."""
    seeds = curve_seeds(Map(town), vehicles, np.random.default_rng(2))
    assert len(set(seeds.tolist())) == vehicles
    assert seeds.min() >= 1
    assert seeds.max() <= 60


def test_seeds_survive_identical_points() -> None:
    """All customers in one place still give distinct seeds."""
    same = Instance(np.array([0, 1, 1, 1, 1]), 2, coords=np.ones((5, 2)))
    seeds = curve_seeds(Map(same), 2, np.random.default_rng(0))
    assert len(set(seeds.tolist())) == 2


def test_reach_counts_what_fits() -> None:
    """From each position on, the stretch fits and one more would not."""
    units = np.random.default_rng(3).integers(0, 9, 30)
    for i, count in enumerate(reach(units, 20).tolist()):
        around = np.roll(units, -i)
        assert around[:count].sum() <= 20
        assert count == 30 or around[: count + 1].sum() > 20


def test_sweep_tries_every_start(town: Instance) -> None:
    """The sweep equals the best of all greedy cuts of the circle, tours aside."""
    state = SearchState(town, Deadline.never())
    sweep(state)
    order = angular_order(town)
    units, routes = town.demand_units, []
    for start in range(60):
        plan, load = [[]], 0
        for row in np.roll(order, -start).tolist():
            if load + units[row] > 50:
                plan, load = [*plan, []], 0
            plan[-1].append(row)
            load += units[row]
        routes.append(plan)
    from clusterfirst.stages.tours.routing import tours

    best = min(judge(town, Solution(tours(town, plan))).cost for plan in routes)
    assert state.best_cost <= 1.02 * best


def test_petal_lengths_are_tours(town: Instance) -> None:
    """Estimated petal lengths are at least the optimal tour and finite iff it fits."""
    from clusterfirst.stages.tours.routing import tours

    order = angular_order(town)
    table = petal_lengths(town, order)
    twice = np.concatenate([order, order])
    for i, w in itertools.product((0, 20, 59), range(table.shape[1])):
        rows = twice[i : i + w + 1]
        fits = town.demand_units[rows].sum() <= 50
        assert np.isfinite(table[i, w]) == fits
        if fits:
            best = judge(town, Solution(tours(town, [rows.tolist()]))).cost
            assert best - 1e-9 <= table[i, w] <= 1.6 * best


def test_near_pairs_are_near(town: Instance) -> None:
    """With a short list, each customer's nearest neighbour is still a pair."""
    pairs = near_pairs(town, 3, NEVER)
    with pytest.raises(TimeUpError):
        near_pairs(town, 3, Deadline.after(0.0))
    known = {tuple(pair) for pair in pairs.tolist()}
    for i in range(1, 61):
        away = town.distances[i].copy()
        away[[0, i]] = np.inf
        j = int(away.argmin())
        assert (min(i, j), max(i, j)) in known


def test_petal_without_time_for_one_ring_gives_an_answer(
    town: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No petal was built before the time for them was up: no crash, an answer."""
    monkeypatch.setattr("clusterfirst.stages.classical.petal.POOL_SHARE", 0.0)
    result = solve(town, SolveOptions(method="petal", polish=False, time_limit=5.0))
    assert result.verdict.feasible
    assert any("W205" in note for note in result.notes)
