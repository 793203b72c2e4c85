"""One command for a city, at a size that fits a test, and the commands around it."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from clusterfirst.cities.history import History, PastDay
from clusterfirst.cli import main
from clusterfirst.files import write_city
from clusterfirst.learning.labels.labelset import read_labels
from clusterfirst.learning.labels.making import LabelOptions, label
from clusterfirst.learning.labels.sources import city_days
from clusterfirst.learning.training.exporting import (
    export_model,
    export_weights,
    read_run,
    read_start,
)
from clusterfirst.learning.training.learn_plan import LearnSettings
from clusterfirst.learning.training.learning import Listener, learn
from clusterfirst.learning.training.loop import TrainConfig, Trainer
from clusterfirst.learning.training.run import (
    Ending,
    RunOptions,
    Start,
    TrainData,
    train,
)
from clusterfirst.learning.training.validation import SolvedGap, Validation
from clusterfirst.networks.model_folder import load_model
from clusterfirst.networks.trainable.embed import EmbedSettings
from clusterfirst.problem.city import City
from clusterfirst.problem.errors import InputError, InputWarning
from clusterfirst.problem.sampling import sample_city
from clusterfirst.problem.solution import judge
from networks import PSI, small_city
from train_tiny import CONFIG, tiny_pool

pytest.importorskip("hygese", reason="labels come from HGS (extra: labels)")

EMBED = EmbedSettings(
    layers=1,
    heads=2,
    width=16,
    feedforward=16,
    psi_width=8,
    k_attn=5,
    k_target=10,
    maskings=1,
    epochs=4,
    cooldown=2,
)
TINY = LearnSettings(
    hours=0.0004,
    customers=12,
    validate=3,
    embed=EMBED,
    train=replace(CONFIG, model=PSI),
    init=None,  # the shipped weights are larger than these networks
)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few labels and no pictures."""
    monkeypatch.setattr("clusterfirst.learning.training.learn_plan.LEAST_LABELS", 6)
    monkeypatch.setattr("clusterfirst.learning.training.learn_plan.LABELLING", 0.25)
    for slow in ("pretraining._draw", "run.draw_curves"):
        monkeypatch.setattr(
            f"clusterfirst.learning.training.{slow}", lambda *given: None
        )
    monkeypatch.setattr(
        "clusterfirst.learning.training.learn_card.POLISH_SECONDS", 0.05
    )


def ctrl_c(text: str) -> None:
    """Interrupt before labels are made."""
    if text.startswith("2/4"):
        raise KeyboardInterrupt


def past_days(count: int = 10) -> History:
    """Days of 9 to 12 orders with demands of 10, which only two of fit a vehicle."""
    rng = np.random.default_rng(0)
    city = small_city().replace(capacity=25)
    days = [rng.choice(120, 9 + number % 4, replace=False) for number in range(count)]
    return History(city, tuple(PastDay(d + 1, np.full(len(d), 10.0)) for d in days))


@pytest.mark.usefixtures("quick")
def test_past_days_are_learned_from(tmp_path: Path) -> None:
    """Labels are real days first, then drawn ones; days held back are in none."""
    history = past_days()
    model = learn(history, TINY, tmp_path)
    assert model is not None
    found = read_labels(tmp_path / "labels")
    rows = {tuple(v.rows[1:]) for v in found if v.rows is not None}
    known = [tuple(day.rows) for day in history.days]
    assert sum(day in rows for day in known[:8]) == min(8, len(found))
    assert not any(day in rows for day in known[8:])
    assert {view.capacity / view.demands.max() for view in found} == {2.5}
    assert "On 2 days you held back: " in model.provenance["words"]
    card = (tmp_path / "model" / "README.md").read_text()
    assert model.provenance["words"] in card
    further = replace(TINY, init=str(tmp_path / "model"), hours=1e-6)
    said: list[str] = []
    kept = learn(history, further, tmp_path / "again", Listener(say=said.append))
    assert kept is not None
    assert "more than 0 s, stages have least sizes" in said[0]  # time enough for none
    worse = kept.provenance["gaps"]["days held back"]
    before = kept.provenance["gaps"]["days held back with model"]
    assert ("kept" in kept.provenance) == (not worse < before)
    loaded = load_model(tmp_path / "again" / "model")
    same = all(np.array_equal(v, model.weights[k]) for k, v in loaded.weights.items())
    assert same == ("kept" in kept.provenance)


