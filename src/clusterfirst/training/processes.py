"""Several processes that train one model: the same loop under `torchrun`.

Each process draws batches of its own; gradients are averaged, so that the weights
stay equal everywhere. Whatever must be decided together travels with the gradients.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


def rank_and_world() -> tuple[int, int]:
    """Number of this process, and how many there are."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


def use_threads(count: int) -> None:
    """Set how many threads each process computes with."""
    torch.set_num_threads(count)


@contextmanager
def joined() -> Iterator[int]:
    """Join the other processes if torchrun started several; yields the rank."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield 0
        return
    torch.distributed.init_process_group("gloo")
    try:
        yield torch.distributed.get_rank()
    finally:
        torch.distributed.destroy_process_group()


def share_gradients(
    module: nn.Module, facts: tuple[float, int, bool]
) -> tuple[float, int, bool]:
    """Average gradients over the processes, in one message.

    `facts` are a loss, a number of passes and a wish to stop; returned are the mean,
    the sum and whether any process wishes to. Nothing happens on a single process.
    """
    _, world = rank_and_world()
    if world == 1:
        return facts
    parameters = [p for p in module.parameters() if p.requires_grad]
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    loss, passes, stop = facts
    tail = torch.tensor([loss, float(passes), float(stop)])
    message = torch.cat([*(g.reshape(-1) for g in grads), tail])
    torch.distributed.all_reduce(message)
    at = 0
    for parameter in parameters:
        size = parameter.numel()
        parameter.grad = (message[at : at + size] / world).view_as(parameter)
        at += size
    loss, passes, stop = message[at:].tolist()
    return loss / world, int(passes), bool(stop)
