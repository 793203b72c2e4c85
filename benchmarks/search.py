"""The search alone: time per step, quality against time, threads, memory.

    python benchmarks/search.py steps                   nanoseconds per kind of step
    python benchmarks/search.py validation --seconds 0.1 1   drawn maps, all kinds
    python benchmarks/search.py X xl --seconds 0.2 1    with the rows of the peers
    python benchmarks/search.py belem --hgs --seconds 1 HGS in the same seconds too
    python benchmarks/search.py city-1000 --network     started by the network too
    python benchmarks/search.py threads                 equal iterations per thread
    python benchmarks/search.py memory                  100,000 customers

One thread; seconds are CPU seconds of this process, the start included (savings unless
said), so that a busy machine changes little. Public sets and peers are read from
CLUSTERFIRST_DATA and are for reporting only: constants are chosen on the drawn maps
(log/). With --store what was found goes to benchmarks/results, and by `tables.py page`
into the docs; a row that is there already is replaced.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import time
import tracemalloc
import warnings
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from clusterfirst.evidence.bench.sets import (
    BenchSet,
    SetRequest,
    open_set,
    with_references,
)
from clusterfirst.learning.experts.expert import ExpertSettings
from clusterfirst.learning.experts.hgs import HGS
from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.errors import InputWarning
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.sampling import sample_uniform, sample_world
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.solving.first_method import first_temperature
from clusterfirst.solving.solver import SolveOptions, solve
from clusterfirst.stages.classical.savings import savings
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.search import polish as polishing
from clusterfirst.stages.search import schedule
from clusterfirst.stages.search.annealing import anneal, make_plan
from clusterfirst.stages.search.genetic import breeding
from clusterfirst.stages.search.polish import PolishSettings, polish
from clusterfirst.stages.search.regions import make_region, whole_data
from clusterfirst.stages.search_state import SearchState
from machine import ROOT, facts
from search_page import KERNELS, LONG, NETWORK, OURS, STORED, read_kernels, read_rows

DATA = Path(os.environ.get("CLUSTERFIRST_DATA", "data"))
RUIN = "ruin and recreate"
RUNS = ROOT / "out" / "search-runs.jsonl"  # of this code: remove it when that changes
SEED = 7300  # of the drawn maps
NO_STEPS = {name: 0.0 for name in ("strings", "swaps", "crossings", "exchanges")}
SETS = {  # name: (how to draw map i, how many)
    "uniform-100": (lambda i: sample_uniform(100, seed=SEED, index=i), 8),
    "world-200": (lambda i: sample_world(200, seed=SEED, index=i), 8),
    "world-500": (lambda i: sample_world(500, seed=SEED, index=i), 6),
    "uniform-1000": (lambda i: sample_uniform(1000, seed=SEED, index=i), 4),
    "long-1000": (
        lambda i: sample_uniform(1000, seed=SEED, index=i, capacity=250),
        4,
    ),
    "world-5000": (lambda i: sample_world(5000, seed=SEED, index=i), 2),
}


class CpuDeadline(Deadline):
    """So many seconds of this process's own CPU time from now on."""

    def __init__(self, seconds: float) -> None:
        super().__init__(time.process_time() + seconds)

    def left(self) -> float:
        """Seconds left."""
        return self.at - time.process_time()


def savings_routes(instance: Instance) -> list[list[int]]:
    """The start of every run."""
    state = SearchState(instance, Deadline.never(), iterations=1)
    savings(state)
    assert state.best is not None
    return state.best.lists()


def network_routes(instance: Instance) -> list[list[int]]:
    """One decoding of the default model."""
    one = SolveOptions(
        "neural", iterations=1, polish=False, recentre=0, fleet="kmin", threads=1
    )
    return [list(route) for route in solve(instance, one).solution.routes]


STARTS = {OURS: savings_routes, NETWORK: network_routes}


def searched(
    instance: Instance, seconds: float, settings: PolishSettings, method: str = OURS
) -> float:
    """Judged cost after a start and polish in so many CPU seconds."""
    deadline = CpuDeadline(seconds)
    if method == NETWORK:
        hot = first_temperature(instance, "neural", settings)
        settings = replace(settings, hot=hot)
    answer = polish(instance, STARTS[method](instance), settings, deadline)
    verdict = judge(instance, Solution(answer.routes))
    assert verdict.feasible, verdict.violations[:3]
    return verdict.cost


# --- nanoseconds ----------------------------------------------------------------------


