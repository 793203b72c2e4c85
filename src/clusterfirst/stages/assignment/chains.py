"""Whole customers on vehicles: the board, and chains that remove overload.

A chain moves the same number of units from vehicle to vehicle, from an overfull one to
one with room: at each link one customer shifts, or two whose demands differ by that
number swap, so that every vehicle in between keeps its load.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import FloatArray, IntArray
from clusterfirst.stages.compiled import kernel

UNREACHED, LABELLED, FINAL = 0, 1, 2
CHAINS = 1  # between two looks at the clock
REACH = 1000  # vehicles a search for a chain may pass, so that each one ends soon
MORE = 3  # a chain may move up to this many units more than the overload


class Board(NamedTuple):
    """The problem and the present choice, for kernels."""

    cost: FloatArray  # (n, C), cheapest at the prices first
    vehicle: IntArray  # (n, C); -1 pads
    width: IntArray  # (n,) candidates of each customer
    demands: IntArray  # (n,)
    capacity: int
    price: FloatArray  # (K,) per unit of demand
    choice: IntArray  # (n,) column chosen
    best: IntArray  # (n,) the best feasible choice so far
    load: IntArray  # (K,)
    first: IntArray  # (K,) a customer of the vehicle, -1 if none; moves along the ring
    after: IntArray  # (n,) ring of customers on the same vehicle
    before: IntArray  # (n,)
    changed: IntArray  # (n,) customers whose choice may differ from the best
    is_changed: IntArray  # (n,)
    marks: IntArray  # (1,) how many; -1: nothing feasible was found yet
    total: FloatArray  # (2,) cost of the choice, cost of the best
    length: FloatArray  # (K,) labels of the present search for a chain
    state: IntArray  # (K,)
    link: IntArray  # (K, 3) vehicle before, customer from there, customer back (or -1)
    labelled: IntArray  # (K,)


def make_board(
    tables: tuple[FloatArray, IntArray],
    demands: IntArray,
    capacity: int,
    price: FloatArray,
    choice: IntArray,
) -> Board:
    """Return the board of `tables` (cost, vehicle) with this choice of columns."""
    cost, vehicle = tables
    n, k = len(demands), len(price)
    board = Board(
        cost=np.ascontiguousarray(cost),
        vehicle=np.ascontiguousarray(vehicle),
        width=(vehicle >= 0).sum(axis=1).astype(np.int64),
        demands=np.array(demands, dtype=np.int64),
        capacity=int(capacity),
        price=np.array(price),
        choice=np.array(choice, dtype=np.int64),
        best=np.zeros(n, dtype=np.int64),
        load=np.zeros(k, dtype=np.int64),
        first=np.full(k, -1, dtype=np.int64),
        after=np.zeros(n, dtype=np.int64),
        before=np.zeros(n, dtype=np.int64),
        changed=np.zeros(n, dtype=np.int64),
        is_changed=np.zeros(n, dtype=np.int64),
        marks=np.full(1, -1, dtype=np.int64),
        total=np.zeros(2),
        length=np.zeros(k),
        state=np.zeros(k, dtype=np.int64),
        link=np.zeros((k, 3), dtype=np.int64),
        labelled=np.zeros(k, dtype=np.int64),
    )
    _fill(board)
    return board


@kernel
def _join(board: Any, i: int, j: int) -> None:
    """Put customer i into the ring of vehicle j."""
    head = board.first[j]
    if head < 0:
        board.first[j] = i
        board.after[i] = i
        board.before[i] = i
    else:
        last = board.before[head]
        board.after[last] = i
        board.before[i] = last
        board.after[i] = head
        board.before[head] = i
    board.load[j] += board.demands[i]


@kernel
def _leave(board: Any, i: int, j: int) -> None:
    """Take customer i out of the ring of vehicle j."""
    a, b = board.before[i], board.after[i]
    board.after[a] = b
    board.before[b] = a
    if board.first[j] == i:
        board.first[j] = -1 if b == i else b
    board.load[j] -= board.demands[i]


@kernel
def _fill(board: Any) -> None:
    for i in range(len(board.demands)):
        _join(board, i, board.vehicle[i, board.choice[i]])
        board.total[0] += board.cost[i, board.choice[i]]


@kernel
def put(board: Any, i: int, s: int) -> None:
    """Move customer i to the vehicle in column s."""
    _leave(board, i, board.vehicle[i, board.choice[i]])
    board.total[0] += board.cost[i, s] - board.cost[i, board.choice[i]]
    board.choice[i] = s
    _join(board, i, board.vehicle[i, s])
    if board.marks[0] >= 0 and board.is_changed[i] == 0:
        board.is_changed[i] = 1
        board.changed[board.marks[0]] = i
        board.marks[0] += 1


@kernel
def remember(board: Any) -> None:
    """Copy the choice, now feasible and the cheapest so far, where it differs."""
    if board.marks[0] < 0:
        for i in range(len(board.choice)):
            board.best[i] = board.choice[i]
    for at in range(board.marks[0]):
        i = board.changed[at]
        board.best[i] = board.choice[i]
        board.is_changed[i] = 0
    board.marks[0] = 0
    board.total[1] = board.total[0]


@kernel
def restore(board: Any) -> None:
    """Go back to the best feasible choice."""
    for at in range(board.marks[0] - 1, -1, -1):
        i = board.changed[at]
        if board.choice[i] != board.best[i]:
            put(board, i, board.best[i])
    for at in range(board.marks[0]):
        board.is_changed[board.changed[at]] = 0
    board.marks[0] = 0
    board.total[0] = board.total[1]


@kernel
def column(board: Any, i: int, j: int) -> int:
    """Column of vehicle j among the candidates of i, or -1."""
    for s in range(board.width[i]):
        if board.vehicle[i, s] == j:
            return s
    return -1


@kernel
def _priced(board: Any, i: int, s: int) -> float:
    """Cost of a candidate with the price of the room it takes."""
    price = board.price[board.vehicle[i, s]]
    return float(board.cost[i, s] + board.demands[i] * price)


@kernel
def _partner(board: Any, j: int, k: int, demand: int) -> tuple[int, float]:
    """The customer of this demand that goes from k to j most cheaply, or -1."""
    best, who = np.inf, -1
    head = e = board.first[k]
    while e >= 0:
        if board.demands[e] == demand:
            s = column(board, e, j)
            if s >= 0:
                extra = _priced(board, e, s) - _priced(board, e, board.choice[e])
                if extra < best:
                    best, who = extra, e
        e = board.after[e]
        if e == head:
            break
    return who, best


@kernel
def _extend(
    board: Any, j: int, units: int, count: int, goal: float
) -> tuple[int, float]:
    """Label the vehicles that can take `units` from j, below `goal`.

    Returns the number of labels and the least length of a vehicle with room.
    """
    head = i = board.first[j]
    while i >= 0:
        # The customer that left j on the way here is not there any more.
        usable = i != board.link[j, 2] and board.demands[i] >= units
        here = _priced(board, i, board.choice[i])
        for t in range(board.width[i] if usable else 0):
            k = board.vehicle[i, t]
            extra = _priced(board, i, t) - here
            if board.length[j] + extra >= goal:
                break  # candidates are sorted by this
            e = -1
            if board.state[k] == FINAL:
                continue
            if board.demands[i] > units:
                e, back = _partner(board, j, k, board.demands[i] - units)
                extra += back
            length = board.length[j] + max(extra, 0.0)
            if length >= goal:
                continue
            if board.state[k] == UNREACHED:
                board.state[k] = LABELLED
                board.labelled[count] = k
                count += 1
            elif length >= board.length[k]:
                continue
            board.length[k] = length
            board.link[k, 0] = j
            board.link[k, 1] = i
            board.link[k, 2] = e
            if board.load[k] + units <= board.capacity:
                goal = length
        i = board.after[i]
        if i == head:
            break
    return count, goal


@kernel
def _find_chain(board: Any, source: int, units: int, goal: float) -> tuple[int, float]:
    """Return the end of the cheapest chain shorter than `goal`, and its length.

    Lengths are at prices: what a chain costs beyond the LP.
    """
    board.labelled[0] = source
    board.state[source] = LABELLED
    board.length[source] = 0.0
    board.link[source, 2] = -1
    count, found = 1, -1
    for _ in range(REACH):
        low = -1
        for at in range(count):
            k = board.labelled[at]
            if board.state[k] == LABELLED and (
                low < 0 or board.length[k] < board.length[low]
            ):
                low = k
        if low < 0:
            break
        if low != source and board.load[low] + units <= board.capacity:
            found = low
            break
        board.state[low] = FINAL
        count, goal = _extend(board, low, units, count, goal)
    for at in range(count):
        board.state[board.labelled[at]] = UNREACHED
    return found, board.length[found] if found >= 0 else np.inf


@kernel
def _apply_chain(board: Any, source: int, target: int) -> None:
    k = target
    while k != source:
        j, i, e = board.link[k, 0], board.link[k, 1], board.link[k, 2]
        put(board, i, column(board, i, k))
        if e >= 0:
            put(board, e, column(board, e, j))
        k = j


@kernel
def _relieve(board: Any, start: int, chains: int, largest: int) -> int:
    """Remove overload from vehicles start, start + 1, ... by so many chains.

    Each chain takes at least one unit off its vehicle and puts none of them over.
    Returns the vehicle to go on with; one that no chain can help is passed over.
    """
    for source in range(start, len(board.load)):
        while board.load[source] > board.capacity:
            if chains == 0:
                return source
            chains -= 1
            excess = board.load[source] - board.capacity
            best, amount = np.inf, 0
            for units in range(1, min(excess + MORE, largest) + 1):
                useful = min(units, excess)
                found, length = _find_chain(board, source, units, best * useful)
                if found >= 0:
                    best, amount = length / useful, units
            if amount == 0:
                break
            target, _ = _find_chain(board, source, amount, np.inf)
            _apply_chain(board, source, target)
    return len(board.load)


@kernel
def _note_feasible(board: Any) -> None:
    """Remember the choice if it is feasible and the cheapest so far."""
    for j in range(len(board.load)):
        if board.load[j] > board.capacity:
            return
    if board.marks[0] < 0 or board.total[0] < board.total[1]:
        remember(board)


def relieve(board: Board, deadline: Deadline) -> int:
    """Remove overload chain by chain; return how many units are left over.

    Each turn takes a unit off or goes on to the next vehicle, so it ends.
    """
    source, largest = 0, int(board.demands.max())
    while source < len(board.load) and not deadline.passed():
        source = _relieve(board, source, CHAINS, largest)
    _note_feasible(board)
    return int(np.maximum(board.load - board.capacity, 0).sum())
