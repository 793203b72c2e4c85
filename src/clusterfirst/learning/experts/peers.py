"""HGS, PyVRP, OR-Tools, VROOM and outside programs as methods beside ours.

Each is asked once, at its best settings, and judged as every expert is (expert.py).
"""

from __future__ import annotations

import bisect
import importlib
import math
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from clusterfirst.learning.experts.expert import (
    MAX_SEED,
    Expert,
    ExpertSettings,
    WholeNumbers,
    fleet_bound,
    in_whole_numbers,
    solve_tiny,
)
from clusterfirst.learning.experts.hgs import HGS
from clusterfirst.learning.experts.outside import (
    COMMAND,
    program_words,
    solve_with_program,
)
from clusterfirst.learning.experts.pyvrp_expert import PYVRP
from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.errors import InputError, NotFoundInTimeError, Problem
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.machine import usable_cores
from clusterfirst.problem.solution import Solution
from clusterfirst.solving.child import ChildFailedError

if TYPE_CHECKING:  # it brings the compiled kernels, which no child of ours needs
    from clusterfirst.stages.search_state import SearchState

# Integer distances: rounding them costs less than 1e-6 of a route, and their sums
# stay far from the limits of 32 bits (VROOM multiplies by 100 inside).
LARGEST_DISTANCE = 1e6
MAX_LISTED = 5000  # customers; the distances of more do not fit in memory as lists
VROOM_LEVELS = (0, 2, 5)  # one after the other: level 5 alone is slow to begin
HAND_OVER = 0.002  # seconds kept for the way to the child and back, and the judge


def is_peer(method: str) -> bool:
    """Whether a method is somebody else's."""
    return method in PEERS or method.startswith(COMMAND)


def require_peer(method: str) -> None:
    """Raise InputError, naming what to install, unless the peer can run here."""
    if method.startswith(COMMAND):
        program_words(method)
    else:
        PEERS[method].require()


def run_peer(method: str, instance: Instance, settings: ExpertSettings) -> Solution:
    """Return the judged answer of a peer at its best settings, asked once."""
    return timed_peer(method, instance, settings)[0]


def timed_peer(
    method: str, instance: Instance, settings: ExpertSettings
) -> tuple[Solution, float]:
    """Return the answer, and the seconds that an outside program took to load.

    Raises InfeasibleError when no solution can exist and NotFoundInTimeError, with
    the reason, when the peer gave no valid one.
    """
    if method in PEERS:
        return PEERS[method].solve(instance, settings, attempts=1), 0.0
    require_peer(method)
    instance.require_plain("a peer")
    instance.require_feasible()
    small = solve_tiny(instance)
    if small is not None:
        return small, 0.0
    return solve_with_program(method, instance, settings)


# --- as methods of solver.solve -------------------------------------------------


def offer_peer(state: SearchState, method: str) -> None:
    """Offer what the peer finds; a peer without an answer leaves a note."""
    from clusterfirst.stages.routes import Routes

    try:
        with state.stage(method.split(":", maxsplit=1)[0]):
            solution = _answer(state, method)
    except NotFoundInTimeError as error:
        state.notes.append(str(error))
        return
    state.offer(Routes.of(solution.routes))
    state.rounds += 1


def _answer(state: SearchState, method: str) -> Solution:
    """Ask until the deadline or, without one, by the number of iterations."""
    if state.deadline.left() < math.inf:
        return answer_of_peer(method, state.instance, state.deadline, state.seed)[0]
    if method.startswith(COMMAND):
        rule = "an outside program needs a time limit (--time-limit)"
        raise InputError(Problem("E402", "time_limit", "none", rule))
    iterations = min(state.iterations or MAX_SEED, MAX_SEED)
    seed = state.seed % (MAX_SEED + 1)
    settings = ExpertSettings(iterations=iterations, seed=seed)
    return run_peer(method, state.instance, settings)


def answer_of_peer(
    method: str, instance: Instance, deadline: Deadline, seed: int
) -> tuple[Solution, float]:
    """`timed_peer` until the deadline, the matrix counted as the peer's time."""
    few = instance.num_customers <= MAX_LISTED
    if method in ("hgs", "pyvrp") or (method in PEERS and few):
        _ = instance.distances
    seconds = max(0.01, deadline.left() - HAND_OVER)
    settings = ExpertSettings(seconds=seconds, seed=seed % (MAX_SEED + 1))
    return timed_peer(method, instance, settings)


# --- OR-Tools and VROOM ---------------------------------------------------------


def _prepare(instance: Instance, settings: ExpertSettings) -> WholeNumbers:
    n = instance.num_customers
    if n > MAX_LISTED:
        rule = f"this peer gets at most {MAX_LISTED} customers: its matrix is too large"
        raise NotFoundInTimeError(Problem("E601", "customers", str(n), rule))
    vehicles = _few_vehicles(instance)
    return in_whole_numbers(instance, settings, LARGEST_DISTANCE, vehicles)


