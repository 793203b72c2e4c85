"""One loop that trains the networks, on one process or several, and loses nothing.

Everything a step does is a function of (seed, step): the batch, the learning rate,
the dropout. A run killed at any moment therefore resumes from its last checkpoint and
ends with the same weights as an uninterrupted one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from clusterfirst.batches import BatchSettings, LabelPool
from clusterfirst.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from clusterfirst.errors import ClusterfirstError, InputError, Problem
from clusterfirst.losses import Losses, LossSettings, training_losses
from clusterfirst.model import ModelConfig, Router


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
    ema_decay: float = 0.999
    seed: int = 0

    def rate(self, step: int) -> float:
        """Warm-up, constant, then linear decay to zero."""
        warm = max(1.0, self.warm_up * self.steps)
        cool = max(1.0, self.decay * self.steps)
        shape = min(1.0, (step + 1) / warm, (self.steps - step) / cool)
        return self.learning_rate * max(0.0, shape)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for the checkpoint."""
        return asdict(self)


@dataclass(frozen=True)
class Progress:
    """What one step reports."""

    step: int
    passes: int  # instances in this step
    losses: Losses
    seconds: float


class TrainingDiverged(ClusterfirstError):
    """A loss is not finite; the last checkpoint is good."""


class Trainer:
    """The state of a run: networks, optimisers, averaged weights, step."""

    def __init__(self, config: TrainConfig, psi: Tensor | None = None) -> None:
        torch.manual_seed(config.seed)
        self.config = config
        self.router = Router(config.model, psi)
        self.average = torch.optim.swa_utils.AveragedModel(
            self.router,
            multi_avg_fn=_averaging(config),
        )
        self.optimisers = _optimisers(self.router, config)
        self.step = 0
        self.passes = 0
        self.seconds = 0.0

    def run(self, pool: LabelPool, *, until: int) -> Iterator[Progress]:
        """Take steps up to `until`, yielding after each one."""
        rank, world = _rank_and_world()
        self.router.train()
        while self.step < until:
            start = time.perf_counter()
            batch = pool.draw(
                self.config.seed,
                self.step * world + rank,
                self.config.batches,
                self.config.model.neighbours,
            )
            torch.manual_seed(self.config.seed * 1_000_003 + self.step)
            losses = training_losses(self.router, batch, self.config.losses)
            if not math.isfinite(losses.total.item()):
                rule = "training stopped; the last checkpoint is good"
                where = f"step {self.step}"
                raise TrainingDiverged(Problem("E731", where, "a loss of nan", rule))
            losses.total.backward()  # type: ignore[no-untyped-call]  # torch's own
            self._update()
            passes = len(batch.route) * world
            self.passes += passes
            self.seconds += time.perf_counter() - start
            yield Progress(self.step, passes, losses, time.perf_counter() - start)

    def _update(self) -> None:
        """Share, clip, step every optimiser at this step's rate, average."""
        _share_gradients(self.router)
        nn.utils.clip_grad_norm_(self.router.parameters(), self.config.clip)
        rate = self.config.rate(self.step)
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = rate * group["rate_factor"]
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        self.step += 1
        if self.config.average == "ema" or 2 * self.step >= self.config.steps:
            self.average.update_parameters(self.router)

    def save(self, root: Path) -> None:
        """Write a full checkpoint."""
        optimiser_tensors = {
            f"{number}.{index}.{name}": value
            for number, optimiser in enumerate(self.optimisers)
            for index, slots in optimiser.state_dict()["state"].items()
            for name, value in slots.items()
        }
        checkpoint = Checkpoint(
            tensors={
                "model": _learned(self.router),
                "average": _learned(self.average.module),
                "optimiser": optimiser_tensors,
            },
            state={
                "config": self.config.as_dict(),
                "averaged": int(self.average.n_averaged),
                "passes": self.passes,
                "seconds": self.seconds,
            },
        )
        save_checkpoint(root, self.step, checkpoint)

    def resume(self, root: Path) -> bool:
        """Continue from the newest good checkpoint; False if there is none."""
        found = load_checkpoint(root)
        if found is None:
            return False
        stored, mine = found.state["config"], self.config.as_dict()
        for key in mine:
            if stored.get(key) != mine[key]:
                rule = f"this run was started with {stored.get(key)}; use another --out"
                raise InputError(Problem("E721", key, str(mine[key]), rule))
        self.router.load_state_dict(found.tensors["model"], strict=False)
        self.average.module.load_state_dict(found.tensors["average"], strict=False)
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
        return True


def _averaging(config: TrainConfig) -> Any:
    """How torch's AveragedModel folds in new weights: a moving or a plain mean."""
    tools: Any = torch.optim.swa_utils
    if config.average == "ema":
        return tools.get_ema_multi_avg_fn(config.ema_decay)
    return tools.get_swa_multi_avg_fn()


def _learned(module: nn.Module) -> dict[str, Tensor]:
    """Weights without the frozen Psi, which has a file of its own."""
    frozen = {n for n, p in module.named_parameters() if not p.requires_grad}
    return {k: v for k, v in module.state_dict().items() if k not in frozen}


def _optimisers(router: Router, config: TrainConfig) -> list[torch.optim.Optimizer]:
    """AdamW for everything, or Muon for the matrices of the encoders.

    Muon's orthogonalised steps have their own scale, hence the factor on the rate.
    """
    named = [(n, p) for n, p in router.named_parameters() if p.requires_grad]
    matrices = [
        p
        for n, p in named
        if config.optimiser == "muon"
        and p.ndim == 2
        and ".encoder.layers." in n
        and min(p.shape) >= 64
    ]
    chosen = {id(p) for p in matrices}
    decayed = [p for _, p in named if p.ndim >= 2 and id(p) not in chosen]
    plain = [p for _, p in named if p.ndim < 2]
    optimisers: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(
            [
                {"params": decayed, "weight_decay": config.weight_decay},
                {"params": plain, "weight_decay": 0.0},
            ],
            lr=config.learning_rate,
            betas=(0.9, 0.98),
        )
    ]
    if matrices:
        optimisers.append(
            torch.optim.Muon(
                matrices, lr=config.learning_rate, weight_decay=config.weight_decay
            )
        )
    for optimiser, factor in zip(optimisers, (1.0, MUON_RATE), strict=False):
        for group in optimiser.param_groups:
            group["rate_factor"] = factor
    return optimisers


MUON_RATE = 10.0


def _share_gradients(router: Router) -> None:
    """Average gradients over the processes of a torchrun; nothing on one process."""
    _, world = _rank_and_world()
    if world == 1:
        return
    for parameter in router.parameters():
        if parameter.requires_grad:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            torch.distributed.all_reduce(parameter.grad)
            parameter.grad /= world


def _rank_and_world() -> tuple[int, int]:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


Evaluate = Callable[[Router], dict[str, float]]
