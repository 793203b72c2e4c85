"""Phase 2: latent distances between customers and seeds (the paper, Section 2.3).

The Clustering Transformer reads depot, customers and seed tokens together. The
latent distance of the paper is that of unit vectors; with the pair head the geometry
between customer and seed is added, without which a network that describes nodes by
their surroundings cannot tell a seed from a far one with surroundings alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from clusterfirst.networks.inputs import (
    PAIR_FEATURES,
    NodeBatch,
    Tokens,
    geometry,
    pair_features,
)
from clusterfirst.networks.layers import MLP, Encoder, EncoderShape, Lists, gather_rows

PAIR_HIDDEN = 32
SHARED = 16  # channels in which the pair head compares customer and seed
BLOCK = 4_000_000  # customers x seeds in memory at once
VISIBLE_SEEDS = 8  # seed tokens a token sees when pair features are on


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

    def __init__(self, shape: EncoderShape, *, pair_head: bool) -> None:
        super().__init__()
        width = shape.width
        # Depot, customer, seed. Normal numbers on "meta" would import torch's compiler,
        # two seconds of every start; uniform ones of the same variance do not.
        self.role = nn.Embedding(3, width, _weight=torch.zeros(3, width))
        nn.init.uniform_(self.role.weight, -math.sqrt(3), math.sqrt(3))
        self.encoder = Encoder(shape)
        self.gamma = nn.Parameter(torch.tensor(2.0))
        self.beta = nn.Parameter(torch.tensor(1.0))
        if shape.pair_width:
            self.pair = MLP(PAIR_FEATURES, PAIR_HIDDEN, shape.pair_width)
            self.fleet = nn.Linear(2, width)  # load per vehicle, customers per route
        if pair_head:
            self.customer_side = nn.Linear(width, SHARED)
            self.seed_side = nn.Linear(width, SHARED)
            self.pair_head = MLP(7 + SHARED + 2, 2 * PAIR_HIDDEN, 1)

    def forward(
        self, hidden: Tensor, batch: NodeBatch, seeds: SeedBatch, candidates: Tensor
    ) -> ClusterOutput:
        """Score each customer at its candidates (B, N, C), -1 padded."""
        T = hidden.shape[1]
        tokens, x = self._tokens(hidden, batch, seeds)
        lists = seed_lists(batch, seeds, tokens if hasattr(self, "pair") else None)
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
                (customers, seed_tokens), (batch, tokens), candidates, cost
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
        where: tuple[NodeBatch, Tokens],
        candidates: Tensor,
        cost: Tensor,
    ) -> Tensor:
        """(B, N, C) non-negative cost from the geometry of customer and seed."""
        (customers, seed_tokens), (batch, tokens) = sides, where
        T = batch.real.shape[1]
        position = gather_rows(tokens.position[:, T:], candidates)  # (B, N, C, 2)
        about = torch.stack(geometry(batch.position[:, 1:, None], position), dim=-1)
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
    blocks = _blocks(h.shape[1], c.shape[2])
    dot = torch.cat([(h[:, b] @ c).gather(-1, candidates[:, b]) for b in blocks], 1)
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
    K = seeds.index.shape[1]
    position = batch.position[:, 1:]
    found = []
    for block in _blocks(position.shape[1], K):
        detour = _detours(position[:, block], batch, seeds)  # (B, block, K)
        least, order = detour.topk(min(count, K), largest=False)
        found.append(torch.where(least.isfinite(), order, -1))
    return torch.cat(found, dim=1)


def _blocks(rows: int, width: int) -> list[slice]:
    """Cut rows so that no block times width exceeds BLOCK cells: memory stays O(N)."""
    step = max(1, BLOCK // max(1, width))
    return [slice(start, start + step) for start in range(0, max(1, rows), step)]


def _detours(position: Tensor, batch: NodeBatch, seeds: SeedBatch) -> Tensor:
    """(B, M, K) cost of inserting a position into the round trip to each seed."""
    there = gather_rows(batch.position, seeds.index)  # (B, K, 2)
    detour: Tensor = (
        position.norm(dim=-1)[:, :, None]
        + torch.cdist(position, there, compute_mode="donot_use_mm_for_euclid_dist")
        - there.norm(dim=-1)[:, None]
    )
    return detour.masked_fill(~seeds.real[:, None], float("inf"))


def detours_at(batch: NodeBatch, seeds: SeedBatch, candidates: Tensor) -> Tensor:
    """(B, N, C) the same for the customers, at their candidates only: memory O(N)."""
    here = batch.position[:, 1:, None]
    there = gather_rows(gather_rows(batch.position, seeds.index), candidates)
    out: Tensor = here.norm(dim=-1) + (here - there).norm(dim=-1) - there.norm(dim=-1)
    return out


def seed_lists(batch: NodeBatch, seeds: SeedBatch, tokens: Tokens | None) -> Lists:
    """Lists over depot, customers and seeds.

    Each seed inherits the list of its customer, the customer itself included. Which
    seed tokens are seen: in the paper's setting those whose customer is in the list
    (each seed inherits the column of its customer too, so it sees itself); with pair
    features (`tokens` given) itself and the nearest by insertion cost, so that every
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
    if tokens is None:
        seen = _seeds_of_listed_customers(nodes, batch, seeds)
    else:
        seen = _seeds_in_sight(tokens, batch, seeds)
    # Padding must see something: itself.
    nodes.index[:, T:, 0] = torch.where(seeds.real, seeds.index, own)
    nodes.valid[:, T:, 0] = True
    return nodes.cat(seen)


def _seeds_in_sight(tokens: Tokens, batch: NodeBatch, seeds: SeedBatch) -> Lists:
    """The nearest seed tokens by insertion cost; a seed sees itself first."""
    T, K = batch.real.shape[1], seeds.index.shape[1]
    near, finite = [], []
    for block in _blocks(T + K, K):
        detour = _detours(tokens.position[:, block], batch, seeds)  # (B, block, K)
        rows = torch.arange(T + K, device=detour.device)[block]
        if block.start == 0:
            # From the depot no seed is a detour: there the nearest count.
            reach = gather_rows(batch.radius, seeds.index)
            detour[:, 0] = reach.masked_fill(~seeds.real, float("inf"))
        own = (rows[:, None] - T == torch.arange(K, device=rows.device))[None]
        detour = detour.masked_fill(own & seeds.real[:, None], -1.0)
        least, order = detour.topk(min(VISIBLE_SEEDS, K), largest=False)
        near.append(T + order)
        finite.append(least.isfinite())
    return Lists(torch.cat(near, dim=1), torch.cat(finite, dim=1))


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
