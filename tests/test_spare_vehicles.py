"""Closing vehicles: as few as wanted, and never so that somebody has no room."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import Instance, IntArray
from clusterfirst.problem.sampling import sample_city, sample_day
from clusterfirst.solving.decoding import fleets
from clusterfirst.solving.neural import seeds_for
from clusterfirst.solving.options import DecodingSettings, NeuralSettings
from clusterfirst.solving.solver import SolveOptions, solve
from clusterfirst.stages.assignment.problem import AssignProblem
from clusterfirst.stages.assignment.relaxation import (
    SOLVED,
    cheapest_first,
    make_transport,
    solve_transport,
)
from clusterfirst.stages.assignment.spare_vehicles import only_open, open_vehicles

NEVER = Deadline.never()


def random_problem(seed: int, *, candidates: int | None = 6) -> AssignProblem:
    """Customers and vehicles at random places, 30 % more room than demand."""
    rng = np.random.default_rng(seed)
    n, vehicles = 120, 16
    demands = rng.integers(1, 10, n)
    capacity = int(1.3 * demands.sum() / vehicles)
    away = np.linalg.norm(rng.random((n, 1, 2)) - rng.random((vehicles, 2)), axis=2)
    if candidates is None:
        return AssignProblem(away, demands, capacity, vehicles)
    near = np.argsort(away, axis=1)[:, :candidates]
    cost = np.take_along_axis(away, near, 1)
    return AssignProblem(cost, demands, capacity, vehicles, near)


def has_room(problem: AssignProblem) -> bool:
    """Whether units, which may be split, fit into the candidates of each customer."""
    assert problem.candidates is not None
    cost, vehicle = cheapest_first(problem.cost, problem.candidates)
    if (vehicle[:, 0] < 0).any():
        return False
    net = make_transport(cost, vehicle, problem.demands, problem.room)
    return solve_transport(net, NEVER) == SOLVED


def kept(problem: AssignProblem, fleet: int, limit: int = 1000) -> IntArray:
    return open_vehicles(problem, fleet, limit, NEVER)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("candidates", [3, 6, None])
def test_what_is_left_has_room_for_all(seed: int, candidates: int | None) -> None:
    """At every fleet asked for, down to more than can be closed."""
    problem = random_problem(seed, candidates=candidates)
    fewest = -(-int(problem.demands.sum()) // problem.capacity)
    could = has_room(only_open(problem, np.arange(problem.vehicles)))
    for fleet in (16, 15, 14, fewest, 1):
        left = kept(problem, fleet)
        assert_array_equal(left, np.unique(left))
        assert len(left) >= max(fleet, fewest)
        if could:
            assert has_room(only_open(problem, left))
        else:
            assert len(left) == problem.vehicles
    if could and candidates is None:  # everybody reaches every vehicle
        assert len(kept(problem, fewest + 1)) == fewest + 1


def quarters() -> AssignProblem:
    """Two quarters of a town that do not see each other.

    Twenty units in the first and thirty in the second, with three vehicles and four of
    capacity 10: one is to spare in each, and in the second all are fuller.
    """
    where = np.repeat([0, 1], [20, 30])
    cost = np.full((50, 4), np.inf)
    candidates = np.full((50, 4), -1)
    rng = np.random.default_rng(0)
    for i in range(50):
        count = (3, 4)[where[i]]
        candidates[i, :count] = np.arange(count) + 3 * where[i]
        cost[i, :count] = rng.random(count)
    return AssignProblem(cost, np.ones(50, dtype=np.int64), 10, 7, candidates)


def test_each_quarter_keeps_what_it_needs() -> None:
    """Not the two emptiest of all: two of the first quarter could not carry it."""
    left = kept(quarters(), 5)
    assert (left < 3).sum() == 2
    assert (left >= 3).sum() == 3
    assert len(kept(quarters(), 4)) == 5  # no fewer can do it


def test_a_limit_counts_more_than_room() -> None:
    """Whoever may have four vehicles gets four; the repair says what that means."""
    assert len(kept(quarters(), 4, limit=4)) == 4
    assert len(kept(quarters(), 5, limit=6)) == 5


def test_customers_without_demand_keep_a_vehicle() -> None:
    """They have no flow, but somebody must still visit them."""
    cost = np.array([[1.0, 2.0], [1.0, 2.0], [0.5, np.inf]])
    candidates = np.array([[0, 1], [0, 1], [2, -1]])
    problem = AssignProblem(cost, np.array([3, 3, 0]), 6, 3, candidates)
    left = kept(problem, 1)
    assert 2 in left
    assert (only_open(problem, left).candidates >= 0).any(axis=1).all()


@pytest.mark.parametrize("seed", range(4))
def test_units_do_not_matter(seed: int) -> None:
    """Grams or kilograms: the same vehicles stay."""
    plain = random_problem(seed)
    scaled = AssignProblem(
        plain.cost, 7 * plain.demands, 7 * plain.capacity, 16, plain.candidates
    )
    assert_array_equal(kept(plain, 13), kept(scaled, 13))


def test_a_passed_deadline_closes_nothing() -> None:
    """Then the assignment goes on with all seeds."""
    over = Deadline.after(0.0)
    assert len(open_vehicles(random_problem(0), 13, 1000, over)) == 16


def test_numbers_after_closing() -> None:
    """Vehicles are numbered anew, and costs stay with their vehicles."""
    problem = random_problem(3, candidates=4)
    left = kept(problem, 14)
    fewer = only_open(problem, left)
    assert fewer.vehicles == len(left)
    assert fewer.candidates is not None
    assert problem.candidates is not None
    rows, slots = np.nonzero(fewer.candidates >= 0)
    assert_array_equal(
        left[fewer.candidates[rows, slots]], problem.candidates[rows, slots]
    )
    assert_array_equal(fewer.cost[rows, slots], problem.cost[rows, slots])
    closed = ~np.isin(problem.candidates, left)
    assert np.isinf(fewer.cost[closed]).all()


def large_day(customers: int) -> Instance:
    """A day of a clustered city whose vehicles are nearly full."""
    city = sample_city(2 * customers, seed=1, layout="clustered")
    return sample_day(city, customers, seed=0, index=0)


def test_who_gets_seeds_to_spare() -> None:
    """Large maps with the fast assignment, and never more seeds than customers."""
    plain = NeuralSettings()
    exact = NeuralSettings(DecodingSettings("exact"))
    (least, share), (larger, more) = plain.spare
    assert seeds_for(large_day(least - 1), 80, plain) == 80
    assert seeds_for(large_day(least), 80, plain) == 80 + math.ceil(share * 80)
    assert seeds_for(large_day(larger), 80, plain) == 80 + math.ceil(more * 80)
    assert seeds_for(large_day(larger), 80, exact) == 80
    assert seeds_for(large_day(least), least - 1, plain) == least


def test_a_large_full_map_is_served_by_few_vehicles() -> None:
    """As many seeds as vehicles left whole quarters of it without (log/)."""
    day = large_day(3000)
    fewest = fleets(day, DecodingSettings())[0]
    options = SolveOptions(method="neural", polish=False, iterations=1)
    answer = solve(day, options)
    assert answer.verdict.feasible
    assert len(answer.solution.routes) <= 1.01 * fewest + 1
