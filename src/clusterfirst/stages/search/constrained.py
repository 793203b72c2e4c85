"""Routes for a day with constraints, until the deadline."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.constraints import Constraints
from clusterfirst.problem.fleet import Fleet
from clusterfirst.problem.instance import Instance, IntArray
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.search.annealing import make_plan
from clusterfirst.stages.search.limited import anneal_limited, construct
from clusterfirst.stages.search.limits import Limits, limits_of
from clusterfirst.stages.search.linked import link_routes
from clusterfirst.stages.search.memory import memory_for
from clusterfirst.stages.search.regions import Region, whole_data
from clusterfirst.stages.search.ruin_recreate import ruins_for
from clusterfirst.stages.search.schedule import Schedule
from clusterfirst.stages.search.settings import PolishSettings

Routing = dict[int, list[int]]  # customers of each vehicle, in the order of driving
SPARE = 20  # idle vehicles of a kind that are looked at beyond twice those needed


@dataclass(frozen=True)
class Keeping:
    """Another plan that is to be kept where it costs little."""

    home: Mapping[int, int] = field(default_factory=dict)  # vehicle of each customer
    price: float = 0.0  # of each customer elsewhere


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
    keeping = keeping or Keeping()
    vehicles = _slots(instance, start, keeping)
    slot_of = {v: r for r, v in enumerate(vehicles.tolist())}
    home = np.full(instance.num_customers + 1, -1, dtype=np.int64)
    for customer, vehicle in keeping.home.items():
        home[customer] = slot_of.get(vehicle, -1)
    limits = limits_of(instance, vehicles, home, keeping.price)
    region = _region(instance, limits, [start.get(v, []) for v in vehicles], settings)
    construct(region.data, limits, region.state)
    schedule = Schedule.of(instance, settings, deadline)
    plan, scale = make_plan(settings, region), _scale(region)
    best, done = math.inf, 0
    while (used := schedule.used(done)) < 1.0:
        temperature = scale * schedule.temperature(used)
        anneal_limited(
            region.data, limits, region.state, plan, settings.chunk, temperature
        )
        done += settings.chunk
        if on_improvement is not None and region.memory.cost[1] < best:
            best = float(region.memory.cost[1])
            on_improvement(_read(region, vehicles))
    return _read(region, vehicles)


def warm_up() -> None:
    """Compile the kernels, or load them from numba's cache, before they are needed."""
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    asked = Constraints(Fleet.of_one_kind(2.0, 3))
    square = Instance(np.array([0, 1, 1, 1]), 2, coords=corners, constraints=asked)
    search_limited(square, {}, PolishSettings(iterations=1), Deadline.never())


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
    return np.flatnonzero(wanted)


def _region(
    instance: Instance,
    limits: Limits,
    routes: Sequence[Sequence[int]],
    settings: PolishSettings,
) -> Region:
    """The whole day as one region; the order of the bank is that of insertion."""
    n, slots = instance.num_customers, len(routes)
    whole = whole_data(instance, settings.neighbours)
    nodes = np.concatenate([np.arange(n + 1), np.zeros(slots, dtype=np.int64)])
    data = whole._replace(
        xy=np.ascontiguousarray(whole.xy.reshape(-1, 2)[nodes]).ravel(),
        z=whole.z[nodes],
        rows=nodes.astype(np.uint32),
    )
    starts = np.concatenate([[0], np.cumsum([len(route) for route in routes])])
    stops = np.concatenate([*routes, []]).astype(np.int64)
    tours, cost = link_routes(data, Routes(stops, starts), slots)
    missing = np.setdiff1d(np.arange(1, n + 1), stops)
    # Large ones first, then far ones: what is left over at the end finds a place.
    away = instance.lengths(0, missing)
    missing = missing[np.lexsort((-away, -instance.demand_units[missing]))]
    limits.bank[: len(missing)] = missing
    limits.banked[0] = len(missing)
    for r, route in enumerate(routes):
        for c in route:
            if (g := limits.group[c]) >= 0:
                limits.group_at[g] = r
                limits.group_in[g] += 1
            if (a := limits.apart[c]) >= 0:
                limits.apart_in[a, r] += 1
    memory = memory_for(tours, cost, settings.seed)
    return Region(np.arange(n + 1), data, tours, memory, ruins_for(n, slots))


def _scale(region: Region) -> float:
    gaps = region.data.near_gap[1:, :10]
    return float(gaps.mean()) if gaps.size else 1.0


def _read(region: Region, vehicles: IntArray) -> Routing:
    """The best routes so far, by vehicle."""
    onward, first = region.memory.best.tolist(), len(region.members)
    found: Routing = {}
    for r, vehicle in enumerate(vehicles.tolist()):
        node, route = onward[first + r], []
        while node != first + r:
            route.append(node)
            node = onward[node]
        if route:
            found[vehicle] = route
    return found
