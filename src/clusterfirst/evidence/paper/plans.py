"""How well the transport plan foretells the exact assignment, by threshold.

An edge (customer, vehicle) is kept if its share Y is at least the threshold. Precision
is the part of the kept edges that the exact assignment uses, recall the part of its
edges that are kept (the paper, figure "mip_precision_recall").
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from clusterfirst.evidence.bench.rows import LinesFile
from clusterfirst.evidence.bench.sets import Case
from clusterfirst.evidence.paper.method_runs import Recipe, allowed, decode
from clusterfirst.evidence.paper.page import Page, Section, conditions, number
from clusterfirst.evidence.paper.printed import PLAN_SAYS
from clusterfirst.evidence.paper.runs import Runs, Task
from clusterfirst.evidence.paper.variants import Weights
from clusterfirst.files.picture import FAINT, PALETTE, write_figure
from clusterfirst.networks.plan import transport_plan

if TYPE_CHECKING:  # matplotlib takes half a second to import: only when drawing
    from matplotlib.figure import Figure

SIZES = (100, 200)
THRESHOLDS = (1e-4, 1e-3, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)


@dataclass(frozen=True)
class Kept:
    """One instance: edges kept at each threshold, and how many of them are right."""

    digest: str
    weights: str
    seconds_allowed: float
    customers: int
    edges: list[int]
    right: list[int]


def plan(runs: Runs) -> Page:
    """Precision and recall of the transport plan against thresholds."""
    page = Page("plan", "Transport plan against the exact assignment, by threshold")
    name = runs.models.city_model()
    curves: dict[int, list[Kept]] = {}
    waiting: dict[int, str] = {}
    for size in SIZES:
        recipe = Recipe(model=name, assign="exact")
        task = Task("constant", size, recipe)
        waiting[size] = runs.reason(task)
        if not waiting[size]:
            curves[size] = _counted(runs, task)
    rows = []
    for place, threshold in enumerate(THRESHOLDS):
        line = [f"{threshold:g}"]
        for size in SIZES:
            found = curves.get(size, [])
            line += _figures(found, place) if found else ["-", "-", "-"]
            page.records.append(
                {
                    "threshold": threshold,
                    "customers": size,
                    "instances": len(found),
                    "status": waiting[size] or ("run here" if found else "not run yet"),
                    "precision": number(_precision(found, place)),
                    "recall": number(_recall(found, place)),
                    "printed": PLAN_SAYS.get(threshold, ""),
                }
            )
        rows.append((*line, PLAN_SAYS.get(threshold, "")))
    columns = (f"{w} N = {s}" for s in SIZES for w in ("precision", "recall", "kept"))
    page.sections = [Section(("threshold", *columns, "printed, both sizes"), rows)]
    page.notes = [
        "per cent; kept: edges per customer",
        *(f"N = {size}: {why}" for size, why in waiting.items() if why),
        *(f"N = {size}: {len(found)} instances" for size, found in curves.items()),
        *conditions(runs, ()),
    ]
    if any(curves.values()):
        page.notes.append(runs.models.about(name))
        page.pictures = [runs.folder / "plan.png"]
        write_figure(page.pictures[0], lambda: _figure(curves))
    return page


def _counted(runs: Runs, task: Task) -> list[Kept]:
    """Count on every instance of a set; what was counted before is read."""
    weights = runs.models.find(task.recipe.model)
    assert weights is not None
    file = LinesFile(runs.folder / "plans.jsonl", Kept)
    limit = allowed(task.recipe, runs.scale.seconds[task.size])
    same = (weights.digest, limit)
    known = {k.digest: k for k in file.read() if (k.weights, k.seconds_allowed) == same}
    cases = runs.sets.get(task.kind, task.size).cases

    todo = [case for case in cases if case.digest not in known]

    def count_the_rest() -> None:
        runs.tell_hours(str(task), limit * len(todo), "stated: its time limit")
        start = time.perf_counter()
        for done, case in enumerate(todo):
            found = _count(case, task.recipe, weights, limit)
            if found is not None:
                file.append([found])
                known[case.digest] = found
            if done == 0:
                left = (time.perf_counter() - start) * (len(todo) - 1)
                runs.tell_hours(str(task), left, "measured on the first instance")

    runs.attempt(count_the_rest)
    return [known[case.digest] for case in cases if case.digest in known]


def _count(case: Case, recipe: Recipe, weights: Weights, limit: float) -> Kept | None:
    """Compare plan and exact assignment; None where the assignment failed."""
    decoded = decode(case.instance, recipe, weights, limit)
    if decoded is None:
        return None
    details = decoded.state.details
    shares = transport_plan(case.instance, details["scores"])
    chosen = shares[np.arange(len(shares)), details["labels"]]
    return Kept(
        case.digest,
        weights.digest,
        limit,
        len(shares),
        [int((shares >= threshold).sum()) for threshold in THRESHOLDS],
        [int((chosen >= threshold).sum()) for threshold in THRESHOLDS],
    )


def _precision(found: Sequence[Kept], place: int) -> float | None:
    edges = sum(kept.edges[place] for kept in found)
    right = sum(kept.right[place] for kept in found)
    return 100 * right / edges if edges else None


def _recall(found: Sequence[Kept], place: int) -> float | None:
    customers = sum(kept.customers for kept in found)
    right = sum(kept.right[place] for kept in found)
    return 100 * right / customers if customers else None


def _figures(found: Sequence[Kept], place: int) -> list[str]:
    precision, recall = _precision(found, place), _recall(found, place)
    each = sum(k.edges[place] for k in found) / sum(k.customers for k in found)
    return [
        "-" if precision is None else f"{precision:.1f}",
        "-" if recall is None else f"{recall:.1f}",
        f"{each:.2f}",
    ]


def _figure(curves: dict[int, list[Kept]]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    axes = figure.add_subplot()
    places = range(len(THRESHOLDS))
    for colour, (size, found) in zip(PALETTE, curves.items(), strict=False):
        for style, of in (("-", _precision), ("--", _recall)):
            values = [of(found, place) for place in places]
            shown = [np.nan if v is None else v for v in values]
            label = f"{of.__name__[1:]}, N = {size}"
            axes.plot(places, shown, style, color=colour, marker="o", ms=3, label=label)
    axes.set_xticks(places, [f"{t:g}" for t in THRESHOLDS], rotation=45)
    axes.set(xlabel="threshold on the share Y", ylabel="%", ylim=(0, 101))
    axes.grid(color=FAINT, alpha=0.3)
    axes.legend(fontsize=8)
    return figure
