"""Moves drawn at random and priced in O(1): the small steps of the annealing.

Every move makes a customer u a neighbour of v, one of its nearest. Its change in length
is priced first; only a change that is accepted is looked at for loads and whatever else
is limited, and only then are routes walked along. Each move is one function: price,
fit, accept, make.

`limits` is None on a plain day: the questions about them are no part of what is
compiled for it. With limits, ways may differ from the ways back.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from clusterfirst.stages.compiled import inlined, inner, random_bits, signed
from clusterfirst.stages.search.limited_crossings import (
    exchange_tails,
    open_or_trade,
    turn_or_meet,
)
from clusterfirst.stages.search.limited_moves import (
    exchange_fits,
    generous,
    leaving,
    pair_price,
    priced_up_to,
    string_fits,
    string_prices,
    swap_fits,
)
from clusterfirst.stages.search.linked import (
    accept,
    after,
    before,
    distance,
    link,
    note,
    route_of,
    unlink,
)
from clusterfirst.stages.search.rewiring import join_heads, reverse, swap_tails

STRING, SWAP, CROSS, EXCHANGE, OPEN = range(5)
LOW = np.uint64(0xFFFFFFFF)


@inlined
def capacity(data: Any, limits: Any, r: int) -> int:
    """The capacity of route r."""
    if limits is None:
        return int(data.capacity)
    return int(limits.capacity[r])


@inlined
def move_string(
    data: Any, limits: Any, state: Any, u: int, v: int, coins: int, allowed: float
) -> None:
    """Move a string of one to three customers that ends at u next to v (or-opt)."""
    tours, memory, _ = state
    n, number = len(data.demands) - 1, 1
    most = 1 if coins & 12 != 0 else 2 + (coins >> 4 & 1)
    forward, behind = coins & 1 == 0, coins & 2 == 0
    w = after(tours, v) if behind else before(tours, v)
    end, demand = u, data.demands[u]
    out = before(tours, u) if forward else after(tours, u)
    onward = after(tours, u) if forward else before(tours, u)
    while True:
        if end in (v, w):
            return
        if number == most or onward > n:
            break
        number += 1
        end = onward
        demand += data.demands[end]
        onward = after(tours, end) if forward else before(tours, end)
    # In the direction of travel: first..last leave from between p and q, and stand as
    # head..foot between a and b.
    first, last, p, q = (u, end, out, onward) if forward else (end, u, onward, out)
    a, b, head, foot = (v, w, u, end) if behind else (w, v, end, u)
    limit = allowed
    if limits is not None:
        limit = priced_up_to(limits, allowed)
        if limits.priced > 0:
            moving, fee = string_prices(limits, tours, first, p, q, v)
            limit -= moving + fee
    x, y = (v, u) if behind else (u, v)
    removed = tours.gap[a] + (tours.gap[p] + tours.gap[last])
    delta = distance(data, p, q) + distance(data, x, y) - removed
    if delta >= limit:
        return
    x, y = (end, w) if behind else (w, end)
    delta += distance(data, x, y)
    if delta >= limit:
        return
    r, s = route_of(tours, u), route_of(tours, v)
    if r != s and tours.load[s] + demand > capacity(data, limits, s):
        return
    if limits is None:
        accept(tours, memory, delta, r, s)
    else:
        string = (first, last, p, q, a, b, head, foot)
        if not string_fits(data, limits, state, string, (number, demand), allowed):
            return
    node, stand = u, v
    while True:
        onward = after(tours, node) if forward else before(tours, node)
        unlink(data, tours, node)
        link(data, tours, node, stand if behind else before(tours, stand))
        if node == end:
            return
        node, stand = onward, node


@inlined
def swap(
    data: Any, limits: Any, state: Any, u: int, v: int, coins: int, allowed: float
) -> None:
    """Let u and the customer next to v take each other's places."""
    tours, memory, _ = state
    n = len(data.demands) - 1
    x = after(tours, v) if coins & 1 == 0 else before(tours, v)
    p, q = before(tours, u), after(tours, u)
    if x > n or x in (u, p, q):
        return
    a, b = before(tours, x), after(tours, x)
    limit = allowed
    if limits is not None:
        limit = priced_up_to(limits, allowed - pair_price(limits, tours, u, x))
    removed = tours.gap[p] + tours.gap[u] + tours.gap[a] + tours.gap[x]
    delta = distance(data, p, x) + distance(data, x, q) - removed
    if delta >= limit:
        return
    delta += distance(data, a, u) + distance(data, u, b)
    if delta >= limit:
        return
    if not _loads_fit(data, limits, tours, u, x):
        return
    if limits is None:
        accept(tours, memory, delta, route_of(tours, u), route_of(tours, x))
    elif not swap_fits(data, limits, state, u, x, allowed):
        return
    unlink(data, tours, u)
    link(data, tours, u, x)
    unlink(data, tours, x)
    link(data, tours, x, p)


