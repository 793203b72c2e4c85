"""The steps that exchange whole ends of routes, or vehicles, within the limits.

2-opt in a route, 2-opt* between two, a new vehicle for what follows a stop, and two
vehicles that trade their routes: what a route becomes is read from sums noted along it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clusterfirst.stages.compiled import inlined, inner, random_bits, signed
from clusterfirst.stages.search.limit_checks import (
    keeps,
    leg_minutes,
    minutes_between,
    note_way,
)
from clusterfirst.stages.search.limited_changes import (
    all_may,
    change_vehicle,
    moved_price,
    now,
    priced_up_to,
    settle,
)
from clusterfirst.stages.search.limited_moves import exchange, move_string, swap
from clusterfirst.stages.search.linked import after, before, distance, join, route_of
from clusterfirst.stages.search.moves import (
    CROSS,
    EXCHANGE,
    STRING,
    SWAP,
    join_heads,
    random_customer,
    reverse,
    swap_tails,
)


@inlined
def _cross(
    data: Any, limits: Any, state: Any, u: int, v: int, coins: int, allowed: float
) -> None:
    """Change two edges so that u meets v: 2-opt in a route, 2-opt* between two."""
    tours = state[0]
    r, s = route_of(tours, u), route_of(tours, v)
    if r != s and coins & 1 == 0:
        if coins & 2 == 0:
            _cross_tails(data, limits, state, u, v, allowed)
        else:
            _cross_tails(data, limits, state, v, u, allowed)
        return
    if coins & 2 == 0:
        u, v = before(tours, u), before(tours, v)
    x, y = after(tours, u), after(tours, v)
    if x == v or y == u:
        return
    if limits.one_way == 0:
        removed = tours.gap[u] + tours.gap[v]
        delta = distance(data, u, v) + distance(data, x, y) - removed
        if delta >= priced_up_to(limits, allowed + limits.generous):
            return
    if r == s:
        _turn(data, limits, state, u, v, allowed)
    elif limits.own_starts == 0:
        _meet(data, limits, state, u, v, allowed)


@inner
def _turn(data: Any, limits: Any, state: Any, u: int, v: int, allowed: float) -> None:
    """Drive what lies between two edges u -> and v -> of a route the other way."""
    tours = state[0]
    r = route_of(tours, u)
    note_way(data, limits, tours, r)
    if tours.place[u] > tours.place[v]:
        u, v = v, u
    x, y = after(tours, u), after(tours, v)
    removed = tours.gap[u] + tours.gap[v]
    delta = distance(data, u, v) + distance(data, x, y) - removed
    time = 0.0
    if limits.timed > 0:
        time = minutes_between(data, limits, u, v) + minutes_between(data, limits, x, y)
        time -= leg_minutes(data, limits, u, x)
        time -= leg_minutes(data, limits, v, y)
    if limits.one_way > 0:
        delta += limits.back[v] - limits.back[x] - limits.ahead[v] + limits.ahead[x]
        if limits.timed > 0:
            time += limits.clock_back[v] - limits.clock_back[x]
            time -= limits.clock[v] - limits.clock[x]
    if delta >= priced_up_to(limits, allowed):
        return
    load, size, length, minutes = now(limits, tours, r)
    new = (load, size, length + delta, minutes + time)
    if not settle(limits, state, (delta, 0.0, allowed), (r, r), new, new):
        return
    if limits.one_way == 0:
        reverse(data, tours, u, v)
        return
    last, node = y, x
    while last != v:
        onward = after(tours, node)
        join(data, tours, node, last)
        last, node = node, onward
    join(data, tours, u, v)


@inner
def _meet(data: Any, limits: Any, state: Any, u: int, v: int, allowed: float) -> None:
    """Let the way to u go on backwards from v, and join what followed the two."""
    tours = state[0]
    n = len(data.demands) - 1
    r, s = route_of(tours, u), route_of(tours, v)
    note_way(data, limits, tours, r)
    note_way(data, limits, tours, s)
    x, y = after(tours, u), after(tours, v)
    load, size = tours.upto[u] + tours.upto[v], tours.place[u] + tours.place[v]
    length = limits.ahead[u] + distance(data, u, v) + limits.back[v]
    time = limits.clock[u] + minutes_between(data, limits, u, v) + limits.clock_back[v]
    rest = distance(data, x, y)
    late = minutes_between(data, limits, x, y)
    if x <= n:
        rest += limits.length_back[r] - limits.back[x]
        late += limits.minutes_back[r] - limits.clock_back[x] + limits.service[x]
    if y <= n:
        rest += limits.length[s] - limits.ahead[y]
        late += limits.minutes[s] - limits.clock[y] + limits.service[y]
    one = (load, signed(size), length, time)
    more = tours.size[r] + tours.size[s] - signed(size)
    two = (tours.load[r] + tours.load[s] - load, more, rest, late)
    delta = length + rest - limits.length[r] - limits.length[s]
    if delta >= priced_up_to(limits, allowed + limits.generous):
        return
    if not (keeps(limits, r, one) and keeps(limits, s, two)):
        return
    first, stop = after(tours, n + 1 + s), y
    if limits.picky > 0 and not (
        all_may(limits, tours, x, n + 1 + r, s)
        and all_may(limits, tours, first, stop, r)
    ):
        return
    moving = 0.0
    if limits.priced > 0:
        moving = moved_price(limits, tours, x, n + 1 + r, s)
        moving += moved_price(limits, tours, first, stop, r)
        delta += _fees(limits, tours, r, s, one, two)
        if delta + moving >= priced_up_to(limits, allowed):
            return
    if not settle(limits, state, (delta, moving, allowed), (r, s), one, two):
        return
    # Both before either: a group that rides on one of them is never on both.
    change_vehicle(limits, tours, x, n + 1 + r, s)
    change_vehicle(limits, tours, first, stop, r)
    join_heads(data, tours, u, v)


@inlined
def _fees(limits: Any, tours: Any, r: int, s: int, one: Any, two: Any) -> float:
    """What vehicles r and s cost when they drive these routes, less what they do."""
    fee = 0.0
    for k, new in ((r, one), (s, two)):
        if tours.size[k] > 0 and new[1] == 0:
            fee -= limits.fixed[k]
        if tours.size[k] == 0 and new[1] > 0:
            fee += limits.fixed[k]
    return fee


@inlined
def _cross_tails(
    data: Any, limits: Any, state: Any, u: int, v: int, allowed: float
) -> None:
    """Let v follow u, and what followed u what was before v (2-opt*)."""
    tours = state[0]
    x, y = after(tours, u), before(tours, v)
    delta = distance(data, u, v) + distance(data, y, x) - tours.gap[u] - tours.gap[y]
    if delta < priced_up_to(limits, allowed + limits.generous):
        _exchange_tails(data, limits, state, u, v, allowed)


@inner
def _exchange_tails(
    data: Any, limits: Any, state: Any, u: int, v: int, allowed: float
) -> None:
    """Exchange what follows u with v and what follows it, if the limits are kept.

    Where the vehicles differ, each may have either of the new routes. v may be the
    depot of an empty route.
    """
    tours = state[0]
    n = len(data.demands) - 1
    r, s = route_of(tours, u), route_of(tours, v)
    x = after(tours, u)
    one, two = _crossed(data, limits, tours, u, v)
    delta = one[2] + two[2] - limits.length[r] - limits.length[s]
    if limits.priced == 0 and delta >= priced_up_to(limits, allowed):
        return  # before the walk along the two ends
    straight = keeps(limits, r, one) and keeps(limits, s, two)
    if straight and limits.picky > 0:
        straight = all_may(limits, tours, x, n + 1 + r, s)
        straight = straight and all_may(limits, tours, v, n + 1 + s, r)
    moving = 0.0
    if straight:
        if limits.priced > 0:
            moving = moved_price(limits, tours, x, n + 1 + r, s)
            moving += moved_price(limits, tours, v, n + 1 + s, r)
            delta += _fees(limits, tours, r, s, one, two)
        if delta + moving >= priced_up_to(limits, allowed):
            return
        if settle(limits, state, (delta, moving, allowed), (r, s), one, two):
            change_vehicle(limits, tours, x, n + 1 + r, s)
            change_vehicle(limits, tours, v, n + 1 + s, r)
            swap_tails(data, tours, u, v)
        return
    if limits.mixed == 0 or limits.own_starts > 0:
        return
    if not (keeps(limits, s, one) and keeps(limits, r, two)):
        return
    head, other = after(tours, n + 1 + r), after(tours, n + 1 + s)
    if limits.picky > 0 and not (
        all_may(limits, tours, head, x, s) and all_may(limits, tours, other, v, r)
    ):
        return
    if limits.priced > 0:
        moving = moved_price(limits, tours, head, x, s)
        moving += moved_price(limits, tours, other, v, r)
        delta += _fees(limits, tours, r, s, two, one)
    if delta + moving >= priced_up_to(limits, allowed):
        return
    if settle(limits, state, (delta, moving, allowed), (r, s), two, one):
        change_vehicle(limits, tours, head, x, s)
        change_vehicle(limits, tours, other, v, r)
        swap_tails(data, tours, u, v)
        _trade_routes(data, tours, r, s)


@inlined
def _crossed(
    data: Any, limits: Any, tours: Any, u: int, v: int
) -> tuple[tuple[int, int, float, float], tuple[int, int, float, float]]:
    """The two routes once v follows u: loads, stops, lengths and minutes."""
    n = len(data.demands) - 1
    r, s = route_of(tours, u), route_of(tours, v)
    note_way(data, limits, tours, r)
    note_way(data, limits, tours, s)
    x, y = after(tours, u), before(tours, v)
    load = tours.upto[u] + tours.load[s] - tours.upto[y]
    size = signed(tours.place[u]) + tours.size[s] - signed(tours.place[y])
    length = limits.ahead[u] + distance(data, u, v)
    time = limits.clock[u] + minutes_between(data, limits, u, v)
    if v <= n:
        length += limits.length[s] - limits.ahead[v]
        time += limits.minutes[s] - limits.clock[v] + limits.service[v]
    rest = limits.ahead[y] + distance(data, y, x)
    late = limits.clock[y] + minutes_between(data, limits, y, x)
    if x <= n:
        rest += limits.length[r] - limits.ahead[x]
        late += limits.minutes[r] - limits.clock[x] + limits.service[x]
    one = (load, size, length, time)
    more = tours.size[r] + tours.size[s] - size
    return one, (tours.load[r] + tours.load[s] - load, more, rest, late)


@inner
def _trade_routes(data: Any, tours: Any, r: int, s: int) -> None:
    """Let vehicles r and s drive each other's routes."""
    n = len(data.demands) - 1
    here, there = n + 1 + r, n + 1 + s
    ends = (after(tours, here), before(tours, here))
    others = (after(tours, there), before(tours, there))
    for depot, (first, last), own in ((here, others, r), (there, ends, s)):
        if first > n:
            join(data, tours, depot, depot)
            continue
        join(data, tours, depot, first)
        join(data, tours, last, depot)
        node = first
        while node != depot:
            tours.route[node] = own
            node = after(tours, node)
    tours.load[r], tours.load[s] = tours.load[s], tours.load[r]
    tours.size[r], tours.size[s] = tours.size[s], tours.size[r]


