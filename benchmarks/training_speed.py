"""Training speed: passes per second, and where the time goes that is no product.

    python benchmarks/training_speed.py [--processes 2] [--steps 5] [NAME ...]

As `train --threads` does it: processes with one thread each share every batch. For
each network it prints passes per second of wall clock and of the first process's CPU
time (on a busy machine only the second means something), and of that process the share
of matrix products in the time of all operators, page faults, and the fp32 product rate
at the network's own shapes. Instances of N = 100 are drawn here; labels are sweeps,
because the speed does not depend on their quality.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from dataclasses import replace

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from clusterfirst.learning.labels.pool import Label, LabelPool
from clusterfirst.learning.training.batches import BatchSettings, draw_batch
from clusterfirst.learning.training.loop import TrainConfig, Trainer
from clusterfirst.networks.config import CONFIGS, ModelConfig
from clusterfirst.networks.nodes import NodeArrays
from clusterfirst.problem.sampling import sample_city, sample_day

CITY = sample_city(3000, seed=1)
THREE = {"seed_layers": 3, "cluster_layers": 3}
SIX = {"seed_layers": 6, "cluster_layers": 6}
PSI = {"psi_rows": 3001, "psi_width": 64}
PLAIN = CONFIGS["city-one-layer"]  # the paper's layers, without dropout
NETWORKS: dict[str, ModelConfig] = {
    "psi-6+6": replace(PLAIN, **PSI, **SIX),
    "xy-6+6": replace(PLAIN, input="xy", **SIX),
    "psi-3+3": replace(PLAIN, **PSI, **THREE),
    "xy-3+3": replace(PLAIN, input="xy", **THREE),
    "relative-3+3": replace(CONFIGS["general"], **THREE),
    "general-4+4": CONFIGS["general"],
    "paper-psi-6+6": replace(CONFIGS["paper"], **PSI),
}
PRODUCTS = ("aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm")


def sweep_label(index: int) -> Label:
    """A day of 100 customers with the routes of a sweep."""
    day = sample_day(CITY, 100, seed=1, index=index)
    away = day.plane[1:] - day.plane[0]
    order = np.argsort(np.arctan2(away[:, 1], away[:, 0]))
    load = np.cumsum(day.demand_units[1:][order])
    route = np.empty(100, dtype=np.int64)
    route[order] = load // (day.capacity_units - 9)  # never above the capacity
    route = np.unique(route, return_inverse=True)[1]
    nodes = NodeArrays(day.plane, day.demand_units, day.capacity_units, day.city_rows)
    return Label(nodes, route.astype(np.int64))


def product_rate(config: ModelConfig, tokens: int) -> float:
    """GFLOP/s of the feed-forward product of this network."""
    a = torch.randn(tokens, config.width)
    b = torch.randn(config.width, config.feedforward)
    a @ b
    start, times = time.thread_time(), 10
    for _ in range(times):
        a @ b
    seconds = time.thread_time() - start  # others' work does not count
    return times * 2 * tokens * config.width * config.feedforward / seconds / 1e9


def measure(name: str, steps: int, pool: LabelPool, processes: int) -> str:
    """Train a few steps of one network and describe them in a line."""
    model = NETWORKS[name]
    psi = torch.randn(model.psi_rows, model.psi_width) if model.psi_rows else None
    config = TrainConfig(model, steps=10_000, batches=BatchSettings(part_share=0.0))
    trainer = Trainer(config, psi)
    run = trainer.run(pool, until=config.steps, processes=processes)
    next(run)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    wall, cpu = time.perf_counter(), time.process_time()
    passes = sum(next(run).passes for _ in range(steps))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    faults = (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults) / steps
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        next(run)
    run.close()
    spent = {e.key: e.self_cpu_time_total for e in profiler.key_averages()}
    products = sum(t for key, t in spent.items() if key in PRODUCTS)
    rest = sorted(
        ((t, k) for k, t in spent.items() if k not in PRODUCTS), reverse=True
    )[:5]
    total = sum(spent.values())
    slow = ", ".join(f"{key.removeprefix('aten::')} {t / total:.0%}" for t, key in rest)
    return (
        f"{name:<14} {passes / wall:6.1f} passes/s, {passes / cpu:6.1f} if "
        f"{processes} cores were free; products {products / total:.0%}; "
        f"{faults:,.0f} page faults a step; {product_rate(model, 6464):.0f} GFLOP/s\n"
        f"{'':<14} next: {slow}"
    )


def drawing(pool: LabelPool) -> str:
    """CPU time of drawing a batch, which a thread does ahead, and its padding."""
    lines = []
    for share in (0.0, 1.0):
        settings = BatchSettings(part_share=share)
        rule = CONFIGS["city"].neighbours
        start = time.thread_time()
        drawn = [
            draw_batch(pool, settings, rule, seed=0, step=step) for step in range(6)
        ]
        seconds = (time.thread_time() - start) / sum(len(b.route) for b in drawn)
        padding = np.mean([batch.padding for batch in drawn])
        kind = "parts" if share else "whole"
        lines.append(
            f"drawing {kind}: {1e3 * seconds:.2f} ms each, {padding:.1%} padding"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure the networks named on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NETWORKS))
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--steps", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    pool = LabelPool.of_labels([sweep_label(i) for i in range(200)])
    print(drawing(pool))
    for name in given.names or NETWORKS:
        print(measure(name, given.steps, pool, given.processes), flush=True)


if __name__ == "__main__":
    main()
