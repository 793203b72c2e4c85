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
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from clusterfirst.networks.layers import MLP, Lists, gather_rows
from clusterfirst.networks.neighbours import TIE_TOLERANCE, nearest
from clusterfirst.problem.instance import FloatArray, IntArray

BoolArray = npt.NDArray[np.bool_]
InputKind = Literal["psi", "xy", "relative", "psi+relative"]
KNOWS_CITY: tuple[InputKind, ...] = ("psi", "psi+relative")
NODE_FEATURES = 11
PAIR_FEATURES = 10
# Typical value and spread of each feature over the training world. Without them all
# nodes look alike to a fresh network (cosine 0.99 between hidden vectors, LOG.md).
NODE_CENTRE = (0.6, 0.58, 0.4, 0.66, 0.68, 0.4, 0.0, 0.8, 0.43, 0.94, 0.63)
NODE_SPREAD = (0.18, 0.22, 0.3, 0.28, 0.2, 0.2, 1.0, 0.2, 0.1, 0.06, 0.1)
GEOMETRY_CENTRE = (1.2, 0.83, 0.85, 0.87, 0.07, 2.0, 1.1)
GEOMETRY_SPREAD = (0.45, 0.33, 0.47, 0.5, 0.6, 0.65, 0.7)
SPACING_NEIGHBOURS = 5  # the unit of length is the mean distance to this many


@dataclass(frozen=True)
class NodeArrays:
    """One instance as plain arrays, depot first."""

    coords: FloatArray  # (n + 1, 2) in the plane
    demands: IntArray  # (n + 1,) exact units
    capacity: int
    rows: IntArray | None = None  # (n + 1,) rows of the city, for psi
    lists: IntArray | None = None  # (n + 1, L) neighbour lists, where known already


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

    @property
    def radius(self) -> Tensor:
        """(B, T) distance to the depot in units of the spacing."""
        length: Tensor = torch.linalg.vector_norm(self.position, dim=-1)
        return length


@dataclass(frozen=True)
class NeighbourRule:
    """How many neighbours a token sees: `least`, or more where routes are longer.

    The paper has 20 always; a list shorter than a route cannot show the route, so
    ours grows with the customers per route up to `most`.
    """

    least: int = 20
    most: int = 20
    per_route: float = 0.0  # times customers per route

    def size(self, arrays: NodeArrays) -> int:
        """k for one instance."""
        n = len(arrays.demands) - 1
        total = int(arrays.demands.sum())
        per_route = n * arrays.capacity / total if total else n
        return int(np.clip(np.ceil(self.per_route * per_route), self.least, self.most))


def neighbour_lists(arrays: NodeArrays, rule: NeighbourRule) -> IntArray:
    """(n + 1, L): itself, the depot, then the nearest customers; -1 pads.

    The depot is in every list and sees its own nearest customers: a plain k-NN mask
    would hide it from most customers. Ties at the k-th distance are all kept up to
    2k and beyond that chosen by demand and distance to the depot, never by index.
    """
    if arrays.lists is not None:
        return arrays.lists
    n = len(arrays.demands) - 1
    everyone = np.arange(n + 1)
    depot = np.where(everyone == 0, -1, 0)
    if n == 0:
        return np.column_stack([everyone, depot])
    customers = arrays.coords[1:]
    radius = np.linalg.norm(customers - arrays.coords[0], axis=1)
    k = rule.size(arrays)
    around = nearest(customers, k, keys=(arrays.demands[1:], radius))  # (n, width)
    around = np.where(around >= 0, around + 1, -1)
    about_depot = np.full(around.shape[1], -1)
    closest = _nearest_to_depot(radius, arrays.demands[1:], around.shape[1])
    about_depot[: len(closest)] = closest + 1
    return np.column_stack([everyone, depot, np.vstack([about_depot, around])])


