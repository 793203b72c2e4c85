"""One loop that trains the networks, on one process or several, and loses nothing.

Everything a step does is a function of (seed, step): the batch, the learning rate,
the dropout. A run killed at any moment therefore resumes from its last checkpoint and
ends with the same weights as an uninterrupted one.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from clusterfirst.learning.labels.pool import LabelPool
from clusterfirst.learning.training.batches import BatchSettings, TrainBatch, draw_batch
from clusterfirst.learning.training.checkpoint import Checkpoint
from clusterfirst.learning.training.losses import LossSettings, training_losses
from clusterfirst.learning.training.optimisers import make_optimisers
from clusterfirst.learning.training.processes import begin, collect, helpers
from clusterfirst.networks.config import ModelConfig
from clusterfirst.networks.trainable.router import Router
from clusterfirst.problem.errors import (
    ClusterfirstError,
    InputError,
    Problem,
    require_rules,
)

SMOOTHING = 0.02  # weight of the newest step in the losses that are reported
TERMS = ("seed", "contrast", "bce", "transport", "accuracy")


@dataclass(frozen=True)
class TrainConfig:
    """A whole run. Two runs with equal configurations give equal weights."""

    model: ModelConfig
    steps: int
    losses: LossSettings = field(default_factory=LossSettings)
    batches: BatchSettings = field(default_factory=BatchSettings)
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    warm_up: float = 0.01  # share of the steps
    decay: float = 0.5  # share of the steps in which the rate falls to zero
    clip: float = 1.0
    optimiser: Literal["adamw", "muon"] = "adamw"
    average: Literal["ema", "swa"] = "ema"  # swa: the paper's, from half-way on
    epoch: int = 1  # steps after which swa averages and a checkpoint is written
    ema_decay: float = 0.999
    seed: int = 0

    def __post_init__(self) -> None:
        shares = {
            name: 0.0 <= getattr(self, name) <= 1.0
            for name in ("warm_up", "decay", "ema_decay")
        }
        rules = {
            "steps": (self.steps >= 1, "must be at least 1"),
            "learning_rate": (
                0 < self.learning_rate < math.inf,
                "must be a number above 0",
            ),
            "clip": (self.clip > 0, "must be a number above 0"),
            "seed": (0 <= self.seed < 2**32, "0 to 2**32 - 1 is needed"),
            **{name: (good, "a share, 0 to 1") for name, good in shares.items()},
        }
        require_rules(self, rules, "E704", "config ")

    def rate(self, step: int) -> float:
        """Warm-up, constant, then linear decay to zero."""
        warm = max(1.0, self.warm_up * self.steps)
        cool = max(1.0, self.decay * self.steps)
        shape = min(1.0, (step + 1) / warm, (self.steps - step) / cool)
        return self.learning_rate * max(0.0, shape)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, as JSON gives them back."""
        values: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return values


@dataclass(frozen=True)
class Progress:
    """What one step reports."""

    step: int  # steps done
    passes: int  # instances in this step, all processes together
    losses: dict[str, float]  # smoothed; names are TERMS
    seconds: float
    stop: bool  # some process was asked to stop


class TrainingDiverged(ClusterfirstError):
    """A loss or gradient is not finite; the weights are those before that step."""


@dataclass(frozen=True, eq=False)
class Part:
    """What one process does of every step."""

    config: TrainConfig
    pool: LabelPool
    number: tuple[int, int]  # part i of this many

    def prepare(self, step: int) -> TrainBatch:
        """Draw this part of the batch."""
        config = self.config
        return draw_batch(
            self.pool,
            config.batches,
            config.model.neighbours,
            seed=config.seed,
            step=step,
            share=self.number,
        )

    def learn(
        self, router: nn.Module, prepared: TrainBatch, step: int
    ) -> dict[str, float]:
        """Leave gradients in the router; return loss, terms and passes."""
        assert isinstance(router, Router)
        at, parts = self.number
        torch.manual_seed(self.config.seed * 1_000_003 + step * parts + at)
        losses = training_losses(router, prepared, self.config.losses)
        torch.autograd.backward(losses.total)
        terms = {name: float(getattr(losses, name)) for name in TERMS}
        total = float(losses.total.detach())
        return {"total": total, "passes": len(prepared.route), **terms}