def _few_vehicles(instance: Instance) -> int:
    """Vehicles that certainly suffice, and a few more to choose from.

    Both peers slow down with every vehicle on offer. Best fit decreasing packs the
    demands into a number that is feasible and nearly the least.
    """
    room: list[int] = []  # left in each vehicle, sorted
    for demand in sorted(instance.demand_units[1:].tolist(), reverse=True):
        at = bisect.bisect_left(room, demand)
        left = room.pop(at) if at < len(room) else instance.capacity_units
        bisect.insort(room, left - demand)
    return min(fleet_bound(instance), len(room) + max(2, len(room) // 10))


def _run_ortools(call: WholeNumbers) -> list[list[int]]:
    """Run OR-Tools' routing solver; in the child process only."""
    if "highspy" in sys.modules:  # both bring their own HiGHS: one of them crashes
        raise ChildFailedError("OR-Tools cannot share a process with highspy")
    enums: Any = importlib.import_module("ortools.constraint_solver.routing_enums_pb2")
    solver: Any = importlib.import_module("ortools.constraint_solver.pywrapcp")
    end = _end(call.settings)
    manager = solver.RoutingIndexManager(len(call.demands), call.vehicles, 0)
    model = solver.RoutingModel(manager)
    # As tables, not as Python functions: no way back to Python for each distance.
    distance = model.RegisterTransitMatrix(call.distances.tolist())
    model.SetArcCostEvaluatorOfAllVehicles(distance)
    load = model.RegisterUnaryTransitVector(call.demands.tolist())
    model.AddDimension(load, 0, call.capacity, True, "load")
    parameters = solver.DefaultRoutingSearchParameters()
    first, search = enums.FirstSolutionStrategy, enums.LocalSearchMetaheuristic
    # Ahead of savings, and no worse than parallel insertion on average (log/).
    parameters.first_solution_strategy = first.PATH_CHEAPEST_ARC
    parameters.local_search_metaheuristic = search.GUIDED_LOCAL_SEARCH
    if call.settings.seconds is None:
        parameters.solution_limit = call.settings.iterations
    else:
        left = timedelta(seconds=max(1e-3, end.left()))
        parameters.time_limit.FromTimedelta(left)
    answer = model.SolveWithParameters(parameters)
    if answer is None:
        return []
    fleet = range(call.vehicles)
    return [_ortools_route(manager, model, answer, vehicle) for vehicle in fleet]


def _ortools_route(manager: Any, model: Any, answer: Any, vehicle: int) -> list[int]:
    route = []
    at = answer.Value(model.NextVar(model.Start(vehicle)))
    while not model.IsEnd(at):
        route.append(int(manager.IndexToNode(at)))
        at = answer.Value(model.NextVar(at))
    return route


def _run_vroom(call: WholeNumbers) -> list[list[int]]:
    """Run VROOM, level after level while time is left; in the child process only."""
    importlib.import_module("vroom")  # before the clock runs
    end = _end(call.settings)
    levels = VROOM_LEVELS if call.settings.seconds is not None else VROOM_LEVELS[:1]
    best: tuple[float, list[list[int]]] = (math.inf, [])
    for level in levels:
        if end.passed():
            break
        best = min(best, _vroom_level(call, level, end))
    return best[1]


def _vroom_level(
    call: WholeNumbers, level: int, end: Deadline
) -> tuple[float, list[list[int]]]:
    """One solve; without routes, at infinite cost, when customers were left out."""
    package: Any = importlib.import_module("vroom")
    problem = package.Input()
    problem.set_durations_matrix("car", call.distances.astype(np.uint32))
    for number in range(call.vehicles):
        problem.add_vehicle(
            package.Vehicle(number, start=0, end=0, capacity=[call.capacity])
        )
    for row, demand in enumerate(call.demands[1:].tolist(), start=1):
        problem.add_job(package.Job(row, location=row, delivery=[demand]))
    left = end.left()
    limit = None if left == math.inf else timedelta(seconds=max(0.01, left))
    answer = problem.solve(level, nb_threads=len(usable_cores()), timeout=limit)
    if len(answer.unassigned):
        return math.inf, []
    steps = answer.routes
    jobs = steps[steps["type"] == "job"]
    routes: dict[int, list[int]] = {}
    for vehicle, row in zip(jobs["vehicle_id"], jobs["id"], strict=True):
        routes.setdefault(int(vehicle), []).append(int(row))
    return float(answer.summary.cost), list(routes.values())


def _end(settings: ExpertSettings) -> Deadline:
    if settings.seconds is None:
        return Deadline.never()
    return Deadline.after(settings.seconds)


PEERS: dict[str, Expert] = {
    expert.name: expert
    for expert in (
        HGS,
        PYVRP,
        Expert("ortools", "ortools", "OR-Tools", "bench", _prepare, _run_ortools),
        Expert("vroom", "vroom", "VROOM (pyvroom)", "bench", _prepare, _run_vroom),
    )
}
