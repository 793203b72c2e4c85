"""What the networks see: padded batches of nodes, and the geometry between them.

Four ways to describe a node, a switch of the configuration: `psi` (a row of the
city's learned vocabulary, the paper's Eq. 2), `xy` (raw coordinates), `relative`
(distances and angles about the depot in units of the local spacing: unchanged by
rotation, reflection, translation and scaling, and by scaling demands with capacity)
and `psi+relative` (both: what holds on every map, and what is known of this one).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from clusterfirst.networks.config import (
    GEOMETRY,
    KNOWS_CITY,
    ModelConfig,
)
from clusterfirst.networks.geometry import pair_geometry
from clusterfirst.networks.nodes import (
    NODE_FEATURES,
    NeighbourRule,
    NodeArrays,
    describe,
)
from clusterfirst.networks.trainable.layers import MLP, Lists, gather_rows


@dataclass(frozen=True)
class NodeBatch:
    """A padded batch, depot in token 0; padding tokens see only themselves."""

    coords: Tensor  # (B, T, 2) as given
    position: Tensor  # (B, T, 2) about the depot, in units of the spacing
    demand: Tensor  # (B, T) share of the capacity q_i
    raw_demand: Tensor  # (B, T)
    rows: Tensor  # (B, T) city rows, 0 where unknown
    real: Tensor  # (B, T) bool
    lists: Lists  # (B, T, L)
    features: Tensor  # (B, T, NODE_FEATURES)
    load: Tensor  # (B,) total demand in vehicles
    customers: Tensor  # (B,) number of customers


def collate(items: Sequence[NodeArrays], rule: NeighbourRule) -> NodeBatch:
    """Pad instances to one batch."""
    found = [describe(item, rule) for item in items]
    B, T = len(items), max(len(item.demands) for item in items)
    L = max(nodes.lists.shape[1] for nodes in found)
    coords, raw_demand = np.zeros((B, T, 2)), np.zeros((B, T))
    position = np.zeros((B, T, 2), dtype=np.float32)
    demand = np.zeros((B, T), dtype=np.float32)
    features = np.zeros((B, T, NODE_FEATURES), dtype=np.float32)
    rows = np.zeros((B, T), dtype=np.int64)
    index = np.full((B, T, L), -1)
    for b, nodes in enumerate(found):
        item, size = nodes.arrays, len(nodes.demand)
        coords[b, :size], raw_demand[b, :size] = item.coords, item.demands
        position[b, :size], demand[b, :size] = nodes.position, nodes.demand
        features[b, :size] = nodes.features
        index[b, :size, : nodes.lists.shape[1]] = nodes.lists
        if item.rows is not None:
            rows[b, :size] = item.rows
    sizes = np.array([len(item.demands) for item in items])
    index[:, :, 0] = np.arange(T)  # padding sees itself
    valid = index >= 0
    return NodeBatch(
        coords=torch.from_numpy(coords).float(),
        position=torch.from_numpy(position),
        demand=torch.from_numpy(demand),
        raw_demand=torch.from_numpy(raw_demand).float(),
        rows=torch.from_numpy(rows),
        real=torch.from_numpy(np.arange(T)[None] < sizes[:, None]),
        lists=Lists(
            torch.from_numpy(np.where(valid, index, 0)), torch.from_numpy(valid)
        ),
        features=torch.from_numpy(features),
        load=torch.tensor([nodes.load for nodes in found]),
        customers=torch.from_numpy(sizes - 1),
    )


class NodeInput(nn.Module):
    """(B, T, D) input vectors: where a node is, beside what it wants (Eq. 2)."""

    def __init__(self, config: ModelConfig, psi: Tensor | None) -> None:
        super().__init__()
        kind, width = config.input, config.width
        self.kind, self.raw_demand = kind, config.raw_demand
        self.depot = nn.Parameter(torch.zeros(width))
        if kind in KNOWS_CITY:
            assert psi is not None
            # Frozen: the autoencoder is discarded, its table stays (the paper, 2.1).
            self.psi = nn.Parameter(psi, requires_grad=False)
        if "relative" in kind:
            self.node = MLP(NODE_FEATURES, width, width)
            if kind in KNOWS_CITY:
                # Zero at first: the weights of a `relative` model start it (`--init`).
                self.known = nn.Linear(self.psi.shape[1], width, bias=False)
                nn.init.zeros_(self.known.weight)
            return
        self.demand = nn.Linear(1, width // 2)
        if kind == "xy":
            self.place = nn.Linear(2, width // 2)
        elif self.psi.shape[1] != width // 2:
            self.adapt = nn.Linear(self.psi.shape[1], width // 2)

    def forward(self, batch: NodeBatch) -> Tensor:
        """Return the input vectors; the depot has a vector of its own on top."""
        if "relative" in self.kind:
            x: Tensor = self.node(batch.features)
            if self.kind in KNOWS_CITY:
                x = x + self.known(self.psi[batch.rows])
        else:
            if self.kind == "xy":
                place = self.place(batch.coords)
            else:
                place = self.psi[batch.rows]
                place = self.adapt(place) if hasattr(self, "adapt") else place
            wanted = batch.raw_demand if self.raw_demand else batch.demand
            x = torch.cat([place, self.demand(wanted[..., None])], dim=-1)
        depot = torch.zeros(x.shape[1], 1, device=x.device)
        depot[0] = 1.0
        return x + depot * self.depot


@dataclass(frozen=True)
class Tokens:
    """Where tokens are and what they want: nodes, or nodes followed by seeds."""

    position: Tensor  # (B, T, 2) in units of the spacing
    demand: Tensor  # (B, T)
    role: Tensor  # (B, T) 0 depot, 1 customer, 2 seed


def pair_features(tokens: Tokens, index: Tensor) -> Tensor:
    """(B, T, L, PAIR_FEATURES) geometry of each token and those in its list."""
    role = gather_rows(tokens.role, index)
    everyone = torch.arange(index.shape[1]).expand(index.shape[:2])
    more = [
        gather_rows(tokens.demand, index) * 4,
        (role == 0).float(),
        (role == 2).float(),
    ]
    about = geometry(tokens.position, everyone, index)
    return torch.cat([about, torch.stack(more, dim=-1)], dim=-1)


def geometry(position: Tensor, mine: Tensor, others: Tensor) -> Tensor:
    """(B, M, C, 7) invariant features of tokens mine (B, M) and others (B, M, C)."""
    B, T, _ = position.shape
    first = T * torch.arange(B)[:, None]
    rows = (mine + first)[:, :, None].expand_as(others).reshape(-1)
    there = (others + first[:, :, None]).reshape(-1)
    out = np.empty((GEOMETRY, len(rows)), dtype=np.float32)
    pair_geometry(position.reshape(-1, 2).numpy(), rows.numpy(), there.numpy(), out)
    return torch.from_numpy(out.T.copy()).view(*others.shape, GEOMETRY)
