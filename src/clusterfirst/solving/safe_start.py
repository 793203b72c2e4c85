"""Feasible routes whatever happens: what `solve` gives where nothing better came."""

from __future__ import annotations

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.errors import NotFoundInTimeError
from clusterfirst.problem.instance import Instance, IntArray
from clusterfirst.stages.assignment.packing import pack
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.search_state import fleet_limit
from clusterfirst.stages.tours.routing import QUICK, improve


def some_packing(instance: Instance, deadline: Deadline) -> IntArray | None:
    """Some packing into the limited fleet; None if not found; raises if impossible."""
    if instance.vehicles is None:
        return None
    try:
        return pack(
            instance.demand_units[1:],
            instance.capacity_units,
            fleet_limit(instance),
            deadline.share(0.5),
        )
    except NotFoundInTimeError:
        return None


def safe_routes(
    instance: Instance, packed: IntArray | None, deadline: Deadline
) -> Routes:
    """Feasible routes whatever happens: the given packing, or next fit by angle."""
    if packed is None:
        order = np.arange(1, instance.num_customers + 1)
        if instance.coords is not None:
            away = instance.plane[1:] - instance.plane[0]
            order = np.argsort(np.arctan2(away[:, 1], away[:, 0]), kind="stable") + 1
        packed = np.empty(instance.num_customers, dtype=np.int64)
        vehicle, load = 0, 0
        for row, units in zip(
            order.tolist(), instance.demand_units[order].tolist(), strict=True
        ):
            if load + units > instance.capacity_units:
                vehicle, load = vehicle + 1, 0
            packed[row - 1] = vehicle
            load += units
    return improve(instance, Routes.of_labels(packed), True, QUICK, deadline)
