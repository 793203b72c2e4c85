"""Phase 2: latent distances between customers and seeds (the paper, Section 2.3).

The Clustering Transformer reads depot, customers and seed tokens together. The
latent distance of the paper is that of unit vectors; with the pair head the geometry
between customer and seed is added, without which a network that describes nodes by
their surroundings cannot tell a seed from a far one with surroundings alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from clusterfirst.networks import geometry as near
from clusterfirst.networks.config import (
    GEOMETRY,
    HEAD_HIDDEN,
    PAIR_FEATURES,
    PAIR_HIDDEN,
    SHARED,
    VISIBLE_SEEDS,
    ModelConfig,
)
from clusterfirst.networks.trainable.inputs import (
    NodeBatch,
    Tokens,
    geometry,
    pair_features,
)
from clusterfirst.networks.trainable.layers import (
    MLP,
    Encoder,
    Lists,
    gather_rows,
)
from clusterfirst.problem.instance import IntArray


@dataclass(frozen=True)
class SeedBatch:
    """Seeds as token numbers (customers are tokens 1..n), padded."""

    index: Tensor  # (B, K) int64, 0 where not real
    real: Tensor  # (B, K) bool


@dataclass(frozen=True)
class ClusterOutput:
    """Costs of customers (tokens 1..T-1) at their candidate seeds."""

    cost: Tensor  # (B, N, C) latent distance, >= 0
    candidates: Tensor  # (B, N, C) seed numbers 0..K-1
    valid: Tensor  # (B, N, C) bool
    logit: Tensor  # (B, N, C) -softplus(gamma) cost + beta


class ClusterTransformer(nn.Module):
    """Encoder over nodes and seeds, and the assignment scoring head."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width = config.width
        # Depot, customer, seed. Normal numbers on "meta" would import torch's compiler,
        # two seconds of every start; uniform ones of the same variance do not.
        self.role = nn.Embedding(3, width, _weight=torch.zeros(3, width))
        nn.init.uniform_(self.role.weight, -math.sqrt(3), math.sqrt(3))
        self.encoder = Encoder(config, config.cluster_layers)
        self.gamma = nn.Parameter(torch.tensor(2.0))
        self.beta = nn.Parameter(torch.tensor(1.0))
        if config.pair_width:
            self.pair = MLP(PAIR_FEATURES, PAIR_HIDDEN, config.pair_width)
            self.fleet = nn.Linear(2, width)  # load per vehicle, customers per route
        if config.pair_head:
            self.customer_side = nn.Linear(width, SHARED)
            self.seed_side = nn.Linear(width, SHARED)
            self.pair_head = MLP(GEOMETRY + SHARED + 2, HEAD_HIDDEN, 1)

    def forward(
        self, hidden: Tensor, batch: NodeBatch, seeds: SeedBatch, candidates: Tensor
    ) -> ClusterOutput:
        """Score each customer at its candidates (B, N, C), -1 padded."""
        T = hidden.shape[1]
        tokens, x = self._tokens(hidden, batch, seeds)
        lists = seed_lists(batch, seeds, paired=hasattr(self, "pair"))
        pair = None
        if hasattr(self, "pair"):
            pair = self.pair(pair_features(tokens, lists.index))
        x = self.encoder(x, lists, pair)
        customers, seed_tokens = x[:, 1:T], x[:, T:]
        valid = (candidates >= 0) & batch.real[:, 1:, None]
        candidates = candidates.clamp(min=0)
        cost = _latent_distance(customers, seed_tokens, candidates)
        if hasattr(self, "pair_head"):
            cost = cost + self._pair_cost(
                (customers, seed_tokens), (batch, seeds), candidates, cost
            )
        logit = -nn.functional.softplus(self.gamma) * cost + self.beta
        return ClusterOutput(cost, candidates, valid, logit)

    def _tokens(
        self, hidden: Tensor, batch: NodeBatch, seeds: SeedBatch
    ) -> tuple[Tokens, Tensor]:
        """Depot, customers and seeds in one sequence, with their type embeddings."""
        B, T, _ = hidden.shape
        K = seeds.index.shape[1]
        role = torch.ones(B, T + K, dtype=torch.int64, device=hidden.device)
        role[:, 0], role[:, T:] = 0, 2
        x = torch.cat([hidden, gather_rows(hidden, seeds.index)], dim=1)
        x = x + self.role(role)
        if hasattr(self, "fleet"):
            count = seeds.real.sum(dim=1).clamp(min=1)
            per_route = torch.log(batch.customers.clamp(min=1) / count) / 3
            fleet = torch.stack([batch.load / count, per_route], dim=-1)
            x = x + self.fleet(fleet)[:, None]
        tokens = Tokens(
            torch.cat([batch.position, gather_rows(batch.position, seeds.index)], 1),
            torch.cat([batch.demand, gather_rows(batch.demand, seeds.index)], 1),
            role,
        )
        return tokens, x

    def _pair_cost(
        self,
        sides: tuple[Tensor, Tensor],
        where: tuple[NodeBatch, SeedBatch],
        candidates: Tensor,
        cost: Tensor,
    ) -> Tensor:
        """(B, N, C) non-negative cost from the geometry of customer and seed."""
        (customers, seed_tokens), (batch, seeds) = sides, where
        B, T = batch.real.shape
        everyone = torch.arange(1, T).expand(B, T - 1)
        chosen = gather_rows(seeds.index, candidates)  # (B, N, C)
        about = geometry(batch.position, everyone, chosen)
        shared = self.customer_side(customers)[:, :, None] * gather_rows(
            self.seed_side(seed_tokens), candidates
        )
        demand = batch.demand[:, 1:, None].expand_as(cost)
        parts = [about, shared, cost[..., None], demand[..., None]]
        out = self.pair_head(torch.cat(parts, dim=-1))[..., 0]
        return nn.functional.softplus(out)