class StepAbandoned(BaseException):
    """Whoever interrupts does not wait for gradients."""


class Trainer:
    """The state of a run: networks, optimisers, averaged weights, step.

    `stop` may be set at any moment, by a signal too; the step that runs then is the
    last, on every process. While `learning` it may also be given up by raising
    StepAbandoned: the weights are those of the step before, and are not worse for it.
    """

    def __init__(self, config: TrainConfig, psi: Tensor | None = None) -> None:
        torch.manual_seed(config.seed)
        self.config = config
        self.router = Router(config.model, psi)
        self._start_average()
        self.optimisers = make_optimisers(
            self.router, config.optimiser, config.learning_rate, config.weight_decay
        )
        self.step = 0
        self.passes = 0
        self.seconds = 0.0
        self.recent: dict[str, float] = {}
        self.stop = False
        self.learning = False

    def _start_average(self) -> None:
        tools: Any = torch.optim.swa_utils
        mean = tools.get_swa_multi_avg_fn()
        if self.config.average == "ema":
            mean = tools.get_ema_multi_avg_fn(self.config.ema_decay)
        self.average = tools.AveragedModel(self.router, multi_avg_fn=mean)

    def start_from(self, weights: dict[str, Tensor]) -> None:
        """Begin with weights learned elsewhere; names and shapes must fit.

        A city's model may begin as a general one: what it knows of the city is zero.
        """
        city = {k: v for k, v in learned(self.router).items() if ".known." in k}
        try:
            load_learned(self.router, {**city, **weights})
        except RuntimeError as error:
            rule = "names and shapes of the weights must fit the configuration"
            got = " ".join(str(error).split())
            raise InputError(Problem("E704", "--init", got, rule)) from error
        self._start_average()

    def run(
        self, pool: LabelPool, *, until: int, processes: int = 1
    ) -> Iterator[Progress]:
        """Take steps up to `until`, yielding after each one.

        Several processes share each batch; their number is part of what a run is.
        """
        parts = [Part(self.config, pool, (i, processes)) for i in range(processes)]
        self.router.train()
        with helpers(self.router, parts[1:]) as team:
            for batch in _drawn_ahead(parts[0].prepare, self.step, until):
                start = time.perf_counter()
                try:
                    self.learning = True
                    begin(team, self.step)
                    mine = parts[0].learn(self.router, batch, self.step)
                    facts = [mine, *collect(team, self.router)]
                    self.learning = False
                except StepAbandoned:
                    self.learning = False
                    self.router.zero_grad(set_to_none=True)
                    return
                self.update(sum(fact["total"] for fact in facts) / processes)
                self._smooth(
                    {n: sum(fact[n] for fact in facts) / processes for n in TERMS}
                )
                seconds = time.perf_counter() - start
                passes = sum(int(fact["passes"]) for fact in facts)
                self.passes += passes
                self.seconds += seconds
                stop = self.stop  # it may be set at any moment; one answer counts
                yield Progress(self.step, passes, self.recent, seconds, stop)
                if stop:
                    return

    def update(self, total: float) -> None:
        """Clip, step every optimiser at this step's rate, average."""
        norm = float(
            nn.utils.clip_grad_norm_(self.router.parameters(), self.config.clip)
        )
        if not (math.isfinite(total) and math.isfinite(norm)):
            for optimiser in self.optimisers:
                optimiser.zero_grad(set_to_none=True)
            where = f"training step {self.step}"
            got = f"a loss of {total:.4g} with gradients of norm {norm:.4g}"
            rule = (
                "stopped; the last checkpoint is good, a lower learning_rate may help"
            )
            raise TrainingDiverged(Problem("E722", where, got, rule))
        rate = self.config.rate(self.step)
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = rate * group["rate_factor"]
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        self.step += 1
        late = 2 * self.step >= self.config.steps and self.step % self.config.epoch == 0
        if self.config.average == "ema" or late:
            self.average.update_parameters(self.router)

    def _smooth(self, new: dict[str, float]) -> None:
        old = self.recent or new
        self.recent = {k: old[k] + SMOOTHING * (new[k] - old[k]) for k in new}

    @property
    def averaged(self) -> Router:
        """The weights to use: averaged, or the plain ones before averaging begins."""
        module: Router = self.average.module
        return module if int(self.average.n_averaged) else self.router

    def checkpoint(self) -> Checkpoint:
        """Everything a resumed run needs, beside labels and Psi."""
        optimiser_tensors = {
            f"{number}.{index}.{name}": value
            for number, optimiser in enumerate(self.optimisers)
            for index, slots in optimiser.state_dict()["state"].items()
            for name, value in slots.items()
        }
        return Checkpoint(
            tensors={
                "model": learned(self.router),
                "average": learned(self.average.module),
                "optimiser": optimiser_tensors,
            },
            state={
                "config": self.config.as_dict(),
                "averaged": int(self.average.n_averaged),
                "passes": self.passes,
                "seconds": self.seconds,
                "recent": self.recent,
            },
        )

    def restore(self, found: Checkpoint) -> None:
        """Continue from a checkpoint of a run with the same configuration."""
        _refuse_changes(found.state["config"], self.config.as_dict())
        load_learned(self.router, found.tensors["model"])
        load_learned(self.average.module, found.tensors["average"])
        self.average.n_averaged.fill_(found.state["averaged"])
        for number, optimiser in enumerate(self.optimisers):
            state = optimiser.state_dict()
            slots: dict[int, dict[str, Tensor]] = {}
            for name, value in found.tensors["optimiser"].items():
                owner, index, slot = name.split(".", 2)
                if int(owner) == number:
                    slots.setdefault(int(index), {})[slot] = value
            optimiser.load_state_dict({**state, "state": slots})
        self.step = found.state["step"]
        self.passes, self.seconds = found.state["passes"], found.state["seconds"]
        self.recent = found.state["recent"]


