"""How days are planned where a city remembers: quick plans, areas, learned models.

Parts of benchmarks/city.py, each with days and figures of its own.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import machine
from clusterfirst.cities.day_law import Wish, fit
from clusterfirst.cities.history import History
from clusterfirst.cities.quick_plan import Plan, improved, quick_plan
from clusterfirst.cities.territories import TerritorySettings, find_territories
from clusterfirst.learning.labels.labelset import read_labels
from clusterfirst.learning.labels.making import LabelOptions, label
from clusterfirst.learning.labels.sources import Source, law_days
from clusterfirst.problem.changes import pairs_kept
from clusterfirst.problem.instance import FloatArray, Instance
from clusterfirst.solving.familiar import Familiar, solve_familiar
from clusterfirst.solving.many import EVERY_ROUND
from clusterfirst.solving.options import SolveOptions
from clusterfirst.solving.solver import solve

Figures = dict[str, Any]

PLANNED = 16  # days on which quick plans are compared
STARTS = {
    "savings": SolveOptions("savings", iterations=1, polish=False, threads=1),
    "network, one decoding": SolveOptions(
        "neural", iterations=1, polish=False, threads=1, fleet="kmin", recentre=0
    ),
    "network": SolveOptions("neural", iterations=1000, polish=False, threads=1),
}
EFFORTS = (0, 1, 4, 16)  # times the polish of a quick plan
BEST = 120  # the same, for what plans are compared with
WEIGHTS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)  # of familiarity
FAMILIAR_ROUNDS = 20_000  # of the search, about a second
SEED_SETS = (None, 8, 16, 40)
LEARNED = 72  # days before this one made the labels of runs/state/belem
HGS_SECONDS = 4.0
POLISHED = 6  # times the effort of a quick plan: 0.3 s of an idle core


def plans(history: History) -> Figures:
    """Starts of quick plans, each with several polishes: CPU milliseconds and gap.

    And the share of the same-route pairs of a long search that they have, too: what
    territories are made of.
    """
    law, rows = fit(history), []
    for customers, capacity in ((100, 60), (None, None)):
        wish = Wish(customers=customers, capacity=capacity)
        days = [law.draw(11, index, wish) for index in range(PLANNED)]
        best = [quick_plan(day, 1, BEST) for day in days]
        for name, options in STARTS.items():
            solve(days[0], options)  # compiled and loaded by now
            found = np.array(
                [_efforts(*each, options) for each in zip(days, best, strict=True)]
            )
            for effort, (ms, gap, pairs) in zip(
                EFFORTS, found.transpose(1, 2, 0), strict=True
            ):
                rows.append(
                    {
                        "customers": round(np.mean([d.num_customers for d in days])),
                        "start": name,
                        "effort": effort,
                        "cpu_ms": round(float(ms.mean()), 1),
                        "gap": float(gap.mean()),
                        "error": float(gap.std(ddof=1) / len(gap) ** 0.5),
                        "pairs": float(pairs.mean()),
                    }
                )
                print(rows[-1], flush=True)
    return {"days": PLANNED, "rows": rows}


def _efforts(day: Instance, best: Plan, options: SolveOptions) -> FloatArray:
    """(efforts, 3) CPU milliseconds, gap and pairs in common with a long search."""
    begin = time.process_time()
    first = solve(day, options)
    start = [list(r) for r in first.solution.routes]
    first_ms = 1000 * (time.process_time() - begin)
    rows = []
    for effort in EFFORTS:
        begin, routes, cost = time.process_time(), start, first.verdict.cost
        if effort:
            plan = improved(day, start, 0, effort)
            routes, cost = plan.routes, plan.cost
        spent = first_ms + 1000 * (time.process_time() - begin)
        rows.append((spent, cost / best.cost - 1, pairs_kept(best.routes, routes)))
    return np.array(rows)


def territories(history: History, days: int = 12) -> Figures:
    """Familiarity against length on days that shaped no area, for several prices.

    Longer than the free plan that the search began with, and than a free search of
    twice the iterations, which is as many as both steps had.
    """
    with machine.timed() as took:
        found = find_territories(history, TerritorySettings(10))
    rows = []
    for number in range(len(history) - days, len(history)):
        day = history.instance(number)
        area = found.areas.of_day(day)
        long = solve(day, SolveOptions(iterations=2 * FAMILIAR_ROUNDS, threads=1))
        for weight in WEIGHTS:
            used = time.process_time()
            options = SolveOptions(iterations=FAMILIAR_ROUNDS, threads=1)
            result = solve_familiar(day, Familiar(area, weight), options)
            told = result.details["familiar"]
            rows.append(
                {
                    "day": number,
                    "weight": weight,
                    "before": told["familiarity_of_the_free_plan"],
                    "now": told["familiarity"],
                    "longer": told["longer"],
                    "longer_than_long": result.verdict.cost / long.verdict.cost - 1,
                    "cpu_seconds": round(time.process_time() - used, 2),
                }
            )
            print(rows[-1], flush=True)
    return {"areas": found.facts(), "finding": took, "rows": rows}


def learned(history: History, models: Sequence[str]) -> Figures:
    """Models on days 72..89, which are in no label of theirs: above HGS."""
    source = law_days(fit(history), seed=0)
    days = [history.instance(number) for number in range(LEARNED, len(history))]
    best = _references(source, len(history))
    found = [
        {"model": Path(name).parent.name if Path(name).is_dir() else name}
        | _judged(days, best, SolveOptions("neural", model=name, seed_sets=sets))
        for name in models
        for sets in SEED_SETS
    ]
    return {"hgs_seconds": HGS_SECONDS, "models": found}


def _judged(
    days: Sequence[Instance], best: FloatArray, options: SolveOptions
) -> Figures:
    """Without search, and after a short polish, on one thread."""
    options = replace(options, iterations=EVERY_ROUND, polish=False, threads=1)
    solve(days[0], options)  # loads and compiles
    begin = time.process_time()
    answers = [solve(day, options) for day in days]
    middle = time.process_time()
    polished = [
        improved(day, answer.solution.routes, 0, POLISHED).cost
        for day, answer in zip(days, answers, strict=True)
    ]
    free = np.array([answer.verdict.cost for answer in answers])
    return {
        "seed_sets": options.seed_sets,
        "days": list(range(LEARNED, LEARNED + len(days))),
        "free": (free / best - 1).tolist(),
        "free_cpu_seconds": round((middle - begin) / len(days), 3),
        "polished": (np.array(polished) / best - 1).tolist(),
        "polish_cpu_seconds": round((time.process_time() - middle) / len(days), 3),
    }


def _references(source: Source, count: int) -> FloatArray:
    """What HGS needs for the days from LEARNED on."""
    with tempfile.TemporaryDirectory() as folder:
        options = LabelOptions(customers=0, count=count, seconds=HGS_SECONDS)
        options = replace(options, count=count - LEARNED, first=LEARNED)
        label(source, Path(folder), options)
        found = read_labels(Path(folder))
        costs = {}
        for group in found.groups.values():
            costs |= dict(zip(group.index.tolist(), group.cost.tolist(), strict=True))
    return np.array([costs[number] for number in range(LEARNED, count)])
