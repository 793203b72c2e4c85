"""Where the seeds go once there are routes: to the middles of them.

A star is the estimate of a tour that the assignment minimises: out to the seed and
back, and every customer inserted on the way. The seed of a cluster is the member whose
star is shortest, as in the location-based heuristic of Bramel and Simchi-Levi (1995).
Assign, move, and assign again is k-means with these costs, classical or learned.
"""

from __future__ import annotations

import numpy as np

from clusterfirst.problem.instance import Instance, IntArray
from clusterfirst.stages.scores import Decoded

MAX_STAR = 400  # members of a route beyond which the seed is chosen from a sample


def centres(instance: Instance, found: Decoded) -> IntArray:
    """(K,) the customer of each route whose star is shortest."""
    seeds = []
    for route in found.routes:
        around = route
        if len(route) > MAX_STAR:
            around = route[:: -(-len(route) // MAX_STAR)]
        m = len(around)
        star = instance.lengths(around[:, None], around[None, :]).sum(axis=1)
        # 2 d(0,s) + sum_i (d(0,i) + d(i,s) - d(0,s)), without what s cannot change
        estimate = star - (m - 2) * instance.lengths(0, around)
        seeds.append(int(around[estimate.argmin()]))
    return np.array(seeds, dtype=np.int64)
