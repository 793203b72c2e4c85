"""Models on disk: what is saved is what is loaded, and damage is refused."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

from clusterfirst.files.verified_folder import MANIFEST
from clusterfirst.networks.model_folder import (
    CARD,
    CITY_COORDS,
    FILES,
    WEIGHTS,
    Model,
    find_model,
    load_model,
    read_model,
    save_model,
    shipped,
)
from clusterfirst.networks.neural import NeuralScorer
from clusterfirst.problem.errors import InputError
from clusterfirst.problem.instance import Instance
from clusterfirst.solving.solver import SolveOptions, solve
from networks import PSI, RELATIVE, small_city, small_day, small_model


def psi_model() -> Model:
    """A small untrained model of the small city."""
    return small_model("small", PSI, {"passes": 3})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the small model."""
    save_model(tmp_path / "model", psi_model(), "# A card\n")
    return tmp_path / "model"


def rewrite(folder: Path, name: str, data: bytes) -> None:
    """Replace a file and make the manifest agree, as an attacker would."""
    (folder / name).write_bytes(data)
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / MANIFEST).write_text(json.dumps(manifest))


def edit(folder: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Change a JSON file or the tensors, hashes included."""
    if name == WEIGHTS:
        tensors = load((folder / name).read_bytes())
        rewrite(folder, name, save(change(tensors) or tensors))
        return
    values = json.loads((folder / name).read_text())
    rewrite(folder, name, json.dumps(change(values) or values).encode())


def refusal(folder: Path) -> str:
    """The one sentence with which a folder is refused."""
    with pytest.raises(InputError) as caught:
        read_model(find_model(folder))
    (line,) = caught.value.lines()
    return line


@pytest.mark.parametrize("kind", ["psi", "relative"])
def test_round_trip(tmp_path: Path, kind: str) -> None:
    """A loaded model has the same weights, city and provenance and scores the same."""
    model = psi_model()
    if kind == "relative":
        model = small_model("general", RELATIVE, {"passes": 1})
    save_model(tmp_path / "model", model, "card")
    found = load_model(tmp_path / "model")
    assert found.config == model.config
    assert found.provenance == model.provenance
    assert (found.city is None) == (kind == "relative")
    assert model.weights.keys() == found.weights.keys()
    assert all(np.array_equal(w, found.weights[k]) for k, w in model.weights.items())
    day = small_day(20)
    scores = [
        NeuralScorer(each.network, day, each.rows_of(day))(3) for each in (model, found)
    ]
    assert np.array_equal(scores[0].cost, scores[1].cost)


def test_a_folder_written_again_is_read_again(folder: Path) -> None:
    """Models are kept in memory, but never an old one for a new folder."""
    first = load_model(folder)
    assert load_model(folder) is first
    save_model(folder, small_model("small", PSI, seed=1), "")
    second = load_model(folder)
    mine, theirs = (m.weights["cluster.role.weight"] for m in (first, second))
    assert not np.array_equal(mine, theirs)


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    """Writing twice gives equal files: hashes identify a model."""
    for name in ("a", "b"):
        save_model(tmp_path / name, psi_model(), "card")
    for name in (*FILES, MANIFEST):
        one, other = ((tmp_path / f / name).read_bytes() for f in "ab")
        assert one == other


def test_every_flipped_byte_is_noticed(folder: Path) -> None:
    """One changed byte anywhere in any file is refused (places sampled)."""
    rng = np.random.default_rng(0)
    for name in FILES:
        data = (folder / name).read_bytes()
        for place in {0, len(data) - 1, *rng.integers(len(data), size=12).tolist()}:
            broken = bytearray(data)
            broken[place] ^= 1 << int(rng.integers(8))
            (folder / name).write_bytes(bytes(broken))
            assert name in refusal(folder)
        (folder / name).write_bytes(data)
    load_model(folder)


def test_every_truncation_is_noticed(folder: Path) -> None:
    """Files cut short, empty or gone are refused."""
    for name in (*FILES, MANIFEST):
        data = (folder / name).read_bytes()
        for size in (0, 1, len(data) // 2, len(data) - 1):
            (folder / name).write_bytes(data[:size])
            assert refusal(folder).startswith("E701")
        (folder / name).unlink()
        assert refusal(folder)[:4] == ("E403" if name == MANIFEST else "E701")
        (folder / name).write_bytes(data)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("where", ["cluster.gamma", "seed.input.psi", CITY_COORDS])
def test_numbers_that_are_none(folder: Path, value: float, where: str) -> None:
    """NaN and infinity among weights, Psi or places are refused by name."""

    def spoil(tensors: dict[str, np.ndarray]) -> None:
        tensors[where] = tensors[where].copy()
        tensors[where].reshape(-1)[0] = value

    edit(folder, WEIGHTS, spoil)
    assert refusal(folder).startswith("E705")
    assert where in refusal(folder)


def _without(key: str) -> Callable[[dict[str, Any]], Any]:
    return lambda tensors: {k: v for k, v in tensors.items() if k != key}


TENSORS: dict[str, Callable[[dict[str, np.ndarray]], Any]] = {
    "wrong shape": lambda t: t.update({"cluster.gamma": np.zeros(2, np.float32)}),
    "wrong type": lambda t: t.update({"cluster.gamma": np.array(1.0)}),
    "half precision": lambda t: {k: v.astype(np.float16) for k, v in t.items()},
    "whole numbers": lambda t: t.update({"cluster.beta": np.array(1)}),
    "an extra tensor": lambda t: t.update({"extra": np.zeros(1, np.float32)}),
    "a missing tensor": _without("cluster.gamma"),
    "no city": _without(CITY_COORDS),
    "another city": lambda t: t.update({CITY_COORDS: t[CITY_COORDS] + 1}),
    "a larger city": lambda t: t.update({CITY_COORDS: np.tile(t[CITY_COORDS], (2, 1))}),
    "no tensors": lambda t: {"nothing": np.zeros(1, np.float32)},
}


@pytest.mark.parametrize("damage", sorted(TENSORS))
def test_tensors_that_do_not_fit(folder: Path, damage: str) -> None:
    """Wrong names, shapes, types or cities are refused although the hashes agree."""
    edit(folder, WEIGHTS, TENSORS[damage])
    assert refusal(folder)[:4] in ("E704", "E706")


CONFIGS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "future format": ("E708", lambda c: c.update(format=2)),
    "no format": ("E708", lambda c: c.pop("format") and None),
    "no networks": ("E704", lambda c: c.pop("networks") and None),
    "networks are a list": ("E704", lambda c: c.update(networks=[1])),
    "a list": ("E701", lambda c: [c]),
    "null": ("E701", lambda c: [None]),
    "another width": ("E704", lambda c: c["networks"].update(width=32)),
    "a huge width": ("E704", lambda c: c["networks"].update(width=10**12)),
    "a huge Psi": ("E704", lambda c: c["networks"].update(psi_rows=100_000)),
    "no city": ("E704", lambda c: c.pop("city") and None),
    "city without hash": ("E704", lambda c: c["city"].pop("sha256") and None),
    "city name": ("E704", lambda c: c["city"].update(name=3)),
    "metric": ("E120", lambda c: c["city"].update(metric="lunar")),
}


@pytest.mark.parametrize("damage", sorted(CONFIGS))
def test_configurations_that_do_not_fit(folder: Path, damage: str) -> None:
    """config.json from another version, or hostile, gets one sentence."""
    code, change = CONFIGS[damage]
    edit(folder, "config.json", change)
    assert refusal(folder).startswith(code)


def test_a_card_may_be_completed(folder: Path) -> None:
    """The card is people's: writing, or losing, it does not damage a model."""
    (folder / CARD).write_text("# Ours\n\nNow with the gaps of our city.\n")
    read_model(folder)
    (folder / CARD).unlink()
    read_model(folder)
    manifest = json.loads((folder / MANIFEST).read_text())
    assert CARD not in manifest
    manifest[CARD] = {"bytes": 1, "sha256": "of an older card"}
    (folder / MANIFEST).write_text(json.dumps(manifest))
    read_model(folder)


def test_nothing_is_unpickled(folder: Path) -> None:
    """A pickle under the name of the weights is refused and never run."""

    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (folder / "exploded",))

    rewrite(folder, WEIGHTS, pickle.dumps(Bomb()))
    assert refusal(folder).startswith("E701")
    import torch

    torch.save({"weights": Bomb()}, folder / WEIGHTS)
    rewrite(folder, WEIGHTS, (folder / WEIGHTS).read_bytes())
    assert refusal(folder).startswith("E701")
    assert not (folder / "exploded").exists()


MANIFESTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "parent": lambda m: m.update({"../secret": m[WEIGHTS]}),
    "absolute": lambda m: m.update({"/etc/passwd": m[WEIGHTS]}),
    "dots": lambda m: m.update({"..": m[WEIGHTS]}),
    "empty name": lambda m: m.update({"": m[WEIGHTS]}),
    "strings": lambda m: {name: "abc" for name in m},
    "numbers": lambda m: {name: 7 for name in m},
    "list": lambda m: [m],
    "nothing": lambda m: {"": None},
    "no hash": lambda m: m[WEIGHTS].pop("sha256") and None,
}


@pytest.mark.parametrize("trick", sorted(MANIFESTS))
def test_tricks_in_the_manifest(folder: Path, trick: str) -> None:
    """Only the files of a model are read, whatever the manifest lists."""
    manifest = json.loads((folder / MANIFEST).read_text())
    changed = MANIFESTS[trick](manifest) or manifest
    (folder / MANIFEST).write_text(json.dumps(changed))
    assert refusal(folder).startswith("E701")


def test_bottomless_json(folder: Path) -> None:
    """JSON nested too deeply is refused, not followed."""
    (folder / MANIFEST).write_text("[" * 200_000)
    assert refusal(folder).startswith("E701")
    (folder / MANIFEST).write_bytes(b'{"a": \xff}')
    assert refusal(folder).startswith("E701")