@inner
def _suits(limits: Any, tours: Any, r: int, s: int) -> bool:
    """Whether vehicle s is allowed for every order of route r; groups stay together."""
    depot = len(tours.after) - len(tours.size) + r
    node = after(tours, depot)
    while limits.picky > 0 and node != depot:
        if limits.allowed[limits.wish[node], s] == 0:
            return False
        node = after(tours, node)
    return True


@inner
def _trade(data: Any, limits: Any, state: Any, r: int, s: int, allowed: float) -> None:
    """Let two vehicles trade their routes, or one of them stay at home."""
    tours = state[0]
    n = len(data.demands) - 1
    if r == s or limits.own_starts > 0:
        return
    mine, other = now(limits, tours, r), now(limits, tours, s)
    if not (keeps(limits, s, mine) and keeps(limits, r, other)):
        return
    first, others = after(tours, n + 1 + r), after(tours, n + 1 + s)
    if not (_suits(limits, tours, r, s) and _suits(limits, tours, s, r)):
        return
    delta = _fees(limits, tours, r, s, other, mine)
    moving = moved_price(limits, tours, first, n + 1 + r, s)
    moving += moved_price(limits, tours, others, n + 1 + s, r)
    if delta + moving >= allowed:
        return
    if settle(limits, state, (delta, moving, allowed), (r, s), other, mine):
        change_vehicle(limits, tours, first, n + 1 + r, s)
        change_vehicle(limits, tours, others, n + 1 + s, r)
        _trade_routes(data, tours, r, s)


