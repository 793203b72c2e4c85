"""The whole problem, or a part of it, as arrays for the compiled search.

Routes whose barycentres lie on one side of a line are a smaller problem of the same
kind (Santini et al., INFORMS J. Computing 35, 2023): its customers are renumbered, so
that threads work on disjoint memory and never wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clusterfirst.problem.instance import FloatArray, Instance, IntArray
from clusterfirst.stages.compiled import kernel
from clusterfirst.stages.neighbours import PIECE, nearest_customers, points_of
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.search.linked import (
    EUCLIDEAN,
    MATRIX,
    ROUNDED,
    SPHERE,
    Data,
    Memory,
    Tours,
    link_routes,
    memory_for,
    read_routes,
)
from clusterfirst.stages.search.ruin_recreate import Ruins, ruins_for

ROUNDING = {  # distance -> floor(distance * scale + offset), as in instance.py
    "none": (0.0, 0.0),
    "round": (1.0, 0.5),
    "trunc": (1.0, 0.0),
    "dimacs": (10.0, 0.0),
    "exact": (1000.0, 0.5),
}


@dataclass(frozen=True)
class Region:
    """Customers and routes of one thread."""

    members: IntArray  # (n + 1,) row of the instance of each customer; 0 first
    data: Data
    tours: Tours
    memory: Memory
    ruins: Ruins

    @property
    def state(self) -> tuple[Tours, Memory, Ruins]:
        """What the search changes."""
        return self.tours, self.memory, self.ruins

    def routes(self, *, best: bool) -> Routes:
        """Return the best or the current routes, in rows of the instance."""
        onward = self.memory.best if best else self.tours.after
        return read_routes(onward, len(self.members) - 1).renamed(self.members)


def whole_data(instance: Instance, neighbours: int) -> Data:
    """Return the arrays of a whole instance, without depots for routes."""
    n = instance.num_customers
    mode, points = _points(instance)
    matrix = np.zeros((1, 1))
    if mode == MATRIX:
        assert instance.matrix is not None
        matrix = np.array(instance.distances)  # numba wants it writable
    found = nearest_customers(instance, neighbours)
    near = np.zeros((n + 1, max(found.shape[1], 1)), dtype=np.uint32)  # of no depot
    near[1:, : found.shape[1]] = found
    del found  # twice as large as `near`
    scale, offset = ROUNDING[instance.rounding]
    rows = np.arange(n + 1)
    near_gap = np.empty(near.shape)
    for first in range(0, n + 1, PIECE):  # at once it takes four times the memory
        some = rows[first : first + PIECE]
        near_gap[some] = instance.lengths(some[:, None], near[some])
    out = instance.lengths(0, rows)
    edges = np.sort(np.column_stack([near_gap[:, :2], out, out]), axis=1)
    return Data(
        mode,
        np.ascontiguousarray(points[:, :2]).ravel(),
        np.ascontiguousarray(points[:, 2]),
        rows.astype(np.uint32),
        matrix,
        scale,
        offset,
        np.array(instance.demand_units),
        instance.capacity_units,
        near,
        near_gap,
        edges[:, :2].sum(axis=1),
    )


def _points(instance: Instance) -> tuple[int, FloatArray]:
    """Kind of distance and (n + 1, 3) points it is computed from."""
    points = np.zeros((instance.num_customers + 1, 3))
    if instance.matrix is not None:
        return MATRIX, points
    found = points_of(instance)
    points[:, : found.shape[1]] = found
    if instance.metric == "greatcircle":
        return SPHERE, points
    return EUCLIDEAN if instance.rounding == "none" else ROUNDED, points


def make_region(whole: Data, routes: Routes, slots: int, seed: int) -> Region:
    """Return the region of these routes, with room for `slots` routes in all."""
    # In the order of the routes: neighbours on the map are neighbours in memory.
    members = np.concatenate([[0], routes.stops])
    number = np.zeros(len(whole.demands), dtype=np.uint32)
    number[members] = np.arange(len(members))
    near = np.zeros((len(members), whole.near.shape[1]), dtype=np.uint32)
    near_gap = np.zeros(near.shape)
    _renumber(whole, members, number, near, near_gap)
    nodes = np.concatenate([members, np.zeros(slots, dtype=np.int64)])
    data = whole._replace(
        xy=np.ascontiguousarray(whole.xy.reshape(-1, 2)[nodes]).ravel(),
        z=whole.z[nodes],
        rows=nodes.astype(np.uint32),
        demands=whole.demands[members],
        near=near,
        near_gap=near_gap,
        ideal=whole.ideal[members],
    )
    local = Routes(np.arange(1, len(members)), routes.starts)
    tours, cost = link_routes(data, local, slots)
    memory = memory_for(tours, cost, seed)
    return Region(members, data, tours, memory, ruins_for(len(members) - 1, slots))


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


def parts(plane: FloatArray, routes: Routes, count: int, angle: float) -> list[Routes]:
    """Cut by lines, the first at this angle, into parts with as many customers each."""
    if count == 1:
        return [routes]
    direction = np.array([np.cos(angle), np.sin(angle)])
    sums = np.add.reduceat(plane[routes.stops] @ direction, routes.starts[:-1])
    order = np.argsort(sums / routes.sizes, kind="stable")
    sizes = np.cumsum(routes.sizes[order])
    less = count // 2
    middle = int(np.searchsorted(sizes, sizes[-1] * less / count)) + 1
    # Every part gets a route, however unequal the routes are.
    middle = min(max(middle, less), len(order) - (count - less))
    across = angle + np.pi / 2
    return [
        *parts(plane, _only(routes, order[:middle]), less, across),
        *parts(plane, _only(routes, order[middle:]), count - less, across),
    ]


def _only(routes: Routes, which: IntArray) -> Routes:
    """Some of the routes."""
    ends = zip(
        routes.starts[which].tolist(), routes.starts[which + 1].tolist(), strict=True
    )
    parts = [np.empty(0, dtype=np.int64), *(routes.stops[a:b] for a, b in ends)]
    starts = np.concatenate([[0], np.cumsum(routes.sizes[which])])
    return Routes(np.concatenate(parts), starts)


def together(parts: Sequence[Routes]) -> Routes:
    """The routes of all parts, in turn."""
    sizes = np.concatenate([part.sizes for part in parts])
    starts = np.concatenate([[0], np.cumsum(sizes)])
    return Routes(np.concatenate([part.stops for part in parts]), starts)
