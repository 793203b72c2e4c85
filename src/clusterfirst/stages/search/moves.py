"""Moves drawn at random and priced in O(1): the small steps of the annealing.

Every move makes a customer u a neighbour of v, one of its nearest. Its change in length
is priced first; only a change that is accepted is looked at for loads, and only then
are routes walked along. Each move is one function: price, fit, accept, make.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clusterfirst.stages.compiled import inlined, inner, random_bits, signed
from clusterfirst.stages.search.linked import (
    accept,
    after,
    before,
    distance,
    join,
    link,
    note,
    route_of,
    unlink,
)

STRING, SWAP, CROSS, EXCHANGE, OPEN = range(5)
LOW = np.uint64(0xFFFFFFFF)


@inlined
def move_string(
    data: Any, tours: Any, memory: Any, u: int, v: int, coins: int, allowed: float
) -> None:
    """Move a string of one to three customers that ends at u next to v (or-opt)."""
    n = len(data.demands) - 1
    count = 1
    if coins & 12 == 0:
        count = 2 + (coins >> 4 & 1)
    forward, behind = coins & 1 == 0, coins & 2 == 0
    w = after(tours, v) if behind else before(tours, v)
    end, demand = u, data.demands[u]
    out = before(tours, u) if forward else after(tours, u)
    onward = after(tours, u) if forward else before(tours, u)
    while True:
        if end in (v, w):
            return
        count -= 1
        if count == 0 or onward > n:
            break
        end = onward
        demand += data.demands[end]
        onward = after(tours, end) if forward else before(tours, end)
    removed = tours.gap[v if behind else w]
    if forward:
        removed += tours.gap[out] + tours.gap[end]
    else:
        removed += tours.gap[u] + tours.gap[onward]
    delta = distance(data, out, onward) + distance(data, u, v) - removed
    if delta >= allowed:
        return
    delta += distance(data, end, w)
    if delta >= allowed:
        return
    r, s = route_of(tours, u), route_of(tours, v)
    if r != s and tours.load[s] + demand > data.capacity:
        return
    accept(tours, memory, delta, r, s)
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
    data: Any, tours: Any, memory: Any, u: int, v: int, coins: int, allowed: float
) -> None:
    """Let u and the customer next to v take each other's places."""
    n = len(data.demands) - 1
    x = after(tours, v) if coins & 1 == 0 else before(tours, v)
    p, q = before(tours, u), after(tours, u)
    if x > n or x in (u, p, q):
        return
    a, b = before(tours, x), after(tours, x)
    removed = tours.gap[p] + tours.gap[u] + tours.gap[a] + tours.gap[x]
    delta = distance(data, p, x) + distance(data, x, q) - removed
    if delta >= allowed:
        return
    delta += distance(data, a, u) + distance(data, u, b)
    if delta >= allowed:
        return
    r, s = route_of(tours, u), route_of(tours, x)
    shift = data.demands[u] - data.demands[x]
    if r != s and (
        tours.load[s] + shift > data.capacity or tours.load[r] - shift > data.capacity
    ):
        return
    accept(tours, memory, delta, r, s)
    unlink(data, tours, u)
    link(data, tours, u, x)
    unlink(data, tours, x)
    link(data, tours, x, p)


@inlined
def cross(
    data: Any, tours: Any, memory: Any, u: int, v: int, coins: int, allowed: float
) -> None:
    """Change two edges so that u meets v: 2-opt in a route, 2-opt* between two."""
    r, s = route_of(tours, u), route_of(tours, v)
    if r != s and coins & 1 == 0:
        if coins & 2 == 0:
            cross_tails(data, tours, memory, u, v, allowed)
        else:
            cross_tails(data, tours, memory, v, u, allowed)
        return
    if coins & 2 == 0:
        u, v = before(tours, u), before(tours, v)
    x, y = after(tours, u), after(tours, v)
    if x == v or y == u:
        return
    removed = tours.gap[u] + tours.gap[v]
    delta = distance(data, u, v) + distance(data, x, y) - removed
    if delta >= allowed:
        return
    if r == s:
        accept(tours, memory, delta, r, r)
        reverse(data, tours, u, v)
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
    data: Any, tours: Any, memory: Any, u: int, v: int, allowed: float
) -> None:
    """Let v follow u, and what followed u what was before v (2-opt*)."""
    x, y = after(tours, u), before(tours, v)
    delta = distance(data, u, v) + distance(data, y, x) - tours.gap[u] - tours.gap[y]
    if delta >= allowed:
        return
    r, s = route_of(tours, u), route_of(tours, v)
    note(data, tours, r)
    note(data, tours, s)
    total = tours.load[r] + tours.load[s]
    load = tours.upto[u] + tours.load[s] - tours.upto[y]
    if load <= data.capacity and total - load <= data.capacity:
        accept(tours, memory, delta, r, s)
        swap_tails(data, tours, u, v)