def _drawn_ahead(
    draw: Callable[[int], TrainBatch], first: int, until: int
) -> Iterator[TrainBatch]:
    """Draw each batch in a thread while the one before it is learned."""
    with ThreadPoolExecutor(max_workers=1) as executor:
        coming = executor.submit(draw, first) if first < until else None
        for step in range(first, until):
            assert coming is not None
            batch = coming.result()
            coming = executor.submit(draw, step + 1) if step + 1 < until else None
            yield batch


def _refuse_changes(stored: dict[str, Any], mine: dict[str, Any]) -> None:
    """Raise E721 naming the settings that differ from those of the run.

    Settings that have gone since then are not compared.
    """
    old, new = _flat(stored), _flat(mine)
    problems = []
    for key in sorted(new):
        if old.get(key) != new[key]:
            rule = f"this run was started with {old.get(key)}; use another --out"
            got = str(new[key])
            problems.append(Problem("E721", f"config {key}", got, rule))
    if problems:
        raise InputError(problems)


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{prefix}{key}.")
        else:
            found[prefix + key] = value
    return found


def learned(module: nn.Module) -> dict[str, Tensor]:
    """Weights without the frozen Psi, which has a file of its own."""
    frozen = {n for n, p in module.named_parameters() if not p.requires_grad}
    return {k: v for k, v in module.state_dict().items() if k not in frozen}


def load_learned(module: nn.Module, weights: dict[str, Tensor]) -> None:
    """Put learned weights in place; the frozen Psi stays."""
    frozen = {n: p for n, p in module.named_parameters() if not p.requires_grad}
    module.load_state_dict({**weights, **frozen})
