"""A good feasible assignment at once: prices, then shifts and swaps.

The exact solver starts from this answer, and this answer is what remains when time
or the solver fails. Vehicles that attract too much demand get a price per unit
(subgradient steps on the capacity rows, i.e. the Lagrangian form of the transport
LP); what is still overloaded is repaired by moving and exchanging customers under a
growing penalty. Everything is integer in the loads and repeatable.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import FloatArray, IntArray

# labels, their columns, loads, and the customers of each vehicle as linked lists
State = tuple[IntArray, IntArray, IntArray, IntArray, IntArray, IntArray]
# when each vehicle changed, when each customer was looked at, and the clock (1,)
Marks = tuple[IntArray, IntArray, IntArray]

# costs, candidates, demands, room
Data = tuple[FloatArray, IntArray, IntArray, IntArray]

FEW = (24, 200)  # cheapest vehicles per customer that are looked at; then more
FIRST_PENALTY = 0.3  # in (range of the costs) / (mean demand) per unit of overload
PRICE_ROUNDS = 60
PENALTY_ROUNDS = 14
SWEEPS = 8  # passes over all customers at one penalty
CHUNK = 200_000  # candidate pairs looked at between two looks at the clock


def shift_and_swap(
    cost: FloatArray,
    candidates: IntArray,
    demands: IntArray,
    room: IntArray,
    deadline: Deadline,
) -> IntArray | None:
    """Labels (n,) within `room` (K,) at low cost, or None when not found.

    `cost` and `candidates` are (n, C); candidates -1 are holes. Customers without
    any candidate make it None at once. Only the FEW cheapest vehicles of each
    customer are looked at, more of them if that fails: nearly always enough, and
    much faster than all.
    """
    if not len(demands):
        return np.zeros(0, dtype=np.int64)
    if not (candidates >= 0).any(axis=1).all():
        return None
    for few in FEW:
        data = (*_cheapest(cost, candidates, few), demands, room)
        labels = _searched(data, deadline)
        if labels is not None or few >= cost.shape[1] or deadline.passed():
            return labels
    return None


def _cheapest(
    cost: FloatArray, candidates: IntArray, few: int
) -> tuple[FloatArray, IntArray]:
    """The few cheapest candidates of each customer, vehicles ascending."""
    if few >= cost.shape[1]:
        return np.ascontiguousarray(cost), np.ascontiguousarray(candidates)
    known = np.where(candidates >= 0, cost, np.inf)
    cheap = np.sort(np.argpartition(known, few, axis=1)[:, :few], axis=1)
    return (
        np.take_along_axis(cost, cheap, axis=1),
        np.take_along_axis(candidates, cheap, axis=1),
    )


def _searched(data: Data, deadline: Deadline) -> IntArray | None:
    """Prices, then passes of shifts and swaps under a growing penalty."""
    cost, candidates, demands, room = data
    n, width = cost.shape
    labels, slots = by_prices(data, deadline)
    loads = np.bincount(labels, demands, len(room)).astype(np.int64)
    state = (labels, slots, loads, *_chains(labels, len(room)))
    known = np.where(candidates >= 0, cost, np.inf)
    lowest = known.min(axis=1)
    spread = float(known[np.isfinite(known)].max() - lowest.min()) + 1e-12
    penalty = FIRST_PENALTY * spread / max(float(demands.mean()), 1e-12)
    step = max(1, CHUNK // (width * 16))
    marks = (np.ones(len(room), np.int64), np.zeros(n, np.int64), np.ones(1, np.int64))
    for _ in range(PENALTY_ROUNDS):
        for _ in range(SWEEPS):
            moved = 0
            for start in range(0, n, step):
                if deadline.passed():
                    break
                span = (start, min(start + step, n))
                moved += _improve(span, (*data, lowest), state, marks, penalty)
            if not moved:
                break
        if (loads <= room).all() or deadline.passed():
            break
        penalty *= 2.0
        marks[2][0] += 1
        marks[0][loads > room] = marks[2][0]  # look at overloaded vehicles anew
    return labels if (loads <= room).all() else None


def by_prices(data: Data, deadline: Deadline) -> tuple[IntArray, IntArray]:
    """Cheapest vehicle of each customer under capacity prices; and its column."""
    _, _, demands, room = data
    prices = np.zeros(len(room))
    scale = _usual_regret(data)
    best, least = (np.zeros(0, np.int64), np.zeros(0, np.int64)), -1
    for t in range(PRICE_ROUNDS):
        labels, slots = _cheapest_priced(data, prices)
        over = np.bincount(labels, demands, len(room)) - room
        excess = int(np.maximum(over, 0).sum())
        if least < 0 or excess < least:
            best, least = (labels, slots), excess
        if excess == 0 or deadline.passed():
            break
        step = 2.0 * scale / (1.0 + 0.1 * t)
        prices = np.maximum(0.0, prices + step * over / np.maximum(room, 1))
    return best


@njit(cache=True)
def _usual_regret(data: Data) -> float:
    """Mean cost of the second-best vehicle over the best, per unit of demand."""
    cost, candidates, demands, _ = data
    n, width = cost.shape
    total, scale = 0.0, 0.0
    for i in range(n):
        total += demands[i]
        low, second = np.inf, np.inf
        for s in range(width):
            if candidates[i, s] >= 0:
                c = cost[i, s]
                if c < low:
                    low, second = c, low
                elif c < second:
                    second = c
        if second < np.inf:
            scale += second - low
    return float(scale / max(total, 1.0))


@njit(cache=True)
def _cheapest_priced(data: Data, prices: FloatArray) -> tuple[IntArray, IntArray]:
    """Vehicle and column of least cost plus price times demand, per customer."""
    cost, candidates, demands, _ = data
    n, width = cost.shape
    labels, slots = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for i in range(n):
        low = np.inf
        for s in range(width):
            j = candidates[i, s]
            if j >= 0 and cost[i, s] + prices[j] * demands[i] < low:
                low = cost[i, s] + prices[j] * demands[i]
                labels[i], slots[i] = j, s
    return labels, slots


@njit(cache=True)
def _chains(labels: IntArray, vehicles: int) -> tuple[IntArray, IntArray, IntArray]:
    """Customers of each vehicle as doubly linked lists: first, after, before."""
    first = np.full(vehicles, -1)
    after, before = np.full(len(labels), -1), np.full(len(labels), -1)
    for i in range(len(labels) - 1, -1, -1):
        j = labels[i]
        after[i] = first[j]
        if first[j] >= 0:
            before[first[j]] = i
        first[j] = i
    return first, after, before


@njit(cache=True)
def _move(i: int, to: int, slot: int, demands: IntArray, state: State) -> None:
    labels, slots, loads, first, after, before = state
    old = labels[i]
    if before[i] >= 0:
        after[before[i]] = after[i]
    else:
        first[old] = after[i]
    if after[i] >= 0:
        before[after[i]] = before[i]
    before[i], after[i] = -1, first[to]
    if first[to] >= 0:
        before[first[to]] = i
    first[to] = i
    loads[old] -= demands[i]
    loads[to] += demands[i]
    labels[i], slots[i] = to, slot


@njit(cache=True)
def _slot_of(vehicle: int, row: IntArray) -> int:
    """Column of a vehicle in a candidate row, -1 if absent."""
    if vehicle < len(row) and row[vehicle] == vehicle:
        return vehicle  # dense rows need no search
    for s in range(len(row)):
        if row[s] == vehicle:
            return s
    return -1


@njit(cache=True)
def _improve(
    span: tuple[int, int],
    data: tuple[FloatArray, IntArray, IntArray, IntArray, FloatArray],
    state: State,
    marks: Marks,
    penalty: float,
) -> int:
    """Give each customer in `span` its best shift or swap; return how many moved.

    Customers none of whose vehicles changed since they were looked at are passed
    over. The last of `data` is each customer's lowest cost.
    """
    cost, candidates, demands, room, lowest = data
    labels, slots, loads, first, after, _ = state
    changed, looked, clock = marks
    moved = 0
    for i in range(span[0], span[1]):
        here, d = labels[i], demands[i]
        newest = changed[here]
        for s in range(candidates.shape[1]):
            if candidates[i, s] >= 0:
                newest = max(newest, changed[candidates[i, s]])
        if newest <= looked[i]:
            continue
        looked[i] = clock[0]
        over_here = loads[here] - room[here]
        best, best_slot, best_other, other_slot = -1e-9, -1, -1, -1
        for s in range(candidates.shape[1]):
            there = candidates[i, s]
            if there < 0 or there == here:
                continue
            over_there = loads[there] - room[there]
            now = max(0, over_here) + max(0, over_there)
            change = cost[i, s] - cost[i, slots[i]]
            then = max(0, over_here - d) + max(0, over_there + d)
            gain = change + penalty * (then - now)
            if gain < best:
                best, best_slot, best_other = gain, s, -1
            k = first[there]
            while k >= 0:
                e = demands[k]
                then = max(0, over_here - d + e) + max(0, over_there + d - e)
                partial = change + penalty * (then - now) - cost[k, slots[k]]
                if partial + lowest[k] < best:
                    back = _slot_of(here, candidates[k])
                    if back >= 0 and partial + cost[k, back] < best:
                        best = partial + cost[k, back]
                        best_slot, best_other, other_slot = s, k, back
                k = after[k]
        if best_slot >= 0:
            if best_other >= 0:
                _move(best_other, here, other_slot, demands, state)
            clock[0] += 1
            changed[here] = changed[candidates[i, best_slot]] = clock[0]
            _move(i, candidates[i, best_slot], best_slot, demands, state)
            moved += 1
    return moved


def is_within(labels: IntArray, demands: IntArray, room: IntArray) -> bool:
    """Whether labels name a vehicle for everybody and no room is exceeded."""
    if len(labels) and (labels.min() < 0 or labels.max() >= len(room)):
        return False
    loads: npt.NDArray[np.int64] = np.zeros(len(room), dtype=np.int64)
    np.add.at(loads, labels, demands)
    return bool((loads <= room).all())
