"""Nearest neighbours with ties, by KD-tree: the attention masks of every network.

The paper (Section 2.1) lets a node attend to its k nearest nodes. Taking "the first
k" breaks the paper's own symmetries on whole-number coordinates, where many nodes
share the k-th distance and the index decides. Here every node at the k-th distance
is taken, up to 2k nodes; if there are more, keys that do not depend on the index or
the frame (demand, distance to the depot) decide. Never builds an N x N array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from clusterfirst.problem.instance import FloatArray, IntArray
from clusterfirst.stages.neighbours import nearest_others, tree_of

TIE_TOLERANCE = 1e-9  # relative: nearer together than this is the same distance
MOST = 2  # lists hold at most this many times k neighbours


def nearest(
    points: FloatArray,
    k: int,
    *,
    keys: Sequence[npt.NDArray[Any]] = (),
    include_self: bool = False,
) -> IntArray:
    """Return the (m, width) rows of each point's nearest others, padded with -1.

    Parameters
    ----------
    points
        (m, 2) plane coordinates.
    k
        Neighbours wanted; the point itself does not count.
    keys
        Arrays (m,) that decide, smallest first and first array first, which of the
        nodes at the k-th distance are taken when taking all would exceed 2k. Nodes
        that the keys cannot tell apart are taken all or none, so a list may be
        shorter than k there: better short than dependent on the order of the rows.
    include_self
        Put the point itself in front of its list.

    Lists are ordered by distance, then by row, the width is that of the longest one.
    The sets are the same for rotated, reflected, shifted and scaled points, and for
    points in another order; so is the order inside them while no digit changes.
    """
    points = np.ascontiguousarray(points, dtype=np.float64)
    m = len(points)
    k = min(k, max(m - 1, 0))
    if k <= 0:
        alone = np.arange(m, dtype=np.int64)[:, None]
        return alone if include_self else np.empty((m, 0), dtype=np.int64)
    tree = tree_of(points)
    # k others and one more: that one shows whether the k-th distance is shared.
    apart, rows = _in_order(*nearest_others(tree, np.arange(m), k + 1))
    kth = apart[:, k - 1]
    reach = _reach(kth, points)
    lists = np.full((m, MOST * k), -1, dtype=np.int64)
    lists[:, :k] = rows[:, :k]
    tied = np.flatnonzero((apart <= reach[:, None]).sum(axis=1) > k)
    if len(tied):
        apart, rows = _in_order(*nearest_others(tree, tied, MOST * k + 1))
        taken = apart <= reach[tied, None]  # a prefix of each row
        room = min(MOST * k, rows.shape[1])
        lists[tied, :room] = np.where(taken, rows, -1)[:, :room]
        crowded = tied[taken.sum(axis=1) > MOST * k]
        _choose(lists, crowded, _Shells(tree, points, kth, keys), k)
    width = max(1, int((lists >= 0).sum(axis=1).max()))
    lists = np.ascontiguousarray(lists[:, :width])
    if include_self:
        lists = np.column_stack([np.arange(m, dtype=np.int64), lists])
    return lists


def _in_order(apart: FloatArray, rows: IntArray) -> tuple[FloatArray, IntArray]:
    """Among the equally far the first row first; a tree returns them as it stands.

    Sums in fp32 depend on their order, and a mirrored map has another tree.
    """
    ties = np.flatnonzero((apart[:, 1:] == apart[:, :-1]).any(axis=1))
    order = np.lexsort((rows[ties], apart[ties]), axis=1)
    rows[ties] = np.take_along_axis(rows[ties], order, axis=1)
    return apart, rows


def _reach(distance: FloatArray, points: FloatArray) -> FloatArray:
    """Distances that count as equal to `distance` end here.

    The second term is the rounding of the coordinates themselves: it keeps points
    far from the origin (map projections) free of accidental order.
    """
    grain = 16 * np.finfo(np.float64).eps * float(np.abs(points).max())
    longest: FloatArray = distance * (1 + TIE_TOLERANCE) + grain
    return longest


class _Shells:
    """Nodes inside and at the k-th distance, looked up once per place.

    A tower block is one place with hundreds of rows; without the memory each of
    them would sort all the others again.
    """

    def __init__(
        self,
        tree: Any,
        points: FloatArray,
        distance: FloatArray,
        keys: Sequence[npt.NDArray[Any]],
    ) -> None:
        self._tree, self._points, self._distance = tree, points, distance
        self._rank = _key_ranks(keys, len(points))
        self._known: dict[tuple[float, float], tuple[IntArray, IntArray]] = {}

    def at(self, row: int) -> tuple[IntArray, IntArray]:
        """Rows inside the k-th distance, and those at it in the order of the keys."""
        place = (float(self._points[row, 0]), float(self._points[row, 1]))
        if place not in self._known:
            far = _reach(self._distance[row : row + 1], self._points)[0]
            near = 2 * self._distance[row] - far
            ball = np.sort(
                np.asarray(
                    self._tree.query_ball_point(self._points[row], far), dtype=np.int64
                )
            )
            delta = self._points[ball] - self._points[row]
            apart = np.sqrt((delta**2).sum(axis=1))
            inside, shell = ball[apart < near], ball[apart >= near]
            ordered = shell[np.argsort(self._rank[shell], kind="stable")]
            self._known[place] = (
                inside[np.argsort(apart[apart < near], kind="stable")],
                ordered,
            )
        return self._known[place]

    def rank(self, rows: IntArray) -> IntArray:
        """Equal for nodes that the keys cannot tell apart."""
        return self._rank[rows]


def _key_ranks(keys: Sequence[npt.NDArray[Any]], m: int) -> IntArray:
    """One integer per node in the order of the keys; equal keys, equal integers."""
    rank = np.zeros(m, dtype=np.int64)
    for key in keys:
        values = np.asarray(key, dtype=np.float64)
        scale = float(np.abs(values).max()) or 1.0
        # Keys such as the distance to the depot carry rounding noise.
        steps = np.concatenate(
            [[False], np.diff(np.sort(values)) > TIE_TOLERANCE * scale]
        )
        level = np.empty(m, dtype=np.int64)
        level[np.argsort(values, kind="stable")] = np.cumsum(steps)
        rank = rank * (int(level.max()) + 1) + level
        rank = np.unique(rank, return_inverse=True)[1].astype(np.int64)
    return rank


def _choose(lists: IntArray, crowded: IntArray, shells: _Shells, k: int) -> None:
    """Fill the crowded rows of `lists` by keys, whole groups of equals at a time."""
    for row in crowded.tolist():
        inside, shell = shells.at(row)
        inside = inside[inside != row]
        room = MOST * k - len(inside)
        # Two more than there is room for: the point itself, and the one that
        # shows whether the last group goes on.
        first = shell[: room + 2]
        first = first[first != row][: room + 1]
        if len(first) > room:
            rank = shells.rank(first)
            first = first[rank != rank[room]]
        chosen = np.concatenate([inside, first])
        lists[row] = -1
        lists[row, : len(chosen)] = chosen
