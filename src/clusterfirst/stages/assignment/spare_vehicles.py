"""Fewer vehicles than seeds: closing those that the others can spare.

Exactly as many seeds as a full fleet needs are not exactly where they are needed: on a
map of 10,000 customers one quarter has two too few, another two too many, and nobody
reaches that far. With some seeds to spare there is an assignment. Of its vehicles the
emptiest are closed, one by one, while their neighbours can take what they carry. Flow
of single units decides, as in the LP relaxation; whole customers come after.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import IntArray
from clusterfirst.stages.assignment.problem import AssignProblem
from clusterfirst.stages.assignment.relaxation import (
    LABELLED,
    SOLVED,
    UNREACHED,
    Transport,
    cheapest_first,
    make_transport,
    move,
    push,
    solve_transport,
    step_of_prices,
)
from clusterfirst.stages.compiled import kernel

# Where more are needed the neighbours are full, and whole customers would not fit.
PUSHES = 2000  # that the load of one vehicle may take
FAILURES = 30  # vehicles that cannot be closed before no other is tried


def open_vehicles(
    problem: AssignProblem, fleet: int, limit: int, deadline: Deadline
) -> IntArray:
    """Vehicles to keep, ascending: `fleet` of them, or more where none can be spared.

    Never more than `limit`: then the emptiest go although nobody has room for them.
    """
    cost, vehicle = cheapest_first(problem.cost, problem.vehicle_of_cost)
    # Grams and kilograms are to close the same vehicles, last bits included.
    unit = max(1, int(np.gcd.reduce(problem.demands)))
    net = make_transport(cost, vehicle, problem.demands // unit, problem.room // unit)
    usable = np.ones(problem.vehicles, dtype=bool)
    if solve_transport(net, deadline) == SOLVED:
        _close(net, usable, fleet, deadline)
        # Customers without demand have no flow that would keep a vehicle open.
        lost = ~np.where(vehicle < 0, False, usable[vehicle]).any(axis=1)
        usable[vehicle[lost, 0]] = True
    fullest = np.argsort(np.where(usable, -net.load, 1), kind="stable")
    return np.sort(fullest[: min(int(usable.sum()), limit)])


def only_open(problem: AssignProblem, kept: IntArray) -> AssignProblem:
    """The problem on these vehicles, numbered anew."""
    number = np.full(problem.vehicles + 1, -1, dtype=np.int64)  # the last one for -1
    number[kept] = np.arange(len(kept))
    candidates = number[problem.vehicle_of_cost]
    cost = np.where(candidates < 0, np.inf, problem.cost)
    room = problem.room[kept]
    return AssignProblem(cost, problem.demands, room, len(kept), candidates)


def _close(net: Transport, usable: Any, fleet: int, deadline: Deadline) -> None:
    """Close the emptiest vehicles in `net` and in `usable` until `fleet` are left.

    Each turn closes a vehicle or finds one needed, so there are at most K.
    """
    epsilon = step_of_prices(net)
    queue, ends = np.zeros(len(net.load) + 1, dtype=np.int64), np.zeros(2, np.int64)
    needed = np.zeros(len(net.load), dtype=bool)
    changing = (net.first, net.after, net.before, net.flow, net.load, net.price)
    while usable.sum() > fleet and needed.sum() < FAILURES and not deadline.passed():
        choice = usable & ~needed
        if not choice.any():
            break
        emptiest = int(np.where(choice, net.load, net.load.max() + 1).argmin())
        before = [values.copy() for values in changing]
        done = _emptied(net, emptiest, (queue, ends), epsilon, PUSHES)
        if done and (net.load <= net.capacity).all():
            usable[emptiest] = False
            continue
        needed[emptiest] = True
        for values, saved in zip(changing, before, strict=True):
            values[:] = saved
        net.state[:] = UNREACHED


@kernel
def _emptied(net: Any, j: int, line: Any, epsilon: float, pushes: int) -> bool:
    """Move all flow away from vehicle j and close it; whether so many pushes did."""
    columns = net.cost.shape[1]
    queue, ends = line
    net.price[j] = np.inf  # nothing is pushed there
    ends[0], ends[1] = 0, 0
    while net.first[j] >= 0:
        entry = net.first[j]
        i = entry // columns
        cheapest, to = np.inf, -1
        for t in range(columns):
            k = net.vehicle[i, t]
            if k < 0:
                break
            paid = net.cost[i, t] + net.price[k]
            if paid < cheapest:
                cheapest, to = paid, t
        if to < 0:
            return False
        k = move(net, entry, to, net.flow[entry])
        if net.load[k] > net.capacity[k] and net.state[k] == UNREACHED:
            net.state[k] = LABELLED
            queue[ends[1]] = k
            ends[1] += 1
    return bool(push(net, queue, ends, epsilon, pushes) > 0)
