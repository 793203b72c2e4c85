"""How much of the budget is used, and how hot the annealing is then."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import Instance
from clusterfirst.stages.search.settings import PolishSettings

SPEED = 100_000  # iterations per second of one thread, about


@dataclass(frozen=True)
class Schedule:
    """A budget of seconds or iterations, and temperatures that fall with its use."""

    begin: float
    seconds: float
    iterations: float
    rounds: int  # parts of the budget between which routes are read and cut anew
    hot: float  # in mean distances to the nearest customers
    cold: float

    @classmethod
    def of(
        cls,
        instance: Instance,
        routes: int,
        settings: PolishSettings,
        deadline: Deadline,
    ) -> Schedule:
        """Plan the search of an instance that has so many routes at first."""
        n = instance.num_customers
        seconds = max(deadline.left() - settings.tidy_seconds_each * n, 1e-9)
        count = math.inf if settings.iterations is None else settings.iterations
        round_seconds = settings.round_seconds + settings.round_seconds_each * n
        rounds = min(seconds / round_seconds, count / settings.chunk)
        return cls(
            time.perf_counter(),
            seconds,
            count,
            int(min(max(rounds, 1), settings.most_rounds)),
            settings.hot,
            settings.cold,
        )

    def used(self, done: int) -> float:
        """Share of the budget that is used after so many iterations."""
        passed = time.perf_counter() - self.begin
        return max(passed / self.seconds, done / self.iterations)

    def temperature(self, used: float) -> float:
        """Temperature when this share of the budget is used."""
        return self.hot * math.exp(used * math.log(self.cold / self.hot))