@pytest.mark.parametrize("name", ["nowhere", "", "a\0b", "x" * 5000, "/"])
def test_no_such_model(name: str) -> None:
    """A name that leads nowhere is answered with the names that do."""
    with pytest.raises(InputError, match=r"E403 model: .*shipped models: "):
        load_model(name)


def test_shipped_models_verify() -> None:
    """Every model that comes with the package loads."""
    for name in shipped():
        assert load_model(name).name == name


# --- matching an instance to the city of a model ----------------------------------


def test_rows_are_kept_or_found_by_position() -> None:
    """A day remembers its rows; without them, places are matched within 1e-6."""
    model, day = psi_model(), small_day(25)
    assert day.coords is not None
    assert np.array_equal(model.rows_of(day), day.city_rows)
    bare = day.replace(city_rows=None, city_hash="")
    assert np.array_equal(model.rows_of(bare), day.city_rows)
    shaken = bare.replace(coords=day.coords + 5e-7)
    assert np.array_equal(model.rows_of(shaken), day.city_rows)
    other = day.replace(city_hash="0" * 64)  # rows of some other city say nothing
    assert np.array_equal(model.rows_of(other), day.city_rows)


def test_unknown_locations_get_a_sentence() -> None:
    """It says how many, how far, and the two ways out."""
    model, day = psi_model(), small_day(25)
    assert day.coords is not None
    coords = day.coords.copy()
    coords[[4, 9]] += [[0.3, 0.0], [2.0, 0.0]]
    away = day.replace(coords=coords, city_rows=None, city_hash="")
    with pytest.raises(InputError) as caught:
        model.rows_of(away)
    (line,) = caught.value.lines()
    assert "2 unknown locations" in line
    nearest = np.linalg.norm(small_city().coords - coords[9], axis=1).min()
    assert f"{nearest:.4g}" in line
    assert "--new-locations nearest" in line
    assert "--model general" in line


