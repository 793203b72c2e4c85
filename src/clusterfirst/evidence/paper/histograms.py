"""How gaps are spread: city days at N = 100 and 200, and CVRP100.

With the instances that beat the reference and the share whose number of vehicles
equals the reference's (the paper's two histogram figures).
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import numpy as np

from clusterfirst.evidence.bench.sets import Case
from clusterfirst.evidence.paper.method_runs import Recipe
from clusterfirst.evidence.paper.page import Page, Record, Section, conditions, number
from clusterfirst.evidence.paper.printed import BEAT_LKH3, WORST_200
from clusterfirst.evidence.paper.runs import Measured, Result, Runs, Task
from clusterfirst.evidence.paper.variants import GENERAL
from clusterfirst.files.picture import FAINT, INK, PALETTE, write_figure

if TYPE_CHECKING:  # matplotlib takes half a second to import: only when drawing
    from matplotlib.figure import Figure

TIE = 1e-6  # per cent: a smaller gap is the reference's own solution


def tasks(runs: Runs) -> dict[str, Task]:
    """The three sets of the paper's histograms, exact decoding at K_min."""
    city = Recipe(model=runs.models.city_model(), assign="exact")
    general = Recipe(model=GENERAL, assign="exact")
    return {
        "city N = 100": Task("constant", 100, city),
        "city N = 200": Task("constant", 200, city),
        "CVRP100": Task("public", 100, general),
    }


def histogram(runs: Runs) -> Page:
    """Gaps, instances that beat the reference, and the share with its K."""
    results = runs.results(tasks(runs))
    says = {"CVRP100": BEAT_LKH3, "city N = 200": WORST_200}
    page = Page("histogram", "How the gaps of exact decoding are spread")
    rows = []
    for name, result in results.items():
        record = _record(name, result)
        page.records.append(record)
        shown = (_shown(record[key]) for key in _COLUMNS)
        status = "" if record["status"] == "run here" else record["status"]
        rows.append((name, *shown, says.get(name, ""), status))
    head = ("set", *_COLUMNS.values(), "printed", "status")
    page.sections = [Section(head, rows)]
    page.notes = ["gaps in %", *conditions(runs, results.values())]
    measured = {n: r for n, r in results.items() if isinstance(r, Measured)}
    for name, result in measured.items():
        about = result.bench_set.references or "no references yet"
        page.notes.append(f"{name}: {result.task.recipe}, against {about}")
    weights = dict.fromkeys(r.task.recipe.model for r in measured.values())
    page.notes += [runs.models.about(name) for name in weights]
    if any(result.gaps for result in measured.values()):
        page.pictures = [runs.folder / "histogram.png"]
        write_figure(page.pictures[0], lambda: _figure(measured))
    return page


_COLUMNS = {
    "instances": "instances",
    "mean": "mean",
    "median": "median",
    "largest": "largest",
    "beat": "beat the reference",
    "same_k": "same K, %",
    "same_k_of_those": "same K of those that beat it, %",
}


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _record(name: str, result: Result) -> Record:
    if isinstance(result, str):
        return {"set": name, "status": result} | dict.fromkeys(_COLUMNS)
    gaps = result.gaps
    places = list(gaps)
    same = {p: same_fleet(result, p) for p in places}
    beat = [p for p in places if gaps[p] < -TIE]
    return {
        "set": name,
        "status": result.unfinished or "run here",
        "model": result.task.recipe.model,
        "reference": result.bench_set.references,
        "instances": len(places),
        "mean": number(result.gap.value),
        "median": number(statistics.median(gaps.values())) if gaps else None,
        "largest": number(max(gaps.values())) if gaps else None,
        "beat": len(beat),
        "same_k": _share([same[p] for p in places]),
        "same_k_of_those": _share([same[p] for p in beat]),
        "gaps": " ".join(f"{gap:.3f}" for gap in gaps.values()),
    }


def same_fleet(result: Measured, place: int) -> bool | None:
    """Whether our number of vehicles equals the reference's; None: not known."""
    case, run = result.pairs[place]
    vehicles = reference_fleet(case)
    return None if vehicles is None else run.vehicles == vehicles


def reference_fleet(case: Case) -> int | None:
    """The number of routes of the reference, if its routes are known."""
    return None if case.labels is None else len(np.unique(case.labels))


def _share(known: list[bool | None]) -> float | None:
    values = [value for value in known if value is not None]
    return number(100 * statistics.fmean(values)) if values else None


def _figure(measured: dict[str, Measured]) -> Figure:
    """A histogram per set; instances with another K than the reference stand out."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(4.6 * len(measured), 3.8), layout="constrained")
    for place, (name, result) in enumerate(measured.items(), start=1):
        axes = figure.add_subplot(1, len(measured), place)
        gaps = result.gaps
        same = [gap for p, gap in gaps.items() if same_fleet(result, p) is not False]
        other = [gap for p, gap in gaps.items() if same_fleet(result, p) is False]
        low, high = min(gaps.values(), default=0.0), max(gaps.values(), default=1.0)
        bins = np.linspace(min(low, 0.0), max(high, 1.0), min(60, len(gaps)) + 1)
        colours = [PALETTE[0], PALETTE[1]]
        labels = ["the reference's K", "another K"]
        axes.hist(
            [same, other], bins.tolist(), stacked=True, color=colours, label=labels
        )
        axes.axvline(0, color=INK, lw=0.8)
        beat = sum(gap < -TIE for gap in gaps.values())
        axes.set_title(f"{name}: {len(gaps)} instances, {beat} below 0", size=10)
        axes.set(xlabel="gap in %", ylabel="instances")
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(color=FAINT, alpha=0.3)
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside lower center", ncols=2
    )
    return figure
