"""Annealing for days with constraints: what Python calls.

The steps are those of a plain day (`annealing.py`), compiled with limits. Distances are
taken in the direction of travel, so matrices need not be symmetric.
"""

from __future__ import annotations

import math
from typing import Any

from clusterfirst.stages.compiled import kernel
from clusterfirst.stages.search.annealing import run
from clusterfirst.stages.search.limit_checks import away, measure
from clusterfirst.stages.search.limited_places import keep_changes
from clusterfirst.stages.search.linked import keep_best, route_of, touch
from clusterfirst.stages.search.ruin_recreate import recreate


@kernel
def anneal_limited(
    data: Any, limits: Any, state: Any, plan: Any, iterations: int, temperature: float
) -> None:
    """Run so many iterations at one temperature."""
    run(data, limits, state, plan, iterations, temperature)


@kernel
def measure_all(data: Any, limits: Any, tours: Any) -> None:
    """Walk along every route; what was noted along them is forgotten."""
    for r in range(len(tours.size)):
        measure(data, limits, tours, r)
        tours.noted[r] = 0


@kernel
def construct(data: Any, limits: Any, state: Any) -> None:
    """Insert everyone who is in the bank, in its order; note the cost of the whole."""
    tours, memory, ruins = state
    for r in range(len(tours.size)):
        measure(data, limits, tours, r)  # what begins on the road uses up its limits
    total = limits.banked[0]
    limits.banked[0] = 0
    for i in range(total):
        ruins.order[i] = limits.bank[i]
        ruins.absent[limits.bank[i]] = 1
    recreate(data, limits, state, total, 0.0, 0.0)
    keep_changes(data, limits, state, total)
    cost = 0.0
    for i in range(limits.banked[0]):
        cost += limits.worth[limits.bank[i]]
    for r in range(len(tours.size)):
        measure(data, limits, tours, r)
        cost += limits.length[r]
        if tours.size[r] > 0:
            cost += limits.fixed[r]
        touch(tours, memory, r)
    for c in range(1, len(data.demands)):
        if ruins.absent[c] == 0:
            cost += away(limits, c, route_of(tours, c))
    for g in range(len(limits.group_size)):
        if limits.group_in[g] < limits.group_size[g]:
            cost += limits.group_worth[g]
    memory.cost[0] = cost
    memory.cost[1] = math.inf
    keep_best(tours, memory)
