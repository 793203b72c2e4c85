"""One command for a city: Psi, labels, training and validation into a model folder.

    plan.json     what was decided at the beginning, and how many steps fit the time
    psi/          the pre-trained table (pretraining.py)
    labels/       expert solutions (labels.py)
    validation/   references of the validation days
    run-1/        the training (run.py); run-2/ and so on after more hours
    model/        the result

Every stage continues by itself, so the whole does too: run it again. After the plan
is made, labels and training go by counts, not by the clock. Training begins with the
general weights: a city is learned as what differs from all the others.

Asked for more hours, a folder that has learned goes on in another round: the table
stays, because the weights know it, labels are added, and training begins with the
averaged weights of the round before.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from clusterfirst.files.json_files import write_json
from clusterfirst.files.lock import locked
from clusterfirst.files.source import read_bytes
from clusterfirst.learning.labels.making import (
    LabelOptions,
    LabelProgress,
    label,
    read_labels,
)
from clusterfirst.learning.labels.pool import LabelPool
from clusterfirst.learning.labels.sources import Source, city_days
from clusterfirst.learning.training.configs import TRAINING
from clusterfirst.learning.training.exporting import (
    export_model,
    read_start,
    start_of_run,
)
from clusterfirst.learning.training.loop import TrainConfig, Trainer
from clusterfirst.learning.training.pretraining import load_psi, pretrain
from clusterfirst.learning.training.processes import use_threads
from clusterfirst.learning.training.run import (
    Ending,
    Report,
    RunOptions,
    Start,
    TrainData,
    train,
)
from clusterfirst.learning.training.validation import (
    SolvedGap,
    Validation,
    ValidationPlan,
    make_validation,
    solved_gap,
)
from clusterfirst.networks.model_folder import Model, load_model
from clusterfirst.networks.neural import DEFAULT_MODEL
from clusterfirst.networks.trainable.embed import SETTINGS, EmbedSettings
from clusterfirst.problem.city import City
from clusterfirst.problem.errors import InputError, Problem

LABEL_SEED = 1  # days to learn from; validation has a seed of its own
SECONDS_PER_LABEL = 0.2  # at N = 100: 0.3 % above optimal (LOG.md)
LEAST_LABELS = 64
TIMED_STEPS = 3
# A full rate makes the general weights forget more than a city's days teach (LOG.md).
GENTLE_RATE = 3e-4
# Shares of the time; the rest validates. A later round trains for what Psi took.
PRETRAINING, LABELLING, TRAINING_TIME = 0.15, 0.30, 0.50
PLAN_FORMAT = 2


@dataclass(frozen=True)
class LearnSettings:
    """How long, for days of which size, and with which configurations."""

    hours: float
    customers: int = 100
    workers: int = 1
    validate: int = 100  # days
    processes: int = 1  # that train
    embed: EmbedSettings = field(default_factory=lambda: SETTINGS["default"])
    train: TrainConfig = field(
        default_factory=lambda: replace(TRAINING["city"], learning_rate=GENTLE_RATE)
    )
    init: str | None = DEFAULT_MODEL  # weights to begin with

    def __post_init__(self) -> None:
        for name in ("hours", "customers", "workers", "validate", "processes"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                rule = "a number above 0 is needed"
                raise InputError(Problem("E404", f"--{name}", str(value), rule))

    @property
    def label_seconds(self) -> float:
        """Time of one label: HGS needs about the square of the size."""
        return SECONDS_PER_LABEL * max(0.25, (self.customers / 100) ** 2)

    @property
    def labels(self) -> int:
        """Labels that fit their share of the time."""
        seconds = LABELLING * 3600 * self.hours
        return max(LEAST_LABELS, int(self.workers * seconds / self.label_seconds))


@dataclass(frozen=True)
class Listener:
    """What to call while learning."""

    say: Callable[[str], None] = lambda text: None  # a new stage
    line: Callable[[str], None] = lambda text: None  # where a stage stands
    report: Callable[[Report], None] = lambda report: None


def learn(
    city: City, settings: LearnSettings, out: Path, listener: Listener | None = None
) -> Model | None:
    """Learn a city into `out/model`; None if interrupted while training."""
    listener = listener or Listener()
    with locked(out):
        began = time.perf_counter()
        plan = _open_plan(city, settings, out)
        source = city_days(city, seed=LABEL_SEED)
        try:
            ending = _stages(source, settings, out, (plan, listener))
        finally:  # whatever ended it, the time was spent
            plan["seconds"] += time.perf_counter() - began
            write_json(out / "plan.json", plan)
        if ending is not Ending.FINISHED:
            return None
        model = _finish(source, settings, out, plan)
        plan["rounds"][-1]["finished"] = True
        write_json(out / "plan.json", plan)
        return model


def _stages(
    source: Source,
    settings: LearnSettings,
    out: Path,
    order: tuple[dict[str, Any], Listener],
) -> Ending:
    """Psi, labels, references and training, as planned."""
    plan, listener = order
    last = plan["rounds"][-1]
    city = source.city
    assert city is not None
    embed = _shortened(settings.embed, plan["epochs"])
    listener.say(f"1/4 pre-training {city.num_locations} locations")
    if len(plan["rounds"]) > 1:
        table = load_psi(out / "psi", city)
    else:
        table = pretrain(
            city,
            embed,
            out / "psi",
            on_progress=lambda now: listener.line(f"epoch {now.epoch} of {now.end}"),
        )
    listener.say(f"2/4 {last['labels']} labels of {settings.customers} customers")
    pool = _labels(source, settings, out, (last["labels"], listener))
    listener.say(f"3/4 references of {settings.validate} validation days")
    validation = _validation(source, settings, out, settings.customers)
    model = replace(
        settings.train.model,
        psi_rows=len(city.coords),
        psi_width=int(table.psi.shape[1]),
    )
    data = TrainData(pool, table.psi, city, _start(settings, out, plan), validation)
    seed = settings.train.seed + len(plan["rounds"]) - 1  # other batches each round
    config = replace(settings.train, model=model, seed=seed)
    use_threads(1)  # for each process
    if last["steps"] is None:
        seconds = _training_seconds(plan)
        last["steps"] = _steps_that_fit(config, data, settings.processes, seconds)
        write_json(out / "plan.json", plan)
    config = replace(config, steps=last["steps"])
    listener.say(f"4/4 training for {config.steps} steps")
    options = RunOptions(settings.processes)
    return train(config, data, _run_folder(out, plan), options, listener.report)


def _run_folder(out: Path, plan: dict[str, Any], *, before: int = 0) -> Path:
    """Where the newest round trains, or one that many rounds before."""
    return out / f"run-{len(plan['rounds']) - before}"


def _start(settings: LearnSettings, out: Path, plan: dict[str, Any]) -> Start | None:
    """Weights to begin with: those of the round before, or the general ones."""
    if len(plan["rounds"]) > 1:
        run = _run_folder(out, plan, before=1)
        # Optimiser and curves are large; whoever kept the model alone can go on, too.
        return start_of_run(run) if run.exists() else read_start(str(out / "model"))
    return None if settings.init is None else read_start(settings.init)


def _open_plan(city: City, settings: LearnSettings, out: Path) -> dict[str, Any]:
    """Return the plan of the folder, with a new round if more hours are asked for."""
    identity = {
        "format": PLAN_FORMAT,
        "city": city.hash,
        "customers": settings.customers,
        "embed": json.loads(json.dumps(asdict(settings.embed))),
    }
    path = out / "plan.json"
    plan: dict[str, Any]
    if not path.exists():
        epochs = _epochs_that_fit(city, settings)
        plan = {**identity, "epochs": epochs, "rounds": [], "seconds": 0.0}
        return _add_round(plan, settings, path)
    plan = _read_plan(path)
    for key, value in identity.items():
        if plan.get(key) != value:
            rule = f"this folder was begun with {plan.get(key)}; use another --out"
            raise InputError(Problem("E721", key, str(value), rule))
    last = plan["rounds"][-1]
    if settings.hours == last["hours"]:
        return plan
    if settings.hours < last["hours"] or not last["finished"]:
        had = f"{last['hours']:g}"
        rule = f"this folder has learned for {had} hours; ask for more"
        if not last["finished"]:
            rule = f"learning for {had} hours is unfinished; finish with --hours {had}"
        raise InputError(Problem("E721", "hours", f"{settings.hours:g}", rule))
    return _add_round(plan, settings, path)


def _read_plan(path: Path) -> dict[str, Any]:
    try:
        plan = json.loads(read_bytes(path))
        last = plan["rounds"][-1]
        if plan["epochs"] >= 1 and plan["seconds"] >= 0 and last["hours"] > 0:
            _ = last["labels"], last["steps"], last["finished"]
            return dict(plan)
    except (ValueError, LookupError, TypeError, RecursionError):
        pass  # InputError is a ValueError
    rule = "the plan of this folder cannot be read; use another --out"
    raise InputError(Problem("E721", "plan", str(path), rule))


def _add_round(
    plan: dict[str, Any], settings: LearnSettings, path: Path
) -> dict[str, Any]:
    """Plan to learn up to these hours in all."""
    new = {
        "hours": settings.hours,
        "labels": settings.labels,
        "steps": None,  # until labels and table are there to time a step with
        "finished": False,
    }
    plan["rounds"].append(new)
    write_json(path, plan)
    return plan


def _epochs_that_fit(city: City, settings: LearnSettings) -> int:
    """Time two epochs of pre-training; its share of the time is not exceeded."""
    with TemporaryDirectory() as folder:
        timed = pretrain(city, _shortened(settings.embed, 2), folder)
    seconds = PRETRAINING * 3600 * settings.hours
    fitting = int(seconds * timed.facts["epochs_per_second"])
    return min(settings.embed.epochs, max(2, fitting))


def _shortened(embed: EmbedSettings, epochs: int) -> EmbedSettings:
    """Fewer epochs, the same share of them with a falling rate."""
    cooldown = -(-embed.cooldown * epochs // embed.epochs)
    return replace(embed, epochs=epochs, cooldown=cooldown)


def _labels(
    source: Source, settings: LearnSettings, out: Path, order: tuple[int, Listener]
) -> LabelPool:
    """Make the ordered number of labels and read them."""
    count, listener = order

    def show(now: LabelProgress) -> None:
        done = now.found + now.made
        listener.line(f"{done} of {now.total} labels, {now.left / 60:.0f} min left")

    options = LabelOptions(
        customers=settings.customers,
        count=count,
        seconds=settings.label_seconds,
        workers=settings.workers,
    )
    label(source, out / "labels", options, show)
    return LabelPool.of_set(read_labels(out / "labels"))


def _validation(
    source: Source, settings: LearnSettings, out: Path, customers: int
) -> Validation:
    seconds = 5 * settings.label_seconds * (customers / settings.customers) ** 2
    plan = ValidationPlan(customers, settings.validate, seconds, settings.workers)
    return make_validation(source, plan, out / "validation")


def _training_seconds(plan: dict[str, Any]) -> float:
    """How long the newest round may train."""
    hours = [each["hours"] for each in plan["rounds"]]
    if len(hours) == 1:
        return float(3600 * TRAINING_TIME * hours[0])
    return float(3600 * (TRAINING_TIME + PRETRAINING) * (hours[-1] - hours[-2]))


def _steps_that_fit(
    config: TrainConfig, data: TrainData, processes: int, seconds: float
) -> int:
    """Time a few steps; the first is left out, it warms up."""
    steps = Trainer(config, data.psi).run(
        data.pool, until=1 + TIMED_STEPS, processes=processes
    )
    times = [step.seconds for step in steps]
    return max(2, int(seconds / float(np.mean(times[1:]))))


def _finish(
    source: Source, settings: LearnSettings, out: Path, plan: dict[str, Any]
) -> Model:
    """Export, measure at the trained size and at twice that, export with figures.

    The weights it began with are measured too: they show what learning was worth.
    """
    run = _run_folder(out, plan)
    model = export_model(run, out / "model")
    gaps: dict[str, SolvedGap] = {}
    before: dict[str, float] = {}
    assert source.city is not None
    for customers in (settings.customers, 2 * settings.customers):
        if customers <= source.city.num_locations:
            days = _validation(source, settings, out, customers)
            gaps[f"N = {customers}"] = solved_gap(model.network, days)
            if settings.init is not None:
                start = load_model(settings.init)
                gap = solved_gap(start.network, days)
                before[f"N = {customers} with {start.name}"] = gap.mean
    more = {
        "hours": settings.hours,
        "seconds_of_all_stages": round(plan["seconds"], 1),
        "gaps": {name: gap.mean for name, gap in gaps.items()} | before,
        "fails": " ".join(_failures(name, gap) for name, gap in gaps.items()),
    }
    command = f"clusterfirst learn CITY --hours {settings.hours:g}"
    return export_model(run, out / "model", command=command, more=more)


def _failures(name: str, gap: SolvedGap) -> str:
    """One sentence about the worst days of a size."""
    worst = np.nanmax(gap.each) if gap.unsolved < 1 else math.nan
    return (
        f"{name}: {100 * gap.unsolved:.0f} % of the days have no feasible answer "
        f"without search; the worst solved day is {100 * worst:.1f} % above HGS."
    )