def steps(customers: int) -> list[dict[str, Any]]:
    """The time of each kind of step, on routes that are annealed already."""
    base = PolishSettings()
    kinds = {
        "string": {"strings": 1.0},
        "swap": {"swaps": 1.0},
        "cross": {"crossings": 1.0},
        "exchange": {"exchanges": 1.0},
        "open": {},
        RUIN: {},
        "mix": {
            name: getattr(base, name)
            for name in ("strings", "swaps", "crossings", "exchanges")
        },
    }
    rows: list[dict[str, Any]] = []
    for capacity in (50, 250):
        instance = sample_uniform(customers, seed=SEED, index=0, capacity=capacity)
        done = polish(
            instance,
            savings_routes(instance),
            replace(base, iterations=20 * customers),
            Deadline.never(),
        )
        data = whole_data(instance, base.neighbours)
        scale = float(data.near_gap[1:, :10].mean())

        routes = Routes.of(done.routes)
        row = {}
        for kind, shares in kinds.items():
            ruins = 1.0 if kind == RUIN else 0.0
            region = make_region(data, routes, len(routes.sizes) + 4, 0)
            settings = replace(base, **{**NO_STEPS, **shares}, ruins=ruins)
            plan = make_plan(settings, region)
            begin = time.process_time()
            anneal(region.data, region.state, plan, 20_000, 0.1 * scale)
            row[kind] = (time.process_time() - begin) / 20_000 / base.moves * 1e9
        row[RUIN] = (row[RUIN] - row["open"]) * base.moves
        text = ", ".join(f"{kind} {value:.0f}" for kind, value in row.items())
        print(f"N={customers} Q={capacity}: ns per step: {text}", flush=True)
        rows.append({"customers": customers, "capacity": capacity, "ns": row})
    return rows


# --- quality against time -------------------------------------------------------------


def validation(seconds: list[float], settings: PolishSettings) -> None:
    """Print mean gaps to the best of all runs here on maps drawn for this."""
    for name, (draw, count) in SETS.items():
        costs = np.array(
            [[searched(draw(i), s, settings) for s in seconds] for i in range(count)]
        )
        gaps = 100 * (costs / costs.min(axis=1, keepdims=True) - 1).mean(axis=0)
        text = ", ".join(f"{s:g} s {g:.2f}" for s, g in zip(seconds, gaps, strict=True))
        print(f"{name:14} n={count}: {text}", flush=True)


def public(name: str, every: int) -> BenchSet:
    """A public set with its references, of this repository where it has some."""
    found = open_set(name, SetRequest(data=DATA))
    for path in (ROOT / "benchmarks" / "references").glob(f"{name}-*.csv"):
        with path.open() as file:
            costs = {r["instance"]: float(r["cost"]) for r in csv.DictReader(file)}
        known = [case for case in found.cases if case.instance.name in costs]
        found = BenchSet(name, tuple(known))
        found = with_references(found, str(path.relative_to(ROOT)))
    return replace(found, cases=found.cases[::every])


def peer_costs(name: str) -> dict[tuple[float, str], dict[str, float]]:
    """What others' programs found on this set, where somebody noted it."""
    found: dict[tuple[float, str], dict[str, float]] = defaultdict(dict)
    path = DATA / "peers" / f"{name.lower()}.csv"
    if path.exists():
        with path.open() as file:
            for row in csv.DictReader(file):
                key = float(row["seconds"]), row["method"]
                found[key][row["instance"]] = float(row["cost"])
    return found


def hgs_cost(instance: Instance, seconds: float) -> float:
    """What HGS finds in so many CPU seconds."""
    answer = HGS.solve(instance, ExpertSettings(seconds=seconds))
    return judge(instance, answer).cost


def runs(
    name: str, cases: BenchSet, args: argparse.Namespace
) -> list[tuple[float, str, str, float]]:
    """(seconds, method, instance, cost) of every run; one that was done is kept."""
    done = {}
    if RUNS.exists():
        lines = map(json.loads, RUNS.read_text().splitlines())
        done = {tuple(key): cost for key, cost in lines}
    methods = [OURS, *[NETWORK] * args.network, *["hgs"] * args.hgs]
    tasks = {
        (name, s, method, case.instance.name, args.seed): case.instance
        for case in cases.cases
        for s in args.seconds
        for method in methods
    }
    missing = [key for key in tasks if key not in done]
    RUNS.parent.mkdir(exist_ok=True)
    with ProcessPoolExecutor(
        args.processes, initializer=ready, initargs=[methods]
    ) as pool:
        found = pool.map(run, missing, [tasks[key] for key in missing])
        for key, cost in zip(missing, found, strict=True):
            done[key] = cost
            with RUNS.open("a") as file:
                file.write(json.dumps([key, cost]) + "\n")
    return [
        (s, method, case, done[n, s, method, case, k])
        for n, s, method, case, k in tasks
    ]


def run(key: tuple[str, float, str, str, int], instance: Instance) -> float:
    """The cost of one run."""
    _, seconds, method, _, seed = key
    if method == "hgs":
        return hgs_cost(instance, seconds)
    return searched(instance, seconds, PolishSettings(seed), method)


