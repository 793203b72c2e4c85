"""HGS, PyVRP, OR-Tools, VROOM and outside programs as methods beside ours.

Each gets checked input scaled to what it can hold, runs in a process of its own
under a wall-clock watchdog, and its answer counts only after `solution.judge` has
recomputed it. None of them says reliably when it failed: OR-Tools and VROOM cut
floats to integers without a word, and crash on what they do not like.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clusterfirst.clock import Deadline
from clusterfirst.engine import ChildFailedError, guarded_call
from clusterfirst.errors import (
    InputError,
    InputWarning,
    NotFoundInTimeError,
    Problem,
    quote,
)
from clusterfirst.files import read_solution, write_instance
from clusterfirst.hgs import (
    MAX_SEED,
    HgsSettings,
    fleet_bound,
    judged_answer,
    require_hygese,
    solve_tiny,
    solve_with_hgs,
)
from clusterfirst.instance import Instance, IntArray
from clusterfirst.pyvrp_teacher import require_pyvrp, solve_with_pyvrp
from clusterfirst.solution import Solution

if TYPE_CHECKING:  # it brings the compiled kernels, which no child of ours needs
    from clusterfirst.method import Work

COMMAND = "cmd:"  # prefix of a method that is an outside program
# Integer distances: rounding them costs less than 1e-6 of a route, and their sums
# stay far from the limits of 32 bits (VROOM multiplies by 100 inside).
LARGEST_DISTANCE = 1e6
MAX_LISTED = 5000  # customers; the distances of more do not fit in memory as lists
VROOM_LEVELS = (0, 2, 5)  # one after the other: level 5 alone is slow to begin
# A peer spends no part of its time on these, and they count as its time: start of
# the answer's way back, and its judge.
HAND_OVER = 0.002


def peer_names() -> tuple[str, ...]:
    """The peers by name; outside programs are `cmd:...`."""
    return tuple(_SOLVERS)


def is_peer(method: str) -> bool:
    """Whether a method is somebody else's."""
    return method in _SOLVERS or method.startswith(COMMAND)


def require_peer(method: str) -> None:
    """Raise InputError, naming what to install, unless the peer can run here."""
    if method.startswith(COMMAND):
        _words(method)
    else:
        _SOLVERS[method].require()


def run_peer(method: str, instance: Instance, settings: HgsSettings) -> Solution:
    """Return the judged answer of a peer at its best settings, asked once.

    Raises InfeasibleError when no solution can exist and NotFoundInTimeError, with
    the reason, when the peer gave no valid one.
    """
    require_peer(method)
    instance.require_feasible()
    small = solve_tiny(instance)
    if small is not None:
        return small
    if method.startswith(COMMAND):
        return _ask_command(method, instance, settings)
    return _SOLVERS[method].solve(instance, settings)


# --- as methods of solver.solve -------------------------------------------------


def hgs(work: Work) -> None:
    """HGS-CVRP (Vidal 2022)."""
    _offer(work, "hgs")


def pyvrp(work: Work) -> None:
    """PyVRP: iterated local search."""
    _offer(work, "pyvrp")


def ortools(work: Work) -> None:
    """OR-Tools: guided local search."""
    _offer(work, "ortools")


def vroom(work: Work) -> None:
    """VROOM: many constructions, each with local search."""
    _offer(work, "vroom")


def outside_program(work: Work, method: str) -> None:
    """`cmd:...`: a program that reads .vrp and writes .sol."""
    _offer(work, method)


def _offer(work: Work, method: str) -> None:
    """Offer what the peer finds; a peer without an answer leaves a note."""
    require_peer(method)
    if work.instance.num_customers <= MAX_LISTED and not method.startswith(COMMAND):
        _ = work.instance.distances  # made now, so that they count as the peer's time
    try:
        with work.stage(method.split(":", maxsplit=1)[0]):
            settings = _budget(method, work)
            solution = run_peer(method, work.instance, settings)
    except NotFoundInTimeError as error:
        work.notes.append(str(error))
        return
    work.offer([np.array(route, dtype=np.int64) for route in solution.routes])
    work.rounds += 1


def _budget(method: str, work: Work) -> HgsSettings:
    """The work's deadline, or else its number of iterations, as a peer's budget."""
    seed = work.seed % (MAX_SEED + 1)
    if work.deadline.left() < math.inf:
        return peer_budget(work.deadline, seed)
    if method.startswith(COMMAND):
        rule = "an outside program needs a time limit (--time-limit)"
        raise InputError(Problem("E402", "time_limit", "none", rule))
    iterations = min(work.iterations or MAX_SEED, MAX_SEED)
    return HgsSettings(iterations=iterations, seed=seed)


