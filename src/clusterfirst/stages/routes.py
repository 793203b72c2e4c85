"""Routes as every stage hands them on: all stops one behind the other.

Route r is `stops[starts[r]:starts[r + 1]]`, customer rows without the depot. The length
of a route is added up here and nowhere else but in the judge, which shares no code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from clusterfirst.problem.instance import FloatArray, Instance, IntArray


@dataclass(frozen=True, eq=False)
class Routes:
    """Some routes; none of them is empty."""

    stops: IntArray  # (n,)
    starts: IntArray  # (routes + 1,)

    @classmethod
    def of(cls, routes: Iterable[Sequence[int] | IntArray]) -> Routes:
        """Return these routes without the empty ones."""
        if isinstance(routes, Routes):
            return routes
        some = [route for route in routes if len(route)]
        starts = np.zeros(len(some) + 1, dtype=np.int64)
        np.cumsum([len(route) for route in some], out=starts[1:])
        stops = np.concatenate(some) if some else np.zeros(0)
        return cls(stops.astype(np.int64), starts)

    @classmethod
    def of_labels(cls, labels: IntArray) -> Routes:
        """The customers of each label, by ascending label and row."""
        order = np.argsort(labels, kind="stable")
        cuts = np.flatnonzero(np.diff(labels[order])) + 1
        ends = [len(labels)] if len(labels) else []
        return cls(order + 1, np.concatenate([[0], cuts, ends]).astype(np.int64))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, number: int) -> IntArray:
        return self.stops[self.starts[number] : self.starts[number + 1]]

    def __iter__(self) -> Iterator[IntArray]:
        return (self.stops[a:b] for a, b in pairwise(self.starts.tolist()))

    @property
    def sizes(self) -> IntArray:
        """(routes,) stops of each."""
        return np.diff(self.starts)

    def lists(self) -> list[list[int]]:
        """The routes as lists of rows."""
        stops = self.stops.tolist()
        return [stops[a:b] for a, b in pairwise(self.starts.tolist())]

    def renamed(self, rows: IntArray) -> Routes:
        """The same routes where row i is called rows[i]."""
        return Routes(rows[self.stops], self.starts)

    def lengths(self, instance: Instance) -> FloatArray:
        """(routes,) the length of each, depot to depot."""
        if not len(self):
            return np.zeros(0)
        route_of_stop = np.repeat(np.arange(len(self)), self.sizes)
        path = np.zeros(len(self.stops) + len(self) + 1, dtype=np.int64)  # 0 between
        path[np.arange(1, len(self.stops) + 1) + route_of_stop] = self.stops
        legs = instance.lengths(path[:-1], path[1:])
        return np.add.reduceat(legs, self.starts[:-1] + np.arange(len(self)))

    def sums(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """(routes,) the sum over the stops of what each row has."""
        if not len(self):
            return np.zeros(0, dtype=values.dtype)
        return np.add.reduceat(values[self.stops], self.starts[:-1])

    def fit(self, instance: Instance) -> bool:
        """Whether no route is above the capacity."""
        loads = self.sums(instance.demand_units)
        return int(loads.max(initial=0)) <= instance.capacity_units
