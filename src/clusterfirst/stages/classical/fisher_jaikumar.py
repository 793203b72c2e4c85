"""Fisher and Jaikumar (1981): seeds and insertion costs by hand.

The generalised assignment behind it is the one the network uses, so this is the
fair opponent of learned seeds and costs. Seeds come from a curve through the map
(better than the cones of 1981, log/), and then from the clusters themselves
(`moved_seeds`).
Rounds of assign, re-seed, and move a few seeds go on until time is up; the true route
length decides.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from clusterfirst.problem.clock import NEVER, Deadline
from clusterfirst.problem.instance import FloatArray, Instance, IntArray
from clusterfirst.stages.moved_seeds import centres
from clusterfirst.stages.scores import Scores, ScoreStream
from clusterfirst.stages.tours.routing import hilbert_order

STARTS = (0, -1, 0, -1)  # the fleets that first seeds are drawn for
CANDIDATES = 32  # seeds per customer where all of them would be too many
DENSE_CELLS = 2_000_000  # customers x seeds up to which every pair gets a cost
PATIENCE = 2  # re-seedings without gain before the seeds are shaken
RESIZE = 0.1  # chance that a shake adds a seed, and that it takes one away
SHAKE = 5  # most neighbouring seeds that are moved together
SHAKE_REACH = 12  # nearest customers a moved seed may go to
PIECE = 5_000  # customers whose nearest seeds are found between two looks at the clock


def fisher_jaikumar(
    instance: Instance,
    fleets: list[int],
    rng: np.random.Generator,
    deadline: Deadline = NEVER,
) -> ScoreStream:
    """Yield scores for promising seeds for ever; learn from what became of them.

    TimeUpError ends the stream where the deadline passes within a score.
    """
    map_ = _Map(instance)
    limit = instance.num_customers if instance.vehicles is None else instance.vehicles
    best, best_seeds = None, None
    turn = 0
    while True:  # a generator: whoever decodes the scores stops asking
        if turn < len(STARTS):
            seeds = curve_seeds(map_, fleets[STARTS[turn]], rng)
        elif best_seeds is None:  # too tight for every fleet so far: draw again
            seeds = curve_seeds(map_, fleets[turn % len(fleets)], rng)
        else:
            seeds = _shaken(map_, best_seeds, fleets, rng)
        turn += 1
        here, stale = np.inf, 0
        while stale < PATIENCE:
            found = yield Scores(seeds, *insertion_costs(instance, seeds, deadline))
            failed = found is None or len(found.routes) > len(seeds)
            if failed and len(seeds) <= min(fleets) < limit:
                # Too tight to fill so few vehicles: do not lose time there again.
                fleets = [min(k + 1, limit) for k in fleets]
            if found is None:
                break
            moved = centres(instance, found)
            if best is None or found.cost < best.cost:
                # A repair may have opened vehicles that the seeds did not have.
                grown = len(found.routes) > len(seeds)
                best, best_seeds = found, moved if grown else seeds
            stale = 0 if found.cost < here else stale + 1
            here = min(here, found.cost)
            if set(moved.tolist()) == set(seeds.tolist()):
                break
            seeds = moved


def insertion_costs(
    instance: Instance, seeds: IntArray, deadline: Deadline = NEVER
) -> tuple[FloatArray, IntArray | None]:
    """d(0,i) + d(i,s) - d(0,s): detour of customer i on the way to seed s and back.

    Dense (n, K) while that is small; else on the CANDIDATES nearest seeds.
    """
    n, k = instance.num_customers, len(seeds)
    rows = np.arange(1, n + 1)
    if n * k <= DENSE_CELLS or k <= CANDIDATES:
        return _detours(instance, rows, seeds[None, :]), None
    plane = instance.plane
    tree = cKDTree(plane[seeds])
    cost, candidates = np.empty((n, CANDIDATES)), np.empty((n, CANDIDATES), np.int64)
    for first in range(0, n, PIECE):
        deadline.look()
        some = rows[first : first + PIECE]
        _, near = tree.query(plane[some], k=CANDIDATES)
        near = np.sort(near.astype(np.int64), axis=1)
        candidates[some - 1] = near
        cost[some - 1] = _detours(instance, some, seeds[near])
    return cost, candidates


def _detours(instance: Instance, rows: IntArray, seeds: IntArray) -> FloatArray:
    """Of customers (n,) at their seeds (n, C), or at the same (1, C)."""
    there = instance.lengths(rows[:, None], seeds)
    return instance.lengths(0, rows)[:, None] + there - instance.lengths(0, seeds)


class _Map:
    """Plane geometry of the customers, and a search tree over them."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.points = instance.plane[1:]
        self.tree = cKDTree(self.points)


def curve_seeds(map_: _Map, vehicles: int, rng: np.random.Generator) -> IntArray:
    """Customers at equal distances of demand along a Hilbert curve, none twice."""
    n = len(map_.points)
    turns = np.arange(min(vehicles, n))
    order = hilbert_order(map_.instance, np.arange(1, n + 1))
    order = np.roll(order, int(rng.integers(n)))
    depth = np.cumsum(map_.instance.demand_units[order] + 1e-9)
    at = np.searchsorted(depth, (turns + 0.5) / len(turns) * depth[-1])
    at = np.maximum.accumulate(at - turns) + turns  # behind the one before
    seeds: IntArray = order[np.minimum(at, n - len(turns) + turns)]
    return seeds


def _shaken(
    map_: _Map, seeds: IntArray, fleets: list[int], rng: np.random.Generator
) -> IntArray:
    """Move a few seeds that lie together to customers near them; rarely add one."""
    points = map_.points
    centre = points[seeds[rng.integers(len(seeds))] - 1]
    apart = ((points[seeds - 1] - centre) ** 2).sum(axis=1)
    count = int(rng.integers(1, SHAKE + 1))
    moved = seeds.copy()
    change = rng.random()
    if change < RESIZE and len(seeds) < max(fleets):
        fresh = np.setdiff1d(np.arange(1, len(points) + 1), seeds)
        return np.append(seeds, rng.choice(fresh))
    if change > 1 - RESIZE and len(seeds) > min(fleets):
        return np.delete(seeds, rng.integers(len(seeds)))
    for j in np.argsort(apart, kind="stable")[:count].tolist():
        reach = min(SHAKE_REACH, len(points))
        near = np.reshape(map_.tree.query(points[seeds[j] - 1], k=reach)[1], -1) + 1
        free = np.setdiff1d(near, moved)
        if len(free):
            moved[j] = rng.choice(free)
    return moved
