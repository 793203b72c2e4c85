"""Capacitated assignment with HiGHS: exact, sparsified and hard (paper, Section 2.4).

min sum_ij Delta_ij Y_ij, each customer on one vehicle, each vehicle within capacity.
HiGHS stands for the paper's Gurobi 12. Every point is verified in integers here;
"infeasible" is said only after HiGHS said so twice, the second time without
presolve. One deadline covers all rounds of a decoding together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import FloatArray, IntArray
from clusterfirst.stages.assignment.heuristic import assign_fast
from clusterfirst.stages.assignment.mip import (
    BinaryProgram,
    Claim,
    MipSettings,
    solve_binary,
)
from clusterfirst.stages.assignment.problem import (
    Assignment,
    AssignProblem,
    AssignSettings,
    BoolArray,
    Case,
    Status,
    is_within,
)
from clusterfirst.stages.assignment.relaxation import reduced_costs

SECONDS_PER_EDGE = 4e-6  # what HiGHS needs to take a model in before it can answer
ROUNDING = 1e-9  # of sums of costs


@dataclass(frozen=True)
class Found:
    """Verified labels or None, what is claimed about them, and a lower bound."""

    labels: IntArray | None
    claim: Claim
    bound: float = -math.inf
    note: str = ""

    def answer(self, case: Case, rounds: int) -> Assignment:
        """What is known, as an assignment."""
        if self.labels is None:
            proven = self.claim is Claim.INFEASIBLE
            status = Status.INFEASIBLE if proven else Status.NOT_FOUND
            return Assignment.failed(case.n, status, self.note, rounds)
        cost = case.total(self.labels)
        gap = (cost - self.bound) / max(abs(self.bound), 1e-12)
        gap = max(gap, 0.0) if math.isfinite(self.bound) else math.inf
        optimal = self.claim is Claim.OPTIMAL
        status = Status.OPTIMAL if optimal else Status.FEASIBLE
        gap = gap if case.n else 0.0
        return Assignment(self.labels, cost, status, gap, rounds, self.note)


def exact(case: Case, settings: AssignSettings, deadline: Deadline) -> Assignment:
    """Solve on all candidate edges."""
    found = _solve_edges(case, case.candidates >= 0, settings, deadline)
    return found.answer(case, rounds=1)


def sparse(
    case: Case,
    plan: FloatArray | None,
    settings: AssignSettings,
    deadline: Deadline,
) -> Assignment:
    """Solve on the edges the plan keeps, plus the k cheapest; k grows until feasible.

    `plan` is Y-hat on the same (n, C) grid as the costs, or None: then only the
    cheapest vehicles count. k doubles (in the printed way it grows by one), so there
    are at most 1 + log2(C) rounds, the last on all edges. No other edge is ever used:
    where time ends the rounds there is no answer.
    """
    rank = np.argsort(np.argsort(case.cost, axis=1, kind="stable"), axis=1)
    valid = case.candidates >= 0
    likely = np.zeros_like(valid) if plan is None else plan >= settings.tau_low
    width = case.cost.shape[1]
    k = max(1, math.ceil(settings.nearest * case.n))
    rounds = 0
    while True:  # k grows to the width
        rounds += 1
        last = k >= width
        edges = valid & (likely | (rank < k))
        found = _solve_edges(case, edges, settings, deadline, 1.0 if last else 0.5)
        if found.labels is not None or last:
            break
        k = k + 1 if settings.printed else 2 * k
    if found.claim is Claim.OPTIMAL and not last:
        found = replace(found, claim=Claim.STOPPED)  # optimal on fewer edges only
    return found.answer(case, rounds)


def hard(
    case: Case,
    plan: FloatArray,
    settings: AssignSettings,
    deadline: Deadline,
) -> Assignment:
    """Fix the customers the plan is sure of, solve the rest, free 10 % on failure.

    Fixing goes from the surest customer down and leaves out whoever would overfill
    a vehicle (the printed way fixes them too, which is a failure). A failure
    (infeasible, or not found in the round's time) frees ceil(prune * fixed) random
    ones, so the rounds are logarithmic in n; the last has nothing fixed. Who is
    still fixed stays where the plan has put him: where time ends the rounds there is
    no answer. `freed` says how many were not kept.
    """
    fixed = _surest(case, plan, settings)
    sure = int((fixed >= 0).sum())
    rng = np.random.default_rng(settings.seed)
    pruning = deadline.share(0.7)  # the rest is for the round with nothing fixed
    rounds = 0
    while True:  # fewer by the share `prune` are fixed each time
        rounds += 1
        count = int((fixed >= 0).sum())
        found = _solve_rest(case, fixed, settings, deadline, 0.2 if count else 1.0)
        if found.labels is not None or not count:
            break
        free = rng.choice(
            np.flatnonzero(fixed >= 0), math.ceil(settings.prune * count), replace=False
        )
        fixed[free] = -1
        if pruning.passed():
            fixed[:] = -1
    if found.claim is Claim.OPTIMAL and count:
        found = replace(found, claim=Claim.STOPPED)  # optimal given what was fixed
    return replace(found.answer(case, rounds), fixed=sure, freed=sure - count)


def _surest(case: Case, plan: FloatArray, settings: AssignSettings) -> IntArray:
    """Vehicle fixed for each customer, or -1; never more than fits, unless printed."""
    known = np.where(case.candidates >= 0, plan, -np.inf)
    slots = known.argmax(axis=1) if case.n else np.zeros(0, dtype=np.int64)
    rows = np.arange(case.n)
    sure = known[rows, slots]
    fixed = np.full(case.n, -1, dtype=np.int64)
    left = case.room.copy()
    for i in np.argsort(-sure, kind="stable").tolist():
        j = case.candidates[i, slots[i]]
        fits = case.demands[i] <= left[j] or settings.printed
        if sure[i] > settings.tau_high and fits:
            fixed[i] = j
            left[j] -= case.demands[i]
    return fixed


def _solve_rest(
    case: Case,
    fixed: IntArray,
    settings: AssignSettings,
    deadline: Deadline,
    patience: float = 1.0,
) -> Found:
    """Solve for the customers that are not fixed, in the room that is left."""
    part = case.without(fixed)
    if part.obvious():
        return Found(None, Claim.INFEASIBLE, note=part.obvious())
    found = _solve_edges(part, part.candidates >= 0, settings, deadline, patience)
    if found.labels is None:
        return found
    labels = fixed.copy()
    labels[fixed < 0] = found.labels
    base = case.total(labels) - part.total(found.labels)
    return replace(found, labels=labels, bound=found.bound + base)


def _solve_edges(
    case: Case,
    edges: BoolArray,
    settings: AssignSettings,
    deadline: Deadline,
    patience: float = 1.0,
) -> Found:
    """Solve on these edges, from the fast answer on the same edges.

    Where there is none, HiGHS gets `patience` of the time, so that another round may
    follow. In the printed way it begins with nothing, as the paper's solver does, and
    has all the time that is left.
    """
    start: IntArray | None = None
    if not settings.printed:
        masked = np.where(edges, case.candidates, -1)
        fleet = (case.room, len(case.room))
        problem = AssignProblem(case.cost, case.demands, *fleet, masked)
        answer = assign_fast(problem, settings, deadline.share(0.5))
        if math.isfinite(answer.cost):
            start = answer.labels
            edges = worthwhile(case, edges, start, deadline.share(0.5))
        deadline = deadline.share(patience) if start is None else deadline
    return _solve(case, edges, start, settings, deadline)


def worthwhile(
    case: Case, edges: BoolArray, start: IntArray, deadline: Deadline
) -> BoolArray:
    """The edges that an assignment cheaper than `start` may use.

    Whoever uses an edge pays its reduced cost on top of what the prices prove
    for all assignments (reduced-cost fixing): nothing that is dropped can win.
    """
    vehicles = np.where(edges, case.candidates, -1)
    added, bound = reduced_costs(case.cost, vehicles, case.demands, case.room, deadline)
    total = case.total(start)
    wins = added <= total - bound + ROUNDING * abs(total)
    kept: BoolArray = edges & (wins | (case.candidates == start[:, None]))
    return kept


def _solve(
    case: Case,
    edges: BoolArray,
    start: IntArray | None,
    settings: AssignSettings,
    deadline: Deadline,
) -> Found:
    """HiGHS on these edges, started from `start`; the better verified point wins."""
    count = int(edges.sum())
    if count == case.n and (edges.sum(axis=1) == 1).all():  # nobody has a choice
        only = case.candidates[edges]
        if is_within(only, case.demands, case.room):
            return Found(only, Claim.OPTIMAL, case.total(only))
        return Found(None, Claim.INFEASIBLE, note="no choice is left")
    if count > settings.max_edges or deadline.left() < count * SECONDS_PER_EDGE:
        note = "the program is too large for the time left: heuristic answer"
        return Found(start, Claim.STOPPED, note=note)
    mip = MipSettings(settings.mip_gap, settings.max_nodes, settings.seed)
    program, rows, columns = _program(case, edges)
    warm = None if start is None else start[rows] == columns
    answer = solve_binary(program, mip, deadline, warm)
    if answer.claim is Claim.INFEASIBLE and start is None:
        # HiGHS's presolve has called feasible programs infeasible (HiGHS#3296).
        answer = solve_binary(program, replace(mip, presolve=False), deadline)
    labels = _verified(case, answer.point, rows, columns)
    if labels is None and answer.claim is Claim.INFEASIBLE and start is None:
        return Found(None, Claim.INFEASIBLE, note="HiGHS, with and without presolve")
    if labels is None:
        return Found(start, Claim.STOPPED, note="HiGHS had no usable point")
    if start is not None and case.total(start) < case.total(labels):
        labels = start
    claim = Claim.OPTIMAL if answer.claim is Claim.OPTIMAL else Claim.STOPPED
    return Found(labels, claim, answer.bound)


def _program(case: Case, edges: BoolArray) -> tuple[BinaryProgram, IntArray, IntArray]:
    """One column per edge: in its customer's row (= 1) and its vehicle's (<= room)."""
    rows, slots = np.nonzero(edges)
    columns = case.candidates[rows, slots]
    count = len(rows)
    entries = np.column_stack([rows, case.n + columns]).ravel()
    values = np.column_stack([np.ones(count), case.demands[rows]]).ravel()
    program = BinaryProgram(
        cost=case.cost[rows, slots],
        row_lower=np.concatenate([np.ones(case.n), np.full(len(case.room), -np.inf)]),
        row_upper=np.concatenate([np.ones(case.n), case.room.astype(np.float64)]),
        starts=2 * np.arange(count + 1),
        rows=entries,
        values=values,
    )
    return program, rows, columns


def _verified(
    case: Case, point: BoolArray | None, rows: IntArray, columns: IntArray
) -> IntArray | None:
    """Labels of a 0/1 point if it really is an assignment within capacity."""
    if point is None or len(point) != len(rows):
        return None
    if not np.array_equal(np.sort(rows[point]), np.arange(case.n)):
        return None
    labels = np.full(case.n, -1, dtype=np.int64)
    labels[rows[point]] = columns[point]
    return labels if is_within(labels, case.demands, case.room) else None
