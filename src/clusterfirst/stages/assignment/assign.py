"""The door to the assignment: one function, four kinds (the paper, Section 2.4)."""

from __future__ import annotations

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import FloatArray
from clusterfirst.stages.assignment.heuristic import assign_fast
from clusterfirst.stages.assignment.highs import exact, hard, sparse
from clusterfirst.stages.assignment.problem import (
    Assignment,
    AssignProblem,
    AssignSettings,
    Case,
    Status,
)


def assign(
    problem: AssignProblem,
    kind: str,
    settings: AssignSettings,
    deadline: Deadline,
    plan: FloatArray | None = None,
) -> Assignment:
    """Assign by kind: fast, exact, sparse or hard.

    `plan` holds the shares of the transport plan on the grid of the costs. Hard fixes
    what it is sure of, sparse keeps the edges it finds likely.
    """
    if kind == "fast":
        return assign_fast(problem, settings, deadline)
    case = Case.of(problem)
    deadline = Deadline(min(deadline.at, Deadline.after(settings.seconds).at))
    reason = case.obvious()
    if reason:
        return Assignment.failed(case.n, Status.INFEASIBLE, reason)
    if kind == "exact":
        return exact(case, settings, deadline)
    if kind == "sparse":
        return sparse(case, plan, settings, deadline)
    if plan is None:
        rule = "hard assignment needs a transport plan, and this method has none"
        raise InputError(Problem("E404", "assign", "hard", rule))
    return hard(case, plan, settings, deadline)
