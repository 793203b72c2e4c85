"""The plot of a comparison: gap against seconds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from clusterfirst.evidence.bench.lines import LABEL, Line
from clusterfirst.files.picture import FAINT, PALETTE

if TYPE_CHECKING:  # matplotlib takes half a second to import: only when drawing
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OUTLIER = 3.0  # times the median gap, or three points: above that a plot ends


def gap_against_seconds(title: str, references: str, every: Sequence[Line]) -> Figure:
    """Gap against measured seconds; dashed lines are search-free, hollow published."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.5, 5), layout="constrained")
    axes = figure.add_subplot()
    names = list(dict.fromkeys(line.name for line in every))
    for number, name in enumerate(names):
        lines = [line for line in every if line.name == name and line.gap.count]
        if not lines:
            continue
        lines.sort(key=lambda line: line.seconds)
        colour = PALETTE[number % len(PALETTE)]
        axes.errorbar(
            [line.seconds for line in lines],
            [line.gap.value for line in lines],
            yerr=[0 if math.isnan(line.gap.half) else line.gap.half for line in lines],
            color=colour,
            linestyle="-" if lines[0].search else "--",
            marker="o" if lines[0].search else "s",
            markersize=4,
            capsize=2,
            label=name if len(name) <= LABEL else name[: LABEL - 3] + "...",
            markerfacecolor="white" if lines[0].published else colour,
        )
    _end_above_most(axes, [line for line in every if line.gap.count])
    axes.set_xscale("log")
    axes.set_xlabel("seconds per instance (measured, mean)")
    axes.set_ylabel("gap in %, 95 % interval")
    axes.set_title(f"{title}\nagainst {references}", fontsize=10)
    axes.grid(color=FAINT, alpha=0.3)
    axes.legend(
        fontsize=8,
        title="dashed: search-free",
        title_fontsize=8,
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
    )
    return figure


def _end_above_most(axes: Axes, lines: Sequence[Line]) -> None:
    """End the axis where most lines are; arrows say how high the others are."""
    gaps = sorted(line.gap.value for line in lines)
    if not gaps:
        return
    usual = statistics.median(gaps)
    end = usual + max(OUTLIER * abs(usual), OUTLIER)
    outside = [line for line in lines if line.gap.value > end]
    if not outside:
        return
    inside = [gap for gap in gaps if gap <= end]
    room = 0.08 * (inside[-1] - inside[0]) or 0.1
    top = inside[-1] + 3 * room
    axes.set_ylim(min(inside[0] - room, 0.0), top)
    for line in outside:
        text = f"{line.gap.value:.0f} %"
        arrow = {"arrowstyle": "->", "color": FAINT}
        axes.annotate(
            text,
            (line.seconds, top),
            (line.seconds, top - 2 * room),
            ha="center",
            fontsize=7,
            arrowprops=arrow,
        )
