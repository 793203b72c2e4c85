"""A line per answer, counted in iterations: two versions compare by `diff`.

    python benchmarks/answers.py > before.txt     # in one checkout
    python benchmarks/answers.py | diff before.txt -

50 instances (days of the bundled city and the training world, 20 to 400 customers, one
in five with a fleet limit) by each method of ours, with and without polish. No clock is
looked at, so a line that differs is another answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

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


def instances() -> Iterator[cf.Instance]:
    """The 50 instances."""
    city = cf.bundled_city()
    for size in SIZES:
        for index in range(EACH):
            if index % 2:
                day = cf.sample_world(size, seed=SEED, index=index)
            else:
                day = cf.sample_day(city, size, seed=SEED, index=index)
            yield day.replace(vehicles=day.min_vehicles + 1) if index % 5 == 4 else day


def main() -> None:
    """Print the cost and a digest of the routes of each answer."""
    for day in instances():
        for name, options in WAYS.items():
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