def peer_budget(deadline: Deadline, seed: int) -> HgsSettings:
    """What is left of the time, for a peer."""
    return HgsSettings(seconds=max(0.01, deadline.left() - HAND_OVER), seed=seed)


# --- OR-Tools and VROOM ---------------------------------------------------------


@dataclass(frozen=True)
class _Call:
    """Checked and scaled input, as it travels to the child."""

    distances: IntArray
    demands: IntArray
    capacity: int
    fleets: tuple[int, ...]  # numbers of vehicles to try, one after the other
    settings: HgsSettings


def _prepare(instance: Instance, settings: HgsSettings) -> _Call:
    n, most = instance.num_customers, fleet_bound(instance)
    if n > MAX_LISTED:
        rule = f"this peer gets at most {MAX_LISTED} customers: its matrix is too large"
        raise NotFoundInTimeError(Problem("E601", "customers", str(n), rule))
    largest = instance.distances.max()
    scale = LARGEST_DISTANCE / largest if largest > 0 else 1.0
    # Both peers slow down with every vehicle on offer: few first, all if need be.
    few = min(most, instance.min_vehicles + max(2, instance.min_vehicles // 10))
    return _Call(
        distances=np.rint(instance.distances * scale).astype(np.int64),
        demands=instance.demand_units,
        capacity=instance.capacity_units,
        fleets=(few,) if few == most else (few, most),
        settings=settings,
    )


def _ask(
    name: str,
    run: Callable[[_Call], list[list[int]]],
    instance: Instance,
    settings: HgsSettings,
) -> Solution:
    call = _prepare(instance, settings)
    patience = settings.patience(instance.num_customers)

    def ask() -> list[list[int]]:
        routes: list[list[int]] = guarded_call(run, call, patience)
        return routes

    return judged_answer(instance, name, ask, attempts=1)


def _run_ortools(call: _Call) -> list[list[int]]:
    """Run OR-Tools' routing solver; in the child process only."""
    if "highspy" in sys.modules:  # both bring their own HiGHS: one of them crashes
        raise ChildFailedError("OR-Tools cannot share a process with highspy")
    enums: Any = importlib.import_module("ortools.constraint_solver.routing_enums_pb2")
    solver: Any = importlib.import_module("ortools.constraint_solver.pywrapcp")
    end = _end(call.settings)
    for vehicles in call.fleets:
        manager = solver.RoutingIndexManager(len(call.demands), vehicles, 0)
        model = solver.RoutingModel(manager)
        # As tables, not as Python functions: no way back to Python for each distance.
        model.SetArcCostEvaluatorOfAllVehicles(
            model.RegisterTransitMatrix(call.distances.tolist())
        )
        load = model.RegisterUnaryTransitVector(call.demands.tolist())
        model.AddDimension(load, 0, call.capacity, True, "load")
        parameters = solver.DefaultRoutingSearchParameters()
        first, search = enums.FirstSolutionStrategy, enums.LocalSearchMetaheuristic
        parameters.first_solution_strategy = first.SAVINGS
        parameters.local_search_metaheuristic = search.GUIDED_LOCAL_SEARCH
        if call.settings.seconds is None:
            parameters.solution_limit = call.settings.iterations
        else:
            left = max(1e-3, end.left())
            parameters.time_limit.FromTimedelta(timedelta(seconds=left))
        answer = model.SolveWithParameters(parameters)
        if answer is not None:
            return [
                _ortools_route(manager, model, answer, vehicle)
                for vehicle in range(vehicles)
            ]
        if end.passed():
            break
    return []


def _ortools_route(manager: Any, model: Any, answer: Any, vehicle: int) -> list[int]:
    route = []
    at = answer.Value(model.NextVar(model.Start(vehicle)))
    while not model.IsEnd(at):
        route.append(int(manager.IndexToNode(at)))
        at = answer.Value(model.NextVar(at))
    return route


def _run_vroom(call: _Call) -> list[list[int]]:
    """Run VROOM, level after level while time is left; in the child process only."""
    end = _end(call.settings)
    levels = VROOM_LEVELS if call.settings.seconds is not None else VROOM_LEVELS[:1]
    best: tuple[float, list[list[int]]] = (math.inf, [])
    for vehicles in call.fleets:
        for level in levels:
            if best[1] and end.passed():
                return best[1]
            found = _vroom_level(call, vehicles, level, end)
            if found is None:  # customers were left out: more vehicles
                break
            best = min(best, found)
        if best[1]:
            break
    return best[1]


def _vroom_level(
    call: _Call, vehicles: int, level: int, end: Deadline
) -> tuple[float, list[list[int]]] | None:
    package: Any = importlib.import_module("vroom")
    problem = package.Input()
    problem.set_durations_matrix("car", call.distances.astype(np.uint32))
    for number in range(vehicles):
        problem.add_vehicle(
            package.Vehicle(number, start=0, end=0, capacity=[call.capacity])
        )
    for row, demand in enumerate(call.demands[1:].tolist(), start=1):
        problem.add_job(package.Job(row, location=row, delivery=[demand]))
    left = end.left()
    limit = None if left == math.inf else timedelta(seconds=max(0.01, left))
    answer = problem.solve(level, nb_threads=usable_cores(), timeout=limit)
    if len(answer.unassigned):
        return None
    steps = answer.routes
    jobs = steps[steps["type"] == "job"]
    routes: dict[int, list[int]] = {}
    for vehicle, row in zip(jobs["vehicle_id"], jobs["id"], strict=True):
        routes.setdefault(int(vehicle), []).append(int(row))
    return float(answer.summary.cost), list(routes.values())


def usable_cores() -> int:
    """Cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _end(settings: HgsSettings) -> Deadline:
    if settings.seconds is None:
        return Deadline.never()
    return Deadline.after(settings.seconds)


# --- outside programs -----------------------------------------------------------


def _words(method: str) -> list[str]:
    """The words of `cmd:...`, checked: the program exists and gets its two files."""
    text = method.removeprefix(COMMAND)
    try:
        words = shlex.split(text)
    except ValueError as error:
        rule = f"the command cannot be split into words: {error}"
        raise InputError(Problem("E404", "method", method, rule)) from error
    missing = [part for part in ("{instance}", "{solution}") if part not in text]
    if not words or missing:
        rule = (
            "an outside program is cmd:PROGRAM ... {instance} ... {solution}, "
            "with {seconds} and {seed} where it takes them"
        )
        raise InputError(Problem("E404", "method", method, rule))
    if shutil.which(words[0]) is None:
        rule = "this program is not installed, or is not executable"
        raise InputError(Problem("E422", "method", words[0], rule))
    return words


def _ask_command(method: str, instance: Instance, settings: HgsSettings) -> Solution:
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
        }
        words = _words(method)
        for name, value in values.items():
            words = [word.replace(name, value) for word in words]

        def ask() -> list[list[int]]:
            _run_command(words, settings.patience(instance.num_customers))
            if not answer.exists():
                raise ChildFailedError("it wrote no solution file")
            try:
                solution, _ = read_solution(answer, instance)
            except InputError as error:
                raise ChildFailedError(str(error.problems[0])) from None
            return [list(route) for route in solution.routes]

        return judged_answer(instance, quote(words[0]), ask, attempts=1)


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


def _run_command(words: list[str], patience: float) -> None:
    """Run a program to its end; it and its children are killed when it hangs."""
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
    started = time.perf_counter()
    try:
        code = process.wait(patience)
    except subprocess.TimeoutExpired:
        spent = time.perf_counter() - started
        raise ChildFailedError(f"no answer after {spent:.3g} s; it was ended") from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if code != 0:
        raise ChildFailedError(f"it ended with exit code {code}")


# --- the table ------------------------------------------------------------------


@dataclass(frozen=True)
class _Solver:
    require: Callable[[], None]
    solve: Callable[[Instance, HgsSettings], Solution]


def _require(name: str, module: str, package: str) -> None:
    if importlib.util.find_spec(module) is None:
        rule = f"{package} is not installed: pip install 'clusterfirst[bench]'"
        raise InputError(Problem("E422", name, rule=rule))


_SOLVERS: dict[str, _Solver] = {
    "hgs": _Solver(require_hygese, lambda i, s: solve_with_hgs(i, s, attempts=1)),
    "pyvrp": _Solver(require_pyvrp, lambda i, s: solve_with_pyvrp(i, s, attempts=1)),
    "ortools": _Solver(
        lambda: _require("ortools", "ortools", "OR-Tools"),
        lambda i, s: _ask("OR-Tools", _run_ortools, i, s),
    ),
    "vroom": _Solver(
        lambda: _require("vroom", "vroom", "VROOM (pyvroom)"),
        lambda i, s: _ask("VROOM", _run_vroom, i, s),
    ),
}
