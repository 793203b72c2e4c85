"""Whether drawn days are like real ones: two-sample tests on days held back.

Five measures of a day: orders, load, share of its locations that the fitted days had,
mean distance to the nearest other order, and the length of its routes by one solver.
Each is compared by the test of Kolmogorov and Smirnov; the law passes if none of the
five is refused at 5 % together (Bonferroni: 1 % each).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clusterfirst.cities.day_law import fit
from clusterfirst.cities.history import History
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import FloatArray, Instance
from clusterfirst.solving.solver import SolveOptions, solve

LEVEL = 0.05
SEED = 0xC0FFEE  # of the drawn days
MEASURES = (
    "orders",
    "load",
    "share of known locations",
    "mean distance to the nearest order",
    "length of the routes",
)


@dataclass(frozen=True)
class Comparison:
    """One measure of real and of drawn days."""

    measure: str
    real: FloatArray
    drawn: FloatArray
    p_value: float  # how often chance alone makes two samples of one law differ so

    @property
    def passed(self) -> bool:
        """Whether the two may come from one law."""
        return self.p_value >= LEVEL / len(MEASURES)


def check_law(history: History, held_back: int, draws: int = 200) -> list[Comparison]:
    """Fit on all but the last days, and compare draws with those."""
    from scipy.stats import ks_2samp

    if not 1 <= held_back < len(history):
        rule = (
            f"1 to {len(history) - 1} of the {len(history)} past days can be held back"
        )
        raise InputError(Problem("E404", "--hold-back", str(held_back), rule))
    known = history.part(0, len(history) - held_back)
    law = fit(known)
    numbers = range(len(history) - held_back, len(history))
    real = measured([history.instance(i) for i in numbers], known)
    drawn = measured([law.draw(SEED, index) for index in range(draws)], known)
    return [
        Comparison(name, a, b, float(ks_2samp(a, b).pvalue))
        for name, a, b in zip(MEASURES, real.T, drawn.T, strict=True)
    ]


def measured(days: Sequence[Instance], known: History) -> FloatArray:
    """(days, measures): the five numbers of each day."""
    seen = known.times_ordered > 0
    return np.array([_measures(day, seen) for day in days])


def _measures(day: Instance, seen: npt.NDArray[np.bool_]) -> tuple[float, ...]:
    from scipy.spatial import cKDTree

    assert day.city_rows is not None
    points = day.plane[1:]
    apart = cKDTree(points).query(points, k=2)[0][:, 1] if len(points) > 1 else [0.0]
    # Savings, once: the same few milliseconds for every day, nothing by the clock.
    free = day.replace(vehicles=None)
    routes = solve(free, SolveOptions("savings", iterations=1, polish=False, threads=1))
    return (
        day.num_customers,
        float(day.demands.sum()),
        float(seen[day.city_rows[1:]].mean()),
        float(np.mean(apart)),
        routes.verdict.cost,
    )
