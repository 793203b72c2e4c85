"""How good and how fast the classical methods and their stages are.

    python benchmarks/assign_and_route.py tours
    python benchmarks/assign_and_route.py lehd [INSTANCES] [METHOD ...]
    python benchmarks/assign_and_route.py x [METHOD ...]
    python benchmarks/assign_and_route.py limits [METHOD ...]
    python benchmarks/assign_and_route.py startup

`lehd` and `x` read references from the folder CLUSTERFIRST_DATA (default
the folder `data`). Timings depend on what else runs: the load average is printed.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from clusterfirst.problem.instance import Instance
from clusterfirst.problem.sampling import sample_public
from clusterfirst.solving.solver import SolveOptions, default_time_limit, solve, warm_up

DATA = Path(os.environ.get("CLUSTERFIRST_DATA", "data"))
CLASSICAL = ("fisher-jaikumar", "sweep", "petal", "savings")


def load() -> str:
    """The load average beside every figure."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def tours() -> None:
    """Gap of the local search to exact tours, and its speed."""
    import fast_tsp

    from clusterfirst.stages.tours.tsp import solve_blocks

    def tour_of(block: np.ndarray, kicks: int) -> np.ndarray:
        order = np.arange(1, len(block))
        ends = np.array([0, len(order)])
        solve_blocks(block.ravel(), ends, order, kicks)
        return np.concatenate([[0], order])

    def length(block: np.ndarray, tour: np.ndarray) -> float:
        return float(block[tour, np.roll(tour, -1)].sum())

    rng = np.random.default_rng(0)
    for stops in (8, 10, 12, 15, 18):
        gaps, seconds = {0: [], 2: [], 10: []}, {0: 0.0, 2: 0.0, 10: 0.0}
        exact = 0.0
        for _ in range(40):
            points = rng.random((stops + 1, 2))
            block = np.linalg.norm(points[:, None] - points[None], axis=2)
            start = time.perf_counter()
            whole = np.round(block / block.max() * 60_000).astype(int)
            best = length(block, np.array(fast_tsp.solve_tsp_exact(whole)))
            exact += time.perf_counter() - start
            for kicks in gaps:
                start = time.perf_counter()
                tour = tour_of(block, kicks)
                seconds[kicks] += time.perf_counter() - start
                gaps[kicks].append(length(block, tour) / best - 1)
        for kicks, values in gaps.items():
            print(
                f"{stops} stops, {kicks} kicks each: gap {100 * np.mean(values):.4f}"
                f" % (largest {100 * max(values):.3f}), time / exact "
                f"{seconds[kicks] / exact:.3f}"
            )


def lehd(count: int, methods: list[str]) -> None:
    """Mean gaps to the LKH-3 references of LEHD, default time limits."""
    for n in (200, 500):
        reference = np.load(DATA / "lehd" / f"lehd_vrp{n}.npz")["ref_cost"][:count]
        instances = [sample_public(f"lehd{n}", i) for i in range(count)]
        for method in methods:
            report(f"LEHD {n}", instances, reference, method)


def x(methods: list[str]) -> None:
    """Mean gaps to the best known solutions of the X instances, default limits."""
    from clusterfirst.files import read_instance

    instances, reference = [], []
    for path in sorted((DATA / "X").glob("*.vrp")):
        instances.append(read_instance(path).replace(rounding="round"))
        text = path.with_suffix(".sol").read_text().lower()
        reference.append(float(text.split("cost")[1].split()[0].strip(":")))
    for method in methods:
        report("X", instances, np.array(reference), method)


def report(
    title: str, instances: list[Instance], reference: np.ndarray, method: str
) -> None:
    """One line: gaps, feasibility, overshoot."""
    warm_up(method)
    gaps, late, bad = [], [], 0
    for instance, best in zip(instances, reference, strict=True):
        start = time.perf_counter()
        result = solve(instance, SolveOptions(method=method))
        spent = time.perf_counter() - start
        late.append(spent - default_time_limit(instance.num_customers))
        gaps.append(100 * (result.verdict.cost / best - 1))
        bad += not result.verdict.feasible
    print(
        f"{title}, {method}: {len(gaps)} instances, {bad} infeasible, mean gap "
        f"{np.mean(gaps):.2f} %, largest {max(gaps):.2f} %, latest {max(late):+.3f} s "
        f"after the limit ({load()})",
        flush=True,
    )


def spin() -> None:
    """Keep a core busy."""
    while True:
        pass


def limits(methods: list[str]) -> None:
    """Overshoot of time limits with twice as many busy processes as cores."""
    busy = [
        multiprocessing.Process(target=spin, daemon=True)
        for _ in range(2 * (os.cpu_count() or 1))
    ]
    rng = np.random.default_rng(0)
    for process in busy:
        process.start()
    try:
        for method in methods:
            warm_up(method)
            for n, limit in ((100, 0.1), (1000, 0.5), (5000, 1.0), (100_000, 20.0)):
                points = rng.random((n + 1, 2))
                demands = np.concatenate([[0], rng.integers(1, 10, n)])
                instance = Instance(demands, 50, coords=points)
                start = time.perf_counter()
                result = solve(instance, SolveOptions(method=method, time_limit=limit))
                late = time.perf_counter() - start - limit
                print(
                    f"{method}, N = {n}, limit {limit} s: {late:+.3f} s, cost "
                    f"{result.verdict.cost:.2f} ({load()})",
                    flush=True,
                )
    finally:
        for process in busy:
            process.terminate()


def startup() -> None:
    """Imports, loading of compiled kernels, and compiling them anew."""
    code = (
        "import time; t = time.perf_counter(); import clusterfirst.solving.solver as s;"
        "a = time.perf_counter() - t;"
        f"b = [round(s.warm_up(m), 2) for m in {CLASSICAL}];"
        "print(f'import {a:.2f} s, warm-up by method {b}')"
    )
    for title, more in (("cached", {}), ("compiling", {"NUMBA_CACHE_DIR": "fresh"})):
        environment = dict(os.environ)
        if more:
            import tempfile

            environment["NUMBA_CACHE_DIR"] = tempfile.mkdtemp()
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
        )
        print(f"{title}: {done.stdout.strip() or done.stderr[-300:]} ({load()})")


def main() -> None:
    """Run the part that is named."""
    warnings.simplefilter("ignore")
    part, *rest = sys.argv[1:] or ["lehd"]
    count = int(rest.pop(0)) if rest and rest[0].isdigit() else 32
    methods = rest or list(CLASSICAL)
    if part == "lehd":
        lehd(count, methods)
    elif part in ("x", "limits"):
        {"x": x, "limits": limits}[part](methods)
    elif part in ("tours", "startup"):
        {"tours": tours, "startup": startup}[part]()
    else:
        print(__doc__)


if __name__ == "__main__":
    main()
