"""The validation gap of `general` against passes, over all runs of its weights.

    python runs/gap_curve.py runs/curves/general.csv docs/pictures/general-curve.png

The CSV is collected from the `validation.csv` of each run, passes and seconds (of one
core) counted from the first: 100 days of the bundled city at N = 100, HGS 1 s, fast
assignment, K_min and K_min + 1, seeds not moved.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from matplotlib.figure import Figure


def main() -> None:
    """Draw one line per run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("curve", type=Path)
    parser.add_argument("picture", type=Path)
    given = parser.parse_args()
    with given.curve.open(newline="") as file:
        rows = list(csv.DictReader(file))
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    for run in dict.fromkeys(row["run"] for row in rows):
        points = [row for row in rows if row["run"] == run]
        axes.plot(
            [int(row["passes"]) / 1000 for row in points],
            [100 * float(row["gap"]) for row in points],
            "o-",
            markersize=4,
            label=run,
        )
    axes.set(xlabel="thousand passes", ylabel="gap to HGS, %")
    axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
    axes.legend(frameon=False)
    figure.savefig(given.picture, dpi=120, metadata={"Software": None})


if __name__ == "__main__":
    main()
