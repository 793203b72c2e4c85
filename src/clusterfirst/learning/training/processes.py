"""Several processes of one machine that train one model.

Threads share the many small products of these networks badly: two give 1.1 to 1.5 times
the passes of one, two processes with a thread each 1.5 to 1.8 (docs/training.md). The
first process has the optimiser, the averages and the files. Its helpers read its
weights from shared memory, each takes a part of every batch, and they leave their
gradients there.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from clusterfirst.problem.errors import ClusterfirstError, Problem

PATIENCE = 10.0  # seconds for a killed helper to be gone


class Part(Protocol):
    """What one process does of every step; it travels to the process that does it."""

    def prepare(self, step: int) -> Any:
        """Return what the step needs, drawn while nothing else is to do."""

    def learn(self, router: nn.Module, prepared: Any, step: int) -> Any:
        """Leave gradients in the router; return facts for the first process."""


def use_threads(count: int) -> None:
    """Set how many threads this process computes with."""
    torch.set_num_threads(count)


@dataclass(frozen=True, eq=False)
class Helper:
    """One more process, seen from the first."""

    process: Any
    pipe: Connection
    gradients: list[Tensor]


@contextmanager
def helpers(router: nn.Module, parts: Sequence[Part]) -> Iterator[list[Helper]]:
    """Start one process per part; they end with the block, or with this process."""
    context: Any = torch.multiprocessing.get_context("spawn")
    started: list[Helper] = []
    if parts:
        router.share_memory()
    try:
        for part in parts:
            here, there = context.Pipe()
            gradients = [_shared(parameter) for parameter in trained(router)]
            process = context.Process(
                target=_serve, args=(there, part, router, gradients), daemon=True
            )
            _start(process)
            there.close()
            started.append(Helper(process, here, gradients))
        yield started
    finally:
        for helper in started:
            helper.pipe.close()
        for helper in started:  # gradients of an abandoned step are worth nothing
            helper.process.kill()
            helper.process.join(PATIENCE)


def begin(team: list[Helper], step: int) -> None:
    """Tell all helpers to do their part of this step with the weights as they are."""
    for helper in team:
        _tell(helper.pipe.send, step)


def collect(team: list[Helper], router: nn.Module) -> list[Any]:
    """Average the gradients of all processes in the router; return helpers' facts."""
    facts = [_tell(helper.pipe.recv) for helper in team]
    if not team:
        return facts
    for at, parameter in enumerate(trained(router)):
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        for helper in team:  # in their order, so that the sum is always the same
            parameter.grad += helper.gradients[at]
        parameter.grad /= 1 + len(team)
    return facts


def trained(router: nn.Module) -> list[nn.Parameter]:
    """The parameters that learn, in their order."""
    return [p for p in router.parameters() if p.requires_grad]


def _start(process: Any) -> None:
    """Start a process that never sees Ctrl-C or SIGTERM: the first one decides."""
    resource_tracker.ensure_running()  # when it starts it would lift the mask
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        process.start()  # the child inherits the mask
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _shared(like: Tensor) -> Tensor:
    zeros: Any = torch.zeros_like(like)  # torch has no types for the next call
    shared: Tensor = zeros.share_memory_()
    return shared


def _tell(talk: Callable[..., Any], *words: int) -> Any:
    try:
        return talk(*words)
    except (EOFError, OSError) as error:
        rule = "run again to resume; perhaps it ran out of memory"
        problem = Problem("E724", "training", "a helper process ended", rule)
        raise ClusterfirstError(problem) from error


def _serve(
    pipe: Connection, part: Part, router: nn.Module, gradients: list[Tensor]
) -> None:
    """Do a part of each step that is asked for, until the first process is gone."""
    torch.set_num_threads(1)
    router.train()
    ahead: tuple[int, Any] | None = None
    try:
        while True:
            step = pipe.recv()
            if ahead is None or ahead[0] != step:
                ahead = step, part.prepare(step)
            facts = part.learn(router, ahead[1], step)
            for mine, parameter in zip(gradients, trained(router), strict=True):
                if parameter.grad is None:
                    mine.zero_()
                else:
                    mine.copy_(parameter.grad)
                parameter.grad = None
            pipe.send(facts)
            ahead = step + 1, part.prepare(step + 1)
    except (EOFError, OSError):
        return
