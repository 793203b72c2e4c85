"""Phase 1: which customers stand for the routes (the paper, Section 2.2).

The Seed Transformer scores every customer as a seed and places it in a contrastive
space; `seed_decoding.py` then picks K seeds.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from clusterfirst.networks.config import PAIR_FEATURES, PAIR_HIDDEN, ModelConfig
from clusterfirst.networks.trainable.inputs import (
    NodeBatch,
    NodeInput,
    Tokens,
    pair_features,
)
from clusterfirst.networks.trainable.layers import MLP, Encoder


@dataclass(frozen=True)
class SeedOutput:
    """What the Seed Transformer says of each token."""

    hidden: Tensor  # (B, T, D), the H of the paper
    logit: Tensor  # (B, T) seed logits, p = sigmoid
    contrast: Tensor  # (B, T, E) unit vectors, the Z of the paper


class SeedTransformer(nn.Module):
    """Encoder with a seed head and a contrastive head."""

    def __init__(self, config: ModelConfig, psi: Tensor | None) -> None:
        super().__init__()
        width = config.width
        self.input = NodeInput(config, psi)
        self.encoder = Encoder(config, config.seed_layers)
        self.seed_head = MLP(width, width, 1)
        self.contrast_head = MLP(width, width, width // 2)
        if config.pair_width:
            self.pair = MLP(PAIR_FEATURES, PAIR_HIDDEN, config.pair_width)

    def forward(self, batch: NodeBatch) -> SeedOutput:
        """Encode the depot and all customers."""
        pair = None
        if hasattr(self, "pair"):
            tokens = Tokens(batch.position, batch.demand, node_roles(batch))
            pair = self.pair(pair_features(tokens, batch.lists.index))
        hidden = self.encoder(self.input(batch), batch.lists, pair)
        contrast = nn.functional.normalize(self.contrast_head(hidden), dim=-1)
        return SeedOutput(hidden, self.seed_head(hidden)[..., 0], contrast)


def node_roles(batch: NodeBatch) -> Tensor:
    """(B, T) 0 for the depot, 1 for customers."""
    role = torch.ones_like(batch.rows)
    role[:, 0] = 0
    return role
