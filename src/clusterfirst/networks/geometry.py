"""The geometry of two tokens about the depot, and which seeds are near: compiled.

Nothing here is learned, so both forwards call the same kernels and cannot disagree.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clusterfirst.networks.elementary import log, summing
from clusterfirst.networks.nodes import Float32
from clusterfirst.problem.instance import IntArray

F = np.float32
# Typical value and spread of each feature over the training world.
CENTRE: Float32 = np.array([1.2, 0.83, 0.85, 0.87, 0.07, 2.0, 1.1], dtype=F)
SPREAD: Float32 = np.array([0.45, 0.33, 0.47, 0.5, 0.6, 0.65, 0.7], dtype=F)


def pair_geometry(
    position: Float32, mine: IntArray, others: IntArray, out: Float32
) -> None:
    """Write seven invariant features of each pair of rows of `position`: out (7, m).

    Lengths are in units of the spacing and enter as logarithms; the angle is the one
    at the depot; the lateral offset is the distance of one from the other's ray.
    """
    x = np.ascontiguousarray(position[:, 0])
    y = np.ascontiguousarray(position[:, 1])
    _geometry((x, y), mine, others, (CENTRE, F(1.0) / SPREAD), out)


@summing
def _geometry(place: Any, mine: Any, others: Any, scale: Any, out: Any) -> None:
    (x, y), (centre, rise) = place, scale
    one = F(1.0)
    for k in range(len(mine)):
        ax, ay, bx, by = x[mine[k]], y[mine[k]], x[others[k]], y[others[k]]
        apart = np.sqrt((ax - bx) * (ax - bx) + (ay - by) * (ay - by))
        ra, rb = np.sqrt(ax * ax + ay * ay), np.sqrt(bx * bx + by * by)
        across = abs(ax * by - ay * bx)
        both = ra * rb
        cosine = (ax * bx + ay * by) / max(both, F(1e-9))
        inward = ra - rb
        far = abs(inward)
        # asinh, odd; the larger of two lengths less than 1 apart is the smaller's.
        bend = log(far + np.sqrt(far * far + one)) * F(0.5)
        out[0, k] = (log(one + apart) - centre[0]) * rise[0]
        out[1, k] = ((cosine if both > F(1e-9) else one) - centre[1]) * rise[1]
        out[2, k] = (log(one + across / max(ra, F(1e-3))) - centre[2]) * rise[2]
        out[3, k] = (log(one + across / max(rb, F(1e-3))) - centre[3]) * rise[3]
        out[4, k] = ((bend if inward > F(0.0) else -bend) - centre[4]) * rise[4]
        shared = max(ra + rb - apart, F(0.0))
        out[5, k] = (log(one + shared) - centre[5]) * rise[5]
        # Detour of visiting a on the way to b: the insertion cost of the classics.
        detour = max(ra + apart - rb, F(0.0))
        out[6, k] = (log(one + detour) - centre[6]) * rise[6]


def nearest_seeds(position: Float32, seeds: IntArray, count: int) -> IntArray:
    """(T, C) the seeds with the least insertion cost at each node, least first.

    From the depot no seed is a detour: there the nearest count.
    """
    found = np.empty((len(position), min(count, len(seeds))), dtype=np.int64)
    room = np.empty(len(seeds), dtype=np.float32)
    least = np.empty(found.shape[1], dtype=np.float32)
    there = np.ascontiguousarray(position[seeds].T)
    if found.size:
        _nearest(position, there, (room, least), found)
    return found


@summing
def _nearest(position: Any, there: Any, rooms: Any, found: Any) -> None:
    detour, least = rooms
    K, C = len(detour), found.shape[1]
    for t in range(len(found)):
        x, y = position[t, 0], position[t, 1]
        here = np.sqrt(x * x + y * y)
        depot = F(0.0) if t == 0 else F(1.0)
        for k in range(K):
            sx, sy = there[0, k], there[1, k]
            apart = np.sqrt((x - sx) * (x - sx) + (y - sy) * (y - sy))
            detour[k] = here + apart - depot * np.sqrt(sx * sx + sy * sy)
        taken = 0
        for k in range(K):
            d = detour[k]
            if taken == C and d >= least[C - 1]:
                continue
            at = min(taken, C - 1)
            while at > 0 and least[at - 1] > d:
                least[at], found[t, at] = least[at - 1], found[t, at - 1]
                at -= 1
            least[at], found[t, at] = d, k
            taken = min(taken + 1, C)


def seeds_in_sight(near: IntArray, seeds: IntArray, count: int) -> IntArray:
    """(T + K, V) the seeds that nodes and seeds see: the nearest; itself first."""
    V = min(count, near.shape[1])
    ahead = near[seeds]  # (K, C), as their customers have them
    own = np.arange(len(seeds))[:, None]
    place = np.argsort(ahead != own, axis=1, kind="stable")[:, :V]
    first = np.take_along_axis(ahead, place, axis=1)
    lost = first[:, 0] != own[:, 0]  # crowded out by others at the same place
    first[lost] = np.hstack([own, ahead[:, : V - 1]])[lost]
    return np.vstack([near[:, :V], first])
