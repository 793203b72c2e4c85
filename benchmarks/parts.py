"""Where the time goes: seconds, share and growth of every part of one solve.

    python benchmarks/parts.py [--sizes 100,1000,10000] [--runs 3] [--model NAME]
                               [--store]

Days of a uniform city at the paper's law (demand 1..9, Q = 50), one core. `embed` is
paid once per city and stands apart from the whole. Without --model the networks have
random weights, which cost the same time, and assignment and tours work on
Fisher-Jaikumar's seeds and costs instead. Every run compares itself with the table in
docs/benchmarks.md, in units of the fp32 matmul rate, and names what became slower;
--store replaces that table.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch

from clusterfirst.bench.run import matmul_rate
from clusterfirst.city import City
from clusterfirst.classical.fisher_jaikumar import fisher_jaikumar
from clusterfirst.clock import Deadline
from clusterfirst.decoding import decode, fleets
from clusterfirst.instance import Instance
from clusterfirst.method import Work
from clusterfirst.networks import neural
from clusterfirst.networks.embed import SETTINGS, Autoencoder, city_graph
from clusterfirst.networks.model import GENERAL, Router
from clusterfirst.networks.model_folder import load_model
from clusterfirst.sampling import sample_city, sample_day
from clusterfirst.scores import Scores

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
BEGIN, END = "<!-- parts:begin -->", "<!-- parts:end -->"
PARTS = ("embed", "seeds", "cluster", "sinkhorn", "assignment", "tours")
APART = "embed"  # once per city, not per day
SLOWER = 1.5  # times the stored figure, beyond the noise of a busy machine

Seconds = dict[str, float]


@dataclass(frozen=True)
class Table:
    """Seconds of each part at each size, and how they came about."""

    seconds: dict[int, Seconds]
    gflops: float
    about: str

    def share(self, size: int, part: str) -> float:
        """Of the whole day; embed is not part of it."""
        whole = sum(s for name, s in self.seconds[size].items() if name != APART)
        return self.seconds[size][part] / whole

    def growth(self, part: str) -> float:
        """Exponent b of seconds ~ N^b, by least squares over the sizes."""
        sizes = sorted(self.seconds)
        if len(sizes) < 2:
            return math.nan
        times = [max(self.seconds[size][part], 1e-9) for size in sizes]
        return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


# --- measuring ----------------------------------------------------------------------


@contextmanager
def timed(seconds: Seconds, part: str) -> Iterator[None]:
    """Add the time of the block to a part."""
    start = time.perf_counter()
    yield
    seconds[part] = seconds.get(part, 0.0) + time.perf_counter() - start


@contextmanager
def timed_calls(seconds: Seconds, part: str, name: str) -> Iterator[None]:
    """Count a function that neural.py calls as a part of its own."""
    function: Callable[..., object] = getattr(neural, name)

    def counted(*args: object) -> object:
        with timed(seconds, part):
            return function(*args)

    setattr(neural, name, counted)
    try:
        yield
    finally:
        setattr(neural, name, function)


def measure(city: City, day: Instance, router: Router, trained: bool) -> Seconds:
    """Every part once."""
    seconds: Seconds = {}
    with timed(seconds, "embed"), torch.inference_mode():
        settings = SETTINGS["default"]
        Autoencoder(city_graph(city, settings), settings).table_psi()
    work = Work(day, Deadline.never(), iterations=1)
    vehicles = fleets(work)[:1]
    with timed(seconds, "seeds"):
        encoded = neural.encode(router, [day], [None])
    picking: Seconds = {}
    with timed_calls(picking, "seeds", "decode_seeds"), timed(seconds, "cluster"):
        scores = neural.score(router, encoded, vehicles)[0]
    seconds["cluster"] -= picking["seeds"]
    seconds["seeds"] += picking["seeds"]
    with timed(seconds, "sinkhorn"):
        neural.transport_plan(day, scores)
    decode(work, scores if trained else by_hand(day, vehicles))
    seconds["assignment"] = work.seconds["assign"]
    seconds["tours"] = work.seconds["tours"]
    return seconds


def by_hand(day: Instance, vehicles: list[int]) -> Scores:
    """Seeds and costs that mean something where there are no trained weights."""
    return next(fisher_jaikumar(day, vehicles, np.random.default_rng(0)))


def measure_all(sizes: list[int], runs: int, model: str | None) -> Table:
    """Medians over runs, size by size; the first, small run warms everything up."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    router = Router(GENERAL) if model is None else load_model(model).router
    day_of = {n: sample_day(draw_city(n), n, seed=1, index=0) for n in (60, *sizes)}
    measure(draw_city(60), day_of[60], router, model is not None)
    rates, seconds = [], {}
    for n in sizes:
        found = []
        for _ in range(runs):
            rates.append(matmul_rate())
            found.append(measure(draw_city(n), day_of[n], router, model is not None))
            print(f"N={n}: {sum(found[-1].values()):.2f} s", file=sys.stderr)
        seconds[n] = {
            part: statistics.median(run[part] for run in found) for part in PARTS
        }
    rate = statistics.median(rates)
    weights = "random weights" if model is None else f"weights {model}"
    return Table(seconds, rate, about(rate, weights))


