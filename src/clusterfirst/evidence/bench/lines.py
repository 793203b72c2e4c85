"""A method at a time limit over all instances: one line of a comparison."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

LABEL = 38  # characters of a method in the table; commands can be long
LATE = 1.2  # times its limit: a method that took longer is marked


@dataclass(frozen=True)
class Mean:
    """A mean over instances and half the width of its 95 % interval (t)."""

    value: float
    half: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        """Mean over instances; the interval needs two of them."""
        if not values:
            return cls(math.nan, math.nan, 0)
        if len(values) < 2:
            return cls(values[0], math.nan, 1)
        from scipy.special import stdtrit

        quantile = float(stdtrit(len(values) - 1, 0.975))
        error = statistics.stdev(values) / math.sqrt(len(values))
        return cls(statistics.fmean(values), quantile * error, len(values))

    def __str__(self) -> str:
        if not self.count:
            return "-"
        half = "" if math.isnan(self.half) else f" ± {self.half:.2f}"
        return f"{self.value:.2f}{half}"


@dataclass(frozen=True)
class Line:
    """One method at one time limit, over all instances and seeds."""

    method: str
    model: str
    search: bool
    limit: float
    gap: Mean  # per cent above the reference, over the instances that were solved
    solved: float  # share of the runs
    vehicles: float
    seconds: float
    slowest: float
    startup: float
    gflops: float  # median beside these runs
    runs: int
    published: bool = False  # costs that somebody else measured

    @property
    def name(self) -> str:
        """The method as tables and plots name it."""
        return f"{self.method} (published)" if self.published else self.method

    @property
    def late(self) -> bool:
        """Whether it took clearly more time than it was allowed."""
        return self.seconds > LATE * self.limit
