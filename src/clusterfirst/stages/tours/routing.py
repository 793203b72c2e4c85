"""One tour per cluster, all of them in one compiled call.

Distances come from `Instance.lengths`, so every metric and rounding works. Tours are
2-opt / Or-opt optima improved by deterministic kicks, hardly ever longer than the
shortest up to 12 stops (benchmarks/assign_and_route measures by how much). Given
orders are a start that is never made worse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import FloatArray, Instance, IntArray
from clusterfirst.problem.solution import Solution
from clusterfirst.stages.compiled import kernel
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.tours.tsp import nearest_first, solve_blocks

WINDOW = 400  # stops of a long tour that are optimised together
MAX_BLOCK = 1200  # stops above which a tour is optimised window by window
CHUNK_WORK = 0.02  # estimated seconds between two looks at the clock
CHUNK_CELLS = 4_000_000  # distances held at a time
ENOUGH = 3.0  # times the estimated seconds: then tours are not made quickly first


FULL, QUICK = 10.0, 0.5  # kicks per stop: how hard to try


def tours(
    instance: Instance,
    clusters: IntArray | Sequence[Sequence[int]],
    kicks: float = FULL,
    deadline: Deadline | None = None,
) -> list[list[int]]:
    """Tours of all clusters as customer rows, in canonical direction and order.

    Parameters
    ----------
    clusters
        Labels (n,) per customer, or lists of customer rows; the order within a
        list is the tour to start from.
    deadline
        When it passes, the tours found so far are returned; each cluster has been
        ordered at least by its nearest neighbours or as given.
    """
    deadline = Deadline.never() if deadline is None else deadline
    if isinstance(clusters, np.ndarray):
        groups, fresh = Routes.of_labels(clusters), True
    else:
        groups, fresh = Routes.of(clusters), False
    routes = improve(instance, groups, fresh, kicks, deadline)
    found = Solution(routes.lists()).canonical()
    return [list(route) for route in found.routes]


def improve(
    instance: Instance,
    routes: Routes,
    fresh: bool,
    kicks: float,
    deadline: Deadline,
) -> Routes:
    """Tours in the order of `routes`; `fresh` means that their order is no tour."""
    found = Routes(routes.stops.copy(), routes.starts)
    small = np.flatnonzero(routes.sizes <= MAX_BLOCK)
    sizes = routes.sizes[small]
    passes = [(0.0, fresh), (kicks, False)]
    if deadline.left() > ENOUGH * float(_work(sizes, kicks).sum()):
        passes = [(kicks, fresh)]  # the same tours, no quick ones first
    for effort, unordered in passes:
        for chunk in _chunks(small, sizes, effort):
            if deadline.passed():
                break
            _solve_chunk(instance, found, chunk, effort, unordered)
    for c in np.flatnonzero(routes.sizes > MAX_BLOCK).tolist():
        start = _start(instance, routes[c], fresh)
        found[c][:] = _by_windows(instance, start, kicks, deadline)
    return found


def _start(instance: Instance, rows: IntArray, fresh: bool) -> IntArray:
    """A tour to start from when there are very many stops."""
    if not fresh:
        return rows
    if instance.coords is None:
        return _nearest_chain(instance, rows)
    return hilbert_order(instance, rows)


def _work(sizes: IntArray, kicks: float) -> FloatArray:
    """Rough seconds for each cluster, only to decide how often to look at the clock."""
    return sizes.astype(np.float64) * (1e-5 * (1.0 + kicks))


def _chunks(which: IntArray, sizes: IntArray, kicks: float) -> Iterator[IntArray]:
    """Cut so that the clock is looked at, and distances fit in memory."""
    share = _work(sizes, kicks) / CHUNK_WORK + (sizes + 1) ** 2 / CHUNK_CELLS
    number = np.floor(np.cumsum(share))
    cuts = np.flatnonzero(np.diff(number)) + 1
    return (chunk for chunk in np.split(which, cuts) if len(chunk))


def _solve_chunk(
    instance: Instance,
    routes: Routes,
    chunk: IntArray,
    kicks: float,
    unordered: bool,
) -> None:
    """Replace the routes of a chunk by their tours."""
    sizes = routes.sizes[chunk]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    before = np.repeat(starts[:-1], sizes)  # stops of the chunk before a stop's route
    orders = np.arange(starts[-1]) - before
    places = np.repeat(routes.starts[chunk], sizes) + orders
    orders += 1
    stops = routes.stops[places]
    left, right = np.empty((2, int(((sizes + 1) ** 2).sum())), dtype=np.int64)
    _pair_rows(stops, starts, left, right)
    blocks = np.ascontiguousarray(instance.lengths(left, right), dtype=np.float64)
    if unordered:
        nearest_first(blocks, starts, orders)
    solve_blocks(blocks, starts, orders, kicks)
    routes.stops[places] = stops[before + orders - 1]


@kernel
def _pair_rows(stops: Any, starts: Any, left: Any, right: Any) -> None:
    """Write the rows that each cluster's block has distances of, the depot first."""
    at = 0
    for c in range(len(starts) - 1):
        first, size = starts[c], starts[c + 1] - starts[c] + 1
        for i in range(size):
            row = stops[first + i - 1] if i else 0
            for j in range(size):
                left[at] = row
                right[at] = stops[first + j - 1] if j else 0
                at += 1


