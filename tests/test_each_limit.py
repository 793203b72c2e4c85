"""Each limit by itself, against all plans of tiny days: the best one is found.

For each there are days where the limit costs something; a search, or a judge, that
did not look at it would be found out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.constraints import Constraints
from clusterfirst.problem.fleet import Fleet
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.solving.options import SolveOptions
from clusterfirst.solving.solver import solve
from clusterfirst.stages.search.constrained import search_limited
from clusterfirst.stages.search.schedule import PolishSettings

ORDERS, DAYS = 5, 4
OF_OTHERS = {"E825", "E828"}  # a group on the road elsewhere, an idle vehicle
Table = Callable[[np.random.Generator], dict[str, Any]]


def of_fleet(**table: Any) -> Table:
    """Limits of the two vehicles, as a table's columns."""
    return lambda rng: {"fleet": {k: np.array(v) for k, v in table.items()}}


def of_orders(**fields: Any) -> Table:
    """What is asked of the orders; the depot has none of it."""
    return lambda rng: fields


def one_way(rng: np.random.Generator) -> dict[str, Any]:
    """Ways that differ from the ways back."""
    matrix = rng.integers(10, 90, (ORDERS + 1, ORDERS + 1)).astype(float)
    np.fill_diagonal(matrix, 0.0)
    return {"matrix": matrix}


def slow_streets(rng: np.random.Generator) -> dict[str, Any]:
    """Minutes that have little to do with the distances."""
    minutes = rng.integers(5, 60, (ORDERS + 1, ORDERS + 1)).astype(float)
    service = np.r_[0, rng.integers(0, 20, ORDERS)]
    asked = {"durations": minutes, "service": service.astype(float)}
    return {**asked, "fleet": {"max_duration": np.array([150.0, 110.0])}}


def hours(rng: np.random.Generator) -> dict[str, Any]:
    """Minutes by a speed, and stops that take their time."""
    service = np.r_[0, rng.integers(0, 40, ORDERS)].astype(float)
    asked = {"speed": 60.0, "service": service}
    return {**asked, "fleet": {"max_duration": np.array([300.0, 280.0])}}


LIMITS: dict[str, Table] = {
    "capacity": of_fleet(capacities=[6.0, 9.0]),
    "count": of_fleet(counts=[1, 2], max_stops=[2.0, 2.0]),
    "max_stops": of_fleet(max_stops=[2.0, 3.0]),
    "max_distance": of_fleet(max_distance=[230.0, 250.0]),
    "max_duration": hours,
    "durations": slow_streets,
    "fixed_cost": of_fleet(fixed_cost=[90.0, 20.0]),
    "optional": of_fleet(optional=[False, False]),
    "vehicle": of_orders(vehicle=("", "a", "b", "a", "", "b")),
    "not_vehicle": of_orders(not_vehicle=("", "a", "b", "", "a", "")),
    "group": of_orders(group=("", "g", "", "g", "h", "h")),
    "apart": of_orders(apart=("", "x", "x", "y", "y", "")),
    "priority": lambda rng: {
        "priority": np.r_[0, rng.permutation([1.0, 2.0, 4.0, 8.0, 16.0])],
        "allow_unserved": True,
        "fleet": {"capacities": np.array([6.0, 5.0])},
    },
    "asymmetric": one_way,
}


def drawn(name: str, index: int) -> tuple[Instance, Instance]:
    """A tiny day with one limit, and the same day without it."""
    rng = np.random.default_rng([sum(map(ord, name)), index])
    points = rng.integers(0, 100, (ORDERS + 1, 2)).astype(float)
    demands = np.r_[0, rng.integers(1, 5, ORDERS)]
    stops = [5.0, 5.0] if name in ("optional", "fixed_cost") else [4.0, 3.0]
    wide = Fleet(("a", "b"), np.array([20.0, 20.0]), max_stops=np.array(stops))
    loose = Instance(demands, 1, coords=points, constraints=Constraints(wide))
    given = LIMITS[name](rng)
    fleet = replace(wide, **given.pop("fleet", {}))
    matrix = given.pop("matrix", None)
    limited = loose.replace(constraints=Constraints(fleet, **given))
    if matrix is not None:
        back = (matrix + matrix.T) / 2
        limited = limited.replace(matrix=matrix, metric="matrix", coords=None)
        loose = loose.replace(matrix=back, metric="matrix", coords=None)
    return limited, loose


def price(day: Instance, plan: Solution) -> tuple[float, float]:
    """What is left, by priority, and the cost; infinite where a limit is broken."""
    verdict = judge(day, plan)
    if not verdict.feasible:
        return np.inf, np.inf
    assert day.constraints is not None
    worth = day.constraints.priority
    left = sum(1.0 if worth is None else worth[c] for c in verdict.unserved)
    return float(left), verdict.cost


def optimum(day: Instance) -> tuple[float, float]:
    """The least of all plans: who rides where, each route in its best order."""
    asked = day.constraints
    assert asked is not None
    alone = day.replace(constraints=asked.replace(allow_unserved=True))

    @cache
    def shortest(vehicle: int, ride: tuple[int, ...]) -> tuple[int, ...]:
        """The best order of a route by itself, if any is within the limits."""
        best: tuple[float, tuple[int, ...]] = (np.inf, ())
        for walk in permutations(ride):
            verdict = judge(alone, Solution([walk], [vehicle]))
            if {p.code for p in verdict.violations} <= OF_OTHERS:
                best = min(best, (verdict.cost, walk))
        return best[1]

    least = (np.inf, np.inf)
    idle = -1 if asked.allow_unserved else 0
    for rides in product(range(idle, asked.fleet.size), repeat=ORDERS):
        used = sorted(set(rides) - {-1})
        walks = [
            shortest(v, tuple((np.flatnonzero(np.equal(rides, v)) + 1).tolist()))
            for v in used
        ]
        if all(walks):
            least = min(least, price(day, Solution(walks, used)))
    return least


@pytest.mark.parametrize("name", LIMITS)
def test_the_best_plan_within_a_limit_is_found(name: str) -> None:
    """Equal to the best of all plans; and the limit matters on some of the days."""
    matters = 0
    for index in range(DAYS):
        limited, loose = drawn(name, index)
        best = optimum(limited)
        if not np.isfinite(best[0]):
            continue  # nobody can drive this day
        found = solve(limited, SolveOptions(iterations=500))
        assert price(limited, found.solution) == pytest.approx(best)
        matters += best != pytest.approx(optimum(loose))
    assert matters


def test_what_is_driven_already_counts_when_others_join() -> None:
    """A start with routes that use up their limits takes nobody above them.

    Insertion looked at lengths and minutes that were still zero.
    """
    points = np.array([[0, 0], [0, 10], [1, 10], [0, -4]], dtype=float)
    fleet = Fleet(("a", "b"), np.array([9.0, 9.0]), max_distance=np.array([20.5, 99]))
    day = Instance([0, 1, 1, 1], 1, coords=points, constraints=Constraints(fleet))
    effort = PolishSettings(iterations=1, ruins=0.0)
    found = search_limited(day, {0: [1]}, effort, Deadline.never())
    assert judge(day, Solution(found.values(), found.keys())).feasible
