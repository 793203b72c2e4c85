"""The one description of the networks: settings, and names and shapes of the weights.

What answers (`network.py`) and what learns (`trainable/`) both read it, and a model
folder is checked against it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, get_args

from clusterfirst.networks.nodes import NODE_FEATURES, NeighbourRule
from clusterfirst.networks.seed_decoding import PackingRule
from clusterfirst.problem.errors import InputError, Problem

InputKind = Literal["psi", "xy", "relative", "psi+relative"]
KNOWS_CITY: tuple[InputKind, ...] = ("psi", "psi+relative")
PAIR_FEATURES = 10  # geometry of two tokens, demand and role of the one that is seen
GEOMETRY = 7  # of them
PAIR_HIDDEN = 32
HEAD_HIDDEN = 64  # of the pair head
SHARED = 16  # channels in which the pair head compares customer and seed
VISIBLE_SEEDS = 8  # seed tokens a token sees when pair features are on


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
    "heads": (1, 16),
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


PAPER = ModelConfig()
# Four heads and narrow layers: a fifth more passes per second than eight heads and a
# feed-forward width of 512 at 3 + 3 layers, which cost as much (log/). Neighbour
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


def weight_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Every weight by its name; Psi and what is learned, all of them float32."""
    width, P = config.width, config.pair_width
    shapes = _input_shapes(config)
    shapes |= _encoder("seed.encoder", config, config.seed_layers)
    shapes |= _perceptron("seed.seed_head", width, width, 1)
    shapes |= _perceptron("seed.contrast_head", width, width, width // 2)
    shapes |= _encoder("cluster.encoder", config, config.cluster_layers)
    shapes |= {"cluster.role.weight": (3, width)}
    shapes |= {"cluster.gamma": (), "cluster.beta": ()}
    if P:
        shapes |= _perceptron("seed.pair", PAIR_FEATURES, PAIR_HIDDEN, P)
        shapes |= _perceptron("cluster.pair", PAIR_FEATURES, PAIR_HIDDEN, P)
        shapes |= _linear("cluster.fleet", 2, width)
    if config.pair_head:
        shapes |= _linear("cluster.customer_side", width, SHARED)
        shapes |= _linear("cluster.seed_side", width, SHARED)
        seen = GEOMETRY + SHARED + 2  # and the latent distance, and the demand
        shapes |= _perceptron("cluster.pair_head", seen, HEAD_HIDDEN, 1)
    return shapes


Shapes = dict[str, tuple[int, ...]]


def _input_shapes(config: ModelConfig) -> Shapes:
    """What a node is to the Seed Transformer (the paper, Eq. 2)."""
    width, psi = config.width, config.psi_width
    shapes: Shapes = {"seed.input.depot": (width,)}
    if config.input in KNOWS_CITY:
        shapes |= {"seed.input.psi": (config.psi_rows, psi)}
    if "relative" in config.input:
        shapes |= _perceptron("seed.input.node", NODE_FEATURES, width, width)
        if config.input in KNOWS_CITY:
            shapes |= {"seed.input.known.weight": (width, psi)}
        return shapes
    shapes |= _linear("seed.input.demand", 1, width // 2)
    if config.input == "xy":
        shapes |= _linear("seed.input.place", 2, width // 2)
    elif psi != width // 2:
        shapes |= _linear("seed.input.adapt", psi, width // 2)
    return shapes


def _encoder(name: str, config: ModelConfig, layers: int) -> Shapes:
    width, P = config.width, config.pair_width
    shapes: Shapes = _norm(f"{name}.norm", width)
    for number in range(layers):
        layer = f"{name}.layers.{number}"
        shapes |= _linear(f"{layer}.attention.qkv", width, 3 * width)
        shapes |= _linear(f"{layer}.attention.out", width, width)
        if P:
            shapes |= _linear(f"{layer}.attention.bias", P, config.heads)
            message = (width, config.heads * P)
            shapes |= {f"{layer}.attention.message.weight": message}
        shapes |= _norm(f"{layer}.norm_attention", width)
        shapes |= _norm(f"{layer}.norm_feedforward", width)
        inner = config.feedforward
        shapes |= _perceptron(f"{layer}.feedforward", width, inner, width)
    return shapes


def _perceptron(name: str, width_in: int, hidden: int, width_out: int) -> Shapes:
    inner = _linear(f"{name}.inner", width_in, hidden)
    return inner | _linear(f"{name}.outer", hidden, width_out)


def _linear(name: str, width_in: int, width_out: int) -> Shapes:
    return {f"{name}.weight": (width_out, width_in), f"{name}.bias": (width_out,)}


def _norm(name: str, width: int) -> Shapes:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}
