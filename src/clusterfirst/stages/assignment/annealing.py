"""Simulated annealing on cost and overload, for packings that no chain completes."""

from __future__ import annotations

from typing import Any

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.stages.assignment.ejection_chains import (
    Placement,
    column,
    overload,
    put,
)
from clusterfirst.stages.compiled import inner, kernel, random

LOOK = 100_000  # exchanges proposed between two looks at the clock


def anneal(
    placed: Placement,
    rng: Any,
    proposals: int,
    heat: tuple[float, float],
    deadline: Deadline,
) -> None:
    """Propose so many exchanges at `heat` (temperature, price of a unit of overload).

    It stops where no vehicle is overfull. `rng` is the state of `random`.
    """
    while proposals > 0 and overload(placed) and not deadline.passed():
        _anneal(placed, rng, min(proposals, LOOK), *heat)
        proposals -= LOOK


@inner
def _over(placed: Any, j: int, more: int) -> int:
    """How far vehicle j would be above capacity with this much more."""
    return int(max(0, placed.load[j] + more - placed.capacity[j]))


@inner
def _pick(placed: Any, i: int, rng: Any) -> int:
    """A column of customer i, mostly one that is cheap at the prices."""
    u = random(rng)
    return int(u * u * u * placed.width[i])


@inner
def _worse(placed: Any, move: Any) -> int:
    """Change of the overload if i goes from j to k and e from there to m (or stays)."""
    j, k, m, q, p = move
    worse = _over(placed, k, q - p) - _over(placed, k, 0)
    if m == j:
        return worse + _over(placed, j, p - q) - _over(placed, j, 0)
    worse += _over(placed, j, -q) - _over(placed, j, 0)
    return worse + (_over(placed, m, p) - _over(placed, m, 0) if m >= 0 else 0)


@kernel
def _anneal(
    placed: Any, rng: Any, proposals: int, temperature: float, penalty: float
) -> None:
    """Propose shifts, swaps and ejections on cost + penalty x overload."""
    n = len(placed.demands)
    total = 0
    for j in range(len(placed.load)):
        total += _over(placed, j, 0)
    for _ in range(proposals):
        if total == 0:
            return
        i = int(random(rng) * n)
        s = _pick(placed, i, rng)
        j, k = placed.vehicle[i, placed.choice[i]], placed.vehicle[i, s]
        if j == k:
            continue
        delta = placed.cost[i, s] - placed.cost[i, placed.choice[i]]
        e, t, m, p = placed.first[k], -1, -1, 0
        if e >= 0:
            placed.first[k] = placed.after[e]  # so that all have their turn
            kind = random(rng)
            if kind < 0.5:
                t = column(placed, e, j)
            elif kind < 0.75:
                t = _pick(placed, e, rng)
            if t >= 0 and t != placed.choice[e]:
                m, p = placed.vehicle[e, t], placed.demands[e]
                delta += placed.cost[e, t] - placed.cost[e, placed.choice[e]]
        worse = _worse(placed, (j, k, m, placed.demands[i], p))
        energy = delta + penalty * worse
        if energy > 0.0 and random(rng) >= np.exp(-energy / temperature):
            continue
        put(placed, i, s)
        if m >= 0:
            put(placed, e, t)
        total += worse
