"""Make somebody's routes feasible for today: the repair behind `--warm-start`.

Unknown customers and second visits are taken out, overfull routes give customers
away, missing customers go where they add least length; a new route opens when nothing
fits or when it is cheaper. What was done is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.errors import NotFoundInTimeError, Problem
from clusterfirst.problem.instance import FloatArray, Instance, IntArray

Routes = list[list[int]]


@dataclass(frozen=True)
class RepairReport:
    """What `repair_routes` did, in counts."""

    unknown: int  # visits to rows that are not customers, removed
    repeated: int  # second visits, removed
    moved: int  # customers taken out of overfull or surplus routes and put elsewhere
    added: int  # customers the routes did not visit
    opened: int  # new routes

    @property
    def clean(self) -> bool:
        """Whether nothing had to be done."""
        return not (self.unknown + self.repeated + self.moved + self.added)

    def __str__(self) -> str:
        return (
            f"{self.unknown} unknown and {self.repeated} repeated visits removed, "
            f"{self.moved} customers moved, {self.added} missing ones added, "
            f"{self.opened} routes opened"
        )


def repair_routes(
    instance: Instance,
    routes: Sequence[Sequence[int]],
    deadline: Deadline | None = None,
) -> tuple[Routes, RepairReport]:
    """Return feasible routes that keep as much of the given ones as possible.

    After the deadline what is left to do is done by loads alone.

    Raises
    ------
    InfeasibleError
        If no solution exists (found without search).
    NotFoundInTimeError
        If the customers could not be packed into the fleet limit this way.
    """
    instance.require_feasible()
    deadline = deadline or Deadline.never()
    kept, unknown, repeated = _known_once(instance, routes)
    given = len(kept)
    present = {c for route in kept for c in route}
    missing = [c for c in range(1, instance.num_customers + 1) if c not in present]
    loose = _give_away(instance, kept, deadline)
    if instance.vehicles is not None:
        # Surplus routes go, those with the smallest load first.
        kept.sort(key=lambda route: -int(instance.demand_units[route].sum()))
        loose += [c for route in kept[instance.vehicles :] for c in route]
        kept = kept[: instance.vehicles]
    before = len(kept)
    _insert(instance, kept, [*loose, *missing], deadline)
    opened = len(kept) - min(before, given)
    report = RepairReport(unknown, repeated, len(loose), len(missing), opened)
    return [route for route in kept if route], report


def _known_once(
    instance: Instance, routes: Sequence[Sequence[int]]
) -> tuple[Routes, int, int]:
    """The first visit to each customer, and how many visits were dropped."""
    seen: set[int] = set()
    unknown = repeated = 0
    kept: Routes = []
    for route in routes:
        stops: list[int] = []
        for c in route:
            if not 1 <= c <= instance.num_customers:
                unknown += 1
            elif c in seen:
                repeated += 1
            else:
                seen.add(int(c))
                stops.append(int(c))
        if stops:
            kept.append(stops)
    return kept, unknown, repeated


def _give_away(instance: Instance, routes: Routes, deadline: Deadline) -> list[int]:
    """Take out of each overfull route those whose removal saves most, until it fits."""
    demand = instance.demand_units
    loose: list[int] = []
    for route in routes:
        load = int(demand[route].sum())
        while load > instance.capacity_units:
            if deadline.passed():
                load -= int(demand[route[-1]])
                loose.append(route.pop())
                continue
            path = np.array([0, *route, 0])
            saved = (
                instance.lengths(path[:-2], path[1:-1])
                + instance.lengths(path[1:-1], path[2:])
                - instance.lengths(path[:-2], path[2:])
            )
            # A demand of 0 does not help; per unit, so that few leave.
            gain = np.where(demand[route] > 0, saved / np.maximum(demand[route], 1), -1)
            loose.append(route.pop(int(gain.argmax())))
            load -= int(demand[loose[-1]])
    return loose


def _insert(
    instance: Instance, routes: Routes, customers: list[int], deadline: Deadline
) -> None:
    """Put customers in, large ones first, each where it adds least length."""
    demand, limit = instance.demand_units, instance.vehicles
    load = [int(demand[route].sum()) for route in routes]
    for c in sorted(customers, key=lambda c: -int(demand[c])):
        room = instance.capacity_units - int(demand[c])
        best, target, place = np.inf, -1, 0
        fits = [r for r in range(len(routes)) if load[r] <= room]
        if limit is None or len(routes) < limit:
            best = 2.0 * float(instance.lengths(0, c))
        elif not fits:
            rule = f"it fits into none of the {limit} routes after the others"
            where = f"customer {instance.ids[c]}"
            raise NotFoundInTimeError(Problem("E204", where, rule=rule))
        if fits and deadline.passed():
            target = max(fits, key=load.__getitem__)  # the fullest one, at its end
            place = len(routes[target])
        elif fits:
            extra, owner = _detours(instance, routes, fits, c)
            at = int(extra.argmin())
            if extra[at] < best:
                target = int(owner[at])
                place = at - int(np.flatnonzero(owner == target)[0])
        if target < 0:
            routes.append([c])
            load.append(int(demand[c]))
        else:
            routes[target].insert(place, c)
            load[target] += int(demand[c])


def _detours(
    instance: Instance, routes: Routes, fits: list[int], c: int
) -> tuple[FloatArray, IntArray]:
    """What c adds at every position of these routes, and the route of each position."""
    path = np.concatenate([[0, *routes[r]] for r in fits])
    onward = np.concatenate([[*routes[r], 0] for r in fits])
    owner = np.repeat(fits, [len(routes[r]) + 1 for r in fits])
    extra = (
        instance.lengths(path, c)
        + instance.lengths(c, onward)
        - instance.lengths(path, onward)
    )
    return extra, owner
