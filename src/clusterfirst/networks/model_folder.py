"""Models as folders: weights, configuration, provenance, hashed, and a card.

`model.safetensors` (weights, the frozen Psi and the city's coordinates for models of
one city), `config.json`, `provenance.json`, `manifest.json` with the SHA-256 of each,
and `README.md`, the model card, which people complete and which is therefore not
hashed. Loading checks the hashes, the shapes and that every number is finite, and
never unpickles.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from clusterfirst.files.source import named, read_bytes
from clusterfirst.files.verified_folder import (
    MANIFEST,
    MAX_MANIFEST,
    read_listed,
    write_folder,
)
from clusterfirst.networks.config import KNOWS_CITY, ModelConfig, weight_shapes
from clusterfirst.networks.network import Network
from clusterfirst.problem.city import City
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import Instance, IntArray

Array = npt.NDArray[Any]
FORMAT = 1
WEIGHTS = "model.safetensors"
FILES = (WEIGHTS, "config.json", "provenance.json")
CARD = "README.md"
CITY_COORDS = "city.coords"
PSI = "seed.input.psi"
MAX_BYTES = 200_000_000
TOLERANCE = 0.05  # by which an instance may leave the trained range without a word
MATCH = 1e-6  # of the city's extent: how near a location must be to be known


@dataclass(frozen=True)
class Model:
    """Trained networks, and what they were trained for."""

    name: str
    config: ModelConfig
    weights: dict[str, Array]  # by the names of `weight_shapes`
    provenance: dict[str, Any]  # passes, hours, labels, trained range, validation gap
    city: City | None = None  # for models with the psi input

    @cached_property
    def network(self) -> Network:
        """The networks, ready to answer."""
        return Network(self.config, self.weights)

    def num_parameters(self) -> int:
        """Learned numbers, Psi left out (it is frozen)."""
        return sum(w.size for key, w in self.weights.items() if key != PSI)

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
        rows, known = instance.city_rows, instance.city_hash == self.city.hash
        # A city that has grown since has rows of which only the place is known.
        if rows is not None and known and rows.max(initial=0) < len(self.city.coords):
            return rows
        if instance.coords is None or instance.metric != self.city.metric:
            city = self.city.name or "another city"
            rule = f"model {self.name} knows only {city}; use --model general"
            raise InputError(Problem("E405", "instance", instance.metric, rule))
        away, nearest = self._tree.query(instance.coords)
        extent = float(np.ptp(self.city.coords, axis=0).max())
        unknown = np.flatnonzero(away > MATCH * extent)
        if 2 * len(unknown) > len(instance.coords) and not borrow:
            city = self.city.name or "its own city"
            rule = f"model {self.name} knows {city} only; use --model general"
            got = f"another place: {len(unknown)} of {len(away)} locations unknown"
            raise InputError(Problem("E405", "instance", got, rule))
        if len(unknown) and not borrow:
            worst = int(unknown[np.argmax(away[unknown])])
            rule = (
                f"model {self.name} knows only the locations of its city, and "
                f"{instance.ids[worst]} is {away[worst]:.4g} from the nearest; use "
                "--new-locations nearest, or --model general"
            )
            got = f"{len(unknown)} unknown locations"
            raise InputError(Problem("E405", "instance", got, rule))
        found: IntArray = nearest.astype(np.int64)
        return found

    def outside(self, instance: Instance) -> list[str]:
        """Sentences on what of this instance lies outside of what training has seen."""
        return [
            f"W723 outside of what model {self.name} was trained on: {words}; compare "
            "its answer with --method fisher-jaikumar"
            for words in self.strange(instance).values()
        ]

    def strange(self, instance: Instance) -> dict[str, str]:
        """What of this instance training has not seen, by name, in words."""
        reach = self.provenance.get("reach")
        n = instance.num_customers
        if not isinstance(reach, dict) or n == 0:
            return {}
        share = instance.demand_units[1:] / instance.capacity_units
        found = {
            "customers": (n, "customers"),
            "per_route": (min(n, n / max(share.sum(), 1e-9)), "customers per route"),
            "largest_share": (share.max(), "of a vehicle for the largest demand"),
        }
        words = {}
        for name, (value, unit) in found.items():
            try:
                low, high = map(float, reach[name])
            except (KeyError, TypeError, ValueError):  # nobody wrote it down
                continue
            if not low * (1 - TOLERANCE) <= value <= high * (1 + TOLERANCE):
                words[name] = (
                    f"{_plain(value)} {unit}, trained on {_plain(low)} to "
                    f"{_plain(high)}"
                )
        return words


def _plain(value: float) -> str:
    """A number as people write it: never 1e+03."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def all_training(provenance: dict[str, Any]) -> tuple[int, float]:
    """Passes and seconds of a run and of the weights it began with, as far as known."""
    runs = [r for r in (provenance, provenance.get("before")) if isinstance(r, dict)]
    passes = [run.get("passes") for run in runs]
    seconds = [run.get("training_seconds") for run in runs]
    return (
        sum(value for value in passes if isinstance(value, int)),
        sum(value for value in seconds if isinstance(value, float)),
    )


def save_model(folder: Path, model: Model, card: str) -> None:
    """Write a model folder in one step."""
    tensors = {key: np.array(w, order="C") for key, w in model.weights.items()}
    config: dict[str, Any] = {"format": FORMAT, "networks": model.config.as_dict()}
    if model.city is not None:
        tensors[CITY_COORDS] = model.city.coords.copy()
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
        },
        unlisted={CARD: card.encode()},
    )


