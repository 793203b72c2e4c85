"""The door to the assignment: one function, four kinds (the paper, Section 2.4)."""

from __future__ import annotations

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import FloatArray
from clusterfirst.stages.assignment.heuristic import FastSettings, assign_fast
from clusterfirst.stages.assignment.highs import (
    AssignSettings,
    assign_exact,
    assign_hard,
    assign_sparse,
)
from clusterfirst.stages.assignment.problem import Assignment, AssignProblem


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
        fast = FastSettings(settings.seed, settings.rounds)
        return assign_fast(problem, fast, deadline)
    if kind == "exact":
        return assign_exact(problem, settings, deadline)
    if kind == "sparse":
        return assign_sparse(problem, plan, settings, deadline)
    if plan is None:
        rule = "hard assignment needs a transport plan, and this method has none"
        raise InputError(Problem("E404", "assign", "hard", rule))
    return assign_hard(problem, plan, settings, deadline)
