"""Two subpopulations of routes: those within the capacity, and those above it.

As in HGS (Vidal et al., Operations Research 60, 2012): who survives and who breeds is
decided by cost and by how much an individual differs from those most like it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clusterfirst.problem.instance import FloatArray, IntArray
from clusterfirst.stages.compiled import inlined, inner, random_bits, signed
from clusterfirst.stages.search.linked import NodeArray

LEAST, MORE = 25, 40  # members of a subpopulation that survive; new ones until then
ELITE, CLOSE = 4, 5  # members kept for their cost; the most similar ones that count
MOST = LEAST + MORE + 1
SLOTS = 2 * MOST
TWINS = 1e-9  # share of edges in which twins differ, about
FITTING, ABOVE = range(2)


class Colony(NamedTuple):
    """Individuals in slots; a subpopulation is a list of slots, cheapest first."""

    tours: NodeArray  # (slots, n) all customers, route by route
    onward: NodeArray  # (slots, n + 1) the next customer, 0 for the depot
    back: NodeArray  # (slots, n + 1) the customer before
    length: FloatArray  # (slots,)
    excess: IntArray  # (slots,) load above the capacity
    differ: FloatArray  # (slots, slots) share of edges that two have not in common
    members: IntArray  # (2, MOST) slots
    sizes: IntArray  # (2,)
    free: npt.NDArray[np.uint8]  # (slots,) 1 where nobody is
    fitness: FloatArray  # (slots,) ranks by cost and by difference: small is good
    apart: FloatArray  # (slots,) mean difference to the most similar members
    order: IntArray  # (MOST,) scratch


def colony_for(customers: int) -> Colony:
    """Return an empty colony."""
    return Colony(
        tours=np.zeros((SLOTS, customers), dtype=np.uint32),
        onward=np.zeros((SLOTS, customers + 1), dtype=np.uint32),
        back=np.zeros((SLOTS, customers + 1), dtype=np.uint32),
        length=np.zeros(SLOTS),
        excess=np.zeros(SLOTS, dtype=np.int64),
        differ=np.zeros((SLOTS, SLOTS)),
        members=np.zeros((2, MOST), dtype=np.int64),
        sizes=np.zeros(2, dtype=np.int64),
        free=np.ones(SLOTS, dtype=np.uint8),
        fitness=np.zeros(SLOTS),
        apart=np.zeros(SLOTS),
        order=np.zeros(MOST, dtype=np.int64),
    )


@inner
def free_slot(colony: Any) -> int:
    """A slot in which nobody is; there always is one."""
    slot = 0
    while colony.free[slot] == 0:
        slot += 1
    return slot


@inner
def welcome(colony: Any, slot: int, price: float) -> None:
    """Make an individual a member; if there are too many, the worst ones leave."""
    part = ABOVE if colony.excess[slot] > 0 else FITTING
    for i in range(colony.sizes[part]):
        other = colony.members[part, i]
        apart = _difference(colony, slot, other)
        colony.differ[slot, other] = apart
        colony.differ[other, slot] = apart
    at = colony.sizes[part]
    colony.members[part, at] = slot
    colony.sizes[part] += 1
    colony.free[slot] = 0
    _sink(colony, part, at, price)
    if colony.sizes[part] == MOST:
        while colony.sizes[part] > LEAST:
            _remove_worst(colony, part)


@inlined
def _cost(colony: Any, slot: int, price: float) -> float:
    return float(colony.length[slot] + price * colony.excess[slot])


@inner
def _sink(colony: Any, part: int, at: int, price: float) -> None:
    """Move the member at this place forward to where its cost belongs."""
    slot = colony.members[part, at]
    while at > 0:
        other = colony.members[part, at - 1]
        if _cost(colony, other, price) <= _cost(colony, slot, price):
            break
        colony.members[part, at] = other
        at -= 1
    colony.members[part, at] = slot


@inner
def sort_again(colony: Any, price: float) -> None:
    """Order those above the capacity by a new price."""
    for at in range(1, colony.sizes[ABOVE]):
        _sink(colony, ABOVE, at, price)


@inner
def _difference(colony: Any, a: int, b: int) -> float:
    """Broken pairs: the share of customers with another next one in b."""
    n = colony.tours.shape[1]
    count = 0
    for c in range(1, n + 1):
        onward, back = colony.onward[a, c], colony.back[a, c]
        onward_b, back_b = colony.onward[b, c], colony.back[b, c]
        if onward not in (onward_b, back_b):
            count += 1
        if back == 0 and back_b != 0 and onward_b != 0:
            count += 1
    return float(count / n)


@inner
def judge_members(colony: Any, part: int) -> None:
    """Give each member its fitness: its rank by cost, and by how different it is."""
    size = colony.sizes[part]
    for i in range(size):
        slot = colony.members[part, i]
        colony.apart[slot] = _closeness(colony, part, slot)
        at = i
        while at > 0 and colony.apart[colony.order[at - 1]] < colony.apart[slot]:
            colony.order[at] = colony.order[at - 1]
            at -= 1
        colony.order[at] = slot
    last = max(1, size - 1)
    share = 1.0 - min(1.0, ELITE / size)
    for i in range(size):
        colony.fitness[colony.order[i]] = share * i / last
    for i in range(size):
        colony.fitness[colony.members[part, i]] += i / last


@inner
def _closeness(colony: Any, part: int, slot: int) -> float:
    """Mean difference to the most similar members."""
    size = colony.sizes[part]
    floor, total, count = -1.0, 0.0, 0
    wanted = min(CLOSE, size - 1)
    while count < wanted:
        least, times = np.inf, 0
        for i in range(size):
            other = colony.members[part, i]
            apart = colony.differ[slot, other]
            if other == slot or apart <= floor:
                continue
            if apart < least:
                least, times = apart, 1
            elif apart == least:
                times += 1
        times = min(times, wanted - count)
        total += times * least
        count += times
        floor = least
    return total / wanted if wanted > 0 else 1.0


@inner
def _remove_worst(colony: Any, part: int) -> None:
    """Remove the least fit member, twins first, never the cheapest."""
    judge_members(colony, part)
    size, worst, worst_twin, worst_fitness = colony.sizes[part], 0, False, -np.inf
    for i in range(1, size):
        slot = colony.members[part, i]
        twin = False
        for j in range(size):
            other = colony.members[part, j]
            if other != slot and colony.differ[slot, other] <= TWINS:
                twin = True
        fitness = colony.fitness[slot]
        if (twin and not worst_twin) or (
            twin == worst_twin and fitness > worst_fitness
        ):
            worst, worst_twin, worst_fitness = i, twin, fitness
    colony.free[colony.members[part, worst]] = 1
    for i in range(worst, size - 1):
        colony.members[part, i] = colony.members[part, i + 1]
    colony.sizes[part] -= 1


@inner
def pick(colony: Any, rng: Any) -> int:
    """The fitter of two members, drawn from both subpopulations."""
    best = -1
    for _ in range(2):
        at = signed(
            random_bits(rng) % np.uint64(colony.sizes[FITTING] + colony.sizes[ABOVE])
        )
        slot = (
            colony.members[FITTING, at]
            if at < colony.sizes[FITTING]
            else colony.members[ABOVE, at - colony.sizes[FITTING]]
        )
        if best < 0 or colony.fitness[slot] < colony.fitness[best]:
            best = slot
    return best


@inner
def disband(colony: Any) -> None:
    """Nobody is a member any more."""
    colony.sizes[:] = 0
    colony.free[:] = 1
