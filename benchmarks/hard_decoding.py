"""Exact, sparse and hard decoding on the same days: who keeps what, and who is best.

    python benchmarks/hard_decoding.py --customers 1000 --count 16 --seconds 100

Printed, and stored as benchmarks/results/hard-MODEL-N.json with time, load and commit.
Costs are of routes, relative to exact decoding of the same day in the same way
(`printed`: what the paper prints and nothing of ours; `ours`: HiGHS from the fast
answer on the same edges, part by part). Days that come with nothing are drawn: the
bundled city, Q = 50, a seed that no training and no table uses.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from clusterfirst import Instance, bundled_city, sample_day
from clusterfirst.problem.clock import Deadline
from clusterfirst.solving.canonical import canonical
from clusterfirst.solving.neural import run_network
from clusterfirst.solving.options import DecodingSettings, NeuralSettings
from clusterfirst.solving.solver import warm_up
from clusterfirst.stages.search_state import SearchState
from clusterfirst.stages.tours.routing import FULL, improve
from machine import commit

RESULTS = Path(__file__).resolve().parent / "results"
DAYS_SEED = 2026_11
ASSIGNMENTS = ("exact", "sparse", "hard")


def decoded(day: Instance, model: str, assign: str, how: str, seconds: float) -> dict:
    """One decoding of one day at K_min: cost of the routes, and what was kept."""
    # All of the seconds for the one assignment; what comes after it is not limited.
    settings = DecodingSettings(
        assign, "kmin", printed=how == "printed", assign_share=1.0
    )
    state = SearchState(canonical(day).instance, Deadline.after(seconds))
    start = time.perf_counter()
    run_network(state, NeuralSettings(settings, model, moves=0))
    spent = time.perf_counter() - start
    found = {"assign": assign, "how": how, "seconds": round(spent, 3)}
    if state.best is None or state.details.get("fallbacks"):
        return found | {"cost": None}
    never = Deadline.never()
    routes = improve(state.instance, state.best, False, FULL, never)
    lengths = routes.lengths(state.instance).sum()
    answer = state.details["assignment"]
    return found | {
        "cost": float(lengths),
        "assignment": answer.cost,
        "gap": answer.gap if np.isfinite(answer.gap) else None,
        "fixed": answer.fixed,
        "freed": answer.freed,
        "rounds": answer.rounds,
    }


def main() -> None:
    """Decode every day in every way; print and keep what came of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--customers", type=int, default=1000)
    parser.add_argument("--count", type=int, default=16)
    parser.add_argument("--model", default="city-psi")
    parser.add_argument("--seconds", type=float, default=100.0)
    parser.add_argument("--how", nargs="+", default=["ours", "printed"])
    parser.add_argument("--assign", nargs="+", default=list(ASSIGNMENTS))
    parser.add_argument("--store", type=Path, help="default: benchmarks/results")
    given = parser.parse_args()
    city = bundled_city()
    warm_up("neural", given.model)
    rows = []
    for index in range(given.count):
        day = sample_day(city, given.customers, seed=DAYS_SEED, index=index)
        for how in given.how:
            for assign in given.assign:
                row = decoded(day, given.model, assign, how, given.seconds)
                rows.append({"day": index, "load": os.getloadavg()[0]} | row)
                print(json.dumps(rows[-1]), flush=True)
    summary = summarised(rows)
    for line in summary:
        print(json.dumps(line), flush=True)
    store = given.store or RESULTS / f"hard-{given.model}-{given.customers}.json"
    facts = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "commit": commit()}
    facts |= {k: v for k, v in vars(given).items() if k != "store"}
    text = json.dumps({**facts, "summary": summary, "rows": rows}, indent=1)
    store.write_text(text + "\n", encoding="utf-8")


def summarised(rows: list[dict]) -> list[dict]:
    """For each way: days answered, all fixed customers kept, cost against exact."""
    lines = []
    for how in dict.fromkeys(row["how"] for row in rows):
        exact = {
            row["day"]: row["cost"]
            for row in rows
            if row["how"] == how and row["assign"] == "exact"
        }
        for assign in dict.fromkeys(row["assign"] for row in rows):
            some = [r for r in rows if (r["how"], r["assign"]) == (how, assign)]
            solved = [row for row in some if row["cost"] is not None]
            pairs = [
                100 * (row["cost"] / exact[row["day"]] - 1)
                for row in solved
                if exact.get(row["day"])
            ]
            half = 1.96 * np.std(pairs, ddof=1) / np.sqrt(len(pairs)) if pairs else 0.0
            lines.append(
                {
                    "how": how,
                    "assign": assign,
                    "days": len(some),
                    "answered": len(solved),
                    "all fixed kept": sum(row["freed"] == 0 for row in solved),
                    "fixed, mean": float(np.mean([r["fixed"] for r in solved] or [0])),
                    "% over exact": float(np.mean(pairs)) if pairs else None,
                    "+-": float(half),
                    "seconds, mean": float(np.mean([r["seconds"] for r in some])),
                    "seconds, most": max(row["seconds"] for row in some),
                }
            )
    return lines


if __name__ == "__main__":
    main()
