"""Cutting a city into connected areas of equal load that follow the routes of its days.

The locations are cut into small cells of about equal load; a first partition is the
plan of the mean day, with a vehicle per area. Then, in turn, the routes of every day
are matched with the areas, one to one, and cells at a border move to the neighbouring
area whose driver served them more often, as long as loads stay balanced and areas
connected. Both steps raise one number: the stops made by the driver of their area.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clusterfirst.cities.quick_plan import quick_plan
from clusterfirst.problem.errors import InfeasibleError, NotFoundInTimeError
from clusterfirst.problem.instance import FloatArray, Instance, IntArray

CELLS_EACH = 40  # cells of an area, about
NEAREST = 6  # cells beside a cell on the map
BALANCE = 0.1  # how far the load of an area may be from the mean, as a share
SLACK = (
    1.05,
    1.1,
    1.2,
    1.5,
    2.0,
    4.0,
)  # capacity of the mean day's vehicles: some pack
ROUNDS = 30  # of matching and moving, at most; five to ten are used
EFFORT = 8  # times the usual iterations for the plan of the mean day

Served = Sequence[Sequence[IntArray]]  # rows on each route of each day


@dataclass(frozen=True, eq=False)
class Ground:
    """What is divided: depot first, then the locations."""

    points: FloatArray  # (|X| + 1, 2) on a plane map
    weights: FloatArray  # (|X| + 1,) load of a mean day, above 0 but for the depot


def partition(ground: Ground, served: Served, count: int) -> IntArray:
    """(|X| + 1,) the area 0..count - 1 of each row; -1 for the depot."""
    cell = _cells(ground, count)
    cells = int(cell.max()) + 1
    weights = np.bincount(cell, ground.weights[1:], cells).astype(np.float64)
    middles = (
        np.stack(
            [np.bincount(cell, ground.points[1:, axis], cells) for axis in (0, 1)],
            axis=1,
        )
        / np.bincount(cell, minlength=cells)[:, None]
    )
    beside = _beside(middles)
    first = _mean_day(np.vstack([ground.points[:1], middles]), weights, count)
    shape = _Shape(beside, weights, first, count)
    shape.connect()
    at_cells = [[cell[rows - 1] for rows in day] for day in served]
    best = -1.0
    for _ in range(ROUNDS):
        votes, total = _votes(at_cells, shape.area, cells, count)
        if total <= best:
            break
        best = total
        shape.move(votes)
    return np.concatenate([[-1], shape.area[cell]])


def _cells(ground: Ground, count: int) -> IntArray:
    """Cut the map in halves of equal load until each part is a small one."""
    points, weights = ground.points[1:], ground.weights[1:]
    most = weights.sum() / (CELLS_EACH * count)
    cell = np.zeros(len(points), dtype=np.int64)
    parts, number = [np.arange(len(points))], 0
    while parts:
        part = parts.pop()
        spread = np.ptp(points[part], axis=0)
        if len(part) == 1 or weights[part].sum() <= most or not spread.any():
            cell[part] = number
            number += 1
            continue
        axis = int(np.argmax(spread))
        ordered = part[np.argsort(points[part, axis], kind="stable")]
        so_far = np.cumsum(weights[ordered])
        cut = int(np.searchsorted(so_far, so_far[-1] / 2)) + 1
        cut = min(max(cut, 1), len(part) - 1)
        parts += [ordered[:cut], ordered[cut:]]
    return cell


def _beside(points: FloatArray) -> list[list[int]]:
    """Cells next to each cell: the nearest ones, and a tree that reaches all."""
    from scipy.sparse.csgraph import minimum_spanning_tree
    from scipy.spatial import cKDTree
    from scipy.spatial.distance import cdist

    count = len(points)
    beside: list[set[int]] = [set() for _ in range(count)]
    pairs = minimum_spanning_tree(
        cdist(points, points) + 1e-12 * np.ptp(points) + 1e-300
    )
    joined = list(zip(*(each.tolist() for each in pairs.nonzero()), strict=True))
    _, near = cKDTree(points).query(points, k=min(count, NEAREST + 1))
    near = near.reshape(count, -1)
    joined += [(i, j) for i in range(count) for j in near[i].tolist() if j != i]
    for i, j in joined:
        beside[i].add(j)
        beside[j].add(i)
    return [sorted(each) for each in beside]


def _mean_day(points: FloatArray, weights: FloatArray, count: int) -> IntArray:
    """The area of each cell in the plan of a day that has the mean load everywhere."""
    demands = np.concatenate(
        [[0.0], np.maximum(1, np.rint(1e6 * weights / weights.sum()))]
    )
    for slack in SLACK:
        capacity = float(np.ceil(max(slack * demands.sum() / count, demands.max())))
        day = Instance(demands, capacity, coords=points, vehicles=count)
        try:
            routes = quick_plan(day, 0, EFFORT).routes
        except (InfeasibleError, NotFoundInTimeError):
            continue
        area = np.empty(len(weights), dtype=np.int64)
        for k, route in enumerate(routes):
            area[np.array(route) - 1] = k
        return area
    return np.arange(len(weights)) % count


def _votes(
    days: Sequence[Sequence[IntArray]], area: IntArray, cells: int, count: int
) -> tuple[IntArray, float]:
    """(cells, areas) stops that each area's driver made, and how many at home."""
    from scipy.optimize import linear_sum_assignment

    votes = np.zeros((cells, count), dtype=np.int64)
    home = 0.0
    for day in days:
        common = np.array([np.bincount(area[stops], minlength=count) for stops in day])
        rows, columns = linear_sum_assignment(common, maximize=True)
        home += float(common[rows, columns].sum())
        for k, driver in zip(rows.tolist(), columns.tolist(), strict=True):
            np.add.at(votes[:, driver], day[k], 1)
    return votes, home


