"""Even routes: the least spread of all plans within the length allowed."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

from clusterfirst.problem.constraints import Constraints
from clusterfirst.problem.errors import InputError
from clusterfirst.problem.fleet import Fleet
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.solving.balancing import MEASURES, Balance, measured, spread
from clusterfirst.solving.options import SolveOptions
from clusterfirst.solving.solver import solve


def tiny(seed: int) -> Instance:
    """Five orders and three vehicles."""
    rng = np.random.default_rng(seed)
    fleet = Fleet(("a", "b", "c"), np.array([12.0, 12.0, 12.0]))
    service = np.r_[0, rng.integers(1, 9, 5)]
    asked = Constraints(fleet, speed=1.0, service=service)
    demands = np.r_[0, rng.integers(1, 6, 5)]
    return Instance(demands, 1, coords=rng.random((6, 2)), constraints=asked)


def best_spread(day: Instance, measure: str, within: float) -> tuple[float, float]:
    """The shortest length, and the least spread within that much more, of all plans."""
    plans = []
    for rides in product(range(3), repeat=5):
        if any(rides[k] > max((-1, *rides[:k])) + 1 for k in range(5)):
            continue  # the same plan with other vehicles
        groups = [[c + 1 for c in range(5) if rides[c] == v] for v in set(rides)]
        walks = [list(permutations(g)) for g in groups]
        for walk in product(*walks):
            solution = Solution(walk)
            verdict = judge(day, solution)
            if verdict.feasible:
                plans.append((verdict.cost, spread(measured(day, solution, measure))))
    least = min(cost for cost, _ in plans)
    allowed = least * (1 + within) + 1e-9
    return least, min(found for cost, found in plans if cost <= allowed)


@pytest.mark.parametrize("measure", MEASURES)
def test_tiny_days_against_all_plans(measure: str) -> None:
    """The spread is the least there is, and the length within what is allowed."""
    for seed in range(3):
        day = tiny(seed)
        least, even = best_spread(day, measure, 0.1)
        result = solve(
            day, SolveOptions(iterations=10_000), balance=Balance(measure, 0.1)
        )
        assert sum(result.verdict.lengths) <= 1.1 * least + 1e-6
        found = spread(measured(day, result.solution, measure))
        assert found == pytest.approx(even, abs=1e-6)
        assert "balanced: spread of" in result.notes[-1]


def test_a_larger_day_is_more_even() -> None:
    """A hundred orders: a third of the spread for at most 3 % more length."""
    rng = np.random.default_rng(1)
    demands = np.r_[0, rng.integers(1, 10, 100)]
    day = Instance(demands, 60, coords=rng.random((101, 2)))
    free = solve(day, SolveOptions(iterations=2000))
    even = solve(day, SolveOptions(iterations=2000), balance=Balance("stops", 0.03))
    assert even.verdict.feasible
    was, now = (spread(measured(day, r.solution, "stops")) for r in (free, even))
    assert now <= max(1.0, was / 3)
    assert even.verdict.cost < 1.05 * free.verdict.cost


def test_durations_must_be_known() -> None:
    """A day without times has no durations to be even."""
    day = Instance([0, 1, 1], 1, coords=np.arange(6).reshape(3, 2))
    with pytest.raises(InputError, match="not known"):
        solve(day, SolveOptions(iterations=100), balance=Balance("duration"))
