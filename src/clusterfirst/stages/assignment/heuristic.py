"""Capacitated assignment in milliseconds (the paper's CAP without a MIP).

The LP relaxation gives prices, a lower bound and an assignment that splits fewer
customers than there are vehicles. Split customers go where most of them is, ejection
chains remove the overload that makes, and groups of neighbouring vehicles are then
assigned again as well as possible. Everything is counted, not timed: without a deadline
equal input gives equal answers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import FloatArray, IntArray
from clusterfirst.stages.assignment.ejection_chains import (
    Placement,
    make_placement,
    relieve,
)
from clusterfirst.stages.assignment.problem import (
    Assignment,
    AssignProblem,
    AssignSettings,
    Status,
    obviously_infeasible,
)
from clusterfirst.stages.assignment.regrouping import regroup
from clusterfirst.stages.assignment.relaxation import (
    IMPOSSIBLE,
    Transport,
    cheapest_first,
    lower_bound,
    make_transport,
    priced,
    solve_transport,
)

WIDTHS = (24, 96)  # candidates per customer tried on a dense problem, then all
GROUPS = 3000  # in all, or one round: at 10,000 customers they would take a second
LP_SHARE = 0.6  # of the time left; prices cut short still guide and bound
PROVEN = 1e-9  # relative gap to the LP bound that counts as optimal


def assign_fast(
    problem: AssignProblem, settings: AssignSettings, deadline: Deadline
) -> Assignment:
    """Assign every customer within capacity.

    On a dense problem only the cheapest vehicles of each customer are looked at; the
    lists grow until the answer is feasible. `gap` is against the LP bound on the
    lists that were used (so it is not a proof if they were shorter than the rows).
    """
    n = len(problem.demands)
    if n == 0:
        return Assignment(np.empty(0, dtype=np.int64), 0.0, Status.OPTIMAL, 0.0)
    cost, vehicle = _usable(problem)
    reason = obviously_infeasible(problem.demands, problem.room, vehicle)
    if reason:
        return Assignment.failed(n, Status.INFEASIBLE, reason, 0)
    rounds, why, nearly = 0, "", None
    for width in _widths(problem):
        rounds += 1
        costs, vehicles = cheapest_first(*_cheapest(cost, vehicle, width))
        net = make_transport(costs, vehicles, problem.demands, problem.room)
        if solve_transport(net, deadline.share(LP_SHARE)) == IMPOSSIBLE:
            why = f"{width} candidates per customer cannot hold the demand"
            nearly = _labels(_round(net, costs))
            continue
        placed = _round(net, costs)
        if _search(placed, settings, deadline):
            whole = width >= problem.cost.shape[1]
            return _answer(placed, lower_bound(net, costs), rounds, whole)
        why = f"{width} candidates per customer gave nothing feasible"
        nearly = _labels(placed)
        if deadline.passed():
            break
    failed = Assignment.failed(n, Status.NOT_FOUND, why, rounds)
    return replace(failed, nearly=nearly)


def _usable(problem: AssignProblem) -> tuple[FloatArray, IntArray]:
    """(n, C) costs and vehicles; -1 at cost inf where a customer may not or cannot."""
    cost, vehicle = problem.cost, problem.vehicle_of_cost
    fits = problem.demands[:, None] <= problem.room[vehicle] if cost.size else True
    usable = np.isfinite(cost) & (vehicle >= 0) & fits
    return np.where(usable, cost, np.inf), np.where(usable, vehicle, -1)


def _labels(placed: Placement) -> IntArray:
    """(n,) the vehicle of each customer at present, feasible or not."""
    labels: IntArray = placed.vehicle[np.arange(len(placed.choice)), placed.choice]
    return labels


def _answer(placed: Placement, bound: float, rounds: int, whole: bool) -> Assignment:
    value = float(placed.cost[np.arange(len(placed.choice)), placed.choice].sum())
    gap = max(0.0, value - bound) / max(abs(bound), 1e-12)
    status = Status.OPTIMAL if whole and gap <= PROVEN else Status.FEASIBLE
    return Assignment(_labels(placed), value, status, gap, rounds)


def _widths(problem: AssignProblem) -> list[int]:
    columns = problem.cost.shape[1]
    if problem.candidates is not None:
        return [columns]
    return [*(w for w in WIDTHS if w < columns), columns]


def _cheapest(
    cost: FloatArray, vehicle: IntArray, width: int
) -> tuple[FloatArray, IntArray]:
    """The cheapest candidates of each customer, so many of them."""
    if width >= cost.shape[1]:
        return cost, vehicle
    chosen = np.argpartition(cost, width - 1, axis=1)[:, :width]
    return np.take_along_axis(cost, chosen, 1), np.take_along_axis(vehicle, chosen, 1)


def _round(net: Transport, cost: FloatArray) -> Placement:
    """Put each customer where most of its flow went; candidates sorted by price."""
    order = np.argsort(priced(net, cost), axis=1, kind="stable")
    flow = np.take_along_axis(net.flow.reshape(cost.shape), order, 1)
    return make_placement(
        net,
        np.take_along_axis(cost, order, 1),
        np.take_along_axis(net.vehicle, order, 1),
        flow.argmax(axis=1),
    )


def _search(placed: Placement, settings: AssignSettings, deadline: Deadline) -> bool:
    """Make the placement feasible, then better; whether it is feasible."""
    if relieve(placed, deadline):
        return False
    rng = np.array([settings.seed % 2**64], dtype=np.uint64)
    most = max(1, GROUPS // len(placed.load))
    regroup(placed, rng, min(settings.rounds, most), deadline)
    return True
