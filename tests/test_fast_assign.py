"""The fast assignment: exact LP, never over capacity, optimal on few vehicles."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import FloatArray
from clusterfirst.stages.assignment import relaxation
from clusterfirst.stages.assignment.ejection_chains import relieve
from clusterfirst.stages.assignment.heuristic import (
    _labels,
    _round,
    _usable,
    assign_fast,
)
from clusterfirst.stages.assignment.problem import (
    AssignProblem,
    AssignSettings,
    Status,
)
from clusterfirst.stages.assignment.regrouping import MEMBERS, regroup
from clusterfirst.stages.assignment.relaxation import (
    SOLVED,
    cheapest_first,
    lower_bound,
    make_transport,
    solve_transport,
)


def solve(problem: AssignProblem, seed: int = 0):
    return assign_fast(problem, AssignSettings(seed=seed), Deadline.never())


def city_problem(
    seed: int, n: int, extra: int, candidates: int | None = None
) -> AssignProblem:
    """The paper's law (Q=50, demands 1..9) with Fisher-Jaikumar insertion costs."""
    rng = np.random.default_rng(seed)
    demands = rng.integers(1, 10, n)
    vehicles = -(-int(demands.sum()) // 50) + extra
    points = rng.random((n, 2)) - 0.5
    seeds = points[rng.choice(n, vehicles, replace=False)]
    reach = np.linalg.norm(points, axis=1)[:, None]
    apart = np.linalg.norm(points[:, None] - seeds[None], axis=2)
    cost: FloatArray = reach + apart - np.linalg.norm(seeds, axis=1)[None]
    if candidates is None:
        return AssignProblem(cost, demands, 50, vehicles)
    near = np.argsort(cost, axis=1)[:, :candidates]
    return AssignProblem(np.take_along_axis(cost, near, 1), demands, 50, vehicles, near)


def check(problem: AssignProblem, labels) -> float:
    """Assert that labels are whole and within capacity; return their cost."""
    n = len(problem.demands)
    load = np.bincount(labels, weights=problem.demands, minlength=problem.vehicles)
    assert labels.shape == (n,)
    assert (load <= problem.room).all()
    if problem.candidates is None:
        return float(problem.cost[np.arange(n), labels].sum())
    chosen = problem.candidates == labels[:, None]
    assert (chosen.sum(axis=1) == 1).all()
    return float(problem.cost[chosen].sum())


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(1, 7), st.integers(1, 3))
def test_brute_force(seed: int, n: int, vehicles: int) -> None:
    """Few vehicles fit into one group, so the answer is the best; claims are true.

    Each vehicle has a capacity of its own, and some pairs are forbidden.
    """
    rng = np.random.default_rng(seed)
    cost = np.where(rng.random((n, vehicles)) < 0.1, np.inf, rng.random((n, vehicles)))
    room = rng.integers(5, 25, vehicles)
    problem = AssignProblem(cost, rng.integers(1, 10, n), room, vehicles)
    best = np.inf
    for labels in itertools.product(range(vehicles), repeat=n):
        load = np.bincount(labels, weights=problem.demands, minlength=vehicles)
        if (load <= problem.room).all():
            best = min(best, float(problem.cost[np.arange(n), list(labels)].sum()))
    answer = solve(problem)
    if answer.status in (Status.OPTIMAL, Status.FEASIBLE):
        assert check(problem, answer.labels) == pytest.approx(answer.cost)
        assert answer.cost == pytest.approx(best)
        assert answer.cost / (1 + answer.gap) <= best + 1e-9
    else:
        assert best == np.inf


@pytest.mark.parametrize("candidates", [None, 7])
def test_groups_only_ever_save(candidates: int | None) -> None:
    """Vehicles assigned again in groups keep to the capacity and never cost more."""
    for seed in range(8):
        problem = city_problem(seed, 150, 1, candidates)
        cost, vehicle = cheapest_first(*_usable(problem))
        net = make_transport(cost, vehicle, problem.demands, problem.room)
        solve_transport(net, Deadline.never())
        placed = _round(net, cost)
        if relieve(placed, Deadline.never()):
            continue
        before = check(problem, _labels(placed))
        regroup(placed, np.array([seed], dtype=np.uint64), 3, Deadline.never())
        assert check(problem, _labels(placed)) <= before + 1e-9


