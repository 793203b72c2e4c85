"""Small days, sets and rows for the tests of the comparison."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from clusterfirst.evidence.bench.rows import Key, Row
from clusterfirst.evidence.bench.sets import BenchSet, Case
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution

ALONE = Solution([c] for c in range(1, 6))


def small_day(index: int) -> Instance:
    """Five customers."""
    points = np.random.default_rng(index).random((6, 2))
    return Instance([0, 1, 2, 3, 2, 1], 5, coords=points, name=f"day-{index}")


def small_set(count: int = 3, **references: float) -> BenchSet:
    """Days 0 to count - 1; `day0=10.0` is a reference."""
    days = [small_day(i) for i in range(count)]
    cases = tuple(Case(day, references.get(day.name.replace("-", ""))) for day in days)
    return BenchSet("days", cases, "somebody" if references else "")


def made_row(case: Case, method: str, cost: float | None, **changes: object) -> Row:
    """A run of 0.9 s on one core."""
    key = Key(case.digest, method, "", 1.0, 0, 1, "pool")
    row = Row(
        set_name="days",
        instance=case.instance.name,
        customers=5,
        **vars(key),
        cost=cost,
        vehicles=None if cost is None else 2,
        seconds=0.9,
        startup=2.0,
        gflops=20.0,
        reason="" if cost is not None else "it found nothing",
        at="2026-11-15T00:00:00+00:00",
        version="0",
    )
    return replace(row, **changes)  # type: ignore[arg-type]  # a test's own fields
