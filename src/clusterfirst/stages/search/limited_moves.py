"""The small steps of a day with constraints: moves priced and checked in O(1).

The same moves as on a plain day (`moves.py`), in the direction of travel. A change is
priced first; only one that is accepted is looked at for loads, stops, lengths and
minutes, by sums that are noted along the routes. Orders with wishes of their own are
looked at one by one.
"""

from __future__ import annotations

from typing import Any

from clusterfirst.stages.compiled import inlined, inner, signed
from clusterfirst.stages.search.limit_checks import (
    enter,
    leave,
    leg_minutes,
    may_move,
    minutes_between,
)
from clusterfirst.stages.search.limited_changes import (
    all_may,
    change_vehicle,
    moved_price,
    now,
    pair_price,
    priced_up_to,
    settle,
)
from clusterfirst.stages.search.linked import (
    after,
    before,
    distance,
    link,
    route_of,
    unlink,
)
from clusterfirst.stages.search.moves import leaving


@inlined
def _string_sums(
    data: Any, limits: Any, tours: Any, first: int, last: int
) -> tuple[float, float, float, float]:
    """Length and minutes of a string, driven ahead and back."""
    ahead, back, minutes, minutes_back = 0.0, 0.0, limits.service[first], 0.0
    node = first
    while node != last:
        onward = after(tours, node)
        ahead += tours.gap[node]
        back += distance(data, onward, node)
        minutes += limits.service[onward]
        minutes_back += minutes_between(data, limits, onward, node)
        minutes_back -= leg_minutes(data, limits, node, onward)
        minutes += leg_minutes(data, limits, node, onward)
        node = onward
    return ahead, back, minutes, minutes + minutes_back


@inlined
def move_string(
    data: Any, limits: Any, state: Any, u: int, v: int, coins: int, allowed: float
) -> None:
    """Move a string of one to three customers that ends at u next to v (or-opt)."""
    tours = state[0]
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
    moving, fee = 0.0, 0.0
    if limits.priced > 0 and route_of(tours, u) != route_of(tours, v):
        moving = moved_price(limits, tours, first, q, route_of(tours, v))
        if tours.size[route_of(tours, u)] == number:
            fee = -limits.fixed[route_of(tours, u)]
    limit = priced_up_to(limits, allowed - moving - fee)
    leaving = distance(data, p, q) - tours.gap[p] - tours.gap[last]
    delta = leaving + distance(data, a, head) - tours.gap[a]
    if delta >= limit:
        return
    delta += distance(data, foot, b)
    if delta >= limit:
        return
    s = route_of(tours, v)
    if route_of(tours, u) != s and tours.load[s] + demand > limits.capacity[s]:
        return
    string = (first, last, p, q, a, b, head, foot)
    _make_string(
        data,
        limits,
        state,
        string,
        (number, demand),
        (leaving, delta, moving, fee),
        allowed,
    )


@inner
def _make_string(
    data: Any,
    limits: Any,
    state: Any,
    string: Any,
    amounts: Any,
    prices: Any,
    allowed: float,
) -> None:
    """Move a string that is short enough a way to go, if the limits are kept."""
    tours = state[0]
    first, last, p, q, a, b, head, foot = string
    number, demand = amounts
    leaving, delta, moving, fee = prices
    r, s = route_of(tours, first), route_of(tours, a)
    turned = head != first
    way, back, minutes, minutes_back = _string_sums(data, limits, tours, first, last)
    if limits.one_way > 0 and turned:
        delta += back - way
        if delta >= priced_up_to(limits, allowed - moving - fee):
            return
    if limits.picky > 0 and not all_may(limits, tours, first, q, s):
        return
    out_time, in_time = 0.0, 0.0
    if limits.timed > 0:
        out_time = minutes_between(data, limits, p, q) - minutes
        out_time -= leg_minutes(data, limits, p, first)
        out_time -= leg_minutes(data, limits, last, q)
        in_time = minutes_between(data, limits, a, head)
        in_time += minutes_between(data, limits, foot, b)
        in_time -= leg_minutes(data, limits, a, b)
        in_time += minutes_back if turned else minutes
    change = (delta + fee, moving, allowed)
    load, size, length, time = now(limits, tours, r)
    new = (load, size, length + delta, time + out_time + in_time)
    there = new
    if r != s:
        shorter = leaving - way
        new = (load - demand, size - number, length + shorter, time + out_time)
        load, size, length, time = now(limits, tours, s)
        longer = delta - shorter
        there = (load + demand, size + number, length + longer, time + in_time)
    if not settle(limits, state, change, (r, s), new, there):
        return
    change_vehicle(limits, tours, first, q, s)
    node, stand = first, a
    while True:
        onward = after(tours, node)
        unlink(data, tours, node)
        link(data, tours, node, stand)
        if node == last:
            return
        if not turned:
            stand = node
        node = onward