def hilbert_order(instance: Instance, rows: IntArray) -> IntArray:
    """These rows in the order of a Hilbert curve through the map."""
    points = instance.plane[rows]
    low = points.min(axis=0)
    extent = max(float((points - low).max()), 1e-300)
    grid = ((points - low) / extent * 1023).astype(np.int64)
    x, y = grid[:, 0].copy(), grid[:, 1].copy()
    key = np.zeros(len(rows), dtype=np.int64)
    side = 512
    while side:
        right, upper = (x & side) > 0, (y & side) > 0
        key += side * side * ((3 * right) ^ upper)
        flip = ~upper & right
        x[flip], y[flip] = 1023 - x[flip], 1023 - y[flip]
        swap = ~upper
        x[swap], y[swap] = y[swap], x[swap]
        side //= 2
    return rows[np.argsort(key, kind="stable")]


def _nearest_chain(instance: Instance, rows: IntArray) -> IntArray:
    """Nearest-neighbour order from the depot; O(m^2), for bare matrices."""
    left = np.ones(len(rows), dtype=bool)
    chain = np.empty_like(rows)
    here = 0
    for position in range(len(rows)):
        away = np.where(left, instance.lengths(here, rows), np.inf)
        best = int(away.argmin())
        left[best] = False
        here = int(rows[best])
        chain[position] = here
    return chain


def _by_windows(
    instance: Instance, route: IntArray, kicks: float, deadline: Deadline
) -> IntArray:
    """Optimise a very long tour stretch by stretch, the cuts half a window apart.

    The ends of a stretch stay where they are: the edge that closes it is made so
    cheap that no move removes it.
    """
    cycle = np.concatenate([[0], route])
    for shift in (0, WINDOW // 2, 0, WINDOW // 2):
        cycle = np.roll(cycle, -shift)
        for start in range(0, len(cycle) - 3, WINDOW):
            if deadline.passed():
                break
            stretch = cycle[start : start + WINDOW]
            if len(stretch) < 4:
                continue
            size = len(stretch)
            block = np.array(instance.lengths(stretch[:, None], stretch), dtype=float)
            forced = -10.0 * size * (float(block.max()) + 1.0)
            block[0, -1] = block[-1, 0] = forced
            order = np.arange(1, size)
            ends = np.array([0, size - 1])
            solve_blocks(block.ravel(), ends, order, min(kicks, 2.0))
            if order[0] == size - 1:
                order = order[::-1]
            cycle[start + 1 : start + size] = stretch[order]
    depot = int(np.flatnonzero(cycle == 0)[0])
    return np.concatenate([cycle[depot + 1 :], cycle[:depot]])
