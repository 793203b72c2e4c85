"""Feasible routes whatever happens: what `solve` gives where nothing better came."""

from __future__ import annotations

from typing import Any

import numpy as np

from clusterfirst.assignment.packing import pack
from clusterfirst.clock import Deadline
from clusterfirst.errors import NotFoundInTimeError
from clusterfirst.instance import Instance
from clusterfirst.method import Work
from clusterfirst.tours.routing import QUICK, Clusters, improve, members


def some_packing(work: Work) -> np.ndarray[Any, Any] | None:
    """Some packing into the limited fleet; None if not found; raises if impossible."""
    instance = work.instance
    if instance.vehicles is None:
        return None
    try:
        return pack(
            instance.demand_units[1:],
            instance.capacity_units,
            work.fleet_limit,
            work.deadline.share(0.5),
        )
    except NotFoundInTimeError:
        return None


def safe_routes(
    instance: Instance, packed: np.ndarray[Any, Any] | None, deadline: Deadline
) -> Clusters:
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
    return improve(instance, members(packed), True, QUICK, deadline)