@inlined
def swap(
    data: Any, limits: Any, state: Any, u: int, v: int, coins: int, allowed: float
) -> None:
    """Let u and the customer next to v take each other's places."""
    tours = state[0]
    n = len(data.demands) - 1
    x = after(tours, v) if coins & 1 == 0 else before(tours, v)
    p, q = before(tours, u), after(tours, u)
    if x > n or x in (u, p, q):
        return
    a, b = before(tours, x), after(tours, x)
    price = 0.0
    if limits.priced > 0:
        price = pair_price(limits, tours, u, x)
    limit = priced_up_to(limits, allowed - price)
    there = tours.gap[a] + tours.gap[x]
    here = distance(data, p, x) + distance(data, x, q) - tours.gap[p] - tours.gap[u]
    if here - there >= limit:
        return
    there = distance(data, a, u) + distance(data, u, b) - there
    if here + there >= limit:
        return
    here_time, there_time = 0.0, 0.0
    if limits.timed > 0:
        here_time = _detour_minutes(data, limits, p, x, q)
        here_time -= leg_minutes(data, limits, p, u)
        here_time -= leg_minutes(data, limits, u, q)
        there_time = _detour_minutes(data, limits, a, u, b)
        there_time -= leg_minutes(data, limits, a, x)
        there_time -= leg_minutes(data, limits, x, b)
    shift = data.demands[u] - data.demands[x]
    sums = (shift, here, there, here_time, there_time)
    if _trade_places(limits, state, u, x, sums, (here + there, price, allowed)):
        unlink(data, tours, u)
        link(data, tours, u, x)
        unlink(data, tours, x)
        link(data, tours, x, p)


@inlined
def _detour_minutes(data: Any, limits: Any, a: int, c: int, b: int) -> float:
    """Minutes from a over c to b, without the stop itself."""
    there = minutes_between(data, limits, a, c)
    return float(there + minutes_between(data, limits, c, b))


@inner
def _trade_places(
    limits: Any, state: Any, u: int, x: int, sums: Any, change: Any
) -> bool:
    """Whether u and x may take each other's places; if so, it is counted."""
    tours = state[0]
    shift, here, there, here_time, there_time = sums
    r, s = route_of(tours, u), route_of(tours, x)
    load, size, length, time = now(limits, tours, r)
    new = (load, size, length + here + there, time + here_time + there_time)
    other = new
    if r != s:
        if limits.picky > 0 and not (
            may_move(limits, u, s, 1) and may_move(limits, x, r, 1)
        ):
            return False
        stop = limits.service[u] - limits.service[x]
        new = (load - shift, size, length + here, time + here_time - stop)
        load, size, length, time = now(limits, tours, s)
        other = (load + shift, size, length + there, time + there_time + stop)
    if not settle(limits, state, change, (r, s), new, other):
        return False
    if limits.watched > 0 and r != s:
        leave(limits, u, r)
        leave(limits, x, s)
        enter(limits, u, s)
        enter(limits, x, r)
    return True


@inlined
def exchange(
    data: Any, limits: Any, state: Any, u: int, v: int, allowed: float
) -> None:
    """Let u and v change routes, each going where it fits best (SWAP*)."""
    tours = state[0]
    r, s = route_of(tours, u), route_of(tours, v)
    shift = data.demands[u] - data.demands[v]
    if tours.load[s] + shift > limits.capacity[s]:
        return
    if tours.load[r] - shift > limits.capacity[r]:
        return
    price = pair_price(limits, tours, u, v) if limits.priced > 0 else 0.0
    limit = priced_up_to(limits, allowed - price)
    here, there = leaving(data, tours, u), leaving(data, tours, v)
    if here + there >= limit:
        return
    at_u, more = _place_without(data, tours, state[2], limits.one_way, u, v)
    there += more
    if here + there >= limit:
        return
    at_v, more = _place_without(data, tours, state[2], limits.one_way, v, u)
    here += more
    if here + there >= limit:
        return
    here_time, there_time = 0.0, 0.0
    if limits.timed > 0:
        here_time = _minutes_without(data, limits, tours, at_v, v, u)
        there_time = _minutes_without(data, limits, tours, at_u, u, v)
    sums = (shift, here, there, here_time, there_time)
    if _trade_places(limits, state, u, v, sums, (here + there, price, allowed)):
        unlink(data, tours, u)
        unlink(data, tours, v)
        link(data, tours, u, at_u)
        link(data, tours, v, at_v)


@inner
def _minutes_without(
    data: Any, limits: Any, tours: Any, at: int, u: int, v: int
) -> float:
    """Minutes on the road when v has left its route and u stands behind `at`."""
    a, b = before(tours, v), after(tours, v)
    change = -leg_minutes(data, limits, a, v) - leg_minutes(data, limits, v, b)
    if at == a:
        return change + _detour_minutes(data, limits, a, u, b)
    change += minutes_between(data, limits, a, b)
    onward = after(tours, at)
    change -= leg_minutes(data, limits, at, onward)
    return change + _detour_minutes(data, limits, at, u, onward)


@inner
def _place_without(
    data: Any, tours: Any, ruins: Any, one_way: int, u: int, v: int
) -> tuple[int, float]:
    """The best place of u in the route of v when v has left: behind whom, and cost."""
    where, b = before(tours, v), after(tours, v)
    best = distance(data, where, u) + distance(data, u, b)
    best -= distance(data, where, b)
    s = route_of(tours, v)
    for i in range(data.near.shape[1]):
        w = signed(data.near[u, i])
        if w == 0:
            break
        if route_of(tours, w) != s or w == v or ruins.absent[w] == 1:
            continue
        to = fro = data.near_gap[u, i]
        if one_way > 0:
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
