"""`solve(instance, options) -> Result`: the only file that knows the order.

Seeds and costs -> assignment -> repair -> tours -> judge; methods that build routes
themselves join at the tours. What leaves passed the judge, and the time limit holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.errors import InputError, NotFoundInTimeError, Problem
from clusterfirst.problem.instance import Instance, IntArray
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.solving.canonical import Canonical, canonical
from clusterfirst.solving.first_method import (
    SAVINGS_SHARE,
    default_time_limit,
    first_temperature,
    start_share,
    with_method,
)
from clusterfirst.solving.options import (
    JUDGING,
    TIME_LIMITS,
    SolveOptions,
    run_method,
)
from clusterfirst.solving.result import Result
from clusterfirst.solving.safe_start import safe_routes, some_packing
from clusterfirst.solving.warming import warm_up
from clusterfirst.stages.classical.exact import optimal_routes
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.search.repair import repair_routes
from clusterfirst.stages.search_state import SearchState
from clusterfirst.stages.tours.routing import FULL, improve

if TYPE_CHECKING:
    from clusterfirst.solving.balancing import Balance
    from clusterfirst.solving.keeping import Kept

__all__ = ["Result", "SolveOptions", "default_time_limit", "solve", "warm_up"]

METHOD_SHARE = 0.9  # of the time is the method's; the rest makes the tours better
SEED_SETS_SHARE = 0.5  # of METHOD_SHARE, polish or not, for several seed sets
LEAST_EACH = 4e-5  # seconds per customer for one round of savings (docs/anytime.md)
POLISH_LEAST = 2e-5  # seconds per customer; less would go into its preparations
COUNTED_THREADS = 2  # of the polish with `iterations`: the same on every machine
# Rounds of the method by counts, if the polish follows: a round costs as much as
# thousands of iterations of the polish, and ten hold all decodings of the network.
LEAST_ROUNDS, ITERATIONS_PER_ROUND = 10, 10_000
SAFE_FIRST = 300  # customers from which a safe answer is made before anything else


def least_time_limit(customers: int) -> float:
    """Seconds below which the answer may be only a safe one, on an idle machine."""
    return max(TIME_LIMITS[0], LEAST_EACH * customers)


def solve(
    instance: Instance,
    options: SolveOptions | None = None,
    *,
    on_improvement: Callable[[float, Routes], None] | None = None,
    on_progress: Callable[[str, float], None] | None = None,
    start: Sequence[Sequence[int]] | None = None,
    keep: Kept | None = None,
    balance: Balance | None = None,
) -> Result:
    """Plan routes; always a feasible answer that the judge accepted, or an error.

    `on_improvement` is called with (cost, routes) whenever the answer gets better,
    `on_progress` with the name of a stage and the share of its iterations done.
    `start` may be anybody's routes, yesterday's for example: they are repaired, a note
    says how and at what cost, and the answer is never worse. `keep` is another plan:
    customers stay with their vehicle unless moving them saves more than its price.
    `balance` says what of the routes is to be even, and for how much more length.
    Raises InfeasibleError
    when no solution exists (proven, in words) and NotFoundInTimeError when none was
    found. Ctrl-C returns the best answer so far, marked as interrupted.
    """
    instance.require_feasible()
    asked = keep is not None or balance is not None
    if asked or instance.constraints is not None or not instance.symmetric:
        from clusterfirst.solving.limited import Wishes, solve_limited

        wishes = Wishes(start, keep, balance)
        return solve_limited(
            instance, options or SolveOptions(), wishes, on_improvement
        )
    form = canonical(instance)
    options, why_not = with_method(form.instance, options or SolveOptions())
    state = new_state(form, options)
    state.notes += [why_not] if why_not else []
    state.on_progress = on_progress
    if on_improvement is not None:
        state.on_improvement = lambda c, routes: on_improvement(
            c, form.to_given(routes)
        )
    if instance.num_customers < 1:
        state.best, state.proof = Routes.of([]), "nobody to visit"
        return _judged(state, form, options, interrupted=False)
    startup = warm_up(options.method, options.model, polish=options.polish)
    return replace(search(state, form, options, start=start), startup=startup)


def new_state(form: Canonical, options: SolveOptions) -> SearchState:
    """Return a search that has not begun; `start_clock` comes before any of it."""
    return SearchState(
        form.instance, Deadline.never(), options.seed, options.iterations
    )


def search(
    state: SearchState,
    form: Canonical,
    options: SolveOptions,
    *,
    start: Sequence[Sequence[int]] | None = None,
    method_done: bool = False,
) -> Result:
    """Search until the time is up and judge; `solve_many` has run the method before."""
    begin = time.perf_counter()
    earlier = sum(state.seconds.values())
    whole = start_clock(state, options)
    interrupted = False
    try:
        if start is not None:
            _start_from(state, form, start)
        _search(state, options, whole, method_done)
    except KeyboardInterrupt:
        if state.best is None:
            raise
        if not state.answered:
            state.notes.append(f"W205 {options.method} had no answer yet: a safe one")
        state.offer_told()
        interrupted = True
    result = _judged(state, form, options, interrupted)
    spent = earlier + time.perf_counter() - begin
    other = max(0.0, spent - sum(state.seconds.values()))
    return replace(result, seconds={**state.seconds, "other": other})


def start_clock(state: SearchState, options: SolveOptions) -> Deadline:
    """Give the method its share of the time not spent yet; return the whole of it."""
    customers = state.instance.num_customers
    limit = options.time_limit
    if limit is None and options.iterations is None:
        limit = default_time_limit(customers)
    whole = Deadline.never()
    if limit is not None:
        _warn_if_short(state, limit)
        # The judge and the writing down of the answer come after the deadline.
        spent = sum(state.seconds.values())
        whole = Deadline.after(limit - spent - 0.01 - JUDGING * customers)
    share = start_share(options) if options.polishes else METHOD_SHARE
    if options.neural.recombines:
        share = METHOD_SHARE * SEED_SETS_SHARE
    state.deadline = whole.share(share)
    return whole


def _warn_if_short(state: SearchState, limit: float) -> None:
    customers = state.instance.num_customers
    least = least_time_limit(customers)
    note = (
        f"W206 a time limit of {limit:g} s is too short for {customers} customers: a "
        f"good answer takes {least:.2g} s and more"
    )
    if limit < least and note not in state.notes:
        state.notes.append(note)


def _start_from(
    state: SearchState, form: Canonical, start: Sequence[Sequence[int]]
) -> None:
    """Offer somebody's routes, made feasible for today, and say what that took."""
    with state.stage("warm start"):
        try:
            routes, report = repair_routes(form.given, start, state.deadline)
        except NotFoundInTimeError as error:
            state.notes.append(f"the warm start could not be repaired: {error}")
            return
        ours = form.from_given(routes)
        cost = state.offer(ours)
        done = "as given" if report.clean else f"after its repair: {report}"
        state.notes.append(f"warm start: cost {cost:.8g} {done}")


