"""What `learn` decided at the beginning: settings, rounds, and what fits the time."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from clusterfirst.files.source import read_bytes
from clusterfirst.files.strict_json import write_json
from clusterfirst.learning.labels.making import Teacher
from clusterfirst.learning.training.config_files import TRAINING
from clusterfirst.learning.training.loop import TrainConfig, Trainer
from clusterfirst.learning.training.pretraining import pretrain
from clusterfirst.learning.training.run import TrainData
from clusterfirst.networks.neural import DEFAULT_MODEL
from clusterfirst.networks.trainable.embed import SETTINGS, EmbedSettings
from clusterfirst.problem.city import City
from clusterfirst.problem.errors import InputError, Problem

SECONDS_PER_LABEL = 0.2  # at N = 100: 0.3 % above optimal (log/)
# From here on our own polish teaches: on Belem (N = 280) its answers of 1 CPU second
# are 0.6 % above HGS of 10 s, those of HGS 1.9 % (docs/benchmarks.md).
POLISH_TEACHES = 200
LEAST_LABELS = 16
PILOT = 16  # labels that show how many fit
TIMED_STEPS = 3
# A full rate makes the general weights forget more than a city's days teach (log/).
GENTLE_RATE = 3e-4
# Shares of the time; the rest validates. A later round trains for what Psi took.
PRETRAINING, LABELLING = 0.15, 0.30
FINISH = 0.05  # of the time, kept for judging
JUDGING, LEAST_JUDGED = 0.02, 2  # of the time for the polish in it, and days at least
PLAN_FORMAT = 3
MINUTES, HOURS, DAY = 120, 2 * 3600, 20 * 3600  # from where times are told in them


@dataclass(frozen=True)
class LearnSettings:
    """How long, for days of which size, and with which configurations."""

    hours: float
    customers: int = 100  # of a usual day; past days have numbers of their own
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
                rule = "must be a number above 0"
                raise InputError(Problem("E404", f"--{name}", str(value), rule))

    @property
    def teacher(self) -> Teacher:
        """Who makes the labels."""
        return "polish" if self.customers >= POLISH_TEACHES else "hgs"

    @property
    def label_seconds(self) -> float:
        """Time of one label: HGS needs the square of the size, polish the size."""
        if self.teacher == "polish":
            return SECONDS_PER_LABEL * self.customers / 100
        return SECONDS_PER_LABEL * max(0.25, (self.customers / 100) ** 2)

    @property
    def reference_seconds(self) -> float:
        """What HGS gets for the reference of a validation day."""
        return 5 * SECONDS_PER_LABEL * max(0.25, (self.customers / 100) ** 2)

    @property
    def labels(self) -> int:
        """Labels that fit their share of the time."""
        seconds = labelling_seconds(self)
        return max(LEAST_LABELS, int(self.workers * seconds / self.label_seconds))


def judged_with_polish(settings: LearnSettings, seconds_each: float) -> int:
    """Days that fit the time for judging after a polish."""
    return max(LEAST_JUDGED, int(JUDGING * 3600 * settings.hours / seconds_each))


def labelling_seconds(settings: LearnSettings) -> float:
    """What labels may take."""
    return LABELLING * 3600 * settings.hours


def open_plan(city: City, settings: LearnSettings, out: Path) -> dict[str, Any]:
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
        epochs, rate = _epochs_that_fit(city, settings)
        plan = {**identity, "epochs": epochs, "rounds": [], "seconds": 0.0}
        plan["epoch_rate"] = rate
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


def _epochs_that_fit(city: City, settings: LearnSettings) -> tuple[int, float]:
    """Time two epochs of pre-training; its share of the time is not exceeded.

    Also how many fit a second.
    """
    with TemporaryDirectory() as folder:
        timed = pretrain(city, shortened(settings.embed, 2), folder)
    seconds = PRETRAINING * 3600 * settings.hours
    rate = float(timed.facts["epochs_per_second"])
    return min(settings.embed.epochs, max(2, int(seconds * rate))), rate


def shortened(embed: EmbedSettings, epochs: int) -> EmbedSettings:
    """Fewer epochs, the same share of them with a falling rate."""
    cooldown = -(-embed.cooldown * epochs // embed.epochs)
    return replace(embed, epochs=epochs, cooldown=cooldown)


def training_seconds(plan: dict[str, Any], spent: float) -> float:
    """How long the newest round may train: what is left, and its share at most."""
    hours = [each["hours"] for each in plan["rounds"]]
    whole = 3600 * hours[-1]
    finish = FINISH * 3600 * (hours[-1] - (hours[-2] if len(hours) > 1 else 0.0))
    return float(max(0.0, whole - spent - finish))


def estimate(
    plan: dict[str, Any], settings: LearnSettings, spent: float, references: float
) -> dict[str, float]:
    """Seconds of every stage of a round that begins, from what was timed so far.

    `references` is what those take; training gets what the others leave.
    """
    last, first = plan["rounds"][-1], len(plan["rounds"]) == 1
    stages = {"so far": spent, "table": 0.0, "labels": 0.0, "references": references}
    if first and "epoch_rate" in plan:
        stages["table"] = plan["epochs"] / plan["epoch_rate"]
    if "label_rate" in plan:
        stages["labels"] = max(0, last["labels"] - PILOT) / plan["label_rate"]
    stages["training"] = training_seconds(plan, sum(stages.values()))
    stages["judging"] = FINISH * 3600 * settings.hours
    return stages


def estimate_words(stages: dict[str, float], hours: float) -> str:
    """The estimate in one line, with the time of day when it ends."""
    total = sum(stages.values())
    end = datetime.now().astimezone() + timedelta(seconds=total - stages["so far"])
    when = f"{end:%H:%M}" if total < DAY else f"{end:%a %H:%M}"
    parts = ", ".join(f"{name} {_span(each)}" for name, each in stages.items())
    more = ""
    if total > (1 + 2 * FINISH) * 3600 * hours:
        more = f"; that is more than {_span(3600 * hours)}, stages have least sizes"
    return f"about {_span(total)} in all, until {when}: {parts}{more}"


def _span(seconds: float) -> str:
    if seconds < MINUTES:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < HOURS else f"{seconds / 3600:.1f} h"


def steps_that_fit(
    config: TrainConfig, data: TrainData, processes: int, seconds: float
) -> int:
    """Time a few steps; the first is left out, it warms up."""
    steps = Trainer(config, data.psi).run(
        data.pool, until=1 + TIMED_STEPS, processes=processes
    )
    times = [step.seconds for step in steps]
    return max(2, int(seconds / float(np.mean(times[1:]))))
