"""Lines for people: progress in one place, everything else below it."""

from __future__ import annotations

import io
import sys

import pytest

from clusterfirst.commands.console import ProgressLine, emit, leave_progress, say


class Terminal(io.StringIO):
    """A stderr that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_progress_on_a_terminal_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is rewritten in place; whatever is said next, data too, begins below it."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    show = ProgressLine()
    show("1 of 2")
    show("2 of 2")
    say("done")
    show("again")
    emit("data")
    leave_progress()
    assert screen.getvalue() == ("\r\x1b[K1 of 2\r\x1b[K2 of 2\ndone\n\r\x1b[Kagain\n")
    assert capsys.readouterr().out == "data\n"


def test_progress_in_a_file_comes_now_and_then(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A line at once where that is wanted, then none before its time."""
    show = ProgressLine(3600.0, at_once=True)
    show("1 of 3")
    show("2 of 3")
    ProgressLine(3600.0)("too early")
    ProgressLine(0.0)("at any time")
    assert capsys.readouterr().err == "1 of 3\nat any time\n"
