"""The small moves with limits: sums, costs and limits hold at every step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clusterfirst.problem.constraints import Constraints
from clusterfirst.problem.fleet import Fleet
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.stages.search.constrained import Keeping, LimitedSearch
from clusterfirst.stages.search.limits import bank_prices
from clusterfirst.stages.search.schedule import PolishSettings


def town(rng: np.random.Generator, trial: int) -> Instance:
    """Two kinds of vehicles with every limit; one-way streets, pins and groups too."""
    orders = 60
    fleet = Fleet(
        ("large", "small"),
        np.array([40.0, 22.0]),
        np.array([5, 9]),
        max_stops=np.array([9.0, np.inf]),
        max_distance=np.array([np.inf, 2.4]),
        max_duration=np.array([200.0, 150.0]),
        fixed_cost=np.array([0.5, 0.2]),
        optional=np.array([True, trial % 3 > 0]),
    )
    asked: dict[str, Any] = {"speed": 1.5, "service": np.r_[0, np.full(orders, 3.0)]}
    points = rng.random((orders + 1, 2))
    places: dict[str, Any] = {"coords": points}
    straight = np.hypot(*(points[:, None] - points[None]).transpose(2, 0, 1))
    if trial % 4 >= 2:
        places = {"matrix": straight * (1 + 0.3 * rng.random(straight.shape))}
        places["metric"] = "matrix"
    if trial % 3 == 1:
        del asked["speed"]
        asked["durations"] = straight * 40 * (1 + 0.3 * rng.random(straight.shape))
    if trial % 2:
        pins = rng.choice(["", "", "large", "small"], 40).tolist()
        asked["vehicle"] = ("", *pins, *[""] * 20)
        asked["group"] = (
            "",
            *[""] * 40,
            *[f"g{k // 2}" for k in range(10)],
            *[""] * 10,
        )
        asked["apart"] = ("", *[""] * 50, *[f"x{k % 2}" for k in range(10)])
    constraints = Constraints(fleet, allow_unserved=True, **asked)
    demands = np.r_[0, rng.integers(1, 10, orders)]
    return Instance(demands, 1, constraints=constraints, **places)


def expected_cost(day: Instance, search: LimitedSearch, plan: Solution) -> float:
    """The cost of the plan with all prices, computed without the kernels."""
    asked, limits = day.constraints, search.limits
    assert asked is not None
    verdict = judge(day, plan)
    broken = {problem.code for problem in verdict.violations}
    assert broken <= {"E825", "E828"}, verdict.violations
    slot = {v: r for r, v in enumerate(search.vehicles.tolist())}
    rides = {
        c: slot[v]
        for v, r in zip(plan.vehicles or (), plan.routes, strict=True)
        for c in r
    }
    away = sum(limits.home[c] not in (-1, r) for c, r in rides.items())
    assert away == limits.away_now[0]
    cost = verdict.cost + limits.move_price * away
    cost += sum(limits.worth[c] for c in set(range(1, 61)) - set(rides))
    torn = limits.group_in < limits.group_size
    cost += float(limits.group_worth[torn].sum())
    must = ~asked.fleet.optional[asked.fleet.kind]
    prize = 2 * bank_prices(day).max()
    return cost - prize * sum(bool(must[v]) for v in plan.vehicles or ())


@pytest.mark.parametrize("trial", range(12))
def test_costs_and_sums_hold_at_every_step(trial: int) -> None:
    """However hot, no limit is broken, and what the kernels count is what is true."""
    rng = np.random.default_rng(trial)
    day = town(rng, trial)
    keeping = Keeping()
    if trial % 5 in (1, 4):
        home = {c: int(rng.integers(0, 14)) for c in range(1, 61)}
        keeping = Keeping(home, 0.1)
    search = LimitedSearch(day, {}, PolishSettings(trial), keeping)
    for step in range(15):
        search.anneal(5, 0.5 * 0.8**step)
        found = search.routing(best=False)
        plan = Solution(found.values(), found.keys())
        verdict = judge(day, plan)
        tours, limits = search.region.tours, search.limits
        drive = tours.size > 0
        assert limits.length[drive] == pytest.approx(verdict.lengths, abs=1e-7)
        assert limits.minutes[drive] == pytest.approx(verdict.minutes, abs=1e-6)
        cost = expected_cost(day, search, plan)
        assert search.region.memory.cost[0] == pytest.approx(cost, rel=1e-7)


def test_a_group_changes_vehicle_as_a_whole() -> None:
    """Small steps alone bring two orders that ride together to where they belong."""
    points = np.array([[0, 0], [9, 1], [9, 2], [-9, 0], [-9, 1], [9, 3], [9, 0]]) * 1.0
    fleet = Fleet(("a", "b"), np.array([4.0, 4.0]))
    asked = Constraints(fleet, group=("", *"gghhii"))
    day = Instance(np.r_[0, np.ones(6)], 1, coords=points, constraints=asked)
    start = {0: [1, 2, 3, 4], 1: [5, 6]}
    search = LimitedSearch(day, start, PolishSettings(ruins=0.0), Keeping())
    search.anneal(50, 0.01)
    rides = {frozenset(route) for route in search.routing(best=True).values()}
    assert rides == {frozenset({1, 2, 5, 6}), frozenset({3, 4})}
