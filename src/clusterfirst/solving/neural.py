"""The network as a method: what it is asked for, by fleets and seed sets."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace

from clusterfirst.networks.model_folder import load_model
from clusterfirst.networks.neural import (
    DEFAULT_MODEL,
    MOST_CELLS,
    NeuralScorer,
    Scoring,
)
from clusterfirst.networks.plan import transport_plan
from clusterfirst.problem.clock import TimeUpError
from clusterfirst.problem.instance import Instance, IntArray
from clusterfirst.solving.decoding import SEARCH_ROUNDS, decode, fleets, run_stream
from clusterfirst.solving.options import NeuralSettings, SolveOptions
from clusterfirst.stages.moved_seeds import centres
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.scores import Decoded, Scores, ScoreStream
from clusterfirst.stages.search_state import SearchState, fleet_limit

SETS_NOTED = 20  # answers that get a line of their own in the notes


def neural(state: SearchState, options: SolveOptions) -> None:
    """The network as a method of `solve`.

    Where a search follows, it makes the start: quick assignments cost 0.1 to 0.3 % of
    its length and save a fifth of its time (log/), and what is strange about the
    instance matters less.
    """
    settings = options.neural
    if options.polishes:
        run_network(state, replace(settings, thorough=False))
        return
    model = load_model(settings.model or DEFAULT_MODEL)
    state.notes.extend(model.outside(state.instance))
    run_network(state, settings)


def run_network(state: SearchState, settings: NeuralSettings) -> None:
    """The network's seeds and costs, once per fleet size and seed set: no search."""
    with state.stage("encode"):
        model = load_model(settings.model or DEFAULT_MODEL)
        borrow = settings.new_locations == "nearest"
        rows = model.rows_of(state.instance, borrow=borrow)
        if state.too_late:
            return
        scoring = scoring_of(state.instance, settings)
        if state.best is not None:  # there is something to give
            scoring = replace(scoring, deadline=state.deadline)
        try:
            scorer = NeuralScorer(
                model.network, state.instance, rows, settings.threads, scoring
            )
        except TimeUpError:
            return
    run_scorer(state, scorer, settings)


def run_scorer(
    state: SearchState, scorer: NeuralScorer, settings: NeuralSettings
) -> None:
    """The same with networks at hand.

    Fleets and moved seeds are compared by quick assignments; the best one is made
    again as well as possible.
    """
    stream = _each_seed_set(state, scorer, settings)
    quick = replace(settings.decoding, rounds=SEARCH_ROUNDS)
    until = state.deadline
    if settings.recombines:
        state.deadline = until.share(settings.sets_before_pool)
    found = run_stream(state, stream, quick)
    best = state.details.get("scores")
    fast = settings.decoding.assign == "fast"
    if settings.thorough and fast and best is not None and not state.too_late:
        again = decode(state, best, settings.decoding)
        found += [] if again is None else [again]
    state.deadline = until
    if settings.recombines:
        _recombine(state, [one for one in found if math.isfinite(one.cost)])


def _recombine(state: SearchState, found: list[Decoded]) -> None:
    """Offer the best set of routes of all seed sets; note what each of them brought."""
    from clusterfirst.stages.search.pool import recombine

    for number, one in enumerate(found[:SETS_NOTED], start=1):
        state.notes.append(
            f"answer {number} of the seed sets: cost {one.cost:.8g}, "
            f"{len(one.routes)} routes"
        )
    if not found:
        return
    with state.stage("pool"):
        answers = [one.routes.lists() for one in found]
        routes = recombine(state.instance, answers, state.deadline)
        cost = state.offer(Routes.of(routes))
    best = min(one.cost for one in found)
    state.notes.append(
        f"pool of {sum(map(len, answers))} routes from {len(found)} answers: cost "
        f"{cost:.8g}, the best answer alone {best:.8g}"
    )


def _each_seed_set(
    state: SearchState, scorer: NeuralScorer, settings: NeuralSettings
) -> ScoreStream:
    """Yield scores for each seed set and fleet, and at moved seeds."""
    count = sets_for(state.instance, settings)
    for first in range(0, count, settings.together):
        numbers = range(first, min(first + settings.together, count))
        asked = requests(state.instance, settings, numbers)
        wanted = next(asked)
        while wanted is not None:
            seeds = wanted.seeds
            if seeds is None:
                noise = settings.seed_noise if wanted.number else 0.0
                size = seeds_for(state.instance, wanted.vehicles, settings)
                scores = scorer(size, noise, state.seed + wanted.number)
                scores = replace(scores, vehicles=wanted.vehicles)
            else:
                scores = scorer.at(seeds)
            found = yield _with_plan(state, scores, settings)
            wanted = asked.send((wanted, scores, found))


