"""Reasons, found without search, why a day with constraints has no solution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from clusterfirst.problem.constraints import Constraints, members_of
from clusterfirst.problem.errors import Problem
from clusterfirst.problem.fleet import BoolArray, FloatArray, IntArray

CELLS = 4_000_000  # orders by kinds of vehicles looked at together
SLACK = 1 + 1e-9


@dataclass(frozen=True, eq=False)
class Alone:
    """What it takes to serve each order and nobody else; row 0 is the depot."""

    units: IntArray  # (n + 1,) demand
    vehicle_units: IntArray  # (V,) capacity
    unit: float  # of them, in the user's own
    length: FloatArray  # (n + 1,) there and back
    minutes: FloatArray | None  # (n + 1,) with service
    shortest: bool  # no way over others is shorter (the triangle inequality holds)


def reasons(
    constraints: Constraints, alone: Alone, ids: Sequence[str]
) -> list[Problem]:
    """Say which orders, or how much of what, no plan can serve."""
    fleet, orders = constraints.fleet, len(ids) - 1
    problems = []
    needed = int((~fleet.optional[fleet.kind]).sum())
    if needed > orders:
        got, rule = f"{orders} orders", f"infeasible: {needed} vehicles must drive"
        problems.append(Problem("E208", "vehicles", got, rule))
    if constraints.allow_unserved:
        return problems
    for row, got, why in fits_nowhere(constraints, alone):
        rule = f"infeasible: {why}"
        problems.append(Problem("E206", f"order {ids[row]}", got, rule))
    for group in members_of(constraints.groups):
        load, most = int(alone.units[group].sum()), int(alone.vehicle_units.max())
        if load > most:
            names = ", ".join(ids[row] for row in group[:5].tolist())
            rule = f"infeasible: the largest vehicle takes {most * alone.unit:.10g}"
            got = f"demand {load * alone.unit:.10g}"
            problems.append(Problem("E206", f"group of {names}", got, rule))
    total, room = int(alone.units.sum()), int(alone.vehicle_units.sum())
    if total > room:
        missing = (total - room) * alone.unit
        got = f"room for {room * alone.unit:.10g}"
        rule = (
            f"infeasible: total demand {total * alone.unit:.10g}, "
            f"{missing:.10g} too much; add vehicles, or --allow-unserved"
        )
        problems.append(Problem("E202", "vehicles", got, rule))
    stops = float(fleet.max_stops[fleet.kind].sum())
    if orders > stops:
        rule = (
            f"infeasible: there are {orders} orders; add vehicles, or --allow-unserved"
        )
        problems.append(Problem("E207", "vehicles", f"{stops:g} stops at most", rule))
    return problems


def fits_nowhere(
    constraints: Constraints, alone: Alone
) -> Iterator[tuple[int, str, str]]:
    """Orders that no vehicle can take even alone: row, what was found, why."""
    fleet = constraints.fleet
    classes, allowed = constraints.wishes
    first = np.flatnonzero(np.diff(fleet.kind, prepend=-1))
    capacity = alone.vehicle_units[first]
    may = np.array([np.logical_or.reduceat(row, first) for row in allowed])
    step = max(1, CELLS // len(first))
    for low in range(1, len(alone.units), step):
        rows = np.arange(low, min(low + step, len(alone.units)))
        free = may[classes[rows]] if len(classes) else np.ones((len(rows), len(first)))
        left: BoolArray = free.astype(np.bool_)
        left &= alone.units[rows, None] <= capacity
        large = left.sum(axis=1) == 0
        far, slow = np.zeros_like(large), np.zeros_like(large)
        if alone.shortest:
            left &= alone.length[rows, None] <= fleet.max_distance * SLACK
            far = (left.sum(axis=1) == 0) & ~large
            if alone.minutes is not None:
                left &= alone.minutes[rows, None] <= fleet.max_duration * SLACK
                slow = (left.sum(axis=1) == 0) & ~large & ~far
        for at in np.flatnonzero(large | far | slow).tolist():
            row = int(rows[at])
            if large[at]:
                got = f"demand {alone.units[row] * alone.unit:.10g}"
                yield row, got, "no vehicle that may take it is large enough"
            elif far[at]:
                got = f"{alone.length[row]:.10g} there and back"
                yield row, got, "longer than any vehicle that may take it drives"
            else:
                assert alone.minutes is not None
                got = f"{alone.minutes[row]:.10g} minutes there and back"
                yield row, got, "longer than any vehicle that may take it is out"
