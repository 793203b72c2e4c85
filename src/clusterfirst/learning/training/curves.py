"""Curves of a run: CSV files that only grow, and a picture of them."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

from clusterfirst.files.atomic import write_text
from clusterfirst.files.picture import write_figure
from clusterfirst.files.source import named, read_text
from clusterfirst.problem.errors import InputError, Problem

if TYPE_CHECKING:  # matplotlib takes half a second to import: only when drawing
    from matplotlib.figure import Figure

Columns = dict[str, list[float]]


class Curve:
    """A CSV file with one row per step at most, steps rising.

    A resumed run meets steps again that its killed predecessor had already written;
    those rows would be the same, so they are not written twice.
    """

    def __init__(self, path: Path, columns: tuple[str, ...]) -> None:
        self.path, self.lines = path, [",".join(("step", *columns))]
        if path.exists() and path.stat().st_size:
            with named(path):
                whole, _, _ = read_text(path).rpartition("\n")
            self.lines = whole.split("\n") if whole else self.lines
        self._write()
        read_curve(path)  # refuses what is no curve

    def append(self, step: int, *values: float) -> None:
        """Add the row of a step unless it is there."""
        last = self.lines[-1].partition(",")[0]
        if last == "step" or step > int(last):
            row = (str(step), *(f"{value:.6g}" for value in values))
            self.lines.append(",".join(row))
            self._write()

    def _write(self) -> None:
        write_text(self.path, "\n".join([*self.lines, ""]))


def read_curve(path: Path) -> Columns:
    """Columns of a curve by name."""
    with named(path):
        reader = csv.DictReader(io.StringIO(read_text(path)))
        try:
            rows = [{k: float(v) for k, v in row.items()} for row in reader]
        except (ValueError, TypeError, csv.Error) as error:
            where, rule = f"line {reader.line_num}", "not as training wrote it"
            raise InputError(Problem("E313", where, str(error), rule)) from error
        names = reader.fieldnames or []
    return {name: [row[name] for row in rows] for name in names}


def draw_curves(folder: Path) -> None:
    """Draw losses, accuracy and solved gap of a run folder as curve.png."""
    losses = read_curve(folder / "curve.csv")
    if not losses["step"]:
        return
    solved = folder / "validation.csv"
    gaps = read_curve(solved) if solved.exists() else {"passes": [], "gap": []}
    write_figure(folder / "curve.png", lambda: _figure(losses, gaps))


def _figure(losses: Columns, gaps: Columns) -> Figure:
    from matplotlib.figure import Figure

    passes = losses["passes"]
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    for name in ("seed", "contrast", "bce", "transport"):
        left.plot(passes, losses[name], label=name)
    left.set(yscale="log", title="Losses", xlabel="passes")
    left.legend(frameon=False)
    middle.plot(passes, [100 * value for value in losses["accuracy"]], color="teal")
    middle.set(title="Customers at their right seed, %", xlabel="passes")
    right.plot(gaps["passes"], [100 * g for g in gaps["gap"]], ".-", color="crimson")
    right.set(title="Solved gap, %", xlabel="passes")
    return figure
