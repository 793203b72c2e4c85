"""Making labels with a teacher: resumed, killed, interrupted, refused."""

from __future__ import annotations

import importlib.util
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clusterfirst.cli import main
from clusterfirst.learning.labels.labelset import read_labels
from clusterfirst.learning.labels.making import (
    LabelOptions,
    LabelProgress,
    label,
    merge,
)
from clusterfirst.learning.labels.shards import read_shards, shard_paths
from clusterfirst.learning.labels.sources import city_days, public_set, uniform, world
from clusterfirst.problem.errors import InputError, InputWarning
from test_labels import CITY, bytes_of

needs_hygese = pytest.mark.skipif(
    importlib.util.find_spec("hygese") is None, reason="the extra `labels` is missing"
)
PATIENCE = 100.0  # seconds; guards against hangs


# --- with the expert ------------------------------------------------------------


@needs_hygese
def test_labelling_again_continues(tmp_path: Path) -> None:
    """What is there is not made again; more, or a larger budget, adds to it."""
    source, seen = city_days(CITY, seed=2), list[LabelProgress]()
    few = LabelOptions(customers=8, count=3, iterations=10)
    assert label(source, tmp_path, few, seen.append).made == 3
    assert [p.made for p in seen] == [0, 1, 2, 3]
    again = label(source, tmp_path, few)
    assert (again.found, again.made) == (3, 0)
    more = LabelOptions(customers=8, count=5, iterations=10)
    assert label(source, tmp_path, more).made == 2
    longer = LabelOptions(customers=8, count=1, iterations=20)
    assert label(source, tmp_path, longer).made == 1
    assert len(read_labels(tmp_path)) == 5


@needs_hygese
def test_two_teachers_share_a_folder(tmp_path: Path) -> None:
    """HGS and PyVRP label the same instance side by side."""
    if importlib.util.find_spec("pyvrp") is None:
        pytest.skip("the extra `bench` is missing")
    source = world(seed=8)
    for teacher in ("hgs", "pyvrp"):
        options = LabelOptions(8, 2, iterations=200, teacher=teacher)  # type: ignore[arg-type]
        assert label(source, tmp_path, options).made == 2
    assert read_labels(tmp_path).groups[8].teacher.tolist() == [1, 2, 1, 2]


CODE = """
import sys
from clusterfirst.learning.labels.making import LabelOptions, label
from clusterfirst.learning.labels.sources import world
kind, budget, out = sys.argv[1:]
options = LabelOptions(customers=12, count=10, workers=2, seeds_per_instance=2,
                       **{kind: float(budget) if kind == "seconds" else int(budget)})
label(world(seed=6), out, options)
"""


def _label_and_kill(kind: str, budget: str, out: Path, after: int) -> None:
    """Kill the labelling process once it has written about `after` bytes."""
    command = [sys.executable, "-W", "ignore", "-c", CODE, kind, budget, str(out)]
    process = subprocess.Popen(command)
    end = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < end:
        if sum(os.path.getsize(path) for path in shard_paths(out)) > after:
            break
        time.sleep(0.002)
    process.kill()
    process.wait()


@needs_hygese
@pytest.mark.parametrize(
    ("kind", "budget"), [("iterations", "40"), ("seconds", "0.02")]
)
def test_kill_and_resume(tmp_path: Path, kind: str, budget: str) -> None:
    """Killed at random and run again: the same set, to the byte with iterations."""
    out, source = tmp_path / "killed", world(seed=6)
    random.seed(kind)
    had: set[bytes] = set()
    for _ in range(3):
        _label_and_kill(kind, budget, out, after=random.randrange(0, 1800))
        now = {body for _, bodies in read_shards(out) for body in bodies}
        assert had <= now
        had = now
    value = float(budget) if kind == "seconds" else int(budget)
    options = LabelOptions(12, 10, workers=2, seeds_per_instance=2, **{kind: value})  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)  # a torn tail may be cut
        end = label(source, out, options)
    assert end.found + end.made == end.total == 20
    labels = read_labels(out)
    assert len(labels) == 20
    assert labels.dropped == 0
    if kind == "iterations":
        label(source, tmp_path / "whole", options)
        merge([out], tmp_path / "a")
        merge([tmp_path / "whole"], tmp_path / "b")
        assert bytes_of(tmp_path / "a") == bytes_of(tmp_path / "b")


@needs_hygese
def test_ctrl_c_ends_cleanly(tmp_path: Path) -> None:
    """As from a terminal, to all processes: exit code 130, no traceback, resumable."""
    command = "label world --customers 12 --count 100000 --iterations 40 --workers 2"
    process = subprocess.Popen(
        [sys.executable, "-m", "clusterfirst", *command.split(), "--out", tmp_path],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    end = time.monotonic() + PATIENCE
    while sum(map(os.path.getsize, shard_paths(tmp_path))) < 1000:
        assert time.monotonic() < end
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, words = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Traceback" not in words
    made = len(read_labels(tmp_path))
    assert made > 2
    few = LabelOptions(12, made, iterations=40)
    assert label(world(seed=0), tmp_path, few).found >= made - 1


@pytest.mark.parametrize(
    "options",
    [
        {"customers": -1},
        {"count": -1},
        {"seconds": 1},
        {"iterations": None},
        {"teacher": "oracle"},
        {"seeds_per_instance": 0},
    ],
)
def test_wrong_options_are_named(options: dict[str, Any]) -> None:
    """Options that make no sense get one sentence."""
    with pytest.raises(InputError, match="E423"):
        LabelOptions(**({"customers": 5, "count": 1, "iterations": 1} | options))


@needs_hygese
def test_sizes_a_source_does_not_have_are_named_before_work(tmp_path: Path) -> None:
    """More customers than locations, or than the public set has, is one sentence."""
    for source, code in (
        (city_days(CITY, seed=1), "E401"),
        (public_set("cvrp100"), "E406"),
    ):
        with pytest.raises(InputError, match=code):
            label(source, tmp_path / "out", LabelOptions(61, 1, iterations=1))
    assert not (tmp_path / "out").exists()


def test_our_own_polish_teaches(tmp_path: Path) -> None:
    """Its labels pass the check and repeat; more seconds do not cost more."""
    source = world(seed=3)
    costs = []
    for seconds in (0.01, 0.05):
        options = LabelOptions(30, 3, seconds=seconds, teacher="polish")
        for again in ("a", "b"):
            label(source, tmp_path / f"{seconds}{again}", options)
        found, twin = (read_labels(tmp_path / f"{seconds}{x}") for x in "ab")
        assert len(found) == 3
        assert np.array_equal(found.groups[30].route, twin.groups[30].route)
        costs.append(found.groups[30].cost.sum())
    assert costs[1] <= costs[0] * 1.02


@pytest.mark.parametrize("source", ["world", "cvrp100"])
def test_a_capacity_is_never_ignored(
    source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where instances have capacities of their own, --capacity is an error."""
    words = ["label", source, "--capacity", "250", "--iterations", "1"]
    assert main([*words, "--out", str(tmp_path / "labels")]) == 2
    assert "E404 --capacity" in capsys.readouterr().err
    assert not (tmp_path / "labels").exists()


def test_uniform_maps_have_the_capacity_asked_for() -> None:
    """The same maps and demands as with the paper's capacity."""
    usual, roomy = uniform(seed=3), uniform(seed=3, capacity=250)
    few, many = usual.draw(9, 4), roomy.draw(9, 4)
    assert (few.capacity, many.capacity) == (50, 250)
    assert np.array_equal(few.coords, many.coords)
    assert np.array_equal(few.demands, many.demands)
    assert usual.key != roomy.key