def _nearest_to_depot(radius: FloatArray, demands: IntArray, most: int) -> IntArray:
    """At most so many customers, nearest first; what is alike is taken all or none."""
    order = np.argsort(radius, kind="stable")
    apart = np.diff(radius[order]) > TIE_TOLERANCE * radius[order][1:]
    ring = np.concatenate([[0], np.cumsum(apart)])  # equal radius up to rounding
    by_demand = np.lexsort((demands[order], ring))
    order, ring = order[by_demand], ring[by_demand]
    if len(order) <= most:
        return order
    alike = (np.diff(ring) == 0) & (np.diff(demands[order]) == 0)
    cuts = np.flatnonzero(~alike) + 1  # places where a list may end
    return order[: cuts[cuts <= most].max(initial=0)]


def collate(items: Sequence[NodeArrays], rule: NeighbourRule) -> NodeBatch:
    """Pad instances to one batch and compute the geometry all networks share."""
    lists = [neighbour_lists(item, rule) for item in items]
    B, T = len(items), max(len(item.demands) for item in items)
    L = max(one.shape[1] for one in lists)
    coords = np.zeros((B, T, 2))
    centred = np.zeros((B, T, 2))
    demands = np.zeros((B, T))
    rows = np.zeros((B, T), dtype=np.int64)
    index = np.full((B, T, L), -1)
    for b, item in enumerate(items):
        size = len(item.demands)
        coords[b, :size] = item.coords
        centred[b, :size] = item.coords - item.coords[0]
        demands[b, :size] = item.demands
        index[b, :size, : lists[b].shape[1]] = lists[b]
        if item.rows is not None:
            rows[b, :size] = item.rows
    sizes = np.array([len(item.demands) for item in items])
    real = np.arange(T)[None] < sizes[:, None]
    index[:, :, 0] = np.arange(T)  # padding sees itself
    capacity = np.array([item.capacity for item in items], dtype=np.float64)
    valid = index >= 0
    index = np.where(valid, index, 0)
    position, spacing = _in_units_of_spacing(centred, index, valid, real)
    share = demands / capacity[:, None]
    features = _node_features(position, spacing, share, real)
    return NodeBatch(
        coords=torch.from_numpy(coords).float(),
        position=torch.from_numpy(position).float(),
        demand=torch.from_numpy(share).float(),
        raw_demand=torch.from_numpy(demands).float(),
        rows=torch.from_numpy(rows),
        real=torch.from_numpy(real),
        lists=Lists(torch.from_numpy(index), torch.from_numpy(valid)),
        features=torch.from_numpy(features).float(),
        load=torch.from_numpy(share.sum(axis=1)).float(),
        customers=torch.from_numpy(sizes - 1),
    )


