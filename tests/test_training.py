"""Training: nothing is lost, whatever ends a run, and equal runs give equal bytes."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch

from clusterfirst.learning.labels.pool import LabelPool
from clusterfirst.learning.training import run as training_run
from clusterfirst.learning.training.checkpoint import load_checkpoint
from clusterfirst.learning.training.config_files import (
    TRAINING,
    config_of,
    config_of_run,
    read_config,
)
from clusterfirst.learning.training.curves import Curve, read_curve
from clusterfirst.learning.training.loop import (
    Part,
    TrainConfig,
    Trainer,
    TrainingDiverged,
    learned,
)
from clusterfirst.learning.training.optimisers import orthogonal
from clusterfirst.learning.training.processes import trained
from clusterfirst.learning.training.run import (
    CHECKPOINTS,
    Ending,
    RunOptions,
    TrainData,
    train,
)
from clusterfirst.problem.errors import ClusterfirstError, InputError, InputWarning
from networks import PSI, small_city
from train_tiny import CONFIG, tiny_pool

SCRIPT = Path(__file__).parent / "train_tiny.py"
HANG = 120  # seconds; generous, the machine may be busy


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    """Start the tiny training as a process, and group, of its own."""
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), str(folder), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )


def weights(folder: Path) -> dict[str, bytes]:
    """Bytes of everything learned in the newest checkpoint of a run."""
    found = load_checkpoint(folder / CHECKPOINTS)
    assert found is not None
    return {
        f"{group}.{name}": tensor.numpy().tobytes()
        for group, tensors in found.tensors.items()
        for name, tensor in tensors.items()
    }


def run_here(folder: Path, config: TrainConfig = CONFIG, **options: Any) -> Ending:
    """Train in this process."""
    return train(config, TrainData(tiny_pool()), folder, RunOptions(**options))


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> None:
    """Equal bytes need an equal number of threads."""
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The weights of the tiny run when nothing happens to it."""
    folder = tmp_path_factory.mktemp("whole")
    assert run_here(folder) is Ending.FINISHED
    return weights(folder)


def test_kills_change_nothing(tmp_path: Path, uninterrupted: dict[str, bytes]) -> None:
    """Killed again and again, also inside saves, a run ends with the same bytes."""
    chance = random.Random(4)
    for _ in range(3):
        # Every step is saved, slowly: most of the time a save is under way.
        run = start(tmp_path, "16", "save=0", "pause=0.02")
        assert run.stdout is not None
        for _ in range(chance.randint(1, 3)):
            run.stdout.readline()  # a step is done
        time.sleep(chance.random() * 0.1)
        run.kill()
        run.wait(HANG)
    found = load_checkpoint(tmp_path / CHECKPOINTS)
    assert found is not None
    assert 0 < found.state["step"] < 16
    assert run_here(tmp_path) is Ending.FINISHED
    assert weights(tmp_path) == uninterrupted
    steps = read_curve(tmp_path / "curve.csv")["step"]
    assert steps == sorted(set(steps)) == list(range(1, 17))
    leftovers = [p for p in (tmp_path / CHECKPOINTS).iterdir() if p.name[0] == "."]
    assert leftovers == []


def test_sigterm_keeps_the_last_whole_step(
    tmp_path: Path, uninterrupted: dict[str, bytes]
) -> None:
    """A polite stop leaves a checkpoint of it; until then the folder is locked."""
    run = start(tmp_path, "16", "pause=0.3", "save=0")
    assert run.stdout is not None
    last = run.stdout.readline()
    with pytest.raises(InputError, match="E723"):
        run_here(tmp_path)
    run.send_signal(signal.SIGTERM)
    rest = run.stdout.read().split()
    assert run.wait(HANG) == 0
    assert rest[-1] == "INTERRUPTED"
    found = load_checkpoint(tmp_path / CHECKPOINTS)
    assert found is not None
    assert int(last) <= found.state["step"] < 16  # the step at hand may be given up
    assert run_here(tmp_path) is Ending.FINISHED
    assert weights(tmp_path) == uninterrupted


