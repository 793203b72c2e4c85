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
    """A budget of seconds or iterations, and temperatures that fall with its use.

    With much time per customer the temperature falls several times, after the first
    time from a lower one: each fall begins with the routes that the last one left, and
    a set-partitioning program recombines what all of them ended with.
    """

    begin: float
    seconds: float
    iterations: float
    rounds: int  # parts of the budget between which routes are read and cut anew
    falls: int
    settings: PolishSettings

    @classmethod
    def of(
        cls, instance: Instance, settings: PolishSettings, deadline: Deadline
    ) -> Schedule:
        """Plan the search of an instance."""
        n = max(1, instance.num_customers)
        seconds = max(deadline.left() - settings.tidy_seconds_each * n, 1e-9)
        count = math.inf if settings.iterations is None else settings.iterations
        round_seconds = settings.round_seconds + settings.round_seconds_each * n
        rounds = min(seconds / round_seconds, count / settings.chunk)
        each = min(seconds * SPEED, count) / n
        falls = 1
        if each >= settings.several_falls:
            falls = round(min(each / settings.fall, settings.most_falls))
            seconds *= 1.0 - settings.pool_share
        per_fall = int(min(max(rounds, 1), settings.most_rounds) / falls)
        return cls(
            time.perf_counter(),
            seconds,
            count,
            falls * max(1, per_fall),
            falls,
            settings,
        )

    def used(self, done: int) -> float:
        """Share of the budget that is used after so many iterations."""
        passed = time.perf_counter() - self.begin
        return max(passed / self.seconds, done / self.iterations)

    def temperature(self, used: float, *, afresh: bool = False) -> float:
        """When this share (below 1) of the budget is used; `afresh` in a hot fall."""
        fall, part = divmod(used * self.falls, 1.0)
        hot = self.settings.hot if fall < 1.0 or afresh else self.settings.hot_again
        return hot * math.exp(part * math.log(self.settings.cold / hot))

    def ends_fall(self, step: int) -> bool:
        """Whether the temperature is at its lowest after this round."""
        return (step + 1) % (self.rounds // self.falls) == 0
