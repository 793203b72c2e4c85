"""Models as folders: weights, configuration, card, provenance, all hashed.

`model.safetensors` (weights, the frozen Psi and the city's coordinates for models of
one city), `config.json`, `provenance.json`, `README.md` (the model card) and
`manifest.json` with the SHA-256 of each. Loading checks the hashes, the shapes and
that every number is finite, and never unpickles.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from clusterfirst.checkpoint import MANIFEST, read_folder, write_folder
from clusterfirst.city import City
from clusterfirst.errors import InputError, Problem
from clusterfirst.instance import FloatArray, Instance, IntArray
from clusterfirst.model import ModelConfig, Router

FORMAT = 1
WEIGHTS = "model.safetensors"
CITY_COORDS = "city.coords"
MAX_BYTES = 200_000_000
MATCH = 1e-6  # of the city's extent: how near a location must be to be known


@dataclass(frozen=True)
class Model:
    """A trained router, and what it was trained for."""

    name: str
    router: Router
    provenance: dict[str, Any]  # passes, hours, labels, trained range, validation gap
    city: City | None = None  # for models with the psi input

    @property
    def config(self) -> ModelConfig:
        """The configuration of the networks."""
        return self.router.config

    @cached_property
    def _tree(self) -> Any:
        from scipy.spatial import cKDTree

        assert self.city is not None
        return cKDTree(self.city.coords)

    def rows_of(self, instance: Instance, *, borrow: bool = False) -> IntArray | None:
        """Rows of the model's city, or None for models that need no city.

        An instance that does not remember its rows is matched by position;
        `borrow` lets an unknown location use its nearest known one.
        """
        if self.city is None:
            return None
        if instance.city_rows is not None and instance.city_hash == self.city.hash:
            return instance.city_rows
        if instance.coords is None or instance.metric != self.city.metric:
            rule = f"model {self.name} knows its city by {self.city.metric} coordinates"
            raise InputError(Problem("E405", "instance", instance.metric, rule))
        away, rows = self._tree.query(instance.coords)
        extent = float(np.ptp(self.city.coords, axis=0).max())
        unknown = np.flatnonzero(away > MATCH * extent)
        if len(unknown) and not borrow:
            worst = int(unknown[np.argmax(away[unknown])])
            rule = (
                f"model {self.name} knows only the locations of its city, and "
                f"{instance.ids[worst]} is {away[worst]:.4g} from the nearest; use "
                "--new-locations nearest, or --model general"
            )
            got = f"{len(unknown)} unknown locations"
            raise InputError(Problem("E405", "instance", got, rule))
        found: IntArray = rows.astype(np.int64)
        return found


def save_model(folder: Path, model: Model, card: str) -> None:
    """Write a model folder in one step."""
    tensors = {k: v.detach().contiguous() for k, v in model.router.state_dict().items()}
    config: dict[str, Any] = {"format": FORMAT, "networks": model.config.as_dict()}
    if model.city is not None:
        tensors[CITY_COORDS] = torch.from_numpy(model.city.coords.copy())
        config["city"] = {
            "name": model.city.name,
            "metric": model.city.metric,
            "sha256": model.city.hash,
        }
    write_folder(
        folder,
        {
            WEIGHTS: save(tensors),
            "config.json": json.dumps(config, indent=1).encode(),
            "provenance.json": json.dumps(model.provenance, indent=1).encode(),
            "README.md": card.encode(),
        },
    )


def load_model(name: str | Path) -> Model:
    """Load a shipped model by name, or a model folder by path."""
    folder = shipped().get(str(name), Path(name))
    if not (folder / MANIFEST).is_file():
        known = ", ".join(shipped()) or "none"
        rule = f"no such model folder; shipped models: {known}"
        raise InputError(Problem("E403", "model", str(name), rule))
    try:
        files = read_folder(folder)
        config = json.loads(files["config.json"])
        tensors = load(files[WEIGHTS])
        provenance = json.loads(files["provenance.json"])
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        rule = "the folder is damaged; install or train the model again"
        raise InputError(Problem("E701", f"model {name}", str(error), rule)) from error
    if config.get("format") != FORMAT:
        rule = f"this program reads model format {FORMAT}"
        got = str(config.get("format"))
        raise InputError(Problem("E708", f"model {name}", got, rule))
    return _build(folder.name, config, tensors, provenance)


def _build(
    name: str,
    config: dict[str, Any],
    tensors: dict[str, torch.Tensor],
    provenance: dict[str, Any],
) -> Model:
    """Networks from verified bytes; wrong shapes and numbers are refused."""
    coords = tensors.pop(CITY_COORDS, None)
    for key, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            rule = "every weight must be finite"
            raise InputError(Problem("E705", f"model {name}", key, rule))
    router = Router(ModelConfig.from_dict(config["networks"]))
    try:
        router.load_state_dict(tensors)
    except RuntimeError as error:
        rule = "names and shapes of the weights must fit config.json"
        got = " ".join(str(error).split())
        raise InputError(Problem("E704", f"model {name}", got, rule)) from error
    city = None
    if coords is not None:
        points: FloatArray = coords.numpy()
        about = config["city"]
        city = City(points, metric=about["metric"], name=about["name"])
        if city.hash != about["sha256"]:
            rule = "the stored city must match its hash"
            raise InputError(Problem("E706", f"model {name}", city.hash, rule))
    router.eval()
    return Model(name, router, provenance, city)


def shipped() -> dict[str, Path]:
    """Models that come with the package, by name."""
    root = Path(str(resources.files("clusterfirst"))) / "models"
    return {
        folder.name: folder
        for folder in sorted(root.glob("*"))
        if (folder / MANIFEST).is_file()
    }
