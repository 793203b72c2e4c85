"""Fast assignment: time, gap to the LP bound, and the LP against HiGHS.

    python benchmarks/fast_assign_speed.py 100 1000 10000

Fisher-Jaikumar insertion costs, the paper's law (Q=50, demands 1..9), seeds spread by
k-means, 20 % noise on every cost, 32 candidates per customer. CPU seconds, warm.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from scipy.cluster.vq import kmeans2
from scipy.optimize import linprog
from scipy.sparse import coo_array

from clusterfirst.problem.clock import Deadline
from clusterfirst.stages.assignment.heuristic import assign_fast
from clusterfirst.stages.assignment.problem import AssignProblem, AssignSettings
from clusterfirst.stages.assignment.relaxation import (
    cheapest_first,
    lower_bound,
    make_transport,
    solve_transport,
)

CANDIDATES = 32  # nearest seeds on the map: cheapest by cost cannot hold the demand


def city(seed: int, n: int, extra: int) -> AssignProblem:
    """A day of the paper's law with K_min + extra vehicles."""
    rng = np.random.default_rng(seed)
    demands = rng.integers(1, 10, n)
    vehicles = -(-int(demands.sum()) // 50) + extra
    points = rng.random((n, 2)) - 0.5
    seeds = kmeans2(points, vehicles, iter=5, minit="points", rng=rng)[0]
    reach = np.linalg.norm(points, axis=1)[:, None]
    apart = np.linalg.norm(points[:, None] - seeds[None], axis=2)
    cost = reach + apart - np.linalg.norm(seeds, axis=1)[None]
    cost *= 1 + 0.2 * rng.random(cost.shape)
    if vehicles <= CANDIDATES:
        return AssignProblem(cost, demands, 50, vehicles)
    near = np.argpartition(apart, CANDIDATES, axis=1)[:, :CANDIDATES]
    return AssignProblem(np.take_along_axis(cost, near, 1), demands, 50, vehicles, near)


def linear_programme(problem: AssignProblem) -> tuple[float, float]:
    """(optimum by HiGHS / our bound - 1, its seconds / ours)."""
    n, columns = problem.cost.shape
    vehicle = problem.candidates
    if vehicle is None:
        vehicle = np.tile(np.arange(columns), (n, 1))
    begin = time.process_time()
    cost, columns_of = cheapest_first(problem.cost, vehicle)
    net = make_transport(cost, columns_of, problem.demands, problem.room)
    solve_transport(net, Deadline.never())
    bound = lower_bound(net, cost)
    ours = time.process_time() - begin
    every = np.arange(n * columns)
    once = coo_array((np.ones(n * columns), (np.repeat(np.arange(n), columns), every)))
    weight = np.repeat(problem.demands, columns).astype(float)
    room = coo_array((weight, (vehicle.ravel(), every)))
    begin = time.process_time()
    capacity = np.full(problem.vehicles, float(problem.capacity))
    best = linprog(problem.cost.ravel(), room, capacity, once, np.ones(n)).fun
    return best / bound - 1, (time.process_time() - begin) / ours


def main() -> None:
    """Print one line per size and fleet."""
    settings = AssignSettings()
    assign_fast(city(0, 50, 0), settings, Deadline.never())
    for n in map(int, sys.argv[1:] or ["100", "1000"]):
        for extra in (0, 1, 2):
            gaps, seconds, loads = [], [], []
            count = max(1, min(10, 2000 // n))
            for seed in range(count):
                problem = city(seed, n, extra)
                begin = time.process_time()
                answer = assign_fast(problem, settings, Deadline.never())
                seconds.append(time.process_time() - begin)
                gaps.append(answer.gap)
                loads.append(problem.demands.sum() / (50 * problem.vehicles))
            found = np.isfinite(gaps)
            line = (
                f"N={n} K_min+{extra} load {np.mean(loads):.3f}: {found.sum()}/{count} "
                f"feasible, {100 * np.mean(np.array(gaps)[found]):.2f} % above the LP, "
                f"{1000 * np.mean(seconds):.1f} ms"
            )
            if n <= 1000:
                off, ratio = linear_programme(problem)
                line += f"; LP: HiGHS / ours {off:+.1e}, time ratio {ratio:.1f}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
