"""Every table of docs/benchmarks.md, by `clusterfirst bench`, one after the other.

    python benchmarks/tables.py free [TABLE ...]     search-free: quality, one core
    python benchmarks/tables.py search [TABLE ...]   with search: needs an idle machine
    python benchmarks/tables.py one-core [TABLE ...] the same, one core
    python benchmarks/tables.py alone [TABLE ...]    the networks on whole sets
    python benchmarks/tables.py page                 writes the page from the results
    python benchmarks/tables.py search --dry-run     commands and minutes, runs nothing
    python benchmarks/tables.py search --first 1     a trial: nothing is stored

The order on the command line is the order of the runs; without names all tables run.
What is done stays in --out (default out/tables): run again to go on, and remove that
folder after the code has changed. Each finished table goes to benchmarks/results and
into the page. Named sets are found by CLUSTERFIRST_DATA. Shipped models join by
themselves, a model of one city only on its city.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clusterfirst.evidence.bench.compare import with_ablation
from clusterfirst.evidence.bench.lines import Line, Mean
from clusterfirst.evidence.bench.report import gap_against_seconds
from clusterfirst.evidence.bench.run import ONCE, Method
from clusterfirst.evidence.bench.sets import data_folder
from clusterfirst.files.picture import write_figure
from clusterfirst.networks.model_folder import shipped
from clusterfirst.problem.machine import usable_cores
from machine import ROOT, facts
from tables_page import (
    KINDS,
    PICTURES,
    RESULTS,
    SEARCHES,
    picture_name,
    write_page,
)

STARTUP = 2.0  # seconds for each process of a method, on an idle machine
ONE_CORE_PEERS = ("hgs", "pyvrp")
ALONE = 30.0  # seconds: a limit that the networks do not need
ALONE_TAKES = 0.2  # seconds, about, at the sizes of most instances
ONE_SHOT = 0.2  # of its limit is what a method takes that decides once
CLASSICS = ("fisher-jaikumar", "sweep", "petal", "savings")
PEERS = ("hgs", "pyvrp", "ortools", "vroom")
KEPT = ROOT / "benchmarks" / "references"
HUGE_CITY = "out/tables/city-20000"  # clustered, 20,000 locations, seed 1


@dataclass(frozen=True)
class Part:
    """How many instances of a set, and the seconds each method may take."""

    count: int
    seconds: tuple[float, ...]


@dataclass(frozen=True)
class Table:
    """One set, compared without search and with search."""

    name: str
    title: str
    free: Part
    search: Part
    one_core: Part | None = None  # with search on one core too, against HGS and PyVRP
    alone: int | None = None  # instances of the networks' own table, if more than free
    references: str = ""  # where the set has none of its own
    published: str = ""  # costs that others measured, under the data folder
    peers: tuple[str, ...] = PEERS
    starts: tuple[str, ...] = ()  # further starts of the polish
    whole: bool = False  # the set is never longer than what is asked for
    city: str = ""  # days of this folder instead of a set

    def part(self, kind: str) -> Part | None:
        """What a kind of table takes of the set; None: there is no such table."""
        if kind == "alone":
            return Part(self.alone or self.free.count, (ALONE,))
        return {"free": self.free, "search": self.search, "one-core": self.one_core}[
            kind
        ]


# Every city of the paper is the bundled one, so its models know these days.
PAPERS_CITY = ("city-100", "city-200", "city-500", "city-1000")
TABLES = (
    Table(
        "city-1000",
        "The paper's city, N = 1000",
        Part(6, (1.0,)),
        Part(6, (0.5, 1.0, 3.0, 10.0)),
        one_core=Part(6, (0.5, 1.0, 3.0)),
        whole=True,
    ),
    Table(
        "city-500",
        "The paper's city, N = 500",
        Part(8, (1.0,)),
        Part(8, (0.5, 1.0, 3.0)),
        one_core=Part(8, (0.5, 1.0, 3.0)),
        whole=True,
    ),
    Table(
        "city-100",
        "The paper's city, N = 100",
        Part(128, (0.3,)),
        Part(32, (0.3, 1.0)),
    ),
    Table(
        "city-200",
        "The paper's city, N = 200",
        Part(24, (1.0,)),
        Part(24, (0.3, 1.0)),
        whole=True,
    ),
    Table(
        "X",
        "X, the half at hand (50 of 100)",
        Part(50, (1.0,)),
        Part(50, (0.3, 1.0)),
        one_core=Part(50, (0.2, 1.0, 10.0)),
        published="peers/x.csv",
    ),
    Table(
        "xl",
        "XL, 16 of 100, N = 1,140 to 9,362",
        Part(16, (10.0,)),
        Part(16, (10.0,)),
        one_core=Part(16, (10.0,)),
        published="peers/xl.csv",
        peers=("hgs",),
        whole=True,
    ),
    Table(
        "ghent2",
        "Ghent2, N = 11,000",
        Part(1, (10.0,)),
        Part(1, (10.0, 60.0)),
        one_core=Part(1, (10.0, 60.0)),
        peers=("hgs",),
        whole=True,
    ),
    Table(
        "clustered-10000",
        "N = 10,000 in a clustered city of 20,000 locations",
        Part(3, (10.0,)),
        Part(3, (6.0, 30.0)),
        peers=("hgs", "pyvrp"),
        city=HUGE_CITY,
    ),
    Table(
        "leuven1",
        "Leuven1, N = 3000",
        Part(1, (3.0,)),
        Part(1, (10.0,)),
        starts=("savings+polish",),
        whole=True,
    ),
    Table("lehd500", "LEHD CVRP500", Part(128, (1.0,)), Part(32, (0.3, 1.0))),
    Table("lehd200", "LEHD CVRP200", Part(128, (0.3,)), Part(32, (0.3, 1.0))),
    Table(
        "cvrp100",
        "CVRP100",
        Part(100, (0.3,)),
        Part(32, (0.3, 1.0)),
        alone=1000,
        references="hgs:2",
    ),
    Table(
        "cvrp1000",
        "CVRP1000",
        Part(16, (1.0,)),
        Part(16, (0.3, 1.0)),
        references="hgs:60",
    ),
    Table("xml100", "XML100", Part(100, (0.3,)), Part(32, (0.3, 1.0)), alone=1000),
    Table(
        "belem",
        "Belem days",
        Part(32, (1.0,)),
        Part(32, (0.3, 1.0)),
        references="hgs:10",
    ),
)


# --- what a table runs --------------------------------------------------------------


def models(table: Table) -> list[str]:
    """The shipped models that fit: those of one city only on the paper's."""
    found = []
    for name, folder in shipped().items():
        networks = json.loads((folder / "config.json").read_text())["networks"]
        if "psi" not in networks["input"] or table.name in PAPERS_CITY:
            found.append(name)
    return found


