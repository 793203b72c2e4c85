"""Reasons, found without search, why a day with constraints has no solution."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from clusterfirst.problem.constraints import Constraints, members_of
from clusterfirst.problem.errors import Problem
from clusterfirst.problem.fleet import BoolArray, FloatArray, IntArray

CELLS = 4_000_000  # orders by kinds of vehicles looked at together
SLACK = 1 + 1e-9
MOST_NAMED = 5  # orders in one sentence


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
            rule = (
                f"infeasible: the largest vehicle takes {most * alone.unit:.10g}, "
                f"{(load - most) * alone.unit:.10g} less"
            )
            got = f"demand {load * alone.unit:.10g}"
            names = some([ids[row] for row in group.tolist()])
            problems.append(Problem("E206", f"group of {names}", got, rule))
    return problems + _all_together(constraints, alone, ids)


def _all_together(
    constraints: Constraints, alone: Alone, ids: Sequence[str]
) -> list[Problem]:
    """More load, stops or service than all vehicles have, and who could stay."""
    fleet, orders = constraints.fleet, len(ids) - 1
    service = np.zeros(orders + 1)
    if constraints.service is not None:
        service = constraints.service
    sums = [
        ("E202", alone.units, alone.vehicle_units, alone.unit),
        ("E207", np.r_[0, np.ones(orders)], fleet.max_stops[fleet.kind], 1.0),
        ("E209", service, fleet.max_duration[fleet.kind], 1.0),
    ]
    words = {
        "E202": ("room for {}", "the total demand is {}"),
        "E207": ("{} stops at most", "there are {} orders"),
        "E209": ("{} minutes at most", "service alone takes {} minutes"),
    }
    problems = []
    for code, needs, has, unit in sums:
        over = (needs.sum() - has.sum()).item()
        rounding = (SLACK - 1) * service.sum() if code == "E209" else 0.0
        if over <= rounding:
            continue
        amounts = (has.sum().item() * unit, needs.sum().item() * unit)
        got, needs_so_much = (
            text.format(f"{value:.10g}")
            for text, value in zip(words[code], amounts, strict=True)
        )
        stay = some([ids[row] for row in _who_could_stay(constraints, needs, over)])
        rule = (
            f"infeasible: {needs_so_much}, {over * unit:.10g} too much; add vehicles, "
            f"or --allow-unserved: leaving {stay} would be enough for that"
        )
        problems.append(Problem(code, "vehicles", got, rule))
    return problems


def _who_could_stay(
    constraints: Constraints, needs: FloatArray, missing: float
) -> list[int]:
    """The fewest orders of the lowest priorities that need so much together."""
    priority = np.ones(len(needs))
    if constraints.priority is not None:
        priority = constraints.priority
    order = np.lexsort((-needs[1:], priority[1:])) + 1
    count = int(np.searchsorted(np.cumsum(needs[order]), missing * (1 - 1e-12))) + 1
    return [int(row) for row in order[:count]]


def some(names: Collection[str]) -> str:
    """The first names of a list in words: orders a, b and 3 more."""
    shown = ", ".join(list(names)[:MOST_NAMED])
    more = len(names) - MOST_NAMED
    word = "order" if len(names) == 1 else "orders"
    return f"{word} {shown}{f' and {more} more' if more > 0 else ''}"


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
        able = free > 0
        for at in np.flatnonzero(large | far | slow).tolist():
            row, may = int(rows[at]), able[at]
            if large[at]:
                most = int(capacity[may].max(initial=0))
                got = f"demand {alone.units[row] * alone.unit:.10g}"
                missing = f"{(alone.units[row] - most) * alone.unit:.10g}"
                why = "no vehicle that may take it is large enough"
            elif far[at]:
                may = may & (alone.units[row] <= capacity)
                got = f"{alone.length[row]:.10g} there and back"
                missing = f"{alone.length[row] - fleet.max_distance[may].max():.5g}"
                why = "longer than any vehicle that may take it drives"
            else:
                assert alone.minutes is not None
                may = may & (alone.units[row] <= capacity)
                may &= alone.length[row] <= fleet.max_distance * SLACK
                got = f"{alone.minutes[row]:.10g} minutes there and back"
                short = alone.minutes[row] - fleet.max_duration[may].max()
                missing = f"{short:.5g} minutes"
                why = "longer than any vehicle that may take it is out"
            yield row, got, f"{why}: {missing} are missing"
