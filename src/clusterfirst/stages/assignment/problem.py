"""The capacitated assignment problem (the paper's CAP) and what an answer to it is.

Vehicles may have different capacities, and a customer may have few candidates: a
pair that is forbidden is no candidate.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from clusterfirst.problem.instance import FloatArray, IntArray


class Status(Enum):
    """How an assignment ended; the value is the sentence a user reads."""

    OPTIMAL = "proven optimal within the gap"
    FEASIBLE = "feasible; optimality is not proven"
    INFEASIBLE = "proven infeasible: the customers do not fit in these vehicles"
    NOT_FOUND = "no feasible assignment was found in time; infeasibility is not proven"


@dataclass(frozen=True)
class AssignProblem:
    """Put each customer on one vehicle within capacity, at least cost.

    Customers are in customer order: index i is row i + 1 of the instance.
    """

    cost: FloatArray  # (n, C): cost[i, s] of customer i on vehicle candidates[i, s]
    demands: IntArray  # (n,) in exact units
    capacity: int | IntArray  # of every vehicle, or (K,) of each, in the same units
    vehicles: int  # K
    candidates: IntArray | None = None  # (n, C) vehicles, padded with -1 at cost inf;
    # None: dense, C = K and column s is vehicle s

    @property
    def room(self) -> IntArray:
        """(K,) the capacity of each vehicle."""
        return np.broadcast_to(np.asarray(self.capacity, np.int64), (self.vehicles,))

    @property
    def vehicle_of_cost(self) -> IntArray:
        """(n, C) the vehicle of each cost."""
        if self.candidates is not None:
            return self.candidates
        every: IntArray = np.arange(self.vehicles, dtype=np.int64)
        return np.broadcast_to(every, self.cost.shape)


@dataclass(frozen=True)
class Assignment:
    """Vehicle of each customer, and how good that is known to be."""

    labels: IntArray  # (n,) in 0..K-1; all -1 when nothing feasible was found
    cost: float  # sum of the chosen costs; inf when nothing was found
    status: Status
    gap: float  # (cost - bound) / |bound| against the best known lower bound
    rounds: int = 1  # solves until feasible (candidate lists grow between them)
    note: str = ""
    nearly: IntArray | None = None  # (n,) labels with some overload, if nothing fits
    fixed: int = 0  # hard: customers the plan was sure of
    freed: int = 0  # hard: of these, how many had to be freed until something fitted


def is_within(labels: IntArray, demands: IntArray, room: IntArray) -> bool:
    """Whether labels name a vehicle for everybody and no room is exceeded."""
    if len(labels) and (labels.min() < 0 or labels.max() >= len(room)):
        return False
    loads = np.zeros(len(room), dtype=np.int64)
    np.add.at(loads, labels, demands)
    return bool((loads <= room).all())
