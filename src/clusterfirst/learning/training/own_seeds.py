"""Training at the seeds the model itself would pick, not only at the teacher's.

At inference the clusters grow around decoded seeds (Algorithm 1), which the Clustering
Transformer never meets while seeds are teacher-forced. In a share of the batches each
route is therefore represented by the first decoded seed that lies in it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from clusterfirst.learning.training.batches import TrainBatch
from clusterfirst.networks.seed_decoding import PackingRule, decode_seeds
from clusterfirst.networks.trainable.cluster import SeedBatch
from clusterfirst.networks.trainable.seeds import SeedOutput
from clusterfirst.problem.instance import IntArray


def with_own_seeds(
    batch: TrainBatch, encoded: SeedOutput, packing: PackingRule
) -> TrainBatch:
    """Replace the teacher's seeds by decoded ones where a route has one.

    Seed j stays in route j. A second seed in one route is left out; a route without
    any keeps the teacher's.
    """
    logit = encoded.logit.detach().numpy()
    contrast = encoded.contrast.detach().numpy()
    demands = batch.nodes.raw_demand.numpy().astype(np.int64)
    index = batch.seeds.index.clone()
    vehicles = batch.seeds.real.sum(dim=1).tolist()
    for b, n in enumerate(batch.nodes.customers.tolist()):
        wanted = demands[b, 1 : n + 1]
        limits = packing.limits(wanted, int(batch.capacity[b]), int(vehicles[b]))
        around = np.empty((n, 0), dtype=np.int64)
        if packing.neighbours_only:
            around = _around(batch, b, n)
        found = decode_seeds(
            logit[b, 1 : n + 1], contrast[b, 1 : n + 1], wanted, limits, around
        )
        found = found[found >= 0]
        routes = batch.route[b].numpy()[found]
        _, first = np.unique(routes, return_index=True)
        kept = torch.from_numpy(found[first])
        index[b, batch.route[b, kept]] = kept + 1
    return replace(batch, seeds=SeedBatch(index, batch.seeds.real))


def _around(batch: TrainBatch, b: int, n: int) -> IntArray:
    """(n, L) the neighbours a simulated vehicle packs from, -1 padded."""
    lists = batch.nodes.lists
    near = lists.index[b, 1 : n + 1, 2:].numpy() - 1
    return np.where(lists.valid[b, 1 : n + 1, 2:].numpy(), near, -1)
