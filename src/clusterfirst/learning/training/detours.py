"""What a customer in a wrong vehicle costs: the detour there less the one at home.

Labels hold partitions without tours, so a detour is that between the two nodes of the
route, the depot among them, that are nearest to the customer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from clusterfirst.learning.training.batches import TrainBatch
from clusterfirst.stages.compiled import kernel

MOST = 10.0  # in units of the spacing: farther is as wrong


def extra_detours(batch: TrainBatch) -> Tensor:
    """(B, N, K) detour in every vehicle less that in the expert's, 0 to MOST."""
    B, N = batch.route.shape
    found = np.zeros((B, N, batch.seeds.index.shape[1]), dtype=np.float32)
    position = batch.nodes.position.numpy()
    route = batch.route.numpy()
    for b, n in enumerate(batch.nodes.customers.tolist()):
        K = int(route[b, :n].max()) + 1
        room = np.empty((2, K)), np.empty((2, K), dtype=np.int64)
        _detours(position[b, : n + 1], route[b, :n], found[b, :n, :K], room)
    return torch.from_numpy(found)


@kernel
def _detours(position: Any, route: Any, found: Any, room: Any) -> None:
    """Fill (n, K) with detours less those of the customers' own routes."""
    n, K = found.shape
    first, second = room[0]  # squared distances to
    near, next_near = room[1]  # these nodes
    for i in range(n):
        x, y = position[i + 1, 0], position[i + 1, 1]
        dx, dy = position[0, 0] - x, position[0, 1] - y
        first[:] = dx * dx + dy * dy
        second[:] = np.inf
        near[:], next_near[:] = 0, 0
        for m in range(n):
            if m == i:
                continue
            r = route[m]
            dx, dy = position[m + 1, 0] - x, position[m + 1, 1] - y
            d = dx * dx + dy * dy
            if d < first[r]:
                second[r], next_near[r] = first[r], near[r]
                first[r], near[r] = d, m + 1
            elif d < second[r]:
                second[r], next_near[r] = d, m + 1
        for r in range(K):
            a, b = near[r], next_near[r]
            if second[r] == np.inf:  # the depot alone: there and back
                found[i, r] = 2 * np.sqrt(first[r])
                continue
            dx = position[a, 0] - position[b, 0]
            dy = position[a, 1] - position[b, 1]
            apart = np.sqrt(dx * dx + dy * dy)
            found[i, r] = np.sqrt(first[r]) + np.sqrt(second[r]) - apart
        own = found[i, route[i]]
        for r in range(K):
            found[i, r] = min(max(found[i, r] - own, 0.0), MOST)
