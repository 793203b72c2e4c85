"""Capacitated assignment in milliseconds (the paper's CAP without a MIP).

The LP relaxation gives prices, a lower bound and an assignment that splits fewer
customers than there are vehicles. Split customers go where most of them is, ejection
chains remove the overload that makes (annealing where no chain does), and groups of
neighbouring vehicles are then assigned again as well as possible. Everything is
counted, not timed: without a deadline equal input gives equal answers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import FloatArray, IntArray
from clusterfirst.stages.assignment.ejection_chains import (
    Placement,
    column,
    make_placement,
    overload,
    put,
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
from clusterfirst.stages.compiled import inner, kernel, random

LOOK = 100_000  # exchanges proposed between two looks at the clock


def anneal(
    placed: Placement,
    rng: Any,
    proposals: int,
    heat: tuple[float, float],
    deadline: Deadline,
) -> None:
    """Propose so many exchanges at `heat` (temperature, price of a unit of overload).

    It stops where no vehicle is overfull. `rng` is the state of `random`.
    """
    while proposals > 0 and overload(placed) and not deadline.passed():
        _anneal(placed, rng, min(proposals, LOOK), *heat)
        proposals -= LOOK


@inner
def _over(placed: Any, j: int, more: int) -> int:
    """How far vehicle j would be above capacity with this much more."""
    return int(max(0, placed.load[j] + more - placed.capacity[j]))


@inner
def _pick(placed: Any, i: int, rng: Any) -> int:
    """A column of customer i, mostly one that is cheap at the prices."""
    u = random(rng)
    return int(u * u * u * placed.width[i])


@inner
def _worse(placed: Any, move: Any) -> int:
    """Change of the overload if i goes from j to k and e from there to m (or stays)."""
    j, k, m, q, p = move
    worse = _over(placed, k, q - p) - _over(placed, k, 0)
    if m == j:
        return worse + _over(placed, j, p - q) - _over(placed, j, 0)
    worse += _over(placed, j, -q) - _over(placed, j, 0)
    return worse + (_over(placed, m, p) - _over(placed, m, 0) if m >= 0 else 0)


@kernel
def _anneal(
    placed: Any, rng: Any, proposals: int, temperature: float, penalty: float
) -> None:
    """Propose shifts, swaps and ejections on cost + penalty x overload."""
    n = len(placed.demands)
    total = 0
    for j in range(len(placed.load)):
        total += _over(placed, j, 0)
    for _ in range(proposals):
        if total == 0:
            return
        i = int(random(rng) * n)
        s = _pick(placed, i, rng)
        j, k = placed.vehicle[i, placed.choice[i]], placed.vehicle[i, s]
        if j == k:
            continue
        delta = placed.cost[i, s] - placed.cost[i, placed.choice[i]]
        e, t, m, p = placed.first[k], -1, -1, 0
        if e >= 0:
            placed.first[k] = placed.after[e]  # so that all have their turn
            kind = random(rng)
            if kind < 0.5:
                t = column(placed, e, j)
            elif kind < 0.75:
                t = _pick(placed, e, rng)
            if t >= 0 and t != placed.choice[e]:
                m, p = placed.vehicle[e, t], placed.demands[e]
                delta += placed.cost[e, t] - placed.cost[e, placed.choice[e]]
        worse = _worse(placed, (j, k, m, placed.demands[i], p))
        energy = delta + penalty * worse
        if energy > 0.0 and random(rng) >= np.exp(-energy / temperature):
            continue
        put(placed, i, s)
        if m >= 0:
            put(placed, e, t)
        total += worse


WIDTHS = (24, 96)  # candidates per customer tried on a dense problem, then all
TRIES = 8  # of annealing to make it feasible when chains are stuck
PROPOSALS = 30  # exchanges per customer in each try, and at least
LEAST = 5_000
ANNEAL_UP_TO = 2000  # customers; above, a try takes a second and the repair nothing
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


def _regret(placed: Placement) -> float:
    """What the second-best vehicle costs more at the prices, on average."""
    price = placed.price[placed.vehicle[:, :2]]
    two = placed.cost[:, :2] + placed.demands[:, None] * price
    if two.shape[1] < 2:
        return 0.0
    regret = np.where(placed.width > 1, two[:, 1] - two[:, 0], 0.0)
    return float(regret.mean())


def _search(placed: Placement, settings: AssignSettings, deadline: Deadline) -> bool:
    """Make the placement feasible, then better; whether it is feasible."""
    n = len(placed.demands)
    rng = np.array([settings.seed % 2**64], dtype=np.uint64)
    scale = _regret(placed) + 1e-12
    price = float(placed.price.max()) + scale  # of a unit of overload
    left = relieve(placed, deadline)
    for number in range(TRIES if n <= ANNEAL_UP_TO else 0):
        if left == 0 or deadline.passed():
            break
        heat = (scale, price * 2**number)
        anneal(placed, rng, max(PROPOSALS * n, LEAST), heat, deadline)
        left = relieve(placed, deadline)
    if left:
        return False
    most = max(1, GROUPS // len(placed.load))
    regroup(placed, rng, min(settings.rounds, most), deadline)
    return True
