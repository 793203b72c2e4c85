"""What a scorer, classical or neural, hands to the assignment, and gets back."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from clusterfirst.problem.instance import FloatArray, IntArray
from clusterfirst.stages.routes import Routes


@dataclass(frozen=True)
class Scores:
    """Costs of customers at the seeds that stand for the vehicles."""

    seeds: IntArray  # (K,) customer rows 1..n
    cost: FloatArray  # (n, C), lower is better
    candidates: IntArray | None = None  # (n, C) seed numbers, -1 padded; None: C = K
    plan: FloatArray | None = None  # (n, K) transport plan Y, where asked for
    vehicles: int | None = None  # fewer than K if some of the seeds are to spare


@dataclass(frozen=True)
class Decoded:
    """What became of some scores: vehicles, routes and their true length."""

    labels: IntArray  # (n,)
    routes: Routes
    cost: float
    forced: int = 0  # customers the repair had to place: no assignment was found


# A scorer yields scores and is sent what became of them (None: nothing feasible).
ScoreStream = Generator[Scores, Decoded | None, None]
