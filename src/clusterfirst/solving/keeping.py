"""Yesterday's plan, or this morning's: what of it stays, and what a report says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clusterfirst.files.solutions import route_names
from clusterfirst.problem.changes import changes_between
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.problem.staying import limits_broken
from clusterfirst.solving.canonical import Canonical
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.search.constrained import Keeping, Routing

# Of the mean distance to the ten nearest customers: the price of a move where none is
# given. Chosen by hand; `benchmarks/dispatch.py keep` measures the curve.
MOVE_PRICE = 2.0
# Of the price of a move: what another order of stops has to save on a route.
ORDER_PRICE = 0.25


@dataclass(frozen=True)
class Kept:
    """Another plan: customers stay with their vehicle and fellows.

    Parameters
    ----------
    plan
        Yesterday's, or this morning's.
    move_price
        Length that a customer's change of vehicle must save; None: a fitting one.
    share
        Of the customers, how many stay at least, whatever moving would save.
    frozen
        Names of vehicles whose routes stay as they are ("Anna|Ben").
    first_stops
        Stops at the beginning of every route that stay as they are.
    start
        Another plan to begin with, for which the free plan is known already.
    """

    plan: Solution
    move_price: float | None = None
    share: float | None = None
    frozen: str = ""
    first_stops: int = 0
    start: Solution | None = None


def at_home(form: Canonical, kept: Kept) -> tuple[Routing, Keeping]:
    """Today's customers where they were, as far as each route keeps its limits."""
    day, asked = form.instance, form.instance.constraints
    assert asked is not None
    free = day.replace(constraints=asked.replace(allow_unserved=True))
    place = np.argsort(form.order).tolist()
    whole = _named(kept, asked.fleet.size, form)
    home: dict[int, int] = {}
    routing: Routing = {}
    frozen: dict[int, list[int]] = {}
    drives = kept.plan.vehicles or range(len(kept.plan.routes))
    for vehicle, route in zip(drives, kept.plan.routes, strict=True):
        if not 0 <= vehicle < asked.fleet.size or vehicle in routing:
            continue
        known = [c for c in dict.fromkeys(route) if 1 <= c <= day.num_customers]
        rows = [place[c] for c in known if place[c] not in home]
        home |= dict.fromkeys(rows, vehicle)
        first = set(route if vehicle in whole else route[: kept.first_stops])
        begun = [place[c] for c in known if c in first and place[c] in rows]
        if begun:
            _require_possible(free, vehicle, begun)
            frozen[vehicle] = begun
        for tried in (rows, begun):  # all that were on it, or only what has to stay
            if tried and _possible(free, vehicle, tried):
                routing[vehicle] = tried
                break
    fixed = {c for route in frozen.values() for c in route}
    movable = {c: v for c, v in home.items() if c not in fixed}
    most = math.inf
    if kept.share is not None:
        most = math.floor((1.0 - kept.share) * len(home) + 1e-9)
    price = kept.move_price
    if price is None:
        price = 0.0 if kept.share is not None else MOVE_PRICE * _step(day)
    if kept.start is not None:
        routing = _standing(free, kept.start, place)
    return routing, Keeping(movable, price, most, frozen, frozenset(whole))


def _standing(free: Instance, plan: Solution, place: Sequence[int]) -> Routing:
    """The routes of a plan of today that keep their limits."""
    routing: Routing = {}
    drives = plan.vehicles or range(len(plan.routes))
    for vehicle, route in zip(drives, plan.routes, strict=True):
        rows = [place[c] for c in route]
        if rows and _possible(free, vehicle, rows):
            routing[vehicle] = rows
    return routing


def _step(day: Instance) -> float:
    """Mean distance of a customer to its ten nearest, as the search measures it."""
    from clusterfirst.stages.search.regions import whole_data

    plain = day
    if day.matrix is not None:
        plain = day.replace(matrix=(day.matrix + day.matrix.T) / 2)
    gaps = whole_data(plain.replace(constraints=None), 10).near_gap[1:]
    return float(gaps.mean()) if gaps.size else 0.0


