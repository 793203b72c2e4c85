"""Curves of a run: CSV files that only grow, and a picture of them."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

from clusterfirst.files.atomic import disk_problem, write_bytes
from clusterfirst.files.picture import write_figure
from clusterfirst.files.source import named, read_text
from clusterfirst.problem.errors import InputError, Problem

if TYPE_CHECKING:  # matplotlib takes half a second to import: only when drawing
    from matplotlib.figure import Figure

Columns = dict[str, list[float]]


class Curve:
    """A CSV file with one row per step at most, steps rising.

    A resumed run meets steps again that its killed predecessor had already written;
    those rows would be the same, so they are not written twice. A line torn by the
    kill is cut off.
    """

    def __init__(self, path: Path, columns: tuple[str, ...]) -> None:
        self.path, self.columns = path, ("step", *columns)
        text = ""
        if path.exists() and path.stat().st_size:
            with named(path):
                text = read_text(path)
        whole = text[: text.rfind("\n") + 1]
        if not whole:
            whole = ",".join(self.columns) + "\n"
        if whole != text:
            write_bytes(path, whole.encode())
        rows = read_curve(path)["step"]
        self.last = int(rows[-1]) if rows else -1

    def append(self, step: int, *values: float) -> None:
        """Add the row of a step unless it is there."""
        if step <= self.last:
            return
        line = ",".join([str(step), *(f"{value:.6g}" for value in values)]) + "\n"
        try:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InputError(disk_problem(self.path, error)) from error
        self.last = step


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
