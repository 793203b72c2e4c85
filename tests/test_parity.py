"""Two forwards, one network: numpy answers what torch has learned."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

from clusterfirst.networks.model_folder import load_model, shipped
from clusterfirst.networks.trainable.router import router_of
from networks import KINDS, small_day, small_model

MOST = 1e-4  # of Delta
ROOT = Path(__file__).parent.parent


@pytest.fixture
def parity(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script benchmarks/parity.py, which compares on a thousand."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("parity")


@pytest.mark.parametrize("name", sorted(shipped()))
def test_shipped_models_answer_alike(name: str, parity: ModuleType) -> None:
    """The same seeds and the same Delta on days of cities, worlds, grids and piles."""
    model = load_model(name)
    for kind in parity.KINDS:
        for found in parity.each(model, kind, 4):
            assert not found.seeds
            assert found.delta <= MOST


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("customers", [1, 2, 7, 40])
def test_every_kind_of_network_answers_alike(
    kind: str, customers: int, parity: ModuleType
) -> None:
    """All inputs, with and without pair features, as far as weights are random."""
    model = small_model("small", KINDS[kind])
    router = router_of(model.config, model.weights)
    found = parity.compare(model, router, small_day(customers))
    assert not found.seeds
    assert found.delta <= MOST


def test_a_thousand_of_each_model_are_on_record(parity: ModuleType) -> None:
    """The long comparison was run for every shipped model and kind, and held."""
    path = ROOT / "benchmarks" / "results" / "parity.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert {row["model"] for row in rows} == set(shipped())
    for name in shipped():
        own = [row for row in rows if row["model"] == name]
        assert {row["kind"] for row in own} == set(parity.KINDS)
        assert sum(row["instances"] for row in own) >= 1000
        assert all(row["delta"] <= MOST and not row["other_seeds"] for row in own)
