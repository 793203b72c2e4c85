"""A day whose drivers stay in the areas they know, as far as that costs little.

First the day is planned freely. Its routes go to the drivers who know most of their
stops, and the search with limits goes on from there with a price for every stop in
another driver's area. What familiarity costs is the difference to the free plan.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from clusterfirst.cities.areas import familiarity, members, usual_drivers
from clusterfirst.problem.constraints import Constraints
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.fleet import Fleet
from clusterfirst.problem.instance import Instance, IntArray
from clusterfirst.problem.solution import Solution
from clusterfirst.solving.first_method import default_time_limit
from clusterfirst.solving.keeping import Kept
from clusterfirst.solving.limited import Wishes, solve_limited
from clusterfirst.solving.options import SolveOptions
from clusterfirst.solving.result import Result
from clusterfirst.solving.solver import solve
from clusterfirst.stages.routes import Routes

FREE_SHARE = 0.4  # of the time, for the free plan
MOST_WEIGHT = 1000.0


@dataclass(frozen=True, eq=False)
class Familiar:
    """The usual areas of a day's customers, and how much they count.

    `weight` is the price of a stop in another driver's area, in units of the mean way
    per stop of the free plan: 0.5 says that two stops at home are worth one more.
    """

    area: IntArray  # (n + 1,) as `Areas.of_day` gives them
    weight: float

    def __post_init__(self) -> None:
        if not 0 <= self.weight <= MOST_WEIGHT:
            rule = f"a number from 0 to {MOST_WEIGHT:g} is needed"
            raise InputError(Problem("E404", "--familiar", str(self.weight), rule))

    @property
    def drivers(self) -> int:
        """Number of areas."""
        return int(self.area.max(initial=-1)) + 1


def solve_familiar(
    instance: Instance,
    familiar: Familiar,
    options: SolveOptions | None = None,
    on_improvement: Callable[[float, Routes], None] | None = None,
) -> Result:
    """Plan a day with familiar routes; vehicle k drives in area k.

    The notes say how many stops are in their driver's usual area, and at what price;
    so does `details["familiar"]`.
    """
    options = options or SolveOptions()
    began = time.perf_counter()
    limit = options.time_limit
    if limit is None and options.iterations is None:
        limit = default_time_limit(instance.num_customers)
    share = None if limit is None else FREE_SHARE * limit
    free = solve(instance, replace(options, time_limit=share))
    startup = free.startup
    day = _with_drivers(instance, familiar.drivers)
    start = _driven(instance, day, free.solution, familiar)
    if not instance.num_customers:
        return free
    price = familiar.weight * free.verdict.cost / instance.num_customers
    usual = members(familiar.area)
    homes = [k for k, customers in enumerate(usual) if customers]
    plan = Solution([usual[k] for k in homes], homes)
    left = None
    if limit is not None:
        left = max(0.0, limit - (time.perf_counter() - began - startup))
    if free.interrupted:
        left = 0.0
    result = solve_limited(
        day,
        replace(options, time_limit=left),
        Wishes(keep=Kept(plan, price, start=start)),
        on_improvement,
    )
    return _told(result, free, start, familiar)


def _with_drivers(instance: Instance, drivers: int) -> Instance:
    """The day with a vehicle for each area, and others if it has more."""
    if instance.constraints is not None:
        size = instance.constraints.fleet.size
    elif instance.vehicles is not None:
        size = instance.vehicles
    else:
        size = drivers + instance.num_customers
    if size < drivers:
        rule = f"the territories are of {drivers} vehicles"
        hint = f"`clusterfirst territories CITY --vehicles {size}` finds others"
        raise InputError(Problem("E415", "vehicles", str(size), rule, hint))
    if instance.constraints is not None:
        return instance
    names = [f"area {k + 1}" for k in range(drivers)]
    counts = [1] * drivers
    if size > drivers:
        names.append("other")
        counts.append(size - drivers)
    capacities = np.full(len(names), float(instance.capacity))
    fleet = Fleet(tuple(names), capacities, np.array(counts))
    return instance.replace(constraints=Constraints(fleet), vehicles=None)


def _driven(
    given: Instance, day: Instance, free: Solution, familiar: Familiar
) -> Solution:
    """The free plan with drivers: vehicles that are alike change places."""
    if given.constraints is not None:
        return free
    drivers = usual_drivers(free.routes, familiar.area).tolist()
    spare = (k for k in range(len(drivers) + familiar.drivers) if k not in drivers)
    return Solution(free.routes, [k if k >= 0 else next(spare) for k in drivers])


def _told(result: Result, free: Result, start: Solution, familiar: Familiar) -> Result:
    """The answer with what is familiar in it, and what that cost."""

    def share(plan: Solution) -> float:
        drives = plan.vehicles or range(len(plan.routes))
        return familiarity(plan.routes, familiar.area, list(drives))

    now, before = share(result.solution), share(start)
    cost, other = result.verdict.cost, free.verdict.cost
    more = cost / other - 1 if other else 0.0
    unit = f" {result.instance.unit}" if result.instance.unit else ""
    facts = {
        "weight": familiar.weight,
        "familiarity": now,
        "familiarity_of_the_free_plan": before,
        "cost_of_the_free_plan": other,
        "longer": more,
    }
    note = (
        f"familiar: {now:.0%} of the stops are in their driver's usual area (free plan "
        f"{before:.0%}); {cost - other:+.5g}{unit} of length ({more:+.1%}) for it"
    )
    return replace(
        result,
        notes=[*result.notes, note],
        details=result.details | {"familiar": facts},
        seconds={**{f"free {k}": v for k, v in free.seconds.items()}, **result.seconds},
        startup=free.startup + result.startup,
        interrupted=free.interrupted or result.interrupted,
    )
