"""From scores to routes: assignment -> repair -> tours, for any scorer.

Fisher-Jaikumar and the network go through the same functions, so that a difference
between them is a difference of seeds and costs and of nothing else.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from clusterfirst.assignment.closing import only_open, open_vehicles
from clusterfirst.assignment.fast import FastSettings, assign_fast
from clusterfirst.assignment.highs import (
    AssignSettings,
    assign_exact,
    assign_hard,
    assign_quick,
    assign_sparse,
)
from clusterfirst.assignment.packing import packing_bound, repair
from clusterfirst.assignment.prices import EXACT_UP_TO
from clusterfirst.assignment.problem import Assignment, AssignProblem
from clusterfirst.clock import Deadline
from clusterfirst.errors import InputError, Problem
from clusterfirst.instance import Instance
from clusterfirst.method import Decoded, ScoreStream, Work
from clusterfirst.scores import Scores
from clusterfirst.tours.routing import QUICK, improve, members

ASSIGN_SHARE = 0.4  # of the time left goes into one exact, sparse or hard assignment
SEARCH_EFFORT = 10  # many rounds of quick assignments beat few thorough ones
QUICK_UP_TO = 2000  # customers
REPAIR_SHARE = 0.2  # of the time left, above that
CLOSING_SHARE = 0.3  # of the time left, for choosing vehicles where seeds are to spare
FAST_SHARE = 0.5  # of the time left, so that a failure leaves time for another try
SHOTS_BEFORE_POOL = 0.7  # of the time for several shots; the rest recombines them
SHOTS_NOTED = 20  # answers that get a line of their own in the notes
TIGHT = 0.985  # load of K_min vehicles above which one vehicle more is tried
MANY_VEHICLES = 200  # of which one more makes no difference
ASSIGN_NODES = 200  # branch-and-bound nodes of one when no clock runs


def fisher_jaikumar(work: Work) -> None:
    """Fisher-Jaikumar through the shared stages, best of many seeds."""
    from clusterfirst.classical.fisher_jaikumar import fisher_jaikumar as stream

    rng = np.random.default_rng(work.seed)
    work.effort = SEARCH_EFFORT
    run_stream(work, stream(work.instance, fleets(work), rng))


def neural(work: Work) -> None:
    """The network's seeds and costs, once per fleet size and shot: no search."""
    from clusterfirst.networks.neural import neural_scores

    with work.stage("encode"):
        stream = neural_scores(work, fleets(work))
    if work.shots == 1:
        run_stream(work, stream)
        return
    until, work.deadline = work.deadline, work.deadline.share(SHOTS_BEFORE_POOL)
    run_stream(work, stream)
    work.deadline = until
    _recombine(work)


def _recombine(work: Work) -> None:
    """Offer the best set of routes of all shots; note what each of them brought."""
    from clusterfirst.search.pool import recombine

    found = [d for d in work.decoded if math.isfinite(d.cost)]
    for number, shot in enumerate(found[:SHOTS_NOTED], start=1):
        work.notes.append(
            f"answer {number} of the shots: cost {shot.cost:.8g}, "
            f"{len(shot.routes)} routes"
        )
    if not found:
        return
    with work.stage("pool"):
        answers = [[route.tolist() for route in shot.routes] for shot in found]
        routes = recombine(work.instance, answers, work.deadline)
        cost = work.offer([np.array(route, dtype=np.int64) for route in routes])
    best = min(shot.cost for shot in found)
    work.notes.append(
        f"pool of {sum(map(len, answers))} routes from {len(found)} answers: cost "
        f"{cost:.8g}, the best answer alone {best:.8g}"
    )


def fleets(work: Work) -> list[int]:
    """Numbers of vehicles to try, in this order: K_min and K_min + 1 (Section 3).

    Vehicles that are nearly full leave the fast assignment so little choice that a
    third number, K_min + 2, is tried as well; the cheapest routes win. "kmin" asks for
    K_min alone, and large fleets get no other: the time is better spent on moved seeds.
    """
    instance = work.instance
    demands, capacity = instance.demand_units[1:], instance.capacity_units
    fewest = max(packing_bound(demands, capacity), 1)
    sizes = [fewest]
    fast = (work.assign or "fast") == "fast"
    if work.fleet == "best" and not (fast and fewest >= MANY_VEHICLES):
        tight = int(demands.sum()) > TIGHT * fewest * capacity
        extra = 2 if tight and fast else 1
        sizes += [fewest + more for more in range(1, extra + 1)]
    return sorted({min(size, work.fleet_limit) for size in sizes})


