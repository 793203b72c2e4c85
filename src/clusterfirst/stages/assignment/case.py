"""An assignment problem that was checked, and what a solver found for it.

Everything HiGHS would swallow is refused here: shapes, numbers, ranges.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import FloatArray, IntArray
from clusterfirst.stages.assignment.heuristic import FastSettings, assign_fast
from clusterfirst.stages.assignment.mip import Claim
from clusterfirst.stages.assignment.problem import Assignment, AssignProblem, Status
from clusterfirst.stages.assignment.relaxation import reduced_costs

BoolArray = npt.NDArray[np.bool_]
ROUNDING = 1e-9  # of sums of costs


@dataclass(frozen=True)
class Found:
    """Verified labels or None, what is claimed about them, and a lower bound."""

    labels: IntArray | None
    claim: Claim
    bound: float = -math.inf
    note: str = ""


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
        return len(self.demands)

    def obvious(self) -> str:
        """A proof of infeasibility by arithmetic, in words, or nothing."""
        if self.room.min(initial=0) < 0:
            return "the fixed customers alone are too many for a vehicle"
        if int(self.demands.sum()) > int(self.room.sum()):
            return "total demand exceeds the capacity of all vehicles"
        if self.n and self.demands.max() > self.room.max(initial=0):
            return "a customer fits in no vehicle"
        if not (self.candidates >= 0).any(axis=1).all():
            return "a customer has no candidate vehicle"
        return ""

    def quick(
        self, candidates: IntArray, seed: int, deadline: Deadline
    ) -> IntArray | None:
        """The fast assignment on these edges."""
        fleet = (self.room, len(self.room))
        problem = AssignProblem(self.cost, self.demands, *fleet, candidates)
        answer = assign_fast(problem, FastSettings(seed), deadline)
        return answer.labels if math.isfinite(answer.cost) else None

    def without(self, fixed: IntArray) -> Case:
        """Those who are not fixed, in the room that the others leave."""
        rest, held = np.flatnonzero(fixed < 0), np.flatnonzero(fixed >= 0)
        left = self.room.copy()
        np.subtract.at(left, fixed[held], self.demands[held])
        return Case(self.cost[rest], self.candidates[rest], self.demands[rest], left)

    def worthwhile(
        self, edges: BoolArray, start: IntArray | None, deadline: Deadline
    ) -> BoolArray:
        """The edges that an assignment cheaper than `start` may use.

        Whoever uses an edge pays its reduced cost on top of what the prices prove
        for all assignments (reduced-cost fixing): nothing that is dropped can win.
        """
        if start is None:
            return edges
        vehicles = np.where(edges, self.candidates, -1)
        added, bound = reduced_costs(
            self.cost, vehicles, self.demands, self.room, deadline
        )
        total = self.total(start)
        wins = added <= total - bound + ROUNDING * abs(total)
        kept: BoolArray = edges & (wins | (self.candidates == start[:, None]))
        return kept

    def total(self, labels: IntArray) -> float:
        """Cost of verified labels."""
        if not self.n:
            return 0.0
        slots = np.argmax(self.candidates == labels[:, None], axis=1)
        return float(self.cost[np.arange(self.n), slots].sum())

    def failure(self, status: Status, rounds: int, note: str) -> Assignment:
        nothing = np.full(self.n, -1, dtype=np.int64)
        return Assignment(nothing, math.inf, status, math.inf, rounds, note)

    def answer(self, found: Found, rounds: int) -> Assignment:
        if found.labels is None:
            proven = found.claim is Claim.INFEASIBLE
            status = Status.INFEASIBLE if proven else Status.NOT_FOUND
            return self.failure(status, rounds, found.note)
        cost = self.total(found.labels)
        gap = (cost - found.bound) / max(abs(found.bound), 1e-12)
        gap = max(gap, 0.0) if math.isfinite(found.bound) else math.inf
        if not self.n:
            gap = 0.0
        optimal = found.claim is Claim.OPTIMAL
        status = Status.OPTIMAL if optimal else Status.FEASIBLE
        return Assignment(found.labels, cost, status, gap, rounds, found.note)
