"""Routes for a day with constraints, until the deadline."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.constraints import Constraints
from clusterfirst.problem.fleet import Fleet
from clusterfirst.problem.instance import Instance, IntArray
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.search.annealing import Plan, make_plan
from clusterfirst.stages.search.limited import anneal_limited, construct, measure_all
from clusterfirst.stages.search.limits import Limits, limits_of
from clusterfirst.stages.search.linked import MATRIX, Data, link_routes, memory_for
from clusterfirst.stages.search.regions import Region, whole_data
from clusterfirst.stages.search.ruin_recreate import ruins_for
from clusterfirst.stages.search.schedule import PolishSettings, Schedule

Routing = dict[int, list[int]]  # customers of each vehicle, in the order of driving
SPARE = 20  # idle vehicles of a kind that are looked at beyond twice those needed
HOT_FEES = 0.25  # of what a vehicle costs: warmer by so much at first
HOTTEST = 3.0  # but no hotter, in mean distances to neighbours
SLIGHT = 1e-6  # of a step: the price of a move where only their number is limited


@dataclass(frozen=True)
class Keeping:
    """Another plan that is to be kept: at a price, up to a number, or as it is."""

    home: Mapping[int, int] = field(default_factory=dict)  # vehicle of each customer
    price: float = 0.0  # of each customer elsewhere
    most: float = math.inf  # customers elsewhere
    frozen: Mapping[int, list[int]] = field(default_factory=dict)  # first stops
    whole: frozenset[int] = frozenset()  # vehicles that take nobody else


def search_limited(
    instance: Instance,
    start: Routing,
    settings: PolishSettings,
    deadline: Deadline,
    *,
    keeping: Keeping | None = None,
    on_improvement: Callable[[Routing], None] | None = None,
) -> Routing:
    """Return routes that keep every limit; who is on none of them has no place.

    `start` must keep the limits too; whoever is missing there is inserted first.
    """
    search = LimitedSearch(instance, start, settings, keeping or Keeping())
    hot = _first_temperature(instance, search.scale, settings.hot)
    schedule = Schedule.of(instance, replace(settings, hot=hot), deadline)
    best, done = math.inf, 0
    while (used := schedule.used(done)) < 1.0:
        search.anneal(settings.chunk, schedule.temperature(used))
        done += settings.chunk
        if on_improvement is not None and search.region.memory.cost[1] < best:
            best = float(search.region.memory.cost[1])
            on_improvement(search.routing(best=True))
    return search.routing(best=True)


def cheapest(
    instance: Instance, starts: Sequence[Routing], settings: PolishSettings
) -> int:
    """The number of the start that costs least once whoever is missing is inserted."""
    if len(starts) == 1:
        return 0
    costs = [
        float(LimitedSearch(instance, s, settings, Keeping()).region.memory.cost[0])
        for s in starts
    ]
    return costs.index(min(costs))


def _first_temperature(instance: Instance, scale: float, hot: float) -> float:
    """Hot enough that vehicles which cost something still come and go."""
    assert instance.constraints is not None
    fixed = float(instance.constraints.fleet.fixed_cost.mean())
    return max(hot, min(HOTTEST, hot + HOT_FEES * fixed / max(scale, 1e-300)))


class LimitedSearch:
    """The arrays of one search, and the plan that it stands at."""

    def __init__(
        self,
        instance: Instance,
        start: Routing,
        settings: PolishSettings,
        keeping: Keeping,
    ) -> None:
        self.instance, self.keeping = instance, keeping
        self.vehicles = _slots(instance, start, keeping)
        slot_of = {v: r for r, v in enumerate(self.vehicles.tolist())}
        home = np.full(instance.num_customers + 1, -1, dtype=np.int64)
        for customer, vehicle in keeping.home.items():
            home[customer] = slot_of.get(vehicle, -1)
        data = _neighbours_both_ways(instance, settings.neighbours)
        gaps = data.near_gap[1:, :10]
        self.scale = float(gaps.mean()) if gaps.size else 1.0
        price = keeping.price
        if math.isfinite(keeping.most):
            price = max(price, SLIGHT * self.scale)
        limits = limits_of(instance, self.vehicles, home, (price, keeping.most))
        self.data, self.limits = data, limits
        if keeping.frozen:
            self.data, self.limits = _from_where_they_are(
                instance, data, limits, [keeping.frozen.get(v, []) for v in slot_of]
            )
        self.region = self._region(start, settings)
        self.plan: Plan = make_plan(settings, self.region)
        construct(self.region.data, self.limits, self.region.state)

    def anneal(self, iterations: int, temperature: float) -> None:
        """Run so many iterations at a temperature in mean distances to neighbours."""
        region, hot = self.region, self.scale * temperature
        anneal_limited(
            region.data, self.limits, region.state, self.plan, iterations, hot
        )

    def measure(self) -> None:
        """Take the length and minutes of every route afresh."""
        measure_all(self.region.data, self.limits, self.region.tours)

    def _region(self, start: Routing, settings: PolishSettings) -> Region:
        """The whole day as one region; the order of the bank is that of insertion."""
        n, slots = self.instance.num_customers, len(self.vehicles)
        frozen = self.keeping.frozen
        begun = {v: len(frozen.get(v, [])) for v in self.vehicles.tolist()}
        routes = [start.get(v, [])[k:] for v, k in begun.items()]
        whole, nodes = self.data, np.arange(n + 1 + slots)
        nodes[n + 1 :] = 0
        rows = whole.rows if len(whole.rows) > n + 1 else nodes.astype(np.uint32)
        data = whole._replace(
            xy=np.ascontiguousarray(whole.xy.reshape(-1, 2)[nodes]).ravel(),
            z=whole.z[nodes],
            rows=rows,
        )
        starts = np.concatenate([[0], np.cumsum([len(route) for route in routes])])
        stops = np.concatenate([*routes, []]).astype(np.int64)
        tours, cost = link_routes(data, Routes(stops, starts), slots)
        fixed = [c for route in frozen.values() for c in route]
        missing = np.setdiff1d(np.arange(1, n + 1), [*stops.tolist(), *fixed])
        # Large ones first, then far ones: what is left over at the end finds a place.
        far = self.instance.lengths(0, missing)
        missing = missing[np.lexsort((-far, -self.instance.demand_units[missing]))]
        self._seat(missing, start)
        memory = memory_for(tours, cost, settings.seed)
        ruins = ruins_for(n, slots)
        ruins.absent[fixed] = 1  # out of the search: nobody looks at them
        return Region(np.arange(n + 1), data, tours, memory, ruins)

    def _seat(self, missing: IntArray, start: Routing) -> None:
        """Note who is on which vehicle, and who on none."""
        limits = self.limits
        limits.bank[: len(missing)] = missing
        limits.banked[0] = len(missing)
        for r, vehicle in enumerate(self.vehicles.tolist()):
            begun = set(self.keeping.frozen.get(vehicle, []))
            for c in start.get(vehicle, []):
                if c not in begun:
                    limits.away_now[0] += limits.home[c] not in (-1, r)
                if (g := limits.group[c]) >= 0:
                    limits.group_at[g] = r
                    limits.group_in[g] += 1
                if (a := limits.apart[c]) >= 0:
                    limits.apart_in[a, r] += 1

    def routing(self, *, best: bool) -> Routing:
        """The best routes so far, or the current ones, by vehicle."""
        memory, tours = self.region.memory, self.region.tours
        onward = (memory.best if best else tours.after).tolist()
        first, frozen = len(self.region.members), self.keeping.frozen
        found = {v: list(route) for v, route in frozen.items() if route}
        for r, vehicle in enumerate(self.vehicles.tolist()):
            node, route = onward[first + r], found.pop(vehicle, [])
            while node != first + r:
                route.append(node)
                node = onward[node]
            if route:
                found[vehicle] = route
        return found


def warm_up() -> Instance:
    """Compile the kernels, or load them from numba's cache; return a tiny day."""
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    asked = Constraints(Fleet.of_one_kind(2.0, 3))
    square = Instance(np.array([0, 1, 1, 1]), 2, coords=corners, constraints=asked)
    settings = PolishSettings(iterations=1)
    search_limited(square, {}, settings, Deadline.never())
    LimitedSearch(square, {}, settings, Keeping()).measure()
    return square


