"""Start-up times of the command line, as medians and as ratios to `python -c pass`.

    python benchmarks/startup.py [--runs 9]

Timings are noisy on a busy machine: compare the ratios. The target is `--help` in
under 0.5 s on an idle core.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CLI = [sys.executable, "-m", "clusterfirst"]


def seconds(command: list[str]) -> float:
    """Wall-clock seconds of one run."""
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    """Print one row per command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    runs: int = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        sample = [*CLI, "sample", "bundled", "--customers", "100", "--out", folder]
        subprocess.run(sample, check=True, capture_output=True)
        (day,) = map(str, Path(folder).iterdir())
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "python -c 'import numpy'": [sys.executable, "-c", "import numpy"],
            "clusterfirst --help": [*CLI, "--help"],
            "clusterfirst solve --help": [*CLI, "solve", "--help"],
            "clusterfirst versions": [*CLI, "versions"],
            "clusterfirst solve, N=100, cold": [
                *CLI,
                "solve",
                day,
                "--iterations",
                "1",
                "--json",
            ],
            "the same with --model general": [
                *CLI,
                "solve",
                day,
                "--method",
                "neural",
                "--no-polish",
                "--json",
            ],
        }
        # Round by round, so that a busy minute hits every command alike.
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(runs):
            for name, command in commands.items():
                times[name].append(seconds(command))
    base = statistics.median(times["python -c pass"])
    print(f"{'command':<40} {'median s':>9} {'ratio':>7}")
    for name, values in times.items():
        median = statistics.median(values)
        print(f"{name:<40} {median:>9.3f} {median / base:>7.1f}")


if __name__ == "__main__":
    main()
