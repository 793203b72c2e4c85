"""The networks together, and the settings that make them the paper's or ours."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from clusterfirst.networks.cluster import (
    ClusterOutput,
    ClusterTransformer,
    SeedBatch,
    all_seeds,
    nearest_seeds,
)
from clusterfirst.networks.inputs import (
    KNOWS_CITY,
    InputKind,
    NeighbourRule,
    NodeBatch,
)
from clusterfirst.networks.layers import EncoderShape
from clusterfirst.networks.seeds import PackingRule, SeedOutput, SeedTransformer
from clusterfirst.problem.errors import InputError, Problem


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
    def from_dict(cls, values: Any) -> ModelConfig:
        """Rebuild from config.json; wrong keys and values are errors."""
        known = {field.name for field in fields(cls)}
        for key in _keys(values) ^ known:
            rule = f"the keys of a model configuration are {', '.join(sorted(known))}"
            raise InputError(Problem("E704", "config.json", key, rule))
        counts = _keys(values["neighbours"])
        if counts != {field.name for field in fields(NeighbourRule)}:
            raise _wrong("neighbours", values["neighbours"], "least, most, per_route")
        _check(values | {f"neighbours.{k}": values["neighbours"][k] for k in counts})
        return cls(**values | {"neighbours": NeighbourRule(**values["neighbours"])})


# Least and most of every number in config.json: nobody's file may fill the memory.
_RANGES: dict[str, tuple[float, float]] = {
    "width": (2, 4096),
    "heads": (1, 64),
    "seed_layers": (0, 64),
    "cluster_layers": (0, 64),
    "feedforward": (1, 16_384),
    "dropout": (0.0, 0.99),
    "pair_width": (0, 256),
    "candidates": (0, 100_000),
    "psi_rows": (0, 100_001),
    "psi_width": (1, 4096),
    "neighbours.least": (1, 1024),
    "neighbours.most": (1, 1024),
    "neighbours.per_route": (0.0, 100.0),
}
_CHOICES: dict[str, tuple[object, ...]] = {
    "input": get_args(InputKind),
    "fill": ("capacity", "mean"),
    "raw_demand": (False, True),
    "pair_head": (False, True),
    "pack_neighbours": (False, True),
}


def _keys(values: Any) -> set[str]:
    return set(values) if isinstance(values, dict) else set()


def _wrong(key: str, got: object, rule: str) -> InputError:
    problem = Problem("E704", "config.json", f"{key} = {got}", f"{rule} is needed")
    return InputError(problem)


def _check(values: dict[str, Any]) -> None:
    """Types and ranges of all values of a configuration, by name."""
    for key, choices in _CHOICES.items():
        value = values[key]
        if not any(type(value) is type(c) and value == c for c in choices):
            raise _wrong(key, value, " or ".join(map(str, choices)))
    for key, (low, high) in _RANGES.items():
        value, whole = values[key], isinstance(low, int)
        kinds = (int,) if whole else (int, float)
        if type(value) not in kinds or not low <= value <= high:
            kind = "a whole number" if whole else "a number"
            raise _wrong(key, value, f"{kind} from {low} to {high}")
    if values["width"] % (2 * values["heads"]):
        rule = "a number of heads that divides half of the width"
        raise _wrong("heads", values["heads"], rule)
    if values["neighbours.least"] > values["neighbours.most"]:
        raise _wrong("neighbours", values["neighbours"], "least <= most")


class Router(nn.Module):
    """Seed Transformer and Clustering Transformer, trained together."""

    def __init__(self, config: ModelConfig, psi: Tensor | None = None) -> None:
        super().__init__()
        self.config = config
        if config.input in KNOWS_CITY and psi is None:
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
# Four heads and narrow layers: a fifth more passes per second than eight heads and a
# feed-forward width of 512 at 3 + 3 layers, which cost as much (LOG.md). Neighbour
# lists hold 1.5 routes, but never fewer than the paper's 20 nodes (its appendix).
GENERAL = ModelConfig(
    input="relative",
    heads=4,
    seed_layers=4,
    cluster_layers=4,
    feedforward=256,
    dropout=0.0,
    raw_demand=False,
    pair_width=8,
    pair_head=True,
    neighbours=NeighbourRule(least=20, most=64, per_route=1.5),
    candidates=40,
    fill="mean",
    pack_neighbours=True,
)
# The general model, told which locations these are.
CITY = replace(GENERAL, input="psi+relative")

CONFIGS: dict[str, ModelConfig] = {
    "paper": PAPER,
    "paper-standard": replace(PAPER, input="xy"),
    "paper-one-layer": replace(PAPER, seed_layers=1, cluster_layers=1),
    "city": CITY,
    "city-one-layer": ModelConfig(
        seed_layers=1, cluster_layers=1, dropout=0.0, raw_demand=False, fill="mean"
    ),
    "general": GENERAL,
}
