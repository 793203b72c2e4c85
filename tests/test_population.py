"""Crossover, split and the population that small maps begin again from."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.sampling import sample_uniform
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.search.polish import PolishSettings, polish
from clusterfirst.stages.search.population import (
    Population,
    crossed,
    giant_tour,
    split,
)
from clusterfirst.stages.search.schedule import Schedule

NEVER = Deadline.never()


def cuts(order: np.ndarray) -> list[Routes]:
    """Every way to cut an order into routes."""
    inner = range(1, len(order))
    return [
        Routes(order, np.array([0, *some, len(order)]))
        for count in range(len(order))
        for some in itertools.combinations(inner, count)
    ]


@pytest.mark.parametrize("seed", range(8))
def test_split_is_the_best_cut(seed: int) -> None:
    """No other feasible cut of the same order is shorter, from points or a matrix."""
    rng = np.random.default_rng(seed)
    instance = sample_uniform(8, seed=seed, index=0, capacity=17)
    if seed % 2:
        instance = Instance(
            demands=instance.demands,
            capacity=17,
            matrix=symmetric(rng, 9),
            metric="matrix",
        )
    order = rng.permutation(8) + 1
    found = split(instance, order)
    assert found.stops.tolist() == order.tolist()
    assert found.fit(instance)
    fitting = [other for other in cuts(order) if other.fit(instance)]
    best = min(float(other.lengths(instance).sum()) for other in fitting)
    assert float(found.lengths(instance).sum()) == pytest.approx(best)


def symmetric(rng: np.random.Generator, size: int) -> np.ndarray:
    """Distances that come from no points."""
    matrix = np.triu(rng.random((size, size)), 1)
    return matrix + matrix.T


@given(st.data())
def test_children_take_after_both_parents(data: st.DataObject) -> None:
    """A part as in the first parent, everybody else in the order of the second."""
    n = data.draw(st.integers(1, 12))
    first, second = (
        np.array(data.draw(st.permutations(range(1, n + 1)))) for _ in range(2)
    )
    start, end = (data.draw(st.integers(0, n - 1)) for _ in range(2))
    child = crossed(first, second, start, end).tolist()
    assert sorted(child) == list(range(1, n + 1))
    size = (end - start) % n + 1
    assert child[:size] == np.roll(first, -start)[:size].tolist()
    turned = np.roll(second, -(end + 1)).tolist()
    assert child[size:] == [c for c in turned if c not in child[:size]]


def test_routes_of_neighbours_follow_each_other() -> None:
    """The giant tour goes round the depot, and through each route as it is."""
    coords = np.array([[0, 0], [1, 1], [-1, -1], [1, -1], [2, 2], [-1, 1.0]])
    instance = Instance(demands=np.array([0, 1, 1, 1, 1, 1]), capacity=2, coords=coords)
    tour = giant_tour(instance, Routes.of([[5], [4, 1], [3], [2]]))
    assert tour.tolist() == [2, 3, 4, 1, 5]


def test_a_population_keeps_the_shortest_that_differ() -> None:
    """Shortest first, none twice, at most so many; children are feasible."""
    whole = sample_uniform(30, seed=1, index=0)
    rng = np.random.default_rng(2)
    drawn = [split(whole, rng.permutation(30) + 1) for _ in range(12)]
    fewest = max(map(len, drawn))
    for instance in (whole, whole.replace(vehicles=fewest)):
        population = Population(instance, 5, seed=3)
        for routes in [*drawn, *drawn]:
            population.offer(routes)
        costs = sorted(float(routes.lengths(instance).sum()) for routes in drawn)
        assert [cost for cost, _ in population.members] == pytest.approx(costs[:5])
        children = [population.child() for _ in range(20)]
        for child in children:
            assert judge(instance, Solution(child.lists())).feasible
        assert len({child.stops.tobytes() for child in children}) > 5


def test_no_child_needs_more_vehicles_than_there_are() -> None:
    """Where the cut of a child would, a parent goes on instead."""
    instance = sample_uniform(30, seed=4, index=0)
    fewest = instance.min_vehicles
    limited = instance.replace(vehicles=fewest)
    answer = polish(limited, packed(limited), PolishSettings(iterations=12_000), NEVER)
    assert len(answer.routes) <= fewest
    assert judge(limited, Solution(answer.routes)).feasible


def packed(instance: Instance) -> list[list[int]]:
    """Routes that use the fewest vehicles: largest demands first, where they fit."""
    routes: list[list[int]] = [[] for _ in range(instance.min_vehicles)]
    loads = np.zeros(len(routes))
    for c in np.argsort(-instance.demand_units[1:]) + 1:
        fullest = np.where(
            loads + instance.demand_units[c] <= instance.capacity_units, loads, -1
        )
        r = int(np.argmax(fullest))
        routes[r].append(int(c))
        loads[r] += instance.demand_units[c]
    return routes


@pytest.mark.parametrize("threads", [1, 3])
def test_bred_answers_are_repeatable(threads: int) -> None:
    """The same seed and count give the same routes, another seed others."""
    instance = sample_uniform(20, seed=6, index=0)
    start = [[c] for c in range(1, 21)]
    settings = [PolishSettings(seed, 8000, threads) for seed in (1, 1)]
    first, second = (polish(instance, start, s, NEVER) for s in settings)
    assert first.routes == second.routes


def test_schedule_of_children() -> None:
    """Two falls, then one for each round; small maps with much time alone."""
    settings = PolishSettings(0, 40_000)
    small, large = (sample_uniform(n, seed=7, index=0) for n in (80, 151))
    plan = Schedule.of(small, settings, NEVER, breeds=True)
    assert (plan.falls, plan.bred) == (2, 30)
    ends = [step for step in range(plan.rounds) if plan.ends_fall(step)]
    assert ends == [4, *range(9, plan.rounds)]
    for step in ends:
        end = (step + 1) / plan.rounds
        assert plan.temperature(end - 1e-9) == pytest.approx(settings.cold, rel=1e-4)
    last = (plan.rounds - 1) / plan.rounds + 1e-9
    assert plan.temperature(last) == pytest.approx(settings.hot_bred, rel=1e-4)
    assert plan.breeds_after(9)
    assert not plan.breeds_after(8)
    assert Schedule.of(small, settings, NEVER).bred == 0
    assert Schedule.of(large, settings, NEVER, breeds=True).bred == 0
