"""The networks together, in torch: what is trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from clusterfirst.networks.config import KNOWS_CITY, ModelConfig
from clusterfirst.networks.nodes import Float32
from clusterfirst.networks.trainable.cluster import (
    ClusterOutput,
    ClusterTransformer,
    SeedBatch,
    all_seeds,
    nearest_seeds,
)
from clusterfirst.networks.trainable.inputs import NodeBatch
from clusterfirst.networks.trainable.seeds import SeedOutput, SeedTransformer


class Router(nn.Module):
    """Seed Transformer and Clustering Transformer, trained together."""

    def __init__(self, config: ModelConfig, psi: Tensor | None = None) -> None:
        super().__init__()
        self.config = config
        if config.input in KNOWS_CITY and psi is None:
            psi = torch.zeros(config.psi_rows, config.psi_width)
        self.seed = SeedTransformer(config, psi)
        self.cluster = ClusterTransformer(config)

    def encode(self, batch: NodeBatch) -> SeedOutput:
        """Phase 1 up to its two heads."""
        out: SeedOutput = self.seed(batch)
        return out

    def score(
        self, hidden: Tensor, batch: NodeBatch, seeds: SeedBatch, candidates: Tensor
    ) -> ClusterOutput:
        """Phase 2: costs of customers at candidate seeds."""
        out: ClusterOutput = self.cluster(hidden, batch, seeds, candidates)
        return out

    def candidates(self, batch: NodeBatch, seeds: SeedBatch) -> Tensor:
        """(B, N, C) which seeds each customer may be assigned to."""
        if self.config.candidates:
            return nearest_seeds(batch, seeds, self.config.candidates)
        return all_seeds(batch, seeds)

    def weights(self) -> dict[str, Float32]:
        """Every weight by its name, Psi included; changes with the training."""
        return {key: value.detach().numpy() for key, value in self.state_dict().items()}


def router_of(config: ModelConfig, weights: Mapping[str, Any]) -> Router:
    """Networks to train on from these weights, as a model folder holds them."""
    router = Router(config)
    router.load_state_dict({key: torch.tensor(weights[key]) for key in weights})
    return router.eval()
