"""Clarke and Wright where vehicles have limits: merge what some kind may drive.

The savings are those of a plain day (`savings.py`); a merge is made where at least one
kind of vehicle keeps its capacity, stops, distance and duration on the longer route.
How many of a kind there are is not looked at: who takes which route comes afterwards.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.constraints import Constraints
from clusterfirst.problem.instance import FloatArray, Instance, IntArray
from clusterfirst.stages.classical.savings import (
    PAIRS,
    merge,
    near_pairs,
    routes_of,
)
from clusterfirst.stages.compiled import kernel
from clusterfirst.stages.routes import Routes


class Kinds(NamedTuple):
    """What each kind of vehicle may do."""

    capacity: IntArray  # (K,)
    stops: FloatArray  # (K,)
    longest: FloatArray  # (K,)
    slowest: FloatArray  # (K,)
    allowed: npt.NDArray[np.bool_]  # (C, K) for orders of each class of wishes


class Sums(NamedTuple):
    """Of the route that each order is on, by its root."""

    stops: IntArray
    length: FloatArray
    minutes: FloatArray
    wish: IntArray  # class of wishes; 0 is none


def kinds_of(day: Instance) -> Kinds:
    """The kinds of vehicles of a day."""
    asked = day.constraints
    assert asked is not None
    assert day.vehicle_units is not None
    fleet = asked.fleet
    first = np.flatnonzero(np.diff(fleet.kind, prepend=-1))
    allowed = np.ones((1, len(first)), dtype=np.bool_)
    if len(asked.wishes[0]):
        allowed = np.logical_or.reduceat(asked.wishes[1], first, axis=1)
    return Kinds(
        day.vehicle_units[first],
        fleet.max_stops,
        fleet.max_distance,
        fleet.max_duration,
        allowed,
    )


def limited_savings(day: Instance, there_and_back: Instance, kinds: Kinds) -> Routes:
    """Routes that some of these kinds may drive, or orders that none may.

    Orders of groups stay alone. `there_and_back` is the day with ways as long as the
    ways back; where they are not, the routes may turn out too long.
    """
    asked, n = day.constraints, day.num_customers
    assert asked is not None
    rows = np.arange(n + 1)
    pairs = near_pairs(there_and_back, max(20, PAIRS // n), Deadline.never())
    if len(asked.groups):
        pairs = pairs[(asked.groups[pairs] < 0).all(axis=1)]
    out = there_and_back.lengths(0, rows)
    gain = out[pairs[:, 0]] + out[pairs[:, 1]]
    gain -= there_and_back.lengths(pairs[:, 0], pairs[:, 1])
    order = np.argsort(-gain, kind="stable")
    order = order[gain[order] > -float(asked.fleet.fixed_cost.max())]
    pairs, gain = pairs[order], gain[order]
    minutes, saved = _minutes(day, asked, pairs)
    classes = asked.wishes[0] if len(asked.wishes[0]) else np.zeros(n + 1, np.int64)
    sums = Sums(
        np.ones(n + 1, dtype=np.int64),
        2 * out,
        minutes,
        classes.copy(),
    )
    ends = (rows.copy(), *np.zeros((2, n + 1), dtype=np.int64))
    load, most = day.demand_units.copy(), int(kinds.capacity.max(initial=0))
    _merge_within(pairs, load, most, ends, (gain, saved, sums, kinds))
    return routes_of(ends[1], ends[2])


def _minutes(
    day: Instance, asked: Constraints, pairs: IntArray
) -> tuple[FloatArray, FloatArray]:
    """(n + 1,) of each order alone, and (pairs,) what merging saves."""
    rows = np.arange(day.num_customers + 1)
    if not asked.timed:
        return np.zeros(len(rows)), np.zeros(len(pairs))
    alone = day.minutes(0, rows) + day.minutes(rows, 0)
    a, b = pairs[:, 0], pairs[:, 1]
    saved = (alone[a] + alone[b] - day.minutes(a, b) - day.minutes(b, a)) / 2
    return alone if asked.service is None else alone + asked.service, saved


@kernel
def _merge_within(pairs: Any, load: Any, most: int, ways: Any, limits: Any) -> None:
    """Neighbours of each customer (0: the depot) after all merges that may be."""
    merge(pairs, load, most, ways, limits)
