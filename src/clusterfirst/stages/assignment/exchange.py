"""Exchanges that save cost: shifts, swaps and ejections, accepted by annealing."""

from __future__ import annotations

from typing import Any

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.stages.assignment.chains import Board, column, put, remember
from clusterfirst.stages.compiled import kernel, random

LOOK = 100_000  # exchanges proposed between two looks at the clock
COOLING = 20  # temperatures of an annealing


@kernel
def _over(board: Any, j: int, more: int) -> int:
    """How far vehicle j would be above capacity with this much more."""
    return int(max(0, board.load[j] + more - board.capacity))


@kernel
def _pick(board: Any, i: int, rng: Any) -> int:
    """A column of customer i, mostly one that is cheap at the prices."""
    u = random(rng)
    return int(u * u * u * board.width[i])


@kernel
def _worse(board: Any, move: Any) -> int:
    """Change of the overload if i goes from j to k and e from there to m (or stays)."""
    j, k, m, q, p = move
    worse = _over(board, k, q - p) - _over(board, k, 0)
    if m == j:
        return worse + _over(board, j, p - q) - _over(board, j, 0)
    worse += _over(board, j, -q) - _over(board, j, 0)
    return worse + (_over(board, m, p) - _over(board, m, 0) if m >= 0 else 0)


def exchange(
    board: Board,
    rng: Any,
    proposals: int,
    heat: tuple[float, float],
    deadline: Deadline,
) -> None:
    """Propose so many exchanges at `heat` (temperature, price of a unit of overload).

    `rng` is the state of `random`; the clock only cuts the proposals short.
    """
    while proposals > 0 and not deadline.passed():
        _exchange(board, rng, min(proposals, LOOK), *heat)
        proposals -= LOOK


def cool(
    board: Board,
    rng: Any,
    proposals: int,
    heat: tuple[float, float, float],
    deadline: Deadline,
) -> None:
    """Propose exchanges at each of COOLING temperatures; `heat` is hot, cold, penalty.

    Handing the board to a kernel takes as long as a thousand proposals, so small
    problems cool down in one call.
    """
    at_once = max(1, LOOK // proposals)
    for first in range(0, COOLING, at_once):
        if deadline.passed():
            return
        _cool(board, rng, proposals, (first, min(first + at_once, COOLING)), heat)


@kernel
def _cool(board: Any, rng: Any, proposals: int, steps: Any, heat: Any) -> None:
    hot, cold, penalty = heat
    for step in range(steps[0], steps[1]):
        temperature = hot * (cold / hot) ** (step / (COOLING - 1))
        _exchange(board, rng, proposals, temperature, penalty)


@kernel
def _exchange(
    board: Any, rng: Any, proposals: int, temperature: float, penalty: float
) -> None:
    """Propose shifts, swaps and ejections on cost + penalty x overload."""
    n = len(board.demands)
    overload = 0
    for j in range(len(board.load)):
        overload += _over(board, j, 0)
    for _ in range(proposals):
        i = int(random(rng) * n)
        s = _pick(board, i, rng)
        j, k = board.vehicle[i, board.choice[i]], board.vehicle[i, s]
        if j == k:
            continue
        delta = board.cost[i, s] - board.cost[i, board.choice[i]]
        e, t, m, p = board.first[k], -1, -1, 0
        if e >= 0:
            board.first[k] = board.after[e]  # so that all have their turn
            kind = random(rng)
            if kind < 0.5:
                t = column(board, e, j)
            elif kind < 0.75:
                t = _pick(board, e, rng)
            if t >= 0 and t != board.choice[e]:
                m, p = board.vehicle[e, t], board.demands[e]
                delta += board.cost[e, t] - board.cost[e, board.choice[e]]
        worse = _worse(board, (j, k, m, board.demands[i], p))
        energy = delta + penalty * worse
        if energy > 0.0 and random(rng) >= np.exp(-energy / temperature):
            continue
        put(board, i, s)
        if m >= 0:
            put(board, e, t)
        overload += worse
        if overload == 0 and (board.marks[0] < 0 or board.total[0] < board.total[1]):
            remember(board)
