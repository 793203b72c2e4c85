"""The LP relaxation of the capacitated assignment, exactly, and its prices.

In units of demand the relaxation is a transportation problem with cost Delta_ij / q_i
per unit, whose dual has one price per vehicle. Successive shortest paths between
vehicles solve it: every customer starts on its cheapest vehicle; units of an overfull
vehicle move along the cheapest chain of customers to the nearest one with room, and
prices rise so that reduced costs stay >= 0. Vehicles with room keep price 0, which is
complementary slackness: the result is the optimum, up to float rounding.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clusterfirst.clock import Deadline
from clusterfirst.compiled import kernel
from clusterfirst.instance import FloatArray, IntArray

UNREACHED, LABELLED, FINAL = 0, 1, 2
SOLVED, IMPOSSIBLE, UNFINISHED = 0, 1, 2
CHAINS = 50  # between two looks at the clock


class Transport(NamedTuple):
    """A transportation problem and its flow, for kernels."""

    cost: FloatArray  # (n, C) per unit of demand, cheapest first
    vehicle: IntArray  # (n, C); -1 pads
    demands: IntArray  # (n,)
    capacity: int
    first: IntArray  # (K,) an entry i * C + s with flow on this vehicle, or -1
    after: IntArray  # (n C,) list of the entries with flow on the same vehicle
    before: IntArray  # (n C,)
    flow: IntArray  # (n C,) units
    load: IntArray  # (K,)
    price: FloatArray  # (K,) per unit of demand
    length: FloatArray  # (K,) labels of the present search
    state: IntArray  # (K,)
    parent: IntArray  # (K, 2) vehicle before, and customer that moves from there
    labelled: IntArray  # (K,) vehicles with a label, in order of appearance


def cheapest_first(cost: FloatArray, vehicle: IntArray) -> tuple[FloatArray, IntArray]:
    """Sort the candidates of each customer by cost, padding last."""
    order = np.argsort(np.where(vehicle < 0, np.inf, cost), axis=1, kind="stable")
    return np.take_along_axis(cost, order, 1), np.take_along_axis(vehicle, order, 1)


def make_transport(
    cost: FloatArray, vehicle: IntArray, demands: IntArray, limits: tuple[int, int]
) -> Transport:
    """Return the problem with all flow still to be sent; `limits` is (capacity, K).

    Rows must come from `cheapest_first`: the search stops at the first candidate
    that is too dear.
    """
    capacity, vehicles = limits
    return Transport(
        cost=np.ascontiguousarray(cost / np.maximum(demands, 1)[:, None]),
        vehicle=np.ascontiguousarray(vehicle, dtype=np.int64),
        demands=np.array(demands, dtype=np.int64),
        capacity=int(capacity),
        first=np.full(vehicles, -1, dtype=np.int64),
        after=np.zeros(cost.size, dtype=np.int64),
        before=np.zeros(cost.size, dtype=np.int64),
        flow=np.zeros(cost.size, dtype=np.int64),
        load=np.zeros(vehicles, dtype=np.int64),
        price=np.zeros(vehicles),
        length=np.zeros(vehicles),
        state=np.zeros(vehicles, dtype=np.int64),
        parent=np.zeros((vehicles, 2), dtype=np.int64),
        labelled=np.zeros(vehicles, dtype=np.int64),
    )


@kernel
def _send(net: Any, i: int, s: int, units: int) -> None:
    """Add units (or take them away) on one entry and keep its vehicle's list."""
    entry, j = i * net.cost.shape[1] + s, net.vehicle[i, s]
    had = net.flow[entry] > 0
    net.flow[entry] += units
    if not had and net.flow[entry] > 0:
        head = net.first[j]
        net.after[entry] = head
        net.before[entry] = -1
        if head >= 0:
            net.before[head] = entry
        net.first[j] = entry
    elif had and net.flow[entry] == 0:
        a, b = net.before[entry], net.after[entry]
        if a >= 0:
            net.after[a] = b
        else:
            net.first[j] = b
        if b >= 0:
            net.before[b] = a


@kernel
def _start(net: Any) -> None:
    """Send every customer to its cheapest vehicle."""
    for i in range(len(net.demands)):
        _send(net, i, 0, net.demands[i])
        net.load[net.vehicle[i, 0]] += net.demands[i]


