"""Data goes to stdout, words to stderr, and errors are one line per problem."""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TextIO

from clusterfirst.problem.errors import ClusterfirstError, InputWarning, quote

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def say(text: str) -> None:
    """Print a line for a person on stderr, if that is open.

    To `print`, a closed one is None, which it takes for stdout.
    """
    leave_progress()
    if sys.stderr is not None:
        print(text, file=sys.stderr, flush=True)


def emit(text: str) -> None:
    """Print data on stdout."""
    leave_progress()
    print(text, end="" if text.endswith("\n") else "\n")


def emit_json(document: dict[str, Any]) -> None:
    """Print one JSON document on stdout."""
    emit(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def emit_json_line(document: dict[str, Any]) -> None:
    """Print one JSON document on one line of stdout, at once."""
    emit(json.dumps(document, ensure_ascii=False, allow_nan=False))
    sys.stdout.flush()


def emit_facts(facts: Mapping[str, object], as_json: bool = False) -> None:
    """Print facts by name: one JSON document, or a line each."""
    if as_json:
        emit_json(dict(facts))
    else:
        width = max(10, *map(len, facts))
        for name, value in facts.items():
            emit(f"{name:<{width}} {value}")


def error_document(error: ClusterfirstError) -> dict[str, Any]:
    """Return an error as JSON: the first problem, and all of them."""
    first, *_ = problems = [problem.as_dict() for problem in error.problems]
    document: dict[str, Any] = {"error": first, "problems": problems}
    return {"file": error.source, **document} if error.source else document


def say_error(error: ClusterfirstError) -> None:
    """Print one line per problem on stderr, at most 20 lines."""
    for line in error.lines():
        say(f"clusterfirst: {line}")


def write_each(targets: Sequence[Path], write: Callable[[Path], None]) -> int:
    """Write every target; one that fails is named and keeps no other back."""
    code = 0
    for target in targets:
        try:
            write(target)
        except ClusterfirstError as error:
            error.source = error.source or quote(str(target))
            say_error(error)
            code = max(code, error.exit_code)
        else:
            say(f"wrote {target}")
    return code


def write_forms(
    targets: Sequence[Path],
    figure: Callable[[], Figure],
    table: Callable[[], str],
    document: Callable[[], Mapping[str, Any]] | None = None,
) -> int:
    """Write the same thing as a table (.csv), a document (.json) or else a picture."""
    from clusterfirst.files import write_json, write_text
    from clusterfirst.files.picture import write_figure

    def write(target: Path) -> None:
        kind = target.suffix.lower()
        if kind == ".csv":
            write_text(target, table())
        elif kind == ".json" and document is not None:
            write_json(target, document())
        else:
            write_figure(target, figure)

    return write_each(targets, write)


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Show warnings about the input as lines on stderr, each one once."""
    seen: set[str] = set()
    show_others = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if not issubclass(category, InputWarning):
            show_others(message, category, filename, lineno, file, line)
        elif str(message) not in seen:
            seen.add(str(message))
            say(f"clusterfirst: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", InputWarning)
        warnings.showwarning = show
        yield


class ProgressLine:
    """One line of progress: on a terminal rewritten, else printed now and then.

    Whatever else is said begins below it.
    """

    is_open: ClassVar[bool] = False  # a line on the terminal has no end yet

    def __init__(self, every: float = 10.0, *, at_once: bool = False) -> None:
        self.every = every  # seconds between two lines where there is no terminal
        self._said = -math.inf if at_once else time.monotonic()

    def __call__(self, text: str) -> None:
        """Say it, if it is time to."""
        if sys.stderr is None:
            return
        if sys.stderr.isatty():
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
            ProgressLine.is_open = True
        elif time.monotonic() - self._said >= self.every:
            self._said = time.monotonic()
            say(text)


def counted(what: str) -> Callable[[int, int], None]:
    """A callback that shows how many are done, and of how many."""
    show = ProgressLine()
    return lambda done, total: show(f"{done} of {total} {what}")


def leave_progress() -> None:
    """End the line of progress on the terminal, if there is one."""
    if ProgressLine.is_open and sys.stderr is not None:
        print(file=sys.stderr)
    ProgressLine.is_open = False
