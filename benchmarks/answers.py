"""A line per answer, counted in iterations: two versions compare by `diff`.

    python benchmarks/answers.py > before.txt     # in one checkout
    python benchmarks/answers.py | diff before.txt -
    python benchmarks/answers.py --each 2 --ways neural,sweep   # a part of it
    python benchmarks/answers.py --costs before.txt after.txt   # where they differ

50 instances (days of the bundled city and the training world, 20 to 400 customers, one
in five with a fleet limit) by each method of ours, with and without polish. No clock is
looked at, so a line that differs is another answer. --costs says by how much the costs
of each way differ, where a change of the answers is meant.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

import clusterfirst as cf

SIZES = (20, 50, 100, 200, 400)
EACH = 10  # instances of a size
SEED = 20261118
WAYS = {
    "default": cf.SolveOptions(iterations=300),
    "one thread": cf.SolveOptions(iterations=300, threads=1),
    "fisher-jaikumar": cf.SolveOptions(iterations=3, polish=False),
    "savings": cf.SolveOptions("savings", iterations=3, polish=False),
    "sweep": cf.SolveOptions("sweep", iterations=3, polish=False),
    "petal": cf.SolveOptions("petal", iterations=2, polish=False),
    "neural": cf.SolveOptions("neural", iterations=20, polish=False),
    "exact": cf.SolveOptions("neural", iterations=2, assign="exact", polish=False),
}


def instances(each: int) -> Iterator[cf.Instance]:
    """So many instances of each size."""
    city = cf.bundled_city()
    for size in SIZES:
        for index in range(each):
            if index % 2:
                day = cf.sample_world(size, seed=SEED, index=index)
            else:
                day = cf.sample_day(city, size, seed=SEED, index=index)
            yield day.replace(vehicles=day.min_vehicles + 1) if index % 5 == 4 else day


def compare(before: Path, after: Path) -> None:
    """Print how many answers of each way differ, and by how much the costs do."""
    found: dict[str, dict[str, list[str]]] = {}
    for path in (before, after):
        for line in path.read_text(encoding="utf-8").splitlines():
            what, _, answer = line.partition(": ")
            found.setdefault(what, {})[path.name] = answer.split()
    for way in WAYS:
        pairs = [
            (both[before.name], both[after.name])
            for what, both in found.items()
            if what.split(" ", 1)[1] == way and len(both) == 2
        ]
        if pairs:
            other = sum(old != new for old, new in pairs)
            gain = [100 * (float(new[0]) / float(old[0]) - 1) for old, new in pairs]
            half = 1.96 * np.std(gain) / np.sqrt(len(gain))
            print(
                f"{way}: {other} of {len(pairs)} differ, cost {np.mean(gain):+.3f} "
                f"+- {half:.3f} %"
            )


def main() -> None:
    """Print answers, or compare two files of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--each", type=int, default=EACH, help="instances of a size")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--costs", nargs=2, type=Path, metavar=("BEFORE", "AFTER"))
    given = parser.parse_args()
    if given.costs:
        compare(*given.costs)
        return
    print_answers(given.each, given.ways.split(","))


def print_answers(each: int, ways: Sequence[str]) -> None:
    """Print the cost and a digest of the routes of each answer."""
    for day in instances(each):
        for name, options in WAYS.items():
            if name not in ways:
                continue
            if name in ("petal", "exact") and day.num_customers > 100:
                continue  # minutes by counts
            result = cf.solve(day, options)
            digest = hashlib.sha256(str(result.solution.routes).encode()).hexdigest()
            print(
                f"{day.name} {name}: {result.verdict.cost:.9g} {digest[:12]}",
                flush=True,
            )


if __name__ == "__main__":
    main()
