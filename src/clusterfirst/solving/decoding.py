"""From scores to routes: assignment -> repair -> tours, for any scorer.

Fisher-Jaikumar and the network go through the same functions, so that a difference
between them is a difference of seeds and costs and of nothing else.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from clusterfirst.problem.clock import Deadline, TimeUpError
from clusterfirst.problem.instance import Instance
from clusterfirst.solving.options import DecodingSettings, SolveOptions
from clusterfirst.stages.assignment.assign import assign
from clusterfirst.stages.assignment.packing import packing_bound, repair
from clusterfirst.stages.assignment.problem import (
    Assignment,
    AssignProblem,
    AssignSettings,
)
from clusterfirst.stages.assignment.relaxation import EXACT_UP_TO
from clusterfirst.stages.assignment.spare_vehicles import only_open, open_vehicles
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.scores import Decoded, Scores, ScoreStream
from clusterfirst.stages.search_state import SearchState, fleet_limit
from clusterfirst.stages.tours.routing import QUICK, improve

SEARCH_ROUNDS = 2  # many quick assignments beat few thorough ones


def fisher_jaikumar(state: SearchState, options: SolveOptions) -> None:
    """Fisher-Jaikumar through the shared stages, best of many seeds."""
    from clusterfirst.stages.classical.fisher_jaikumar import fisher_jaikumar as stream

    settings = replace(options.decoding, rounds=SEARCH_ROUNDS)
    rng = np.random.default_rng(settings.seed)
    sizes = fleets(state.instance, settings)
    scores = stream(state.instance, sizes, rng, state.deadline)
    run_stream(state, scores, settings)


def fleets(instance: Instance, settings: DecodingSettings) -> list[int]:
    """Numbers of vehicles to try, in this order: K_min and K_min + 1 (Section 3).

    Vehicles that are nearly full leave the fast assignment so little choice that a
    third number, K_min + 2, is tried as well; the cheapest routes win. "kmin" asks for
    K_min alone, and large fleets get no other: the time is better spent on moved seeds.
    The paper's K_min is the total over the capacity; ours also asks what fits together.
    """
    demands, capacity = instance.demand_units[1:], instance.capacity_units
    bound = instance.min_vehicles
    fewest = max(bound if settings.printed else packing_bound(demands, capacity), 1)
    sizes = [fewest]
    fast = settings.assign == "fast"
    if settings.fleet == "best" and not (fast and fewest >= settings.many_vehicles):
        tight = int(demands.sum()) > settings.tight * fewest * capacity
        extra = 2 if tight and fast else 1
        sizes += [fewest + more for more in range(1, extra + 1)]
    return sorted({min(size, fleet_limit(instance)) for size in sizes})


def run_stream(
    state: SearchState, stream: ScoreStream, settings: DecodingSettings
) -> list[Decoded]:
    """Decode scores until the stream or the time ends; return what became of them."""
    decoded: list[Decoded] = []
    if state.too_late:
        return decoded
    try:
        with state.stage("scores"):
            scores = next(stream)
        while not state.too_late:
            found = decode(state, scores, settings)
            decoded += [] if found is None else [found]
            state.end_round()
            if state.finished:
                break
            with state.stage("scores"):
                scores = stream.send(found)
    except (StopIteration, TimeUpError):
        pass
    kept = state.details.pop("kept", "")
    state.notes.extend([kept] if kept else [])
    return decoded


def decode(
    state: SearchState, scores: Scores, settings: DecodingSettings
) -> Decoded | None:
    """Assignment -> repair -> tours; the routes are offered and returned."""
    instance = state.instance
    problem = AssignProblem(
        scores.cost,
        instance.demand_units[1:],
        instance.capacity_units,
        len(scores.seeds),
        scores.candidates,
    )
    with state.stage("assign"):
        if scores.vehicles is not None and scores.vehicles < len(scores.seeds):
            soon = state.deadline.share(settings.closing_share)
            kept = open_vehicles(problem, scores.vehicles, fleet_limit(instance), soon)
            problem = only_open(problem, kept)
            seeds = scores.seeds[kept]
            scores = Scores(seeds, problem.cost, problem.candidates)
        answer = _assigned(state, problem, scores, settings)
        labels, forced = answer.labels, 0
        if not math.isfinite(answer.cost):
            if settings.printed or (state.best is not None and state.deadline.passed()):
                return None
            fallbacks = state.details.get("fallbacks", 0) + 1
            state.details["fallbacks"] = fallbacks
            near = answer.nearly
            repaired = repair(problem, fleet_limit(instance), near)
            if repaired is None:
                return None
            labels = repaired
            forced = len(labels) if near is None else int((labels != near).sum())
    with state.stage("tours"):
        clusters = Routes.of_labels(labels)
        routes = improve(instance, clusters, True, QUICK, state.deadline)
    before = state.best_cost
    cost = state.offer(routes)
    if cost < before:
        state.details.update(scores=scores, labels=labels, assignment=answer)
        state.details["kept"] = _what_was_kept(answer, settings.assign)
    return Decoded(labels, routes, cost, forced)


def _what_was_kept(answer: Assignment, assign: str) -> str:
    """What the best answer owes to something else than was asked for; "" if nothing."""
    if assign == "fast":
        return ""
    if not math.isfinite(answer.cost):
        return (
            f"the {assign} assignment found nothing in its time: this answer is that "
            "of our repair, and keeps none of its constraints"
        )
    if answer.freed:
        return (
            f"the hard assignment kept {answer.fixed - answer.freed} of the "
            f"{answer.fixed} customers it had fixed; the others were freed"
        )
    return ""


def _assign_settings(state: SearchState, settings: DecodingSettings) -> AssignSettings:
    """By the clock, or by nodes where none runs."""
    chosen = AssignSettings(
        settings.mip_gap,
        seed=settings.seed % 2**31,
        printed=settings.printed,
        rounds=settings.rounds,
    )
    if state.deadline.left() < math.inf:
        return chosen
    return replace(chosen, seconds=math.inf, max_nodes=settings.max_nodes)


def warm_assignment(toy: Instance) -> None:
    """Compile all of it, also what runs on large instances or when it fails."""
    cost = toy.distances[1:, 1:4].copy()
    problem = AssignProblem(cost, toy.demand_units[1:], toy.capacity_units, 3)
    many = np.ones(EXACT_UP_TO + 1, dtype=np.int64)  # so that flow is pushed
    rising = np.broadcast_to([1.0, 2.0], (len(many), 2))
    crowd = AssignProblem(rising, many, len(many) - 1, 2)
    quick = AssignSettings(rounds=1)
    assign(crowd, "fast", quick, Deadline.never())
    open_vehicles(crowd, 1, 2, Deadline.never())
    repair(problem, toy.num_customers)


def _assigned(
    state: SearchState,
    problem: AssignProblem,
    scores: Scores,
    settings: DecodingSettings,
) -> Assignment:
    fast = settings.assign == "fast"
    share = settings.fast_share if fast else settings.assign_share
    plan = scores.plan
    if plan is not None and scores.candidates is not None:
        plan = np.take_along_axis(plan, np.maximum(scores.candidates, 0), axis=1)
    chosen = _assign_settings(state, settings)
    return assign(problem, settings.assign, chosen, state.deadline.share(share), plan)
