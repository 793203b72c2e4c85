"""Recombine solutions: the best set of routes out of all routes ever found.

Every route of every solution is a column of a set-partitioning program (each customer
in exactly one chosen route), solved by HiGHS from the best solution on. Above a few
hundred customers the program is solved region by region: only routes whose customers
all lie in a neighbourhood of the best solution may change at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.stages.assignment.mip import BinaryProgram, MipSettings, solve_binary
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.search.schedule import PolishSettings

Lists = list[list[int]]
USUAL = PolishSettings()


def recombine(
    instance: Instance,
    solutions: Sequence[Sequence[Sequence[int]]],
    deadline: Deadline,
) -> Lists:
    """Return routes at least as good as the best of the feasible `solutions`.

    Those with too many routes count too: each of their routes may be chosen.
    """
    judged = [(judge(instance, Solution(s)), s) for s in solutions]
    feasible = [(verdict.cost, s) for verdict, s in judged if verdict.feasible]
    if not feasible:
        raise ValueError("recombine needs at least one feasible solution")
    columns = _columns(instance, solutions)
    best: Lists = [list(route) for route in min(feasible, key=lambda f: f[0])[1]]
    for region in _regions(instance, best):
        if deadline.passed():
            break
        best = _improve(instance, best, columns, region, deadline)
    return best


def _columns(
    instance: Instance, solutions: Sequence[Sequence[Sequence[int]]]
) -> dict[frozenset[int], tuple[float, list[int]]]:
    """The shortest known order of every set of customers that is a route somewhere."""
    columns: dict[frozenset[int], tuple[float, list[int]]] = {}
    for solution in solutions:
        lengths = Routes.of(solution).lengths(instance).tolist()
        some = (route for route in solution if len(route))
        for route, length in zip(some, lengths, strict=True):
            key = frozenset(route)
            if key not in columns or length < columns[key][0]:
                columns[key] = (length, list(route))
    return columns


def _regions(instance: Instance, routes: Lists) -> list[set[int]]:
    """Sets of customers, each a union of neighbouring routes of the best solution.

    Regions overlap: every route is the middle of one unless it lies deep in another.
    """
    n = instance.num_customers
    if n <= USUAL.pool_whole or instance.coords is None:
        return [set(range(1, n + 1))]
    centres = np.array([instance.plane[route].mean(axis=0) for route in routes])
    waiting = np.ones(len(routes), dtype=bool)
    regions = []
    while waiting.any():
        middle = int(np.flatnonzero(waiting)[0])
        order = np.argsort(((centres - centres[middle]) ** 2).sum(axis=1))
        region: set[int] = set()
        for r in order.tolist():
            if len(region) + len(routes[r]) > USUAL.pool_region and region:
                break
            region.update(routes[r])
            # The inner half needs no region of its own.
            if len(region) <= USUAL.pool_region / 2:
                waiting[r] = False
        waiting[middle] = False
        regions.append(region)
    return regions


def _improve(
    instance: Instance,
    best: Lists,
    columns: dict[frozenset[int], tuple[float, list[int]]],
    region: set[int],
    deadline: Deadline,
) -> Lists:
    """Choose the best routes for the customers of whole routes inside the region."""
    inside = [route for route in best if region.issuperset(route)]
    outside = [route for route in best if not region.issuperset(route)]
    customers = sorted(c for route in inside for c in route)
    row = {c: i for i, c in enumerate(customers)}
    chosen = {frozenset(route) for route in inside}
    keys = [key for key in columns if key <= row.keys()]
    if len(keys) <= len(inside):
        return best
    sizes = [len(key) + 1 for key in keys]
    limit = np.inf if instance.vehicles is None else instance.vehicles - len(outside)
    last = len(customers)  # one more row counts the routes
    program = BinaryProgram(
        cost=np.array([columns[key][0] for key in keys]),
        row_lower=np.append(np.ones(last), 0.0),
        row_upper=np.append(np.ones(last), float(limit)),
        starts=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        rows=np.array(
            [r for key in keys for r in (*sorted(row[c] for c in key), last)]
        ),
        values=np.ones(sum(sizes)),
    )
    warm = np.array([key in chosen for key in keys])
    answer = solve_binary(
        program, MipSettings(rel_gap=0.0, max_nodes=USUAL.pool_nodes), deadline, warm
    )
    if answer.point is None:
        return best
    found = [columns[keys[i]][1] for i in np.flatnonzero(answer.point).tolist()]
    verdict = judge(instance, Solution([*outside, *found]))
    if verdict.feasible and verdict.cost < judge(instance, Solution(best)).cost:
        return [*outside, *found]
    return best