def _named(kept: Kept, size: int, form: Canonical) -> set[int]:
    """The vehicles whose routes stay as they are."""
    if not kept.frozen:
        return set()
    given, asked = form.given.constraints, form.instance.constraints
    assert asked is not None
    if given is None:  # routes of a plain day go by their numbers
        words = [word.strip() for word in kept.frozen.split("|")]
        for word in words:
            if not word.isdecimal() or not 1 <= int(word) <= size:
                rule = "vehicles have no names: give the numbers of routes, 1|4"
                raise InputError(Problem("E433", "--frozen", word, rule))
        return {int(word) - 1 for word in words}
    mask, stranger = asked.fleet.named(kept.frozen)
    if stranger:
        known = ", ".join(asked.fleet.vehicle_names[:5])
        rule = f"no vehicle has this name; there are {known}"
        raise InputError(Problem("E433", "--frozen", stranger, rule))
    return set(np.flatnonzero(mask).tolist())


def _require_possible(free: Instance, vehicle: int, begun: Sequence[int]) -> None:
    """What stays as it is must keep today's limits: nobody can change it."""
    broken = judge(free, Solution([list(begun)], [vehicle])).violations
    wrong = [p for p in broken if p.code not in {"E825", "E828"}]
    if wrong:
        rule = f"these stops stay as they are, and break a limit: {wrong[0].rule}"
        assert free.constraints is not None
        name = free.constraints.fleet.vehicle_names[vehicle]
        raise InputError(Problem("E437", f"frozen {name}", wrong[0].got, rule))


def in_old_order(day: Instance, found: Routing, keeping: Keeping) -> Routing:
    """Drive each route in the order of before where that is hardly longer.

    Hardly: by no more than ORDER_PRICE of the price of a move. Who is new on a route
    stands where that costs least.
    """
    assert day.constraints is not None
    free = day.replace(constraints=day.constraints.replace(allow_unserved=True))
    before: dict[int, list[int]] = {}
    for customer, vehicle in keeping.home.items():
        before.setdefault(vehicle, []).append(customer)
    kept = dict(found)
    for vehicle, route in found.items():
        begun = list(keeping.frozen.get(vehicle, ()))
        rides = set(route) - set(begun)
        order = begun + [c for c in before.get(vehicle, ()) if c in rides]
        for c in route:
            if c in rides and c not in order:
                _insert(day, order, c, len(begun))
        lengths = Routes.of([order, route]).lengths(day)
        slack = ORDER_PRICE * keeping.price + 1e-9 * lengths[1]
        if lengths[0] <= lengths[1] + slack and _possible(free, vehicle, order):
            kept[vehicle] = order
    return kept


def _insert(day: Instance, route: list[int], c: int, first: int) -> None:
    """Put c where the route grows least, behind its first stops."""
    walk = np.array([0, *route, 0])
    extra = day.lengths(walk[:-1], c) + day.lengths(c, walk[1:])
    extra -= day.lengths(walk[:-1], walk[1:])
    route.insert(first + int(extra[first:].argmin()), c)


def _possible(free: Instance, vehicle: int, route: Sequence[int]) -> bool:
    """Whether a vehicle may drive a route, whatever the others do."""
    broken = judge(free, Solution([route], [vehicle])).violations
    return {problem.code for problem in broken} <= {"E825", "E828"}


def report(
    instance: Instance, kept: Kept, solution: Solution, free_cost: float | None
) -> str:
    """What moved and why, and what it cost to keep the rest, in one sentence."""
    names = route_names(instance, kept.plan)
    changes = changes_between(kept.plan.routes, solution.routes, names)
    old = {c: k for k, route in enumerate(kept.plan.routes) for c in route}
    drives = list(kept.plan.vehicles or range(len(kept.plan.routes)))
    lost = [row for row, k in old.items() if row > 0 and drives[k] < 0]
    moved = [row for row, was in changes.moved.items() if was and row not in lost]
    forced = 0
    if moved and instance.constraints is not None:
        broken = limits_broken(instance, solution, moved)
        today = dict(zip(solution.vehicles or (), solution.routes, strict=False))
        fresh = {v for v, route in today.items() if any(c not in old for c in route)}
        forced = sum(
            broken[at, drives[old[row]]] and drives[old[row]] in fresh
            for at, row in enumerate(moved)
        )
    said = (
        f"{len(moved)} of {changes.both - len(lost)} changed vehicle, {forced} because "
        f"of new orders; {changes.new} are new; {100 * changes.pairs_kept:.0f} % of "
        "same-route pairs kept"
    )
    if lost:
        said += f"; {len(lost)} were on vehicles that are not there today, and free"
    if free_cost:
        extra = 100 * (judge(instance, solution).cost / free_cost - 1)
        word = "longer" if extra >= 0 else "shorter"
        said += f"; {abs(extra):.1f} % {word} than free planning"
    return said
