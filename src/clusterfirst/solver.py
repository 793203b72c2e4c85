"""`solve(instance, options) -> Result`: the only file that knows the order.

Seeds and costs -> assignment -> repair -> tours -> judge; methods that build routes
themselves join at the tours. What leaves passed the judge, and the time limit holds.
"""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from clusterfirst.classical.exact import optimal_routes
from clusterfirst.clock import Deadline
from clusterfirst.decoding import warm_fallbacks
from clusterfirst.errors import InputError, NotFoundInTimeError, Problem
from clusterfirst.instance import Instance
from clusterfirst.method import Work
from clusterfirst.safe_start import safe_routes, some_packing
from clusterfirst.search.repair import repair_routes
from clusterfirst.solution import Solution, Verdict, judge
from clusterfirst.solve_options import (
    ASSIGNMENTS,
    DEFAULT_METHOD,
    FLEETS,
    METHODS,
    PEERS,
    TIME_LIMITS,
    SolveOptions,
    key_of,
)
from clusterfirst.tours.routing import Clusters, TourSettings, improve

__all__ = [
    "ASSIGNMENTS",
    "FLEETS",
    "METHODS",
    "TIME_LIMITS",
    "Result",
    "SolveOptions",
    "default_time_limit",
    "solve",
    "versions",
    "warm_up",
]

METHOD_SHARE = 0.9  # of the time is the method's; the rest makes the tours better
POLISH_AFTER = 0.15  # with polish the method gets this share instead
SHOTS_SHARE = 0.5  # of METHOD_SHARE, polish or not, where several shots are asked for
JUDGING = 2.5e-5  # seconds per customer kept for the judge, on a busy machine
SAVINGS_FROM = 2000  # customers
SAFE_FIRST = 300  # customers from which a safe answer is made before anything else


@dataclass(frozen=True)
class Result:
    """A judged answer and how it came about."""

    instance: Instance
    solution: Solution
    verdict: Verdict
    status: str  # a sentence
    method: str
    seconds: dict[str, float]  # by stage, start-up not included
    seed: int = 0
    startup: float = 0.0  # imports, compilation and weights, paid once per process
    interrupted: bool = False
    notes: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(
        default_factory=dict
    )  # arrays for `explain`, and who answered instead

    def as_dict(self) -> dict[str, Any]:
        """Everything but the arrays, for JSON."""
        ids = self.instance.ids
        return {
            "instance": self.instance.name,
            "method": self.method,
            "status": self.status,
            "cost": self.verdict.cost,
            "unit": self.instance.unit,
            "rounding": self.instance.rounding,
            "routes": [[ids[c] for c in route] for route in self.solution.routes],
            "loads": list(self.verdict.loads),
            "capacity": self.instance.capacity,
            "seed": self.seed,
            "notes": self.notes,
            "seconds": {**self.seconds, "start-up": self.startup},
            "versions": versions(),
        }


def default_time_limit(customers: int) -> float:
    """1 second; above 1000 customers a millisecond each."""
    return max(1.0, customers / 1000)


