"""Whether plain solving became slower from one commit to another: CPU seconds, paired.

    git worktree add ../old 0e4bf6f
    python benchmarks/compare_commits.py ../old . [--days 20] [--rounds 3]

Both checkouts stay in a process of their own and solve the same days in turns, each by
counts (the same work, whatever the clock says). Printed: the ratio of CPU seconds new
to old, as the median over the days with its quartiles, and whether the costs agree.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

# What is asked of both, without search: what an iteration of it is has changed, and so
# has the search itself (benchmarks/search.py measures that by its answers).
WAYS: dict[str, dict[str, Any]] = {
    "savings": {"method": "savings"},
    "fisher-jaikumar": {"method": "fisher-jaikumar"},
    "general": {"method": "neural", "model": "general"},
}


def serve(customers: int) -> None:
    """Solve what is asked, a line each; in the checkout that is on the path."""
    import warnings

    from clusterfirst import SolveOptions, sample_world, solve

    warnings.simplefilter("ignore")
    for line in sys.stdin:
        asked = json.loads(line)
        day = sample_world(customers, seed=77, index=asked["day"])
        how = WAYS[asked["way"]]
        options = SolveOptions(**how, polish=False, iterations=1, threads=1)
        start = time.process_time()
        result = solve(day, options)
        spent = time.process_time() - start
        print(json.dumps({"seconds": spent, "cost": result.verdict.cost}), flush=True)


def begin(checkout: Path, customers: int) -> subprocess.Popen[str]:
    """A process that has one of the two checkouts imported."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(checkout.resolve() / "src"),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, __file__, "--serve", str(customers), "-", "-"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen(command, env=environment, text=True, **pipes)


def ask(process: subprocess.Popen[str], way: str, day: int) -> dict[str, float]:
    """One solve in one of the processes."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps({"way": way, "day": day}) + "\n")
    process.stdin.flush()
    answer: dict[str, float] = json.loads(process.stdout.readline())
    return answer


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--days", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--customers", type=int, default=100)
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
        return
    both = [begin(Path(each), given.customers) for each in (given.old, given.new)]
    for way in WAYS:
        for process in both:
            ask(process, way, 0)  # compiled and loaded
        ratios, same = [], 0
        for day in range(given.days):
            seconds: list[list[float]] = [[], []]
            costs = [0.0, 0.0]
            for turn in range(2 * given.rounds):
                at = (turn + turn // 2) % 2  # old new new old: drift hits both
                found = ask(both[at], way, day)
                seconds[at].append(found["seconds"])
                costs[at] = found["cost"]
            ratios.append(min(seconds[1]) / min(seconds[0]))
            same += abs(costs[0] - costs[1]) < 1e-9 * costs[0]
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(
            f"{way:<22} new / old {middle:.3f} (quartiles {low:.3f} to {high:.3f}), "
            f"equal costs {same} of {given.days}, load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
    for process in both:
        process.stdin.close()  # type: ignore[union-attr]
        process.wait()


if __name__ == "__main__":
    main()