def _search(
    state: SearchState, options: SolveOptions, whole: Deadline, method_done: bool
) -> None:
    """A proof, or: a safe start, the method, then polish or better tours."""
    if options.polishes and _proven(state):
        return
    packed = _packing(state)
    safe = _safe_start(state, packed, options, whole)
    if not method_done:
        state.start_rounds(_rounds(options))
        run_method(state, options.method, options)
    if not state.answered:
        _fall_back(state, options, whole, safe)
        if safe is None:
            safe = Safe(safe_routes(state.instance, packed, whole), by_savings=False)
    if safe is not None and (options.polishes or not state.answered):
        # Without polish the answer is the method's, if it has one.
        state.offer(safe.routes)
    if state.best is None:
        rule = "no packing into them was found in time; infeasibility is not proven"
        got = f"a limit of {state.instance.vehicles}"
        raise NotFoundInTimeError(Problem("E204", "vehicles", got, rule))
    enough = whole.left() >= POLISH_LEAST * state.instance.num_customers
    if options.polishes and enough:
        _polish(state, options, whole)
    else:
        _better_tours(state, whole)


def _rounds(options: SolveOptions) -> int | None:
    """Rounds of the method; None: as many as its time allows."""
    count = options.iterations
    if options.polishes and options.method == "savings":
        return 1  # the search finds what others would
    if count is None or not options.polishes:
        return count
    return min(count, max(LEAST_ROUNDS, count // ITERATIONS_PER_ROUND))


def _proven(state: SearchState) -> bool:
    """Offer an optimal answer where one is known by formula."""
    found = optimal_routes(state.instance)
    if found is None:
        return False
    routes, state.proof = found
    state.offer(routes)
    return True


def _packing(state: SearchState) -> IntArray | None:
    """Some packing into a limited fleet; proves infeasibility where it can."""
    if state.instance.vehicles is None:
        return None
    with state.stage("packing"):
        return some_packing(state.instance, state.deadline)


class Safe(NamedTuple):
    """Routes in hand before the method begins."""

    routes: Routes
    by_savings: bool


def _safe_start(
    state: SearchState,
    packed: IntArray | None,
    options: SolveOptions,
    whole: Deadline,
) -> Safe | None:
    """Routes for a Ctrl-C or a failure, where the method may take long.

    Before a search they are those of savings: as good a start as many, and sooner.
    """
    slow = state.instance.num_customers >= SAFE_FIRST or options.method == "neural"
    if state.best is not None or not (slow or packed is not None):
        return None
    found = None
    with state.stage("safe start"):
        if options.polishes and options.method != "savings":
            found = _savings(state, whole.share(SAVINGS_SHARE))
        safe = found or safe_routes(state.instance, packed, state.deadline.share(0.2))
        # With a search the answer is never worse: somebody may look at it already.
        state.insure(safe, tell=found is not None)
    return Safe(safe, by_savings=found is not None)


def _savings(state: SearchState, deadline: Deadline) -> Routes | None:
    """One round of savings, if there is time."""
    alone = SearchState(state.instance, deadline, state.seed, iterations=1)
    run_method(alone, "savings")
    return alone.best


def _fall_back(
    state: SearchState, options: SolveOptions, whole: Deadline, safe: Safe | None
) -> None:
    """The answer of savings where the method has none; say so.

    Without it the answer of a network that needs longer than its share would be the
    safe one: at N = 10,000 23 to 39 % longer than that of savings (0.4 s).
    """
    found = None
    if safe is not None and safe.by_savings:
        found = safe.routes
    elif options.method != "savings":
        found = _savings(state, whole.share(METHOD_SHARE))
    if found is not None:
        state.offer(found)
    given = "that of savings" if state.answered else "a safe one"
    note = (
        f"W205 {options.method} had no answer in its share of the time: this one is "
        f"{given}; give it more by --time-limit"
    )
    if not any(each.startswith("W206") for each in state.notes):
        state.notes.append(note)
    state.details["fallback"] = note


def _better_tours(state: SearchState, deadline: Deadline) -> None:
    """Search within the routes only."""
    assert state.best is not None
    with state.stage("tours"):
        improved = improve(state.instance, state.best, False, FULL, deadline)
        state.offer(improved)


def _polish(state: SearchState, options: SolveOptions, deadline: Deadline) -> None:
    """Search between the routes."""
    from clusterfirst.stages.search.polish import PolishSettings, polish, useful_threads

    def offer(routes: list[list[int]], cost: float, seconds: float) -> None:
        state.offer(Routes.of(routes))

    assert state.best is not None
    with state.stage("polish"):
        cores = options.cores if options.iterations is None else COUNTED_THREADS
        threads = options.threads or useful_threads(state.instance, cores)
        settings = PolishSettings(options.seed, options.iterations, threads)
        hot = first_temperature(state.instance, options.method, settings)
        settings = replace(settings, hot=hot)
        if state.on_progress is not None:
            settings = replace(settings, on_round=partial(state.on_progress, "polish"))
        try:
            start = state.best.lists()
            polish(state.instance, start, settings, deadline, offer)
        except InputError as error:  # a wrong start: `_judged` will see to it
            state.notes.append(f"not polished: {error}")


def _judged(
    state: SearchState, form: Canonical, options: SolveOptions, interrupted: bool
) -> Result:
    """Judge the best answer; an infeasible one is a bug that must not leave."""
    assert state.best is not None
    with state.stage("judge"):
        solution = _solution(form, state.best)
        verdict = judge(form.given, solution)
        if not verdict.feasible:
            state.notes.append(
                f"the answer of {options.method} was wrong ({verdict.violations[0]}); "
                "a safe answer is given instead; please report this"
            )
            packed = some_packing(state.instance, Deadline.after(1.0))
            safe = safe_routes(state.instance, packed, Deadline.after(1.0))
            solution = _solution(form, safe)
            verdict = judge(form.given, solution)
    status = "feasible; found by a heuristic, optimality is not proven"
    if "fallback" in state.details:
        status = f"feasible, but not the answer of {options.method}: it had no time"
    if state.proof:
        status = f"optimal: {state.proof}"
    if interrupted:
        status = "interrupted: the best answer so far"
    return Result(
        form.given,
        solution,
        verdict,
        status,
        options.method + ("+polish" if options.polishes else ""),
        dict(state.seconds),
        options.seed,
        interrupted=interrupted,
        notes=state.notes,
        details=form.details_to_given(state.details),
    )


def _solution(form: Canonical, routes: Routes) -> Solution:
    return Solution(form.to_given(routes).lists()).canonical()
