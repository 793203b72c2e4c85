"""A Hypothesis campaign over files and instances; prints its count.

    python benchmarks/fuzz_files.py [--examples 1200] [--seed 0]

Each kind of file gets that many damaged versions of valid files, and generated
instances are written and read back. Only InputError may come out, with lines a
person can read, each within 2 seconds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import hypothesis
from hypothesis import strategies as st

from clusterfirst import files
from clusterfirst.problem.errors import InputWarning
from clusterfirst.problem.instance import Instance

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from strategies import corpus, damaged, instances, odd_sets, verdict_on

MAX_SECONDS = 2.0


def campaign(
    strategy: st.SearchStrategy[object],
    check: Callable[[object], str],
    options: argparse.Namespace,
) -> tuple[Counter[str], float]:
    """Run the examples; return what came out and the slowest time."""
    outcomes: Counter[str] = Counter()
    slowest = 0.0

    @hypothesis.seed(options.seed)
    @hypothesis.settings(
        max_examples=options.examples,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(strategy)
    def run(example: object) -> None:
        nonlocal slowest
        start = time.perf_counter()
        outcomes[check(example)] += 1
        seconds = time.perf_counter() - start
        slowest = max(slowest, seconds)
        assert seconds <= MAX_SECONDS, f"{seconds:.1f} s"

    run()
    return outcomes, slowest


def main() -> None:
    """Run every campaign and print the count; a failure raises with its example."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=1200, help="per kind of file")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore", InputWarning)
    total: Counter[str] = Counter()
    slowest = 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def round_trip(example: object) -> str:
            assert isinstance(example, Instance)
            files.write_instance(folder / "a.json", example)
            assert files.read_instance(folder / "a.json").same_as(example)
            return "equal"

        kinds = {
            kind: (
                damaged(valid),
                lambda data, kind=kind: verdict_on(kind, data, folder),
            )
            for kind, valid in corpus().items()
        }
        kinds["odd .npz"] = (odd_sets(), kinds[".npz"][1])
        kinds["instances"] = (instances(), round_trip)
        for kind, (strategy, check) in kinds.items():
            outcomes, seconds = campaign(strategy, check, options)
            print(f"{kind:15s} {dict(outcomes)}, slowest {seconds:.3f} s", flush=True)
            total += outcomes
            slowest = max(slowest, seconds)
    print(
        f"fuzz: {total.total()} examples, 0 crashes, {dict(total)}, "
        f"slowest {slowest:.3f} s"
    )


if __name__ == "__main__":
    main()
