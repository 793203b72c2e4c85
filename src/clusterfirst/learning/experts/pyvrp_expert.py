"""PyVRP as a second teacher: iterated local search instead of a population."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from clusterfirst.learning.experts.expert import (
    Expert,
    ExpertSettings,
    WholeNumbers,
    fleet_bound,
    in_whole_numbers,
)
from clusterfirst.problem.instance import Instance

# PyVRP's distances are integers. It caps the penalty of one unit of overload at
# 1e5: with longer distances it prefers overload for ever (measured at 1e6).
LARGEST_DISTANCE = 1e5


def to_pyvrp(instance: Instance) -> Any:
    """Return the instance as a `pyvrp.Model`, for whoever goes on with PyVRP.

    Client i (0-based) is row i + 1 and carries its id as name. PyVRP's distances are
    whole numbers: ours times `pyvrp_scale(instance)`, rounded.
    """
    PYVRP.require()
    instance.require_plain(PYVRP.title)
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


def _prepare(instance: Instance, settings: ExpertSettings) -> WholeNumbers:
    vehicles = fleet_bound(instance)
    return in_whole_numbers(instance, settings, LARGEST_DISTANCE, vehicles)


def _run(call: WholeNumbers) -> list[list[int]]:
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


PYVRP = Expert("pyvrp", "pyvrp", "PyVRP", "bench", _prepare, _run)
