"""The capacitated assignment problem (the paper's CAP) and what an answer to it is.

Vehicles may have different capacities, and a customer may have few candidates: a
pair that is forbidden is no candidate.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import FloatArray, IntArray

BoolArray = npt.NDArray[np.bool_]


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
class Case:
    """A checked problem with explicit candidates."""

    cost: FloatArray
    candidates: IntArray
    demands: IntArray
    room: IntArray  # (K,)

    @classmethod
    def of(cls, problem: AssignProblem) -> Case:
        """Check everything HiGHS would swallow: shapes, numbers, ranges."""
        cost = np.asarray(problem.cost, dtype=np.float64)
        demands = np.asarray(problem.demands)
        rule = ""
        if cost.ndim != 2 or demands.shape != cost.shape[:1]:
            rule = "costs (n, C) and demands (n,) are needed"
        elif not np.issubdtype(demands.dtype, np.integer) or (demands < 0).any():
            rule = "demands must be whole units of at least 0"
        elif problem.vehicles < 0 or (problem.room < 0).any():
            rule = "vehicles and capacity must be at least 0"
        elif problem.candidates is None and cost.shape[1] != problem.vehicles:
            rule = "without candidates there is one cost column per vehicle"
        if rule:
            raise InputError(Problem("E411", "assignment", str(cost.shape), rule))
        if problem.candidates is None:
            columns = np.arange(problem.vehicles, dtype=np.int64)
            candidates = np.broadcast_to(columns, cost.shape).copy()
        else:
            candidates = np.asarray(problem.candidates, dtype=np.int64)
        if candidates.shape != cost.shape or (candidates >= problem.vehicles).any():
            rule = "candidates must be vehicles on the same grid as the costs"
            raise InputError(Problem("E411", "candidates", rule=rule))
        if not np.isfinite(cost[candidates >= 0]).all():
            rule = "the cost of a candidate must be a finite number"
            raise InputError(Problem("E411", "assignment", "nan or inf", rule))
        return cls(cost, candidates, demands.astype(np.int64), problem.room.copy())

    @property
    def n(self) -> int:
        """Number of customers."""
        return len(self.demands)

    def obvious(self) -> str:
        """A proof of infeasibility by arithmetic, in words, or nothing."""
        return obviously_infeasible(self.demands, self.room, self.candidates)

    def without(self, fixed: IntArray) -> Case:
        """Those who are not fixed, in the room that the others leave."""
        rest, held = np.flatnonzero(fixed < 0), np.flatnonzero(fixed >= 0)
        left = self.room.copy()
        np.subtract.at(left, fixed[held], self.demands[held])
        return Case(self.cost[rest], self.candidates[rest], self.demands[rest], left)

    def total(self, labels: IntArray) -> float:
        """Cost of verified labels."""
        if not self.n:
            return 0.0
        slots = np.argmax(self.candidates == labels[:, None], axis=1)
        return float(self.cost[np.arange(self.n), slots].sum())


def obviously_infeasible(
    demands: IntArray, room: IntArray, candidates: IntArray
) -> str:
    """A proof by arithmetic that nothing fits, in words, or nothing."""
    total = int(demands.sum())
    if room.min(initial=0) < 0:
        return "the fixed customers alone are too many for a vehicle"
    if total > int(room.sum()):
        return f"{total} units do not fit in {len(room)} vehicles"
    if demands.max(initial=0) > room.max(initial=0):
        return "one customer alone is more than a vehicle holds"
    if not (candidates >= 0).any(axis=1).all():
        return "a customer has no candidate vehicle"
    return ""


@dataclass(frozen=True)
class AssignSettings:
    """How hard to try; the paper's numbers (Section 2.4, App. E) are the defaults.

    `seconds` is the paper's time limit for one assignment, all rounds together; the
    caller's deadline holds too, whichever is earlier. With `max_nodes` and
    `seconds = inf` the work is repeatable on any machine.
    """

    mip_gap: float = 0.001
    seconds: float = 100.0
    max_nodes: int | None = None
    rounds: int = 10  # fast: in each every vehicle is assigned again with some others
    max_edges: int = 400_000  # larger programs keep the heuristic answer
    tau_high: float = 0.99  # hard: fix customers the plan is this sure of
    prune: float = 0.1  # hard: share of fixed customers freed after a failure
    tau_low: float = 1e-4  # sparse: keep edges with this much of the plan
    nearest: float = 0.02  # sparse: plus ceil(nearest * N) cheapest vehicles each
    seed: int = 0
    printed: bool = False  # nothing but what the paper says, see the functions


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

    @classmethod
    def failed(cls, n: int, status: Status, note: str, rounds: int = 1) -> Assignment:
        """Nobody is assigned, and why."""
        nobody = np.full(n, -1, dtype=np.int64)
        return cls(nobody, np.inf, status, np.inf, rounds, note)


def is_within(labels: IntArray, demands: IntArray, room: IntArray) -> bool:
    """Whether labels name a vehicle for everybody and no room is exceeded."""
    if len(labels) and (labels.min() < 0 or labels.max() >= len(room)):
        return False
    loads = np.zeros(len(room), dtype=np.int64)
    np.add.at(loads, labels, demands)
    return bool((loads <= room).all())