def ready(methods: Sequence[str] = (OURS,)) -> None:
    """Load the kernels, and let the search look at the CPU time of its process."""
    toy = sample_uniform(100, seed=SEED, index=0)
    polishing.warm_up()
    breeding.warm_up(toy)
    for method in STARTS.keys() & set(methods):
        STARTS[method](toy)
    clock = SimpleNamespace(perf_counter=time.process_time)
    schedule.time = polishing.time = clock  # type: ignore[assignment]


def against_peers(name: str, args: argparse.Namespace) -> None:
    """Print and keep mean gaps to the references: ours, and those of others."""
    cases = public(name, args.every)
    costs = peer_costs(name)
    for s, method, instance, cost in runs(name, cases, args):
        costs[s, method][instance] = cost
    rows = []
    for (s, method), found in sorted(costs.items()):
        if s not in args.seconds:
            continue
        gaps, long = [], []
        for case in cases.cases:
            instance = case.instance
            if case.reference is None or instance.name not in found:
                continue
            gaps.append(100 * (found[instance.name] / case.reference - 1))
            if instance.num_customers > LONG * instance.min_vehicles:
                long.append(gaps[-1])
        row = {
            "set": name,
            "seconds": s,
            "method": method,
            "instances": len(gaps),
            "references": cases.references,
            "gap": round(float(np.mean(gaps)), 4),
            "error": round(float(np.std(gaps) / max(1, len(gaps) - 1) ** 0.5), 4),
            "long": len(long),
            "gap_long": round(float(np.mean(long)), 4) if long else None,
            **facts(),
        }
        rows.append(row)
        text = f"{row['gap']:6.2f} +- {row['error']:.2f} %"
        print(
            f"{name:9} {s:5g} s {method:13} n={len(gaps)} {text}, "
            f"{len(long)} with long routes {row['gap_long']}",
            flush=True,
        )
    if args.store:
        store(rows)


def store(rows: list[dict[str, Any]]) -> None:
    """Keep rows for the page; older ones of the same set, method and seconds go."""
    table = {(r["set"], r["seconds"], r["method"]): r for r in [*read_rows(), *rows]}
    done = [table[key] for key in sorted(table)]
    STORED.write_text(json.dumps(done, indent=1) + "\n", encoding="utf-8")


# --- threads and memory ---------------------------------------------------------------


def threads(settings: PolishSettings) -> list[dict[str, Any]]:
    """Gaps to one thread with equal iterations per thread: no clock decides."""
    rows: list[dict[str, Any]] = []
    for name, (draw, _) in SETS.items():
        costs = {}
        for count in (1, 2, 4, 8, 16):
            each = []
            for i in range(2):
                instance = draw(i)
                run = replace(settings, iterations=10_000, threads=count)
                start = savings_routes(instance)
                each.append(polish(instance, start, run, Deadline.never()).cost)
            costs[count] = np.array(each)
        gaps = {
            count: round(100 * float((cost / costs[1] - 1).mean()), 2)
            for count, cost in costs.items()
        }
        print(f"{name:14} % to one thread, by threads {gaps}", flush=True)
        rows.append({"set": name, "gaps": gaps})
    return rows


def memory(customers: int) -> list[dict[str, Any]]:
    """What the search adds to the memory of this process, and its seconds."""
    instance = sample_uniform(customers, seed=SEED, index=0)
    begin = time.process_time()
    start = savings_routes(instance)
    started = time.process_time()
    tracemalloc.start()
    settings = PolishSettings(iterations=1000)
    polish(instance, start, settings, Deadline.never())
    each = tracemalloc.get_traced_memory()[1] / customers
    tracemalloc.stop()
    row = {
        "customers": customers,
        "bytes": round(each),
        "savings_seconds": round(started - begin, 1),
        "polish_seconds": round(time.process_time() - started, 1),
    }
    print(row)
    return [row]


def main() -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="+")
    parser.add_argument("--seconds", type=float, nargs="+", default=[0.2, 1.0])
    parser.add_argument("--customers", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=int, default=1, help="of a set, every so many")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--hgs", action="store_true", help="HGS too, as long")
    parser.add_argument("--network", action="store_true", help="that start too")
    parser.add_argument("--store", action="store_true")
    args = parser.parse_args()
    ready()
    settings = PolishSettings(args.seed)
    kernels = {
        "steps": lambda: steps(args.customers),
        "threads": lambda: threads(settings),
        "memory": lambda: memory(max(args.customers, 100_000)),
    }
    for part in args.parts:
        if part in kernels:
            measured = {**read_kernels(), part: {"rows": kernels[part](), **facts()}}
            if args.store:
                KERNELS.write_text(json.dumps(measured, indent=1) + "\n")
        elif part == "validation":
            validation(args.seconds, settings)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", InputWarning)
                against_peers(part, args)


if __name__ == "__main__":
    main()
