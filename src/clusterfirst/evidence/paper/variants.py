"""Which weights a row of the paper needs, by name, and whether they are here.

`city-INPUT[-plain][-one-layer]`: psi or xy, plain is without L_BCE; `general` was
trained on i.i.d. instances. A name is looked up among the given folders, then among
the shipped models, so weights that appear later need no change here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from clusterfirst.files.verified_folder import manifest_hash
from clusterfirst.networks.model_folder import Model, find_model, load_model, shipped
from clusterfirst.problem.errors import InputError, Problem

GENERAL = "general"
INPUTS = {"psi": "Ψ", "xy": "x, y"}


@dataclass(frozen=True)
class Variant:
    """A model of the ablation: its input, its loss and its depth."""

    input: str
    bce: bool
    one_layer: bool

    @property
    def name(self) -> str:
        """The name its weights go by."""
        plain = "" if self.bce else "-plain"
        return f"city-{self.input}{plain}{'-one-layer' if self.one_layer else ''}"

    @property
    def label(self) -> str:
        """As the paper writes it."""
        loss = "+ BCE" if self.bce else "w/o BCE"
        return f"{'1-layer ' if self.one_layer else ''}({INPUTS[self.input]} {loss})"


SIX_LAYERS = tuple(Variant(i, b, False) for i in INPUTS for b in (True, False))
ONE_LAYER = tuple(Variant(i, b, True) for i in INPUTS for b in (True, False))
VARIANTS = {variant.name: variant for variant in SIX_LAYERS + ONE_LAYER}
# The paper's best configuration of the city first; then what may stand in for it.
CITY_MODELS = ("city-psi", "city-psi-one-layer")


@dataclass(frozen=True)
class Weights:
    """A model that is here."""

    name: str
    folder: str
    digest: str  # of its manifest: other weights, other runs


class Models:
    """Weights by the names of this module."""

    def __init__(self, given: Mapping[str, Path] | None = None) -> None:
        self._given = dict(given or {})
        self._found: dict[str, Weights | None] = {}
        for name, folder in self._given.items():
            if name != GENERAL and name not in VARIANTS:
                rule = f"must be one of {', '.join([*VARIANTS, GENERAL])}"
                raise InputError(Problem("E403", "--model", name, rule))
            _require_kind(name, load_model(find_model(folder)))

    def find(self, name: str) -> Weights | None:
        """The weights of this name, or None where they do not exist yet."""
        if name not in self._found:
            self._found[name] = self._look(name)
        return self._found[name]

    def _look(self, name: str) -> Weights | None:
        folder = self._given.get(name) or shipped().get(name)
        if folder is None:
            return None
        return Weights(name, str(folder), manifest_hash(folder)[:12])

    def city_model(self) -> str:
        """The best model of the city that is here; else the name to wait for."""
        here = [name for name in CITY_MODELS if self.find(name) is not None]
        return here[0] if here else CITY_MODELS[0]

    def about(self, name: str) -> str:
        """One line about weights that are here."""
        weights = self.find(name)
        assert weights is not None
        model = load_model(weights.folder)
        config, passes = model.config, model.provenance.get("passes", "unknown")
        return (
            f"{name}: input {config.input}, {config.seed_layers}+"
            f"{config.cluster_layers} layers, {model.num_parameters():,} "
            f"parameters, {passes} training passes, weights {weights.digest}"
        )


def _require_kind(name: str, model: Model) -> None:
    """A row must not carry the figures of another kind of model."""
    variant, config = VARIANTS.get(name), model.config
    if variant is None:
        return
    losses = model.provenance.get("config", {}).get("losses", {})
    facts = {
        "input": (config.input.split("+")[0], variant.input),  # psi+relative has psi
        "L_BCE": (losses.get("bce", variant.bce), variant.bce),
        "one layer": (config.seed_layers == 1, variant.one_layer),
    }
    for what, (got, wanted) in facts.items():
        if got != wanted:
            rule = f"{what} is {got} there and {wanted} in the row {name}"
            raise InputError(Problem("E403", "--model", model.name, rule))
