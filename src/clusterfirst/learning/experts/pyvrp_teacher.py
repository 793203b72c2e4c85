"""PyVRP as a second teacher: iterated local search instead of a population.

PyVRP aborts the process on bad numbers and cuts floats to integers without a
word, so it too gets checked, scaled input in a child process and a judged answer.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from typing import Any

import numpy as np

from clusterfirst.learning.experts.engine import guarded_call
from clusterfirst.learning.experts.hgs import (
    ATTEMPTS,
    HgsSettings,
    fleet_bound,
    judged_answer,
    solve_tiny,
)
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import Instance, IntArray
from clusterfirst.problem.solution import Solution

# PyVRP's distances are integers. It caps the penalty of one unit of overload at
# 1e5: with longer distances it prefers overload for ever (measured at 1e6).
LARGEST_DISTANCE = 1e5


def require_pyvrp() -> None:
    """Raise InputError, naming the extra, unless PyVRP is installed."""
    if importlib.util.find_spec("pyvrp") is None:
        rule = "PyVRP is not installed: pip install 'clusterfirst[bench]'"
        raise InputError(Problem("E422", "pyvrp", rule=rule))


def solve_with_pyvrp(
    instance: Instance, settings: HgsSettings, attempts: int = ATTEMPTS
) -> Solution:
    """Return a judged solution of PyVRP; same contract as `solve_with_hgs`.

    `iterations` here is their total number.
    """
    require_pyvrp()
    instance.require_plain("the teacher")
    instance.require_feasible()
    small = solve_tiny(instance)
    if small is not None:
        return small
    largest = instance.distances.max()
    scale = LARGEST_DISTANCE / largest if largest > 0 else 1.0
    call = _PyvrpCall(
        distances=np.rint(instance.distances * scale).astype(np.int64),
        demands=instance.demand_units,
        capacity=instance.capacity_units,
        vehicles=fleet_bound(instance),
        settings=settings,
    )
    patience = settings.patience(instance.num_customers)

    def ask() -> list[list[int]]:
        routes: list[list[int]] = guarded_call(_run, call, patience)
        return routes

    return judged_answer(instance, "PyVRP", ask, attempts)


def to_pyvrp(instance: Instance) -> Any:
    """Return the instance as a `pyvrp.Model`, for whoever goes on with PyVRP.

    Client i (0-based) is row i + 1 and carries its id as name. PyVRP's distances are
    whole numbers: ours times `pyvrp_scale(instance)`, rounded.
    """
    require_pyvrp()
    instance.require_plain("the teacher")
    instance.require_feasible()
    pyvrp: Any = importlib.import_module("pyvrp")
    places = np.zeros((len(instance.ids), 2))
    if instance.coords is not None:
        places = instance.plane
    model = pyvrp.Model()
    where = [model.add_location(x, y) for x, y in places.tolist()]
    model.add_depot(where[0], name=instance.ids[0])
    for row, units in enumerate(instance.demand_units[1:].tolist(), start=1):
        model.add_client(where[row], delivery=[units], name=instance.ids[row])
    vehicles = max(1, fleet_bound(instance))
    model.add_vehicle_type(vehicles, capacity=[instance.capacity_units])
    scaled = np.rint(instance.distances * pyvrp_scale(instance)).astype(np.int64)
    for i, row_of_distances in enumerate(scaled.tolist()):
        for j, distance in enumerate(row_of_distances):
            if i != j:
                model.add_edge(where[i], where[j], distance)
    return model


def pyvrp_scale(instance: Instance) -> float:
    """What distances are multiplied with: 1 where they are whole and not too long."""
    distances = instance.distances
    largest = float(distances.max())
    whole = bool((distances == np.rint(distances)).all())
    if largest == 0 or (whole and largest <= LARGEST_DISTANCE):
        return 1.0
    return LARGEST_DISTANCE / largest


@dataclass(frozen=True)
class _PyvrpCall:
    """Checked and scaled input, as it travels to the child."""

    distances: IntArray
    demands: IntArray
    capacity: int
    vehicles: int
    settings: HgsSettings


def _run(call: _PyvrpCall) -> list[list[int]]:
    """Run PyVRP; in the child process only."""
    pyvrp: Any = importlib.import_module("pyvrp")
    stops: Any = importlib.import_module("pyvrp.stop")
    data = pyvrp.ProblemData(
        locations=[pyvrp.Location(0, 0)] * len(call.demands),
        clients=[
            pyvrp.Client(row, delivery=[demand])
            for row, demand in enumerate(call.demands[1:].tolist(), start=1)
        ],
        depots=[pyvrp.Depot(0)],
        vehicle_types=[pyvrp.VehicleType(call.vehicles, capacity=[call.capacity])],
        distance_matrices=[call.distances],
        duration_matrices=[np.zeros_like(call.distances)],
    )
    settings = call.settings
    criterion = (
        stops.MaxRuntime(settings.seconds)
        if settings.iterations is None
        else stops.MaxIterations(settings.iterations)
    )
    result = pyvrp.solve(data, criterion, seed=settings.seed, display=False)
    if not result.is_feasible():
        return []
    return [
        [visit.idx + 1 for visit in route if visit.is_client()]
        for route in result.best.routes()
    ]
