"""Configurations: the paper's numbers, ours, and what config.json may say."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch

from clusterfirst.learning.training.config_files import TRAINING
from clusterfirst.networks.config import CONFIGS, ModelConfig, weight_shapes
from clusterfirst.networks.model_folder import PSI
from clusterfirst.networks.trainable.router import Router
from clusterfirst.problem.errors import InputError


def count(name: str) -> int:
    """Learned parameters of a named configuration (3000 locations for Psi)."""
    config = CONFIGS[name]
    if config.input == "psi":
        config = replace(config, psi_rows=3001)
    shapes = weight_shapes(config)
    return sum(math.prod(shapes[key]) for key in shapes if key != PSI)


def test_paper_configuration() -> None:
    """Every number of Section 2 and Appendix E that shapes the networks."""
    paper = CONFIGS["paper"]
    assert paper.input == "psi"
    assert (paper.seed_layers, paper.cluster_layers, paper.heads) == (6, 6, 8)
    assert (paper.width, paper.feedforward, paper.dropout) == (128, 512, 0.1)
    assert (paper.neighbours.least, paper.neighbours.most) == (20, 20)
    assert paper.raw_demand
    assert (paper.fill, paper.pack_neighbours) == ("capacity", False)
    assert (paper.pair_width, paper.pair_head, paper.candidates) == (0, False, 0)
    assert paper.psi_width == paper.width // 2
    standard = CONFIGS["paper-standard"]
    assert replace(standard, input="psi") == paper
    assert standard.input == "xy"


def test_one_layer_configurations() -> None:
    """One layer in each transformer, everything else as in the whole model."""
    one = CONFIGS["paper-one-layer"]
    assert (one.seed_layers, one.cluster_layers) == (1, 1)
    assert replace(one, seed_layers=6, cluster_layers=6) == CONFIGS["paper"]
    ours = replace(CONFIGS["city-one-layer"], dropout=0.1, raw_demand=True)
    assert replace(ours, fill="capacity") == one


def test_a_city_is_the_general_model_and_a_table() -> None:
    """The weights of one begin the other, so all but the input must be the same."""
    assert replace(CONFIGS["city"], input="relative") == CONFIGS["general"]


def test_parameter_counts() -> None:
    """The counts that the documentation states (docs/reading-the-paper.md)."""
    assert count("paper-one-layer") == count("city-one-layer") == 439_107
    assert count("paper") == 439_107 + 10 * 198_272


def test_paper_training() -> None:
    """AdamW 0.006, batches of 256, 30 epochs of a million, SWA, unrolled transport."""
    for name in ("paper", "paper-standard", "paper-one-layer"):
        run = TRAINING[name]
        assert run.model == CONFIGS[name]
        assert run.learning_rate == 0.006
        assert run.optimiser == "adamw"
        assert run.average == "swa"
        assert run.steps == 30 * run.epoch  # averaged and saved once an epoch
        assert run.batches.tokens == 256 * 101
        assert run.batches.part_share == 0
        assert run.batches.seed_pool > 1
        assert run.steps == 30 * -(-1_000_000 // 256)
        assert {run.rate(step) for step in (0, 1, run.steps // 2, run.steps - 1)} == {
            0.006
        }
        losses = run.losses
        assert (losses.contrast_weight, losses.bce) == (5.0, True)
        assert (losses.epsilon, losses.iterations) == (0.01, 20)
        assert (losses.transport, losses.transport_weight) == ("unrolled", 1.0)


def test_our_training() -> None:
    """Ours: rate 1e-3, moving average, closed-form transport gradient."""
    for name in ("city", "city-one-layer", "general"):
        run = TRAINING[name]
        assert run.model == CONFIGS[name]
        assert run.learning_rate == 1e-3
        assert run.average == "ema"
        assert run.losses.transport == "closed-form"
    assert set(TRAINING) == set(CONFIGS)


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_configurations_survive_json(name: str) -> None:
    """config.json gives back the same configuration."""
    text = json.dumps(CONFIGS[name].as_dict())
    assert ModelConfig.from_dict(json.loads(text)) == CONFIGS[name]


WRONG = [
    ("width", 0),
    ("width", 10**9),
    ("width", 128.0),
    ("width", "128"),
    ("width", True),
    ("heads", 0),
    ("heads", 7),  # does not divide the width
    ("seed_layers", -1),
    ("seed_layers", 10**9),
    ("feedforward", None),
    ("dropout", 1.5),
    ("dropout", float("nan")),
    ("input", "polar"),
    ("fill", "half"),
    ("raw_demand", 1),
    ("psi_rows", -1),
    ("psi_rows", 10**9),
    ("neighbours", 20),
    ("neighbours", {"least": 20}),
    ("neighbours", {"least": 9, "most": 5, "per_route": 0.0}),
    ("neighbours", {"least": 9, "most": 10**6, "per_route": 0.0}),
    ("neighbours", {"least": 9, "most": 10, "per_route": 0.0, "more": 1}),
]


@pytest.mark.parametrize(("key", "value"), WRONG)
def test_wrong_values_are_refused_in_one_sentence(key: str, value: object) -> None:
    """A hostile config.json can neither crash nor fill the memory."""
    values = {**CONFIGS["general"].as_dict(), key: value}
    with pytest.raises(InputError, match=r"^E704 config.json: .*" + key) as caught:
        ModelConfig.from_dict(values)
    assert len(caught.value.lines()) == 1


def test_unknown_and_missing_keys_are_refused() -> None:
    """A configuration of another version is refused by name of the key."""
    values = CONFIGS["paper"].as_dict()
    with pytest.raises(InputError, match="depth"):
        ModelConfig.from_dict({**values, "depth": 3})
    del values["width"]
    with pytest.raises(InputError, match="width"):
        ModelConfig.from_dict(values)
    for nothing in (None, [], "paper", 3):
        with pytest.raises(InputError, match="E704"):
            ModelConfig.from_dict(nothing)


def test_networks_of_every_configuration_run() -> None:
    """Each named configuration has weights of the names and shapes that are told."""
    for config in CONFIGS.values():
        config = replace(config, psi_rows=10)
        with torch.device("meta"):  # no memory
            weights = Router(config).state_dict()
        found = {key: tuple(weight.shape) for key, weight in weights.items()}
        assert found == weight_shapes(config)