def _latent_distance(customers: Tensor, seeds: Tensor, candidates: Tensor) -> Tensor:
    """Delta_ij = |h_i - c_j| of unit vectors, in [0, 2]."""
    h = nn.functional.normalize(customers, dim=-1)
    c = nn.functional.normalize(seeds, dim=-1).transpose(1, 2)
    dot = (h @ c).gather(-1, candidates)
    # The root has no derivative at 0, where a customer meets its own seed.
    return (2 - 2 * dot).clamp(min=1e-6, max=4.0).sqrt()


def all_seeds(batch: NodeBatch, seeds: SeedBatch) -> Tensor:
    """(B, N, K) every real seed as a candidate, -1 padded: the paper's dense Delta."""
    B, K = seeds.index.shape
    number = torch.arange(K, device=seeds.index.device).expand(B, K)
    number = torch.where(seeds.real, number, -1)
    return number[:, None].expand(-1, batch.real.shape[1] - 1, -1)


def nearest_seeds(batch: NodeBatch, seeds: SeedBatch, count: int) -> Tensor:
    """(B, N, C) the seeds with the least insertion cost, -1 padded."""
    found = torch.full((*batch.real.shape, min(count, seeds.index.shape[1])), -1)
    for b, own in enumerate(_real(seeds)):
        some = near.nearest_seeds(batch.position[b].numpy(), own, count)
        found[b, :, : some.shape[1]] = torch.from_numpy(some)
    return found[:, 1:]


def _real(seeds: SeedBatch) -> list[IntArray]:
    """The seeds of each instance, without padding, which comes last."""
    pairs = zip(seeds.index.numpy(), seeds.real.numpy(), strict=True)
    return [index[real] for index, real in pairs]


def seed_lists(batch: NodeBatch, seeds: SeedBatch, *, paired: bool) -> Lists:
    """Lists over depot, customers and seeds.

    Each seed inherits the list of its customer, the customer itself included. Which
    seed tokens are seen: in the paper's setting those whose customer is in the list
    (each seed inherits the column of its customer too, so it sees itself); with pair
    features (`paired`) itself and the nearest by insertion cost, so that every
    customer sees the seeds that may serve it. No token is listed twice.
    """
    T = batch.real.shape[1]
    B, K = seeds.index.shape
    own = T + torch.arange(K, device=seeds.index.device).expand(B, K)
    inherited = gather_rows(batch.lists.valid, seeds.index) & seeds.real[..., None]
    nodes = Lists(
        torch.cat([batch.lists.index, gather_rows(batch.lists.index, seeds.index)], 1),
        torch.cat([batch.lists.valid, inherited], 1),
    )
    seen = (_seeds_in_sight if paired else _seeds_of_listed_customers)(
        nodes, batch, seeds
    )
    # Padding must see something: itself.
    nodes.index[:, T:, 0] = torch.where(seeds.real, seeds.index, own)
    nodes.valid[:, T:, 0] = True
    return nodes.cat(seen)


def _seeds_in_sight(base: Lists, batch: NodeBatch, seeds: SeedBatch) -> Lists:
    """The nearest seed tokens by insertion cost; a seed sees itself first."""
    (B, T), K = batch.real.shape, seeds.index.shape[1]
    index = np.full((B, T + K, min(VISIBLE_SEEDS, K)), -1)
    for b, own in enumerate(_real(seeds)):
        some = near.nearest_seeds(batch.position[b].numpy(), own, VISIBLE_SEEDS)
        sight = near.seeds_in_sight(some, own, VISIBLE_SEEDS)
        index[b, : T + len(own), : sight.shape[1]] = T + sight
    found = torch.from_numpy(index)
    return Lists(found.clamp(min=0), found >= 0)


def _seeds_of_listed_customers(
    base: Lists, batch: NodeBatch, seeds: SeedBatch
) -> Lists:
    """Seed tokens of the customers in each list, as short as the batch allows."""
    B, T = batch.real.shape
    token_of = torch.full((B, T), -1, device=base.index.device)
    number = T + torch.arange(seeds.index.shape[1], device=base.index.device)
    index = torch.where(seeds.real, seeds.index, 0)
    token_of.scatter_(1, index, number.expand_as(index))
    token_of[:, 0] = -1  # padding landed on the depot, which is never a seed
    seen = gather_rows(token_of, base.index).masked_fill(~base.valid, -1)
    longest = int((seen >= 0).sum(dim=-1).max()) if seen.numel() else 0
    top = seen.topk(max(longest, 1), dim=-1).values
    return Lists(top.clamp(min=0), top >= 0)
