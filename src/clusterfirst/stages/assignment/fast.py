"""Capacitated assignment in milliseconds (the paper's CAP without a MIP).

The LP relaxation gives prices, a lower bound and an assignment that splits fewer
customers than there are vehicles. Split customers go where most of them is, chains
remove the overload that makes, annealed exchanges improve the rest, and groups of
neighbouring vehicles are then assigned again as well as possible. Everything is
counted, not timed: without a deadline equal input gives equal answers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import FloatArray, IntArray
from clusterfirst.stages.assignment.chains import Board, make_board, relieve, restore
from clusterfirst.stages.assignment.exchange import COOLING, cool, exchange
from clusterfirst.stages.assignment.groups import regroup
from clusterfirst.stages.assignment.prices import (
    IMPOSSIBLE,
    Transport,
    cheapest_first,
    lower_bound,
    make_transport,
    priced,
    solve_transport,
)
from clusterfirst.stages.assignment.problem import Assignment, AssignProblem, Status

WIDTHS = (24, 96)  # candidates per customer tried on a dense problem, then all
SHAKES = 6  # attempts at feasibility by exchanges when chains are stuck
SHAKE_UP_TO = 2000  # customers; above, a shake takes a second and the repair nothing
SMALL = 200  # customers up to which a hot annealing comes first: it costs little
LEAST = 5_000  # exchanges proposed at any size
ROUND = 10  # exchanges per customer for each round of groups of vehicles
GROUPS = 3000  # in all, or one round: at 10,000 customers they would take a second
LP_SHARE = 0.6  # of the time left; prices cut short still guide and bound
PROVEN = 1e-9  # relative gap to the LP bound that counts as optimal


@dataclass(frozen=True)
class FastSettings:
    """`effort` is the number of exchanges proposed per customer.

    For every ten of them each vehicle is once assigned again with its neighbours.
    """

    seed: int = 0
    effort: int = 100


def assign_fast(
    problem: AssignProblem, settings: FastSettings, deadline: Deadline
) -> Assignment:
    """Assign every customer within capacity.

    On a dense problem only the cheapest vehicles of each customer are looked at; the
    lists grow until the answer is feasible. `gap` is against the LP bound on the
    lists that were used (so it is not a proof if they were shorter than the rows).
    """
    n = len(problem.demands)
    if n == 0:
        return Assignment(np.empty(0, dtype=np.int64), 0.0, Status.OPTIMAL, 0.0)
    reason = _obvious(problem)
    if reason:
        return _failure(n, Status.INFEASIBLE, 0, reason)
    rounds, why, nearly = 0, "", None
    for width in _widths(problem):
        rounds += 1
        cost, vehicle = cheapest_first(*_candidates(problem, width))
        limits = (problem.capacity, problem.vehicles)
        net = make_transport(cost, vehicle, problem.demands, limits)
        if solve_transport(net, deadline.share(LP_SHARE)) == IMPOSSIBLE:
            why = f"{width} candidates per customer cannot hold the demand"
            nearly = _labels(_round(net, cost))
            continue
        board = _round(net, cost)
        _search(board, settings, deadline)
        if board.marks[0] >= 0:
            whole = width >= problem.cost.shape[1]
            return _answer(board, lower_bound(net, cost), rounds, whole)
        why = f"{width} candidates per customer gave nothing feasible"
        nearly = _labels(board)
        if deadline.passed():
            break
    return replace(_failure(n, Status.NOT_FOUND, rounds, why), nearly=nearly)


def _obvious(problem: AssignProblem) -> str:
    total = int(problem.demands.sum())
    if total > problem.vehicles * problem.capacity:
        return f"{total} units do not fit in {problem.vehicles} vehicles"
    if int(problem.demands.max()) > problem.capacity:
        return "one customer alone is more than a vehicle holds"
    return ""


def _failure(n: int, status: Status, rounds: int, note: str) -> Assignment:
    nobody = np.full(n, -1, dtype=np.int64)
    return Assignment(nobody, np.inf, status, np.inf, rounds, note)


def _labels(board: Board) -> IntArray:
    """(n,) the vehicle of each customer at present, feasible or not."""
    labels: IntArray = board.vehicle[np.arange(len(board.choice)), board.choice]
    return labels


def _answer(board: Board, bound: float, rounds: int, whole: bool) -> Assignment:
    rows = np.arange(len(board.best))
    value = float(board.cost[rows, board.best].sum())
    gap = max(0.0, value - bound) / max(abs(bound), 1e-12)
    status = Status.OPTIMAL if whole and gap <= PROVEN else Status.FEASIBLE
    return Assignment(board.vehicle[rows, board.best], value, status, gap, rounds)


def _widths(problem: AssignProblem) -> list[int]:
    columns = problem.cost.shape[1]
    if problem.candidates is not None:
        return [columns]
    return [*(w for w in WIDTHS if w < columns), columns]


def _candidates(problem: AssignProblem, width: int) -> tuple[FloatArray, IntArray]:
    """(n, width) costs and vehicles: all given ones, or the cheapest of a dense row."""
    cost = np.array(problem.cost, dtype=np.float64)
    if problem.candidates is not None:
        vehicle = np.array(problem.candidates, dtype=np.int64)
        return cost, np.where(np.isfinite(cost), vehicle, -1)
    if width >= cost.shape[1]:
        every = np.broadcast_to(np.arange(cost.shape[1]), cost.shape)
        return cost, np.where(np.isfinite(cost), every, -1)
    chosen = np.argpartition(cost, width - 1, axis=1)[:, :width]
    cost = np.take_along_axis(cost, chosen, 1)
    return cost, np.where(np.isfinite(cost), chosen, -1)


def _round(net: Transport, cost: FloatArray) -> Board:
    """Put each customer where most of its flow went; candidates sorted by price."""
    order = np.argsort(priced(net, cost), axis=1, kind="stable")
    tables = (
        np.take_along_axis(cost, order, 1),
        np.take_along_axis(net.vehicle, order, 1),
    )
    flow = net.flow.reshape(cost.shape)
    choice = np.take_along_axis(flow, order, 1).argmax(axis=1)
    return make_board(tables, net.demands, net.capacity, net.price, choice)


def _regret(board: Board) -> float:
    """What the second-best vehicle costs more at the prices, on average."""
    two = board.cost[:, :2] + board.demands[:, None] * board.price[board.vehicle[:, :2]]
    if two.shape[1] < 2:
        return 0.0
    regret = np.where(board.width > 1, two[:, 1] - two[:, 0], 0.0)
    return float(regret.mean())


def _search(board: Board, settings: FastSettings, deadline: Deadline) -> None:
    """Make the board feasible, then improve it at falling temperature."""
    n = len(board.demands)
    rng = np.array([settings.seed % 2**64], dtype=np.uint64)
    scale = _regret(board) + 1e-12
    wall = float(board.price.max()) + scale  # what a unit of overload costs
    left = relieve(board, deadline)
    for _ in range(SHAKES if n <= SHAKE_UP_TO else 0):
        if left == 0 or deadline.passed():
            break
        exchange(board, rng, 30 * n, (scale, wall), deadline)
        left = relieve(board, deadline)
    if settings.effort == 0:
        return
    proposals = max(n * settings.effort, LEAST) // COOLING
    # Hot: over the wall and back. Cold: a feasible board stays feasible.
    passes = [(3.0, 0.1, wall)] if n <= SMALL else []
    for hot, cold, height in [*passes, (0.1, 0.03, 1e3 * wall)]:
        cool(board, rng, proposals, (scale * hot, scale * cold, height), deadline)
    if board.marks[0] < 0:
        relieve(board, deadline)
    if board.marks[0] >= 0:
        restore(board)
        most = max(1, GROUPS // len(board.load))
        regroup(board, rng, min(-(-settings.effort // ROUND), most), deadline)
