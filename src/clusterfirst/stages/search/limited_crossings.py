"""The steps that exchange whole ends of routes, or vehicles, within the limits.

2-opt in a route, 2-opt* between two, a new vehicle for what follows a stop, and two
vehicles that trade their routes: what a route becomes is read from sums noted along it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clusterfirst.stages.compiled import inlined, inner, signed
from clusterfirst.stages.search.limit_checks import (
    keeps,
    leg_minutes,
    minutes_between,
    note_way,
)
from clusterfirst.stages.search.limited_moves import (
    all_may,
    change_vehicle,
    generous,
    moved_price,
    now,
    priced_up_to,
    settle,
)
from clusterfirst.stages.search.linked import after, before, distance, route_of
from clusterfirst.stages.search.rewiring import (
    join_heads,
    reverse,
    swap_tails,
    trade_routes,
)


@inlined
def turn_or_meet(
    data: Any, limits: Any, state: Any, u: int, v: int, allowed: float
) -> None:
    """Let u meet v, and what follows them: 2-opt in a route, 2-opt* between two."""
    if route_of(state[0], u) == route_of(state[0], v):
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
    if settle(limits, state, (delta, 0.0, allowed), (r, r), new, new):
        reverse(data, tours, u, v, limits.one_way)


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
    if delta >= generous(limits, allowed):
        return
    if not (keeps(limits, r, one) and keeps(limits, s, two)):
        return
    ends = (x, n + 1 + r, after(tours, n + 1 + s), y)
    if _may_trade(limits, tours, r, s, ends) and _traded(
        limits, state, (r, s), ends, (one, two), (delta, allowed)
    ):
        join_heads(data, tours, u, v)


@inlined
def _may_trade(limits: Any, tours: Any, r: int, s: int, ends: Any) -> bool:
    """Whether an end of r may ride on s, and one of s on r.

    `ends` are the first order and what follows the last one, of r and of s.
    """
    first, stop, other, until = ends
    return bool(
        limits.picky == 0
        or (
            all_may(limits, tours, first, stop, s)
            and all_may(limits, tours, other, until, r)
        )
    )


@inner
def _traded(
    limits: Any, state: Any, pair: Any, ends: Any, new: Any, price: Any
) -> bool:
    """Whether ends of two routes change vehicle: not if that is too dear.

    `price` is the change in length and what is allowed. What is accepted is counted.
    """
    tours = state[0]
    r, s = pair
    first, stop, other, until = ends
    delta, allowed = price
    moving = 0.0
    if limits.priced > 0:
        moving = moved_price(limits, tours, first, stop, s)
        moving += moved_price(limits, tours, other, until, r)
        delta += _fees(limits, tours, r, s, new[0], new[1])
    if delta + moving >= priced_up_to(limits, allowed):
        return False
    if not settle(limits, state, (delta, moving, allowed), pair, new[0], new[1]):
        return False
    # Both before either: a group that rides on one of them is never on both.
    change_vehicle(limits, tours, first, stop, s)
    change_vehicle(limits, tours, other, until, r)
    return True


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


@inner
def exchange_tails(
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
    price = (delta, allowed)
    if keeps(limits, r, one) and keeps(limits, s, two):
        ends = (x, n + 1 + r, v, n + 1 + s)
        if _may_trade(limits, tours, r, s, ends):
            if _traded(limits, state, (r, s), ends, (one, two), price):
                swap_tails(data, tours, u, v)
            return
    if limits.mixed == 0 or limits.own_starts > 0:
        return
    if not (keeps(limits, s, one) and keeps(limits, r, two)):
        return
    ends = (after(tours, n + 1 + r), x, after(tours, n + 1 + s), v)
    if _may_trade(limits, tours, r, s, ends) and _traded(
        limits, state, (r, s), ends, (two, one), price
    ):
        swap_tails(data, tours, u, v)
        trade_routes(data, tours, r, s)


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
    ends = (first, n + 1 + r, others, n + 1 + s)
    if _traded(limits, state, (r, s), ends, (other, mine), (0.0, allowed)):
        trade_routes(data, tours, r, s)


@inlined
def open_or_trade(
    data: Any, limits: Any, state: Any, u: int, drawn: Any, allowed: float
) -> None:
    """Let a vehicle take over what follows u, or two vehicles trade their routes."""
    coins, pick = drawn
    if limits.mixed > 0 and coins & 1 == 0:
        count = np.uint64(len(state[0].size))
        s = signed((pick * count) >> np.uint64(16))
        _trade(data, limits, state, route_of(state[0], u), s, allowed)
    else:
        _open_route(data, limits, state, u, allowed)


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
        if delta < generous(limits, allowed):
            exchange_tails(data, limits, state, u, free, allowed)
            if after(tours, u) != x:
                return