def _slots(instance: Instance, start: Routing, keeping: Keeping) -> IntArray:
    """The vehicles that are looked at: of large kinds no more than may help."""
    asked = instance.constraints
    assert asked is not None
    fleet = asked.fleet
    enough = 2 * max(instance.min_vehicles, len(start)) + SPARE
    rank = np.arange(fleet.size) - np.searchsorted(fleet.kind, fleet.kind)
    wanted = (rank < enough) | ~fleet.optional[fleet.kind]
    wanted[list(start)] = True
    wanted[sorted(set(keeping.home.values()))] = True
    _, allowed = asked.wishes
    if len(allowed) > 1:  # who is named somewhere is not like others of its kind
        wanted |= (allowed != allowed[:, [0]]).any(axis=0)
    wanted[sorted(keeping.whole)] = False
    return np.flatnonzero(wanted)


def _neighbours_both_ways(instance: Instance, neighbours: int) -> Data:
    """Near is who is near there and back."""
    given = instance.matrix
    if given is None or np.array_equal(given, given.T):
        return whole_data(instance, neighbours)
    there = np.array(instance.distances)
    mean = (there + there.T) / 2
    whole = whole_data(instance.replace(matrix=mean, constraints=None), neighbours)
    gaps = there[np.arange(len(there))[:, None], whole.near]
    return whole._replace(matrix=there, near_gap=np.ascontiguousarray(gaps))


def _from_where_they_are(
    instance: Instance, data: Data, limits: Limits, begun: Sequence[Sequence[int]]
) -> tuple[Data, Limits]:
    """Let vehicles start at the last of their first stops, and end at the depot.

    Each such start is one more row of the matrix: its ways out are those of the stop,
    the ways to it those to the depot. What was driven is taken off the limits.
    """
    n = instance.num_customers
    stands = np.array([route[-1] if route else 0 for route in begun])
    out = np.concatenate([np.arange(n + 1), stands])
    home = np.concatenate([np.arange(n + 1), np.zeros(len(begun), dtype=np.int64)])
    matrix = np.ascontiguousarray(instance.distances[np.ix_(out, home)])
    durations = limits.durations
    if len(durations) > 1:
        durations = np.ascontiguousarray(durations[np.ix_(out, home)])
    kinds = limits.kind.copy()
    for r, route in enumerate(begun):
        if not route:
            continue
        legs = np.array([0, *route])
        limits.capacity[r] -= int(instance.demand_units[route].sum())
        limits.stops[r] -= len(route)
        limits.longest[r] -= float(instance.lengths(legs[:-1], legs[1:]).sum())
        if limits.timed:
            minutes = instance.minutes(legs[:-1], legs[1:]).sum()
            limits.slowest[r] -= float(minutes + limits.service[list(route)].sum())
        limits.fixed[r] = 0.0  # it drives in any case
        kinds[r] = len(instance.demands) + r  # like no other
    rows = np.arange(n + 1 + len(begun), dtype=np.uint32)
    return data._replace(mode=MATRIX, matrix=matrix, rows=rows), limits._replace(
        durations=durations, kind=kinds, one_way=1, own_starts=1, cheapest=-np.inf
    )
