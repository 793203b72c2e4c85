"""Routes as arrays: all stops one behind the other, and sums over each route."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from clusterfirst.problem.instance import FloatArray, IntArray

Legs = Callable[[IntArray, IntArray], FloatArray]  # what each way between rows costs


@dataclass(frozen=True, eq=False)
class Stops:
    """The customers of all routes; `route` goes up from 0."""

    customer: IntArray  # (S,)
    route: IntArray  # (S,)
    count: IntArray  # (R,) stops per route

    def sums(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """(R,) the sum of `values` (S,) over each route; 0 for one without stops."""
        total = np.zeros(len(self.count), dtype=values.dtype)
        starts = np.cumsum(self.count) - self.count
        some = self.count > 0
        if len(values):
            total[some] = np.add.reduceat(values, starts[some])
        return total

    @cached_property
    def before(self) -> IntArray:
        """(S,) the row one comes from: the stop before, or the depot."""
        first = np.diff(self.route, prepend=-1) != 0
        return np.where(first, 0, np.roll(self.customer, 1))

    def ways(self, legs: Legs) -> FloatArray:
        """(R,) the sum of `legs` along each route, from the depot to the depot."""
        if not len(self.customer):
            return np.zeros(len(self.count))
        values = legs(self.before, self.customer)
        last = np.diff(self.route, append=-1) != 0
        values[last] += legs(self.customer[last], np.zeros_like(self.customer[last]))
        return self.sums(values)
