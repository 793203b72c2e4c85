"""The network on a day with limits: its scores, assigned to the vehicles of savings.

The network knows vehicles of one capacity; who drives, and within which limits, is
known from savings. So its seeds stand for the vehicles that savings needed, and the
assignment gives each no more than it takes, and nobody whom it may not take. What a
vehicle still cannot drive leaves it, the dearest detours first; the search inserts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from clusterfirst.networks.model_folder import load_model
from clusterfirst.networks.neural import DEFAULT_MODEL, NeuralScorer
from clusterfirst.networks.plan import transport_plan
from clusterfirst.problem.clock import Deadline, TimeUpError
from clusterfirst.problem.constraints import Constraints
from clusterfirst.problem.instance import FloatArray, Instance, IntArray
from clusterfirst.solving.decoding import SEARCH_ROUNDS
from clusterfirst.solving.first_method import start_share, with_method
from clusterfirst.solving.limited_start import (
    Vehicles,
    both_ways_alike,
    first_routing,
)
from clusterfirst.solving.neural import scoring_of
from clusterfirst.solving.options import AUTO, SolveOptions
from clusterfirst.stages.assignment.assign import assign
from clusterfirst.stages.assignment.problem import AssignProblem, AssignSettings
from clusterfirst.stages.moved_seeds import centres
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.scores import Decoded, Scores
from clusterfirst.stages.search.constrained import Routing, cheapest
from clusterfirst.stages.search.schedule import PolishSettings
from clusterfirst.stages.tours.routing import QUICK, improve

FULL = 0.97  # of the capacity that the network is told of: what routes will hold
MOST_SEATS = 2000  # vehicles of different kinds are matched with seeds in cubic time


class Beginning(NamedTuple):
    """Routes for the search to begin with."""

    routing: Routing
    by: str  # "neural", or "savings"
    seen: Instance  # the day as the network sees it
    notes: Sequence[str] = ()


def beginning(day: Instance, options: SolveOptions, deadline: Deadline) -> Beginning:
    """The cheaper of savings and, if asked for or time allows, of the network."""
    drives = first_routing(day)
    view = _Seats.of(day, drives).view
    plain = Beginning(drives, "savings", view)
    if options.method == AUTO and not _like_plain(day):
        return plain
    options, why_not = with_method(view, options)
    if options.method == "neural":
        if day.coords is None or not drives:
            why_not = "the network needs coordinates"
        elif len(drives) > MOST_SEATS:
            why_not = f"the network is asked for {MOST_SEATS} vehicles at most"
        else:
            starts = [drives, *network_starts(day, drives, options, deadline)]
            best = cheapest(day, starts, PolishSettings(options.seed))
            return Beginning(starts[best], "neural" if best else "savings", view)
    if why_not:
        said = f"W436 {why_not}; these routes are by savings and search"
        return plain._replace(notes=[said])
    return plain


def _like_plain(day: Instance) -> bool:
    """Whether vehicles are all alike and only loads are limited, beside wishes.

    The network was made for such days. On others its start is no better than savings,
    and takes longer (log/2026-11-19-network-within-limits.md).
    """
    assert day.constraints is not None
    fleet = day.constraints.fleet
    limits = (fleet.max_stops, fleet.max_distance, fleet.max_duration)
    alike = np.ptp(fleet.capacities) == 0 and np.ptp(fleet.fixed_cost) == 0
    return bool(alike) and not np.isfinite(limits).any()


def network_starts(
    day: Instance, drives: Routing, options: SolveOptions, deadline: Deadline
) -> list[Routing]:
    """Routes for the vehicles of others, as many as there is time for.

    They keep every limit; who has no place on them is left out.
    """
    found: list[Routing] = []
    seats, settings = _Seats.of(day, drives), options.neural
    view = seats.view
    model = load_model(settings.model or DEFAULT_MODEL)
    rows = model.rows_of(view, borrow=settings.new_locations == "nearest")
    until = deadline.share(start_share(options))
    scoring = replace(scoring_of(view, settings), deadline=until)
    try:
        scorer = NeuralScorer(model.network, view, rows, settings.threads, scoring)
        for number in range(settings.seed_sets or 1):
            noise = settings.seed_noise if number else 0.0
            scores = scorer(len(seats.vehicles), noise, options.seed + number)
            for move in range(1 + settings.moves):
                labels = seats.assigned(scores, options, until)
                clusters = Routes.of_labels(labels)
                routes = improve(view, clusters, True, QUICK, until)
                found.append(seats.fitted(labels, routes))
                if until.passed() or move == settings.moves:
                    break
                moved = centres(view, Decoded(labels, routes, 0.0))
                if set(moved.tolist()) == set(scores.seeds.tolist()):
                    break
                scores = scorer.at(moved)
    except TimeUpError:
        pass
    return found


@dataclass(frozen=True)
class _Seats:
    """The vehicles that seeds stand for, and the day as the network sees it."""

    day: Instance
    asked: Constraints
    view: Instance
    vehicles: IntArray  # (K,)
    seat: IntArray  # (n + 1,) of each customer by savings, -1 where it has none

    @classmethod
    def of(cls, day: Instance, drives: Routing) -> _Seats:
        """Seats for the vehicles that drive these routes."""
        assert day.constraints is not None
        vehicles = np.array(sorted(drives), dtype=np.int64)
        units = day.demand_units
        each = int(units.sum()) / (FULL * max(1, len(vehicles)))
        capacity = max(1, int(each), int(units.max(initial=0)))
        view = both_ways_alike(day).replace(demands=units, capacity=capacity)
        seat = np.full(len(units), -1, dtype=np.int64)
        for number, vehicle in enumerate(vehicles.tolist()):
            seat[drives[vehicle]] = number
        return cls(day, day.constraints, view, vehicles, seat)

    def assigned(
        self, scores: Scores, options: SolveOptions, deadline: Deadline
    ) -> IntArray:
        """(n,) the seat of each customer, -1 where none is a candidate."""
        seeds = scores.candidates
        if seeds is None:
            seeds = np.broadcast_to(np.arange(len(scores.seeds)), scores.cost.shape)
        may = seeds >= 0
        seats = np.where(may, self._matched(scores.cost, seeds, len(scores.seeds)), -1)
        classes, allowed = self.asked.wishes
        if len(classes):
            may &= allowed[classes[1:, None], self.vehicles[seats]]
        some = np.flatnonzero(may.any(axis=1))
        amounts, room = self._scarcest()
        kind = options.assign or "fast"
        plan = None
        if kind in ("sparse", "hard"):
            plan = transport_plan(self.view, scores, deadline=deadline)
            plan = np.take_along_axis(plan, np.maximum(seeds, 0), axis=1)[some]
        problem = AssignProblem(
            np.where(may, scores.cost, np.inf)[some],
            amounts[1:][some],
            room,
            len(self.vehicles),
            np.where(may, seats, -1)[some],
        )
        settings = AssignSettings(rounds=SEARCH_ROUNDS, seed=options.seed % 2**31)
        answer = assign(problem, kind, settings, deadline, plan)
        found = answer.labels
        if not np.isfinite(answer.cost):  # the vehicles say what is too much for them
            cheapest_slot = problem.cost.argmin(axis=1)
            found = problem.vehicle_of_cost[np.arange(len(some)), cheapest_slot]
            found = found if answer.nearly is None else answer.nearly
        labels = np.full(len(may), -1, dtype=np.int64)
        labels[some] = found
        return labels

    def _matched(self, cost: FloatArray, seeds: IntArray, count: int) -> IntArray:
        """(n, C) the seat of each seed: whose customers by savings like it most."""
        from scipy.optimize import linear_sum_assignment

        seats = len(self.vehicles)
        kinds = self.asked.fleet.kind[self.vehicles]
        if len(np.unique(kinds)) == 1 and not len(self.asked.wishes[0]):
            return seeds  # vehicles that are all alike
        liking = np.zeros((seats, count))
        rows, slots = np.nonzero((seeds >= 0) & (self.seat[1:, None] >= 0))
        worst = np.where(seeds >= 0, cost, -np.inf).max(axis=1)
        np.add.at(
            liking,
            (self.seat[1:][rows], seeds[rows, slots]),
            worst[rows] - cost[rows, slots],
        )
        chosen, given = linear_sum_assignment(-liking)
        seat_of = np.zeros(count, dtype=np.int64)
        seat_of[given] = chosen
        return seat_of[seeds]

    def _scarcest(self) -> tuple[IntArray, IntArray]:
        """Loads and capacities, or stops and most stops where these bind sooner."""
        assert self.day.vehicle_units is not None
        units, room = self.day.demand_units, self.day.vehicle_units[self.vehicles]
        stops = self.asked.fleet.max_stops[self.asked.fleet.kind[self.vehicles]]
        n = self.day.num_customers
        if n * float(room.sum()) > float(units.sum()) * float(stops.sum()):
            most = np.minimum(stops, n).astype(np.int64)
            return np.ones(n + 1, dtype=np.int64), most
        return units, room

    def fitted(self, labels: IntArray, routes: Routes) -> Routing:
        """The routes without what their vehicles cannot drive."""
        vehicles = Vehicles(self.day)
        found: Routing = {}
        for route in routes:
            seat = int(labels[route[0] - 1])
            if seat >= 0:
                vehicle = int(self.vehicles[seat])
                found[vehicle] = vehicles.cut(route, vehicle).tolist()
        return {vehicle: route for vehicle, route in found.items() if route}
