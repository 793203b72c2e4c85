"""A file is there whole, or as it was before."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from clusterfirst import files
from clusterfirst.problem.errors import InputError
from clusterfirst.problem.solution import Solution
from strategies import small_day


class Died(BaseException):
    """Stands for a kill between two system calls."""


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), Died()])
def test_old_file_survives_every_failing_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: BaseException
) -> None:
    """When any call fails, the old content stays and nothing lies beside it."""
    path = tmp_path / "a.json"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(InputError if isinstance(error, OSError) else Died) as info:
            files.write_instance(path, small_day())
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    if isinstance(error, OSError):
        assert "E732" in str(info.value)


def test_failing_block_writes_nothing(tmp_path: Path) -> None:
    """An error while the file is being made leaves no file."""

    def fail_midway() -> None:
        with files.replacing(tmp_path / "a") as file:
            file.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_midway()
    assert list(tmp_path.iterdir()) == []


def test_links_keep_pointing(tmp_path: Path) -> None:
    """Writing to a link writes the file it points to."""
    (tmp_path / "link").symlink_to(tmp_path / "real")
    files.write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


@pytest.mark.parametrize("place", ["", "none/a.sol", "file/a.sol", "/dev/null", "a\0b"])
def test_wrong_places_get_a_sentence(tmp_path: Path, place: str) -> None:
    """A folder, a missing folder, a device and a bad name are E731."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="E731"):
        files.write_text(tmp_path / place, "text")


def test_full_device_gets_a_sentence(tmp_path: Path) -> None:
    """A full disk is E732."""
    if not Path("/dev/full").exists():
        pytest.skip("/dev/full is not on this machine")
    with (
        pytest.raises(InputError, match="E732"),
        files.replacing(tmp_path / "a"),
        open("/dev/full", "wb", buffering=0) as full,
    ):
        full.write(b"x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), object(), "\ud800"])
def test_json_refuses_what_json_has_not(tmp_path: Path, bad: object) -> None:
    """NaN, infinity, objects and half characters are refused, nothing written."""
    with pytest.raises(InputError, match="E301"):
        files.write_json(tmp_path / "a.json", {"cost": bad})
    assert list(tmp_path.iterdir()) == []


def test_unknown_customers_are_not_written(tmp_path: Path) -> None:
    """A solution with numbers that are no customers is refused by every format."""
    for suffix in (".sol", ".json", ".csv"):
        with pytest.raises(InputError, match="E804"):
            files.write_solution(
                tmp_path / f"a{suffix}", small_day(), Solution([[1, 9]])
            )
    assert list(tmp_path.iterdir()) == []