def methods(table: Table, kind: str) -> tuple[str, ...]:
    """Everything that runs here, the twins of the network included."""
    twin = f"{CLASSICS[0]}:{ONCE}"
    ours = [f"neural:{name}" for name in models(table)]
    if kind == "alone":
        return (*ours, twin)
    if kind == "free":
        return with_ablation([*ours, *CLASSICS, twin])
    ours = [f"{name}+polish" for name in ours]
    start = f"{CLASSICS[0]}+polish"
    if kind == "one-core":
        return with_ablation([*ours, start, *ONE_CORE_PEERS])
    return with_ablation([*ours, start, *table.starts, *table.peers])


def _part(table: Table, kind: str) -> Part:
    part = table.part(kind)
    assert part is not None  # main leaves out tables without one
    return part


def words(table: Table, kind: str, out: Path) -> list[str]:
    """The command of a table."""
    part = _part(table, kind)
    command = ["clusterfirst", "bench"]
    if table.city:
        command += ["--city", table.city, "--customers", "10000"]
        command += ["--count", str(part.count)]
    else:
        command.append(table.name)
        if not table.whole:
            command += ["--instances", f"0:{part.count}"]
    command += ["--methods", ",".join(methods(table, kind))]
    command += ["--seconds", ",".join(f"{s:g}" for s in part.seconds)]
    if kind == "search":
        command += ["--cores", "2"]
    if table.references:
        kept = kept_references(table)
        given = str(kept.relative_to(ROOT)) if kept.exists() else table.references
        command += ["--references", given]
    if published := others(table) if kind in SEARCHES else None:
        command += ["--published", str(published)]
    return [*command, "--out", str(out / kind / table.name)]


def others(table: Table) -> Path | None:
    """Costs that others measured, where the data folder has them."""
    folder = data_folder(None)
    if not table.published or folder is None:
        return None
    return path if (path := folder / table.published).exists() else None


def kept_references(table: Table) -> Path:
    """Where the costs of a set's long runs are kept (`references.py`)."""
    return KEPT / f"{table.name}-{table.references.replace(':', '-')}s.csv"


def minutes(table: Table, kind: str) -> float:
    """How long a table takes from nothing, on an idle machine."""
    part = _part(table, kind)
    seconds = 0.0
    for text in methods(table, kind):
        method = Method.of(text)
        once = method.name in ("neural", "sweep") or method.detail == ONCE
        share = ONE_SHOT if once and not method.polish else 1.0
        share = ALONE_TAKES / ALONE if kind == "alone" else share
        processes = 2 if kind == "search" and not method.uses_threads else 1
        seconds += processes * STARTUP + part.count * share * sum(part.seconds)
    return seconds / 60


