"""All promises in turn, slice by slice, until their counts are full: `make campaign`.

    python campaign/run.py [--seconds 600] [--slice 120] [--only answers files]

Ctrl-C or a kill loses at most ten seconds: every script counts what it has done in
campaign/results, and the same command goes on. docs/reliability.md is written anew
after each slice.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from page import PAGE, PROMISES, page
from record import RESULTS

LOWEST = 10  # niceness: people and tests go first


def unfinished(name: str, results: Path) -> bool:
    """Whether a promise has cases left."""
    path = results / f"{name}.json"
    if not path.exists():
        return True
    record = json.loads(path.read_text(encoding="utf-8"))
    return bool(record["done"] < record["full"])


def main() -> int:
    """Give each promise its slice, again and again; 1 if any has failures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=math.inf, help="in all")
    parser.add_argument("--slice", type=float, default=120.0, help="seconds each")
    parser.add_argument("--only", nargs="+", choices=PROMISES, default=list(PROMISES))
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    os.nice(max(0, LOWEST - os.nice(0)))
    until = time.monotonic() + given.seconds
    failed = False
    todo = list(given.only)
    while todo and time.monotonic() < until:
        todo = [name for name in todo if unfinished(name, given.results)]
        for name in todo:
            seconds = min(given.slice, until - time.monotonic())
            if seconds <= 0:
                break
            script = Path(__file__).with_name(f"{name}.py")
            asked = ["--seconds", f"{seconds:.0f}", "--results", str(given.results)]
            try:
                ended = subprocess.run(
                    [sys.executable, str(script), *asked], check=False
                )
            except KeyboardInterrupt:
                return 130
            failed = failed or ended.returncode != 0
            if given.results == RESULTS:
                PAGE.write_text(page(RESULTS), encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
