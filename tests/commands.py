"""What tests of the command line share: running a command, and its one line."""

from __future__ import annotations

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