def run_stream(work: Work, stream: ScoreStream) -> None:
    """Decode scores until the stream or the time ends; tell it what became of them."""
    try:
        with work.stage("scores"):
            scores = next(stream)
        while True:
            found = decode(work, scores)
            work.end_round()
            if work.finished:
                return
            with work.stage("scores"):
                scores = stream.send(found)
    except StopIteration:
        return


def decode(work: Work, scores: Scores) -> Decoded | None:
    """Assignment -> repair -> tours; the routes are offered and returned."""
    instance = work.instance
    problem = AssignProblem(
        scores.cost,
        instance.demand_units[1:],
        instance.capacity_units,
        len(scores.seeds),
        scores.candidates,
    )
    with work.stage("assign"):
        if scores.vehicles is not None and scores.vehicles < len(scores.seeds):
            soon = work.deadline.share(CLOSING_SHARE)
            kept = open_vehicles(problem, scores.vehicles, work.fleet_limit, soon)
            problem = only_open(problem, kept)
            seeds = scores.seeds[kept]
            scores = Scores(seeds, problem.cost, problem.candidates)
        answer = _assigned(work, problem, scores)
        labels, forced = answer.labels, 0
        if not math.isfinite(answer.cost):
            if work.best is not None and work.deadline.passed():
                return None
            fallbacks = work.details.get("fallbacks", 0) + 1
            work.details["fallbacks"] = fallbacks
            near = answer.nearly
            repaired = repair(problem, work.fleet_limit, work.deadline, near)
            if repaired is None:
                return None
            labels = repaired
            forced = len(labels) if near is None else int((labels != near).sum())
    with work.stage("tours"):
        routes = improve(instance, members(labels), True, QUICK, work.deadline)
    before = work.best_cost
    cost = work.offer(routes)
    if cost < before:
        work.details.update(scores=scores, labels=labels, assignment=answer)
    found = Decoded(labels, routes, cost, forced)
    if work.shots > 1:
        work.decoded.append(found)
    return found


def _fast(
    work: Work, problem: AssignProblem, settings: AssignSettings, effort: int
) -> Assignment:
    """The fast assignment; where that finds nothing, prices and exchanges.

    Large instances go on to the repair instead: there the second try took four times
    as long as the first and gave longer routes than the repair (LOG.md).
    """
    again = work.instance.num_customers <= QUICK_UP_TO
    soon = work.deadline.share(FAST_SHARE if again else 1 - REPAIR_SHARE)
    answer = assign_fast(problem, FastSettings(settings.seed, effort), soon)
    if math.isfinite(answer.cost) or work.deadline.passed() or not again:
        return answer
    return assign_quick(problem, settings, work.deadline.share(FAST_SHARE))


def warm_fallbacks(toy: Instance) -> None:
    """Compile what runs only on large instances or when an assignment fails."""
    cost = toy.distances[1:, 1:4].copy()
    problem = AssignProblem(cost, toy.demand_units[1:], toy.capacity_units, 3)
    assign_quick(problem, AssignSettings(), Deadline.never())
    many = np.ones(EXACT_UP_TO + 1, dtype=np.int64)  # so that flow is pushed
    rising = np.broadcast_to([1.0, 2.0], (len(many), 2))
    crowd = AssignProblem(rising, many, len(many) - 1, 2)
    assign_fast(crowd, FastSettings(effort=1), Deadline.never())
    open_vehicles(crowd, 1, 2, Deadline.never())
    repair(problem, toy.num_customers, Deadline.never())


def _assigned(work: Work, problem: AssignProblem, scores: Scores) -> Assignment:
    name = work.assign or "fast"
    timed = work.deadline.left() < math.inf
    settings = AssignSettings(work.mip_gap, seed=work.seed % 2**31)
    if not timed:
        settings = replace(settings, seconds=math.inf, max_nodes=ASSIGN_NODES)
    if name == "fast":
        return _fast(work, problem, settings, work.effort)
    deadline = work.deadline.share(ASSIGN_SHARE)
    if name == "exact":
        return assign_exact(problem, settings, deadline)
    plan = scores.plan
    if plan is not None and scores.candidates is not None:
        plan = np.take_along_axis(plan, np.maximum(scores.candidates, 0), axis=1)
    if name == "sparse":
        return assign_sparse(problem, plan, settings, deadline)
    if plan is None:
        rule = "hard assignment needs a transport plan, and this method has none"
        raise InputError(Problem("E404", "assign", "hard", rule))
    return assign_hard(problem, plan, settings, deadline)