@pytest.mark.usefixtures("quick")
def test_a_city_is_learned(tmp_path: Path) -> None:
    """All stages run, the model knows its city and figures, and a rerun is instant."""
    with pytest.raises(KeyboardInterrupt):
        learn(History(small_city()), TINY, tmp_path, Listener(say=ctrl_c))
    spent = json.loads((tmp_path / "plan.json").read_text())["seconds"]
    said: list[str] = []
    model = learn(History(small_city()), TINY, tmp_path, Listener(say=said.append))
    assert model is not None
    assert [line[:3] for line in said] == ["1/4", "2/4", "3/4", "4/4"]  # told before
    loaded = load_model(tmp_path / "model")
    assert 0 < spent < loaded.provenance["seconds_of_all_stages"]
    assert loaded.city is not None
    assert loaded.city.hash == small_city().hash
    assert set(loaded.provenance["gaps"]) == {"N = 12", "N = 24"}
    assert loaded.provenance["labels"][0]["count"] > 0
    card = (tmp_path / "model" / "README.md").read_text()
    for word in ("passes", "hours", "labels", "Gaps", "Where it fails"):
        assert word in card
    again = learn(History(small_city()), TINY, tmp_path)
    assert again is not None
    for name, value in loaded.weights.items():
        assert np.array_equal(value, again.weights[name])
    further = replace(TINY, init=str(tmp_path / "model"))
    model = learn(History(small_city()), further, tmp_path / "further")
    assert model is not None
    gaps = model.provenance["gaps"]
    for name in ("N = 12", "N = 24"):  # what it began with stands beside the result
        assert gaps[f"{name} with model"] == loaded.provenance["gaps"][name]
    # Without days held back drawn ones decide, and the sentence says that they did.
    worse = not gaps["N = 12"] < gaps["N = 12 with model"]
    assert ("kept" in model.provenance) == worse
    words = model.provenance["words"]
    assert words.startswith("On 4 drawn days: ")
    assert "These days also chose between the two." in words