def load_model(name: str | Path) -> Model:
    """Load a shipped model by name, or a model folder by path; each one once.

    A folder that was written again has another manifest and is read again.
    """
    folder = find_model(name)
    try:
        manifest = read_bytes(folder / MANIFEST, MAX_MANIFEST)
    except InputError as error:
        raise _damaged(folder, error) from error
    return _loaded(folder.resolve(), manifest)


@lru_cache(maxsize=8)
def _loaded(folder: Path, manifest: bytes) -> Model:
    return read_model(folder)


def find_model(name: str | Path) -> Path:
    """Return the folder of a shipped model or of a path, if it is a model's."""
    folder = shipped().get(str(name), Path(name))
    if not _is_model(folder):
        known = ", ".join(shipped()) or "none"
        rule = f"no such model folder; shipped models: {known}"
        raise InputError(Problem("E403", "model", str(name), rule))
    return folder


def read_model(folder: Path) -> Model:
    """Read and verify a model folder, whatever was read before."""
    try:
        files = _read(folder)
        config = _object(files, "config.json")
        provenance = _object(files, "provenance.json")
    except (OSError, ValueError) as error:
        raise _damaged(folder, error) from error
    if config.get("format") != FORMAT:
        rule = f"this program reads model format {FORMAT}"
        got = str(config.get("format"))
        raise InputError(Problem("E708", f"model {folder.name}", got, rule))
    try:
        tensors = load(files[WEIGHTS])
    except (ValueError, KeyError, SafetensorError) as error:
        raise _damaged(folder, error) from error
    networks = ModelConfig.from_dict(config.get("networks"))
    city = None
    if networks.input in KNOWS_CITY:
        coords = tensors.pop(CITY_COORDS, None)
        city = _city(folder.name, config.get("city"), coords, networks.psi_rows)
    _check_weights(folder.name, networks, tensors)
    return Model(folder.name, networks, tensors, provenance, city)


def _is_model(folder: Path) -> bool:
    try:
        return (folder / MANIFEST).is_file()
    except OSError:  # for example a name that is too long
        return False


def _damaged(folder: Path, error: Exception) -> InputError:
    rule = "the folder is damaged; install or train the model again"
    return InputError(Problem("E701", f"model {folder.name}", str(error), rule))


def _read(folder: Path) -> dict[str, bytes]:
    """The files of a model, each as its manifest says; no other file is opened."""
    files = {}
    manifest = _parsed(read_bytes(folder / MANIFEST, MAX_MANIFEST), MANIFEST)
    if set(manifest) - {CARD} != set(FILES):  # it was listed once
        raise ValueError(f"{MANIFEST} does not list {', '.join(FILES)}")
    for name in FILES:
        with named(folder / name):
            files[name] = read_listed(folder, name, manifest[name], MAX_BYTES)
    return files


def _object(files: dict[str, bytes], name: str) -> dict[str, Any]:
    return _parsed(files[name], name)


def _parsed(data: bytes, name: str) -> dict[str, Any]:
    """A JSON object, or ValueError."""
    try:
        values = json.loads(data)
    except RecursionError:
        values = None
    except ValueError as error:
        raise ValueError(f"{name} is not JSON ({error})") from error
    if not isinstance(values, dict):
        raise ValueError(f"{name} is no JSON object")
    return values


def _check_weights(name: str, config: ModelConfig, found: dict[str, Array]) -> None:
    """Refuse wrong names, shapes and numbers."""
    wanted = weight_shapes(config)
    for key, shape in wanted.items():
        if _kind(found.get(key)) != f"float32 {list(shape)}":
            got = f"{key} {_kind(found.get(key))}"
            rule = f"config.json asks for float32 {list(shape)}"
            raise InputError(Problem("E704", f"model {name}", got, rule))
        _require_finite(name, key, found[key])
    for key in found.keys() - wanted.keys():
        rule = "config.json knows no weights of this name"
        raise InputError(Problem("E704", f"model {name}", key, rule))


def _kind(array: Array | None) -> str:
    return "missing" if array is None else f"{array.dtype} {list(array.shape)}"


def _require_finite(name: str, key: str, array: Array) -> None:
    if not np.isfinite(array).all():
        rule = "every number must be finite"
        raise InputError(Problem("E705", f"model {name}", key, rule))


def _city(name: str, about: Any, coords: Array | None, rows: int) -> City:
    """The city a model was trained for, checked against its hash."""
    keys = ("metric", "name", "sha256")
    listed = isinstance(about, dict) and all(
        isinstance(about.get(key), str) for key in keys
    )
    if not listed or coords is None or _kind(coords) != f"float64 [{rows}, 2]":
        got = f"{CITY_COORDS} {_kind(coords)}"
        rule = f"a city with {', '.join(keys)} and one place per row of Psi is needed"
        raise InputError(Problem("E704", f"model {name}", got, rule))
    _require_finite(name, CITY_COORDS, coords)
    city = City(coords, metric=about["metric"], name=about["name"])
    if city.hash != about["sha256"]:
        rule = "the stored city must match its hash"
        raise InputError(Problem("E706", f"model {name}", city.hash, rule))
    return city


def shipped() -> dict[str, Path]:
    """Models that come with the package, by name."""
    root = Path(str(resources.files("clusterfirst"))) / "models"
    return {
        folder.name: folder
        for folder in sorted(root.glob("*"))
        if (folder / MANIFEST).is_file()
    }
