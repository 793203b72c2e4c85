"""The whole answer without search, warm: seconds at N = 100, 1000 and 10,000.

    python benchmarks/one_shot.py [--model general] [--threads 2]

From an instance in memory to judged routes: fast assignment, no polish. `recentre 0`
decodes once per fleet size, as the paper does; 2 is the default and moves the seeds.
Medians over days of the bundled city and, at 10,000, of a clustered one of 20,000.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

from clusterfirst.files import bundled_city
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.sampling import sample_city, sample_day
from clusterfirst.solving.solver import SolveOptions, solve, warm_up

DAYS = {100: 30, 1000: 5, 10_000: 2}
LIMIT = 60.0  # seconds; none of this should come near


def days(customers: int) -> list[Instance]:
    """Days of that many customers, Q = 50."""
    city = bundled_city()
    if customers > city.num_locations:
        city = sample_city(2 * customers, layout="clustered", seed=1)
    count = DAYS[customers]
    return [sample_day(city, customers, seed=7009, index=i) for i in range(count)]


def main() -> None:
    """Print a line per size and number of moves."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="general")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    warm_up("neural", given.model)
    for moves in (0, 2):
        before = None
        for customers in DAYS:
            options = SolveOptions(
                "neural",
                model=given.model,
                polish=False,
                threads=given.threads,
                recentre=moves,
                time_limit=LIMIT,
            )
            took = []
            for day in days(customers):
                begin = time.perf_counter()
                solve(day, options)
                took.append(time.perf_counter() - begin)
            median = statistics.median(took)
            growth = "" if before is None else f", {median / before:.1f} times as long"
            print(
                f"recentre {moves}, N={customers}: {1e3 * median:.0f} ms{growth}, "
                f"load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
            before = median


if __name__ == "__main__":
    main()