def scoring_of(instance: Instance, settings: NeuralSettings) -> Scoring:
    """The candidates of a model are chosen for the fast assignment, not for HiGHS.

    Full vehicles often cannot be filled from the forty nearest seeds (log/).
    """
    decoding = settings.decoding
    cells = instance.num_customers * instance.min_vehicles
    dense = decoding.assign != "fast" and cells <= MOST_CELLS
    return Scoring(decoding.printed or dense, decoding.printed)


@dataclass(frozen=True)
class Wanted:
    """What to decode next: a seed set for a fleet, or seeds that were moved."""

    number: int  # of the seed set
    vehicles: int = 0
    seeds: IntArray | None = None  # moved there


Tried = tuple[Wanted, Scores, Decoded | None]
Requests = Generator[Wanted | None, Tried, None]  # None: nothing is left to ask for


def sets_for(instance: Instance, settings: NeuralSettings) -> int:
    """How many seed sets to try; where nobody said, as many as pay (log/)."""
    if settings.seed_sets is not None:
        return settings.seed_sets
    quick = settings.decoding.assign == "fast" and not settings.decoding.printed
    few = instance.min_vehicles <= settings.few_vehicles
    return settings.together if quick and few else 1


def seeds_for(instance: Instance, vehicles: int, settings: NeuralSettings) -> int:
    """How many seeds to decode for a fleet; those to spare are closed."""
    n, shares = instance.num_customers, settings.spare
    if settings.decoding.assign != "fast":
        return vehicles
    spare = max((share for least, share in shares if n >= least), default=0.0)
    return min(n, vehicles + math.ceil(spare * vehicles))


def requests(
    instance: Instance, settings: NeuralSettings, numbers: range = range(1)
) -> Requests:
    """Ask for scores of these seed sets, then at moved seeds.

    It is sent what was decoded and what became of it. The first seed set is tried at
    each fleet size, the others at the smallest that has an assignment; then the seeds
    of the best answers move. A decoded seed between two routes
    was a mistake, which scoring again at the middles of the routes it led to repairs;
    middles beat the far ends that the networks decode (log/). Where few large
    customers fill the vehicles no assignment may exist near K_min: then the fleet grows
    until one does, unless as few vehicles as possible were asked for.
    """
    limit = fleet_limit(instance)
    first, *others = numbers
    tried: list[Tried] = []
    for size in fleets(instance, settings.decoding):
        tried.append((yield Wanted(first, size)))
    if settings.decoding.printed:
        yield None
        return
    for _ in range(settings.more_fleets if settings.decoding.fleet == "best" else 0):
        if size == limit or not all(_forced(one, settings) for one in tried):
            break
        size = min(size + math.ceil(settings.fleet_step * size), limit)
        tried.append((yield Wanted(first, size)))
    fits = [one[0].vehicles for one in tried if not _forced(one, settings)]
    for number in others:
        tried.append((yield Wanted(number, fits[0] if fits else size)))
    tried = sorted(tried, key=_cost)[: settings.moved_sets]
    for _ in range(settings.moves):
        enough = (1 + settings.worth_moving) * min(map(_cost, tried))
        moving = tried = [one for one in tried if _cost(one) <= enough]
        for at, (wanted, scores, found) in enumerate(moving):
            moved = scores.seeds if found is None else centres(instance, found)
            if set(moved.tolist()) != set(scores.seeds.tolist()):
                moving[at] = yield replace(wanted, seeds=moved)
    yield None


def _forced(one: Tried, settings: NeuralSettings) -> bool:
    """Whether there was no assignment at this fleet size, not even nearly."""
    found = one[2]
    return found is None or found.forced > settings.few_forced * len(found.labels)


def _cost(one: Tried) -> float:
    found = one[2]
    return math.inf if found is None else found.cost


def _with_plan(state: SearchState, scores: Scores, settings: NeuralSettings) -> Scores:
    """Add the transport plan where the assignment asks for one."""
    if settings.decoding.assign not in ("sparse", "hard"):
        return scores
    soon = state.deadline.share(settings.plan_share)
    return replace(scores, plan=transport_plan(state.instance, scores, deadline=soon))
