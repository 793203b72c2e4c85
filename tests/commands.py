"""What tests of the command line share: running a command, and its one line."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clusterfirst.cli import main

Capture = pytest.CaptureFixture[str]


def run(*args: str | Path) -> int:
    """Run one command in this process."""
    return main([str(arg) for arg in args])


def problem_of(capsys: Capture) -> str:
    """The single line that a failed command printed."""
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert len(lines) == 1, err
    assert lines[0].startswith("clusterfirst: ")
    assert len(lines[0]) <= 300
    return lines[0].removeprefix("clusterfirst: ")


@contextmanager
def in_time(seconds: int) -> Iterator[None]:
    """Fail when the block hangs, as opening a pipe would."""

    def late(number: int, frame: object) -> None:
        raise AssertionError(f"not finished after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
