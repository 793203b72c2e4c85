"""The answers of `solve`: on stdout, in files, and in folders."""

from __future__ import annotations

from collections.abc import Sequence
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
from clusterfirst.problem.errors import ClusterfirstError, InputError, Problem, quote

if TYPE_CHECKING:
    from clusterfirst.files.outputs import Outputs
    from clusterfirst.problem.instance import Instance
    from clusterfirst.solving.solver import Result


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

    outs: Sequence[Path]
    outputs: Outputs
    as_json: bool
    as_lines: bool = False  # JSON too, but each document on a line, at once
    several: bool = False
    code: int = 0
    documents: list[dict[str, Any]] = field(default_factory=list)
    targets: dict[tuple[Path, int], list[Path]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        from clusterfirst.files.by_suffix import SOLUTION_SUFFIXES

        for out in self._files:
            if out.suffix.lower() not in SOLUTION_SUFFIXES:
                known = ", ".join(SOLUTION_SUFFIXES)
                rule = f"a file ends in {known}; a folder has no suffix"
                raise InputError(Problem("E404", "--out", str(out), rule))
            self._refuse_several(out)
            self.outputs.file(out)

    @property
    def folders(self) -> list[Path]:
        """Those of --out that get a file for each instance."""
        return [out for out in self.outs if out.is_dir() or not out.suffix]

    @property
    def _files(self) -> list[Path]:
        folders = self.folders
        return [out for out in self.outs if out not in folders]

    def _refuse_several(self, out: Path) -> None:
        if self.several:
            rule = "several instances need a folder"
            raise InputError(Problem("E404", "--out", str(out), rule))

    def plan(self, source: Path, names: Sequence[str]) -> None:
        """Claim a file in each folder for each instance, before any is solved."""
        from clusterfirst.files.outputs import file_name

        for index, name in enumerate(names):
            self.targets[source, index] = [
                self.outputs.inside(folder, file_name(name, ".sol"), str(source))
                for folder in self.folders
            ]

    def expect(self, instances: Sequence[Instance]) -> None:
        """Look at what the file at hand holds, before it is solved."""
        from clusterfirst.files.by_suffix import require_solution_fits

        self.several = self.several or len(instances) != 1
        for out in self._files:
            self._refuse_several(out)
            for instance in instances:
                require_solution_fits(out, instance)

    def has(self, source: Path, index: int, instance: Instance) -> bool:
        """Whether every folder has a right answer for an instance of a file."""
        from clusterfirst.files import read_solution
        from clusterfirst.problem.solution import judge

        targets = self.targets.get((source, index), [])
        for target in targets:
            try:
                solution, cost = read_solution(target, instance)
            except ClusterfirstError:  # none, or one that cannot be read
                return False
            if not judge(instance, solution, stated_cost=cost).feasible:
                return False
        if targets:
            say(f"{instance.name}: kept {targets[0]}")
        return bool(targets)

    def add(self, source: Path, index: int, result: Result) -> None:
        """Hand the answer for instance `index` of a file over."""
        for note in result.notes:
            say(f"{result.instance.name}: {note}")
        document = result.as_dict()
        lost = self._write(
            [*self._files, *self.targets.get((source, index), [])], result
        )
        if lost:
            document["not_written"] = [error_document(error) for error in lost]
        for_people = not (self.as_json or self.as_lines)
        self._document("result", document)
        if self.several and for_people:
            emit(summary(result))
            return
        say(summary(result))
        if not self.outs and for_people:
            emit(_routes_text(source, result))

    def add_error(self, source: Path, error: ClusterfirstError) -> None:
        """Name what went wrong with a file and go on."""
        error.source = error.source or quote(str(source))
        self._say_error(error)
        self._document("error", error_document(error))

    def improved(self, result: dict[str, Any]) -> None:
        """Hand a better answer over while the search goes on."""
        self._document("improvement", result)

    def _say_error(self, error: ClusterfirstError) -> None:
        self.code = max(self.code, error.exit_code)
        say_error(error)

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

    def _write(self, targets: list[Path], result: Result) -> list[ClusterfirstError]:
        """Write an answer everywhere; what fails is named and keeps nothing back."""
        from clusterfirst.files import write_solution
        from clusterfirst.files.atomic import make_folder

        lost: list[ClusterfirstError] = []
        for target in targets:
            try:
                if target.parent in self.folders:
                    # Made with the first answer: bad input leaves no trace.
                    make_folder(target.parent)
                document = result.as_dict()
                write_solution(target, result.instance, result.solution, document)
            except ClusterfirstError as error:
                error.source = error.source or quote(str(target))
                self._say_error(error)
                lost.append(error)
        return lost


def _routes_text(source: Path, result: Result) -> str:
    """Routes in the terms of the input: the user's ids for CSV, else a .sol file."""
    from clusterfirst.files.export import format_stops
    from clusterfirst.files.solutions import format_sol

    orders = source.suffix.lower() == ".csv"
    text = format_stops if orders else format_sol
    return text(result.instance, result.solution)