@cache
def versions() -> dict[str, str]:
    """Versions of what an answer depends on."""
    found = {"python": platform.python_version()}
    for package in ("clusterfirst", "numpy", "numba", "highspy", "torch"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def warm_up(method: str = "fisher-jaikumar", model: str | None = None) -> float:
    """Load and compile what a method needs, once per process; return the seconds."""
    start = time.perf_counter()
    _warm_once(method, model)
    return time.perf_counter() - start


@cache
def _warm_once(method: str, model: str | None) -> None:
    """Run the method on a toy: every kernel gets compiled or loaded on the way."""
    if method.startswith("cmd:"):
        return  # an outside program keeps nothing of ours warm
    points = np.random.default_rng(0).random((41, 2))
    toy = Instance(np.array([0] + [1, 2] * 20), capacity=30, coords=points)
    work = Work(
        toy, Deadline.never(), iterations=3, model=model, new_locations="nearest"
    )
    _run_method(work, method)
    if method == DEFAULT_METHOD:
        _run_method(Work(toy, Deadline.never(), iterations=1), "savings")
    safe_routes(toy, None, Deadline.after(1.0))
    if not METHODS[key_of(method)].startswith(PEERS):
        from clusterfirst.search.polish import warm_up as warm_up_polish
        from clusterfirst.search.reassign import warm_up as warm_up_reassign

        warm_up_polish()
        warm_up_reassign()
    warm_fallbacks(toy)


def solve(
    instance: Instance,
    options: SolveOptions | None = None,
    *,
    on_improvement: Callable[[float, Clusters], None] | None = None,
    start: Sequence[Sequence[int]] | None = None,
    begun: Work | None = None,
) -> Result:
    """Plan routes; always a feasible answer that the judge accepted, or an error.

    `on_improvement` is called with (cost, routes) whenever the answer gets better.
    `start` may be anybody's routes, yesterday's for example: they are repaired, a note
    says how and at what cost, and the answer is never worse. `begun` is work whose
    method a batch has run (`solve_many`). Raises
    InfeasibleError when no solution exists (proven, in words) and NotFoundInTimeError
    when none was found. Ctrl-C returns the best answer so far, marked as interrupted.
    """
    options = options or SolveOptions()
    instance.require_feasible()
    if instance.num_customers < 1:
        nothing = Work(instance, Deadline.never(), best=[], proof="nobody to visit")
        return _finish(nothing, options, 0.0, False)
    startup = warm_up(options.method, options.model)
    begin = time.perf_counter()
    work = begun or work_for(instance, options)
    work.on_improvement = on_improvement
    earlier = sum(work.seconds.values())
    whole = start_clock(work, options)
    interrupted = False
    try:
        if start is not None:
            _start_from(work, start)
        _search(work, options, whole)
    except KeyboardInterrupt:
        if work.best is None:
            raise
        if not math.isfinite(work.best_cost):
            work.notes.append(f"W205 {options.method} had no answer yet: a safe one")
        interrupted = True
    result = _finish(work, options, startup, interrupted)
    spent = earlier + time.perf_counter() - begin
    other = max(0.0, spent - sum(work.seconds.values()))
    return replace(result, seconds={**work.seconds, "other": other})


def work_for(instance: Instance, options: SolveOptions) -> Work:
    """Return the work these options ask for; `start_clock` comes before any of it."""
    return Work(
        instance,
        Deadline.never(),
        iterations=options.iterations,
        seed=options.seed,
        assign=options.assign,
        fleet=options.fleet,
        model=options.model,
        shots=options.shots,
        recentre=options.recentre,
        threads=options.threads,
        new_locations=options.new_locations,
    )


def start_clock(work: Work, options: SolveOptions) -> Deadline:
    """Give the method its share of the time not spent yet; return the whole of it."""
    customers = work.instance.num_customers
    limit = options.time_limit
    if limit is None and options.iterations is None:
        limit = default_time_limit(customers)
    whole = Deadline.never()
    if limit is not None:
        # The judge and the writing down of the answer come after the deadline.
        spent = sum(work.seconds.values())
        whole = Deadline.after(limit - spent - 0.01 - JUDGING * customers)
    share = POLISH_AFTER if options.polishes else METHOD_SHARE
    if options.shots > 1:
        share = METHOD_SHARE * SHOTS_SHARE
    work.deadline = whole.share(share)
    return whole


def _start_from(work: Work, start: Sequence[Sequence[int]]) -> None:
    """Offer somebody's routes, made feasible for today, and say what that took."""
    with work.stage("warm start"):
        try:
            routes, report = repair_routes(work.instance, start, work.deadline)
        except NotFoundInTimeError as error:
            work.notes.append(f"the warm start could not be repaired: {error}")
            return
        cost = work.offer([np.array(route, dtype=np.int64) for route in routes])
        done = "as given" if report.clean else f"after its repair: {report}"
        work.notes.append(f"warm start: cost {cost:.8g} {done}")


def _search(work: Work, options: SolveOptions, whole: Deadline) -> None:
    """The method, then better tours or polish, until the time is up."""
    if options.polishes and (proven := optimal_routes(work.instance)) is not None:
        routes, work.proof = proven
        work.offer(routes)
        return
    packed = None
    if work.instance.vehicles is not None:
        with work.stage("packing"):
            packed = some_packing(work)
    safe: Clusters | None = None
    many = work.instance.num_customers >= SAFE_FIRST
    if work.best is None and (many or packed is not None):
        with work.stage("safe start"):
            safe = safe_routes(work.instance, packed, work.deadline.share(0.2))
            work.insure(safe)
    if not work.decided:
        _run_method(work, _first_method(work, options))
    if not math.isfinite(work.best_cost):
        _instead(work, options, whole)
        safe = safe or safe_routes(work.instance, packed, whole)
    if safe is not None and (options.polishes or not math.isfinite(work.best_cost)):
        work.offer(safe)  # without polish the answer is the method's, if it has one
    if work.best is None:
        rule = "no packing into them was found in time; it is not proven infeasible"
        got = f"a limit of {work.instance.vehicles}"
        raise NotFoundInTimeError(Problem("E204", "vehicles", got, rule))
    if options.reassign:
        _reassign(work, options, whole)
    if not (options.polishes and _polish(work, options, whole)):
        with work.stage("tours"):
            work.offer(improve(work.instance, work.best, False, TourSettings(), whole))


def _first_method(work: Work, options: SolveOptions) -> str:
    """The method that makes the start: on large maps savings, once.

    Fisher-Jaikumar needs long for one round there, and savings then polish is 0.7 to
    1.4 % better at 2000 to 10,000 customers; at 1000 and below the two are equal
    (LOG.md). Without polish the method is the one that was asked for.
    """
    large = work.instance.num_customers >= SAVINGS_FROM
    if options.method != DEFAULT_METHOD or not options.polishes or not large:
        return options.method
    work.iterations = 1
    work.notes.append(
        f"from {SAVINGS_FROM} customers on the polish starts from savings"
    )
    return "savings"


def _instead(work: Work, options: SolveOptions, whole: Deadline) -> None:
    """One round of savings where the method has no answer; say so.

    Without it the answer of a network that needs longer than its share would be the
    safe one: at N = 10,000 23 to 39 % longer than that of savings (0.4 s).
    """
    if options.method != "savings":
        work.deadline = whole.share(METHOD_SHARE)
        work.iterations, work.rounds, work.usual_round = 1, 0, 0.0
        _run_method(work, "savings")
    given = "that of savings" if math.isfinite(work.best_cost) else "a safe one"
    note = (
        f"W205 {options.method} had no answer in its share of the time: this one is "
        f"{given}; give it more by --time-limit"
    )
    work.notes.append(note)
    work.details["instead"] = note


def _run_method(work: Work, name: str) -> None:
    key = key_of(name)
    work.round_start = time.perf_counter()
    module, function = METHODS[key].split(":")
    run = getattr(import_module(module), function)
    run(work) if key == name else run(work, name)


def _reassign(work: Work, options: SolveOptions, deadline: Deadline) -> None:
    """Iterate the assignment with the costs of the routes it led to."""
    from clusterfirst.search.reassign import ReassignSettings, reassign

    assert work.best is not None
    with work.stage("reassign"):
        before = work.best_cost
        settings = ReassignSettings(options.reassign, options.seed)
        # Without polish the tours come after; their share is as after the method.
        soon = deadline.share(METHOD_SHARE if not options.polishes else POLISH_AFTER)
        start = [route.tolist() for route in work.best]
        routes = reassign(work.instance, start, settings, soon)
        work.offer([np.array(route, dtype=np.int64) for route in routes])
        work.notes.append(
            f"reassign: cost {before:.8g} before, {work.best_cost:.8g} after"
        )


def _polish(work: Work, options: SolveOptions, deadline: Deadline) -> bool:
    """Search between the routes; False, with a note, where that is impossible."""
    from clusterfirst.search.polish import PolishSettings, polish

    def offer(routes: list[list[int]], cost: float, seconds: float) -> None:
        work.offer([np.array(route, dtype=np.int64) for route in routes])

    assert work.best is not None
    with work.stage("polish"):
        settings = PolishSettings(options.seed, options.iterations, options.threads)
        start = [route.tolist() for route in work.best]
        try:
            note = polish(work.instance, start, settings, deadline, offer).note
        except InputError as error:  # a wrong start: `_finish` will see to it
            note = f"not polished: {error}"
    if note:
        work.notes.append(note)
    return not note


def _finish(
    work: Work, options: SolveOptions, startup: float, interrupted: bool
) -> Result:
    """Judge the best answer; an infeasible one is a bug that must not leave."""
    assert work.best is not None
    with work.stage("judge"):
        solution = Solution(route.tolist() for route in work.best).canonical()
        verdict = judge(work.instance, solution)
        if not verdict.feasible:
            work.notes.append(
                f"the answer of {options.method} was wrong ({verdict.violations[0]}); "
                "a safe answer is given instead; please report this"
            )
            safe = safe_routes(work.instance, some_packing(work), Deadline.after(1.0))
            solution = Solution(route.tolist() for route in safe).canonical()
            verdict = judge(work.instance, solution)
    status = "feasible; found by a heuristic, optimality is not proven"
    if work.proof:
        status = f"optimal: {work.proof}"
    if interrupted:
        status = "interrupted: the best answer so far"
    return Result(
        work.instance,
        solution,
        verdict,
        status,
        options.method + ("+polish" if options.polishes else ""),
        dict(work.seconds),
        options.seed,
        startup,
        interrupted,
        work.notes,
        work.details,
    )
