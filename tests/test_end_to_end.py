"""Everything once, tiny: city, pre-training, labels, training, model, routes."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from clusterfirst.learning.labels.labelset import read_labels
from clusterfirst.learning.labels.making import LabelOptions, label
from clusterfirst.learning.labels.pool import LabelPool
from clusterfirst.learning.labels.sources import city_days
from clusterfirst.learning.training.batches import BatchSettings
from clusterfirst.learning.training.loop import TrainConfig, Trainer
from clusterfirst.learning.training.pretraining import pretrain
from clusterfirst.networks.model_folder import Model, load_model, save_model
from clusterfirst.networks.trainable.embed import EmbedSettings
from clusterfirst.problem.city import City
from clusterfirst.problem.sampling import sample_city, sample_day
from clusterfirst.problem.solution import judge
from clusterfirst.solving.explaining.explain import explain
from clusterfirst.solving.solver import SolveOptions, solve
from networks import PSI

CUSTOMERS = 20
EMBED = EmbedSettings(
    layers=1,
    heads=2,
    width=16,
    feedforward=32,
    psi_width=8,
    k_attn=6,
    k_target=12,
    maskings=2,
    epochs=10,
    cooldown=5,
)
TRAIN = TrainConfig(
    model=replace(PSI, psi_rows=81, raw_demand=False, fill="mean"),
    steps=8,
    batches=BatchSettings(tokens=4 * (CUSTOMERS + 1), least_customers=8),
)


@pytest.fixture(scope="module")
def city() -> City:
    """A city of eighty locations."""
    return sample_city(80, seed=11, name="tiny")


@pytest.fixture(scope="module")
def folder(city: City, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the tiny city, made from nothing."""
    pytest.importorskip("hygese", reason="labels need the extra 'labels'")
    place = tmp_path_factory.mktemp("tiny")
    psi = pretrain(city, EMBED, place / "psi").psi
    options = LabelOptions(customers=CUSTOMERS, count=6, iterations=60)
    label(city_days(city, seed=1), place / "labels", options)
    pool = LabelPool.of_set(read_labels(place / "labels"))
    trainer = Trainer(TRAIN, psi)
    assert len(list(trainer.run(pool, until=TRAIN.steps))) == TRAIN.steps
    weights = trainer.averaged.weights()
    model = Model("tiny", TRAIN.model, weights, {"steps": TRAIN.steps}, city)
    save_model(place / "model", model, "# tiny\n")
    return place / "model"


@pytest.mark.parametrize(
    ("assign", "fleet"),
    [*product(["exact", "sparse", "hard", "fast"], ["kmin", "best"])],
)
def test_every_decoding_and_fleet(
    city: City, folder: Path, assign: str, fleet: str
) -> None:
    """A day the model never saw is solved and judged, with no search behind it."""
    day = sample_day(city, CUSTOMERS, seed=2, index=0)
    options = SolveOptions(
        "neural",
        iterations=3,
        assign=assign,
        fleet=fleet,
        polish=False,
        model=str(folder),
    )
    result = solve(day, options)
    assert result.method == "neural"
    assert judge(day, result.solution).feasible
    assert len(result.solution.routes) <= day.min_vehicles + 1
    assert result.solution == solve(day, options).solution  # the same answer twice


def test_the_model_remembers_its_city(city: City, folder: Path) -> None:
    """Psi, city and weights come back from the folder; a larger day works too."""
    model = load_model(folder)
    assert model.city is not None
    assert model.city.hash == city.hash
    psi = model.weights["seed.input.psi"]
    assert psi.shape == (81, 8)
    assert psi.any()
    day = sample_day(city, 60, seed=2, index=1)
    result = solve(day, SolveOptions("neural", iterations=2, model=str(folder)))
    found = explain(day, result.solution, model)
    assert found.network is not None
    assert len(found.rows()) == 60
