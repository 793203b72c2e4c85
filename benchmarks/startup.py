"""Start-up times of the command line, as medians and as ratios to `python -c pass`.

    python benchmarks/startup.py [--runs 9]

First what a fresh installation compiles (an empty NUMBA_CACHE_DIR), then later starts.
Timings are noisy on a busy machine: compare ratios and CPU seconds. Targets on two idle
cores: `--help` 0.5 s, the first default solve 25 s, the first with `--model general
--no-polish` 30 s, the first answer of later starts at N = 100 after 1.0 s.
"""

from __future__ import annotations

import argparse
import os
import resource
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


def first_start(title: str, command: list[str]) -> None:
    """Print what a command takes when nothing is compiled yet."""
    with tempfile.TemporaryDirectory() as cache:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            env={**os.environ, "NUMBA_CACHE_DIR": cache},
        )
        wall = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        kernels = len(list(Path(cache).rglob("*.nbi")))
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    print(
        f"{title:<40} {wall:>9.1f} s, CPU {cpu:.1f} s, {kernels} kernels, load "
        f"{os.getloadavg()[0]:.1f}",
        flush=True,
    )


def main() -> None:
    """Print one row per command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    runs: int = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        sample = [*CLI, "sample", "bundled", "--customers", "100", "--out", folder]
        subprocess.run(sample, check=True, capture_output=True)
        (day,) = map(str, Path(folder).iterdir())
        first_start("first solve, N=100", [*CLI, "solve", day, "--json"])
        network = [*CLI, "solve", day, "--model", "general", "--no-polish", "--json"]
        first_start("the same, --model general --no-polish", network)
        first_start("warm-up", [*CLI, "warm-up"])
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
