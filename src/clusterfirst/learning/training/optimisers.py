"""AdamW for everything, or Muon for the matrices of the encoders."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import Tensor

from clusterfirst.networks.trainable.router import Router

# Muon's orthogonalised steps have a scale of their own.
MUON_RATE = 10.0
MUON_WIDTH = 64  # smaller matrices gain nothing from it
MOMENTUM = 0.95
# Quintic Newton-Schulz iteration of Jordan et al. (Muon, 2024): five steps bring
# every singular value to between 0.7 and 1.2.
QUINTIC = (3.4445, -4.7750, 2.0315)
NEWTON_STEPS = 5


def make_optimisers(
    router: Router,
    kind: Literal["adamw", "muon"],
    rate: float,
    weight_decay: float,
) -> list[torch.optim.Optimizer]:
    """Return the optimisers; each group has a `rate_factor` on the common rate."""
    named = [(n, p) for n, p in router.named_parameters() if p.requires_grad]
    matrices = [
        p
        for n, p in named
        if kind == "muon"
        and p.ndim == 2
        and ".encoder.layers." in n
        and min(p.shape) >= MUON_WIDTH
    ]
    chosen = {id(p) for p in matrices}
    decayed = [p for _, p in named if p.ndim >= 2 and id(p) not in chosen]
    plain = [p for _, p in named if p.ndim < 2]
    optimisers: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(
            [
                {"params": decayed, "weight_decay": weight_decay},
                {"params": plain, "weight_decay": 0.0},
            ],
            lr=rate,
            betas=(0.9, 0.98),
            fused=True,
        )
    ]
    if matrices:
        optimisers.append(Muon(matrices, rate, weight_decay))
    for optimiser, factor in zip(optimisers, (1.0, MUON_RATE), strict=False):
        for group in optimiser.param_groups:
            group["rate_factor"] = factor
    return optimisers


class Muon(torch.optim.Optimizer):
    """Momentum whose steps are made orthogonal.

    torch.optim.Muon does the same in bfloat16, which halves the speed of training on
    a processor that has to emulate it.
    """

    def __init__(
        self, matrices: Iterable[Tensor], lr: float, weight_decay: float
    ) -> None:
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # no closures
        """Move every matrix along its orthogonalised momentum."""
        for group in self.param_groups:
            for matrix in group["params"]:
                if matrix.grad is None:
                    continue
                move = orthogonal(self._momentum(matrix))
                # Wide matrices keep the size of the change per output.
                scale = max(1.0, matrix.shape[0] / matrix.shape[1]) ** 0.5
                matrix.mul_(1 - group["lr"] * group["weight_decay"])
                matrix.add_(move, alpha=-group["lr"] * scale)

    def _momentum(self, matrix: Tensor) -> Tensor:
        """Nesterov's: the gradient and the running mean together."""
        assert matrix.grad is not None
        state = self.state[matrix]
        if not state:
            state["momentum"] = torch.zeros_like(matrix)
        mean: Tensor = state["momentum"].lerp_(matrix.grad, 1 - MOMENTUM)
        return matrix.grad.lerp(mean, MOMENTUM)


def orthogonal(matrix: Tensor) -> Tensor:
    """About U V^T of a matrix U S V^T."""
    a, b, c = QUINTIC
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.mT.contiguous() if tall else matrix
    x = x / x.norm().clamp(min=1e-12)
    for _ in range(NEWTON_STEPS):
        square = x @ x.mT
        x = torch.addmm(
            x, torch.addmm(square, square, square, beta=b, alpha=c), x, beta=a
        )
    found: Tensor = x.mT if tall else x
    return found
