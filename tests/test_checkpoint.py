"""Checkpoints: whole or passed over, written in one step, never unpickled."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

from clusterfirst.files import verified_folder
from clusterfirst.files.verified_folder import read_folder, write_folder
from clusterfirst.learning.training.checkpoint import (
    KEEP,
    Checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from clusterfirst.problem.errors import InputError, InputWarning


def sample(value: float) -> Checkpoint:
    """A small checkpoint."""
    return Checkpoint({"model": {"a": torch.full((3,), value)}}, {"passes": 5})


def test_a_checkpoint_comes_back(tmp_path: Path) -> None:
    """Tensors and plain values are what was saved, with the step."""
    save_checkpoint(tmp_path, 12, sample(2.5))
    found = load_checkpoint(tmp_path)
    assert found is not None
    assert found.state == {"step": 12, "passes": 5}
    assert found.tensors["model"]["a"].tolist() == [2.5] * 3


def test_only_the_newest_few_are_kept(tmp_path: Path) -> None:
    """Older checkpoints and leftovers of killed processes go."""
    (tmp_path / ".step-000000001.999.tmp").mkdir(parents=True)
    for step in range(8):
        save_checkpoint(tmp_path, step, sample(step))
    names = sorted(folder.name for folder in tmp_path.iterdir())
    assert names == [f"step-{step:09d}" for step in range(8 - KEEP - 1, 8)]


@pytest.mark.parametrize("harm", ["cut", "flip", "missing", "manifest", "empty"])
def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path, harm: str) -> None:
    """Whatever happens to the newest one, the one before it counts."""
    for step in (1, 2):
        save_checkpoint(tmp_path, step, sample(step))
    newest = tmp_path / "step-000000002"
    target = newest / "model.safetensors"
    data = target.read_bytes()
    if harm == "cut":
        target.write_bytes(data[:-1])
    elif harm == "flip":
        target.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif harm == "missing":
        target.unlink()
    elif harm == "manifest":
        (newest / "manifest.json").write_text(json.dumps({"../x": {"sha256": ""}}))
    else:
        (newest / "manifest.json").write_text("")
    with pytest.warns(InputWarning, match="W721"):
        found = load_checkpoint(tmp_path)
    assert found is not None
    assert found.state["step"] == 1


def test_nothing_is_found_where_nothing_is(tmp_path: Path) -> None:
    """An empty or absent folder has no checkpoint."""
    assert load_checkpoint(tmp_path) is None
    assert load_checkpoint(tmp_path / "absent") is None


def test_a_failed_write_leaves_the_old_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the disk refuses, the folder that was there is whole, and it is said."""
    folder = tmp_path / "model"
    write_folder(folder, {"a": b"old"})

    def refuse(source: object, target: object) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr(verified_folder.os, "rename", refuse)
        with pytest.raises(InputError, match="E731"):
            write_folder(folder, {"a": b"new"})
    assert read_folder(folder) == {"a": b"old"}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    write_folder(folder, {"a": b"new"})
    assert read_folder(folder) == {"a": b"new"}


@pytest.mark.parametrize("name", ["notes.txt", "README.md", "a"])
def test_what_others_put_there_is_not_replaced(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    for place in (folder / name, tmp_path / "file"):
        place.write_text("precious")
    for target in (folder, tmp_path / "file"):
        with pytest.raises(InputError, match="E731"):
            write_folder(target, {"a": b"new"}, unlisted={"README.md": b"card"})
    assert (folder / name).read_text() == (tmp_path / "file").read_text() == "precious"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "mine"]
    (folder / name).unlink()
    for data in (b"new", b"newer"):  # an empty folder, then one of our own
        write_folder(folder, {"a": data}, unlisted={"README.md": b"card"})
        assert read_folder(folder) == {"a": data}
    (folder / "LICENSE").write_text("added by hand")
    with pytest.raises(InputError, match="E731"):
        write_folder(folder, {"a": b"newest"}, unlisted={"README.md": b"card"})
    assert read_folder(folder) == {"a": b"newer"}
