"""Making customers fit: the repair of clusters, and bin packing with a proof.

Without a fleet limit everything that fits in a vehicle alone can be served, so the
repair always ends. With a limit it is bin packing: found, proven impossible in
words, or not found in time (and then not called impossible).
"""

from __future__ import annotations

import math

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.errors import InfeasibleError, NotFoundInTimeError, Problem
from clusterfirst.problem.instance import IntArray
from clusterfirst.stages.assignment.assign import assign
from clusterfirst.stages.assignment.best_fit import best_fit, pack_quickly
from clusterfirst.stages.assignment.problem import (
    AssignProblem,
    AssignSettings,
    Status,
    is_within,
)

NODES = 50  # of branch and bound for a packing when no clock runs: about 10 seconds
MOST_CELLS = 4_000_000  # customers times vehicles of an exact packing


def repair(
    problem: AssignProblem, limit: int, nearly: IntArray | None = None
) -> IntArray | None:
    """Labels within capacity, near the cheap vehicles, or None above the limit.

    Of `nearly`, labels with some overload, as many stay as fit. The others go, largest
    first, to their cheapest vehicle with room. The rest share new vehicles (the largest
    there are), which is never longer than one for each; at the limit they go to the
    fullest vehicle that takes them, however far. It always succeeds when `limit` is the
    number of customers and each fits in a new vehicle.
    """
    # A copy: kernels are compiled again for arrays that nobody may write to.
    demands = np.array(problem.demands, dtype=np.int64)
    n, room = len(demands), problem.room
    if n == 0:
        return np.zeros(0, dtype=np.int64)
    cheapest = np.argsort(problem.cost, axis=1, kind="stable")
    wishes = np.take_along_axis(problem.vehicle_of_cost, cheapest, axis=1)
    labels = np.full(n, -1, dtype=np.int64)
    if nearly is not None:
        labels = _without_overload(nearly, demands, room)
    left = np.concatenate([room, np.full(n + 1, room.max(initial=0))])
    order = np.argsort(-demands, kind="stable")
    vehicles = (left, np.zeros_like(left))
    best_fit(labels, order, wishes, demands, vehicles, len(room), limit)
    return labels if labels.max() < limit else None


def _without_overload(nearly: IntArray, demands: IntArray, room: IntArray) -> IntArray:
    """Labels with -1 for those who leave overfull vehicles: few, and small ones."""
    labels = nearly.copy()
    loads = np.bincount(nearly, demands, len(room)).astype(np.int64)
    for vehicle in np.flatnonzero(loads > room):
        inside = np.flatnonzero(nearly == vehicle)
        excess = int(loads[vehicle] - room[vehicle])
        while excess > 0:  # each turn takes a customer out
            # The smallest that is enough by itself, or else the largest.
            sizes = demands[inside]
            enough = np.where(sizes >= excess, sizes, sizes.max() + 1)
            at = int(enough.argmin() if (sizes >= excess).any() else sizes.argmax())
            excess -= int(sizes[at])
            labels[inside[at]] = -1
            inside = np.delete(inside, at)
    return labels


def pack(demands: IntArray, capacity: int, limit: int, deadline: Deadline) -> IntArray:
    """Labels (n,) of a packing into at most `limit` vehicles of `capacity`."""
    demands = np.array(demands, dtype=np.int64)
    needed = packing_bound(demands, capacity)
    if needed > limit:
        rule = (
            f"infeasible: proven by counting: demands cannot be split, and need at "
            f"least {needed} vehicles of this capacity"
        )
        raise InfeasibleError(Problem("E203", "vehicles", f"a limit of {limit}", rule))
    labels = pack_quickly(demands, capacity, limit, deadline)
    if labels is not None:
        return labels
    return _pack_exactly(demands, capacity, limit, deadline)


def packing_bound(demands: IntArray, capacity: int) -> int:
    """Fewest vehicles by Martello and Toth's bound L2, in exact integers."""
    order = np.sort(demands)
    upto = np.concatenate([[0], np.cumsum(order)])
    middle = int(
        np.searchsorted(order, capacity // 2, side="right")
    )  # first above half
    threshold = np.concatenate([[0], np.unique(order[:middle])])
    large = np.searchsorted(order, capacity - threshold, side="right")
    alone, half = len(order) - large, large - middle
    spare = half * capacity - (upto[large] - upto[middle])
    rest = upto[middle] - upto[np.searchsorted(order, threshold)]
    more = np.maximum(0, -(-(rest - spare) // capacity))
    counted = -(-int(demands.sum()) // capacity)
    return max(counted, int((alone + half + more).max()))


def _pack_exactly(
    demands: IntArray, capacity: int, limit: int, deadline: Deadline
) -> IntArray:
    """Ask HiGHS; costs prefer low vehicle numbers, which breaks the symmetry."""
    n = len(demands)
    if n * limit > MOST_CELLS:  # hopeless, and more than memory holds
        rule = "no packing into them was found; it is not proven infeasible"
        got = f"a limit of {limit}"
        raise NotFoundInTimeError(Problem("E204", "vehicles", got, rule))
    cost = np.broadcast_to(np.arange(limit) / max(limit, 1), (n, limit)).copy()
    problem = AssignProblem(cost, demands, capacity, limit)
    nodes = NODES if deadline.left() == math.inf else None
    settings = AssignSettings(mip_gap=math.inf, seconds=math.inf, max_nodes=nodes)
    answer = assign(problem, "exact", settings, deadline)
    if is_within(answer.labels, demands, np.full(limit, capacity)):
        return answer.labels
    if answer.status is Status.INFEASIBLE:
        rule = f"infeasible: proven ({answer.note}): demands do not pack into them"
        raise InfeasibleError(Problem("E203", "vehicles", f"a limit of {limit}", rule))
    rule = "no packing into them was found in time; it is not proven infeasible"
    raise NotFoundInTimeError(Problem("E204", "vehicles", f"a limit of {limit}", rule))
