"""How many instances per second `solve_many` answers without search.

    python benchmarks/many.py --count 1000 --customers 100

Days of the bundled city, the shipped one-layer model, `--assign fast`, no polish;
start-up apart. The CPU seconds show what a busy machine hides: two cores could do
2000 / (ms of CPU each) instances per second.
"""

from __future__ import annotations

import argparse
import os
import time

from clusterfirst.files import bundled_city
from clusterfirst.problem.sampling import sample_day
from clusterfirst.solving.many import solve_many
from clusterfirst.solving.solver import Result, SolveOptions, warm_up

SEED = 7008


def main() -> None:
    """Print the rate."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--customers", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--recentre", type=int, default=0)
    parser.add_argument("--model", default="city-psi-one-layer")
    given = parser.parse_args()
    city = bundled_city()
    days = [
        sample_day(city, given.customers, seed=SEED, index=index)
        for index in range(given.count)
    ]
    options = SolveOptions(
        "neural",
        model=given.model,
        assign="fast",
        polish=False,
        threads=given.threads,
        recentre=given.recentre,
    )
    warm_up(options.method, options.model)
    begin, cpu = time.perf_counter(), time.process_time()
    answers = [a for a in solve_many(days, options) if isinstance(a, Result)]
    wall, cpu = time.perf_counter() - begin, time.process_time() - cpu
    mean = sum(a.verdict.cost for a in answers) / len(answers)
    print(
        f"{len(answers)} of {len(days)} instances of N={given.customers}: "
        f"{len(answers) / wall:.1f} per second, {1e3 * cpu / len(days):.1f} ms of CPU "
        f"each, mean cost {mean:.4f}, load {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
