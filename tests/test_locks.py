"""One process in a folder, nothing left of a refusal, and odd files of runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benches import made_row, small_set
from clusterfirst.evidence.bench.rows import RowsFile
from clusterfirst.files.lock import LOCK, locked
from clusterfirst.learning.training.config_files import read_config
from clusterfirst.learning.training.pretraining import load_psi, pretrain
from clusterfirst.networks.trainable.embed import SETTINGS
from clusterfirst.problem.errors import InputError
from clusterfirst.problem.sampling import sample_city
from commands import Capture, in_time, problem_of, run

CITY = sample_city(30, seed=5)


def test_a_lock_leaves_nothing_it_made(tmp_path: Path) -> None:
    """Lock file and empty folders go; what the holder wrote stays (A11)."""
    with locked(tmp_path / "a" / "b") as folder:
        assert (folder / LOCK).exists()
    assert not (tmp_path / "a").exists()
    with locked(tmp_path / "a" / "b") as folder:
        (folder / "kept").write_text("x")
    assert os.listdir(tmp_path / "a" / "b") == ["kept"]


def test_a_second_holder_is_refused_and_leaves_the_first_alone(tmp_path: Path) -> None:
    """The refusal names the holder, whose lock goes on holding."""
    with locked(tmp_path):
        for _ in range(2):
            with (
                pytest.raises(InputError, match=f"E723 .*process {os.getpid()}"),
                locked(tmp_path),
            ):
                pass
        with pytest.raises(InputError, match="E723"):
            pretrain(CITY, SETTINGS["default"], tmp_path)
    with locked(tmp_path):
        pass


@pytest.mark.parametrize("kind", ["json", "toml"])
def test_deep_configurations_are_one_sentence(tmp_path: Path, kind: str) -> None:
    """A hundred thousand brackets do not end in a RecursionError (A7)."""
    path = tmp_path / f"deep.{kind}"
    path.write_text(("a=" if kind == "toml" else "") + "[" * 100_000)
    with pytest.raises(InputError, match="E704"):
        read_config(str(path))
    path.unlink()
    os.mkfifo(path)
    with in_time(20), pytest.raises(InputError, match="E104"):
        read_config(str(path))


def test_odd_rows_are_no_rows_and_a_pipe_is_refused(tmp_path: Path) -> None:
    """Lines that no run wrote are passed over; nothing is made by reading (A6)."""
    rows = RowsFile(tmp_path / "new")
    assert rows.read() == []
    assert not (tmp_path / "new").exists()
    rows.path.parent.mkdir()
    for line in ("[" * 100_000, "{}", '{"digest": []}', "null", "\xff"):
        rows.path.write_text(line + "\n", encoding="latin-1")
        assert rows.read() == []
    rows.path.unlink()
    os.mkfifo(rows.path)
    with in_time(20), pytest.raises(InputError, match="E104"):
        rows.read()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device here")
def test_a_full_disk_of_rows_is_e732(tmp_path: Path) -> None:
    """The code of a full disk, not of a place that cannot be written (A11)."""
    rows = RowsFile(tmp_path)
    rows.path.symlink_to("/dev/full")
    with pytest.raises(InputError, match="E732"):
        rows.append([made_row(small_set(1).cases[0], "sweep", 1.0)])


def test_odd_tables_are_refused(tmp_path: Path) -> None:
    """A table Psi whose facts are nested too deeply, or a pipe, is E701."""
    facts = tmp_path / "psi.json"
    facts.write_text("[" * 100_000)
    with pytest.raises(InputError, match="E701"):
        load_psi(tmp_path, CITY)
    facts.unlink()
    os.mkfifo(facts)
    with in_time(20), pytest.raises(InputError, match="E701"):
        load_psi(tmp_path, CITY)


def test_a_refused_bench_leaves_nothing(tmp_path: Path, capsys: Capture) -> None:
    """No folder and no rows.jsonl of a set that is not there (A11)."""
    out = tmp_path / "out"
    assert run("bench", tmp_path / "nowhere", "--methods", "sweep", "--out", out) == 2
    problem_of(capsys)
    assert not out.exists()


def test_a_second_service_of_a_folder_is_refused(
    tmp_path: Path, capsys: Capture
) -> None:
    """It would run again what the first has under way."""
    with locked(tmp_path), in_time(60):
        assert run("serve", "--data", tmp_path, "--workers", "1") == 2
    assert "E723" in problem_of(capsys)
