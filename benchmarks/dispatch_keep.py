"""What keeping yesterday's plan costs, on days of several kinds.

`python benchmarks/dispatch.py keep [--kind NAME ...]` runs it. On each day a tenth of
the orders are others than yesterday's, drawn by the same law. Lengths are beside the
shorter of two plans of the same iterations that owe yesterday nothing: one from
scratch, one that begins with yesterday's routes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from clusterfirst.problem.changes import pairs_kept
from clusterfirst.problem.instance import FloatArray, Instance
from clusterfirst.problem.solution import Solution
from clusterfirst.solving.keeping import Kept
from clusterfirst.solving.options import SolveOptions
from clusterfirst.solving.solver import solve
from machine import ROOT

PRICES = (0.0, 0.25, 0.5, 0.7, 1.0, 1.5, 2.0)  # mean distances to the ten nearest
YESTERDAY = 400_000  # iterations of the plan that is kept: some 4 CPU seconds
TODAY = 60_000
TOWNS = 6  # of a clustered map
BELEM_DAYS = 72  # the later ones are for judging
TwoDays = tuple[Instance, Instance, dict[int, int]]


def two_days(
    index: int, capacity: int = 50, *, towns: int = 0, n: int = 250
) -> TwoDays:
    """Yesterday, today with a tenth of the customers exchanged, and who is who."""
    rng = np.random.default_rng([25, index])
    new = n // 10
    if towns:
        centres = rng.random((towns, 2))
        points = centres[rng.integers(0, towns, n + new + 1)]
        points = points + 0.05 * rng.normal(size=points.shape)
        points[0] = rng.random(2)
    else:
        points = rng.random((n + new + 1, 2))
    demands = rng.integers(1, 10, n + new + 1)
    demands[0] = 0
    return _exchanged(points, demands, capacity, new)


def belem_days(index: int) -> TwoDays:
    """A real day as yesterday; a tenth gives way to orders of other real days."""
    from city import belem

    history = belem(Path(os.environ.get("CLUSTERFIRST_DATA", "data")))
    rng = np.random.default_rng([27, index])
    day = history.days[int(rng.integers(0, BELEM_DAYS))]
    new, seen = len(day.rows) // 10, set(day.rows.tolist())
    rows, demands = [0, *rng.permutation(day.rows).tolist()], [0.0]
    size = dict(zip(day.rows.tolist(), day.demands.tolist(), strict=True))
    demands += [size[row] for row in rows[1:]]
    while len(rows) < 1 + len(day.rows) + new:
        other = history.days[int(rng.integers(0, BELEM_DAYS))]
        at = int(rng.integers(0, len(other.rows)))
        if int(other.rows[at]) not in seen:
            seen.add(int(other.rows[at]))
            rows.append(int(other.rows[at]))
            demands.append(float(other.demands[at]))
    city = history.city
    return _exchanged(city.coords[rows], np.array(demands), city.capacity, new)


def _exchanged(points: FloatArray, demands: Any, capacity: float, new: int) -> TwoDays:
    """The first customers but for the last `new` rows; then without the first."""
    n = len(points) - 1 - new
    first, second = np.arange(n + 1), np.r_[0, new + 1 : n + new + 1]
    days = [Instance(demands[r], capacity, coords=points[r]) for r in (first, second)]
    return days[0], days[1], {c: c - new for c in range(new + 1, n + 1)}


KINDS: dict[str, Callable[[int], TwoDays]] = {
    "uniform": two_days,
    "uniform, long routes": lambda index: two_days(index, 150),
    "towns": lambda index: two_days(index, towns=TOWNS),
    "towns, long routes": lambda index: two_days(index, 150, towns=TOWNS),
    "Belem": belem_days,
}


def known_today(plan: Solution, rename: dict[int, int]) -> Solution:
    """Yesterday's plan in today's rows; who is not there today goes."""
    return Solution([[rename[c] for c in r if c in rename] for r in plan.routes])


def keep_rows(kind: str, index: int) -> list[dict[str, Any]]:
    """Same-route pairs kept and extra length of one day, over the price of a move."""
    before, today, rename = KINDS[kind](index)
    effort = SolveOptions(iterations=TODAY, threads=1)
    was = solve(before, SolveOptions(iterations=YESTERDAY, threads=1))
    plan = known_today(was.solution, rename)
    step = today.plane
    gaps = np.sort(np.hypot(*(step[1:, None] - step[None, 1:]).transpose(2, 0, 1)))
    scale = float(gaps[:, 1:11].mean())
    found = {
        price: solve(today, effort, keep=Kept(plan, price * scale)) for price in PRICES
    }
    free = min(solve(today, effort).verdict.cost, found[0.0].verdict.cost)
    return [
        {
            "kind": kind,
            "day": index,
            "price": price,
            "pairs": pairs_kept(plan.routes, result.solution.routes),
            "longer": result.verdict.cost / free - 1,
            "stops": today.num_customers / len(result.solution.routes),
            "note": result.notes[-1],
        }
        for price, result in found.items()
    ]


def draw(rows: list[dict[str, Any]]) -> None:
    """The curves of what staying costs."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.6), layout="constrained")
    for kind in KINDS:
        points = [
            [
                100 * float(np.mean([r[k] for r in rows if _is(r, kind, price)]))
                for k in ("pairs", "longer")
            ]
            for price in PRICES
            if any(_is(r, kind, price) for r in rows)
        ]
        if points:
            axes.plot(*zip(*points, strict=True), marker="o", label=kind, ms=4)
    axes.axvline(90, color="#888888", lw=0.8)
    axes.set_xlabel("same-route pairs kept, %")
    axes.set_ylabel("longer than free planning, %")
    axes.set_title(f"Prices of a move from {PRICES[0]:g} to {PRICES[-1]:g}", fontsize=9)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(ROOT / "docs" / "pictures" / "keep.png", dpi=110)


def _is(row: dict[str, Any], kind: str, price: float) -> bool:
    return bool(row["kind"] == kind and row["price"] == price)


def keep(kinds: list[str], days: int = 8) -> list[dict[str, Any]]:
    """All days of these kinds."""
    rows: list[dict[str, Any]] = []
    for kind in kinds:
        for index in range(days):
            rows += keep_rows(kind, index)
            print(json.dumps(rows[-len(PRICES) :]), flush=True)
    return rows
