"""The assignment once more, with the routes it led to: a large neighbourhood.

Nearly every second customer leaves its route. What each would add to what is left of
the routes near it is now known exactly, not guessed from seeds, so the capacitated
assignment (the paper's CAP) is solved again with these costs. Each customer then goes
to its cheapest place in the route it got, and routes are put in order, each for itself.
Routes that exchanged customers, directly or through others, stand or fall together:
every such group that became shorter is kept.

De Franceschi, Fischetti and Toth (Mathematical Programming 105, 2006) refine routes so,
with an integer program over insertion points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clusterfirst.assignment.fast import FastSettings, assign_fast
from clusterfirst.assignment.problem import AssignProblem
from clusterfirst.clock import Deadline
from clusterfirst.compiled import (
    Flat,
    Tours,
    distance,
    kernel,
    link,
    random,
    unlink,
)
from clusterfirst.instance import FloatArray, Instance, IntArray
from clusterfirst.search.local_search import TINY, descend, notes_for
from clusterfirst.search.regions import Region, make_region, too_large, whole_ground

NEIGHBOURS = 20  # of a customer; their routes are the ones it may move to
MOST = 8  # routes a customer may move to, its own among them
LEAVING = 0.9  # of the customers whose predecessor stays
# What a move must promise, in mean distances to the ten nearest neighbours: costs of
# customers put back one at a time are not quite those of all together (LOG.md).
MARGIN = 0.1
EFFORT = 1  # exchanges proposed per customer, in the assignment
LOOKS = 1000  # customers looked at by the descent between two looks at the clock


@dataclass(frozen=True)
class ReassignSettings:
    """How often the assignment is solved again; the seed chooses who leaves."""

    rounds: int = 5
    seed: int = 0


def reassign(
    instance: Instance,
    routes: Sequence[Sequence[int]],
    settings: ReassignSettings,
    deadline: Deadline,
) -> list[list[int]]:
    """Make feasible routes shorter; never longer, never more of them."""
    flat = Flat.of(routes)
    if instance.num_customers < 2 or too_large(instance):
        return flat.lists()
    ground = whole_ground(instance, NEIGHBOURS)
    region = make_region(ground, flat, len(flat.sizes), settings.seed)
    for _ in range(settings.rounds):
        if deadline.passed():
            break
        reassign_once(region, deadline)
    return region.routes(best=False).lists()


def warm_up() -> None:
    """Compile the kernels, or load them from numba's cache, before they are needed."""
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    square = Instance(demands=np.array([0, 1, 1, 1]), capacity=2, coords=corners)
    reassign(square, [[1, 2], [3]], ReassignSettings(), Deadline.never())


def reassign_once(region: Region, deadline: Deadline) -> float:
    """Run one round on the current tours of a region; return the change in length."""
    ground, tours = region.ground, region.tours
    before = Tours._make(array.copy() for array in tours)
    out = take(region)
    problem = problem_of(region, out)
    effort = FastSettings(int(region.rng[0]), EFFORT)
    answer = assign_fast(problem, effort, deadline)
    if not np.isfinite(answer.cost):
        _restore(tours, before, np.ones(len(tours.load), dtype=bool))
        return 0.0
    _insert(ground, tours, out, answer.labels)
    notes = notes_for(ground, tours)
    while notes.ends[1] and not deadline.passed():
        descend(ground, tours, notes, LOOKS, True)
    return _keep_better(region, before)


def take(region: Region) -> IntArray:
    """Take customers out of their routes, by the region's generator; return them."""
    out = np.zeros(len(region.members), dtype=np.int64)
    return out[: _take(region.ground, region.tours, region.rng, out)]


@kernel
def _take(ground: Any, tours: Any, rng: Any, out: Any) -> int:
    """Walk along every route; of two neighbours at least one stays.

    So a customer's old place is still there for it, and costs of going back one at a
    time are nearly those of all together.
    """
    n = len(ground.demands) - 1
    count = 0
    for r in range(len(tours.load)):
        node = tours.after[n + 1 + r]
        while node <= n:
            onward = tours.after[node]
            if random(rng) < LEAVING:
                unlink(ground, tours, node)
                out[count] = node
                count += 1
                if onward <= n:
                    onward = tours.after[onward]
            node = onward
    return count


