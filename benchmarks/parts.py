"""Where the time goes: seconds, share and growth of every part of one solve.

    python benchmarks/parts.py [--sizes 100,1000,10000] [--runs 3] [--model NAME]
                               [--store]

Days of a uniform city at the paper's law (demand 1..9, Q = 50), CPU seconds of one
thread, so that other work on the machine hardly counts. `embed` is paid once per city
and `sinkhorn` only by --assign sparse and hard: both stand apart from the whole.

--model is a shipped model or a folder (default: general, or the first one shipped); a
model of one city lends unknown places what it knows of the nearest one, which costs the
same time. `--model random` has random weights, and assignment and tours then work on
Fisher-Jaikumar's seeds and costs. Every run compares itself with the stored one of the
same model (benchmarks/results/parts-MODEL.json), in units of the fp32 matmul rate, and
names what became slower; --store replaces it and writes the tables of
docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from clusterfirst.networks.config import GENERAL
from clusterfirst.networks.model_folder import Model, load_model, shipped
from clusterfirst.networks.network import Network
from clusterfirst.networks.neural import NeuralScorer
from clusterfirst.networks.plan import ITERATIONS, transport_plan
from clusterfirst.networks.trainable.embed import SETTINGS, Autoencoder, city_graph
from clusterfirst.networks.trainable.router import Router
from clusterfirst.problem.city import City
from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.sampling import sample_city, sample_day
from clusterfirst.solving.decoding import decode, fleets
from clusterfirst.solving.options import DecodingSettings
from clusterfirst.stages.classical.fisher_jaikumar import fisher_jaikumar
from clusterfirst.stages.scores import Scores
from clusterfirst.stages.search_state import SearchState
from machine import ROOT, facts

PAGE = ROOT / "docs" / "benchmarks.md"
RESULTS = ROOT / "benchmarks" / "results"
BEGIN, END = "<!-- parts:begin -->", "<!-- parts:end -->"
PARTS = ("embed", "seeds", "cluster", "sinkhorn", "assignment", "tours")
APART = ("embed", "sinkhorn")  # once per city; for --assign sparse and hard only
RANDOM = "random"  # in place of a model: random weights
SLOWER = 1.5  # times the stored figure, beyond the noise of a busy machine
LEAST = 1e-3  # seconds below which a clock measures mostly itself
PLAN_CELLS = 300_000_000  # customers x vehicles x iterations of the plan to run
RATES = 5  # matmuls beside every run

Seconds = dict[str, float]


@dataclass(frozen=True)
class Table:
    """Seconds of each part at each size, and how they came about."""

    model: str
    seconds: dict[int, Seconds]
    gflops: float
    about: str

    @classmethod
    def read(cls, path: Path) -> Table | None:
        """The stored table, if there is one."""
        if not path.exists():
            return None
        stored = json.loads(path.read_text(encoding="utf-8"))
        sizes = {int(size): times for size, times in stored["seconds"].items()}
        return cls(**(stored | {"seconds": sizes}))

    def write(self, path: Path) -> None:
        """Store it."""
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    def share(self, size: int, part: str) -> float:
        """Of one day as it is solved by default; above 1 for what stands apart."""
        whole = sum(s for name, s in self.seconds[size].items() if name not in APART)
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
    """Add the CPU time of the block to a part: other work does not count."""
    start = time.process_time()
    yield
    seconds[part] = seconds.get(part, 0.0) + time.process_time() - start


class CpuState(SearchState):
    """A search that counts its stages in CPU seconds."""

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the CPU time of the block to a stage."""
        with timed(self.seconds, name):
            yield


def cpu_rate() -> float:
    """GFLOP/s of fp32 matmul in CPU time, as the parts are counted."""
    size, repeats = 512, 10
    a = np.ones((size, size), dtype=np.float32)
    seconds: Seconds = {}
    with timed(seconds, "matmul"):
        for _ in range(repeats):
            a @ a
    return float(2 * size**3 * repeats / seconds["matmul"] / 1e9)


def measure(city: City, day: Instance, model: Model | None) -> Seconds:
    """Every part once."""
    seconds: Seconds = {}
    with timed(seconds, "embed"), torch.inference_mode():
        settings = SETTINGS["default"]
        Autoencoder(city_graph(city, settings), settings).table_psi()
    if model is None:
        network, rows = Network(GENERAL, Router(GENERAL).weights()), None
    else:
        network, rows = model.network, model.rows_of(day, borrow=True)
    state = CpuState(day, Deadline.never(), iterations=1)
    vehicles = fleets(day, DecodingSettings())[:1]
    with timed(seconds, "seeds"):
        scorer = NeuralScorer(network, day, rows, threads=1)
        picked = scorer.pick(vehicles[0])
    with timed(seconds, "cluster"):
        scores = scorer.at(picked)
    seconds["sinkhorn"] = plan_seconds(day, scores)
    scores = by_hand(day, vehicles) if model is None else scores
    decode(state, scores, DecodingSettings())
    seconds["assignment"] = state.seconds["assign"]
    seconds["tours"] = state.seconds["tours"]
    return seconds


