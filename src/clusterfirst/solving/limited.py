"""Solving a day with constraints, or with ways that differ from the ways back.

Savings, or the network, give a start within the limits; the search with limits inserts
who is missing and goes on until the deadline.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.constraints import Constraints, members_of
from clusterfirst.problem.errors import InputError, NotFoundInTimeError, Problem
from clusterfirst.problem.feasibility import some
from clusterfirst.problem.fleet import Fleet
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, Verdict, judge
from clusterfirst.problem.staying import reasons_to_stay
from clusterfirst.solving.balancing import Balance, balanced, measured, spread
from clusterfirst.solving.canonical import Canonical, canonical
from clusterfirst.solving.first_method import (
    default_time_limit,
    first_temperature,
    may_ask_network,
)
from clusterfirst.solving.keeping import Kept, at_home, in_old_order, report
from clusterfirst.solving.limited_network import beginning
from clusterfirst.solving.limited_start import fitting
from clusterfirst.solving.options import AUTO, JUDGING, SolveOptions
from clusterfirst.solving.result import Result
from clusterfirst.solving.warming import warm_up
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.search.constrained import (
    Keeping,
    Routing,
    cheapest,
    search_limited,
)
from clusterfirst.stages.search.schedule import PolishSettings

FREE_SHARE = 0.4  # of the time for the plan that a kept or an even one is told beside
REASONS_SAID = 5  # orders that stay whose reasons are printed; files have them all


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
    by_network = options.method == "neural" or may_ask_network(instance, options)
    startup = warm_up(
        "neural" if by_network else "savings", options.model, limited=True
    )
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
    searched = Searched({})
    try:
        searched = _search(form, options, deadline, wishes, improved)
        found = searched.routing
    except KeyboardInterrupt:
        if not best:
            raise
        found, interrupted = best[0], True
    seconds = {"search": time.perf_counter() - begin}
    solution = _solution(instance, form, found, numbered=wishes.keep is not None)
    result = _judged(instance, solution, options, seconds, interrupted)
    result.notes.extend([*searched.notes, *_notes(form, searched, wishes)])
    result = replace(result, method=f"{searched.by}+limits", startup=startup)
    result.seconds["judge"] = time.perf_counter() - begin - seconds["search"]
    return result


@dataclass(frozen=True)
class Searched:
    """Routes, those without what is asked beside the length, and how they began."""

    routing: Routing
    free: Routing | None = None
    by: str = "kept"
    notes: Sequence[str] = ()


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
        return Searched({})
    settings = PolishSettings(options.seed, options.iterations, 1)
    if wishes.keep is not None:
        return _kept(form, options, deadline, wishes.keep, improved)
    begun = beginning(day, options, deadline)
    given = begun.routing
    if wishes.start is not None:
        known = [[c for c in r if 1 <= c <= day.num_customers] for r in wishes.start]
        theirs = form.from_given([list(dict.fromkeys(r)) for r in known])
        starts = [fitting(day, theirs), given]
        given = starts[cheapest(day, starts, settings)]
    until = deadline.share(FREE_SHARE) if wishes.balance else deadline
    hot = first_temperature(begun.seen, begun.by, settings)
    begins = replace(settings, hot=hot)
    found = search_limited(day, given, begins, until, on_improvement=improved)
    if wishes.balance is None:
        return Searched(found, None, begun.by, begun.notes)
    even = balanced(day, found, wishes.balance, settings, deadline)
    return Searched(even, found, begun.by, begun.notes)


def _kept(
    form: Canonical,
    options: SolveOptions,
    deadline: Deadline,
    keep: Kept,
    improved: Callable[[Routing], None],
) -> Searched:
    """Yesterday's plan changed where that pays, beside a plan that owes it nothing."""
    day = form.instance
    settings = PolishSettings(options.seed, options.iterations, 1)
    routing, keeping = at_home(form, keep)
    said = []
    if options.method == "neural":
        said = ["W436 routes begin with the plan that is kept, not with the network"]
    if keep.start is not None:
        found = search_limited(
            day, routing, settings, deadline, keeping=keeping, on_improvement=improved
        )
        return Searched(in_old_order(day, found, keeping), notes=said)
    # The free plan is for comparison, and gets a part of the time.
    soon = deadline.share(FREE_SHARE)
    begun = beginning(day, options, soon)
    free = search_limited(
        day,
        _frozen_first(begun.routing, keeping),
        settings,
        soon,
        keeping=replace(keeping, home={}, price=0.0, most=np.inf),
    )
    found = search_limited(
        day, routing, settings, deadline, keeping=keeping, on_improvement=improved
    )
    missing = day.num_customers - sum(map(len, found.values()))
    if missing and np.isfinite(keeping.most):  # serving counts more than staying
        dear = replace(keeping, most=np.inf, price=float(day.lengths(0, 1)))
        found = search_limited(day, routing, settings, deadline, keeping=dear)
    return Searched(
        in_old_order(day, found, keeping), free, "kept", said or begun.notes
    )


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


def _solution(
    given: Instance, form: Canonical, found: Routing, *, numbered: bool = False
) -> Solution:
    """The plan in the user's rows; groups ride together or not at all.

    Without names, route k is vehicle k, unless routes keep the `numbered` ones of
    another plan, some of which nobody drives today.
    """
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
    named = given.constraints is not None or (
        numbered and drives != list(range(len(drives)))
    )
    return Solution(routes, drives if named else None)


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
    if options.method not in (AUTO, "neural", "savings"):
        notes.append(
            f"W436 {options.method} knows no limits: these routes are by savings and "
            "search"
        )
    if (options.threads or 1) > 1:
        notes.append(
            f"W438 {options.threads} threads: a day with limits is searched by one, "
            "because its orders depend on each other across the map"
        )
    if unserved:
        load = sum(float(instance.demands[c]) for c in verdict.unserved)
        orders = "order is" if len(unserved) == 1 else "orders are"
        said = [f"{order}, because {why}" for order, why in unserved.items()]
        more = len(said) - REASONS_SAID
        said[REASONS_SAID:] = [f"and {more} more"] if more > 0 else []
        notes.append(
            f"{len(unserved)} {orders} not served (demand {load:.10g}): "
            + "; ".join(said)
        )
    status = "feasible; found by a heuristic, optimality is not proven"
    if interrupted:
        status = "interrupted: the best answer so far"
    return Result(
        instance,
        solution,
        verdict,
        status,
        "savings+limits",
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
    verdict = judge(instance, solution)
    rows = verdict.unserved
    load = sum(float(instance.demands[c]) for c in rows)
    room = "" if instance.constraints is None else _room(instance, verdict)
    rule = (
        f"no plan for all was found; infeasibility is not proven. {some(unserved)} "
        f"with demand {load:.10g} have no place{room}: add vehicles or time, or "
        "--allow-unserved"
    )
    problems = [Problem("E204", "vehicles", f"{len(rows)} orders left", rule)]
    problems += [
        Problem("E204", f"order {order}", "no place", why)
        for order, why in unserved.items()
    ]
    return NotFoundInTimeError(problems)


def _room(instance: Instance, verdict: Verdict) -> str:
    """What the vehicles could still carry, were it not for other limits."""
    assert instance.vehicle_units is not None
    room = instance.plain_load(int(instance.vehicle_units.sum())) - sum(verdict.loads)
    return f", the vehicles room for {room:.10g}"
