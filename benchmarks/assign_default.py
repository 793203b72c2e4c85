"""What `--assign fast` costs against `exact`: the rule behind the default.

    python benchmarks/assign_default.py --days 256 --customers 100

Days of the bundled city drawn here (a seed of their own, no test set), the shipped
one-layer model, no search, best of K_min and K_min+1. Gaps are to a short default solve
of the same day, so a point is 1 % of that. `fast` is the default at every size if the
mean difference is at most 0.1 points at N=100; else `exact` up to 150 customers.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from clusterfirst.files import bundled_city
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.sampling import sample_day
from clusterfirst.solving.solver import SolveOptions, solve

SEED = 7007


def cost_of(day: Instance, assign: str, limit: float) -> tuple[float, float]:
    """Cost without search, and seconds."""
    options = SolveOptions(
        "neural",
        model="city-psi-one-layer",
        assign=assign,
        polish=False,
        time_limit=limit,
    )
    begin = time.perf_counter()
    cost = solve(day, options).verdict.cost
    return cost, time.perf_counter() - begin


def main() -> None:
    """Print mean gaps, their paired difference and its 95 % half-width."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=256)
    parser.add_argument("--customers", type=int, default=100)
    parser.add_argument("--limit", type=float, default=5.0)
    given = parser.parse_args()
    city = bundled_city()
    rows = []
    for index in range(given.days):
        day = sample_day(city, given.customers, seed=SEED, index=index)
        reference = solve(day, SolveOptions(time_limit=0.3)).verdict.cost
        exact, slow = cost_of(day, "exact", given.limit)
        fast, quick = cost_of(day, "fast", given.limit)
        gaps = 100 * (np.array([exact, fast]) / reference - 1)
        rows.append([*gaps, gaps[1] - gaps[0], slow, quick])
        if (index + 1) % 32 == 0 or index + 1 == given.days:
            table = np.array(rows)
            half = 1.96 * table[:, 2].std(ddof=1) / np.sqrt(len(table))
            means = table.mean(axis=0)
            print(
                f"{len(table)} days of N={given.customers}: exact {means[0]:.2f} % in "
                f"{means[3]:.2f} s, fast {means[1]:.2f} % in {means[4]:.3f} s, fast "
                f"costs {means[2]:.2f} +- {half:.2f} points",
                flush=True,
            )


if __name__ == "__main__":
    main()
