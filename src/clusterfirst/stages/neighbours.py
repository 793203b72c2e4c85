"""The nearest others of points and customers: the one place that looks for them.

A tree over the points where there are coordinates (of three dimensions on the globe),
rows of the matrix where distances come from one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clusterfirst.problem.clock import NEVER, Deadline
from clusterfirst.problem.instance import FloatArray, Instance, IntArray

PIECE = 2000  # customers whose neighbours are found between two looks at the clock


def tree_of(points: FloatArray) -> Any:
    """Return a KD-tree; imported here, so that the command line starts fast."""
    from scipy.spatial import cKDTree

    return cKDTree(points)


def nearest_others(
    tree: Any, rows: IntArray, count: int
) -> tuple[FloatArray, IntArray]:
    """Distances and rows, nearest first, of the nearest others of some points."""
    found = min(tree.n, count + 1)
    apart, near = tree.query(tree.data[rows], k=found)
    # Twins at the same place may push a point down its own list, or off it: exactly
    # one entry goes.
    itself = near == rows[:, None]
    itself[~itself.any(axis=1), -1] = True
    shape = (len(rows), found - 1)
    return apart[~itself].reshape(shape), near[~itself].reshape(shape).astype(np.int64)


def nearest_customers(
    instance: Instance, count: int, deadline: Deadline = NEVER
) -> IntArray:
    """(n, count) rows of the customers nearest to each customer, nearest first.

    There are never more than all the others. TimeUpError when time is up.
    """
    n = instance.num_customers
    count = min(count, n - 1)
    near = np.zeros((n, max(count, 0)), dtype=np.int64)
    if count < 1:
        return near
    tree = None if instance.matrix is not None else tree_of(points_of(instance)[1:])
    for first in range(0, n, PIECE):
        deadline.look()
        rows = np.arange(first, min(first + PIECE, n))
        if tree is None:
            near[rows] = _nearest_by_matrix(instance, rows + 1, count)
        else:
            near[rows] = nearest_others(tree, rows, count)[1] + 1
    return near


def _nearest_by_matrix(instance: Instance, rows: IntArray, count: int) -> IntArray:
    away = instance.lengths(rows[:, None], np.arange(1, instance.num_customers + 1))
    away[np.arange(len(rows)), rows - 1] = np.inf
    part = np.argpartition(away, count - 1, axis=1)[:, :count]
    order = np.argsort(np.take_along_axis(away, part, 1), axis=1, kind="stable")
    return np.take_along_axis(part, order, 1) + 1


def points_of(instance: Instance) -> FloatArray:
    """(n + 1, 2) coordinates, or (n + 1, 3) on the unit sphere: near is near there."""
    assert instance.coords is not None
    if instance.metric != "greatcircle":
        return instance.coords
    lon, lat = np.radians(instance.coords).T
    return np.column_stack(
        [np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)]
    )
