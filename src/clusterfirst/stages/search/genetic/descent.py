"""Descent to a local optimum, loads above the capacity at a price: small maps only.

The neighbourhoods of HGS (Vidal et al., Operations Research 60, 2012; Vidal, Computers
and Operations Research 140, 2022): strings of one or two customers move, swap with each
other, 2-opt, 2-opt*, each between a customer and its nearest ones, the first that pays
is made; then SWAP* between routes that overlap (exchanges.py). What has been tested
since its routes last changed is not tested again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clusterfirst.problem.instance import FloatArray, IntArray
from clusterfirst.stages.compiled import inlined, inner, random_bits, signed
from clusterfirst.stages.search.linked import (
    Data,
    NodeArray,
    after,
    before,
    link,
    note,
    route_of,
    unlink,
)
from clusterfirst.stages.search.rewiring import join_heads, reverse, swap_tails

LEAST_GAIN = 1e-9  # of the largest distance: smaller ones are rounding
NOT_YET = -1
NONE = -1


class Descent(NamedTuple):
    """What a descent keeps beside the routes."""

    rng: npt.NDArray[np.uint64]  # (1,)
    price: FloatArray  # (1,) of a unit of load above the capacity
    least: float  # gain
    over: FloatArray  # (routes,) price of the load above the capacity
    changed: IntArray  # (routes,) number of the move that changed the route last
    tested: IntArray  # (n + 1,) number of moves when the customer was last tested
    moves: IntArray  # (1,) made in this descent
    spare: IntArray  # (1,) an empty route, or NONE
    customers: NodeArray  # (n,) in the order in which they are tested
    near: NodeArray  # (n + 1, k) in the order in which they are partners
    legs: FloatArray  # (nodes, nodes) distances: looked up faster than computed


def descent_for(data: Data, legs: FloatArray, routes: int, seed: int) -> Descent:
    """Return the memory of descents in these data, with so many routes."""
    nodes, longest = len(data.demands), float(legs.max())
    node = np.append(np.arange(nodes), np.zeros(routes, dtype=np.int64))
    return Descent(
        rng=np.array([seed % 2**64], dtype=np.uint64),
        price=np.array([longest / max(1, int(data.demands.max()))]),
        least=LEAST_GAIN * longest,
        over=np.zeros(routes),
        changed=np.zeros(routes, dtype=np.int64),
        tested=np.zeros(nodes, dtype=np.int64),
        moves=np.zeros(1, dtype=np.int64),
        spare=np.zeros(1, dtype=np.int64),
        customers=np.arange(1, nodes, dtype=np.uint32),
        near=data.near.copy(),
        legs=legs[node[:, None], node],
    )


@inlined
def leg(descent: Any, a: int, b: int) -> float:
    """Distance between nodes a and b."""
    return float(descent.legs[np.uint32(a), np.uint32(b)])


@inner
def begin(data: Any, tours: Any, descent: Any) -> None:
    """Forget what was tested; draw the order of customers and partners anew."""
    descent.moves[0] = 0
    descent.spare[0] = NONE
    for r in range(len(tours.load)):
        descent.changed[r] = 0
        _count(data, tours, descent, r)
    descent.tested[:] = NOT_YET
    shuffle(descent.rng, descent.customers)
    width = descent.near.shape[1]
    for i in range(len(descent.customers)):
        if random_bits(descent.rng) % np.uint64(width) == np.uint64(0):
            u = descent.customers[i]
            filled = 0
            while filled < width and descent.near[u, filled] > 0:
                filled += 1
            shuffle(descent.rng, descent.near[u, :filled])


@inlined
def shuffle(rng: Any, items: Any) -> None:
    """Put items into random order."""
    for i in range(len(items) - 1, 0, -1):
        j = random_bits(rng) % np.uint64(i + 1)
        items[i], items[j] = items[j], items[i]


@inlined
def _excess(data: Any, descent: Any, load: int) -> float:
    """The price of a load."""
    return float(descent.price[0] * max(0, load - data.capacity))


@inner
def _count(data: Any, tours: Any, descent: Any, r: int) -> None:
    """Write down positions and loads along a route that changed, and its price."""
    tours.noted[r] = 0
    note(data, tours, r)
    descent.over[r] = _excess(data, descent, tours.load[r])
    if tours.size[r] == 0:
        descent.spare[0] = r
    elif descent.spare[0] == r:
        descent.spare[0] = NONE
        for s in range(len(tours.size)):
            if tours.size[s] == 0:
                descent.spare[0] = s


@inner
def count_move(data: Any, tours: Any, descent: Any, r: int, s: int) -> None:
    """Count a move that changed two routes, or one."""
    descent.moves[0] += 1
    descent.changed[r] = descent.moves[0]
    descent.changed[s] = descent.moves[0]
    _count(data, tours, descent, r)
    if r != s:
        _count(data, tours, descent, s)


@inlined
def shifted(data: Any, tours: Any, descent: Any, r: int, s: int, demand: int) -> float:
    """Change in price when so much demand goes from route r to route s."""
    there = _excess(data, descent, tours.load[s] + demand)
    here = _excess(data, descent, tours.load[r] - demand)
    return float(here + there - descent.over[r] - descent.over[s])


@inlined
def _pays(
    data: Any, tours: Any, descent: Any, r: int, s: int, demand: int, delta: float
) -> bool:
    """Whether a move does that changes the length so and shifts so much demand."""
    if r == s:
        return bool(delta < -descent.least)
    if delta >= descent.over[r] + descent.over[s] - descent.least:
        return False
    delta += shifted(data, tours, descent, r, s, demand)
    return bool(delta < -descent.least)


@inner
def _put(data: Any, tours: Any, first: int, second: int, behind: int) -> None:
    """Put a customer behind a node, and a second one behind it unless that is 0."""
    unlink(data, tours, first)
    if second > 0:
        unlink(data, tours, second)
    link(data, tours, first, behind)
    if second > 0:
        link(data, tours, second, first)


@inlined
def _relocated(data: Any, tours: Any, descent: Any, u: int, v: int) -> bool:
    """Move u, or u and the customer after it either way round, behind node v."""
    n = len(data.demands) - 1
    p, x, y = before(tours, u), after(tours, u), after(tours, v)
    if y == u:
        return False
    r, s = route_of(tours, u), route_of(tours, v)
    at_v, at_y = leg(descent, v, u), leg(descent, u, y)
    fixed = -tours.gap[p] - tours.gap[v]
    delta = fixed + leg(descent, p, x) - tours.gap[u] + at_v + at_y
    first, second = 0, 0
    if _pays(data, tours, descent, r, s, data.demands[u], delta):
        first = u
    elif x <= n and x != v:
        demand = data.demands[u] + data.demands[x]
        fixed += leg(descent, p, after(tours, x)) - tours.gap[x]
        delta = fixed + at_v + leg(descent, x, y)
        turned = fixed + at_y + leg(descent, v, x)
        if _pays(data, tours, descent, r, s, demand, delta):
            first, second = u, x
        elif _pays(data, tours, descent, r, s, demand, turned):
            first, second = x, u
    if first == 0:
        return False
    _put(data, tours, first, second, v)
    return True


@inlined
def _swapped(data: Any, tours: Any, descent: Any, u: int, v: int) -> bool:
    """Let u, or u and the next, change places with v, or v and the next."""
    n = len(data.demands) - 1
    p, x = before(tours, u), after(tours, u)
    q, y = before(tours, v), after(tours, v)
    if x == v or y == u:
        return False
    r, s = route_of(tours, u), route_of(tours, v)
    fixed = leg(descent, p, v) + leg(descent, q, u) - tours.gap[p] - tours.gap[q]
    shift = data.demands[u] - data.demands[v]
    pays, with_u, with_v = False, 0, 0
    if u < v:
        delta = fixed - tours.gap[u] - tours.gap[v]
        delta += leg(descent, v, x) + leg(descent, u, y)
        pays = _pays(data, tours, descent, r, s, shift, delta)
    if not pays and x <= n and x != q:
        xx = after(tours, x)
        shift += data.demands[x]
        delta = fixed - tours.gap[x] - tours.gap[v]
        delta += leg(descent, v, xx) + leg(descent, x, y)
        pays, with_u = _pays(data, tours, descent, r, s, shift, delta), x
        if not pays and u < v and y <= n and y != p:
            shift -= data.demands[y]
            delta = fixed - tours.gap[x] - tours.gap[y]
            delta += leg(descent, y, xx) + leg(descent, x, after(tours, y))
            pays, with_v = _pays(data, tours, descent, r, s, shift, delta), y
    if not pays:
        return False
    _put(data, tours, u, with_u, v if with_v == 0 else y)
    _put(data, tours, v, with_v, p)
    return True


@inlined
def _crossed(data: Any, tours: Any, descent: Any, u: int, v: int) -> bool:
    """Exchange the ends of two routes behind u and v, one turned round or neither."""
    r, s = route_of(tours, u), route_of(tours, v)
    x, y = after(tours, u), after(tours, v)
    fixed = -tours.gap[u] - tours.gap[v]
    most = descent.over[r] + descent.over[s] - descent.least
    delta = fixed + leg(descent, u, v) + leg(descent, x, y)
    total = tours.load[r] + tours.load[s]
    if delta < most:
        load = tours.upto[u] + tours.upto[v]
        delta += _excess(data, descent, load) + _excess(data, descent, total - load)
        if delta < most:
            join_heads(data, tours, u, v)
            return True
    delta = fixed + leg(descent, u, y) + leg(descent, v, x)
    if delta < most:
        load = tours.upto[u] + tours.load[s] - tours.upto[v]
        delta += _excess(data, descent, load) + _excess(data, descent, total - load)
        if delta < most:
            swap_tails(data, tours, u, y)
            return True
    return False


@inlined
def _turned(data: Any, tours: Any, descent: Any, u: int, v: int) -> bool:
    """Turn round what lies between u and what follows v, later in the route."""
    x = after(tours, u)
    if x == v or tours.place[u] > tours.place[v]:
        return False
    delta = leg(descent, u, v) + leg(descent, x, after(tours, v))
    if delta - tours.gap[u] - tours.gap[v] >= -descent.least:
        return False
    reverse(data, tours, u, v, 0)
    return True


@inlined
def improve_customer(data: Any, tours: Any, descent: Any, u: int, first: bool) -> None:
    """Make the moves of a customer that pay, of those not tested before.

    Its partners are its nearest customers, the depot before one that begins a route,
    and last, but for the first time, the depot of an empty route.
    """
    n = len(data.demands) - 1
    tested, width = descent.tested[u], descent.near.shape[1]
    descent.tested[u] = descent.moves[0]
    for i in range(width + 1):
        v = n + 1 + descent.spare[0]
        if i < width:
            v = signed(descent.near[u, i])
            newest = max(
                descent.changed[route_of(tours, u)], descent.changed[route_of(tours, v)]
            )
            if v == 0 or newest <= tested:
                continue
        elif first or descent.spare[0] == NONE:
            break
        while True:
            r, s = route_of(tours, u), route_of(tours, v)
            done = _relocated(data, tours, descent, u, v)
            done = done or (v <= n and _swapped(data, tours, descent, u, v))
            if r != s:
                done = done or _crossed(data, tours, descent, u, v)
            elif v <= n:
                done = done or _turned(data, tours, descent, u, v)
            if done:
                count_move(data, tours, descent, r, s)
                break
            if v > n or before(tours, v) <= n:
                break
            v = before(tours, v)
