"""What a scorer, classical or neural, hands to the assignment: seeds and costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from clusterfirst.instance import FloatArray, IntArray


@dataclass(frozen=True)
class Scores:
    """Costs of customers at the seeds that stand for the vehicles."""

    seeds: IntArray  # (K,) customer rows 1..n
    cost: FloatArray  # (n, C), lower is better
    candidates: IntArray | None = None  # (n, C) seed numbers, -1 padded; None: C = K
    plan: FloatArray | None = None  # (n, K) transport plan Y, where asked for
    vehicles: int | None = None  # fewer than K if some of the seeds are to spare


class Scorer(Protocol):
    """Gives scores of one instance for any number of vehicles."""

    def __call__(self, vehicles: int) -> Scores:
        """Return seeds and costs for this fleet."""