@pytest.mark.usefixtures("quick")
def test_a_worse_model_is_not_kept_without_past_days(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where drawn days find the general model better, it is what the city gets."""
    first = export_model(run, tmp_path / "begun")
    day = city_days(small_city(), seed=3).draw(12, 0)
    gaps = iter([SolvedGap(np.array([g])) for g in (0.3, 0.2, 0.1, 0.2)])
    stages = "clusterfirst.learning.training.learning"
    monkeypatch.setattr(f"{stages}.solved_gap", lambda network, days: next(gaps))
    drawn = Validation([day], np.array([1.0]))
    monkeypatch.setattr(f"{stages}.make_validation", lambda *given: drawn)
    monkeypatch.setattr(f"{stages}.train", train_quietly)
    further = replace(TINY, init=str(tmp_path / "begun"), hours=1e-6)
    found = learn(History(small_city()), further, tmp_path / "out")
    assert found is not None
    assert found.provenance["kept"] == "begun"
    loaded = load_model(tmp_path / "out" / "model")
    for name, value in first.weights.items():
        assert np.array_equal(loaded.weights[name], value)


def train_quietly(config: TrainConfig, data: TrainData, *rest: Any) -> Ending:
    """Train without looking at validation days."""
    return train(config, replace(data, validation=None), *rest)


@pytest.mark.usefixtures("quick")
def test_a_city_that_changes_meanwhile(tmp_path: Path) -> None:
    """Days and places added to a city do not stop what was begun without them."""
    short, history = replace(TINY, hours=1e-6), past_days()
    with pytest.raises(KeyboardInterrupt):
        learn(history, short, tmp_path, Listener(say=ctrl_c))
    labels = len(read_labels(tmp_path / "labels"))
    grown = history.city.grown(np.array([[0.5, 0.5]]), ["new"])
    more = past_days(12)
    said: list[str] = []
    model = learn(History(grown, more.days), short, tmp_path, Listener(said.append))
    assert model is not None
    assert "the 10 days and 120 locations it began with" in said[0]
    assert len(read_labels(tmp_path / "labels")) == labels  # none is made again
    assert model.city is not None
    assert model.city.hash == history.city.hash
    with pytest.raises(InputError, match="E721 city"):
        learn(History(sample_city(120, seed=6)), short, tmp_path)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("kind", ["greatcircle", "matrix"])
def test_other_distances_are_learned(tmp_path: Path, kind: str) -> None:
    """Kilometres on the globe, or streets, go through labels, training and judging."""
    plain = small_city().replace(capacity=25)
    if kind == "matrix":
        gaps = np.abs(plain.coords[:, None] - plain.coords[None])
        city = plain.replace(matrix=gaps.sum(axis=2))
    else:
        city = City(plain.coords * 0.1 + [4.3, 50.8], metric=kind, capacity=25)  # type: ignore[arg-type]
    history = past_days().in_city(city)
    model = learn(history, replace(TINY, hours=1e-6), tmp_path)
    assert model is not None
    assert model.city is not None
    assert model.city.hash == city.hash
    labels = read_labels(tmp_path / "labels")
    assert labels.dropped == 0
    for number in range(len(labels)):
        day, tours = labels.instance(number), labels.solution(number)
        assert tours is not None
        assert day.metric == kind
        cost = judge(day, tours).cost
        assert labels[number].cost == pytest.approx(cost)
        on_the_map = judge(plain.day(day.city_rows[1:], day.demands[1:]), tours).cost  # type: ignore[index]
        assert cost > 1.1 * on_the_map  # of the unit square
    assert model.provenance["gaps"]["days held back"] >= -1e-6


@pytest.mark.usefixtures("quick")
def test_the_estimate_is_near_what_it_took(tmp_path: Path) -> None:
    """What was said before the table is about what all stages needed."""
    began = time.perf_counter()
    settings = replace(TINY, hours=0.0008)
    assert learn(past_days(), settings, tmp_path) is not None
    took = time.perf_counter() - began
    plan = json.loads((tmp_path / "plan.json").read_text())
    said = sum(plan["rounds"][0]["estimate"].values())
    assert said >= 0.9 * 3600 * settings.hours
    assert took / 4 < said < 4 * took


def test_a_law_that_cannot_fit_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A capacity below the paper's demands warns in `label` and in `learn`."""
    city = small_city().replace(capacity=6)
    write_city(tmp_path / "city", city)
    words = ["label", str(tmp_path / "city"), "--out", str(tmp_path / "labels")]
    assert main([*words, "--count", "0", "--seconds", "1"]) == 0
    assert "W414" in capsys.readouterr().err
    stopped = "clusterfirst.learning.training.learning.open_plan"
    monkeypatch.setattr(stopped, Mock(side_effect=InputError([])))
    with pytest.warns(InputWarning, match="W414"), pytest.raises(InputError):
        learn(History(city), TINY, tmp_path / "out")


def distance(begun: dict[str, torch.Tensor], run: Path) -> float:
    """The largest change of a weight since then."""
    now = read_run(run).weights
    return max(float((now[name] - begun[name]).abs().max()) for name in now)


@pytest.mark.usefixtures("quick")
def test_more_hours_go_on_from_what_was_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plan, table, labels and model are enough: no checkpoint of run or table."""
    assert learn(History(small_city()), TINY, tmp_path) is not None
    begun = read_run(tmp_path / "run-1")
    for checkpoints in ("run-1", "psi/checkpoints"):
        shutil.rmtree(tmp_path / checkpoints)
    again = pytest.fail  # the weights know the old table
    monkeypatch.setattr("clusterfirst.learning.training.learning.pretrain", again)
    second = learn(History(small_city()), replace(TINY, hours=2 * TINY.hours), tmp_path)
    assert second is not None
    assert second.provenance["before"]["passes"] == begun.facts["passes"]
    assert 0 < distance(begun.weights, tmp_path / "run-2") < 0.1


@pytest.mark.usefixtures("quick")
def test_more_hours_go_on(tmp_path: Path) -> None:
    """Another round keeps table and labels, adds labels, and trains from the last."""
    longer = replace(TINY, hours=2 * TINY.hours)
    with pytest.raises(KeyboardInterrupt):
        learn(History(small_city()), TINY, tmp_path, Listener(say=ctrl_c))
    with pytest.raises(InputError, match=r"E721 hours.*unfinished"):
        learn(History(small_city()), longer, tmp_path)
    first = learn(History(small_city()), TINY, tmp_path)
    assert first is not None
    table = (tmp_path / "psi" / "psi.safetensors").read_bytes()
    labels = json.loads((tmp_path / "plan.json").read_text())["rounds"][0]["labels"]
    with pytest.raises(KeyboardInterrupt):
        learn(History(small_city()), longer, tmp_path, Listener(say=ctrl_c))
    assert load_model(tmp_path / "model").provenance["hours"] == TINY.hours
    second = learn(History(small_city()), longer, tmp_path)
    assert second is not None
    assert (tmp_path / "psi" / "psi.safetensors").read_bytes() == table
    known = second.provenance
    assert known["hours"] == longer.hours
    assert known["labels"][0]["count"] == 2 * labels
    assert known["before"]["passes"] == first.provenance["passes"]
    begun = read_run(tmp_path / "run-1").weights
    assert 0 < distance(begun, tmp_path / "run-2") < 0.1  # not new random weights
    with pytest.raises(InputError, match=r"E721 hours.*ask for more"):
        learn(History(small_city()), TINY, tmp_path)
    for damaged in ('{"format": 2', "[]", "\x00"):
        (tmp_path / "plan.json").write_text(damaged)
        with pytest.raises(InputError, match="E721 plan"):
            learn(History(small_city()), TINY, tmp_path)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short finished run of a psi model."""
    folder = tmp_path_factory.mktemp("run")
    psi = torch.randn(PSI.psi_rows, PSI.psi_width)
    data = TrainData(tiny_pool(), psi=psi, city=small_city())
    config = replace(CONFIG, model=PSI, steps=2)
    assert train(config, data, folder) is Ending.FINISHED
    return folder


def test_an_export_has_the_averaged_weights(run: Path, tmp_path: Path) -> None:
    """The model folder holds averages, table, city and where it all came from."""
    export_model(run, tmp_path / "m", command="clusterfirst train ...")
    model = load_model(tmp_path / "m")
    weights = read_run(run).weights
    for name, value in weights.items():
        assert np.array_equal(model.weights[name], value.numpy())
    known = model.provenance
    assert known["passes"] > 0
    assert known["config"]["steps"] == 2
    assert known["labels"][0]["sha256"] == tiny_pool().digest
    assert known["command"].startswith("clusterfirst train")


def test_exported_weights_are_a_start(run: Path, tmp_path: Path) -> None:
    """Averaged weights alone go into --init, as do those of a model folder."""
    export_weights(run, tmp_path / "state")
    export_model(run, tmp_path / "model")
    names = sorted(path.name for path in (tmp_path / "state").iterdir())
    assert names == ["average.safetensors", "facts.json", "manifest.json"]
    for start in ("state", "model"):
        begun = read_start(str(tmp_path / start))
        weights = begun.weights
        assert begun.passes == read_run(run).facts["passes"] > 0
        psi = torch.zeros(PSI.psi_rows, PSI.psi_width)
        trainer = Trainer(replace(CONFIG, model=PSI), psi)
        trainer.start_from(weights)
        for name, value in weights.items():
            assert torch.equal(trainer.router.state_dict()[name], value)
    with pytest.raises(InputError, match="E704 --init"):
        Trainer(CONFIG).start_from(weights)


def test_passes_add_up_over_runs(run: Path, tmp_path: Path) -> None:
    """A run counts what went into its first weights, and so does the next one."""
    psi = torch.zeros(PSI.psi_rows, PSI.psi_width)
    config = replace(CONFIG, model=PSI, steps=2)
    totals, start = [read_start_of(run, tmp_path / "0").passes], tmp_path / "0"
    for number in ("1", "2"):
        folder = tmp_path / f"run-{number}"
        data = TrainData(tiny_pool(), psi, small_city(), read_start(str(start)))
        train(config, data, folder, RunOptions(minutes=0.0))  # one step, then the rest
        assert train(config, replace(data, init=None), folder) is Ending.FINISHED
        start = tmp_path / number
        totals.append(read_start_of(folder, start).passes)
    once = read_run(run).facts["passes"]
    assert totals == [once, 2 * once, 3 * once]


def read_start_of(run: Path, model: Path) -> Start:
    """Export a run and read it as a start."""
    export_model(run, model)
    return read_start(str(model))


def test_train_as_a_command(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Label, train, stop by time, go on, validate and export from the shell."""
    threads = torch.get_num_threads()
    labels, out = tmp_path / "labels", tmp_path / "run"
    options = LabelOptions(customers=12, count=6, iterations=20)
    label(city_days(small_city(), seed=0), labels, options)
    config = tmp_path / "tiny.json"
    config.write_text(json.dumps(replace(CONFIG, steps=4).as_dict()))
    words = [
        "train",
        "--config",
        str(config),
        "--labels",
        str(labels),
        "--out",
        str(out),
    ]
    words += ["--threads", "1"]
    assert main([*words, "--minutes", "0"]) == 0
    assert "the time is up" in capsys.readouterr().err
    more = ["--validate", "2", "--validate-customers", "12"]
    more += ["--export", str(tmp_path / "m"), "--export-weights", str(tmp_path / "w")]
    monkeypatch.setattr("sys.argv", ["clusterfirst", *words, *more])
    assert main([*words, *more]) == 0
    assert "all steps are done" in capsys.readouterr().err
    known = load_model(tmp_path / "m").provenance
    assert known["steps"] == "4 of 4"
    assert known["command"].startswith("clusterfirst train --config tiny.json")
    assert str(tmp_path) not in known["command"]  # nobody else has this folder
    assert known["validation_gap"] >= -1e-9
    assert (out / "curve.png").exists()
    assert main([*words, "--seed", "5"]) == 2
    assert "E721 config seed" in capsys.readouterr().err
    torch.set_num_threads(threads)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--config", "nothing", "--labels", "x"], "E704"),
        (["--labels", "x"], "E704 --config"),
        ([], "E404 --labels"),
        (["--export", "m"], "E403 run"),
        (["--threads", "0"], "E404 --threads"),
    ],
)
def test_bad_training_commands_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    """What is missing or wrong is one line and exit code 2."""
    threads = torch.get_num_threads()
    assert main(["train", "--out", str(tmp_path / "o"), *words]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert said in lines[0]
    torch.set_num_threads(threads)


def test_pretrain_as_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unknown setting is said; a short sitting leaves a table to go on from."""
    threads = torch.get_num_threads()
    write_city(tmp_path / "city", small_city())
    words = ["pretrain", str(tmp_path / "city"), "--out", str(tmp_path / "psi")]
    assert main([*words, "--settings", "best"]) == 2
    assert "E404 --settings" in capsys.readouterr().err
    assert main([*words, "--minutes", "0"]) == 0
    assert (tmp_path / "psi" / "psi.safetensors").exists()
    torch.set_num_threads(threads)


@pytest.mark.parametrize(
    ("words", "workers"),
    [
        (["--threads", "3"], 3),
        (["--threads", "3", "--workers", "1"], 1),
        (["--workers", "0"], None),
    ],
)
def test_labels_are_made_on_all_cores(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    workers: int | None,
) -> None:
    """`learn` makes as many labels at a time as it has cores, unless told."""
    threads = torch.get_num_threads()
    asked: list[LearnSettings] = []

    def remember(city: City, settings: LearnSettings, *rest: object) -> None:
        asked.append(settings)

    monkeypatch.setattr("clusterfirst.learning.training.learning.learn", remember)
    code = main(["learn", "bundled", "--out", str(tmp_path), *words])
    if workers is None:
        assert (code, asked) == (2, [])
    else:
        assert [settings.workers for settings in asked] == [workers]
    torch.set_num_threads(threads)