@inlined
def _loads_fit(data: Any, limits: Any, tours: Any, u: int, x: int) -> bool:
    """Whether u and x may change routes, as far as the loads are concerned."""
    r, s = route_of(tours, u), route_of(tours, x)
    shift = data.demands[u] - data.demands[x]
    return r == s or (
        tours.load[s] + shift <= capacity(data, limits, s)
        and tours.load[r] - shift <= capacity(data, limits, r)
    )


@inlined
def exchange(
    data: Any, limits: Any, state: Any, u: int, v: int, allowed: float
) -> None:
    """Let u and v change routes, each going where it fits best (SWAP*).

    Vidal (Computers and Operations Research 140, 2022); places are those next to
    the nearest customers, and the one that becomes free.
    """
    tours, memory, _ = state
    if not _loads_fit(data, limits, tours, u, v):
        return
    limit = allowed
    if limits is not None:
        limit = priced_up_to(limits, allowed - pair_price(limits, tours, u, v))
    delta = leaving(data, tours, u) + leaving(data, tours, v)
    if delta >= limit:
        return
    at_u, more_u = _place_without(data, limits, state, u, v)
    delta += more_u
    if delta >= limit:
        return
    at_v, more_v = _place_without(data, limits, state, v, u)
    delta += more_v
    if delta >= limit:
        return
    if limits is None:
        accept(tours, memory, delta, route_of(tours, u), route_of(tours, v))
    else:
        go, come = (u, at_u, more_u), (v, at_v, more_v)
        if not exchange_fits(data, limits, state, go, come, allowed):
            return
    unlink(data, tours, u)
    unlink(data, tours, v)
    link(data, tours, u, at_u)
    link(data, tours, v, at_v)


@inlined
def _place_without(
    data: Any, limits: Any, state: Any, u: int, v: int
) -> tuple[int, float]:
    """The best place of u in the route of v when v has left: behind whom, and cost."""
    if limits is None:
        return _nearest_place(data, state[0], None, u, v)
    return _nearest_place(data, state[0], (state[2].absent, limits.one_way), u, v)


@inner
def _nearest_place(
    data: Any, tours: Any, passed: Any, u: int, v: int
) -> tuple[int, float]:
    """The same; `passed` is None, or who is absent and whether ways are one-way."""
    where, b = before(tours, v), after(tours, v)
    best = distance(data, where, u) + distance(data, u, b)
    best -= distance(data, where, b)
    s = route_of(tours, v)
    for i in range(data.near.shape[1]):
        w = signed(data.near[u, i])
        if w == 0:
            break
        if route_of(tours, w) != s or w == v:
            continue
        to = fro = data.near_gap[u, i]
        if passed is not None:
            if passed[0][w] == 1:
                continue
            if passed[1] > 0:
                fro = distance(data, w, u)
        a, b = before(tours, w), after(tours, w)
        if a != v:
            extra = to + distance(data, a, u) - tours.gap[a]
            if extra < best:
                best, where = extra, a
        if b != v:
            extra = fro + distance(data, u, b) - tours.gap[w]
            if extra < best:
                best, where = extra, w
    return where, best


