"""What the start is worth: `solve` as it is against the same search from others.

    python benchmarks/start.py city-500 city-1000 --seconds 0.1 0.3 1 3
    python benchmarks/start.py city-1000 --each 1e-4 3e-4       seconds per customer
    python benchmarks/start.py X belem --seconds 0.3 1 --store

One thread; the clock of `solve` is this process's CPU time, so that a busy machine
changes little, and the start's own time counts. Gaps are to the best cost that any run
of an instance found; differences are paired with `auto`, minus where `auto` is better.
Days of the bundled city, clustered ones above its size, and worlds are drawn by a seed
of their own: for choosing. X and Belem are for reporting. --store puts the rows into
benchmarks/results/start.json and from there into docs/anytime.md.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import t as student

from clusterfirst.evidence.bench.sets import SetRequest, open_set
from clusterfirst.files import bundled_city
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.sampling import sample_city, sample_day, sample_world
from clusterfirst.solving.solver import SolveOptions, solve
from machine import ROOT, facts

METHODS = ("auto", "savings", "fisher-jaikumar")
SEED = 646464  # of the drawn days
DEFAULT = {100: 12, 200: 12, 500: 8, 1000: 6, 2000: 4, 5000: 3, 10_000: 2}  # instances
STORED = ROOT / "benchmarks" / "results" / "start.json"
PAGE = ROOT / "docs" / "anytime.md"
BEGIN, END = "<!-- start:begin -->", "<!-- start:end -->"

Row = dict[str, Any]


def instances(name: str, count: int | None) -> list[Instance]:
    """City days and worlds by name and size, or the first cases of a public set."""
    kind, _, size = name.rpartition("-")
    if kind not in ("city", "world"):
        cases = open_set(name, SetRequest()).cases
        step = max(1, len(cases) // (count or len(cases)))
        return [case.instance for case in cases[::step][:count]]
    n = int(size)
    some = range(count or DEFAULT[n])
    if kind == "world":
        return [sample_world(n, seed=SEED, index=i) for i in some]
    city = bundled_city()
    if n > 0.8 * city.num_locations:
        city = sample_city(2 * n, layout="clustered", seed=3)
    return [sample_day(city, n, seed=SEED, index=i) for i in some]


def compare(name: str, days: list[Instance], seconds: Callable[[int], float]) -> Row:
    """All methods on all days."""
    costs: dict[str, list[float]] = {method: [] for method in METHODS}
    used: list[str] = []
    for day in days:
        limit = max(0.05, seconds(day.num_customers))
        for method in METHODS:
            options = SolveOptions(method, time_limit=limit, threads=1)
            found = solve(day, options)
            costs[method].append(found.verdict.cost)
            used += [found.method.partition("+")[0]] if method == METHODS[0] else []
    best = np.min(list(costs.values()), axis=0)
    sizes = [day.num_customers for day in days]
    row: Row = {
        "set": name,
        "instances": len(days),
        "customers": [min(sizes), max(sizes)],
        "seconds": float(np.mean([seconds(n) for n in sizes])),
        "start": " and ".join(sorted(set(used))),
        "gap": {
            m: float(100 * (np.array(costs[m]) / best - 1).mean()) for m in METHODS
        },
        "minus": {},
    }
    for method in METHODS[1:]:
        apart = 100 * (np.array(costs["auto"]) - costs[method]) / best
        wide = student.ppf(0.975, len(days) - 1)  # few instances: Student's t
        half = wide * apart.std(ddof=1) / len(days) ** 0.5
        row["minus"][method] = [float(apart.mean()), float(half)]
    return row


def line(row: Row) -> str:
    """A row of the page."""
    minus = " | ".join(f"{m:+.2f} ± {h:.2f}" for m, h in row["minus"].values())
    gaps = " | ".join(f"{row['gap'][m]:.2f}" for m in METHODS)
    seconds = f"{row['seconds']:.3g}"
    cells = [f"{row['set']} ({row['instances']})", seconds, row["start"], gaps, minus]
    return f"| {' | '.join(cells)} |"


def store(rows: list[Row]) -> None:
    """Replace rows of the same set and seconds; write the page anew."""
    old = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else []
    kept = {(row["set"], round(row["seconds"], 4)): row for row in old}
    kept |= {(row["set"], round(row["seconds"], 4)): row for row in rows}
    rows = list(kept.values())
    STORED.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    about = "; ".join(sorted({row["about"] for row in rows}))
    table = [
        "| set (instances) | CPU s | start | default | savings | Fisher-Jaikumar "
        "| default - savings | default - Fisher-Jaikumar |",
        "|---|---:|---|---:|---:|---:|---:|---:|",
        *map(line, rows),
        "",
        about,
    ]
    body = "\n".join(table)
    temporary = PAGE.with_suffix(f".{os.getpid()}")
    temporary.write_text(f"{head}{BEGIN}\n{body}\n{END}{tail}", encoding="utf-8")
    os.replace(temporary, PAGE)


def main() -> None:
    """Print a row per set and limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="+")
    parser.add_argument("--seconds", type=float, nargs="*", default=[])
    parser.add_argument("--each", type=float, nargs="*", default=[])
    parser.add_argument("--count", type=int)
    parser.add_argument("--store", action="store_true")
    given = parser.parse_args()
    time.perf_counter = time.process_time  # the clock of every deadline
    here = facts()
    about = f"{here['date']}, commit {here['commit']}, load {here['load']}"
    for name in given.sets:
        days = instances(name, given.count)
        for method in METHODS:  # compile everything before the clock runs
            solve(days[0], SolveOptions(method, time_limit=0.5, threads=1))
        solve(days[0], SolveOptions("neural", time_limit=1.0, threads=1))
        laws = [(lambda n, s=s: s) for s in given.seconds]
        laws += [(lambda n, s=s: s * n) for s in given.each]
        for law in laws:
            row = compare(name, days, law) | {"about": about}
            print(line(row), flush=True)
            if given.store:
                store([row])


if __name__ == "__main__":
    main()