def _in_units_of_spacing(
    centred: FloatArray, index: IntArray, valid: BoolArray, real: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Positions divided by the spacing, and each node's own spacing (B, T, 2).

    The second array holds, per node and in the same unit, the mean distance to its
    SPACING_NEIGHBOURS nearest and the distance to the nearest.
    """
    B = len(centred)
    seen = centred[np.arange(B)[:, None, None], index[..., 2:]]  # (B, T, L - 2, 2)
    apart = np.sqrt(((seen - centred[:, :, None]) ** 2).sum(axis=-1))
    apart = np.where(valid[..., 2:], apart, np.inf)
    few = np.sort(apart, axis=-1)[..., :SPACING_NEIGHBOURS]
    there = np.isfinite(few)
    few = np.where(there, few, 0.0)
    near = few.sum(axis=-1) / np.maximum(there.sum(axis=-1), 1)  # (B, T)
    closest = few[..., 0] if few.shape[-1] else np.zeros(real.shape)
    customer = real.copy()
    customer[:, 0] = False
    count = np.maximum(customer.sum(axis=1), 1)
    unit = (near * customer).sum(axis=1) / count  # (B,)
    # Coinciding points have no spacing: fall back to the extent, then to 1.
    reach = np.sqrt((centred**2).sum(axis=-1)).max(axis=1)
    unit = np.where(unit > 1e-6 * reach, unit, 1e-6 * reach)
    unit = np.where(unit > 0, unit, 1.0)
    spacing = np.stack([near, closest], axis=-1) / unit[:, None, None]
    return centred / unit[:, None, None], spacing


def _node_features(
    position: FloatArray, spacing: FloatArray, share: FloatArray, real: BoolArray
) -> FloatArray:
    """(B, T, NODE_FEATURES) invariant description of each node and its instance."""
    radius = np.sqrt((position**2).sum(axis=-1))
    reach = np.maximum(radius.max(axis=1, keepdims=True), 1e-9)
    customers = real.sum(axis=1, keepdims=True) - 1.0
    load = share.sum(axis=1, keepdims=True)
    per_route = customers / np.maximum(load, 1e-9)
    vehicles = np.ceil(load - 1e-9)
    mean_share = np.maximum(load / np.maximum(customers, 1), 1e-9)
    ones = np.ones_like(radius)
    depot = np.zeros_like(radius)
    depot[:, 0] = 1.0
    columns = [
        np.log1p(radius) / 3,
        radius / reach,
        share * 4,
        np.log1p(share / mean_share),
        np.log1p(spacing[..., 0]),
        np.log1p(spacing[..., 1]),
        depot,
        ones * np.log(np.maximum(per_route, 1)) / 3,
        ones * np.log1p(vehicles) / 5,
        ones * load / np.maximum(vehicles, 1),
        ones * np.log1p(customers) / 7,
    ]
    scaled = (np.stack(columns, axis=-1) - NODE_CENTRE) / NODE_SPREAD
    return scaled * real[..., None]


class NodeInput(nn.Module):
    """(B, T, D) input vectors: where a node is, beside what it wants (Eq. 2)."""

    def __init__(
        self, kind: InputKind, width: int, *, raw_demand: bool, psi: Tensor | None
    ) -> None:
        super().__init__()
        self.kind, self.raw_demand = kind, raw_demand
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
    """(B, T, L, PAIR_FEATURES) geometry of each token and those in its list.

    Lengths are in units of the spacing and enter as logarithms; the angle is the one
    at the depot; the lateral offset is the distance of one from the other's ray.
    """
    other = gather_rows(tokens.position, index)  # (B, T, L, 2)
    here = tokens.position[:, :, None]
    role = gather_rows(tokens.role, index)
    return torch.stack(
        [
            *geometry(here, other),
            gather_rows(tokens.demand, index) * 4,
            (role == 0).float(),
            (role == 2).float(),
        ],
        dim=-1,
    )


def geometry(a: Tensor, b: Tensor) -> list[Tensor]:
    """Seven invariant features of positions a and b (..., 2) about the depot."""
    distance = (a - b).norm(dim=-1)
    ra, rb = a.norm(dim=-1), b.norm(dim=-1)
    ra, rb = ra.expand_as(distance), rb.expand_as(distance)
    dot = (a * b).sum(dim=-1)
    cross = (a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]).abs()
    safe = (ra * rb).clamp(min=1e-9)
    cosine = torch.where(ra * rb > 1e-9, dot / safe, torch.ones_like(dot))
    features = [
        torch.log1p(distance),
        cosine,
        torch.log1p(cross / ra.clamp(min=1e-3)),
        torch.log1p(cross / rb.clamp(min=1e-3)),
        torch.asinh(ra - rb) / 2,
        torch.log1p((ra + rb - distance).clamp(min=0)),
        # Detour of visiting a on the way to b: the insertion cost of the classics.
        torch.log1p((ra + distance - rb).clamp(min=0)),
    ]
    return [
        (feature - centre) / spread
        for feature, centre, spread in zip(
            features, GEOMETRY_CENTRE, GEOMETRY_SPREAD, strict=True
        )
    ]
