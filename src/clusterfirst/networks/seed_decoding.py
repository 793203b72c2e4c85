"""Capacity-aware greedy decoding: which customers become seeds (Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clusterfirst.problem.instance import IntArray
from clusterfirst.stages.compiled import inner, kernel


@dataclass(frozen=True)
class PackingRule:
    """How a seed's vehicle is filled while decoding.

    The paper fills to Q among all customers. Filling to the mean load instead makes
    an extra vehicle real (with Q the pool is often empty before its turn), and
    packing among neighbours only keeps far customers, which may look alike to a
    local network, out of it.
    """

    fill: str = "capacity"  # or "mean"
    neighbours_only: bool = False

    def limits(self, demands: IntArray, capacity: int, vehicles: int) -> Limits:
        """The limits of one instance, in exact units.

        The mean load is rounded up to what loads can be, multiples of the greatest
        common divisor: demands in grams and in kilograms fill vehicles alike.
        """
        if self.fill == "capacity":
            return Limits(vehicles, capacity, reserve=False)
        step = max(1, int(np.gcd.reduce(demands)))
        mean = -(-int(demands.sum()) // (step * max(1, vehicles))) * step
        return Limits(vehicles, mean, reserve=True)


@dataclass(frozen=True)
class Limits:
    """How many seeds are wanted, and when a simulated vehicle is full."""

    seeds: int  # K
    fill: int  # load
    reserve: bool  # leave a customer for each seed still to be drawn


def decode_seeds(
    score: npt.NDArray[np.float32],
    contrast: npt.NDArray[np.float32],
    demands: IntArray,
    limits: Limits,
    around: IntArray,
) -> IntArray:
    """Pick seeds greedily (Algorithm 1); -1 pads when the pool is empty.

    Parameters
    ----------
    score
        (n,) seed logits.
    contrast
        (n, E) unit vectors.
    demands
        (n,) exact units.
    limits
        Number of seeds and load of their simulated vehicles.
    around
        (n, L) customers to pack from, -1 padded; an array of width 0 means all.

    One row of similarities is computed at a time, so memory stays O(n).
    """
    n, width = len(demands), around.shape[1]
    seeds = np.full(limits.seeds, -1, dtype=np.int64)
    lists = np.empty((3, max(n, width)), dtype=np.int64)
    _decode(
        np.ascontiguousarray(score, dtype=np.float32),
        np.ascontiguousarray(contrast, dtype=np.float32),
        np.array(demands, dtype=np.int64),
        (int(limits.fill), bool(limits.reserve)),
        np.ascontiguousarray(around, dtype=np.int64),
        seeds,
        (np.ones(n, dtype=np.bool_), *lists, np.empty(max(n, width), np.float32)),
    )
    return seeds


@inner
def _dot(contrast: Any, i: int, j: int) -> Any:
    """Inner product of two rows, added up in one fixed order.

    BLAS adds by the alignment of the rows in memory, so an instance in a batch could
    get other last bits, and other seeds, than alone. Two sums hide the waiting.
    """
    even, odd = np.float32(0), np.float32(0)
    width = contrast.shape[1]
    for e in range(0, width - 1, 2):
        even += contrast[i, e] * contrast[j, e]
        odd += contrast[i, e + 1] * contrast[j, e + 1]
    if width % 2:
        even += contrast[i, width - 1] * contrast[j, width - 1]
    return even + odd


@kernel
def _decode(
    score: Any,
    contrast: Any,
    demands: Any,
    limits: Any,
    around: Any,
    seeds: Any,
    room: Any,
) -> None:
    """Lines 7 to 22 of Algorithm 1 over one instance."""
    (fill, reserve), count, n = limits, len(seeds), len(score)
    free, near, order, spare, similarity = room
    left = n
    for k in range(count):
        if left == 0:
            break
        seed = -1
        for i in range(n):
            if free[i] and (seed < 0 or score[i] > score[seed]):
                seed = i
        seeds[k] = seed
        free[seed] = False
        left -= 1
        load = demands[seed]
        some = _candidates(free, around, seed, near)
        for i in range(some):
            similarity[i] = _dot(contrast, near[i], seed)
        _sort_falling(similarity[:some], order, spare)
        for at in range(some):
            customer = near[order[at]]
            if not free[customer]:
                continue
            if reserve and left < count - k:
                break  # as many customers are left as seeds
            # What does not fit is skipped; it does not end the packing.
            if load + demands[customer] <= fill:
                load += demands[customer]
                free[customer] = False
                left -= 1


@inner
def _candidates(free: Any, around: Any, seed: int, near: Any) -> int:
    """Write down whom the seed's vehicle may take; return how many."""
    some = 0
    if around.shape[1] > 0:
        for t in range(around.shape[1]):
            if around[seed, t] >= 0:
                near[some] = around[seed, t]
                some += 1
    else:
        for i in range(len(free)):
            if free[i]:
                near[some] = i
                some += 1
    return some


@inner
def _sort_falling(keys: Any, order: Any, spare: Any) -> None:
    """Places of the keys, the largest first, equal ones in their order (merge sort)."""
    count, width = len(keys), 1
    for i in range(count):
        order[i] = i
    while width < count:  # runs of this length are sorted
        for low in range(0, count, 2 * width):
            middle, high = min(low + width, count), min(low + 2 * width, count)
            a, b = low, middle
            for at in range(low, high):
                if a < middle and (b >= high or keys[order[a]] >= keys[order[b]]):
                    spare[at] = order[a]
                    a += 1
                else:
                    spare[at] = order[b]
                    b += 1
        for i in range(count):
            order[i] = spare[i]
        width *= 2