@inlined
def cross(
    data: Any, limits: Any, state: Any, u: int, v: int, coins: int, allowed: float
) -> None:
    """Change two edges so that u meets v: 2-opt in a route, 2-opt* between two."""
    tours, memory, _ = state
    r, s = route_of(tours, u), route_of(tours, v)
    if r != s and coins & 1 == 0:
        if coins & 2 == 0:
            cross_tails(data, limits, state, u, v, allowed)
        else:
            cross_tails(data, limits, state, v, u, allowed)
        return
    if coins & 2 == 0:
        u, v = before(tours, u), before(tours, v)
    x, y = after(tours, u), after(tours, v)
    if x == v or y == u:
        return
    limit = allowed
    if limits is not None:
        limit = math.inf if limits.one_way > 0 else generous(limits, allowed)
    removed = tours.gap[u] + tours.gap[v]
    delta = distance(data, u, v) + distance(data, x, y) - removed
    if delta >= limit:
        return
    if limits is not None:
        turn_or_meet(data, limits, state, u, v, allowed)
        return
    if r == s:
        accept(tours, memory, delta, r, r)
        reverse(data, tours, u, v, 0)
        return
    note(data, tours, r)
    note(data, tours, s)
    load = tours.upto[u] + tours.upto[v]
    total = tours.load[r] + tours.load[s]
    if load <= data.capacity and total - load <= data.capacity:
        accept(tours, memory, delta, r, s)
        join_heads(data, tours, u, v)


@inlined
def cross_tails(
    data: Any, limits: Any, state: Any, u: int, v: int, allowed: float
) -> None:
    """Let v follow u, and what followed u what was before v (2-opt*)."""
    tours, memory, _ = state
    x, y = after(tours, u), before(tours, v)
    limit = allowed if limits is None else generous(limits, allowed)
    delta = distance(data, u, v) + distance(data, y, x) - tours.gap[u] - tours.gap[y]
    if delta >= limit:
        return
    if limits is not None:
        exchange_tails(data, limits, state, u, v, allowed)
        return
    r, s = route_of(tours, u), route_of(tours, v)
    note(data, tours, r)
    note(data, tours, s)
    total = tours.load[r] + tours.load[s]
    load = tours.upto[u] + tours.load[s] - tours.upto[y]
    if load <= data.capacity and total - load <= data.capacity:
        accept(tours, memory, delta, r, s)
        swap_tails(data, tours, u, v)


@inlined
def open_route(data: Any, tours: Any, memory: Any, u: int, allowed: float) -> None:
    """Let an empty route take over what follows u."""
    x, depot = after(tours, u), len(data.demands)
    delta = distance(data, u, depot) + distance(data, depot, x) - tours.gap[u]
    if delta >= allowed or x >= depot:
        return
    for s in range(len(tours.size)):
        if tours.size[s] == 0:
            accept(tours, memory, delta, route_of(tours, u), s)
            swap_tails(data, tours, u, depot + s)
            return


@inlined
def random_customer(data: Any, tours: Any, bits: Any) -> int:
    """The one of two customers whose edges are longer than they need be by more."""
    n = np.uint64(len(data.demands) - 1)
    u = signed(((bits & LOW) * n) >> np.uint64(32)) + 1
    v = signed(((bits >> np.uint64(32)) * n) >> np.uint64(32)) + 1
    regret = tours.gap[before(tours, u)] + tours.gap[u] - data.ideal[u]
    other = tours.gap[before(tours, v)] + tours.gap[v] - data.ideal[v]
    return u if regret >= other else v


@inlined
def random_move(
    data: Any, limits: Any, state: Any, plan: Any, temperature: float
) -> None:
    """Draw a move and make it if its change is accepted and every limit is kept."""
    tours, memory, ruins = state
    u = random_customer(data, tours, random_bits(memory.rng))
    bits = random_bits(memory.rng)
    kind = plan.kinds[bits & np.uint64(255)]
    pick = (bits >> np.uint64(8)) & np.uint64(0xFFFF)
    v = signed(data.near[u, (pick * plan.partners) >> np.uint64(16)])
    if v == 0:
        return
    if limits is not None and ruins.absent[u] + ruins.absent[v] > 0:
        return
    allowed = temperature * plan.excess[(bits >> np.uint64(24)) & np.uint64(511)]
    coins = signed((bits >> np.uint64(40)) & np.uint64(255))
    if kind == STRING:
        move_string(data, limits, state, u, v, coins, allowed)
    elif kind == SWAP:
        swap(data, limits, state, u, v, coins, allowed)
    elif kind == CROSS:
        cross(data, limits, state, u, v, coins, allowed)
    elif kind == EXCHANGE:
        if route_of(tours, u) != route_of(tours, v):
            exchange(data, limits, state, u, v, allowed)
    elif limits is None:
        open_route(data, tours, memory, u, allowed)
    else:
        open_or_trade(data, limits, state, u, (coins, pick), allowed)