def plan_seconds(day: Instance, scores: Scores) -> float:
    """Seconds of all iterations of the plan; on large days scaled up from a part."""
    full = ITERATIONS
    cells = day.num_customers * len(scores.seeds)
    some = int(np.clip(PLAN_CELLS // cells, 1, full))
    seconds: Seconds = {}
    with timed(seconds, "plan"):
        transport_plan(day, scores, some)
    return seconds["plan"] * full / some


def by_hand(day: Instance, vehicles: list[int]) -> Scores:
    """Seeds and costs that mean something where there are no trained weights."""
    return next(fisher_jaikumar(day, vehicles, np.random.default_rng(0)))


def measure_all(sizes: Sequence[int], runs: int, name: str) -> Table:
    """Medians over runs, size by size; the first, small run warms everything up."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = None if name == RANDOM else load_model(name)
    cities = {n: sample_city(n, seed=1) for n in (60, *sizes)}  # each day uses all
    days = {n: sample_day(city, n, seed=1, index=0) for n, city in cities.items()}
    measure(cities[60], days[60], model)
    rates, seconds = [], {}
    for n in sizes:
        found = []
        for _ in range(runs):
            rates += [cpu_rate() for _ in range(RATES)]
            found.append(measure(cities[n], days[n], model))
            print(f"N={n}: {sum(found[-1].values()):.2f} s", file=sys.stderr)
        seconds[n] = {
            part: statistics.median(run[part] for run in found) for part in PARTS
        }
    rate = statistics.median(rates)
    return Table(name, seconds, rate, about(rate, name))


def about(rate: float, model: str) -> str:
    """Date, commit, machine and command: what a figure is worth without them is 0."""
    here = facts()
    command = " ".join(["python", "benchmarks/parts.py", *sys.argv[1:]])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return (
        f"{here['date']}, commit {here['commit']}, `{command}`; {here['processor']}, "
        f"one of {here['cores']} cores, load {here['load']}, fp32 matmul {rate:.1f} "
        f"GFLOP/s, weights {model}, peak memory {peak:.1f} GB; CPU seconds."
    )


# --- tables -------------------------------------------------------------------------


def as_markdown(table: Table) -> str:
    """The table as it stands in the page."""
    sizes = sorted(table.seconds)
    head = "".join(f" N={n} s | share |" for n in sizes)
    lines = [table.about, "", f"| part |{head} growth |"]
    lines.append("|---|" + "---:|---:|" * len(sizes) + "---:|")
    for part in PARTS:
        cells = ""
        for n in sizes:
            share = f"{table.share(n, part):.0%}"
            if part in APART:
                share = f"x {table.share(n, part):.2g}"
            cells += f" {table.seconds[n][part]:.4f} | {share} |"
        lines.append(f"| {part} |{cells} N^{table.growth(part):.2f} |")
    return "\n".join(lines)


def compare(now: Table, stored: Table) -> list[str]:
    """What became slower, counted in matmuls of the same minute."""
    speed = now.gflops / stored.gflops
    lines = []
    for n in sorted(set(now.seconds) & set(stored.seconds)):
        for part in PARTS:
            before = max(stored.seconds[n][part], LEAST)
            ratio = max(now.seconds[n][part] * speed, LEAST) / before
            if ratio > SLOWER:
                lines.append(f"slower: {part} at N={n}: {ratio:.1f} times")
    return lines


def write_page(tables: Sequence[Table]) -> None:
    """Put the stored tables into the page."""
    text = PAGE.read_text(encoding="utf-8")
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        sys.exit(f"{PAGE} has no {BEGIN} ... {END}")
    body = "\n\n".join(as_markdown(table) for table in tables)
    temporary = PAGE.with_suffix(f".{os.getpid()}")
    temporary.write_text(f"{head}{BEGIN}\n{body}\n{END}{tail}", encoding="utf-8")
    os.replace(temporary, PAGE)


def usual_model() -> str:
    """`general`, else the first model that is shipped, else random weights."""
    return "general" if "general" in shipped() else next(iter(shipped()), RANDOM)


def main() -> None:
    """Measure, compare, and store if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="100,1000,10000")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--model", default=usual_model())
    parser.add_argument("--store", action="store_true")
    args = parser.parse_args()
    table = measure_all([int(n) for n in args.sizes.split(",")], args.runs, args.model)
    print(as_markdown(table))
    place = RESULTS / f"parts-{Path(args.model).name}.json"
    stored = Table.read(place)
    if stored is not None:
        print(f"\nstored: {stored.about}")
        print("\n".join(compare(table, stored)) or "nothing became slower")
    if args.store:
        table.write(place)
        found = [Table.read(path) for path in sorted(RESULTS.glob("parts-*.json"))]
        write_page([each for each in found if each is not None])


if __name__ == "__main__":
    main()
