"""Polish against HGS-CVRP and PyVRP at equal seconds, from a savings start.

    python benchmarks/polish_arena.py --seconds 1 --count 3 city:500 city:1000 PATH.vrp

HGS counts CPU seconds, so on a busy machine it gets more than the wall-clock seconds
printed for us; its own wall clock is printed beside. Our seconds include the start.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from clusterfirst.learning.experts.expert import ExpertSettings
from clusterfirst.learning.experts.hgs import HGS
from clusterfirst.learning.experts.pyvrp_expert import PYVRP
from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.errors import NotFoundInTimeError
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.solving.solver import SolveOptions, solve
from clusterfirst.stages.search.polish import PolishSettings, polish, warm_up

CITY = Path(os.environ.get("CLUSTERFIRST_DATA", "data")) / "city"
Method = Callable[[Instance, float], Solution]


def instances(name: str, count: int) -> Iterator[tuple[Instance, float]]:
    """Yield instances with their reference costs."""
    if not name.startswith("city:"):
        import vrplib

        data, best = (
            vrplib.read_instance(name),
            vrplib.read_solution(str(Path(name).with_suffix(".sol"))),
        )
        yield (
            Instance(
                demands=data["demand"],
                capacity=data["capacity"],
                coords=data["node_coord"].astype(float),
                rounding="round",
            ),
            float(best["cost"]),
        )
        return
    city = np.load(CITY / "city.npz")
    days = np.load(CITY / f"test_n{name[5:]}.npz")
    for rows, demand, cost in list(
        zip(days["idx"], days["demand"], days["cost"], strict=True)
    )[:count]:
        coords = np.vstack([city["depot"][None], city["locations"][rows]]).astype(float)
        demands = np.concatenate([[0], demand])
        yield Instance(demands=demands, capacity=50, coords=coords), float(cost)


def ours(instance: Instance, seconds: float) -> Solution:
    """Savings once, then polish until the time is up."""
    deadline = Deadline.after(seconds)
    start = solve(instance, SolveOptions(method="savings", iterations=1)).solution
    return Solution(polish(instance, start.routes, PolishSettings(), deadline).routes)


def hgs(instance: Instance, seconds: float, seed: int = 1) -> Solution:
    """HGS-CVRP on one core."""
    return HGS.solve(instance, ExpertSettings(seconds=seconds, seed=seed))


def hgs_twice(instance: Instance, seconds: float) -> Solution:
    """Two seeds on two cores, the better answer."""
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(partial(hgs, instance, seconds), (1, 2)))
    return min(both, key=lambda s: judge(instance, s).cost)


def pyvrp(instance: Instance, seconds: float) -> Solution:
    """PyVRP from its own start."""
    return PYVRP.solve(instance, ExpertSettings(seconds=seconds))


METHODS: dict[str, Method] = {
    "ours": ours,
    "hgs": hgs,
    "hgs x2": hgs_twice,
    "pyvrp": pyvrp,
}


def main() -> None:
    """Print one line per set and method: mean gap to the reference and wall clock."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="+")
    parser.add_argument("--seconds", type=float, nargs="+", default=[1.0])
    parser.add_argument("--count", type=int, default=3)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    args = parser.parse_args()
    warm_up()
    for name in args.sets:
        cases = list(instances(name, args.count))
        for method in args.methods:
            METHODS[method](cases[0][0], 0.1)  # child processes and caches
        for seconds in args.seconds:
            for method in args.methods:
                gaps, walls = [], []
                for instance, reference in cases:
                    begin = time.perf_counter()
                    try:
                        answer = METHODS[method](instance, seconds)
                    except NotFoundInTimeError as failure:  # a busy machine
                        print(f"{method}: {failure}", flush=True)
                        continue
                    walls.append(time.perf_counter() - begin)
                    verdict = judge(instance, answer)
                    assert verdict.feasible, verdict.violations
                    gaps.append(100 * (verdict.cost / reference - 1))
                print(
                    f"{Path(name).name:>14} {seconds:5g} s {method:>7}: "
                    f"{np.mean(gaps):6.2f} % wall {np.mean(walls):6.2f} s "
                    f"load {os.getloadavg()[0]:.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
