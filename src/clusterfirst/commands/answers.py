"""Where the answers of `solve` go: stdout, one file, or a folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusterfirst.commands.console import (
    emit,
    emit_json,
    emit_json_line,
    error_document,
    say,
    say_error,
)
from clusterfirst.errors import ClusterfirstError, InputError, Problem, quote

if TYPE_CHECKING:
    from clusterfirst.solver import Result

PICTURES = (".png", ".svg")
SUFFIXES = (".sol", ".json", ".csv", ".geojson", *PICTURES)


def summary(result: Result) -> str:
    """Return one line about an answer: cost, routes, method, time, status."""
    instance, solution = result.instance, result.solution
    unit = f" {instance.unit}" if instance.unit else ""
    startup = f" (start-up {result.startup:.1f} s)" if result.startup >= 0.1 else ""
    return (
        f"{instance.name or 'instance'}: cost {result.verdict.cost:.8g}{unit}, "
        f"{len(solution.routes)} routes for {instance.num_customers} customers, "
        f"method {result.method}, {sum(result.seconds.values()):.2f} s{startup}; "
        f"{result.status}"
    )


@dataclass
class Answers:
    """Takes results and errors as they come; `close` gives the exit code.

    The worst code wins: 2 for input that could not be read or an answer that could
    not be written, 1 for an instance without a feasible answer.
    """

    out: Path | None
    as_json: bool
    inputs: list[Path]
    as_lines: bool = False  # JSON too, but each document on a line, at once
    code: int = 0
    documents: list[dict[str, Any]] = field(default_factory=list)
    several: bool = field(init=False)
    written: dict[Path, Path] = field(default_factory=dict)  # target -> its input

    def __post_init__(self) -> None:
        self.several = len(self.inputs) > 1
        if self.out is None or self._into_folder:
            return
        if self.out.suffix.lower() not in SUFFIXES:
            rule = f"a file ends in {', '.join(SUFFIXES)}; a folder has no suffix"
            raise InputError(Problem("E404", "--out", str(self.out), rule))
        self._refuse_several("--out")
        if self.out.resolve() in {path.resolve() for path in self.inputs}:
            rule = "it is an input file and would be lost"
            raise InputError(Problem("E731", "--out", str(self.out), rule))

    @property
    def _into_folder(self) -> bool:
        out = self.out
        return out is not None and (out.is_dir() or not out.suffix)

    def _refuse_several(self, where: str) -> None:
        if self.out is not None and self.several and not self._into_folder:
            rule = "several instances need a folder"
            raise InputError(Problem("E404", where, str(self.out), rule))

    def expect(self, count: int) -> None:
        """Say how many instances the file at hand holds, before they are solved."""
        self.several = self.several or count != 1
        self._refuse_several("--out")

    def add(self, source: Path, result: Result) -> None:
        """Hand an answer over."""
        for note in result.notes:
            say(f"{result.instance.name}: {note}")
        if self.out is not None:
            self._write(source, result)
        for_people = not (self.as_json or self.as_lines)
        self._document("result", result.as_dict())
        if self.several and for_people:
            emit(summary(result))
            return
        say(summary(result))
        if self.out is None and for_people:
            emit(_routes_text(source, result))

    def add_error(self, source: Path, error: ClusterfirstError) -> None:
        """Name what went wrong with a file and go on."""
        error.source = error.source or quote(str(source))
        self.code = max(self.code, error.exit_code)
        say_error(error)
        self._document("error", error_document(error))

    def improved(self, result: dict[str, Any]) -> None:
        """Hand a better answer over while the search goes on."""
        self._document("improvement", result)

    def _document(self, event: str, document: dict[str, Any]) -> None:
        if self.as_lines:
            emit_json_line({"event": event, **document})
        elif self.as_json:
            self.documents.append(document)

    def close(self) -> int:
        """Print the JSON document, if that was asked for, and return the exit code."""
        if self.as_json:
            single = len(self.documents) == 1 and not self.several
            emit_json(self.documents[0] if single else {"results": self.documents})
        return self.code

    def _write(self, source: Path, result: Result) -> None:
        from clusterfirst.files import write_solution
        from clusterfirst.files.atomic import make_folder
        from clusterfirst.picture import write_picture

        assert self.out is not None
        target = self.out
        if self._into_folder:
            # The folder is made with the first answer: bad input leaves no trace.
            stem = source.stem if not _is_set(source) else result.instance.name
            target = make_folder(self.out) / f"{stem}.sol"
        if target in self.written:
            rule = f"it already holds the answer for {self.written[target]}"
            raise InputError(Problem("E731", "--out", str(target), rule))
        self.written[target] = source
        if target.suffix.lower() in PICTURES:
            write_picture(target, result.instance, result.solution)
        else:
            document = result.as_dict()
            write_solution(target, result.instance, result.solution, document)


def _is_set(source: Path) -> bool:
    return source.suffix.lower() in (".txt", ".npz")


def _routes_text(source: Path, result: Result) -> str:
    """Routes in the terms of the input: the user's ids for CSV, else a .sol file."""
    from clusterfirst.files.export import format_stops
    from clusterfirst.files.solutions import format_sol

    orders = source.suffix.lower() == ".csv"
    text = format_stops if orders else format_sol
    return text(result.instance, result.solution)
