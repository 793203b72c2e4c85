"""Solving a day with constraints, or with ways that differ from the ways back.

A plain search of the day without its limits gives a start; what of it keeps them goes
to vehicles, and the search with limits inserts the rest and goes on until the deadline.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.constraints import Constraints, members_of
from clusterfirst.problem.errors import InputError, NotFoundInTimeError, Problem
from clusterfirst.problem.fleet import Fleet
from clusterfirst.problem.instance import Instance, IntArray
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.solving.balancing import Balance, balanced, measured, spread
from clusterfirst.solving.canonical import Canonical, canonical
from clusterfirst.solving.first_method import default_time_limit
from clusterfirst.solving.keeping import Kept, at_home, oriented, report
from clusterfirst.solving.method import run_method
from clusterfirst.solving.options import AUTO, JUDGING, SolveOptions
from clusterfirst.solving.result import Result
from clusterfirst.solving.staying import reasons_to_stay
from clusterfirst.solving.warming import warm_up
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.search.constrained import Keeping, Routing, search_limited
from clusterfirst.stages.search.settings import PolishSettings
from clusterfirst.stages.search_state import SearchState

FREE_SHARE = 0.4  # of the time for the plan that a kept or an even one is told beside


@dataclass(frozen=True)
class Wishes:
    """What is asked of the routes beside their length."""

    start: Sequence[Sequence[int]] | None = None  # routes to begin with
    keep: Kept | None = None
    balance: Balance | None = None


def solve_limited(
    instance: Instance,
    options: SolveOptions,
    wishes: Wishes,
    on_improvement: Callable[[float, Routes], None] | None = None,
) -> Result:
    """Plan routes that keep every limit; see `solve`."""
    if options.is_peer:
        instance.require_plain(options.method)
    startup = warm_up(limited=True)
    begin = time.perf_counter()
    form = canonical(_with_fleet(instance))
    limit = options.time_limit
    if limit is None and options.iterations is None:
        limit = default_time_limit(instance.num_customers)
    deadline = Deadline.never()
    if limit is not None:
        deadline = Deadline.after(limit - 0.01 - JUDGING * instance.num_customers)
    best: list[Routing] = []

    def improved(found: Routing) -> None:
        best[:] = [found]
        if on_improvement is not None:
            routes = Routes.of(found.values())
            cost = float(routes.lengths(form.instance).sum())
            on_improvement(cost, form.to_given(routes))

    interrupted = False
    searched = Searched({}, None)
    try:
        searched = _search(form, options, deadline, wishes, improved)
        found = searched.routing
    except KeyboardInterrupt:
        if not best:
            raise
        found, interrupted = best[0], True
    seconds = {"search": time.perf_counter() - begin}
    solution = _solution(instance, form, found)
    result = _judged(instance, solution, options, seconds, interrupted)
    result.notes.extend(_notes(form, searched, wishes))
    result.seconds["judge"] = time.perf_counter() - begin - seconds["search"]
    object.__setattr__(result, "startup", startup)
    return result


@dataclass(frozen=True)
class Searched:
    """Routes, and those without what is asked beside the length."""

    routing: Routing
    free: Routing | None


def _with_fleet(instance: Instance) -> Instance:
    """A plain day with a fleet of as many vehicles as it may have."""
    if instance.constraints is not None:
        return instance
    count = instance.vehicles or max(1, instance.num_customers)
    fleet = Fleet.of_one_kind(float(instance.capacity), count)
    return instance.replace(constraints=Constraints(fleet))


def _search(
    form: Canonical,
    options: SolveOptions,
    deadline: Deadline,
    wishes: Wishes,
    improved: Callable[[Routing], None],
) -> Searched:
    day = form.instance
    if not day.num_customers:
        return Searched({}, None)
    settings = PolishSettings(options.seed, options.iterations, 1)
    if wishes.keep is not None:
        routing, keeping = at_home(form, wishes.keep)
        if wishes.keep.start is not None:
            found = search_limited(
                day, routing, settings, deadline, keeping=keeping,
                on_improvement=improved,
            )  # fmt: skip
            return Searched(found, None)
        # The free plan is for comparison, and gets a part of the time.
        given = _frozen_first(fitting(day, _relaxed(day, options)), keeping)
        free = search_limited(
            day,
            given,
            settings,
            deadline.share(FREE_SHARE),
            keeping=replace(keeping, home={}, price=0.0, most=np.inf),
        )
        found = search_limited(
            day, routing, settings, deadline, keeping=keeping, on_improvement=improved
        )
        missing = day.num_customers - sum(map(len, found.values()))
        if missing and np.isfinite(keeping.most):  # serving counts more than staying
            keeping = replace(keeping, most=np.inf, price=float(day.lengths(0, 1)))
            found = search_limited(day, routing, settings, deadline, keeping=keeping)
        return Searched(oriented(day, found, routing), free)
    if wishes.start is not None:
        known = [[c for c in r if 1 <= c <= day.num_customers] for r in wishes.start]
        routes = form.from_given([list(dict.fromkeys(r)) for r in known])
    else:
        routes = _relaxed(day, options)
    given = fitting(day, routes)
    until = deadline.share(FREE_SHARE) if wishes.balance else deadline
    found = search_limited(day, given, settings, until, on_improvement=improved)
    if wishes.balance is None:
        return Searched(found, None)
    even = balanced(day, found, wishes.balance, settings, deadline)
    return Searched(even, found)


def _frozen_first(given: Routing, keeping: Keeping) -> Routing:
    """A start in which what is frozen stands where it is."""
    fixed = {c for route in keeping.frozen.values() for c in route}
    kept = {
        v: [c for c in route if c not in fixed]
        for v, route in given.items()
        if v not in keeping.frozen
    }
    return {**kept, **{v: list(route) for v, route in keeping.frozen.items()}}


def _notes(form: Canonical, searched: Searched, wishes: Wishes) -> list[str]:
    """What is said about plans that were kept, or made even."""
    whole, free = form.given, searched.free
    if free is None:
        return []
    before = _solution(whole, form, free)
    after = _solution(whole, form, searched.routing)
    if wishes.keep is not None:
        return [f"kept: {report(whole, wishes.keep, after, judge(whole, before).cost)}"]
    assert wishes.balance is not None
    name = wishes.balance.measure
    was, now = (spread(measured(whole, plan, name)) for plan in (before, after))
    least, length = (sum(judge(whole, plan).lengths) for plan in (before, after))
    longer = 100 * (length / max(least, 1e-300) - 1)
    return [f"balanced: spread of {name} {was:.6g} -> {now:.6g}, {longer:.2f} % longer"]


def _relaxed(day: Instance, options: SolveOptions) -> Routes:
    """Routes of the day as if it had no limits but the largest capacity."""
    matrix = None if day.matrix is None else (day.matrix + day.matrix.T) / 2
    plain = day.replace(constraints=None, matrix=matrix, vehicles=None)
    if (plain.demand_units > plain.capacity_units).any():
        return Routes.of([])
    state = SearchState(plain, Deadline.never(), options.seed, 1)
    run_method(state, "savings")
    return state.best or Routes.of([])


def fitting(day: Instance, routes: Routes) -> Routing:
    """Give each route that keeps all limits to a vehicle; the others fall apart.

    The heaviest routes choose first, among the smallest vehicles that take them.
    """
    asked = day.constraints
    assert asked is not None
    assert day.vehicle_units is not None
    fleet, classes = asked.fleet, asked.wishes
    free = np.ones(fleet.size, dtype=np.bool_)
    order = np.argsort(day.vehicle_units, kind="stable")
    lengths, loads = routes.lengths(day), routes.sums(day.demand_units)
    found: Routing = {}
    grouped = asked.groups if len(asked.groups) else None
    aparts = asked.aparts if len(asked.aparts) else None
    for k in np.argsort(-loads, kind="stable").tolist():
        route = routes[k]
        if grouped is not None and (grouped[route] >= 0).any():
            continue  # groups are put together by insertion
        if aparts is not None:
            mine = aparts[route][aparts[route] >= 0]
            if len(np.unique(mine)) < len(mine):
                continue
        length, rows = _way(day, route, float(lengths[k]))
        minutes = _minutes(day, rows)
        kind = fleet.kind
        fits = free & (loads[k] <= day.vehicle_units)
        fits &= (len(rows) <= fleet.max_stops[kind]) & (
            length <= fleet.max_distance[kind]
        )
        fits &= minutes <= fleet.max_duration[kind]
        if len(classes[0]):
            fits &= np.all(classes[1][classes[0][rows]], axis=0)
        able = order[fits[order]]
        if len(able):
            found[int(able[0])] = rows.tolist()
            free[able[0]] = False
    return found


def _way(day: Instance, route: IntArray, length: float) -> tuple[float, IntArray]:
    """The route in the shorter direction, and how long it is."""
    if day.symmetric:
        return length, route
    back = float(Routes.of([route[::-1]]).lengths(day)[0])
    return (back, route[::-1]) if back < length else (length, route)


def _minutes(day: Instance, rows: IntArray) -> float:
    asked = day.constraints
    assert asked is not None
    if not asked.timed:
        return 0.0
    walk = np.concatenate([[0], rows, [0]])
    total = float(day.minutes(walk[:-1], walk[1:]).sum())
    return total + (0.0 if asked.service is None else float(asked.service[rows].sum()))


def _solution(given: Instance, form: Canonical, found: Routing) -> Solution:
    """The plan in the user's rows; groups ride together or not at all."""
    asked = form.instance.constraints
    assert asked is not None
    out: set[int] = set()
    for group in members_of(asked.groups):
        rides = {c: v for v, route in found.items() for c in route}
        if len({rides.get(c, -1) for c in group.tolist()}) > 1:
            out |= set(group.tolist())
    kept = {v: [c for c in route if c not in out] for v, route in found.items()}
    drives = sorted(v for v, route in kept.items() if route)
    routes = form.to_given(Routes.of([kept[v] for v in drives])).lists()
    # Without names, route k is vehicle k: a plain day has no vehicles to name.
    return Solution(routes, None if given.constraints is None else drives)


