"""The four losses of the paper (Section 2.2, 2.3 and Appendix E).

L = L_seed + w L_con + L_BCE + L_OT. Each is a mean over the customers (or pairs)
of a batch, so that the weights mean the same at every batch and instance size.

At inference the clusters grow around decoded seeds (Algorithm 1), which the Clustering
Transformer never meets while seeds are teacher-forced. In a share of the batches each
route is therefore represented by the first decoded seed that lies in it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from clusterfirst.learning.training.batches import TrainBatch
from clusterfirst.networks.seed_decoding import PackingRule, decode_seeds
from clusterfirst.networks.trainable.cluster import ClusterOutput, SeedBatch
from clusterfirst.networks.trainable.layers import gather_rows
from clusterfirst.networks.trainable.router import Router
from clusterfirst.networks.trainable.seeds import SeedOutput
from clusterfirst.networks.trainable.transport import (
    TransportProblem,
    cross_entropy,
    plan_divergence,
    sinkhorn,
)
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


FAR = 1e4  # cost of a seed that is no candidate: the plan puts no mass there


@dataclass(frozen=True)
class LossSettings:
    """Weights and temperatures; the defaults are ours, `paper` overrides them."""

    contrast_weight: float = 1.0  # the paper's 0.05 times its sum over N = 100 is 5
    contrast_temperature: float = 0.1  # the paper gives none
    bce: bool = True
    transport: Literal["closed-form", "unrolled"] = "closed-form"
    transport_weight: float = 1.0
    epsilon: float = 0.01
    iterations: int = 20


@dataclass(frozen=True)
class Losses:
    """The terms, for the log, and the share of customers at their right seed."""

    total: Tensor
    seed: Tensor
    contrast: Tensor
    bce: Tensor
    transport: Tensor
    accuracy: Tensor


def training_losses(
    router: Router, batch: TrainBatch, settings: LossSettings
) -> Losses:
    """Forward pass with teacher-forced (or the model's own) seeds, and all losses."""
    nodes = batch.nodes
    encoded = router.encode(nodes)
    if batch.own_seeds:
        batch = with_own_seeds(batch, encoded, router.config.packing)
    candidates = with_true_seed(router.candidates(nodes, batch.seeds), batch.route)
    scored = router.score(encoded.hidden, nodes, batch.seeds, candidates)
    real = nodes.real[:, 1:]
    seed = functional.binary_cross_entropy_with_logits(
        encoded.logit[:, 1:][real], batch.is_seed[real]
    )
    contrast = contrastive_loss(
        encoded, batch, settings, listed=router.config.pack_neighbours
    )
    target = (scored.candidates == batch.route[..., None]) & scored.valid
    bce = functional.binary_cross_entropy_with_logits(
        scored.logit[scored.valid], target[scored.valid].float()
    )
    transport = transport_loss(scored, batch, settings)
    total = (
        seed
        + settings.contrast_weight * contrast
        + (bce if settings.bce else 0.0)
        + settings.transport_weight * transport
    )
    guess = scored.cost.masked_fill(~scored.valid, torch.inf).argmin(dim=-1)
    right = target.gather(-1, guess[..., None])[..., 0]
    return Losses(
        total,
        seed.detach(),
        contrast.detach(),
        bce.detach(),
        transport.detach(),
        right[real].float().mean(),
    )


def with_true_seed(candidates: Tensor, route: Tensor) -> Tensor:
    """Put the expert's seed in the last place where the nearest ones leave it out."""
    missing = (candidates != route[..., None]).all(dim=-1) & (route >= 0)
    last = torch.where(missing, route, candidates[..., -1])
    return torch.cat([candidates[..., :-1], last[..., None]], dim=-1)


def contrastive_loss(
    encoded: SeedOutput, batch: TrainBatch, settings: LossSettings, *, listed: bool
) -> Tensor:
    """Supervised contrastive loss, the mean over positives outside the log.

    Over all pairs of an instance as printed, or (`listed`) over each customer's
    neighbour list, which is what decoding packs from. Anchors without a positive
    have no term; the mean over anchors stands for the paper's sum, so that the
    weight does not depend on the size of an instance.
    """
    z = encoded.contrast[:, 1:]
    route = batch.route
    if listed:
        index = batch.nodes.lists.index[:, 1:, 2:]
        seen = batch.nodes.lists.valid[:, 1:, 2:]
        # All pairs in one product, then the listed ones: gathering vectors first takes
        # a tenth of a whole training step.
        logits = (z @ encoded.contrast.transpose(1, 2)).gather(-1, index)  # (B, N, L)
        same = gather_rows(functional.pad(route, (1, 0), value=-2), index)
        positive = (same == route[..., None]) & seen
    else:
        logits = z @ z.transpose(1, 2)
        itself = torch.eye(z.shape[1], dtype=torch.bool, device=z.device)
        seen = (route >= 0)[:, None] & ~itself
        positive = (route[:, :, None] == route[:, None]) & seen
    positive = positive & (route >= 0)[..., None]
    logits = (logits / settings.contrast_temperature).masked_fill(~seen, -1e9)
    log_share = logits - logits.logsumexp(dim=-1, keepdim=True)
    count = positive.sum(dim=-1)
    anchors = count > 0
    mean = (log_share * positive).sum(dim=-1) / count.clamp(min=1)
    return -(mean * anchors).sum() / anchors.sum().clamp(min=1)


def transport_loss(
    scored: ClusterOutput, batch: TrainBatch, settings: LossSettings
) -> Tensor:
    """Cross-entropy between the expert's plan and the entropic one, per customer."""
    B, N, _ = scored.cost.shape
    K = batch.seeds.index.shape[1]
    real = batch.nodes.real[:, 1:]
    far = torch.full((B, N, K), FAR, device=scored.cost.device)
    index = torch.where(scored.valid, scored.candidates, 0)
    nearer = torch.where(scored.valid, scored.cost - FAR, 0.0)
    cost = far.scatter_add(-1, index, nearer)  # (B, N, K)
    share = batch.nodes.demand[:, 1:] * real
    problem = TransportProblem(cost, share, batch.slack, batch.seeds.real, real)
    effort = settings.epsilon, settings.iterations
    if settings.transport == "unrolled":
        return cross_entropy(sinkhorn(problem, *effort), batch.route).mean()
    each = plan_divergence(problem, batch.route, *effort)
    return (each / share.sum(dim=1).clamp(min=1e-6)).mean()
