"""The whole problem, or a part of it, as arrays for the compiled search.

Routes whose barycentres lie on one side of a line are a smaller problem of the same
kind (Santini et al., INFORMS J. Computing 35, 2023): its customers are renumbered, so
that two threads work on disjoint memory and never wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from clusterfirst.problem.instance import FloatArray, Instance, IntArray
from clusterfirst.stages.compiled import (
    EUCLIDEAN,
    MATRIX,
    ROUNDED,
    SPHERE,
    Flat,
    Ground,
    Tours,
    kernel,
    link_routes,
    read_routes,
)
from clusterfirst.stages.search.ruin_recreate import Memory, memory_for

MAX_MATRIX_ROWS = 5000  # 200 MB of float64: above, a full matrix is refused
ROUNDING = {  # distance -> floor(distance * scale + offset), as in instance.py
    "none": (1.0, 0.0),
    "round": (1.0, 0.5),
    "trunc": (1.0, 0.0),
    "dimacs": (10.0, 0.0),
    "exact": (1000.0, 0.5),
}


@dataclass(frozen=True)
class Region:
    """Customers and routes of one thread."""

    members: IntArray  # (n + 1,) row of the instance of each customer; 0 first
    ground: Ground
    tours: Tours
    best: Tours
    memory: Memory
    rng: np.ndarray  # (1,) uint64

    @property
    def cost(self) -> float:
        """Length of the best routes found here."""
        return float(self.memory.cost[1])

    def routes(self, *, best: bool) -> Flat:
        """Return the best or the current routes, in rows of the instance."""
        found = read_routes(self.best if best else self.tours)
        return found._replace(stops=self.members[found.stops])


def too_large(instance: Instance) -> str:
    """Why this instance cannot be searched: only where it needs a full matrix."""
    rows = instance.num_customers + 1
    direct = instance.metric == "euclidean" or (
        instance.metric == "greatcircle" and instance.rounding == "none"
    )
    if direct or rows <= MAX_MATRIX_ROWS:
        return ""
    return (
        f"not polished: {instance.metric} distances with rounding "
        f"'{instance.rounding}' need a matrix of at most {MAX_MATRIX_ROWS} rows, "
        f"and there are {rows}"
    )


def whole_ground(instance: Instance, neighbours: int) -> Ground:
    """Return the arrays of a whole instance, without depots for routes."""
    n = instance.num_customers
    mode, points = _points(instance)
    matrix = np.zeros((1, 1))
    if mode == MATRIX:
        matrix = np.array(instance.distances)  # numba wants it writable
    near = _near_matrix(matrix, neighbours) if mode == MATRIX else None
    near = _near_points(points, neighbours) if near is None else near
    scale, offset = ROUNDING[instance.rounding]
    rows = np.arange(n + 1)
    return Ground(
        mode,
        points,
        rows,
        matrix,
        scale,
        offset,
        np.array(instance.demand_units),
        instance.capacity_units,
        near,
        np.ascontiguousarray(instance.lengths(rows[:, None], near)),
    )


def _points(instance: Instance) -> tuple[int, FloatArray]:
    """Kind of distance and (n + 1, 3) points it is computed from."""
    points = np.zeros((instance.num_customers + 1, 3))
    if instance.metric == "euclidean":
        assert instance.coords is not None
        points[:, :2] = instance.coords
        return EUCLIDEAN if instance.rounding == "none" else ROUNDED, points
    if instance.metric == "greatcircle" and instance.rounding == "none":
        assert instance.coords is not None
        lon, lat = np.radians(instance.coords).T
        points[:, 0] = np.cos(lat) * np.cos(lon)
        points[:, 1] = np.cos(lat) * np.sin(lon)
        points[:, 2] = np.sin(lat)
        return SPHERE, points
    return MATRIX, points


def _near_points(points: FloatArray, neighbours: int) -> IntArray:
    """(n + 1, k) nearest customers of each customer; row 0 stays empty."""
    n = len(points) - 1
    k = min(neighbours, n - 1)
    near = np.zeros((n + 1, max(k, 1)), dtype=np.int64)
    if k >= 1:
        found = cKDTree(points[1:]).query(points[1:], k + 1)[1]
        # Twins at the same place may push the customer itself down its own list,
        # or off it; exactly one entry goes.
        itself = found == np.arange(n)[:, None]
        itself[~itself.any(axis=1), -1] = True
        near[1:] = found[~itself].reshape(n, k) + 1
    return near


def _near_matrix(matrix: FloatArray, neighbours: int) -> IntArray:
    """The same from a matrix of distances."""
    n = len(matrix) - 1
    k = min(neighbours, n - 1)
    near = np.zeros((n + 1, max(k, 1)), dtype=np.int64)
    if k >= 1:
        inner = matrix[1:, 1:].copy()
        np.fill_diagonal(inner, np.inf)
        part = np.argpartition(inner, k - 1, axis=1)[:, :k]
        order = np.argsort(np.take_along_axis(inner, part, 1), axis=1, kind="stable")
        near[1:] = np.take_along_axis(part, order, 1) + 1
    return near


def make_region(whole: Ground, routes: Flat, slots: int, seed: int) -> Region:
    """Return the region of these routes, with room for `slots` routes in all."""
    # In the order of the routes: neighbours on the map are neighbours in memory.
    members = np.concatenate([[0], routes.stops])
    number = np.zeros(len(whole.demands), dtype=np.int64)
    number[members] = np.arange(len(members))
    near = np.zeros((len(members), whole.near.shape[1]), dtype=np.int64)
    near_gap = np.zeros(near.shape)
    _renumber(whole, members, number, near, near_gap)
    nodes = np.concatenate([members, np.zeros(slots, dtype=np.int64)])
    ground = whole._replace(
        points=np.ascontiguousarray(whole.points[nodes]),
        rows=nodes,
        demands=whole.demands[members],
        near=near,
        near_gap=near_gap,
    )
    local = Flat(np.arange(1, len(members)), routes.starts)
    tours, cost = link_routes(ground, local, slots)
    best = Tours._make(array.copy() for array in tours)
    memory = memory_for(tours, len(members) - 1, cost)
    rng = np.array([seed % 2**64], dtype=np.uint64)
    return Region(members, ground, tours, best, memory, rng)


@kernel
def _renumber(whole: Any, members: Any, number: Any, near: Any, near_gap: Any) -> None:
    """Fill the neighbours within the region, in their order, by their new numbers."""
    for row in range(1, len(members)):
        at, old = 0, members[row]
        for i in range(whole.near.shape[1]):
            other = number[whole.near[old, i]]
            if other > 0:
                near[row, at] = other
                near_gap[row, at] = whole.near_gap[old, i]
                at += 1


def halves(plane: FloatArray, routes: Flat, angle: float) -> tuple[Flat, Flat]:
    """Cut by a line at this angle, half of the customers on either side."""
    direction = np.array([np.cos(angle), np.sin(angle)])
    sums = np.add.reduceat(plane[routes.stops] @ direction, routes.starts[:-1])
    order = np.argsort(sums / routes.sizes, kind="stable")
    sizes = np.cumsum(routes.sizes[order])
    middle = int(np.searchsorted(sizes, sizes[-1] / 2)) + 1
    return _only(routes, order[:middle]), _only(routes, order[middle:])


def _only(routes: Flat, which: IntArray) -> Flat:
    """Some of the routes."""
    ends = zip(
        routes.starts[which].tolist(), routes.starts[which + 1].tolist(), strict=True
    )
    parts = [np.empty(0, dtype=np.int64), *(routes.stops[a:b] for a, b in ends)]
    starts = np.concatenate([[0], np.cumsum(routes.sizes[which])])
    return Flat(np.concatenate(parts), starts)


def together(parts: Sequence[Flat]) -> Flat:
    """The routes of all parts, in turn."""
    sizes = np.concatenate([part.sizes for part in parts])
    starts = np.concatenate([[0], np.cumsum(sizes)])
    return Flat(np.concatenate([part.stops for part in parts]), starts)
