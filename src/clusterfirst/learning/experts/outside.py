"""Programs that read .vrp and write .sol, as methods: `cmd:PROGRAM ...`.

This is how LKH-3, FILO2, AILS-II and the published neural solvers join a comparison
where a user has them. The words {instance}, {solution}, {seconds} and {seed} of the
command are filled in; no shell is involved. A first word `search-free` is not passed
on: it says under which heading of a comparison the program belongs. A program that
gets the word {ready} makes that file when it has loaded, and is timed from then on.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from clusterfirst.files import read_solution, write_instance
from clusterfirst.learning.experts.expert import ExpertSettings, judged_answer
from clusterfirst.problem.errors import InputError, InputWarning, Problem, quote
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution
from clusterfirst.solving.child import ChildFailedError

COMMAND = "cmd:"  # prefix of such a method
SEARCH_FREE = "search-free"  # first word of one that does no local search
READY = "{ready}"
LOADING = 120.0  # seconds until a program must be ready
LOOK = 0.002  # seconds between two looks for that
LARGEST_DISTANCE = 1e6  # rounding to whole numbers costs less than 1e-6 of this


def program_words(method: str) -> list[str]:
    """The words of `cmd:...`, checked: the program exists and gets its two files."""
    text = method.removeprefix(COMMAND)
    try:
        words = shlex.split(text)
    except ValueError as error:
        rule = f"the command cannot be split into words: {error}"
        raise InputError(Problem("E404", "method", method, rule)) from error
    words = words[1:] if is_search_free(method) else words
    missing = [part for part in ("{instance}", "{solution}") if part not in text]
    if not words or missing:
        rule = (
            "an outside program is cmd:PROGRAM ... {instance} ... {solution}, "
            "with {seconds}, {seed} and {ready} where it takes them"
        )
        raise InputError(Problem("E404", "method", method, rule))
    if shutil.which(words[0]) is None:
        rule = "this program is not installed, or is not executable"
        raise InputError(Problem("E422", "method", words[0], rule))
    return words


def is_search_free(method: str) -> bool:
    """Whether the user says that the program does no local search."""
    return method.removeprefix(COMMAND).split(" ")[0] == SEARCH_FREE


def solve_with_program(
    method: str, instance: Instance, settings: ExpertSettings
) -> tuple[Solution, float]:
    """Return the judged answer, and the seconds the program took to load."""
    loading = 0.0
    with tempfile.TemporaryDirectory(prefix="clusterfirst-") as folder:
        given, answer = Path(folder) / "instance.vrp", Path(folder) / "solution.sol"
        with warnings.catch_warnings():
            # What a .vrp cannot hold (names, city rows) the program does not need.
            warnings.simplefilter("ignore", InputWarning)
            write_instance(given, whole_numbers(instance))
        values = {
            "{instance}": str(given),
            "{solution}": str(answer),
            "{seconds}": f"{settings.seconds:g}",
            "{seed}": str(settings.seed),
            READY: str(Path(folder) / "ready"),
        }
        ready = Path(values[READY]) if READY in method else None
        words = program_words(method)
        for name, value in values.items():
            words = [word.replace(name, value) for word in words]

        def ask() -> list[list[int]]:
            nonlocal loading
            patience = settings.patience(instance.num_customers)
            loading = _run_command(words, patience, ready)
            if not answer.exists():
                raise ChildFailedError("it wrote no solution file")
            try:
                solution, _ = read_solution(answer, instance)
            except InputError as error:
                raise ChildFailedError(str(error.problems[0])) from None
            return [list(route) for route in solution.routes]

        return judged_answer(instance, quote(words[0]), ask, attempts=1), loading


def whole_numbers(instance: Instance) -> Instance:
    """The instance as CVRPLIB programs expect it: everything a whole number.

    They round each distance of a .vrp file to the nearest integer, so distances are
    scaled up until that does no harm.
    """
    fields: dict[str, Any] = {
        "demands": instance.demand_units,
        "capacity": instance.capacity_units,
        "vehicles": instance.vehicles,
        "name": "instance",
        "max_customers": instance.max_customers,
    }
    coords = instance.coords
    if instance.metric == "euclidean" and coords is not None:
        if instance.rounding != "round":
            coords = coords - coords.min(axis=0)
            coords = np.rint(coords * (LARGEST_DISTANCE / max(coords.max(), 1e-300)))
        return Instance(coords=coords, **fields)
    largest = instance.distances.max()
    scale = LARGEST_DISTANCE / largest if largest > 0 else 1.0
    matrix = np.rint(instance.distances * scale)
    return Instance(matrix=matrix, metric="matrix", **fields)


def _run_command(words: list[str], patience: float, ready: Path | None) -> float:
    """Run a program to its end; it and its children are killed when it hangs.

    Returns the seconds until the file `ready` was there; a program has LOADING of them.
    """
    loaded = 0.0
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a group of its own, to be killed as one
        )
    except OSError as error:
        raise ChildFailedError(f"it cannot be started: {error.strerror}") from None
    try:
        if ready is not None:
            loaded = _until_ready(process, ready)
        code = process.wait(patience)
    except subprocess.TimeoutExpired:
        reason = f"no answer after {patience:g} s; it was ended"
        raise ChildFailedError(reason) from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if code != 0:
        raise ChildFailedError(f"it ended with exit code {code}")
    return loaded


def _until_ready(process: subprocess.Popen[bytes], ready: Path) -> float:
    """Wait for the file, for the program's end, or for LOADING seconds."""
    start = time.perf_counter()
    while process.poll() is None and not ready.exists():
        if time.perf_counter() - start > LOADING:
            reason = f"it was not ready after {LOADING:g} s; it was ended"
            raise ChildFailedError(reason)
        time.sleep(LOOK)
    return time.perf_counter() - start
