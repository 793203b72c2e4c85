"""The current cost of a search, its best routes, and what changed since."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clusterfirst.problem.instance import FloatArray, IntArray
from clusterfirst.stages.compiled import inner
from clusterfirst.stages.search.linked import NodeArray, Tours, after

NOISE = 1e-10  # of the cost: smaller gains are rounding


class Memory(NamedTuple):
    """The current cost, the best routes, and what changed since they were written."""

    rng: npt.NDArray[np.uint64]  # (1,)
    cost: FloatArray  # (2,) current and best
    best: NodeArray  # (nodes,) next nodes of the best routes
    dirty: IntArray  # (routes,) routes that changed since
    is_dirty: IntArray  # (routes,) 0 or 1
    dirt: IntArray  # (1,) number of dirty routes


def memory_for(tours: Tours, cost: float, seed: int) -> Memory:
    """Return the memory of a search that begins with these routes."""
    routes = len(tours.load)
    return Memory(
        rng=np.array([seed % 2**64], dtype=np.uint64),
        cost=np.array([cost, cost]),
        best=tours.after.copy(),
        dirty=np.zeros(routes, dtype=np.int64),
        is_dirty=np.zeros(routes, dtype=np.int64),
        dirt=np.zeros(1, dtype=np.int64),
    )


@inner
def keep_best(tours: Any, memory: Any) -> None:
    """Write the current routes down if they are the best."""
    now, best = memory.cost[0], memory.cost[1]
    if now >= best - NOISE * abs(best):
        return
    memory.cost[1] = now
    first_depot = len(tours.after) - len(tours.load)
    for i in range(memory.dirt[0]):
        r = memory.dirty[i]
        memory.is_dirty[r] = 0
        node = first_depot + r
        while True:
            onward = after(tours, node)
            memory.best[node] = onward
            node = onward
            if node >= first_depot:
                break
    memory.dirt[0] = 0


@inner
def touch(tours: Any, memory: Any, r: int) -> None:
    """Remember that route r is no longer what it was."""
    tours.noted[r] = 0
    if memory.is_dirty[r] == 0:
        memory.is_dirty[r] = 1
        memory.dirty[memory.dirt[0]] = r
        memory.dirt[0] += 1


@inner
def accept(tours: Any, memory: Any, delta: float, r: int, s: int) -> None:
    """Count a change of two routes that is about to be made.

    The best routes are written down only when they are about to be left for longer
    ones: a run of improvements is written once.
    """
    if delta > 0.0:
        keep_best(tours, memory)
    memory.cost[0] += delta
    touch(tours, memory, r)
    touch(tours, memory, s)
