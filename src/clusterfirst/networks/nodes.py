"""What the networks see of an instance: neighbour lists and invariant features.

Both forwards, the one that answers and the one that learns, begin here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clusterfirst.networks.neighbours import TIE_TOLERANCE, nearest
from clusterfirst.problem.instance import FloatArray, Instance, IntArray

Float32 = npt.NDArray[np.float32]
NODE_FEATURES = 11
# Typical value and spread of each feature over the training world. Without them all
# nodes look alike to a fresh network (cosine 0.99 between hidden vectors, log/).
NODE_CENTRE = (0.6, 0.58, 0.4, 0.66, 0.68, 0.4, 0.0, 0.8, 0.43, 0.94, 0.63)
NODE_SPREAD = (0.18, 0.22, 0.3, 0.28, 0.2, 0.2, 1.0, 0.2, 0.1, 0.06, 0.1)
SPACING_NEIGHBOURS = 5  # the unit of length is the mean distance to this many


@dataclass(frozen=True)
class NodeArrays:
    """One instance as plain arrays, depot first."""

    coords: FloatArray  # (n + 1, 2) in the plane
    demands: IntArray  # (n + 1,) exact units
    capacity: int
    rows: IntArray | None = None  # (n + 1,) rows of the city, for psi
    lists: IntArray | None = None  # (n + 1, L) neighbour lists, where known already

    @classmethod
    def of(cls, instance: Instance, rows: IntArray | None = None) -> NodeArrays:
        """What the networks may see of an instance."""
        return cls(instance.plane, instance.demand_units, instance.capacity_units, rows)


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


@dataclass(frozen=True)
class Nodes:
    """One instance as the networks see it, depot first."""

    arrays: NodeArrays
    lists: IntArray  # (n + 1, L): itself, the depot, neighbours; -1 pads
    position: Float32  # (n + 1, 2) about the depot, in units of the spacing
    demand: Float32  # (n + 1,) share of the capacity q_i
    features: Float32  # (n + 1, NODE_FEATURES)
    load: float  # total demand in vehicles

    @property
    def customers(self) -> int:
        """Number of customers."""
        return len(self.demand) - 1


def describe(arrays: NodeArrays, rule: NeighbourRule) -> Nodes:
    """Lists, and positions, demands and features in units that maps have in common."""
    lists = neighbour_lists(arrays, rule)
    centred = arrays.coords - arrays.coords[0]
    position, spacing = _in_units_of_spacing(centred, lists)
    share = arrays.demands / float(arrays.capacity)
    return Nodes(
        arrays,
        lists,
        position.astype(np.float32),
        share.astype(np.float32),
        _node_features(position, spacing, share),
        float(share.sum()),
    )


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


def _in_units_of_spacing(
    centred: FloatArray, lists: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Positions divided by the spacing, and each node's own spacing (n + 1, 2).

    The second array holds, per node and in the same unit, the mean distance to its
    SPACING_NEIGHBOURS nearest and the distance to the nearest.
    """
    others = lists[:, 2:]
    apart = np.sqrt(((centred[others] - centred[:, None]) ** 2).sum(axis=-1))
    apart = np.where(others >= 0, apart, np.inf)
    few = np.sort(apart, axis=-1)[:, :SPACING_NEIGHBOURS]
    there = np.isfinite(few)
    few = np.where(there, few, 0.0)
    near = few.sum(axis=-1) / np.maximum(there.sum(axis=-1), 1)  # (n + 1,)
    closest = few[:, 0] if few.shape[1] else np.zeros(len(centred))
    unit = near[1:].sum() / max(len(near) - 1, 1)
    # Coinciding points have no spacing: fall back to the extent, then to 1.
    reach = np.sqrt((centred**2).sum(axis=-1)).max()
    unit = max(unit, 1e-6 * reach)
    unit = unit if unit > 0 else 1.0
    return centred / unit, np.stack([near, closest], axis=-1) / unit


def _node_features(
    position: FloatArray, spacing: FloatArray, share: FloatArray
) -> Float32:
    """(n + 1, NODE_FEATURES) invariant description of each node and its instance."""
    radius = np.sqrt((position**2).sum(axis=-1))
    customers, load = len(share) - 1.0, share.sum()
    per_route = customers / max(load, 1e-9)
    vehicles = np.ceil(load - 1e-9)
    mean_share = max(load / max(customers, 1), 1e-9)
    columns: Any = np.empty((len(share), NODE_FEATURES))
    columns[:, 0] = np.log1p(radius) / 3
    columns[:, 1] = radius / max(radius.max(), 1e-9)
    columns[:, 2] = share * 4
    columns[:, 3] = np.log1p(share / mean_share)
    columns[:, 4:6] = np.log1p(spacing)
    columns[:, 6] = 0.0
    columns[0, 6] = 1.0  # the depot
    columns[:, 7] = np.log(max(per_route, 1)) / 3
    columns[:, 8] = np.log1p(vehicles) / 5
    columns[:, 9] = load / max(vehicles, 1)
    columns[:, 10] = np.log1p(customers) / 7
    scaled: Float32 = ((columns - NODE_CENTRE) / NODE_SPREAD).astype(np.float32)
    return scaled
