"""One door for bytes: regular files, of a limited size, that stand still."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterfirst.files.source import read_bytes
from clusterfirst.problem.errors import InputError


def a_socket(path: Path) -> None:
    """Leave a socket at this place."""
    here = os.getcwd()
    os.chdir(path.parent)  # the name of a socket has at most 107 bytes
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


def code_of(path: Path, most: int = 100) -> str:
    """The code of the sentence that reading this ends in; a hang fails."""
    codes: list[str] = []

    def read() -> None:
        try:
            read_bytes(path, most)
        except InputError as error:
            codes.append(error.problems[0].code)

    worker = threading.Thread(target=read, daemon=True)
    worker.start()
    worker.join(10)
    assert not worker.is_alive(), "reading hangs"
    return codes[0] if codes else ""


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (os.mkfifo, "E104"),
        (a_socket, "E104"),
        (os.mkdir, "E102"),
        (lambda path: path.symlink_to("/dev/zero"), "E104"),
        (lambda path: path.symlink_to(path), "E102"),
        (Path.touch, "E101"),
        (lambda path: None, "E102"),
    ],
)
def test_only_regular_files_are_read(
    tmp_path: Path, make: Callable[[Path], None], code: str
) -> None:
    """Whatever else has the name gets a sentence, and at once (A6)."""
    make(tmp_path / "place")
    assert code_of(tmp_path / "place") == code


def test_a_file_over_the_limit_is_not_read_at_all(tmp_path: Path) -> None:
    """A sparse terabyte is refused by its size; the limit itself is allowed (A9)."""
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(2**40)
    assert code_of(path, 2**39) == "E104"
    path.write_bytes(b"x" * 100)
    assert read_bytes(path, 100) == b"x" * 100
    assert code_of(path, 99) == "E104"


def test_a_file_without_a_size_is_cut_off(tmp_path: Path) -> None:
    """Files of /proc say 0 bytes and have more."""
    if not Path("/proc/self/maps").exists():
        pytest.skip("there is no /proc here")
    assert code_of(Path("/proc/self/maps"), 10) == "E104"


def test_a_file_that_changes_meanwhile_is_refused_unless_it_may_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half the old and half the new content would be a silently wrong instance."""
    path = tmp_path / "moving"
    path.write_bytes(b"old")
    fstat, looks = os.fstat, []

    def look(handle: int) -> os.stat_result:
        looks.append(handle)
        if len(looks) % 2 == 0:
            with path.open("ab") as file:
                file.write(b"new")
        return fstat(handle)

    monkeypatch.setattr("clusterfirst.files.source.os.fstat", look)
    assert code_of(path) == "E102"
    assert read_bytes(path, growing=True).startswith(b"old")
