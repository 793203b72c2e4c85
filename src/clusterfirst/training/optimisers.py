"""AdamW for everything, or Muon for the matrices of the encoders."""

from __future__ import annotations

from typing import Literal

import torch

from clusterfirst.networks.model import Router

# Muon's orthogonalised steps have a scale of their own.
MUON_RATE = 10.0
MUON_WIDTH = 64  # smaller matrices gain nothing from it


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
        muon = torch.optim.Muon(matrices, lr=rate, weight_decay=weight_decay)
        optimisers.append(muon)
    for optimiser, factor in zip(optimisers, (1.0, MUON_RATE), strict=False):
        for group in optimiser.param_groups:
            group["rate_factor"] = factor
    return optimisers
