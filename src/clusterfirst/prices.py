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

from clusterfirst.compiled import kernel
from clusterfirst.instance import FloatArray, IntArray

UNREACHED, LABELLED, FINAL = 0, 1, 2


class Transport(NamedTuple):
    """A transportation problem and its flow, for kernels."""

    cost: FloatArray  # (n, C) per unit of demand
    vehicle: IntArray  # (n, C); -1 pads
    demands: IntArray  # (n,)
    capacity: int
    start: IntArray  # (K + 1,) where each vehicle's entries start in `entry`
    entry: IntArray  # (n C,) i * C + s of every candidate, by vehicle
    flow: IntArray  # (n, C) units
    load: IntArray  # (K,)
    price: FloatArray  # (K,) per unit of demand
    length: FloatArray  # (K,) labels of the present search
    state: IntArray  # (K,)
    parent: IntArray  # (K, 2) vehicle before, and customer that moves from there
    labelled: IntArray  # (K,) vehicles with a label, in order of appearance


def make_transport(
    cost: FloatArray, vehicle: IntArray, demands: IntArray, limits: tuple[int, int]
) -> Transport:
    """Return the problem with all flow still to be sent; `limits` is (capacity, K)."""
    capacity, vehicles = limits
    flat = vehicle.ravel()
    order = np.argsort(flat, kind="stable")
    order = order[np.searchsorted(flat[order], 0) :]
    start = np.searchsorted(flat[order], np.arange(vehicles + 1))
    return Transport(
        cost=np.ascontiguousarray(cost / np.maximum(demands, 1)[:, None]),
        vehicle=np.ascontiguousarray(vehicle, dtype=np.int64),
        demands=np.array(demands, dtype=np.int64),
        capacity=int(capacity),
        start=start.astype(np.int64),
        entry=order.astype(np.int64),
        flow=np.zeros(cost.shape, dtype=np.int64),
        load=np.zeros(vehicles, dtype=np.int64),
        price=np.zeros(vehicles),
        length=np.zeros(vehicles),
        state=np.zeros(vehicles, dtype=np.int64),
        parent=np.zeros((vehicles, 2), dtype=np.int64),
        labelled=np.zeros(vehicles, dtype=np.int64),
    )


@kernel
def _start(net: Any) -> None:
    """Send every customer to its cheapest vehicle."""
    for i in range(len(net.demands)):
        best = -1
        for s in range(net.cost.shape[1]):
            if net.vehicle[i, s] >= 0 and (
                best < 0 or net.cost[i, s] < net.cost[i, best]
            ):
                best = s
        net.flow[i, best] = net.demands[i]
        net.load[net.vehicle[i, best]] += net.demands[i]


@kernel
def _relax(net: Any, j: int, count: int) -> int:
    """Label the vehicles that customers on j could move to; return the new count."""
    columns = net.cost.shape[1]
    for at in range(net.start[j], net.start[j + 1]):
        i, s = net.entry[at] // columns, net.entry[at] % columns
        if net.flow[i, s] == 0:
            continue
        base = net.length[j] - net.cost[i, s] - net.price[j]
        for t in range(columns):
            k = net.vehicle[i, t]
            if k < 0 or net.state[k] == FINAL:
                continue
            length = base + net.cost[i, t] + net.price[k]
            if net.state[k] == UNREACHED:
                net.state[k] = LABELLED
                net.labelled[count] = k
                count += 1
            elif length >= net.length[k]:
                continue
            net.length[k] = length
            net.parent[k, 0] = j
            net.parent[k, 1] = i
    return count


@kernel
def _nearest_room(net: Any, source: int) -> int:
    """Search from an overfull vehicle to one with room; raise prices; -1 if none."""
    net.labelled[0] = source
    net.state[source] = LABELLED
    net.length[source] = 0.0
    net.parent[source, 0] = -1
    count, found = 1, -1
    while True:
        low = -1
        for at in range(count):
            k = net.labelled[at]
            if net.state[k] == LABELLED and (
                low < 0 or net.length[k] < net.length[low]
            ):
                low = k
        if low < 0:
            break
        if net.load[low] < net.capacity:
            found = low
            break
        net.state[low] = FINAL
        count = _relax(net, low, count)
    for at in range(count):
        k = net.labelled[at]
        if found >= 0 and net.state[k] == FINAL:
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
    units = min(net.load[source] - net.capacity, net.capacity - net.load[target])
    k = target
    while k != source:
        j, i = net.parent[k]
        units = min(units, net.flow[i, _column(net, i, j)])
        k = j
    k = target
    while k != source:
        j, i = net.parent[k]
        net.flow[i, _column(net, i, j)] -= units
        net.flow[i, _column(net, i, k)] += units
        k = j
    net.load[source] -= units
    net.load[target] += units


@kernel
def solve_transport(net: Any) -> int:
    """Send all flow at least cost; return -1, or a vehicle that stays overfull."""
    _start(net)
    for source in range(len(net.load)):
        while net.load[source] > net.capacity:
            target = _nearest_room(net, source)
            if target < 0:
                return source
            _augment(net, source, target)
    return -1


def priced(net: Transport, cost: FloatArray) -> FloatArray:
    """(n, C) cost of each candidate with the price of the room it takes."""
    price = net.price[np.maximum(net.vehicle, 0)]
    return np.where(net.vehicle < 0, np.inf, cost + net.demands[:, None] * price)


def lower_bound(net: Transport, cost: FloatArray) -> float:
    """What the prices prove: no assignment on these candidates is cheaper."""
    cheapest = priced(net, cost).min(axis=1)
    return float(cheapest.sum() - net.capacity * net.price.sum())