@pytest.mark.parametrize("n", [100, 300, 1000])
@pytest.mark.parametrize("extra", [0, 1])
def test_feasible_at_the_smallest_fleet(n: int, extra: int) -> None:
    """The paper's law is packed at K_min and K_min + 1, however full that is."""
    for seed in range(6 if n < 1000 else 1):
        problem = city_problem(seed, n, extra)
        answer = solve(problem)
        assert answer.status in (Status.OPTIMAL, Status.FEASIBLE), answer.note
        assert check(problem, answer.labels) == pytest.approx(answer.cost)


@pytest.mark.parametrize("seed", range(4))
def test_prices_prove_the_linear_programme(seed: int) -> None:
    """The bound equals the optimum of the LP relaxation found by HiGHS."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    problem = city_problem(seed, 60, 0)
    n, k = problem.cost.shape
    cost, vehicle = cheapest_first(problem.cost, np.tile(np.arange(k), (n, 1)))
    net = make_transport(cost, vehicle, problem.demands, problem.room)
    assert solve_transport(net, Deadline.never()) == SOLVED
    every = np.arange(n * k)
    once = coo_array((np.ones(n * k), (np.repeat(np.arange(n), k), every)))
    weight = np.repeat(problem.demands, k).astype(float)
    room = coo_array((weight, (vehicle.ravel(), every)))
    best = linprog(cost.ravel(), room, np.full(k, 50.0), once, np.ones(n)).fun
    assert lower_bound(net, cost) == pytest.approx(best, rel=1e-9)
    assert (net.load <= problem.capacity).all()
    assert ((net.flow.reshape(n, k) > 0).sum(axis=1) > 1).sum() <= k - 1


def test_repeatable_and_scale_free() -> None:
    """Equal input gives equal labels; demands and capacity times 7 change nothing."""
    problem = city_problem(3, 120, 0)
    scaled = AssignProblem(
        problem.cost, problem.demands * 7, problem.capacity * 7, problem.vehicles
    )
    first, second, third = solve(problem), solve(problem), solve(scaled)
    assert np.array_equal(first.labels, second.labels)
    assert third.cost == pytest.approx(first.cost, rel=0.05)
    check(scaled, third.labels)


def test_deadline_that_passed() -> None:
    """Without time for the LP the answer is feasible or honestly not found."""
    problem = city_problem(2, 200, 1)
    answer = assign_fast(problem, AssignSettings(), Deadline.after(0.0))
    if answer.status is Status.FEASIBLE:
        check(problem, answer.labels)
        assert answer.cost / (1 + answer.gap) <= solve(problem).cost
    else:
        assert answer.status is Status.NOT_FOUND


def test_candidates_are_kept() -> None:
    """With candidate lists, padded or not, customers go only where they may."""
    problem = city_problem(5, 200, 1, candidates=16)
    assert problem.candidates is not None
    vehicle, cost = problem.candidates.copy(), problem.cost.copy()
    vehicle[::3, -2:], cost[::3, -2:] = -1, np.inf
    padded = AssignProblem(cost, problem.demands, 50, problem.vehicles, vehicle)
    answer = solve(padded)
    assert answer.status is Status.FEASIBLE
    assert check(padded, answer.labels) == pytest.approx(answer.cost)


def test_no_wrong_claims() -> None:
    """Too much demand is proven; lists too short to hold it are only not found."""
    two = AssignProblem(np.ones((2, 2)), np.array([5, 6]), 5, 2)
    assert solve(two).status is Status.INFEASIBLE
    full = AssignProblem(np.ones((3, 2)), np.array([4, 4, 4]), 5, 2)
    assert solve(full).status is Status.INFEASIBLE
    packed = AssignProblem(np.ones((3, 2)), np.array([4, 4, 2]), 5, 2)
    assert solve(packed).status is Status.NOT_FOUND
    same = np.zeros((2, 1), dtype=np.int64)
    crowd = AssignProblem(np.ones((2, 1)), np.array([5, 5]), 5, 2, same)
    answer = solve(crowd)
    assert answer.status is Status.NOT_FOUND
    assert (answer.labels == -1).all()
    assert "cannot hold" in answer.note


def test_odd_sizes() -> None:
    """No customer, one customer, demands of 0 and one vehicle per customer work."""
    empty = AssignProblem(np.empty((0, 3)), np.empty(0, dtype=np.int64), 5, 3)
    assert solve(empty).status is Status.OPTIMAL
    one = AssignProblem(np.array([[3.0, 1.0]]), np.array([5]), 5, 2)
    assert solve(one).labels.tolist() == [1]
    zero = AssignProblem(np.array([[3.0, 1.0], [2.0, 0.0]]), np.array([5, 0]), 5, 2)
    assert solve(zero).labels.tolist() == [1, 1]
    rng = np.random.default_rng(0)
    each = AssignProblem(rng.random((9, 9)), np.full(9, 5), 5, 9)
    answer = solve(each)
    assert sorted(answer.labels.tolist()) == list(range(9))
    assert answer.status is Status.OPTIMAL  # equal demands: the LP is whole


def test_large_problems_keep_their_bound_and_their_time() -> None:
    """Above EXACT_UP_TO the bound is still one, and near the exact one; clocks hold."""
    problem = city_problem(1, 2000, 6, candidates=96)
    answer = solve(problem)
    assert check(problem, answer.labels) == pytest.approx(answer.cost)
    assert problem.candidates is not None
    cost, vehicle = cheapest_first(problem.cost, problem.candidates)
    bounds = []
    for rows in (relaxation.EXACT_UP_TO, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(relaxation, "EXACT_UP_TO", rows)
            net = make_transport(cost, vehicle, problem.demands, problem.room)
            assert solve_transport(net, Deadline.never()) == SOLVED
            bounds.append(lower_bound(net, cost))
    pushed, exact = bounds
    assert 0.95 * exact <= pushed <= exact * (1 + 1e-9) <= answer.cost
    start = time.perf_counter()
    assign_fast(city_problem(0, 6000, 0, 32), AssignSettings(), Deadline.after(0.1))
    assert time.perf_counter() - start < 5.0  # a guard; measured: 0.11 s


def test_vehicles_with_more_customers_than_a_group_holds() -> None:
    """Hundreds of small customers on each vehicle are left to the exchanges."""
    rng = np.random.default_rng(0)
    n = 3 * MEMBERS
    problem = AssignProblem(rng.random((n, 2)), np.ones(n, dtype=np.int64), n, 2)
    answer = solve(problem)
    assert answer.cost == pytest.approx(problem.cost.min(axis=1).sum())


@pytest.mark.parametrize("unit", [1, 1000, 2**36])
def test_small_units_do_not_make_it_longer(unit: int) -> None:
    """Chains are counted by customers, not by units: grams end as soon as tonnes."""
    rng = np.random.default_rng(2)
    noise = rng.integers(0, unit, 40) if unit > 1 else np.zeros(40, dtype=np.int64)
    demands = rng.integers(1, 16, 40) * unit + noise
    cost = np.abs(rng.random((40, 1)) - rng.random(5))
    capacity = int(demands.sum() / 5 * 1.02)
    problem = AssignProblem(cost, demands, capacity, 5)
    start = time.perf_counter()
    answer = assign_fast(problem, AssignSettings(), Deadline.never())
    assert time.perf_counter() - start < 20  # a hang guard, not a timing
    assert math.isfinite(answer.cost)
    assert np.bincount(answer.labels, demands, 5).max() <= capacity
