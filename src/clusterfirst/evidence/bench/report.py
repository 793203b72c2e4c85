"""Rows of a comparison as a table, CSV, JSON and a plot of gap against seconds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from clusterfirst.evidence.bench.compare import BenchResult
from clusterfirst.evidence.bench.lines import LABEL, LATE, Line, Mean
from clusterfirst.evidence.bench.rows import PUBLISHED, Row
from clusterfirst.evidence.bench.run import Method
from clusterfirst.evidence.bench.sets import BenchSet
from clusterfirst.files import write_json, write_text
from clusterfirst.files.atomic import make_folder
from clusterfirst.files.outputs import file_name
from clusterfirst.files.picture import FAINT, PALETTE, write_figure
from clusterfirst.files.tables import format_records
from clusterfirst.learning.experts.outside import is_search_free

if TYPE_CHECKING:
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
    for ticks in (axes.xaxis.set_major_formatter, axes.xaxis.set_minor_formatter):
        ticks("{x:g}")
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


BEST_FOUND = "the best answer of this comparison"


@dataclass(frozen=True)
class Share:
    """A neural method minus its twin without a network, in points of gap."""

    method: str
    twin: str
    limit: float
    points: Mean  # paired by instance; below 0 the network helps


@dataclass(frozen=True)
class Report:
    """A comparison, added up."""

    title: str
    references: str
    lines: tuple[Line, ...]
    shares: tuple[Share, ...]
    not_run: dict[str, str]
    reasons: tuple[str, ...]  # why runs have no answer, each once
    gflops: tuple[float, float, float]  # least, median, most
    rows: tuple[Row, ...]

    @property
    def quality_only(self) -> bool:
        """Whether runs came from a cluster, where seconds compare with nothing."""
        return any(row.engine == "ray" for row in self.rows)


def make_report(bench_set: BenchSet, result: BenchResult) -> Report:
    """Add up the rows; without references against the best answer among them."""
    rows = result.rows
    references = {c.digest: c.reference for c in bench_set.cases}
    for row in rows:
        if row.cost is not None and not bench_set.references:
            least = references[row.digest]
            references[row.digest] = row.cost if least is None else min(least, row.cost)
    gaps = _gaps(rows, {digest: cost for digest, cost in references.items() if cost})
    groups: dict[tuple[str, float, bool], list[Row]] = {}
    for row in rows:
        groups.setdefault(_group(row), []).append(row)
    lines = [_line(group, gaps) for group in groups.values()]
    lines.sort(key=lambda line: (line.search, line.limit, line.gap.value))
    rates = sorted(row.gflops for row in rows if row.gflops > 0) or [0.0]
    cores = {row.cores for row in rows if row.engine != PUBLISHED} or {0}
    count = len(bench_set.cases)
    return Report(
        title=f"{bench_set.name}, {count} instance{'s' if count > 1 else ''}, "
        f"{max(cores)} core{'s' if max(cores) > 1 else ''}",
        references=bench_set.references or BEST_FOUND,
        lines=tuple(lines),
        shares=tuple(_shares(groups, gaps)),
        not_run={name: str(e.problems[0]) for name, e in result.not_run.items()},
        reasons=tuple(
            dict.fromkeys(f"{row.method}: {row.reason}" for row in rows if row.reason)
        ),
        gflops=(rates[0], statistics.median(rates), rates[-1]),
        rows=tuple(rows),
    )


Group = tuple[str, float, bool]  # method, limit, whether somebody else measured it
Gaps = dict[tuple[Group, str], float]


def _group(row: Row) -> Group:
    return row.method, row.limit, row.engine == PUBLISHED


def _gaps(rows: Sequence[Row], references: dict[str, float]) -> Gaps:
    """Per cent above the reference by line and instance, mean over seeds."""
    found: dict[tuple[Group, str], list[float]] = {}
    for row in rows:
        if row.cost is not None and row.digest in references:
            gap = 100 * (row.cost / references[row.digest] - 1)
            found.setdefault((_group(row), row.digest), []).append(gap)
    return {key: statistics.fmean(values) for key, values in found.items()}


def _line(rows: Sequence[Row], gaps: Gaps) -> Line:
    group = _group(rows[0])
    method, limit, published = group
    solved = [row for row in rows if row.cost is not None]
    known = [(group, digest) for digest in dict.fromkeys(row.digest for row in solved)]
    rates = [row.gflops for row in rows if row.gflops > 0]
    return Line(
        method=method,
        model=rows[0].model,
        # What others measured searches, unless its name says otherwise.
        search=not is_search_free(method) if published else Method.of(method).searches,
        limit=limit,
        gap=Mean.of([gaps[key] for key in known if key in gaps]),
        solved=len(solved) / len(rows),
        vehicles=_mean([float(row.vehicles) for row in solved if row.vehicles]),
        seconds=_mean([row.seconds for row in rows]),
        slowest=max(row.seconds for row in rows),
        startup=_mean([row.startup for row in rows]),
        gflops=statistics.median(rates) if rates else math.nan,
        runs=len(rows),
        published=published,
    )


def _mean(values: Sequence[float]) -> float:
    return statistics.fmean(values) if values else math.nan


def _shares(groups: dict[Group, list[Row]], gaps: Gaps) -> list[Share]:
    """What the network itself gains, instance by instance."""
    found = []
    for group, rows in groups.items():
        method, limit, published = group
        for twin in () if published else Method.of(method).twins:
            digests = dict.fromkeys(row.digest for row in rows)
            other = (twin, limit, False)
            pairs = [((group, d), (other, d)) for d in digests]
            points = [gaps[a] - gaps[b] for a, b in pairs if a in gaps and b in gaps]
            if points:
                found.append(Share(method, twin, limit, Mean.of(points)))
    return sorted(found, key=lambda share: (share.method, share.limit))


# --- the table ----------------------------------------------------------------------

COLUMNS = (
    ("method", LABEL),
    ("limit s", 8),
    ("gap %", 14),
    ("solved", 7),
    ("vehicles", 9),
    ("seconds", 8),
    ("most", 7),
    ("start-up", 9),
    ("GFLOP/s", 8),
)


def table(report: Report) -> str:
    """Return the comparison as text: search-free methods and searches apart."""
    out = [f"{report.title}; gap against {report.references}"]
    if report.quality_only:
        out.append(
            "quality only: these seconds are from a cluster, not from one machine"
        )
    for search, title in ((False, "search-free"), (True, "with local search")):
        lines = [line for line in report.lines if line.search == search]
        if lines:
            head = "".join(
                f"{name:<{width}}" if i == 0 else f"{name:>{width}}"
                for i, (name, width) in enumerate(COLUMNS)
            )
            out += ["", title, head, *map(_text, lines)]
    if report.shares:
        out += ["", "the network's own share, in points of gap (below 0: it helps)"]
    for share in report.shares:
        pair = f"{share.method} - {share.twin}"
        out.append(f"{pair:<{LABEL + 16}}{share.limit:>6g} s{share.points!s:>16}")
    least, median, most = report.gflops
    out += [
        "",
        f"fp32 matmul beside the runs: median {median:.1f}, "
        f"{least:.1f} to {most:.1f} GFLOP/s; gap: mean ± 95 % interval by instance",
    ]
    if any(line.late for line in report.lines):
        out.append(
            f"! took more than {LATE:g} times its limit: compare it at the seconds it "
            "took (HGS counts CPU time, which a busy machine stretches)"
        )
    if any(line.published for line in report.lines):
        out.append("(published): costs that somebody else measured, not run here")
    out += [f"not run: {name}: {why}" for name, why in report.not_run.items()]
    out += [f"no answer: {reason}" for reason in report.reasons]
    return "\n".join(out) + "\n"


def _text(line: Line) -> str:
    name = line.name
    if len(name) > LABEL - 1:
        name = name[: LABEL - 4] + "..."
    cells = (
        f"{line.limit:g}",
        str(line.gap),
        f"{line.solved:.0%}",
        "-" if math.isnan(line.vehicles) else f"{line.vehicles:.1f}",
        f"{line.seconds:.2f}{'!' if line.late else ''}",
        f"{line.slowest:.2f}",
        f"{line.startup:.1f}",
        "-" if math.isnan(line.gflops) else f"{line.gflops:.1f}",
    )
    padded = zip(cells, COLUMNS[1:], strict=True)
    return f"{name:<{LABEL}}" + "".join(
        f"{cell:>{width}}" for cell, (_, width) in padded
    )


# --- files --------------------------------------------------------------------------


def report_names(set_name: str, cores: int) -> list[str]:
    """The files of a set's report; what a city calls itself is no path."""
    name = f"{set_name}-{cores}"
    return [file_name(name, suffix) for suffix in (".txt", ".csv", ".json", ".png")]


def write_report(folder: Path, names: list[str], report: Report) -> list[Path]:
    """Write table, rows (CSV, one per run), document and picture."""
    make_folder(folder)
    paths = [folder / name for name in names]
    write_text(paths[0], table(report))
    write_text(paths[1], format_records([asdict(row) for row in report.rows]))
    write_json(paths[2], document(report))
    write_figure(
        paths[3],
        lambda: gap_against_seconds(report.title, report.references, report.lines),
    )
    return paths


def document(report: Report) -> dict[str, Any]:
    """Return everything but the single runs, for JSON."""
    least, median, most = report.gflops
    whole = {
        "title": report.title,
        "references": report.references,
        "quality_only": report.quality_only,
        "lines": [asdict(line) for line in report.lines],
        "network_share": [asdict(share) for share in report.shares],
        "not_run": report.not_run,
        "no_answer": list(report.reasons),
        "gflops": {"least": least, "median": median, "most": most},
    }
    # JSON has no nan: pydantic writes null.
    plain: dict[str, Any] = from_json(to_json(whole, inf_nan_mode="null"))
    return plain