@inner
def _open_route(data: Any, limits: Any, state: Any, u: int, allowed: float) -> None:
    """Let an idle vehicle take over what follows u."""
    tours = state[0]
    x, depot = after(tours, u), len(data.demands)
    seen = -1
    if x >= depot:
        return
    for s in range(len(tours.size)):
        if tours.size[s] > 0 or limits.kind[s] == seen:
            continue
        seen = limits.kind[s]
        free = depot + s
        delta = distance(data, u, free) + distance(data, free, x) - tours.gap[u]
        delta += limits.fixed[s] - tours.gap[free]
        if delta < priced_up_to(limits, allowed + limits.generous):
            _exchange_tails(data, limits, state, u, free, allowed)
            if after(tours, u) != x:
                return


@inlined
def random_limited_move(
    data: Any, limits: Any, state: Any, plan: Any, temperature: float
) -> None:
    """Draw a move and make it if its change is accepted and every limit is kept."""
    tours, memory, ruins = state
    u = random_customer(data, tours, random_bits(memory.rng))
    bits = random_bits(memory.rng)
    kind = plan.kinds[bits & np.uint64(255)]
    pick = (bits >> np.uint64(8)) & np.uint64(0xFFFF)
    v = signed(data.near[u, (pick * plan.partners) >> np.uint64(16)])
    if v == 0 or ruins.absent[u] == 1 or ruins.absent[v] == 1:
        return
    allowed = temperature * plan.excess[(bits >> np.uint64(24)) & np.uint64(511)]
    coins = signed((bits >> np.uint64(40)) & np.uint64(255))
    if kind == STRING:
        move_string(data, limits, state, u, v, coins, allowed)
    elif kind == SWAP:
        swap(data, limits, state, u, v, coins, allowed)
    elif kind == CROSS:
        _cross(data, limits, state, u, v, coins, allowed)
    elif kind == EXCHANGE:
        if route_of(tours, u) != route_of(tours, v):
            exchange(data, limits, state, u, v, allowed)
    elif limits.mixed > 0 and coins & 1 == 0:
        r = route_of(tours, u)
        s = signed((pick * np.uint64(len(tours.size))) >> np.uint64(16))
        _trade(data, limits, state, r, s, allowed)
    else:
        _open_route(data, limits, state, u, allowed)
