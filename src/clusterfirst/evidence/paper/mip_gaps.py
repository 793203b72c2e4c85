"""The final gap of the routes against the gap at which the assignment may stop.

The paper's Pareto figure: four variants at N = 1000, seconds per instance beside the
gap. At the small scale N = 200 is there too, because HiGHS reaches its limits there
within seconds, and one-layer models stand in where they are here.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from clusterfirst.evidence.paper.grids import measured_record, ours
from clusterfirst.evidence.paper.method_runs import Recipe
from clusterfirst.evidence.paper.page import Page, Section, conditions, number
from clusterfirst.evidence.paper.printed import MIP_SAYS
from clusterfirst.evidence.paper.runs import Measured, Result, Runs, Task
from clusterfirst.evidence.paper.variants import ONE_LAYER, SIX_LAYERS
from clusterfirst.files.picture import FAINT, PALETTE, write_figure

if TYPE_CHECKING:  # matplotlib takes half a second to import: only when drawing
    from matplotlib.figure import Figure

LIMITS = {
    "small": (0.16, 0.04, 0.01, 0.001),
    "full": (0.32, 0.16, 0.08, 0.04, 0.02, 0.01, 0.005, 0.002, 0.001),
}
SIZES = {"small": (200, 1000), "full": (1000,)}
PATIENCE = {"small": 4.0, "full": 1.0}  # HiGHS needs more than Gurobi on 16 cores


def mip_gap(runs: Runs) -> Page:
    """Final gap against MIP gap limit, with seconds per instance."""
    scale = runs.scale.name
    names = [variant.name for variant in SIX_LAYERS]
    names += [v.name for v in ONE_LAYER if runs.models.find(v.name) is not None]
    tasks = {
        (name, size, limit): Task(
            "constant",
            size,
            Recipe(model=name, assign="exact", mip_gap=limit, patience=PATIENCE[scale]),
        )
        for name in names
        for size in SIZES[scale]
        for limit in LIMITS[scale]
    }
    results = runs.results(tasks)
    page = Page("mip-gap", "Final gap against the MIP gap limit of the assignment")
    rows: list[tuple[str, ...]] = []
    for (name, size, limit), result in results.items():
        if isinstance(result, str) and limit != LIMITS[scale][0]:
            continue  # one line says that it waits
        rows.append(
            (name, str(size), f"{100 * limit:g}", ours(result), reached(result))
        )
    for (name, size, limit), result in results.items():
        record = {"model": name, "customers": size, "mip_gap_limit": limit}
        page.records.append(
            record
            | {"mip_gap_reached": number(_median_reached(result))}
            | measured_record(result)
        )
    head = ("model", "N", "MIP limit %", "gap % · set · s each", "MIP gap reached")
    page.sections = [Section(head, rows)]
    page.notes = [MIP_SAYS, *conditions(runs, results.values())]
    page.notes.append(
        f"here an instance may take {PATIENCE[scale]:g} times the usual seconds"
    )
    here = [name for name in names if runs.models.find(name) is not None]
    page.notes += [runs.models.about(name) for name in here]
    if any(isinstance(result, Measured) for result in results.values()):
        page.pictures = [runs.folder / "mip-gap.png"]
        write_figure(page.pictures[0], lambda: _figure(results))
    return page


def reached(result: Result) -> str:
    """How near to its bound the assignment came, and how often that was proven."""
    if isinstance(result, str):
        return "-"
    proven = [s.reached for _, s in result.pairs if s.reached is not None]
    if not proven:
        return f"no bound in time (0 of {len(result.pairs)})"
    middle = 100 * statistics.median(proven)
    return f"{middle:.2g} % (bound on {len(proven)} of {len(result.pairs)})"


def _median_reached(result: Result) -> float | None:
    if isinstance(result, str):
        return None
    proven = [s.reached for _, s in result.pairs if s.reached is not None]
    return statistics.median(proven) if proven else None


def _figure(results: dict[tuple[str, int, float], Result]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.5, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    lines: dict[tuple[str, int], list[tuple[float, Measured]]] = {}
    for (name, size, limit), result in results.items():
        if isinstance(result, Measured) and result.gap.count:
            lines.setdefault((name, size), []).append((limit, result))
    for number_, ((name, size), points) in enumerate(lines.items()):
        x = [100 * limit for limit, _ in points]
        look = {"color": PALETTE[number_ % len(PALETTE)], "marker": "o", "ms": 4}
        label = f"{name}, N = {size}"
        left.plot(x, [m.gap.value for _, m in points], label=label, **look)
        right.plot(x, [m.seconds_each for _, m in points], label=label, **look)
    for axes, title in ((left, "final gap in %"), (right, "seconds per instance")):
        axes.set_xscale("log")
        axes.invert_xaxis()
        axes.set(xlabel="MIP gap limit in %", ylabel=title)
        axes.grid(color=FAINT, alpha=0.3)
    left.legend(fontsize=7)
    return figure
