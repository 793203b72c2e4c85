"""Whole customers on vehicles, and ejection chains that remove overload.

A chain moves the same number of units from vehicle to vehicle, from an overfull one to
one with room: at each link one customer shifts, or two whose demands differ by that
number swap, so that every vehicle in between keeps its load.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import FloatArray, IntArray
from clusterfirst.stages.assignment.relaxation import (
    FINAL,
    LABELLED,
    UNREACHED,
    Transport,
    shorten,
)
from clusterfirst.stages.compiled import inner, kernel

REACH = 1000  # vehicles a search for a chain may pass, so that each one ends soon
MORE = 3  # a chain may move up to this many units more than the overload
AMOUNTS = 100  # tried for one vehicle; where units are small, each of them


class Placement(NamedTuple):
    """The problem and where each customer is placed now, for kernels."""

    cost: FloatArray  # (n, C), cheapest at the prices first
    vehicle: IntArray  # (n, C); -1 pads
    width: IntArray  # (n,) candidates of each customer
    demands: IntArray  # (n,)
    capacity: IntArray  # (K,)
    price: FloatArray  # (K,) per unit of demand
    choice: IntArray  # (n,) column chosen
    load: IntArray  # (K,)
    first: IntArray  # (K,) a customer of the vehicle, -1 if none; moves along the ring
    after: IntArray  # (n,) ring of customers on the same vehicle
    before: IntArray  # (n,)
    length: FloatArray  # (K,) labels of the present search for a chain
    state: IntArray  # (K,)
    link: IntArray  # (K, 3) vehicle before, customer from there, customer back (or -1)
    labelled: IntArray  # (K,)


def make_placement(
    net: Transport, cost: FloatArray, vehicle: IntArray, choice: IntArray
) -> Placement:
    """Return the placement with this choice of columns of `cost` and `vehicle`.

    Demands, capacities and prices are those of the relaxation.
    """
    n, k = len(net.demands), len(net.price)
    placed = Placement(
        cost=np.ascontiguousarray(cost),
        vehicle=np.ascontiguousarray(vehicle),
        width=(vehicle >= 0).sum(axis=1).astype(np.int64),
        demands=net.demands,
        capacity=net.capacity,
        price=net.price,
        choice=np.array(choice, dtype=np.int64),
        load=np.zeros(k, dtype=np.int64),
        first=np.full(k, -1, dtype=np.int64),
        after=np.zeros(n, dtype=np.int64),
        before=np.zeros(n, dtype=np.int64),
        length=np.zeros(k),
        state=np.zeros(k, dtype=np.int64),
        link=np.zeros((k, 3), dtype=np.int64),
        labelled=np.zeros(k, dtype=np.int64),
    )
    _fill(placed)
    return placed


@inner
def _join(placed: Any, i: int, j: int) -> None:
    """Put customer i into the ring of vehicle j."""
    head = placed.first[j]
    if head < 0:
        placed.first[j] = i
        placed.after[i] = i
        placed.before[i] = i
    else:
        last = placed.before[head]
        placed.after[last] = i
        placed.before[i] = last
        placed.after[i] = head
        placed.before[head] = i
    placed.load[j] += placed.demands[i]


@inner
def _leave(placed: Any, i: int, j: int) -> None:
    """Take customer i out of the ring of vehicle j."""
    a, b = placed.before[i], placed.after[i]
    placed.after[a] = b
    placed.before[b] = a
    if placed.first[j] == i:
        placed.first[j] = -1 if b == i else b
    placed.load[j] -= placed.demands[i]


@kernel
def _fill(placed: Any) -> None:
    for i in range(len(placed.demands)):
        _join(placed, i, placed.vehicle[i, placed.choice[i]])


@inner
def put(placed: Any, i: int, s: int) -> None:
    """Move customer i to the vehicle in column s."""
    _leave(placed, i, placed.vehicle[i, placed.choice[i]])
    placed.choice[i] = s
    _join(placed, i, placed.vehicle[i, s])


@inner
def column(placed: Any, i: int, j: int) -> int:
    """Column of vehicle j among the candidates of i, or -1."""
    for s in range(placed.width[i]):
        if placed.vehicle[i, s] == j:
            return s
    return -1


@inner
def _priced(placed: Any, i: int, s: int) -> float:
    """Cost of a candidate with the price of the room it takes."""
    price = placed.price[placed.vehicle[i, s]]
    return float(placed.cost[i, s] + placed.demands[i] * price)


@inner
def _partner(placed: Any, j: int, k: int, demand: int) -> tuple[int, float]:
    """The customer of this demand that goes from k to j most cheaply, or -1."""
    best, who = np.inf, -1
    head = e = placed.first[k]
    while e >= 0:
        if placed.demands[e] == demand:
            s = column(placed, e, j)
            if s >= 0:
                extra = _priced(placed, e, s) - _priced(placed, e, placed.choice[e])
                if extra < best:
                    best, who = extra, e
        e = placed.after[e]
        if e == head:
            break
    return who, best


@inner
def _extend(
    placed: Any, j: int, units: int, count: int, goal: float
) -> tuple[int, float]:
    """Label the vehicles that can take `units` from j, below `goal`.

    Returns the number of labels and the least length of a vehicle with room.
    """
    head = i = placed.first[j]
    while i >= 0:
        # The customer that left j on the way here is not there any more.
        usable = i != placed.link[j, 2] and placed.demands[i] >= units
        here = _priced(placed, i, placed.choice[i])
        for t in range(placed.width[i] if usable else 0):
            k = placed.vehicle[i, t]
            extra = _priced(placed, i, t) - here
            if placed.length[j] + extra >= goal:
                break  # candidates are sorted by this
            e = -1
            if placed.state[k] == FINAL:
                continue
            if placed.demands[i] > units:
                e, back = _partner(placed, j, k, placed.demands[i] - units)
                extra += back
            length = placed.length[j] + max(extra, 0.0)
            if length >= goal:
                continue
            count, nearer = shorten(placed, k, length, count)
            if not nearer:
                continue
            placed.link[k, 0] = j
            placed.link[k, 1] = i
            placed.link[k, 2] = e
            if placed.load[k] + units <= placed.capacity[k]:
                goal = length
        i = placed.after[i]
        if i == head:
            break
    return count, goal


@inner
def _find_chain(placed: Any, source: int, units: int, goal: float) -> tuple[int, float]:
    """Return the end of the cheapest chain shorter than `goal`, and its length.

    Lengths are at prices: what a chain costs beyond the LP.
    """
    placed.labelled[0] = source
    placed.state[source] = LABELLED
    placed.length[source] = 0.0
    placed.link[source, 2] = -1
    count, found = 1, -1
    for _ in range(REACH):
        low = -1
        for at in range(count):
            k = placed.labelled[at]
            if placed.state[k] == LABELLED and (
                low < 0 or placed.length[k] < placed.length[low]
            ):
                low = k
        if low < 0:
            break
        if low != source and placed.load[low] + units <= placed.capacity[low]:
            found = low
            break
        placed.state[low] = FINAL
        count, goal = _extend(placed, low, units, count, goal)
    for at in range(count):
        placed.state[placed.labelled[at]] = UNREACHED
    return found, placed.length[found] if found >= 0 else np.inf


@inner
def _apply_chain(placed: Any, source: int, target: int) -> None:
    k = target
    while k != source:
        j, i, e = placed.link[k, 0], placed.link[k, 1], placed.link[k, 2]
        put(placed, i, column(placed, i, k))
        if e >= 0:
            put(placed, e, column(placed, e, j))
        k = j


@inner
def _amounts(
    placed: Any, source: int, largest: int, units: IntArray, far: FloatArray
) -> int:
    """Fill in the `units` that chains from here may move; return how many.

    Demands in grams make a chain for every gram impossible. A chain moves a customer,
    or the difference to one that comes back: of those the nearest to the overload.
    """
    excess = placed.load[source] - placed.capacity[source]
    most = min(excess + MORE, largest) if excess > 0 else 0
    if most <= len(units):
        for at in range(most):
            units[at] = at + 1
        return most
    count = 0
    head = i = placed.first[source]
    while i >= 0:
        for e in range(-1, len(placed.demands)):
            some = placed.demands[i] - (placed.demands[e] if e >= 0 else 0)
            off = float(some - excess)
            off = off if off >= 0 else -2 * off  # too little needs another chain
            known, worst = some <= 0, 0
            for at in range(count):
                known = known or units[at] == some
                worst = at if far[at] > far[worst] else worst
            if known or (count == len(units) and off >= far[worst]):
                continue
            if count < len(units):
                worst, count = count, count + 1
            units[worst], far[worst] = some, off
        i = placed.after[i]
        if i == head:
            break
    return count


@kernel
def _relieve(
    placed: Any, start: int, largest: int, amounts: IntArray, far: FloatArray
) -> int:
    """Apply one chain from the first of vehicles start, start + 1, ... that has one.

    A chain takes at least one unit off its vehicle and puts no other one over.
    Returns the vehicle to go on with; one that no chain can help is passed over.
    """
    for source in range(start, len(placed.load)):
        excess = placed.load[source] - placed.capacity[source]
        best, amount = np.inf, 0
        for at in range(_amounts(placed, source, largest, amounts, far)):
            units = amounts[at]
            useful = min(units, excess)
            found, length = _find_chain(placed, source, units, best * useful)
            if found >= 0:
                best, amount = length / useful, units
        if amount > 0:
            target, _ = _find_chain(placed, source, amount, np.inf)
            _apply_chain(placed, source, target)
            return source
    return len(placed.load)


def relieve(placed: Placement, deadline: Deadline) -> int:
    """Remove overload chain by chain; return how many units are left over.

    Each turn takes a unit off or goes on to the next vehicle, so it ends.
    """
    source, largest = 0, int(placed.demands.max())
    amounts, far = np.zeros(AMOUNTS, dtype=np.int64), np.zeros(AMOUNTS)
    while source < len(placed.load) and not deadline.passed():
        source = _relieve(placed, source, largest, amounts, far)
    return int(np.maximum(placed.load - placed.capacity, 0).sum())