def test_unknown_locations_may_borrow_their_nearest() -> None:
    """borrow gives an unknown place the row of the nearest known one."""
    model, day = psi_model(), small_day(25)
    assert day.coords is not None
    coords = day.coords.copy()
    coords[4] += 0.2
    away = day.replace(coords=coords, city_rows=None, city_hash="")
    rows = model.rows_of(away, borrow=True)
    assert rows is not None
    gaps = np.linalg.norm(small_city().coords - coords[4], axis=1)
    assert rows[4] == gaps.argmin()
    known = np.arange(26) != 4
    assert day.city_rows is not None
    assert np.array_equal(rows[known], day.city_rows[known])


def test_rows_beyond_the_city_are_matched_by_position() -> None:
    """A city that has grown since, or a file that lies, cannot crash the networks."""
    day = small_day(3)
    lying = day.replace(city_rows=np.array([0, 1, 2, 121]))
    found = psi_model().rows_of(lying)
    assert found is not None
    assert found.tolist() == day.city_rows.tolist()  # type: ignore[union-attr]
    assert day.coords is not None
    elsewhere = np.vstack([day.coords[:3], [[0.123, 0.987]]])
    with pytest.raises(InputError, match="1 unknown location"):
        psi_model().rows_of(lying.replace(coords=elsewhere))


def test_another_metric_is_refused() -> None:
    """Degrees are not the plane: a day on the globe is not in this city."""
    day = small_day(3).replace(metric="greatcircle", city_rows=None, city_hash="")
    with pytest.raises(InputError, match="--model general"):
        psi_model().rows_of(day)


def test_models_without_a_city_need_no_rows() -> None:
    """The general model takes any instance."""
    model = small_model("general", RELATIVE)
    assert model.rows_of(small_day(3)) is None


REACH = {"customers": [20, 40], "per_route": [2, 12], "largest_share": [0.1, 0.4]}


def test_an_instance_outside_of_the_training_gets_a_sentence(tmp_path: Path) -> None:
    """Too many customers, long routes, large demands: each is said, and noted."""
    model = small_model("small", RELATIVE, {"reach": REACH})
    day = small_day(30)
    assert model.outside(day) == []
    assert "50 customers, trained on 20 to 40" in "".join(model.outside(small_day(50)))
    far = small_model("far", RELATIVE, {"reach": {"customers": [1e3, 1e5]}})
    assert "30 customers, trained on 1,000 to 100,000;" in far.outside(day)[0]
    wide = replace(day, capacity=500)  # nearly everybody in one route, tiny shares
    assert "customers per route" in "".join(model.outside(wide))
    tight = replace(day, capacity=12)
    assert "largest demand" in "".join(model.outside(tight))
    save_model(tmp_path / "model", model, "card")
    options = SolveOptions(
        method="neural", model=str(tmp_path / "model"), iterations=1, polish=False
    )
    assert any("W723" in note for note in solve(small_day(50), options).notes)
    assert not any("W723" in note for note in solve(day, options).notes)


@pytest.mark.parametrize("reach", [None, [], {}, {"customers": "x"}, {"per_route": 3}])
def test_a_range_nobody_can_read_is_no_range(reach: object) -> None:
    """Provenance is anybody's text: it never stops an answer."""
    model = small_model("small", RELATIVE, {"reach": reach})
    assert model.outside(small_day(30)) == []


def test_a_model_of_one_city_says_so_elsewhere() -> None:
    """Another city gets the sentence that helps, not a distance (B14)."""
    model = load_model("city-psi")
    assert model.city is not None
    elsewhere = Instance(
        [0, 1, 2], 3, coords=model.city.coords[:3] + 77.0, metric=model.city.metric
    )
    with pytest.raises(InputError, match=r"another place.*use --model general"):
        model.rows_of(elsewhere)
