"""The whole problem, or a part of it, as arrays for the compiled search.

Routes whose barycentres lie on one side of a line are a smaller problem of the same
kind (Santini et al., INFORMS J. Computing 35, 2023): its customers are renumbered, so
that two threads work on disjoint memory and never wait for each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from clusterfirst.compiled import (
    EUCLIDEAN,
    MATRIX,
    ROUNDED,
    SPHERE,
    Ground,
    Tours,
    link_routes,
    read_routes,
)
from clusterfirst.instance import FloatArray, Instance, IntArray
from clusterfirst.search.ruin_recreate import Memory, memory_for

Routes = list[list[int]]
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

    def routes(self, *, best: bool) -> Routes:
        """Return the best or the current routes, in rows of the instance."""
        found = read_routes(self.best if best else self.tours)
        return [self.members[route].tolist() for route in found]


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


def make_region(whole: Ground, routes: Routes, slots: int, seed: int) -> Region:
    """Return the region of these routes, with room for `slots` routes in all."""
    # In the order of the routes: neighbours on the map are neighbours in memory.
    members = np.concatenate([[0], *routes]).astype(np.int64)
    new_number = np.zeros(len(whole.demands), dtype=np.int64)
    new_number[members] = np.arange(len(members))
    near, near_gap = new_number[whole.near[members]], whole.near_gap[members]
    if len(members) < len(whole.demands):
        # Neighbours outside the region are 0 now: close the gaps, keep the order.
        order = np.argsort(near == 0, axis=1, kind="stable")
        near = np.take_along_axis(near, order, 1)
        near_gap = np.take_along_axis(near_gap, order, 1)
    nodes = np.concatenate([members, np.zeros(slots, dtype=np.int64)])
    ground = whole._replace(
        points=np.ascontiguousarray(whole.points[nodes]),
        rows=nodes,
        demands=whole.demands[members],
        near=near,
        near_gap=near_gap,
    )
    local = [new_number[route].tolist() for route in routes]
    tours, cost = link_routes(ground, local, slots)
    best, _ = link_routes(ground, local, slots)
    memory = memory_for(tours, len(members) - 1, cost)
    rng = np.array([seed % 2**64], dtype=np.uint64)
    return Region(members, ground, tours, best, memory, rng)


def halves(plane: FloatArray, routes: Routes, angle: float) -> tuple[Routes, Routes]:
    """Cut by a line at this angle, half of the customers on either side."""
    direction = np.array([np.cos(angle), np.sin(angle)])
    along = np.array([float((plane[route] @ direction).mean()) for route in routes])
    order = np.argsort(along, kind="stable").tolist()
    sizes = np.cumsum([len(routes[r]) for r in order])
    middle = int(np.searchsorted(sizes, sizes[-1] / 2)) + 1
    return [routes[r] for r in order[:middle]], [routes[r] for r in order[middle:]]