def reference_minutes(table: Table, kind: str) -> float:
    """How long its references take at most; those that are cached take nothing."""
    if not table.references or kept_references(table).exists():
        return 0.0
    part = _part(table, kind)
    seconds = float(table.references.removeprefix("hgs:"))
    return part.count * seconds / len(usable_cores()) / 60


# --- running ------------------------------------------------------------------------


def run(table: Table, kind: str, out: Path) -> bool:
    """Run or finish the command of one table."""
    if table.city and not Path(table.city).exists():
        draw = ["clusterfirst", "city", "sample", "--out", table.city]
        draw += ["--locations", "20000", "--layout", "clustered", "--seed", "1"]
        subprocess.run([*_program(), *draw[1:]], check=True, cwd=ROOT)
    command = words(table, kind, out)
    print(f"$ {shlex.join(command)}", flush=True)
    done = subprocess.run([*_program(), *command[1:]], check=False, cwd=ROOT)
    if done.returncode:
        print(f"{table.name}: not finished (exit code {done.returncode})")
    return not done.returncode


def store(table: Table, kind: str, out: Path, before: dict[str, Any]) -> None:
    """Keep what came of a table, and write the page anew."""
    (summary,) = (ROOT / out / kind / table.name).glob("*.json")
    result = {
        "name": table.name,
        "title": table.title,
        "kind": kind,
        "command": shlex.join(words(table, kind, out)),
        **before,
        "result": json.loads(summary.read_text(encoding="utf-8")),
    }
    RESULTS.mkdir(exist_ok=True)
    stored = RESULTS / f"{kind}-{table.name}.json"
    stored.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    draw(result)
    write_page([t.name for t in TABLES])


def draw(stored: dict[str, Any]) -> None:
    """The plot of gap against seconds, from what is stored."""
    if stored["kind"] not in SEARCHES:
        return
    found = stored["result"]
    lines = [
        Line(**numbers(line) | {"gap": Mean(**numbers(line["gap"]))})
        for line in found["lines"]
    ]
    write_figure(
        PICTURES / picture_name(stored["name"], stored["kind"]),
        lambda: gap_against_seconds(found["title"], found["references"], lines),
    )


def numbers(facts: dict[str, Any]) -> dict[str, Any]:
    """What JSON has, whose null is no number."""
    return {name: math.nan if value is None else value for name, value in facts.items()}


def few(table: Table, count: int) -> Table:
    """The table on its first instances only."""
    parts = {
        name: replace(part, count=min(count, part.count))
        for name in ("free", "search", "one_core")
        if (part := getattr(table, name)) is not None
    }
    return replace(table, alone=None, whole=False, **parts)


def _program() -> list[str]:
    """`clusterfirst` of this environment."""
    return [sys.executable, "-m", "clusterfirst"]


def main() -> int:
    """Run, estimate, or write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=(*KINDS, "page"))
    parser.add_argument("tables", nargs="*", metavar="TABLE")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--first", type=int, help="instances of each table, a trial")
    parser.add_argument("--out", type=Path, default=Path("out/tables"))
    args = parser.parse_intermixed_args()
    known = {table.name: table for table in TABLES}
    for name in args.tables:
        if name not in known:
            parser.error(f"{name}: the tables are {', '.join(known)}")
    if args.kind == "page":
        for path in sorted(RESULTS.glob("*.json")):
            stored = json.loads(path.read_text(encoding="utf-8"))
            if "result" in stored:
                draw(stored)
        write_page(list(known))
        return 0
    chosen: Sequence[Table] = [known[name] for name in args.tables] or TABLES
    chosen = [table for table in chosen if table.part(args.kind) is not None]
    if args.first:
        chosen = [few(table, args.first) for table in chosen]
        args.out = args.out / "trial"
    if args.dry_run:
        for table in chosen:
            print(f"# {minutes(table, args.kind):.1f} min")
            print(shlex.join(words(table, args.kind, args.out)))
        total = sum(minutes(table, args.kind) for table in chosen)
        first = sum(reference_minutes(table, args.kind) for table in chosen)
        load = f"load now {os.getloadavg()[0]:.1f}"
        print(f"# {total:.0f} min in all, and at most {first:.0f} min before them for")
        print(f"# references that are not cached; {load}")
        return 0
    finished = True
    for table in chosen:
        before = facts()
        good = run(table, args.kind, args.out)
        finished = finished and good
        if good and not args.first:
            store(table, args.kind, args.out, before)
    return 0 if finished else 1


if __name__ == "__main__":
    sys.exit(main())
