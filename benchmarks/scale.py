"""What a Ray cluster costs: two nodes on this machine against one process.

    python benchmarks/scale.py [--count 24] [--iterations 200] [--store]

The same instances by counts on both sides, so that the answers are equal (checked). The
process solves one after the other on one thread; the cluster has two nodes of one core.
`efficiency` is the time of one process over twice that of the cluster. CPU seconds do
not depend on what else runs: `cpu_ratio` is what the workers spend for the same work.
`dispatch_ms` is what one task costs the process that sends it, so its inverse is how
many tasks a second one driver can feed. `--store` writes benchmarks/results/scale.json,
from which docs/scale.md is written.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clusterfirst.problem.sampling import sample_uniform
from clusterfirst.solving.cluster import map_ray
from clusterfirst.solving.many import solve_many
from clusterfirst.solving.solver import Result, SolveOptions, solve, warm_up

RESULTS = Path(__file__).parent / "results" / "scale.json"
SIZES = {100: 50.0, 1000: 250.0}  # customers, and their capacity
EMPTY = 500  # tasks that do nothing


def nothing(task: tuple[int, Any]) -> int:
    """What a task costs that does nothing."""
    return task[0]


def answers(found: Iterator[Any]) -> list[Any]:
    """Routes of all answers."""
    listed = list(found)
    assert all(isinstance(one, Result) for one in listed)
    return [one.solution for one in listed]


def cpu_of_workers() -> float:
    """CPU seconds of all workers of Ray on this machine."""
    total = 0.0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name = (folder / "cmdline").read_bytes()
            fields = (folder / "stat").read_text().rsplit(")")[1].split()
        except OSError:
            continue
        if name.startswith(b"ray::"):
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def compare(count: int, iterations: int) -> dict[str, Any]:
    """One process, then two nodes, on the same instances."""
    options = SolveOptions(iterations=iterations, threads=1)
    days = [sample_uniform(100, seed=17, index=i) for i in range(count)]
    warm_up()
    solve(days[0], options)
    begin, cpu = time.perf_counter(), time.process_time()
    here = answers(solve_many(days, options))
    alone, alone_cpu = time.perf_counter() - begin, time.process_time() - cpu
    answers(solve_many(days[:8], options, "ray"))  # workers start and load kernels
    begin, cpu = time.perf_counter(), cpu_of_workers()
    there = answers(solve_many(days, options, "ray"))
    both, both_cpu = time.perf_counter() - begin, cpu_of_workers() - cpu
    assert there == here
    return {
        "instances": count,
        "seconds_one_process": round(alone, 1),
        "seconds_two_nodes": round(both, 1),
        "efficiency": round(alone / (2 * both), 3),
        "cpu_per_instance_s": round(alone_cpu / count, 4),
        "cpu_ratio": round(both_cpu / alone_cpu, 3),
    }


def dispatching(customers: int) -> dict[str, Any]:
    """What the driver spends on one task with a day of this size."""
    day = sample_uniform(customers, seed=3, index=0, capacity=SIZES[customers])
    tasks = [(i, day) for i in range(EMPTY)]
    list(map_ray(nothing, tasks[:50], workers=2))
    begin, cpu = time.perf_counter(), time.process_time()
    list(map_ray(nothing, tasks, workers=2))
    spent = (time.process_time() - cpu) / EMPTY
    return {
        "bytes": len(pickle.dumps(day)),
        "dispatch_ms": round(1000 * spent, 3),
        "wall_ms": round(1000 * (time.perf_counter() - begin) / EMPTY, 3),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--store", action="store_true")
    given = parser.parse_args()
    import ray
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            **node,
            "include_dashboard": False,
            "_system_config": {"worker_niceness": 0},
        },
    )
    cluster.add_node(**node)
    ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
    begin = os.getloadavg()[0]
    found: dict[str, Any] = compare(given.count, given.iterations)
    found["tasks"] = {str(size): dispatching(size) for size in SIZES}
    found["load_average"] = [round(begin, 1), round(os.getloadavg()[0], 1)]
    found["date"] = time.strftime("%Y-%m-%d")
    ray.shutdown()
    cluster.shutdown()
    print(json.dumps(found, indent=1))
    if given.store:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
