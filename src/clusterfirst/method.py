"""What a method gets and gives: work to do, answers on offer, scores to decode.

A method is a function of one `Work`. It offers routes whenever it has some, looks at
`work.finished`, and returns when it has nothing more to try. The best offer so far
is always at hand, so a deadline or Ctrl-C costs nothing but the rest of the search.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from clusterfirst.clock import Deadline
from clusterfirst.instance import Instance, IntArray
from clusterfirst.scores import Scores
from clusterfirst.tours.routing import Clusters, costs, fit


@dataclass(frozen=True)
class Decoded:
    """What became of some scores: vehicles, routes and their true length."""

    labels: IntArray  # (n,)
    routes: Clusters
    cost: float
    forced: int = 0  # customers the repair had to place: no assignment was found


# A scorer yields scores and is sent what became of them (None: nothing feasible).
ScoreStream = Generator[Scores, Decoded | None, None]


@dataclass
class Work:
    """One instance, the limits, and the best answer so far."""

    instance: Instance
    deadline: Deadline
    iterations: int | None = None
    seed: int = 0
    assign: str | None = None  # decoding by name; None: the method's own choice
    fleet: str = "best"
    effort: int = 100  # of one fast assignment: exchanges proposed per customer
    mip_gap: float = 0.001  # at which exact, sparse and hard assignments may stop
    model: str | None = None  # weights for the neural method, by name or folder
    shots: int = 1  # seed sets the neural method tries at each fleet size
    recentre: int = 2  # times it then moves the seeds to the middles of its routes
    threads: int | None = None  # of the networks; None: as torch is set
    new_locations: str = "refuse"  # or "nearest": borrow the nearest known location
    decided: bool = False  # the method has run already, in a batch of many
    on_improvement: Callable[[float, Clusters], None] | None = None
    best: Clusters | None = None
    best_cost: float = np.inf
    proof: str = ""  # why the best answer is optimal, where that is known
    rounds: int = 0
    round_start: float = field(default_factory=time.perf_counter)
    usual_round: float = 0.0
    decoded: list[Decoded] = field(default_factory=list)  # all of them, if many shots
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        """Whether the rounds are used up, or too little time is left for one more."""
        enough = self.iterations is not None and self.rounds >= self.iterations
        return enough or self.deadline.left() <= self.usual_round

    def end_round(self) -> None:
        """Count a round, and remember how long rounds take."""
        now = time.perf_counter()
        # One slow round, when something else had the core, is soon forgotten.
        self.usual_round = max(0.7 * self.usual_round, now - self.round_start)
        self.round_start = now
        self.rounds += 1

    @property
    def fleet_limit(self) -> int:
        """Most routes that are allowed; never more than there are customers."""
        n = self.instance.num_customers
        limit = self.instance.vehicles
        return n if limit is None else min(limit, n)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time spent inside to a stage of the report."""
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + spent

    def insure(self, routes: Clusters) -> None:
        """Keep routes for a Ctrl-C; any answer of the method replaces them."""
        if len(routes) <= self.fleet_limit and fit(self.instance, routes):
            self.best = routes

    def offer(self, routes: Clusters) -> float:
        """Keep routes that serve everyone if they are the best; return their cost.

        Routes over the fleet limit or a capacity are refused (cost inf).
        """
        routes = [route for route in routes if len(route)]
        if len(routes) > self.fleet_limit:
            return np.inf
        if not fit(self.instance, routes):
            return np.inf
        cost = float(costs(self.instance, routes).sum())
        if cost < self.best_cost:
            self.best, self.best_cost = routes, cost
            if self.on_improvement is not None:
                self.on_improvement(cost, routes)
        return cost
