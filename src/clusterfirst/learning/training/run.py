"""A training run in its folder: resumed by itself, saved by time, stopped politely.

config.json            what is trained
checkpoints/step-N/    where a run goes on (checkpoint.py)
psi.safetensors, city/ for models of one city
curve.csv              losses by step; validation.csv: solved gaps
curve.png              both, drawn at the end
"""

from __future__ import annotations

import hashlib
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import FrameType
from typing import Any

from safetensors.torch import save
from torch import Tensor

from clusterfirst.files.atomic import make_folder, write_bytes
from clusterfirst.files.city_folder import write_city
from clusterfirst.files.lock import locked
from clusterfirst.files.outputs import Outputs
from clusterfirst.files.strict_json import write_json
from clusterfirst.learning.labels.pool import LabelPool
from clusterfirst.learning.training.checkpoint import (
    Checkpoint,
    has_begun,
    load_checkpoint,
    save_checkpoint,
)
from clusterfirst.learning.training.curves import Curve, draw_curves
from clusterfirst.learning.training.loop import (
    TERMS,
    Progress,
    StepAbandoned,
    TrainConfig,
    Trainer,
    TrainingDiverged,
)
from clusterfirst.learning.training.validation import SolvedGap, Validation, solved_gap
from clusterfirst.networks.config import KNOWS_CITY
from clusterfirst.networks.network import Network
from clusterfirst.problem.city import City
from clusterfirst.problem.clock import is_compiling
from clusterfirst.problem.errors import InputError, InputWarning, Problem

CHECKPOINTS = "checkpoints"
ROWS = 1000  # of curve.csv in a whole run, about
REPORT_SECONDS = 1.0


class Ending(Enum):
    """Why a run stopped."""

    FINISHED = "all steps are done"
    TIME_UP = "the time is up"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, eq=False)
class Start:
    """Weights to begin with, and all the training that went into them."""

    weights: dict[str, Tensor]
    passes: int
    training_seconds: float

    @property
    def facts(self) -> dict[str, Any]:
        """For the checkpoints and the card of what is trained from here."""
        return {"passes": self.passes, "training_seconds": self.training_seconds}


@dataclass(frozen=True, eq=False)
class TrainData:
    """What a run learns from."""

    pool: LabelPool
    psi: Tensor | None = None  # table of the city, for the psi input
    city: City | None = None
    init: Start | None = None
    validation: Validation | None = None


@dataclass(frozen=True)
class RunOptions:
    """When to stop, save and validate; only the number of processes changes weights."""

    processes: int = 1
    minutes: float | None = None
    save_minutes: float = 5.0
    validate_minutes: float = 10.0


@dataclass(frozen=True)
class Report:
    """Where a run stands."""

    step: int
    steps: int
    passes: int
    rate: float  # passes per second since this process began
    left: float  # seconds to the last step at this rate
    losses: dict[str, float]
    gap: SolvedGap | None


def train(
    config: TrainConfig,
    data: TrainData,
    out: Path,
    options: RunOptions | None = None,
    on_report: Callable[[Report], None] | None = None,
) -> Ending:
    """Train in the folder `out`, going on where an earlier run stopped."""
    options = options or RunOptions()
    with locked(out):
        _claim(out)
        run = _Run(config, data, out, options)
        with _signals(run.trainer):
            return run.lead(on_report or (lambda report: None))


def _claim(out: Path) -> None:
    """Take the folder; `pretrain` leaves checkpoints too, beside facts of its table."""
    names = ["config.json", "psi.safetensors", "curve.csv", "curve.png"]
    names += ["validation.csv", f"{CHECKPOINTS}/", "city/"]
    names += ["city/city.json", "city/locations.csv"]
    ours = has_begun(out / CHECKPOINTS) and not (out / "psi.json").exists()
    Outputs().resumed(out, names, ours=ours)


