"""HGS-CVRP through hygese, made safe: the expert behind every label.

HGS-CVRP (Vidal 2022) has no usable failure signal: it never returns on one customer,
answers "cost 0, no routes" to infeasible input, reads an uninitialised pointer after an
exception, and counts CPU instead of wall-clock time.
"""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from clusterfirst.learning.experts.expert import Expert, ExpertSettings, fleet_bound
from clusterfirst.problem.instance import FloatArray, Instance

# HGS refuses a largest demand above this; its loads are exact to 1e-5, absolutely.
MAX_DEMAND = 1e5


@dataclass(frozen=True)
class _HgsCall:
    """Checked and scaled input, as it travels to the child."""

    distances: FloatArray
    points: FloatArray | None
    demands: FloatArray
    capacity: float
    vehicles: int
    settings: ExpertSettings


def _prepare(instance: Instance, settings: ExpertSettings) -> _HgsCall:
    """Scale to what HGS accepts: 0.1 <= largest distance, demand <= 1e5."""
    units = instance.demand_units
    divisor = math.gcd(*units.tolist(), instance.capacity_units)
    demands, capacity = units / divisor, instance.capacity_units / divisor
    if not units.any():
        demands = np.concatenate([[0.0], np.ones(instance.num_customers)])
        capacity = float(instance.num_customers)
    shrink = max(1.0, demands.max() / MAX_DEMAND)
    demands, capacity = demands / shrink, min(capacity, demands.sum()) / shrink
    distances = instance.distances
    if not distances.any():
        # Every solution costs 0; distance 1 makes HGS look for few routes.
        distances = 1.0 - np.eye(len(distances))
    # HGS starts its overload penalty at distance / demand, clipped to 0.1..1000.
    # Always scaling keeps that at 10, and the answer the same in m and in km.
    target = float(np.clip(10 * demands.max(), 1e3, 1e5))
    points = None
    if instance.coords is not None:
        plane = instance.plane
        points = plane - plane.min(axis=0)  # hygese refuses negative coordinates
    return _HgsCall(
        distances=distances * (target / distances.max()),
        points=points,
        demands=demands,
        capacity=capacity,
        vehicles=fleet_bound(instance),
        settings=settings,
    )


def _run(call: _HgsCall) -> list[list[int]]:
    """Run HGS; in the child process only."""
    hygese: Any = importlib.import_module("hygese")
    settings = call.settings
    parameters = hygese.AlgorithmParameters(
        seed=settings.seed,
        timeLimit=settings.seconds or 0.0,
        nbIter=settings.iterations or 20_000,
        useSwapStar=call.points is not None,  # SWAP* needs polar sectors
    )
    data: dict[str, Any] = {
        "distance_matrix": call.distances,
        "demands": call.demands,
        "vehicle_capacity": call.capacity,
        "num_vehicles": call.vehicles,
        "depot": 0,
    }
    if call.points is not None:
        data["x_coordinates"], data["y_coordinates"] = call.points.T
    try:
        answer = hygese.Solver(parameters, verbose=False).solve_cvrp(
            data, rounding=False
        )
    except TypeError:  # hygese met a null pointer: HGS threw an exception
        return []
    routes: list[list[int]] = answer.routes
    return routes


HGS = Expert("hgs", "hygese", "HGS (hygese)", "labels", _prepare, _run)