@kernel
def _relax(net: Any, j: int, count: int, goal: float) -> tuple[int, float]:
    """Label the vehicles that customers on j could move to, below `goal`.

    Returns the number of labels and the least length of a vehicle with room.
    """
    columns = net.cost.shape[1]
    entry = net.first[j]
    while entry >= 0:
        i = entry // columns
        base = net.length[j] - net.cost[i, entry % columns] - net.price[j]
        for t in range(columns):
            k = net.vehicle[i, t]
            # Prices are >= 0 and costs sorted: nothing behind this is nearer.
            if k < 0 or base + net.cost[i, t] >= goal:
                break
            length = base + net.cost[i, t] + net.price[k]
            if net.state[k] == FINAL or length >= goal:
                continue
            if net.state[k] == UNREACHED:
                net.state[k] = LABELLED
                net.labelled[count] = k
                count += 1
            elif length >= net.length[k]:
                continue
            net.length[k] = length
            net.parent[k, 0] = j
            net.parent[k, 1] = i
            if net.load[k] < net.capacity:
                goal = length
        entry = net.after[entry]
    return count, goal


@kernel
def _nearest_room(net: Any, source: int) -> int:
    """Search from an overfull vehicle to one with room; raise prices; -1 if none."""
    net.labelled[0] = source
    net.state[source] = LABELLED
    net.length[source] = 0.0
    net.parent[source, 0] = -1
    count, final, found, goal = 1, 0, -1, np.inf
    while final < count:
        at = final  # final vehicles come first in the list
        for other in range(final + 1, count):
            if net.length[net.labelled[other]] < net.length[net.labelled[at]]:
                at = other
        low = net.labelled[at]
        if net.load[low] < net.capacity:
            found = low
            break
        net.labelled[at] = net.labelled[final]
        net.labelled[final] = low
        final += 1
        net.state[low] = FINAL
        count, goal = _relax(net, low, count, goal)
    for at in range(count):
        k = net.labelled[at]
        if found >= 0 and at < final:
            net.price[k] += net.length[found] - net.length[k]
        net.state[k] = UNREACHED
    return found


@kernel
def _column(net: Any, i: int, j: int) -> int:
    for s in range(net.cost.shape[1]):
        if net.vehicle[i, s] == j:
            return s
    return -1


@kernel
def _augment(net: Any, source: int, target: int) -> None:
    """Move as many units as the chain from source to target allows."""
    columns = net.cost.shape[1]
    units = min(net.load[source] - net.capacity, net.capacity - net.load[target])
    k = target
    while k != source:
        j, i = net.parent[k, 0], net.parent[k, 1]
        units = min(units, net.flow[i * columns + _column(net, i, j)])
        k = j
    k = target
    while k != source:
        j, i = net.parent[k, 0], net.parent[k, 1]
        _send(net, i, _column(net, i, j), -units)
        _send(net, i, _column(net, i, k), units)
        k = j
    net.load[source] -= units
    net.load[target] += units


@kernel
def _improve(net: Any, chains: int) -> int:
    """Send excess along up to so many chains; see `solve_transport`."""
    for source in range(len(net.load)):
        while net.load[source] > net.capacity:
            if chains == 0:
                return UNFINISHED
            target = _nearest_room(net, source)
            if target < 0:
                return IMPOSSIBLE
            _augment(net, source, target)
            chains -= 1
    return SOLVED


def solve_transport(net: Transport, deadline: Deadline) -> int:
    """Send all flow at least cost.

    Returns SOLVED, IMPOSSIBLE (the candidate lists cannot hold the demand), or
    UNFINISHED when the deadline passed: the prices are still valid, and low.
    """
    _start(net)
    state = UNFINISHED
    while state == UNFINISHED and not deadline.passed():
        state = _improve(net, CHAINS)
    return state


def priced(net: Transport, cost: FloatArray) -> FloatArray:
    """(n, C) cost of each candidate with the price of the room it takes."""
    price = net.price[np.maximum(net.vehicle, 0)]
    return np.where(net.vehicle < 0, np.inf, cost + net.demands[:, None] * price)


def lower_bound(net: Transport, cost: FloatArray) -> float:
    """What the prices prove: no assignment on these candidates is cheaper."""
    cheapest = priced(net, cost).min(axis=1)
    return float(cheapest.sum() - net.capacity * net.price.sum())