class _Shape:
    """Areas of cells, kept connected once they are."""

    def __init__(
        self,
        beside: list[list[int]],
        weights: FloatArray,
        area: IntArray,
        count: int,
    ) -> None:
        self.beside, self.weights, self.area, self.count = beside, weights, area, count
        self.load = np.bincount(area, weights, count)

    def connect(self) -> None:
        """Leave every area its heaviest part; the others join what is beside them.

        An area without cells begins at the middle of the heaviest one.
        """
        for k in range(self.count):
            parts = self._parts(k)
            parts.sort(key=lambda part: -float(self.weights[part].sum()))
            for part in parts[1:]:
                self.area[part] = -1
        while (self.area < 0).any():
            for cell in np.flatnonzero(self.area < 0).tolist():
                around = [a for j in self.beside[cell] if (a := int(self.area[j])) >= 0]
                if around:
                    loads = np.bincount(
                        self.area[self.area >= 0],
                        self.weights[self.area >= 0],
                        self.count,
                    )
                    self.area[cell] = min(around, key=lambda a: float(loads[a]))
        self.load = np.bincount(self.area, self.weights, self.count)
        self._found_empty()
        self._level()

    def _found_empty(self) -> None:
        """Give an area without cells one at the border of the heaviest."""
        for k in range(self.count):
            if (self.area == k).any():
                continue
            order = np.argsort(-self.load)
            for donor in order.tolist():
                inside = np.flatnonzero(self.area == donor).tolist()
                spare = [c for c in inside if len(inside) > 1 and self._may_leave(c)]
                if spare:
                    self._put(spare[0], k)
                    break

    def _level(self) -> None:
        """Move cells from heavy areas to lighter ones beside them, until balanced."""
        for _ in range(20 * len(self.area)):
            found = [
                (gain, cell, to)
                for cell, to in self._border()
                if (gain := self._levels(cell, to)) > 0
            ]
            found.sort(reverse=True)
            where = next((each for each in found if self._may_leave(each[1])), None)
            if where is None:
                return
            self._put(*where[1:])

    def _levels(self, cell: int, to: int) -> float:
        """How much a move levels two loads of which one is out of balance; else 0."""
        own, mean = self.load[self.area[cell]], self.load.mean()
        other, w = self.load[to], self.weights[cell]
        if own <= (1 + BALANCE) * mean and other >= (1 - BALANCE) * mean:
            return 0.0
        return float(2 * w * (own - other - w))  # what the sum of squares loses

    def move(self, votes: IntArray) -> None:
        """Move cells to where more of their stops were at home, best first."""
        moved = True
        while moved:
            moved = False
            found = [
                (int(votes[cell, self.area[cell]] - votes[cell, to]), cell, to)
                for cell, to in self._border()
            ]
            for worse, cell, to in sorted(found):
                if worse < 0 and self._may_go(cell, to, votes):
                    self._put(cell, to)
                    moved = True

    def _may_go(self, cell: int, to: int, votes: IntArray) -> bool:
        """Whether a move still helps and leaves balance and connection."""
        own, w, mean = int(self.area[cell]), self.weights[cell], self.load.mean()
        return (
            votes[cell, to] > votes[cell, own]
            and self.load[to] + w <= (1 + BALANCE) * mean
            and self.load[own] - w >= (1 - BALANCE) * mean
            and any(self.area[j] == to for j in self.beside[cell])
            and self._may_leave(cell)
        )

    def _border(self) -> list[tuple[int, int]]:
        """Cells with an area beside them that is not their own."""
        return [
            (cell, to)
            for cell in range(len(self.area))
            for to in sorted({int(self.area[j]) for j in self.beside[cell]})
            if to != self.area[cell]
        ]

    def _put(self, cell: int, to: int) -> None:
        self.load[self.area[cell]] -= self.weights[cell]
        self.load[to] += self.weights[cell]
        self.area[cell] = to

    def _may_leave(self, cell: int) -> bool:
        """Whether the rest of a cell's area stays connected, and is not empty."""
        own = self.area[cell]
        around = [j for j in self.beside[cell] if self.area[j] == own]
        if not around:
            return False
        reached, todo = {cell, around[0]}, [around[0]]
        wanted = set(around[1:])
        while todo and wanted:
            for j in self.beside[todo.pop()]:
                if j not in reached and self.area[j] == own:
                    reached.add(j)
                    wanted.discard(j)
                    todo.append(j)
        return not wanted

    def _parts(self, k: int) -> list[IntArray]:
        """The connected parts of an area."""
        left = set(np.flatnonzero(self.area == k).tolist())
        parts = []
        while left:
            todo = [left.pop()]
            part = []
            while todo:
                cell = todo.pop()
                part.append(cell)
                near = [j for j in self.beside[cell] if j in left]
                left.difference_update(near)
                todo += near
            parts.append(np.array(part, dtype=np.int64))
        return parts
