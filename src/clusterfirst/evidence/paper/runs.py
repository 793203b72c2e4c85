"""Runs what a table needs and keeps every run, so that nothing is run twice.

Tables say which cells they need; what has no line in `runs.jsonl` yet is run, after
saying how long that will take. Ctrl-C ends the running, not the table: cells that are
not finished say so.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from clusterfirst.evidence.bench.lines import Mean
from clusterfirst.evidence.bench.rows import LinesFile
from clusterfirst.evidence.bench.sets import BenchSet, Case
from clusterfirst.evidence.paper.instances import Scale, Sets
from clusterfirst.evidence.paper.method_runs import (
    NEURAL,
    MethodRun,
    Recipe,
    RunKey,
    allowed,
    key_of,
    run_method,
)
from clusterfirst.evidence.paper.variants import Models, Weights
from clusterfirst.files.outputs import Outputs
from clusterfirst.problem.errors import InputError


@dataclass(frozen=True)
class Task:
    """A recipe on every instance of a set."""

    kind: str
    size: int
    recipe: Recipe

    def __str__(self) -> str:
        return f"{self.kind} N = {self.size}, {self.recipe}"


@dataclass(frozen=True)
class Measured:
    """A task and what is there of it."""

    task: Task
    bench_set: BenchSet
    pairs: tuple[tuple[Case, MethodRun], ...]  # the finished ones, in the set's order

    @property
    def unfinished(self) -> str:
        """What is still missing, in words; "" if nothing is."""
        total = len(self.bench_set.cases)
        if len(self.pairs) < total:
            return f"not finished: {len(self.pairs)} of {total}"
        if not self.bench_set.references:
            return "not finished: no references yet"
        return ""

    @property
    def gaps(self) -> dict[int, float]:
        """Per cent above the reference, by place in the set, of what was solved."""
        return {
            place: 100 * (run.cost / case.reference - 1)
            for place, (case, run) in enumerate(self.pairs)
            if run.cost is not None and case.reference
        }

    @property
    def gap(self) -> Mean:
        """Mean over the instances that were solved."""
        return Mean.of(list(self.gaps.values()))

    @property
    def stopped(self) -> int:
        """Assignments that time ended before they were within their MIP gap."""
        limit = self.task.recipe.mip_gap + 1e-5  # HiGHS rounds its own
        neural = self.task.recipe.method == NEURAL
        return sum(
            neural and (run.reached is None or run.reached > limit)
            for _, run in self.pairs
        )

    @property
    def freed(self) -> int:
        """Instances whose hard assignment did not keep everyone who was fixed."""
        return sum(run.freed > 0 for _, run in self.pairs)

    @property
    def seconds(self) -> float:
        """The paper's way: the whole set, here one instance after the other."""
        return sum(run.seconds for _, run in self.pairs)

    @property
    def seconds_each(self) -> float:
        """Mean over instances."""
        return self.seconds / len(self.pairs)


Result = Measured | str  # a string says why there is nothing
Name = TypeVar("Name")