def draw_city(size: int) -> City:
    """A uniform city that the day uses whole, so that embed grows with N too."""
    return sample_city(size, seed=1)


def about(rate: float, weights: str) -> str:
    """Date, commit, machine and command: what a figure is worth without them is 0."""
    git = ["git", "-C", str(PAGE.parent), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False)
    command = " ".join(["python", "benchmarks/parts.py", *sys.argv[1:]])
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, commit {commit.stdout.strip() or 'unknown'}, "
        f"`{command}`; {processor()}, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f}, fp32 matmul {rate:.1f} GFLOP/s on one core, "
        f"{weights}."
    )


def processor() -> str:
    """The name of the processor."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    found = re.search(r"model name\s*:\s*(.+)", text)
    return found.group(1).strip() if found else platform.machine()


# --- the table in docs/benchmarks.md ------------------------------------------------


def as_markdown(table: Table) -> str:
    """The table as it stands in the page; `from_markdown` reads it back."""
    sizes = sorted(table.seconds)
    head = "".join(f" N={n} s | share |" for n in sizes)
    lines = [table.about, "", f"| part |{head} growth |"]
    lines.append("|---|" + "---:|---:|" * len(sizes) + "---:|")
    for part in PARTS:
        cells = ""
        for n in sizes:
            share = "" if part == APART else f"{table.share(n, part):.0%}"
            cells += f" {table.seconds[n][part]:.4f} | {share} |"
        lines.append(f"| {part} |{cells} N^{table.growth(part):.2f} |")
    return "\n".join(lines)


def from_markdown(text: str) -> Table | None:
    """The table of a page, if there is one."""
    _, begin, rest = text.partition(BEGIN)
    body = rest.partition(END)[0].strip()
    rate = re.search(r"matmul ([\d.]+) GFLOP/s", body)
    if not begin or rate is None:
        return None
    sizes = [int(n) for n in re.findall(r"N=(\d+) s", body)]
    seconds: dict[int, Seconds] = {n: {} for n in sizes}
    for line in body.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] in PARTS:
            for n, cell in zip(sizes, cells[1::2], strict=False):
                seconds[n][cells[0]] = float(cell)
    return Table(seconds, float(rate.group(1)), body.splitlines()[0])


def compare(now: Table, stored: Table) -> list[str]:
    """What became slower, counted in matmuls of the same minute."""
    speed = now.gflops / stored.gflops
    lines = []
    for n in sorted(set(now.seconds) & set(stored.seconds)):
        for part in PARTS:
            before = max(stored.seconds[n][part], 1e-4)
            ratio = max(now.seconds[n][part], 1e-4) / before * speed
            if ratio > SLOWER:
                lines.append(f"slower: {part} at N={n}: {ratio:.1f} times")
    return lines


def store(table: Table) -> None:
    """Put the table into the page."""
    text = PAGE.read_text(encoding="utf-8")
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        sys.exit(f"{PAGE} has no {BEGIN} ... {END}")
    body = f"{BEGIN}\n{as_markdown(table)}\n{END}"
    PAGE.write_text(head + body + tail, encoding="utf-8")


def main() -> None:
    """Measure, compare, and store if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="100,1000,10000")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--model")
    parser.add_argument("--store", action="store_true")
    args = parser.parse_args()
    table = measure_all([int(n) for n in args.sizes.split(",")], args.runs, args.model)
    print(as_markdown(table))
    stored = from_markdown(PAGE.read_text(encoding="utf-8"))
    if stored is not None:
        print(f"\nstored: {stored.about}")
        print("\n".join(compare(table, stored)) or "nothing became slower")
    if args.store:
        store(table)


if __name__ == "__main__":
    main()
