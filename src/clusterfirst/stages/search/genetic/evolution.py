"""Hybrid genetic search, compiled: children of two individuals, each led down.

Order crossover, split (Prins, Computers and Operations Research 31, 2004), a descent
in which load above the capacity has a price, and a second one at ten times the price
where that is still needed; the price follows the share of descents that end within the
capacity (Vidal, Computers and Operations Research 140, 2022: HGS).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clusterfirst.problem.instance import FloatArray, IntArray
from clusterfirst.stages.compiled import inner, kernel, random, random_bits, signed
from clusterfirst.stages.search.genetic.colony import (
    ABOVE,
    FITTING,
    Colony,
    colony_for,
    disband,
    free_slot,
    judge_members,
    pick,
    sort_again,
    welcome,
)
from clusterfirst.stages.search.genetic.descent import (
    Descent,
    begin,
    descent_for,
    improve_customer,
    leg,
    shuffle,
)
from clusterfirst.stages.search.genetic.exchanges import (
    Exchanges,
    begin_exchanges,
    exchange_routes,
    exchanges_for,
)
from clusterfirst.stages.search.linked import (
    Data,
    NodeArray,
    Tours,
    after,
    link_all,
)

SPLIT_LOAD = 1.5  # capacities that a route of a split may hold
REPAIR, REPAIR_PRICE = 0.5, 10.0
JUDGED = 100  # descents after which the price changes
FITTING_SHARE, NEAR = 0.2, 0.05  # of descents that should end within the capacity
DEARER, CHEAPER = 1.2, 0.85
PATIENCE = 20_000  # children without a better one, before all begin anew
BORN, STALE, TRIED, FITTED = range(4)


class Nursery(NamedTuple):
    """Where a child grows, and the best routes so far."""

    counts: IntArray  # (4,) BORN, STALE, ...
    founders: IntArray  # (1,) children that are random, to begin with
    points: FloatArray  # (n + 1, 2) seen from the depot
    order: NodeArray  # (n,) the child: customers in order
    seen: npt.NDArray[np.uint8]  # (n + 1,)
    cost: FloatArray  # (routes + 1, n + 1) of the first j customers in so many routes
    origin: IntArray  # (routes + 1, n + 1) where their last route begins
    starts: IntArray  # (routes + 1,)
    angles: FloatArray  # (routes,)
    sequence: IntArray  # (routes,) routes by the direction they lie in
    best: IntArray  # (n,) stops of the best routes
    best_starts: IntArray  # (routes + 1,)
    best_length: FloatArray  # (1,)


class Genetic(NamedTuple):
    """The whole state of a genetic search."""

    tours: Tours
    descent: Descent
    exchanges: Exchanges
    colony: Colony
    nursery: Nursery


def genetic_for(
    data: Data,
    tours: Tours,
    geometry: tuple[FloatArray, FloatArray],
    founders: int,
    seed: int,
) -> Genetic:
    """Return a search without individuals; `tours` is where children are led down."""
    n, routes = len(data.demands) - 1, len(tours.load)
    legs, points = geometry
    nursery = Nursery(
        counts=np.zeros(4, dtype=np.int64),
        founders=np.array([founders]),
        points=points,
        order=np.arange(1, n + 1, dtype=np.uint32),
        seen=np.zeros(n + 1, dtype=np.uint8),
        cost=np.zeros((routes + 1, n + 1)),
        origin=np.zeros((routes + 1, n + 1), dtype=np.int64),
        starts=np.zeros(routes + 1, dtype=np.int64),
        angles=np.zeros(routes),
        sequence=np.zeros(routes, dtype=np.int64),
        best=np.zeros(n, dtype=np.int64),
        best_starts=np.zeros(routes + 1, dtype=np.int64),
        best_length=np.full(1, np.inf),
    )
    return Genetic(
        tours,
        descent_for(data, legs, routes, seed),
        exchanges_for(points, routes),
        colony_for(n),
        nursery,
    )


@kernel
def evolve(data: Any, state: Any, stops: Any, starts: Any, count: int) -> None:
    """Raise so many children, of random founders at first.

    The first are given routes if there are some.
    """
    tours, descent, exchanges, colony, nursery = state
    counts = nursery.counts
    for i in range(count):
        if counts[STALE] > PATIENCE:
            disband(colony)
            counts[BORN] = counts[STALE] = 0
        if i == 0 and len(stops) > 0:
            link_all(data, tours, stops, starts)
        else:
            if counts[BORN] < nursery.founders[0]:
                shuffle(descent.rng, nursery.order)
            else:
                cross(descent, colony, nursery)
            split(data, tours, descent, nursery)
        counts[BORN] += 1
        for price in (1.0, REPAIR_PRICE):
            descent.price[0] *= price
            descend(data, tours, descent, exchanges)
            descent.price[0] /= price
            fits = _excess(data, tours) == 0
            if price == 1.0:
                counts[TRIED] += 1
                counts[FITTED] += fits
            if fits or price == 1.0:
                join_colony(tours, descent, colony, nursery, _excess(data, tours))
            if fits or random(descent.rng) > REPAIR:
                break
        if counts[TRIED] >= JUDGED:
            _set_price(descent, colony, counts)


@inner
def _set_price(descent: Any, colony: Any, counts: Any) -> None:
    """Make load above the capacity dearer where too few descents end without."""
    share = counts[FITTED] / counts[TRIED]
    counts[TRIED] = counts[FITTED] = 0
    if share < FITTING_SHARE - NEAR:
        descent.price[0] *= DEARER
    elif share > FITTING_SHARE + NEAR:
        descent.price[0] *= CHEAPER
    sort_again(colony, descent.price[0])


@inner
def cross(descent: Any, colony: Any, nursery: Any) -> None:
    """Order crossover of two members, each the fitter of two."""
    judge_members(colony, FITTING)
    judge_members(colony, ABOVE)
    n = np.uint64(len(nursery.order))
    a, b = pick(colony, descent.rng), pick(colony, descent.rng)
    for _ in range(10):  # of a colony of one there are no two
        if b != a:
            break
        b = pick(colony, descent.rng)
    start = random_bits(descent.rng) % n
    end = random_bits(descent.rng) % n
    nursery.seen[:] = 0
    at = start
    while True:
        c = colony.tours[a, at]
        nursery.order[at] = c
        nursery.seen[c] = 1
        if at == end:
            break
        at = (at + np.uint64(1)) % n
    at = (end + np.uint64(1)) % n
    from_b = at
    while at != start:
        c = colony.tours[b, from_b]
        from_b = (from_b + np.uint64(1)) % n
        if nursery.seen[c] == 0:
            nursery.order[at] = c
            at = (at + np.uint64(1)) % n


@inner
def split(data: Any, tours: Any, descent: Any, nursery: Any) -> None:
    """Cut the child into the routes that cost least, and link them."""
    n, most = len(nursery.order), len(tours.load)
    cost, origin = nursery.cost, nursery.origin
    _split_layer(data, descent, nursery, 0, 0)
    count, j = 0, n
    while j > 0:
        count += 1
        j = origin[0, j]
    if count <= most:
        j = n
        for r in range(count, most + 1):
            nursery.starts[r] = n
        for r in range(count - 1, -1, -1):
            j = origin[0, j]
            nursery.starts[r] = j
    else:
        cost[0, :] = math.inf
        cost[0, 0] = 0.0
        for r in range(1, most + 1):
            _split_layer(data, descent, nursery, r - 1, r)
        j = n
        for r in range(most, -1, -1):
            nursery.starts[r] = j
            j = origin[r, j] if r > 0 else 0
    link_all(data, tours, nursery.order, nursery.starts)


@inner
def _split_layer(data: Any, descent: Any, nursery: Any, old: int, new: int) -> None:
    """Least cost of the first j customers with one route more than in layer `old`.

    With old == new any number of routes.
    """
    order, cost, origin = nursery.order, nursery.cost, nursery.origin
    n = len(order)
    limit = SPLIT_LOAD * data.capacity if old == new else math.inf
    for j in range(n + 1):
        if old == new:
            cost[new, j] = math.inf
        else:
            cost[new, j] = cost[old, j]
            origin[new, j] = j
    if old == new:
        cost[new, 0] = 0.0
    for i in range(n):
        if cost[old, i] == math.inf:
            continue
        load, way, last = 0, 0.0, 0
        for j in range(i + 1, n + 1):
            c = signed(order[j - 1])
            load += data.demands[c]
            if load > limit and j > i + 1:
                break
            way += leg(descent, last, c)
            last = c
            over = descent.price[0] * max(0, load - data.capacity)
            whole = cost[old, i] + way + leg(descent, c, 0) + over
            if whole < cost[new, j]:
                cost[new, j] = whole
                origin[new, j] = i


@inner
def descend(data: Any, tours: Any, descent: Any, exchanges: Any) -> None:
    """Make moves that pay until there is none."""
    begin(data, tours, descent)
    begin_exchanges(descent, exchanges)
    turn = 0
    while True:
        moves = descent.moves[0]
        for i in range(len(descent.customers)):
            u = signed(descent.customers[i])
            improve_customer(data, tours, descent, u, turn == 0)
        exchange_routes(data, tours, descent, exchanges)
        turn += 1
        if turn > 1 and descent.moves[0] == moves:
            return


@inner
def _excess(data: Any, tours: Any) -> int:
    """Load above the capacity of all routes."""
    total = 0
    for r in range(len(tours.load)):
        total += max(0, tours.load[r] - data.capacity)
    return total


@inner
def join_colony(
    tours: Any, descent: Any, colony: Any, nursery: Any, excess: int
) -> None:
    """Make the routes in `tours` a member, and remember the shortest that fit."""
    slot = free_slot(colony)
    _by_direction(tours, nursery)
    n = len(nursery.order)
    at, length = 0, 0.0
    for i in range(len(tours.load)):
        depot = n + 1 + nursery.sequence[i]
        length += tours.gap[depot]
        last, node = 0, after(tours, depot)
        while node <= n:
            colony.tours[slot, at] = node
            colony.back[slot, node] = last
            colony.onward[slot, last] = node
            length += tours.gap[node]
            at += 1
            last, node = node, after(tours, node)
        colony.onward[slot, last] = 0
    colony.length[slot] = length
    colony.excess[slot] = excess
    nursery.counts[STALE] += 1
    if excess == 0 and length < nursery.best_length[0] - descent.least:
        nursery.counts[STALE] = 0
        _write_best(tours, nursery, length)
    welcome(colony, slot, descent.price[0])


@inner
def _write_best(tours: Any, nursery: Any, length: float) -> None:
    """Write the routes in `tours` down: they are the shortest so far."""
    n = len(nursery.order)
    nursery.best_length[0] = length
    at = 0
    for r in range(len(tours.load)):
        nursery.best_starts[r] = at
        node = after(tours, n + 1 + r)
        while node <= n:
            nursery.best[at] = node
            at += 1
            node = after(tours, node)
    nursery.best_starts[len(tours.load)] = n


@inner
def _by_direction(tours: Any, nursery: Any) -> None:
    """Order routes by the direction of their middle; the empty ones come last."""
    n = len(nursery.order)
    for r in range(len(tours.load)):
        depot = n + 1 + r
        x, y, node = 0.0, 0.0, after(tours, depot)
        while node <= n:
            x += nursery.points[node, 0]
            y += nursery.points[node, 1]
            node = after(tours, node)
        angle = math.atan2(y, x) if tours.size[r] > 0 else math.inf
        nursery.angles[r] = angle
        at = r
        while at > 0 and nursery.angles[nursery.sequence[at - 1]] > angle:
            nursery.sequence[at] = nursery.sequence[at - 1]
            at -= 1
        nursery.sequence[at] = r
