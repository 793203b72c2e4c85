"""The state of one search: the clock, the rounds, and the best routes so far.

A method offers routes whenever it has some, looks at `state.finished`, and returns when
it has nothing more to try. The best offer so far is always at hand, so a deadline or
Ctrl-C costs nothing but the rest of the search.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import Instance
from clusterfirst.stages.routes import Routes


def fleet_limit(instance: Instance) -> int:
    """Most routes that are allowed; never more than there are customers."""
    n, limit = instance.num_customers, instance.vehicles
    return n if limit is None else min(limit, n)


@dataclass
class SearchState:
    """One instance, its limits, and the best routes so far."""

    instance: Instance
    deadline: Deadline
    seed: int = 0
    iterations: int | None = None  # rounds of the method; None: until the deadline
    on_progress: Callable[[str, float], None] | None = None  # a stage, share done
    on_improvement: Callable[[float, Routes], None] | None = None
    best: Routes | None = None
    best_cost: float = np.inf
    told: tuple[float, Routes | None] = (np.inf, None)  # by `on_improvement`, the last
    proof: str = ""  # why the best answer is optimal, where that is known
    rounds: int = 0
    round_start: float = field(default_factory=time.perf_counter)
    usual_round: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def answered(self) -> bool:
        """Whether anything was offered; what only insures does not count."""
        return math.isfinite(self.best_cost)

    def start_rounds(self, iterations: int | None) -> None:
        """Let a method begin: its rounds are counted and timed from now on."""
        self.iterations, self.rounds, self.usual_round = iterations, 0, 0.0
        self.round_start = time.perf_counter()

    @property
    def finished(self) -> bool:
        """Whether the rounds are used up, or too little time is left for one more."""
        enough = self.iterations is not None and self.rounds >= self.iterations
        return enough or self.deadline.left() <= self.usual_round

    @property
    def too_late(self) -> bool:
        """Whether time is up and there is something to give, be it only a safe one."""
        return self.best is not None and self.deadline.passed()

    def end_round(self) -> None:
        """Count a round, and remember how long rounds take."""
        now = time.perf_counter()
        # One slow round, when something else had the core, is soon forgotten.
        self.usual_round = max(0.7 * self.usual_round, now - self.round_start)
        self.round_start = now
        self.rounds += 1
        if self.on_progress is not None and self.iterations is not None:
            self.on_progress("method", min(1.0, self.rounds / self.iterations))

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time spent inside to a stage of the report."""
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + spent

    def insure(self, routes: Routes, *, tell: bool) -> None:
        """Keep routes for a Ctrl-C; any answer of the method replaces them.

        `tell` calls them an improvement, where the answer cannot be worse than they.
        """
        if len(routes) <= fleet_limit(self.instance) and routes.fit(self.instance):
            self.best = routes
            if tell:
                self._tell(float(routes.lengths(self.instance).sum()), routes)

    def offer(self, routes: Routes) -> float:
        """Keep routes that serve everyone if they are the best; return their cost.

        Routes over the fleet limit or a capacity are refused (cost inf).
        """
        if len(routes) > fleet_limit(self.instance) or not routes.fit(self.instance):
            return np.inf
        cost = float(routes.lengths(self.instance).sum())
        if cost < self.best_cost:
            self.best, self.best_cost = routes, cost
            self._tell(cost, routes)
        return cost

    def offer_told(self) -> None:
        """Make the answer no worse than what was told last."""
        if self.told[1] is not None:
            self.offer(self.told[1])

    def _tell(self, cost: float, routes: Routes) -> None:
        if self.on_improvement is not None and cost < self.told[0]:
            self.told = cost, routes
            self.on_improvement(cost, routes)