def insertion_costs(region: Region, out: IntArray) -> tuple[IntArray, FloatArray]:
    """(m, MOST) routes near each customer that left, and what it adds to each.

    Its old route comes first; -1 at cost inf fills the rows.
    """
    vehicle = np.full((len(out), MOST), -1, dtype=np.int64)
    cost = np.full((len(out), MOST), np.inf)
    _insertion_costs(region.ground, region.tours, out, vehicle, cost)
    return vehicle, cost


@kernel
def _insertion_costs(
    ground: Any, tours: Any, out: Any, vehicle: Any, cost: Any
) -> None:
    for i in range(len(out)):
        c = out[i]
        vehicle[i, 0] = tours.route[c]  # leaving does not change this
        count = 1
        for j in range(ground.near.shape[1]):
            v = ground.near[c, j]
            if v == 0 or count == vehicle.shape[1]:
                break
            r = tours.route[v]
            fresh = True
            for k in range(count):
                fresh &= vehicle[i, k] != r
            if fresh:
                vehicle[i, count] = r
                count += 1
        for k in range(count):
            cost[i, k] = _cheapest(ground, tours, c, vehicle[i, k])[1]


@kernel
def _cheapest(ground: Any, tours: Any, c: int, r: int) -> tuple[int, float]:
    """The node of route r that c should stand behind, and the added length."""
    a = depot = len(ground.demands) + r
    best, where = np.inf, depot
    from_a = distance(ground, a, c)
    while True:
        b = tours.after[a]
        from_b = distance(ground, c, b)
        extra = from_a + from_b - tours.gap[a]
        if extra < best:
            best, where = extra, a
        a, from_a = b, from_b
        if a == depot:
            return where, best


def problem_of(region: Region, out: IntArray) -> AssignProblem:
    """The assignment of those who left, and of what stayed of each route.

    What stayed is one item with one candidate, so one capacity for all is enough.
    """
    ground, load = region.ground, region.tours.load
    vehicle, cost = insertion_costs(region, out)
    cost[:, 1:] += MARGIN * float(ground.near_gap[1:, :10].mean())
    stayed = np.flatnonzero(load > 0)
    own = np.full((len(stayed), MOST), -1, dtype=np.int64)
    own[:, 0] = stayed
    return AssignProblem(
        np.concatenate([cost, np.where(own >= 0, 0.0, np.inf)]),
        np.concatenate([ground.demands[out], load[stayed]]),
        ground.capacity,
        len(load),
        np.concatenate([vehicle, own]),
    )


@kernel
def _insert(ground: Any, tours: Any, out: Any, labels: Any) -> None:
    """Put each customer that left at its cheapest place in the route it got."""
    for i in range(len(out)):
        link(ground, tours, out[i], _cheapest(ground, tours, out[i], labels[i])[0])


def _keep_better(region: Region, before: Tours) -> float:
    """Undo every group of routes that did not become shorter; return the change."""
    tours, n = region.tours, len(region.members) - 1
    group = np.arange(len(tours.load))
    _join(before.route[1 : n + 1], tours.route[1 : n + 1], group)
    was, now = _lengths(before), _lengths(tours)
    change = np.bincount(group, now - was, len(group))
    better = change < -TINY * np.bincount(group, was, len(group))
    _restore(tours, before, ~better[group])
    delta = float(change[better].sum())
    region.memory.cost[0] += delta
    return delta


@kernel
def _join(old: Any, new: Any, group: Any) -> None:
    """Number the groups of routes that exchanged customers, by their first route."""
    for i in range(len(old)):
        a, b = old[i], new[i]
        while group[a] != a:
            a = group[a]
        while group[b] != b:
            b = group[b]
        group[max(a, b)] = min(a, b)
    for r in range(len(group)):
        group[r] = group[group[r]]  # of a lower number, so final already


def _lengths(tours: Tours) -> FloatArray:
    """(routes,) length of each."""
    sums = np.bincount(tours.route[1:], tours.gap[1:], len(tours.load))
    return sums.astype(np.float64)


def _restore(tours: Tours, before: Tours, undone: np.ndarray) -> None:
    """Make the marked routes what they were before."""
    nodes = undone[before.route]
    for name in ("after", "before", "route", "gap"):
        getattr(tours, name)[nodes] = getattr(before, name)[nodes]
    tours.load[undone] = before.load[undone]
    tours.size[undone] = before.size[undone]
