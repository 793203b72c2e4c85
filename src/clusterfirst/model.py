"""The networks together, and the settings that make them the paper's or ours."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

import torch
from torch import Tensor, nn

from clusterfirst.cluster import (
    ClusterOutput,
    ClusterTransformer,
    SeedBatch,
    all_seeds,
    nearest_seeds,
)
from clusterfirst.errors import InputError, Problem
from clusterfirst.inputs import InputKind, NeighbourRule, NodeBatch
from clusterfirst.layers import EncoderShape
from clusterfirst.seeds import PackingRule, SeedOutput, SeedTransformer


@dataclass(frozen=True)
class ModelConfig:
    """Everything that fixes the shape of the networks. Defaults: the paper's."""

    input: InputKind = "psi"
    width: int = 128
    heads: int = 8
    seed_layers: int = 6
    cluster_layers: int = 6
    feedforward: int = 512
    dropout: float = 0.1
    raw_demand: bool = True  # the paper's input; ours is the share of the capacity
    pair_width: int = 0  # channels of relative geometry in attention; 0: none
    pair_head: bool = False
    neighbours: NeighbourRule = field(default_factory=NeighbourRule)
    candidates: int = 0  # seeds scored per customer; 0: all
    fill: Literal["capacity", "mean"] = "capacity"
    pack_neighbours: bool = False
    psi_rows: int = 0  # |X| + 1 of the city, for the psi input
    psi_width: int = 64

    @property
    def packing(self) -> PackingRule:
        """How seeds are decoded."""
        return PackingRule(self.fill, self.pack_neighbours)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for config.json."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ModelConfig:
        """Rebuild from config.json; unknown or missing keys are errors."""
        known = {field.name for field in fields(cls)}
        for key in values.keys() ^ known:
            rule = f"the keys of a model configuration are {', '.join(sorted(known))}"
            raise InputError(Problem("E704", "config.json", key, rule))
        rule_values = values["neighbours"]
        return cls(**{**values, "neighbours": NeighbourRule(**rule_values)})


class Router(nn.Module):
    """Seed Transformer and Clustering Transformer, trained together."""

    def __init__(self, config: ModelConfig, psi: Tensor | None = None) -> None:
        super().__init__()
        self.config = config
        if config.input == "psi" and psi is None:
            psi = torch.zeros(config.psi_rows, config.psi_width)
        shape = EncoderShape(
            config.seed_layers,
            config.width,
            config.heads,
            config.feedforward,
            config.dropout,
            config.pair_width,
        )
        self.seed = SeedTransformer(
            config.input, shape, raw_demand=config.raw_demand, psi=psi
        )
        cluster_shape = EncoderShape(
            config.cluster_layers,
            config.width,
            config.heads,
            config.feedforward,
            config.dropout,
            config.pair_width,
        )
        self.cluster = ClusterTransformer(cluster_shape, pair_head=config.pair_head)

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

    def num_parameters(self) -> int:
        """Learned numbers, Psi left out (it is frozen)."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)


PAPER = ModelConfig()
GENERAL = ModelConfig(
    input="relative",
    seed_layers=3,
    cluster_layers=3,
    dropout=0.0,
    raw_demand=False,
    pair_width=16,
    pair_head=True,
    neighbours=NeighbourRule(least=20, most=64, per_route=1.5),
    candidates=24,
    fill="mean",
    pack_neighbours=True,
)
CITY = ModelConfig(dropout=0.0, raw_demand=False, fill="mean")

CONFIGS: dict[str, ModelConfig] = {
    "paper": PAPER,
    "paper-standard": ModelConfig(input="xy"),
    "general": GENERAL,
    "city": CITY,
}
