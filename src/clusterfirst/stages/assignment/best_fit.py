"""Best fit: whoever is left over joins the fullest vehicle with room."""

from __future__ import annotations

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import IntArray
from clusterfirst.stages.compiled import inner, kernel

SHUFFLES = 200  # orders of a packing that are tried


def pack_quickly(
    demands: IntArray, capacity: int, limit: int, deadline: Deadline
) -> IntArray | None:
    """Labels (n,) of a packing into at most `limit` vehicles, or None: not proven."""
    n = len(demands)
    demands = np.array(demands, dtype=np.int64)
    rng = np.random.default_rng(0)
    nowhere = np.full((n, 1), -1, dtype=np.int64)
    labels = np.empty(n, dtype=np.int64)
    order = np.argsort(-demands, kind="stable")
    for _ in range(SHUFFLES):
        labels[:] = -1
        vehicles = (np.full(n + 1, capacity), np.zeros(n + 1, dtype=np.int64))
        best_fit(labels, order, nowhere, demands, vehicles, 0, n)
        if labels.max(initial=-1) < limit:
            return labels
        if deadline.passed():
            break
        # Nearly decreasing orders pack best; a little noise explores around them.
        order = np.argsort(-demands * rng.uniform(0.75, 1.25, n), kind="stable")
    return None


@kernel
def best_fit(
    labels: IntArray,
    order: IntArray,
    preferred: IntArray,
    demands: IntArray,
    vehicles: tuple[IntArray, IntArray],
    given: int,
    most: int,
) -> None:
    """Label those that have none: first preferred vehicle with room, else a new one.

    `vehicles` are the capacities of the `given` vehicles and of new ones, and room to
    note who opened those. New vehicles are packed by best fit, with neighbours (who
    prefer one vehicle) if possible; with `most` vehicles the others are looked at,
    too, and only then it is exceeded.
    """
    left, opener = vehicles
    for i in range(len(labels)):
        if labels[i] >= 0:
            left[labels[i]] -= demands[i]
    opened = given
    for i in order:
        if labels[i] >= 0:
            continue
        d, found = demands[i], -1
        for j in preferred[i]:
            if j >= 0 and left[j] >= d:
                found = j
                break
        if found < 0:
            for j in range(given, opened):
                if (
                    left[j] >= d
                    and (found < 0 or left[j] < left[found])
                    and _share(preferred[i], preferred[opener[j]])
                ):
                    found = j
        if found < 0:
            found = _tightest(left, given, opened, d)
        if found < 0 and opened >= most:
            found = _tightest(left, 0, given, d)
        if found < 0:
            found = opened
            opener[found] = i
            opened += 1
        labels[i] = found
        left[found] -= d


@inner
def _tightest(left: IntArray, first: int, end: int, demand: int) -> int:
    """The fullest of these vehicles that has room, or -1."""
    found = -1
    for j in range(first, end):
        if left[j] >= demand and (found < 0 or left[j] < left[found]):
            found = j
    return found


@inner
def _share(some: IntArray, others: IntArray) -> bool:
    """Whether two customers have a vehicle in common."""
    for j in some:
        for k in others:
            if j >= 0 and j == k:
                return True
    return False