@dataclass
class Runs:
    """The scale, the sets, the models and the runs of one call."""

    scale: Scale
    sets: Sets
    models: Models
    folder: Path  # of the results
    say: Callable[[str], None]
    interrupted: bool = False
    load: float = 0.0  # the highest load average seen while running
    _known_runs: dict[RunKey, MethodRun] | None = None

    # --- what is there ----------------------------------------------------------------

    def result(self, task: Task) -> Result:
        """What is there of a task, or why there is nothing."""
        reason = self.reason(task)
        if reason:
            return reason
        found = self.sets.get(task.kind, task.size)
        known = [(case, self._known(task, case)) for case in found.cases]
        pairs = tuple((case, run) for case, run in known if run is not None)
        return Measured(task, found, pairs) if pairs else "not run yet"

    def reason(self, task: Task) -> str:
        """Why a task cannot run here, or ""."""
        if task.recipe.method == NEURAL and self._weights(task) is None:
            return f"waits for weights: {task.recipe.model}"
        try:
            self.sets.get(task.kind, task.size)
        except InputError as error:
            return str(error.problems[0])
        return ""

    def _weights(self, task: Task) -> Weights | None:
        name = task.recipe.model
        return self.models.find(name) if name else None

    def _key(self, task: Task, case: Case) -> RunKey:
        seconds = self.scale.seconds[task.size]
        return key_of(case.digest, task.recipe, self._weights(task), seconds)

    def _known(self, task: Task, case: Case) -> MethodRun | None:
        return self._kept().get(self._key(task, case))

    def _kept(self) -> dict[RunKey, MethodRun]:
        if self._known_runs is None:
            self._known_runs = {run.key: run for run in self._file().read()}
        return self._known_runs

    def _file(self) -> LinesFile[MethodRun]:
        return LinesFile(self.folder / "runs.jsonl", MethodRun)

    def claim(self, tables: Sequence[str]) -> None:
        """Take the folder: files of others in the place of a table stay as they are."""
        runs = self._file()
        names = [
            f"{table}{suffix}"
            for table in tables
            for suffix in (".txt", ".csv", ".json", ".png")
        ]
        names += [runs.path.name, "plans.jsonl", "pictures/"]
        Outputs().resumed(self.folder, names, ours=runs.is_ours)
        runs.append([])  # the mark of the folder, also where nothing can run

    # --- running ----------------------------------------------------------------------

    def run(self, tasks: Sequence[Task]) -> None:
        """Run what is missing of the tasks, after saying how long it will take."""
        todo = [task for task in dict.fromkeys(tasks) if not self.reason(task)]
        if self.interrupted or not todo:
            return
        try:
            self._announce(todo, "stated: their time limits, where none has run yet")
            if self.scale.name == "full":
                for task in todo:
                    self._run(task, self.sets.get(task.kind, task.size).cases[:1])
                self._announce(todo, "measured on the first instance of each row")
            for kind, size in dict.fromkeys((t.kind, t.size) for t in todo):
                self._refer(kind, size)
            for task in todo:
                self._run(task, self.sets.get(task.kind, task.size).cases)
        except KeyboardInterrupt:
            self.interrupted = True

    def results(self, tasks: Mapping[Name, Task]) -> dict[Name, Result]:
        """Run what is missing of the tasks; what there is of each, by its name."""
        self.run(list(tasks.values()))
        return {name: self.result(task) for name, task in tasks.items()}

    def attempt(self, work: Callable[[], None]) -> None:
        """Do other work of a table, unless and until Ctrl-C."""
        if not self.interrupted:
            try:
                work()
            except KeyboardInterrupt:
                self.interrupted = True

    def _refer(self, kind: str, size: int) -> None:
        """Get references; a set without any still has times and vehicles."""
        try:
            self.sets.referenced(kind, size)
        except InputError as error:
            self.say(f"{kind} N = {size}: {error.problems[0]}")

    def _run(self, task: Task, cases: Sequence[Case]) -> None:
        weights = self._weights(task)
        for number, case in enumerate(cases):
            if self._known(task, case) is not None:
                continue
            self.sets.show(f"{task}: {number} of {len(cases)}")
            run = run_method(case.instance, task.recipe, self._key(task, case), weights)
            self._file().append([run])
            self._kept()[run.key] = run
            if hasattr(os, "getloadavg"):  # not on Windows
                self.load = max(self.load, os.getloadavg()[0])

    # --- how long ---------------------------------------------------------------------

    def tell_hours(self, what: str, seconds: float, how: str) -> None:
        """Say how long other work of a table will take."""
        if seconds:
            self.say(f"{what}: {in_words(seconds / 3600)} to go ({how})")

    def _announce(self, tasks: Sequence[Task], how: str) -> None:
        """Say the hours that are left, and what that is based on."""
        runs, references = self.hours(tasks)
        if runs or references:
            self.say(
                f"{self.scale.name}: {in_words(runs + references)} to go: "
                f"{in_words(runs)} of runs ({how}), {in_words(references)} of HGS for "
                "references (at most: cached ones cost nothing)"
            )

    def hours(self, tasks: Sequence[Task]) -> tuple[float, float]:
        """Hours left of runs (their limit where nothing was measured), references."""
        runs = 0.0
        for task in tasks:
            cases = self.sets.get(task.kind, task.size).cases
            known = [self._known(task, case) for case in cases]
            measured = [run.seconds for run in known if run is not None]
            each = allowed(task.recipe, self.scale.seconds[task.size])
            if measured:
                each = statistics.fmean(measured)
            runs += each * (len(cases) - len(measured))
        sets = dict.fromkeys((task.kind, task.size) for task in tasks)
        return runs / 3600, sum(self.sets.missing(*which) for which in sets) / 3600


def in_words(hours: float) -> str:
    """Hours, or minutes below one."""
    return f"{hours:.1f} h" if hours >= 1 else f"{60 * hours:.0f} min"