@inner
def swap_tails(data: Any, tours: Any, u: int, v: int) -> None:
    """Exchange what follows u with v and what follows it; v may be a depot."""
    n = len(data.demands) - 1
    r, s = route_of(tours, u), route_of(tours, v)
    x, y = after(tours, u), before(tours, v)
    ends = (before(tours, n + 1 + r), before(tours, n + 1 + s))
    for head, tail, end, own, other in ((u, v, ends[1], r, s), (y, x, ends[0], s, r)):
        if tail > n:
            join(data, tours, head, n + 1 + own)
            continue
        node = tail
        while True:
            _hand_over(data, tours, node, other, own)
            if node == end:
                break
            node = after(tours, node)
        join(data, tours, head, tail)
        join(data, tours, end, n + 1 + own)


@inner
def _hand_over(data: Any, tours: Any, node: int, old: int, new: int) -> None:
    """Count a customer for its new route; the links are the caller's."""
    tours.route[node] = new
    tours.load[new] += data.demands[node]
    tours.load[old] -= data.demands[node]
    tours.size[new] += 1
    tours.size[old] -= 1


@inner
def join_heads(data: Any, tours: Any, u: int, v: int) -> None:
    """Let the way to u go on backwards from v, and join what followed the two."""
    n = len(data.demands) - 1
    r, s = route_of(tours, u), route_of(tours, v)
    x, y = after(tours, u), after(tours, v)
    last, node = u, v
    while node <= n:
        onward = before(tours, node)
        join(data, tours, last, node)
        _hand_over(data, tours, node, s, r)
        last, node = node, onward
    join(data, tours, last, n + 1 + r)
    last, node = y, x
    while node <= n:
        onward = after(tours, node)
        join(data, tours, node, last)
        _hand_over(data, tours, node, r, s)
        last, node = node, onward
    join(data, tours, n + 1 + s, last)


@inner
def reverse(data: Any, tours: Any, u: int, v: int) -> None:
    """Turn round what lies between two edges u -> and v -> of a route.

    Either of the two pieces will do, the one with the depot too: the shorter one.
    """
    r = route_of(tours, u)
    if tours.noted[r] == 0:
        note(data, tours, r)
    tours.noted[r] = 0
    if tours.place[u] > tours.place[v]:
        u, v = v, u
    if 2 * (signed(tours.place[v]) - signed(tours.place[u])) > tours.size[r] + 1:
        u, v = v, u
    last, node = after(tours, v), after(tours, u)
    while last != v:
        onward = after(tours, node)
        join(data, tours, node, last)
        last, node = node, onward
    join(data, tours, u, v)


@inlined
def exchange(
    data: Any, tours: Any, memory: Any, u: int, v: int, allowed: float
) -> None:
    """Let u and v change routes, each going where it fits best (SWAP*).

    Vidal (Computers and Operations Research 140, 2022); places are those next to
    the nearest customers, and the one that becomes free.
    """
    r, s = route_of(tours, u), route_of(tours, v)
    shift = data.demands[u] - data.demands[v]
    if tours.load[s] + shift > data.capacity or tours.load[r] - shift > data.capacity:
        return
    delta = leaving(data, tours, u) + leaving(data, tours, v)
    if delta >= allowed:
        return
    at_u, more = _place_without(data, tours, u, v)
    delta += more
    if delta >= allowed:
        return
    at_v, more = _place_without(data, tours, v, u)
    delta += more
    if delta >= allowed:
        return
    accept(tours, memory, delta, r, s)
    unlink(data, tours, u)
    unlink(data, tours, v)
    link(data, tours, u, at_u)
    link(data, tours, v, at_v)


@inlined
def leaving(data: Any, tours: Any, u: int) -> float:
    """Change in length when u leaves its route."""
    a = before(tours, u)
    short = distance(data, a, after(tours, u))
    return float(short - tours.gap[a] - tours.gap[u])


@inner
def _place_without(data: Any, tours: Any, u: int, v: int) -> tuple[int, float]:
    """The best place of u in the route of v when v has left: behind whom, and cost."""
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
        to = data.near_gap[u, i]
        a, b = before(tours, w), after(tours, w)
        if a != v:
            extra = to + distance(data, a, u) - tours.gap[a]
            if extra < best:
                best, where = extra, a
        if b != v:
            extra = to + distance(data, u, b) - tours.gap[w]
            if extra < best:
                best, where = extra, w
    return where, best


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
    data: Any, tours: Any, memory: Any, plan: Any, temperature: float
) -> None:
    """Draw a move and make it if its change in length is accepted."""
    u = random_customer(data, tours, random_bits(memory.rng))
    bits = random_bits(memory.rng)
    kind = plan.kinds[bits & np.uint64(255)]
    pick = (bits >> np.uint64(8)) & np.uint64(0xFFFF)
    v = signed(data.near[u, (pick * plan.partners) >> np.uint64(16)])
    if v == 0:
        return
    allowed = temperature * plan.excess[(bits >> np.uint64(24)) & np.uint64(511)]
    coins = signed((bits >> np.uint64(40)) & np.uint64(255))
    if kind == STRING:
        move_string(data, tours, memory, u, v, coins, allowed)
    elif kind == SWAP:
        swap(data, tours, memory, u, v, coins, allowed)
    elif kind == CROSS:
        cross(data, tours, memory, u, v, coins, allowed)
    elif kind == EXCHANGE:
        if route_of(tours, u) != route_of(tours, v):
            exchange(data, tours, memory, u, v, allowed)
    else:
        open_route(data, tours, memory, u, allowed)
