"""A finished table: as text for people, as CSV and JSON for programs."""

from __future__ import annotations

import io
import math
import os
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clusterfirst import __version__
from clusterfirst.evidence.paper.runs import Measured, Result, Runs
from clusterfirst.files import write_json, write_text
from clusterfirst.files.atomic import make_folder
from clusterfirst.files.tables import format_records

PIPE_WIDTH = 170  # characters of a line where no terminal says how wide it is

Record = dict[str, Any]  # plain numbers, words and None


@dataclass(frozen=True)
class Section:
    """Rows of cells under a heading; a cell may have two lines."""

    head: tuple[str, ...]
    rows: list[tuple[str, ...]]
    title: str = ""


@dataclass
class Page:
    """One TABLE: sections to read, records to compute with, words and pictures."""

    name: str
    title: str
    sections: list[Section] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    pictures: list[Path] = field(default_factory=list)

    def document(self) -> Record:
        """Everything for JSON."""
        return {
            "table": self.name,
            "title": self.title,
            "records": self.records,
            "notes": self.notes,
            "pictures": [str(path) for path in self.pictures],
        }


def number(value: float | None, digits: int = 4) -> float | None:
    """A number for JSON, which has no nan."""
    if value is None or not math.isfinite(value):
        return None
    return round(value, digits)


def clock(seconds: float | None) -> str:
    """Seconds in the paper's units: 4.7s, 1.3m, 12h."""
    if seconds is None:
        return "-"
    for size, unit in ((3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds / size:.1f}{unit}"
    return f"{seconds:.2g}s" if seconds < 10 else f"{seconds:.0f}s"


def conditions(runs: Runs, results: Iterable[Result]) -> list[str]:
    """What every figure of ours stands on."""
    scale = runs.scale
    counts = ", ".join(f"{count} at N = {size}" for size, count in scale.counts.items())
    limits = "/".join(f"{seconds:g}" for seconds in scale.seconds.values())
    lines = [
        f"ours: scale {scale.name}, at most {counts}; {limits} s allowed per instance "
        "(of which an assignment gets 0.4), one instance after the other in one "
        f"process; clusterfirst {__version__}, {datetime.now(UTC):%Y-%m-%d}",
        "printed: 10,000 instances at N = 100, 128 at the others, the whole set's time "
        "on 16 cores with Gurobi; per instance = that time / (instances / 16)",
    ]
    found = [result for result in results if isinstance(result, Measured)]
    rates = sorted(run.gflops for part in found for _, run in part.pairs)
    if rates:
        lines.append(
            f"fp32 matmul beside the runs: median {statistics.median(rates):.0f}, "
            f"{rates[0]:.0f} to {rates[-1]:.0f} GFLOP/s"
        )
    cores = os.cpu_count() or 1
    if runs.load > cores / 2:
        lines.append(
            f"the machine was BUSY (load average {runs.load:.0f} on {cores} cores): "
            "times are upper bounds, and limits cut assignments off"
        )
    return lines


def text(page: Page, width: int | None = None, *, colour: bool = False) -> str:
    """The page as text."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    stream = io.StringIO()
    console = Console(
        file=stream,
        width=width or PIPE_WIDTH,
        force_terminal=colour,
        no_color=not colour,
        highlight=False,
    )
    console.print(Text(page.title, style="bold"))
    for section in page.sections:
        table = Table(box=box.SIMPLE_HEAD, title=section.title or None)
        table.title_justify = "left"
        for name in section.head:
            table.add_column(name, overflow="fold")
        for row in section.rows:
            table.add_row(*(Text(cell) for cell in row))
        console.print(table)
    for note in page.notes:
        console.print(Text(note))
    if page.pictures:
        first, *others = page.pictures
        more = f" and {len(others)} more beside it" if others else ""
        console.print(Text(f"picture: {first}{more}"), soft_wrap=True)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def write_page(folder: Path, page: Page) -> list[Path]:
    """Write NAME.txt, NAME.csv and NAME.json; pictures are there already."""
    make_folder(folder)
    paths = [folder / f"{page.name}{suffix}" for suffix in (".txt", ".csv", ".json")]
    write_text(paths[0], text(page))
    write_text(paths[1], format_records(page.records))
    write_json(paths[2], page.document())
    return paths