@dataclass
class _Clock:
    """Moments of the last save, validation and report."""

    begin: float = field(default_factory=time.perf_counter)
    passes: int = 0  # at the beginning
    step: int = 0
    saved: float = field(default_factory=time.perf_counter)
    validated: float = field(default_factory=time.perf_counter)
    reported: float = 0.0


class _Run:
    def __init__(
        self, config: TrainConfig, data: TrainData, out: Path, options: RunOptions
    ) -> None:
        _check_inputs(config, data)
        self.data, self.out, self.options = data, out, options
        self.trainer = Trainer(config, data.psi)
        self.facts = {
            "labels": [_labels_fact(data.pool, 0)],
            "psi": _digest(data.psi),
            "before": None if data.init is None else data.init.facts,
        }
        self.saved_step = -1
        found = load_checkpoint(out / CHECKPOINTS)
        if found is not None:
            self._resume(found)
            self.saved_step = self.trainer.step
        elif data.init is not None:
            self.trainer.start_from(data.init.weights)
        self.clock = _Clock(passes=self.trainer.passes, step=self.trainer.step)
        self.gap: SolvedGap | None = None
        self.stopped: Ending | None = None

    def _resume(self, found: Checkpoint) -> None:
        self.trainer.restore(found)
        if found.state["psi"] != self.facts["psi"]:
            rule = "this run was started with another table Psi; use another --out"
            raise InputError(Problem("E721", "psi", _digest(self.data.psi), rule))
        earlier = found.state["labels"]
        if earlier[-1]["sha256"] != self.data.pool.digest:
            warnings.warn(
                f"W722 the labels are not those of step {self.trainer.step}: the run "
                "goes on with the new ones, and nobody can repeat it from the start",
                InputWarning,
                stacklevel=2,
            )
            earlier = [*earlier, _labels_fact(self.data.pool, self.trainer.step)]
        self.facts["labels"] = earlier
        # Older checkpoints do not say it; then --init does.
        self.facts["before"] = found.state.get("before", self.facts["before"])

    def lead(self, on_report: Callable[[Report], None]) -> Ending:
        """Train, save, validate and report."""
        self._write_inputs()
        columns = ("passes", "seconds", "rate", *TERMS)
        curve = Curve(self.out / "curve.csv", columns)
        every = max(1, self.trainer.config.steps // ROWS)
        ending = Ending.FINISHED
        try:
            steps, processes = self.trainer.config.steps, self.options.processes
            for step in self.trainer.run(
                self.data.pool, until=steps, processes=processes
            ):
                if step.step % every == 0:
                    self._note(curve, step)  # before a save: a resumed run goes on
                self._after(step, on_report)
        except TrainingDiverged:
            self.save()
            raise
        if self.trainer.step < self.trainer.config.steps:
            ending = self.stopped or Ending.INTERRUPTED
        self.save()
        # Whoever interrupts waits for the prompt, not for measurements and pictures.
        if ending is not Ending.INTERRUPTED:
            if self.data.validation is not None:
                self._validate(self.data.validation)
            draw_curves(self.out)
        on_report(self.report())
        return ending

    def _after(self, step: Progress, on_report: Callable[[Report], None]) -> None:
        """What the clock asks for after a step."""
        now, clock, options = time.perf_counter(), self.clock, self.options
        limit = options.minutes
        if limit is not None and now - clock.begin >= 60 * limit and not step.stop:
            self.stopped, self.trainer.stop = Ending.TIME_UP, True
        epoch = self.trainer.config.epoch
        ended = epoch > 1 and self.trainer.step % epoch == 0
        if ended or now - clock.saved >= 60 * options.save_minutes:
            self.save()
        due = now - clock.validated >= 60 * options.validate_minutes
        if due and self.data.validation is not None:
            self._validate(self.data.validation)
        if now - clock.reported >= REPORT_SECONDS:
            clock.reported = now
            on_report(self.report())

    def _note(self, curve: Curve, step: Progress) -> None:
        trainer = self.trainer
        rate = trainer.config.rate(trainer.step - 1)
        losses = [step.losses[name] for name in TERMS]
        curve.append(trainer.step, trainer.passes, trainer.seconds, rate, *losses)

    def _validate(self, validation: Validation) -> None:
        """Measure the averaged weights; needs no random numbers of the training."""
        trainer = self.trainer
        router = trainer.averaged
        network = Network(router.config, router.weights())
        self.gap = solved_gap(network, validation)
        columns = ("passes", "seconds", "gap", "unsolved")
        curve = Curve(self.out / "validation.csv", columns)
        found = (self.gap.mean, self.gap.unsolved)
        curve.append(trainer.step, trainer.passes, trainer.seconds, *found)
        self.clock.validated = time.perf_counter()

    def save(self) -> None:
        """Write a checkpoint that also knows labels and table, unless it is there."""
        if self.saved_step == self.trainer.step:
            return
        whole = self.trainer.checkpoint()
        state = {**whole.state, **self.facts}
        save_checkpoint(
            self.out / CHECKPOINTS, self.trainer.step, Checkpoint(whole.tensors, state)
        )
        self.saved_step = self.trainer.step
        self.clock.saved = time.perf_counter()

    def report(self) -> Report:
        """Return where the run stands."""
        trainer, clock = self.trainer, self.clock
        elapsed = max(1e-9, time.perf_counter() - clock.begin)
        per_step = elapsed / max(1, trainer.step - clock.step)
        return Report(
            step=trainer.step,
            steps=trainer.config.steps,
            passes=trainer.passes,
            rate=(trainer.passes - clock.passes) / elapsed,
            left=(trainer.config.steps - trainer.step) * per_step,
            losses=trainer.recent,
            gap=self.gap,
        )

    def _write_inputs(self) -> None:
        """Keep what an export needs; the mark of the folder first."""
        make_folder(self.out / CHECKPOINTS)
        write_json(self.out / "config.json", self.trainer.config.as_dict())
        if self.data.psi is not None:
            table = save({"psi": self.data.psi.contiguous()})
            write_bytes(self.out / "psi.safetensors", table)
        if self.data.city is not None:
            write_city(self.out / "city", self.data.city)


def _check_inputs(config: TrainConfig, data: TrainData) -> None:
    """Say at once what a run with the psi input lacks."""
    if config.model.input not in KNOWS_CITY:
        return
    rule = ""
    if data.psi is None or data.city is None:
        rule = "the psi input needs the table of a city: --psi FOLDER and --city CITY"
    elif tuple(data.psi.shape) != (config.model.psi_rows, config.model.psi_width):
        rule = (
            f"a table of {config.model.psi_rows} x {config.model.psi_width} is needed"
        )
    elif not data.pool.has_rows:
        rule = "the psi input needs labels of days of the city, which know their rows"
    if rule:
        got = "none" if data.psi is None else f"shape {tuple(data.psi.shape)}"
        raise InputError(Problem("E405", "psi", got, rule))


def _labels_fact(pool: LabelPool, step: int) -> dict[str, Any]:
    return {
        "from_step": step,
        "count": len(pool),
        "sha256": pool.digest,
        "reach": {name: list(ends) for name, ends in pool.reach.items()},
    }


def _digest(psi: Tensor | None) -> str:
    if psi is None:
        return ""
    return hashlib.sha256(psi.contiguous().numpy().tobytes()).hexdigest()


@contextmanager
def _signals(trainer: Trainer) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM abandon the step and save; a second one ends at once.

    The first step may compile for long, and nothing is lost then: it is not waited for.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    wanted = (signal.SIGINT, signal.SIGTERM)
    before: dict[int, Any] = {each: signal.getsignal(each) for each in wanted}
    first = trainer.step

    def stop(number: int, frame: FrameType | None) -> None:
        trainer.stop = True
        signal.signal(number, before[number])
        if trainer.step == first and is_compiling(frame) and callable(before[number]):
            before[number](number, frame)
        if trainer.learning:
            raise StepAbandoned

    for number in wanted:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in wanted:
            signal.signal(number, before[number])
