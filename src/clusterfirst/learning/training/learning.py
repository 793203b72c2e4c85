"""One command for a city: Psi, labels, training and validation into a model folder.

    plan.json     what was decided at the beginning, and how many steps fit the time
    city/         the city and its days as they were at the beginning
    psi/          the pre-trained table (pretraining.py)
    labels/       expert solutions (labels.py)
    validation/   references of the validation days
    run-1/        the training (run.py); run-2/ and so on after more hours
    model/        the result

A city with past days learns from them: the newest are held back to judge by, labels are
made of the others and then of days drawn from their law, in the sizes that occur. The
model is kept if it beats the general one on the days held back, or on drawn days where
there are too few past ones, else that one is.

Every stage continues by itself, so the whole does too: run it again. It goes on with
the days that it began with, whatever the city has learned meanwhile. After the plan
is made, labels and training go by counts, not by the clock; training gets what the
stages before it left of the hours. Training begins with the
general weights: a city is learned as what differs from all the others.

Asked for more hours, a folder that has learned goes on in another round: the table
stays, because the weights know it, labels are added, and training begins with the
averaged weights of the round before.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clusterfirst.cities.day_law import Wish, fit, warn_of_paper_law
from clusterfirst.cities.history import FILE as DAYS
from clusterfirst.cities.history import History, read_history, write_history
from clusterfirst.files.city_folder import write_city
from clusterfirst.files.lock import locked
from clusterfirst.files.outputs import Outputs
from clusterfirst.files.strict_json import write_json
from clusterfirst.learning.labels.labelset import read_labels
from clusterfirst.learning.labels.making import LabelOptions, LabelProgress, label
from clusterfirst.learning.labels.pool import LabelPool
from clusterfirst.learning.labels.sources import Source, law_days
from clusterfirst.learning.training.exporting import (
    export_model,
    read_start,
    start_of_run,
)
from clusterfirst.learning.training.learn_card import (
    POLISH_SECONDS,
    failures,
    keep,
    polished_words,
    words,
)
from clusterfirst.learning.training.learn_plan import (
    PILOT,
    LearnSettings,
    estimate,
    estimate_words,
    judged_with_polish,
    labelling_seconds,
    open_plan,
    shortened,
    steps_that_fit,
    training_seconds,
)
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
    references,
    solved_gap,
)
from clusterfirst.networks.model_folder import Model, load_model
from clusterfirst.problem.city import City
from clusterfirst.problem.errors import InputError, InputWarning, Problem

LABEL_SEED = 1  # days to learn from; validation has a seed of its own
HELD_BACK, HELD_SHARE = 30, 0.2  # past days to judge by: so many, or this share
LEAST_DAYS = 4  # of validation
REFERENCES = 0.1  # of the time, at most, for the references of the validation days


@dataclass(frozen=True)
class Listener:
    """What to call while learning."""

    say: Callable[[str], None] = lambda text: None  # a new stage
    line: Callable[[str], None] = lambda text: None  # where a stage stands
    report: Callable[[Report], None] = lambda report: None


@dataclass(frozen=True, eq=False)
class _Days:
    """What to learn from, and past days to judge by, if there are any."""

    source: Source
    held: Source | None

    @classmethod
    def of(cls, history: History, customers: int) -> _Days:
        """Hold the newest days back; without enough of them none."""
        count = min(HELD_BACK, int(HELD_SHARE * len(history)))
        law = fit(history.part(0, len(history) - count))
        warn_of_paper_law(law, Wish(customers))
        source = law_days(law, seed=LABEL_SEED)
        if not count or source.law is None:
            return cls(source, None)
        with warnings.catch_warnings():  # these are judged on, not fitted
            warnings.simplefilter("ignore", InputWarning)
            law = fit(history.part(len(history) - count))
        return cls(source, law_days(law, seed=LABEL_SEED, capacity=source.capacity))

    @property
    def city(self) -> City:
        """The whole table of the city."""
        assert self.source.city is not None
        return self.source.city

    @property
    def customers(self) -> int:
        """Orders of a usual day; 0 without past days."""
        law = self.source.law
        return 0 if law is None else round(float(law.history.orders.mean()))


def learn(
    history: History,
    settings: LearnSettings,
    out: Path,
    listener: Listener | None = None,
) -> Model | None:
    """Learn a city into `out/model`; None if interrupted while training."""
    listener = listener or Listener()
    with locked(out):
        # Each stage claims the files of its own folder.
        names = ["plan.json", "psi/", "labels/", "validation/", "model/"]
        names += [f"{run.name}/" for run in out.glob("run-*")]
        Outputs().resumed(out, names, ours=(out / "plan.json").exists())
        began = time.perf_counter()
        history = _begun_with(history, out / "city", listener)
        source = _Days.of(history, settings.customers)
        if source.customers:
            settings = replace(settings, customers=source.customers)
        plan = open_plan(source.city, settings, out)
        try:
            ending = _stages(source, settings, out, plan, listener)
        finally:  # whatever ended it, the time was spent
            plan["seconds"] += time.perf_counter() - began
            write_json(out / "plan.json", plan)
        if ending is not Ending.FINISHED:
            return None
        model = _finish(source, settings, out, plan)
        plan["rounds"][-1]["finished"] = True
        write_json(out / "plan.json", plan)
        return model


def _begun_with(history: History, folder: Path, listener: Listener) -> History:
    """The city and its days as they were when learning began; written at first."""
    if not (folder / DAYS).exists():
        write_city(folder, history.city)
        write_history(folder, history)  # last: now there is something to go on with
        return history
    begun = read_history(folder)
    if begun.city.hash != history.city.hash:
        rule = f"this folder was begun with city {begun.city.hash}; use another --out"
        raise InputError(Problem("E721", "city", history.city.hash, rule))
    if begun.digest != history.digest:
        listener.say(
            f"the city has changed meanwhile: this folder goes on with the "
            f"{len(begun)} days and {begun.city.num_locations} locations it began "
            "with; another --out learns from the city as it is"
        )
    return begun


def _stages(
    source: _Days,
    settings: LearnSettings,
    out: Path,
    plan: dict[str, Any],
    listener: Listener,
) -> Ending:
    """Psi, labels, references and training, as planned."""
    last = plan["rounds"][-1]
    began = time.perf_counter()
    city = source.city
    embed = shortened(settings.embed, plan["epochs"])
    _pilot(source, settings, out, plan)
    if "estimate" not in last:
        spent = plan["seconds"] + time.perf_counter() - began
        plan_of_validation = _validation_plan(source, settings)
        seconds = plan_of_validation.count * plan_of_validation.seconds
        last["estimate"] = estimate(plan, settings, spent, seconds / settings.workers)
        write_json(out / "plan.json", plan)
        listener.say(estimate_words(last["estimate"], settings.hours))
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
    pool = _labels(source, settings, out, plan, listener)
    write_json(out / "plan.json", plan)
    validation = _validation(source, settings, out, listener)
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
        spent = plan["seconds"] + time.perf_counter() - began
        seconds = training_seconds(plan, spent)
        last["steps"] = steps_that_fit(config, data, settings.processes, seconds)
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


def _pilot(
    source: _Days, settings: LearnSettings, out: Path, plan: dict[str, Any]
) -> None:
    """Make a few labels, which show how many fit."""
    last = plan["rounds"][-1]
    options = _label_options(source, settings, min(PILOT, last["labels"]))
    first = label(source.source, out / "labels", options)
    if first.made and "label_rate" not in plan:  # what labels take in fact
        plan["label_rate"] = first.rate
    if "label_rate" in plan:
        fitting = int(plan["label_rate"] * labelling_seconds(settings))
        last["labels"] = max(options.count, min(last["labels"], fitting))
    write_json(out / "plan.json", plan)


def _label_options(source: _Days, settings: LearnSettings, count: int) -> LabelOptions:
    return LabelOptions(
        customers=0 if source.customers else settings.customers,
        count=count,
        seconds=settings.label_seconds,
        teacher=settings.teacher,
        workers=settings.workers,
    )


def _labels(
    source: _Days,
    settings: LearnSettings,
    out: Path,
    plan: dict[str, Any],
    listener: Listener,
) -> LabelPool:
    """Make the labels of a round and read them."""
    last, folder = plan["rounds"][-1], out / "labels"
    listener.say(f"2/4 {last['labels']} labels of {settings.customers} customers")
    options = _label_options(source, settings, last["labels"])
    label(source.source, folder, options, _shown(listener, "labels"))
    return LabelPool.of_set(read_labels(folder))


def _shown(listener: Listener, what: str) -> Callable[[LabelProgress], None]:
    def show(now: LabelProgress) -> None:
        done = now.found + now.made
        left = f", {now.left / 60:.0f} min left" if now.made else ""
        listener.line(f"{done} of {now.total} {what}{left}")

    return show


def _validation_plan(source: _Days, settings: LearnSettings) -> ValidationPlan:
    """Days held back, or drawn ones, as many as time allows."""
    seconds = settings.reference_seconds
    fitting = int(REFERENCES * 3600 * settings.hours * settings.workers / seconds)
    count = max(LEAST_DAYS, min(settings.validate, fitting))
    if source.held is not None:
        count = min(count, source.held.real)
    return ValidationPlan(settings.customers, count, seconds, settings.workers)


def _validation(
    source: _Days, settings: LearnSettings, out: Path, listener: Listener | None = None
) -> Validation:
    """References of the validation days."""
    plan, show = _validation_plan(source, settings), None
    if listener is not None:
        listener.say(f"3/4 references of {plan.count} validation days")
        show = _shown(listener, "references")
    if source.held is not None:
        plan = replace(plan, customers=0)
        return references(source.held, plan, out / "validation", show)
    return make_validation(source.source, plan, out / "validation", show)


def _finish(
    source: _Days, settings: LearnSettings, out: Path, plan: dict[str, Any]
) -> Model:
    """Export, measure on the validation days, export with figures.

    The weights it began with are measured too: where they are better they are kept.
    """
    run = _run_folder(out, plan)
    model = export_model(run, out / "model")
    start = None if settings.init is None else load_model(settings.init)
    sizes = [settings.customers]
    if source.held is None and 2 * settings.customers <= source.city.num_locations:
        sizes.append(2 * settings.customers)
    gaps: dict[str, SolvedGap] = {}
    before: dict[str, float] = {}
    judged: list[Validation] = []
    for customers in sizes:
        days = _validation(source, replace(settings, customers=customers), out)
        name = "days held back" if source.held is not None else f"N = {customers}"
        gaps[name] = solved_gap(model.network, days)
        judged.append(days)
        if start is not None:
            before[f"{name} with {start.name}"] = solved_gap(start.network, days).mean
    found = [next(iter(gaps.values())).mean, *list(before.values())[:1]]
    models = [model] if start is None else [model, start]
    most = judged_with_polish(settings, POLISH_SECONDS * len(models))
    which = "days you held back" if source.held is not None else "drawn days"
    after = polished_words(judged[0], models, most)
    more: dict[str, Any] = {
        "hours": settings.hours,
        "seconds_of_all_stages": round(plan["seconds"], 1),
        "gaps": {name: gap.mean for name, gap in gaps.items()} | before,
        "fails": " ".join(failures(name, gap) for name, gap in gaps.items()),
        "words": words(judged[0], which, found, after),
    }
    command = f"clusterfirst learn CITY --hours {settings.hours:g}"
    model = export_model(run, out / "model", command=command, more=more)
    if start is not None and not found[0] < found[1]:
        return keep(start, out / "model", more)
    return model