def test_stopping_by_time_changes_nothing(
    tmp_path: Path, uninterrupted: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run in many short sittings equals one in a single sitting."""
    monkeypatch.setattr(training_run, "draw_curves", lambda folder: None)  # slow
    sittings = 1
    while run_here(tmp_path, minutes=1e-5, save_minutes=0.0) is Ending.TIME_UP:
        sittings += 1
    assert sittings > 5
    assert weights(tmp_path) == uninterrupted


def test_two_processes_take_one_step_each_of_a_batch(tmp_path: Path) -> None:
    """The step of two processes is that of the mean gradient of both parts."""
    run_here(tmp_path / "two", replace(CONFIG, steps=3), processes=2)
    trainer = Trainer(replace(CONFIG, steps=3))
    pool = tiny_pool()
    parts = [Part(trainer.config, pool, (i, 2)) for i in range(2)]
    trainer.router.train()
    for step in range(3):
        gradients = []
        for part in parts:
            part.learn(trainer.router, part.prepare(step), step)
            gradients.append([p.grad for p in trained(trainer.router)])
            for parameter in trained(trainer.router):
                parameter.grad = None
        for at, parameter in enumerate(trained(trainer.router)):
            found = [g[at] for g in gradients if g[at] is not None]
            parameter.grad = sum(found, torch.zeros_like(parameter)) / 2
        trainer.update(0.0)
    saved = load_checkpoint(tmp_path / "two" / CHECKPOINTS)
    assert saved is not None
    for name, value in learned(trainer.router).items():
        assert torch.equal(value, saved.tensors["model"][name]), name


def test_two_processes_survive_kills(tmp_path: Path) -> None:
    """Killed and resumed, two processes end with the bytes of an unbroken run."""
    run_here(tmp_path / "whole", replace(CONFIG, steps=6), processes=2)
    run = start(tmp_path / "killed", "6", "save=0", "pause=0.1", "processes=2")
    assert run.stdout is not None
    run.stdout.readline()
    run.kill()
    run.wait(HANG)
    run_here(tmp_path / "killed", replace(CONFIG, steps=6), processes=2)
    assert weights(tmp_path / "killed") == weights(tmp_path / "whole")


def test_ctrl_c_while_a_helper_starts(tmp_path: Path) -> None:
    """As from a terminal, to both processes: only the first one takes it."""
    run = start(tmp_path, "200", "processes=2")
    children = Path(f"/proc/{run.pid}/task/{run.pid}/children")
    end = time.monotonic() + HANG

    def helper_runs() -> bool:
        commands = (Path(f"/proc/{c}/cmdline") for c in children.read_text().split())
        return any(b"spawn_main" in command.read_bytes() for command in commands)

    while not helper_runs():
        assert time.monotonic() < end
        time.sleep(0.005)
    os.killpg(run.pid, signal.SIGINT)
    words, complaints = run.communicate(timeout=HANG)
    assert run.returncode == 0
    assert words.endswith("INTERRUPTED\n")
    assert complaints == ""


def test_a_helper_that_dies_is_reported(tmp_path: Path) -> None:
    """The run ends with a sentence, and what was saved is good."""
    trainer = Trainer(CONFIG)
    steps = trainer.run(tiny_pool(), until=16, processes=2)
    next(steps)
    (helper,) = multiprocessing.active_children()
    helper.kill()
    with pytest.raises(ClusterfirstError, match="E724"):
        list(steps)
    assert multiprocessing.active_children() == []


def test_nan_stops_with_the_last_good_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gradient that is not a number stops the run before any weight changes."""
    from clusterfirst.learning.training import loop as training

    honest = training.training_losses

    def spoiled(router: object, batch: object, settings: object) -> object:
        found = honest(router, batch, settings)  # type: ignore[arg-type]  # passed on
        bad = 0.0 * (found.total - found.total.detach()).sqrt()  # nan slope at 0
        return replace(found, total=found.total + bad)

    trainer = Trainer(CONFIG)
    steps = trainer.run(tiny_pool(), until=16)
    for _ in range(3):
        next(steps)
    before = {k: v.clone() for k, v in learned(trainer.router).items()}
    monkeypatch.setattr(training, "training_losses", spoiled)
    with pytest.raises(TrainingDiverged, match="E722 training step 3") as error:
        next(steps)
    assert error.value.exit_code == 2
    for name, value in learned(trainer.router).items():
        assert torch.equal(value, before[name])
    with pytest.raises(TrainingDiverged):
        run_here(tmp_path)
    found = load_checkpoint(tmp_path / CHECKPOINTS)
    assert found is not None
    assert found.state["step"] == 0


def test_a_changed_configuration_is_refused(tmp_path: Path) -> None:
    """Resuming with other settings names each of them; labels only bring a warning."""
    config = replace(CONFIG, steps=2)
    run_here(tmp_path, config)
    batches = replace(config.batches, part_share=0.1)
    with pytest.raises(InputError) as error:
        run_here(tmp_path, replace(config, learning_rate=0.5, batches=batches))
    assert [p.where for p in error.value.problems] == [
        "config batches.part_share",
        "config learning_rate",
    ]
    assert {p.code for p in error.value.problems} == {"E721"}
    fewer = LabelPool.of_labels([tiny_pool().draw(0, None)])  # type: ignore[arg-type]  # one partition: no draw
    with pytest.warns(InputWarning, match="W722"):
        train(config, TrainData(fewer), tmp_path)


@pytest.mark.parametrize("shape", [(64, 64), (96, 64), (64, 160)])
def test_muon_makes_steps_orthogonal(shape: tuple[int, int]) -> None:
    """All singular values come near 1, and the singular vectors stay."""
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    move = orthogonal(matrix)
    values = torch.linalg.svdvals(move)
    assert float(values.min()) > 0.3
    assert float(values.max()) < 1.3
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    inner = u.mT @ move @ v.mT
    off = inner - torch.diag(torch.diagonal(inner))
    assert float(off.abs().max()) < 1e-3


@pytest.mark.parametrize("optimiser", ["adamw", "muon"])
@pytest.mark.parametrize("average", ["ema", "swa"])
def test_a_checkpoint_restores_every_state(optimiser: str, average: str) -> None:
    """Both optimisers and both averages go on from a checkpoint to the same bytes."""
    wide = replace(CONFIG.model, width=64, heads=2, feedforward=64)
    config = replace(CONFIG, model=wide, steps=4, optimiser=optimiser, average=average)  # type: ignore[arg-type]  # parametrised
    pool = tiny_pool()
    whole, parts = Trainer(config), Trainer(config)
    list(whole.run(pool, until=4))
    list(parts.run(pool, until=2))
    saved = parts.checkpoint()
    saved.state["step"] = parts.step
    resumed = Trainer(config)
    resumed.restore(saved)
    list(resumed.run(pool, until=4))
    for name, value in learned(whole.router).items():
        assert torch.equal(value, learned(resumed.router)[name]), name
    for name, value in learned(whole.averaged).items():
        assert torch.equal(value, learned(resumed.averaged)[name]), name
    assert whole.recent == resumed.recent


def test_swa_is_the_mean_of_the_second_half() -> None:
    """The paper's averaging: plain mean of the weights from half-way on."""
    config = replace(CONFIG, steps=6, average="swa")
    trainer = Trainer(config)
    seen = []
    assert trainer.averaged is trainer.router
    for _ in trainer.run(tiny_pool(), until=6):
        seen.append(trainer.router.cluster.beta.item())
    mean = sum(seen[2:]) / 4
    assert trainer.averaged.cluster.beta.item() == pytest.approx(mean, rel=1e-6)
    by_epoch = Trainer(replace(config, epoch=2))
    assert len(list(by_epoch.run(tiny_pool(), until=6))) == 6
    mean = (seen[3] + seen[5]) / 2  # the ends of the epochs in the second half
    assert by_epoch.averaged.cluster.beta.item() == pytest.approx(mean, rel=1e-6)


def test_learning_lowers_the_loss() -> None:
    """A few dozen steps on easy labels bring the losses down."""
    trainer = Trainer(replace(CONFIG, steps=60, learning_rate=3e-3))
    history = [step.losses for step in trainer.run(tiny_pool(), until=60)]
    assert history[-1]["bce"] < 0.9 * history[0]["bce"]
    assert history[-1]["seed"] < 0.9 * history[0]["seed"]


def test_psi_needs_a_table_and_rows(tmp_path: Path) -> None:
    """A run with the psi input says what it lacks before anything is written."""
    config = replace(CONFIG, model=PSI, steps=1)
    with pytest.raises(InputError, match="E405 psi"):
        train(config, TrainData(tiny_pool()), tmp_path / "a")
    psi = torch.randn(PSI.psi_rows, PSI.psi_width)
    data = TrainData(tiny_pool(), psi=psi, city=small_city())
    assert train(config, data, tmp_path / "b") is Ending.FINISHED
    found = load_checkpoint(tmp_path / "b" / CHECKPOINTS)
    assert found is not None
    assert not any("psi" in name for name in found.tensors["model"])


# --- configurations -----------------------------------------------------------------


def test_the_rate_warms_up_and_decays() -> None:
    """Warm-up, constant, linear decay; the paper's setting is constant."""
    config = replace(CONFIG, steps=100, warm_up=0.1, decay=0.5, learning_rate=1.0)
    rates = [config.rate(step) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9:50] == [1.0] * 41
    assert rates[99] == pytest.approx(0.02)
    assert rates[49:] == sorted(rates[49:], reverse=True)
    assert TRAINING["paper"].rate(0) == TRAINING["paper"].rate(10**5) == 0.006


def test_configurations_round_trip() -> None:
    """Every named configuration can be written as plain values and read again."""
    for name, config in TRAINING.items():
        assert config_of(config.as_dict()) == config
        assert read_config(name) == config


def test_runs_may_know_settings_that_are_gone() -> None:
    """A setting that a run was made with and that has gone since is passed by."""
    old = TRAINING["city"].as_dict()
    old["losses"]["anneal_from"] = None
    assert config_of_run(old) == TRAINING["city"]
    with pytest.raises(InputError, match="anneal_from"):
        config_of(old)


def test_each_variant_of_an_ablation_changes_its_base() -> None:
    """The files beside the scripts in runs/ can be read, and no two are the same."""
    runs = Path(__file__).parent.parent / "runs"
    for folder in (runs / "ablation", runs / "one-layer"):
        configs = [read_config(str(path)) for path in sorted(folder.glob("*.toml"))]
        assert len(configs) > 3
        assert all(one != two for one, two in combinations(configs, 2))


def test_a_file_changes_a_named_configuration(tmp_path: Path) -> None:
    """TOML and JSON files with a base give the base with some fields changed."""
    toml = tmp_path / "mine.toml"
    toml.write_text('base = "city"\nsteps = 7\n[model]\nseed_layers = 1\n')
    json_file = tmp_path / "mine.json"
    json_file.write_text('{"base": "city", "steps": 7, "model": {"seed_layers": 1}}')
    city = TRAINING["city"]
    wanted = replace(city, steps=7, model=replace(city.model, seed_layers=1))
    assert read_config(str(toml)) == read_config(str(json_file)) == wanted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"base": "city", "stepz": 3}', "stepz"),
        ('{"base": "city", "model": {"widht": 3}}', "model.widht"),
        ('{"base": "nowhere"}', "known configurations"),
        ('{"base": "city", "steps": "many"}', "steps"),
        ('{"base": "city", "steps": 0}', "at least 1"),
        ('{"steps": 3}', "model"),
        ("[1]", "an object"),
        ("{", "cannot be read"),
    ],
)
def test_bad_configurations_are_said(tmp_path: Path, text: str, said: str) -> None:
    """Unknown keys are named at every depth; wrong values are said in words."""
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(InputError, match="E704") as error:
        read_config(str(path))
    assert said in str(error.value)


def test_an_unknown_name_lists_the_known_ones() -> None:
    """A misspelt name is answered with the names there are."""
    with pytest.raises(InputError, match="paper-standard"):
        read_config("papre")


@pytest.mark.parametrize("text", ["step,loss\n1,x\n", "step,loss\n1\n", "step\n1\0\n"])
def test_a_curve_of_somebody_else_is_a_sentence(tmp_path: Path, text: str) -> None:
    """A run that goes on with a damaged curve ended in E999."""
    (tmp_path / "curve.csv").write_text(text)
    with pytest.raises(InputError, match="curv"):
        Curve(tmp_path / "curve.csv", ("loss",))
