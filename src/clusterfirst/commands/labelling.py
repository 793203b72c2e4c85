"""`label` and `labels`: expert solutions to learn from, made, imported and merged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterfirst.commands import options
from clusterfirst.commands.console import ProgressLine, emit_facts, emit_json, say
from clusterfirst.commands.reading import open_city, open_law
from clusterfirst.problem.errors import InputError, Problem

if TYPE_CHECKING:
    from clusterfirst.learning.labels.making import LabelProgress
    from clusterfirst.learning.labels.sources import Source


labels_app = typer.Typer(
    help="Show, import and merge folders of labels.", rich_markup_mode=None
)

LabelFolders = Annotated[
    list[Path], typer.Argument(metavar="FOLDER", help="Folders of labels.")
]


def label(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="City folder, 'bundled', 'world' (the mix of the general model), "
            "'long' (30 to 100 customers per route), 'xml' (the law of XML100), "
            "'towns' (along roads), 'uniform' (the paper's standard setting) or a "
            "public test set.",
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="Folder for the labels; run again to resume.")
    ],
    customers: options.DayCustomers = None,
    count: Annotated[int, typer.Option(help="Number of instances.")] = 1000,
    seconds: Annotated[
        float | None,
        typer.Option(help="CPU seconds per label; give this or --iterations."),
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option(
            help="Stop after this many iterations without improvement; repeatable."
        ),
    ] = None,
    workers: Annotated[int, typer.Option(help="Labels made in parallel.")] = 1,
    seed: options.DrawSeed = 0,
    first: options.First = 0,
    seeds_per_instance: Annotated[
        int,
        typer.Option(help="Labels per instance, each with a different teacher seed."),
    ] = 1,
    teacher: Annotated[
        str, typer.Option(help="hgs, pyvrp or polish (our own).")
    ] = "hgs",
    engine: options.Engine = "pool",
    capacity: options.Capacity = None,
    as_json: options.Json = False,
) -> int:
    """Make expert solutions of drawn instances, to train on.

    A kill at any moment loses nothing: running again makes only the labels that the
    folder does not hold yet. Each label is checked and its cost recomputed.
    """
    from clusterfirst.learning.labels.making import LabelOptions
    from clusterfirst.learning.labels.making import label as make_labels

    found = _source(source, seed, capacity, customers)
    own = 100 if found.law is None else 0
    wanted = LabelOptions(
        customers=own if customers is None else customers,
        count=count,
        seconds=seconds,
        iterations=iterations,
        workers=workers,
        first=first,
        seeds_per_instance=seeds_per_instance,
        teacher=teacher,  # type: ignore[arg-type]  # checked there
        engine=engine,  # type: ignore[arg-type]  # checked there
    )
    end = make_labels(found, out, wanted, _reporter())
    if as_json:
        emit_json(vars(end) | {"rate": end.rate})
    else:
        say(f"{_line(end)}; {out}")
    if end.failed:
        say(f"{end.failed} failed, run again to retry: {end.last_failure}")
    return 0


@labels_app.command("show")
def show(folders: LabelFolders, as_json: options.Json = False) -> int:
    """Read and check every label; print how many there are of which size."""
    from clusterfirst.learning.labels.labelset import read_labels

    labels = read_labels(*folders)
    facts = {
        "labels": len(labels),
        "sizes": {str(n): len(group) for n, group in labels.groups.items()},
        "sources": [source.name for source in labels.sources],
        "failures": labels.failures,
        "left out": labels.dropped,
    }
    emit_facts(facts, as_json)
    return 0


@labels_app.command("import")
def import_set(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help=".npz with idx, demand, route and cost."),
    ],
    city: Annotated[str, typer.Option(help="City folder of idx, or 'bundled'.")],
    out: Annotated[Path, typer.Option(help="Folder of the labels.")],
    capacity: options.Capacity = None,
) -> int:
    """Import labels made elsewhere; one bad label refuses the whole file."""
    from clusterfirst.learning.labels.importing import import_labels

    count = import_labels(file, open_city(city), out, capacity=capacity)
    say(f"{count} new labels in {out}")
    return 0


@labels_app.command("merge")
def merge_folders(
    folders: LabelFolders,
    out: Annotated[Path, typer.Option(help="A new folder.")],
) -> int:
    """Merge folders, of several machines say; the cheapest label of rivals stays."""
    from clusterfirst.learning.labels.making import merge

    say(f"{merge(folders, out)} labels in {out}")
    return 0


def _source(
    name: str, seed: int, capacity: float | None, customers: int | None
) -> Source:
    from clusterfirst.cities.day_law import Wish, warn_of_paper_law
    from clusterfirst.learning.labels.sources import (
        law_days,
        public_set,
        uniform,
        world,
    )
    from clusterfirst.problem.sampling import PUBLIC_SETS
    from clusterfirst.problem.worlds import WORLDS

    if name == "uniform":
        return uniform(seed=seed, capacity=capacity)
    if name in WORLDS or name in PUBLIC_SETS:
        if capacity is not None:
            rule = f"it does not go with {name}, whose instances have their own"
            raise InputError(Problem("E404", "--capacity", str(capacity), rule))
        return world(seed=seed, name=name) if name in WORLDS else public_set(name)
    law = open_law(name)
    warn_of_paper_law(law, Wish(customers, capacity=capacity))
    return law_days(law, seed=seed, capacity=capacity)


def _reporter() -> Callable[[LabelProgress], None]:
    show = ProgressLine()
    return lambda now: show(f"{_line(now)}, {now.left / 60:.1f} min left")


def _line(progress: LabelProgress) -> str:
    done = progress.found + progress.made
    line = f"{done} of {progress.total} labels, {progress.rate:.2f}/s"
    if progress.efficiency is not None:
        line += f" ({progress.efficiency:.0%} of workers / seconds per label)"
    return line