def _judged(
    instance: Instance,
    solution: Solution,
    options: SolveOptions,
    seconds: dict[str, float],
    interrupted: bool,
) -> Result:
    verdict = judge(instance, solution)
    unserved = reasons_to_stay(instance, solution) if verdict.unserved else {}
    if not verdict.feasible:
        raise _refusal(instance, solution, unserved)
    notes = []
    if options.method != AUTO:
        notes.append(
            f"W436 {options.method} knows no limits: these routes are by insertion "
            "and search"
        )
    if unserved:
        load = sum(float(instance.demands[c]) for c in verdict.unserved)
        notes.append(f"{len(unserved)} orders are not served (demand {load:.10g})")
    status = "feasible; found by a heuristic, optimality is not proven"
    if interrupted:
        status = "interrupted: the best answer so far"
    return Result(
        instance,
        solution,
        verdict,
        status,
        "insertion+limits",
        seconds,
        options.seed,
        interrupted=interrupted,
        notes=notes,
        unserved=unserved,
    )


def _refusal(
    instance: Instance, solution: Solution, unserved: dict[str, str]
) -> NotFoundInTimeError | InputError:
    """What to say where a limit is not kept: who stays, and how much is missing."""
    if not unserved:
        return NotFoundInTimeError(judge(instance, solution).violations)
    rows = judge(instance, solution).unserved
    load = sum(float(instance.demands[c]) for c in rows)
    rule = (
        f"no plan for all was found; infeasibility is not proven. {len(rows)} orders "
        f"with demand {load:.10g} have no place: add vehicles or time, or "
        "--allow-unserved"
    )
    problems = [Problem("E204", "vehicles", f"{len(rows)} orders left", rule)]
    problems += [
        Problem("E204", f"order {order}", "no place", why)
        for order, why in unserved.items()
    ]
    return NotFoundInTimeError(problems)
