"""Labels of one size as columns, and the check of thousands at a time.

The check asks what `solution.judge` asks: loads in whole units, every customer in
one route, tours, cost.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clusterfirst.learning.labels.sources import Source
from clusterfirst.problem.errors import InputWarning
from clusterfirst.problem.instance import FloatArray, IntArray

CHUNK = 4096  # labels checked at a time, which bounds the memory


@dataclass(frozen=True, eq=False)
class LabelGroup:
    """Labels of one size n as columns; B labels."""

    coords: FloatArray  # (B, n + 1, 2) in the plane, depot first
    demands: IntArray  # (B, n + 1) exact units
    capacity: IntArray  # (B,) in the same units
    rows: IntArray  # (B, n + 1) rows of the city; -1 without a city
    route: IntArray  # (B, n) route number of each customer, 0..K-1
    place: IntArray  # (B, n) position in its route; -1 if unknown
    cost: FloatArray  # (B,)
    index: IntArray  # (B,) of the instance in its source
    seed: IntArray  # (B,) of the teacher
    teacher: IntArray  # (B,) number in records.TEACHERS
    source: IntArray  # (B,) number in LabelSet.sources

    def __len__(self) -> int:
        return len(self.cost)

    def only(self, kept: npt.NDArray[Any]) -> LabelGroup:
        """Return some of the labels: a mask or positions."""
        return LabelGroup(**{name: array[kept] for name, array in vars(self).items()})


def concatenate(groups: list[LabelGroup]) -> LabelGroup:
    """Put groups of one size behind each other."""
    columns = [vars(group) for group in groups]
    return LabelGroup(
        **{name: np.concatenate([c[name] for c in columns]) for name in columns[0]}
    )


def checked(group: LabelGroup, sources: list[Source]) -> LabelGroup:
    """Return the labels that pass, warning about the others."""
    wrong = np.full(len(group), "", dtype=object)
    for start in range(0, len(group), CHUNK):
        part = np.arange(start, min(start + CHUNK, len(group)))
        for number in np.unique(group.source[part]).tolist():
            chosen = part[group.source[part] == number]
            wrong[chosen] = find_faults(group.only(chosen), sources[number])
    bad = np.flatnonzero(wrong != "")
    if len(bad):
        i = bad[0]
        name = sources[group.source[i]].name
        warnings.warn(
            f"W715 {len(bad)} of {len(group)} labels of {group.route.shape[1]} "
            f"customers are left out; the first, {name} {group.index[i]}: {wrong[i]}",
            InputWarning,
            stacklevel=3,
        )
    return group.only(wrong == "")


def find_faults(group: LabelGroup, source: Source) -> npt.NDArray[Any]:
    """Say what is wrong with each label of one source: (B,) sentences or ""."""
    count, n = group.route.shape
    faults = np.full(count, "", dtype=object)
    if n == 0:
        return faults

    def say(wrong: npt.NDArray[Any] | np.bool_, text: str) -> None:
        faults[wrong & (faults == "")] = text  # the first fault explains the others

    lines = np.arange(count)[:, None]
    # More routes than customers: at least one is empty. Cut, because numbers of any
    # size may stand there and every route gets a cell.
    route = np.minimum(group.route, n)
    routes = int(route.max()) + 1
    cell = (lines * routes + route).ravel()
    loads = np.bincount(cell, group.demands[:, 1:].ravel(), count * routes)
    used = np.bincount(cell, minlength=count * routes).reshape(count, routes) > 0
    if source.kind == "stored":
        rows = np.sort(group.rows[:, 1:], axis=1)
        again = np.asarray(rows[:, 1:] == rows[:, :-1])
        twice = (rows[:, 0] < 1) | again.any(axis=1)
        say(twice, "a location is unknown or used twice")
    say(used.sum(axis=1) != route.max(axis=1) + 1, "a route is empty")
    over = (loads.reshape(count, routes) > group.capacity[:, None]).any(axis=1)
    say(over, "a route is above the capacity")
    toured = group.place[:, 0] >= 0
    if toured.any():
        whole, costs = _tour_costs(group, source)
        say(toured & ~whole, "the tours are not whole")
        apart = np.abs(costs - group.cost) > 1e-6 * np.maximum(1, np.abs(costs))
        say(toured & apart, "the cost is wrong")
    return faults


def _tour_costs(
    group: LabelGroup, source: Source
) -> tuple[npt.NDArray[np.bool_], FloatArray]:
    """Whether places count 0, 1, ... in each route, and what the tours cost."""
    count, n = group.route.shape
    lines = np.arange(count)[:, None]
    order = np.argsort(group.route * (n + 1) + group.place, axis=1)
    route = np.take_along_axis(group.route, order, axis=1)
    place = np.take_along_axis(group.place, order, axis=1)
    starts = np.ones((count, n), dtype=bool)
    starts[:, 1:] = route[:, 1:] != route[:, :-1]
    step = np.zeros_like(place)
    step[:, 1:] = place[:, :-1] + 1
    whole = (place == np.where(starts, 0, step)).all(axis=1)
    # Each stop is reached from the stop before it, or from the depot.
    before = np.zeros_like(order)
    before[:, 1:] = order[:, :-1] + 1
    before[starts] = 0
    last = np.ones_like(starts)
    last[:, :-1] = starts[:, 1:]

    def lengths(a: IntArray, b: IntArray) -> FloatArray:
        if source.city is not None:
            everywhere = source.city.everywhere()
            return everywhere.lengths(group.rows[lines, a], group.rows[lines, b])
        gap = group.coords[lines, a] - group.coords[lines, b]
        # The world and the public sets are Euclidean, without rounding.
        return np.asarray(np.sqrt((gap**2).sum(axis=2)))

    there = lengths(before, order + 1)
    back = lengths(order + 1, np.zeros_like(order)) * last
    return whole, np.asarray((there + back).sum(axis=1))
