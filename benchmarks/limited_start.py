"""Days with limits that begin with the network, beside the same days with savings.

    python benchmarks/limited_start.py 1 named mixed stops street peer

Equal CPU seconds of one core, so that load does not matter; prints a row per day and
the mean per kind of day. The days are drawn here from the bundled city and from
dispatch.py; none is a test set. log/2026-11-19-network-within-limits.md has the table.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

import numpy as np

from clusterfirst.files import bundled_city
from clusterfirst.problem.constraints import Constraints
from clusterfirst.problem.fleet import Fleet
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.sampling import sample_day
from clusterfirst.solving.options import SolveOptions
from clusterfirst.solving.solver import solve
from dispatch import EACH, peer_day, peer_points

SIZES = (100, 200, 500, 1000)
DAYS = 16


def drawn(kind: str, index: int) -> Instance:
    """A day whose vehicles have names only, differ, have few stops, or streets."""
    if kind == "peer":
        number = (0, 4, 12, 16)[index % len(SIZES)] + index // EACH
        return peer_day(number).replace(coords=peer_points(number))
    day = sample_day(bundled_city(), SIZES[index % len(SIZES)], seed=77, index=index)
    load, few = float(day.capacity), day.min_vehicles
    if kind == "mixed":
        fleet = Fleet(
            ("large", "small"),
            np.array([1.3 * load, 0.7 * load]).round(),
            np.array([few // 2 + 2, few // 2 + 4]),
        )
    elif kind == "stops":
        most = np.ceil(0.8 * day.num_customers / few)
        fleet = Fleet(
            ("van",), np.array([load]), np.array([2 * few + 2]), np.array([most])
        )
    else:
        fleet = Fleet.of_one_kind(load, few + 4)
    day = day.replace(constraints=Constraints(fleet))
    if kind != "street":
        return day
    rng = np.random.default_rng([5, index])
    streets = day.distances * (1 + 0.3 * rng.random(day.distances.shape))
    return day.replace(matrix=streets, metric="matrix")


def main() -> None:
    """Solve every day from both starts."""
    seconds, kinds = float(sys.argv[1]), sys.argv[2:]
    time.perf_counter = time.process_time
    for kind in kinds:
        better = []
        for index in range(DAYS):
            day = drawn(kind, index)
            costs, method = [], ""
            for name in ("savings", "neural"):
                options = SolveOptions(name, time_limit=seconds, threads=1, recentre=0)
                result = solve(day, options)
                costs.append(result.verdict.cost)
                method = result.method
            better.append(100 * (costs[1] / costs[0] - 1))
            print(json.dumps([kind, day.num_customers, *costs, method]), flush=True)
        error = statistics.stdev(better) / len(better) ** 0.5
        print(f"{kind}, {seconds:g} s: {statistics.mean(better):+.2f} +- {error:.2f} %")


if __name__ == "__main__":
    main()
