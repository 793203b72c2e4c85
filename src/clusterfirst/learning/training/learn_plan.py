"""What `learn` decided at the beginning: settings, rounds, and what fits the time."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from clusterfirst.files.source import read_bytes
from clusterfirst.files.strict_json import write_json
from clusterfirst.learning.training.config_files import TRAINING
from clusterfirst.learning.training.loop import TrainConfig, Trainer
from clusterfirst.learning.training.pretraining import pretrain
from clusterfirst.learning.training.run import TrainData
from clusterfirst.networks.neural import DEFAULT_MODEL
from clusterfirst.networks.trainable.embed import SETTINGS, EmbedSettings
from clusterfirst.problem.city import City
from clusterfirst.problem.errors import InputError, Problem

SECONDS_PER_LABEL = 0.2  # at N = 100: 0.3 % above optimal (log/)
LEAST_LABELS = 16
TIMED_STEPS = 3
# A full rate makes the general weights forget more than a city's days teach (log/).
GENTLE_RATE = 3e-4
# Shares of the time; the rest validates. A later round trains for what Psi took.
PRETRAINING, LABELLING = 0.15, 0.30
PLAN_FORMAT = 3


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
    def label_seconds(self) -> float:
        """Time of one label: HGS needs about the square of the size."""
        return SECONDS_PER_LABEL * max(0.25, (self.customers / 100) ** 2)

    @property
    def labels(self) -> int:
        """Labels that fit their share of the time."""
        seconds = labelling_seconds(self)
        return max(LEAST_LABELS, int(self.workers * seconds / self.label_seconds))


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
        timed = pretrain(city, shortened(settings.embed, 2), folder)
    seconds = PRETRAINING * 3600 * settings.hours
    fitting = int(seconds * timed.facts["epochs_per_second"])
    return min(settings.embed.epochs, max(2, fitting))


def shortened(embed: EmbedSettings, epochs: int) -> EmbedSettings:
    """Fewer epochs, the same share of them with a falling rate."""
    cooldown = -(-embed.cooldown * epochs // embed.epochs)
    return replace(embed, epochs=epochs, cooldown=cooldown)


def training_seconds(plan: dict[str, Any], spent: float) -> float:
    """How long the newest round may train: what is left, and its share at most."""
    hours = [each["hours"] for each in plan["rounds"]]
    whole = 3600 * hours[-1]
    finish = 0.05 * 3600 * (hours[-1] - (hours[-2] if len(hours) > 1 else 0.0))
    return float(max(0.0, whole - spent - finish))


def steps_that_fit(
    config: TrainConfig, data: TrainData, processes: int, seconds: float
) -> int:
    """Time a few steps; the first is left out, it warms up."""
    steps = Trainer(config, data.psi).run(
        data.pool, until=1 + TIMED_STEPS, processes=processes
    )
    times = [step.seconds for step in steps]
    return max(2, int(seconds / float(np.mean(times[1:]))))
