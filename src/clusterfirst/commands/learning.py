"""`pretrain`, `train` and `learn`: from a city and labels to a model."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterfirst.commands import options
from clusterfirst.commands.console import ProgressLine, emit, leave_progress, say
from clusterfirst.commands.reading import open_city, open_history, place_to_learn
from clusterfirst.problem.errors import (
    INTERRUPTED,
    InputError,
    Problem,
    require_one_of,
    require_whole,
)

if TYPE_CHECKING:
    from clusterfirst.learning.labels.sources import Source
    from clusterfirst.learning.training.loop import TrainConfig
    from clusterfirst.learning.training.run import Report, TrainData
    from clusterfirst.learning.training.validation import Validation

LINE_SECONDS = 30.0  # between lines of progress where there is no terminal

Threads = Annotated[int | None, typer.Option(help="Number of cores; default: all.")]
Workers = Annotated[int, typer.Option(help="Labels made in parallel.")]
Minutes = Annotated[
    float | None,
    typer.Option(help="Stop after this many minutes; run again to resume."),
]


def pretrain(
    city: options.CityName,
    out: Annotated[
        Path, typer.Option(help="Folder for the table; run again to resume.")
    ],
    settings: Annotated[
        str, typer.Option(help="default (for two cores) or paper.")
    ] = "default",
    minutes: Minutes = None,
    threads: Threads = None,
) -> int:
    """Learn the table Psi of a city: a vector for each location.

    The paper's spatial masked autoencoder (Section 2.1, Appendix B). Ctrl-C, kills
    and --minutes lose at most 25 epochs; the same command resumes.
    """
    _use_threads(_cores(threads))
    from clusterfirst.learning.training.pretraining import Progress
    from clusterfirst.learning.training.pretraining import pretrain as run
    from clusterfirst.networks.trainable.embed import SETTINGS
    from clusterfirst.problem.clock import Deadline

    require_one_of("--settings", settings, SETTINGS)
    show = ProgressLine(LINE_SECONDS)

    def report(now: Progress) -> None:
        error = f"held-out distance error {100 * now.held_out:.2f} %"
        show(f"epoch {now.epoch} of {now.end}, {error}")

    limit = Deadline.never() if minutes is None else Deadline.after(60 * minutes)
    try:
        table = run(
            open_city(city), SETTINGS[settings], out, on_progress=report, deadline=limit
        )
    except KeyboardInterrupt:
        say(f"stopped; run the same command again to resume from {out}")
        return INTERRUPTED
    leave_progress()
    facts = table.facts
    say(f"{facts['epochs']} epochs ({facts['reason']}); {out}/psi.safetensors")
    return 0


def train(
    out: Annotated[Path, typer.Option(help="Folder for the run; run again to resume.")],
    config: Annotated[
        str | None,
        typer.Option(
            help="paper, paper-standard, paper-one-layer, city, city-one-layer, "
            "general, or a .json or .toml file."
        ),
    ] = None,
    labels: Annotated[
        list[Path] | None,
        typer.Option(
            help="Folder of labels; may be repeated, one named twice weighs twice."
        ),
    ] = None,
    city: Annotated[
        str | None, typer.Option(help="City of the psi input: folder, or 'bundled'.")
    ] = None,
    psi: Annotated[
        Path | None, typer.Option(help="Folder of its table (clusterfirst pretrain).")
    ] = None,
    init: Annotated[
        str | None,
        typer.Option(
            help="Start from the weights of a model, or from exported weights."
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(help="Total number of steps; overrides the configuration."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Random seed; overrides the configuration.")
    ] = None,
    minutes: Minutes = None,
    validate: Annotated[
        int, typer.Option(help="Number of instances to measure the solved gap on.")
    ] = 0,
    validate_customers: Annotated[
        int, typer.Option(help="Customers of each validation instance.")
    ] = 100,
    workers: Workers = 1,
    threads: Threads = None,
    export: Annotated[
        Path | None, typer.Option(help="Write a model folder when training ends.")
    ] = None,
    export_weights: Annotated[
        Path | None,
        typer.Option(help="Write only the averaged weights when training ends."),
    ] = None,
) -> int:
    """Train the networks on labels.

    Resumes from the newest checkpoint, with the same weights as if it had never
    stopped. Without --labels nothing is trained: the run is only exported, finished
    or not.
    """
    processes = _cores(threads)
    _use_threads(1)  # each: processes share batches, threads products
    from clusterfirst.learning.training.run import Ending, RunOptions
    from clusterfirst.learning.training.run import train as run

    if labels:
        chosen = _config(config, steps, seed)
        data, sources = _data(labels, city, psi, init)
        chosen = _fitted(chosen, data)
        if validate:
            found = _validation(
                sources, out / "validation", validate_customers, validate, workers
            )
            data = replace(data, validation=found)
        show = ProgressLine(LINE_SECONDS)
        limits = RunOptions(processes, minutes)
        ending = run(chosen, data, out, limits, lambda now: show(_words(now)))
        leave_progress()
        say(f"{ending.value}; {out}")
        if ending is Ending.INTERRUPTED:
            say(f"to resume: {shlex.join(['clusterfirst', *sys.argv[1:]])}")
            return INTERRUPTED
    elif not (export or export_weights):
        rule = "labels to learn from, or --export, are needed"
        raise InputError(Problem("E404", "--labels", "none", rule))
    _export(out, export, export_weights)
    return 0


def learn(
    city: options.CityName,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for all stages; run again to resume. By default CITY/learned, "
            "whose model `solve --city` begins with."
        ),
    ] = None,
    hours: Annotated[float, typer.Option(help="Total time for all stages.")] = 3.0,
    customers: Annotated[
        int, typer.Option(help="Customers of a usual day, if there are no past days.")
    ] = 100,
    validate: Annotated[int, typer.Option(help="Number of validation days.")] = 100,
    workers: Annotated[
        int | None,
        typer.Option(help="Labels made in parallel; default: one per core."),
    ] = None,
    threads: Threads = None,
) -> int:
    """Learn a city: pre-training, labels, training and validation in one go.

    Past days (city add-days) are what it learns from, then days drawn from their law;
    the newest are held back to judge by. 15 % of the time goes to the table Psi, 30 %
    to labels, at most 10 % to references, the rest to training. The model is in
    OUT/model: the general one, if that is no worse on the days held back (on drawn ones
    without past days). The same command with more --hours learns on from there, from
    the days that the folder began with.
    """
    cores = _cores(threads)
    _use_threads(cores)
    from clusterfirst.learning.training.learn_plan import LearnSettings
    from clusterfirst.learning.training.learning import Listener
    from clusterfirst.learning.training.learning import learn as run

    out = place_to_learn(city) if out is None else out
    workers = cores if workers is None else workers
    settings = LearnSettings(hours, customers, workers, validate, processes=cores)
    show = ProgressLine(LINE_SECONDS)
    listener = Listener(say, show, lambda now: show(_words(now)))
    try:
        model = run(open_history(city), settings, out, listener)
    except KeyboardInterrupt:
        model = None
    leave_progress()
    if model is None:
        say(f"to resume: {shlex.join(['clusterfirst', *sys.argv[1:]])}")
        return INTERRUPTED
    known = model.provenance
    emit(known["words"])
    if "kept" in known:
        emit(f"the city's own model is no better: {out}/model is {known['kept']}")
    emit(f"model {out}/model")
    return 0


def _words(now: Report) -> str:
    """Where a run stands, in one line."""
    terms = " ".join(
        f"{name} {value:.3f}"
        for name, value in now.losses.items()
        if name != "accuracy"
    )
    gap = "" if now.gap is None else f", gap {100 * now.gap.mean:.2f} %"
    return (
        f"step {now.step}/{now.steps}, {now.passes:,} passes at {now.rate:.0f}/s, "
        f"{terms}, right {100 * now.losses.get('accuracy', 0):.1f} %{gap}, "
        f"{now.left / 3600:.1f} h left"
    )


def _cores(threads: int | None) -> int:
    """How many cores to use."""
    if threads is None:
        return os.cpu_count() or 1
    require_whole("--threads", threads, 1, 1024)
    return threads


def _use_threads(count: int) -> None:
    """Set the threads of torch; it must know before the first product."""
    from clusterfirst.learning.training.processes import use_threads

    use_threads(count)


def _config(name: str | None, steps: int | None, seed: int | None) -> TrainConfig:
    from clusterfirst.learning.training.config_files import read_config

    if name is None:
        rule = "a name or a file is needed to train"
        raise InputError(Problem("E704", "--config", "none", rule))
    config = read_config(name)
    if steps is not None:
        config = replace(config, steps=steps)
    return config if seed is None else replace(config, seed=seed)


def _data(
    labels: list[Path], city: str | None, psi: Path | None, init: str | None
) -> tuple[TrainData, list[Source]]:
    """Read labels, table and first weights; the unpacked labels are let go."""
    from clusterfirst.learning.labels.labelset import read_labels
    from clusterfirst.learning.labels.pool import LabelPool
    from clusterfirst.learning.training.exporting import read_start
    from clusterfirst.learning.training.pretraining import load_psi
    from clusterfirst.learning.training.run import TrainData

    # Folder by folder, so that each weighs as often as it is named.
    found = {folder: read_labels(folder) for folder in dict.fromkeys(labels)}
    sources = [source for each in found.values() for source in each.sources]
    data = TrainData(LabelPool.of_sets([found[folder] for folder in labels]))
    if init is not None:
        data = replace(data, init=read_start(init))
    if psi is None:
        return data, sources
    if city is None:
        rule = "the city of the table is needed"
        raise InputError(Problem("E404", "--city", "none", rule))
    place = open_city(city)
    return replace(data, psi=load_psi(psi, place).psi, city=place), sources


def _fitted(config: TrainConfig, data: TrainData) -> TrainConfig:
    """The configuration with the size of the city's table."""
    from clusterfirst.networks.config import KNOWS_CITY

    if config.model.input not in KNOWS_CITY or data.psi is None:
        return config
    rows, width = data.psi.shape
    return replace(config, model=replace(config.model, psi_rows=rows, psi_width=width))


def _validation(
    sources: list[Source], folder: Path, customers: int, count: int, workers: int
) -> Validation:
    from clusterfirst.files.outputs import Outputs
    from clusterfirst.learning.training.validation import (
        ValidationPlan,
        first_source,
        make_validation,
    )

    if folder.parent.is_dir():
        Outputs().resumed(folder.parent, [f"{folder.name}/"], ours=True)  # no link out
    seconds = max(0.25, (customers / 100) ** 2)
    plan = ValidationPlan(customers, count, seconds, workers)
    say(f"references of {count} validation instances")
    return make_validation(first_source(sources), plan, folder)


def _export(run: Path, model: Path | None, weights: Path | None) -> None:
    from clusterfirst.learning.training import exporting

    # Others read the card: the folders of this machine mean nothing to them.
    words = [Path(w).name if Path(w).is_absolute() else w for w in sys.argv[1:]]
    command = shlex.join(["clusterfirst", *words])
    if model is not None:
        exporting.export_model(run, model, command=command)
        say(f"model {model}; complete its README.md before you share it")
    if weights is not None:
        exporting.export_weights(run, weights)
        say(f"averaged weights {weights}")
