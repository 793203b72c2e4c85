"""Days with constraints are solved: every limit kept, tiny days to the optimum."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from clusterfirst.problem.changes import pairs_kept
from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.constraints import Constraints
from clusterfirst.problem.errors import NotFoundInTimeError
from clusterfirst.problem.fleet import Fleet
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.solving.keeping import Kept
from clusterfirst.solving.options import SolveOptions
from clusterfirst.solving.solver import solve
from clusterfirst.stages.search.constrained import Keeping, search_limited
from clusterfirst.stages.search.limits import bank_prices, limits_of
from clusterfirst.stages.search.schedule import PolishSettings
from test_constraints import random_day

EFFORT = SolveOptions(iterations=3000)


def optimum(day: Instance) -> float:
    """The least bank price and cost of all plans, by trying every one of them."""
    assert day.constraints is not None
    asked, n = day.constraints, day.num_customers
    day = day.replace(constraints=asked.replace(allow_unserved=True))
    worth = bank_prices(day)
    orders: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    best = np.inf
    for rides in product(range(-1, asked.fleet.size), repeat=n):
        routes = {
            v: tuple(c + 1 for c in range(n) if rides[c] == v)
            for v in sorted(set(rides) - {-1})
        }
        for walk in product(
            *(orders.setdefault(r, list(permutations(r))) for r in routes.values())
        ):
            verdict = judge(day, Solution(walk, routes.keys()))
            if verdict.feasible:
                price = sum(worth[c] for c in verdict.unserved)
                best = min(best, price + verdict.cost)
    return best


def test_tiny_days_are_solved_to_the_optimum() -> None:
    """All constraints at once, against every plan there is; none is ever broken."""
    rng = np.random.default_rng(7)
    solved = 0
    while solved < 25:
        try:
            day = random_day(rng, orders=4)
        except ValueError:
            continue  # it contradicts itself
        assert day.constraints is not None
        free = day.replace(constraints=day.constraints.replace(allow_unserved=True))
        best = optimum(free)
        if not np.isfinite(best) or free.infeasibility():
            continue  # a vehicle must drive and nobody may ride on it
        try:
            result = solve(free, EFFORT)
        except NotFoundInTimeError:
            result = None  # the vehicles that must drive found nobody
        solved += 1
        assert result is not None
        assert result.verdict.feasible
        price = sum(bank_prices(free)[c] for c in result.verdict.unserved)
        assert price + result.verdict.cost == pytest.approx(best)
        assert set(result.unserved) == {day.ids[c] for c in result.verdict.unserved}


def town(rng: np.random.Generator, orders: int = 60, **asked: Any) -> Instance:
    """A day in the unit square with two kinds of vehicles."""
    fleet = Fleet(
        ("large", "small"),
        np.array([40.0, 22.0]),
        np.array([5, 9]),
        max_stops=np.array([9.0, np.inf]),
        max_distance=np.array([np.inf, 2.4]),
        max_duration=np.array([200.0, 150.0]),
        fixed_cost=np.array([0.5, 0.2]),
    )
    demands = np.r_[0, rng.integers(1, 10, orders)]
    fields: dict[str, Any] = {"speed": 1.5, "service": np.r_[0, np.full(orders, 3.0)]}
    constraints = Constraints(fleet, **(fields | asked))
    points = rng.random((orders + 1, 2))
    return Instance(demands, 1, coords=points, constraints=constraints)


def test_larger_days_keep_every_limit() -> None:
    """Mixed fleet, stops, lengths, hours, pins and groups: the judge accepts all."""
    rng = np.random.default_rng(0)
    for _ in range(3):
        pins = rng.choice(["", "", "large", "small"], 40).tolist()
        pairs = [f"g{k // 2}" for k in range(10)]
        apart = [f"x{k % 2}" for k in range(10)]
        day = town(
            rng,
            vehicle=("", *pins, *[""] * 20),
            group=("", *[""] * 40, *pairs, *[""] * 10),
            apart=("", *[""] * 50, *apart),
            allow_unserved=True,
        )
        result = solve(day, SolveOptions(iterations=2000))
        assert result.verdict.feasible
        assert len(result.verdict.unserved) < 30


def test_one_way_streets() -> None:
    """On an asymmetric matrix the direction counts, with and without a fleet."""
    rng = np.random.default_rng(3)
    matrix = rng.random((7, 7)) + 0.1
    np.fill_diagonal(matrix, 0)
    day = Instance(np.r_[0, np.ones(6)], 6, matrix=matrix, metric="matrix")
    result = solve(day, EFFORT)
    assert result.verdict.feasible
    assert result.solution.vehicles is None
    best = min(
        sum(matrix[a, b] for a, b in zip((0, *p), (*p, 0), strict=True))
        for p in permutations(range(1, 7))
    )
    assert result.verdict.cost <= best + 1e-9


def test_who_does_not_fit_is_named() -> None:
    """Low priorities stay, each with a reason; without leave the refusal names them."""
    fleet = Fleet(("a", "b"), np.array([5.0, 5.0]))
    asked = Constraints(fleet, priority=np.array([0, 1, 5, 5, 5]), allow_unserved=True)
    day = Instance(
        [0, 5, 3, 2, 5], 1, coords=np.arange(10).reshape(5, 2), constraints=asked
    )
    result = solve(day, EFFORT)
    assert list(result.unserved) == ["1"]
    assert "capacity (2)" in result.unserved["1"]
    assert result.as_dict()["unserved"] == result.unserved
    tight = replace(asked, fleet=Fleet(("a", "b"), np.array([9.0, 6.0])))
    late = Instance(
        [0, 5, 5, 5],
        1,
        coords=np.arange(8).reshape(4, 2),
        constraints=replace(tight, allow_unserved=False, priority=None),
    )
    with pytest.raises(NotFoundInTimeError, match="no place") as caught:
        solve(late, EFFORT)
    said = str(caught.value)
    # Both vehicles have one order each of 9 and 6: 4 and 1 are free, 1 is lacking.
    assert "with demand 5 have no place, the vehicles room for 5" in said
    assert "a lacks 1 of capacity" in said


def test_limits_that_do_not_bind_cost_little() -> None:
    """A day whose limits are wide is planned about as well as without them."""
    rng = np.random.default_rng(5)
    points, demands = rng.random((101, 2)), np.r_[0, rng.integers(1, 10, 100)]
    plain = Instance(demands, 50, coords=points)
    fleet = replace(
        Fleet.of_one_kind(50.0, 20),
        max_stops=np.array([90.0]),
        max_distance=np.array([99.0]),
        max_duration=np.array([9999.0]),
    )
    wide = plain.replace(constraints=Constraints(fleet, speed=1.0))
    free = solve(plain, SolveOptions(iterations=2000, threads=1)).verdict.cost
    kept = solve(wide, SolveOptions(iterations=20_000)).verdict.cost
    assert kept < 1.02 * free


def test_hours_that_are_passed_over_never_bind() -> None:
    """Where they are not looked at, no route that fits is too long, in any order."""
    rng, passed = np.random.default_rng(9), 0
    for turn in range(60):
        rows = 6
        fleet = Fleet(
            ("a",),
            np.array([7.0]),
            max_stops=np.array([float(rng.integers(1, 5))]),
            max_duration=np.array([float(rng.integers(50, 900))]),
        )
        times: dict[str, Any] = {"speed": float(rng.integers(5, 60))}
        if turn % 2:
            times = {"durations": rng.integers(1, 90, (rows, rows)).astype(float)}
        service = np.r_[0, rng.integers(0, 30, rows - 1)].astype(float)
        day = Instance(
            np.r_[0, rng.integers(1, 4, rows - 1)],
            1,
            coords=10 * rng.random((rows, 2)),
            constraints=Constraints(fleet, service=service, **times),
        )
        home = np.full(rows, -1)
        if limits_of(day, np.array([0]), home, (0.0, np.inf)).timed:
            continue
        passed += 1
        for size in range(1, int(fleet.max_stops[0]) + 1):
            for route in permutations(range(1, rows), size):
                if day.demands[list(route)].sum() <= 7:
                    minutes = judge(day, Solution([route], [0])).minutes[0]
                    assert minutes <= fleet.max_duration[0]
    assert 5 < passed < 55


def test_several_threads_say_that_one_searches() -> None:
    """Limits belong to the whole day; whoever asks for threads is told."""
    day = town(np.random.default_rng(6), orders=20)
    several = solve(day, SolveOptions(iterations=200, threads=3))
    one = solve(day, SolveOptions(iterations=200, threads=1))
    assert several.verdict.cost == one.verdict.cost
    assert any(note.startswith("W438 3 threads") for note in several.notes)
    assert not any("W438" in note for note in one.notes)


def test_a_move_price_keeps_orders_at_home() -> None:
    """The dearer a move, the more orders stay on the vehicle they were on."""
    rng = np.random.default_rng(1)
    day = town(rng, service=None, speed=1000.0)
    home = {c: int(rng.integers(0, 14)) for c in range(1, 61)}
    stayed = []
    for price in (0.0, 0.05, 100.0):
        found = search_limited(
            day,
            {},
            PolishSettings(iterations=3000),
            Deadline.never(),
            keeping=Keeping(home, price),
        )
        judge(day, Solution(found.values(), found.keys()))
        stayed.append(sum(home[c] == v for v, route in found.items() for c in route))
    assert stayed[0] < stayed[1] < stayed[2]


def test_yesterdays_plan_is_kept_for_a_price() -> None:
    """With a tenth of the customers new, a price keeps nearly all pairs together."""
    rng = np.random.default_rng(2)
    points = rng.random((111, 2))
    demands = np.r_[0, rng.integers(1, 10, 110)]
    before = Instance(demands[:101], 50, coords=points[:101])
    plan = solve(before, SolveOptions(iterations=300, threads=1)).solution
    rows = np.r_[0, 11:111]
    today = Instance(demands[rows], 50, coords=points[rows])
    known = [[c - 10 for c in route if c > 10] for route in plan.routes]
    kept = Kept(Solution(known), 0.5)
    result = solve(today, SolveOptions(iterations=3000), keep=kept)
    assert result.verdict.feasible
    assert pairs_kept(known, result.solution.routes) > 0.9
    assert "changed vehicle" in result.notes[-1]
    free = solve(today, SolveOptions(iterations=300, threads=1))
    assert result.verdict.cost < 1.25 * free.verdict.cost
