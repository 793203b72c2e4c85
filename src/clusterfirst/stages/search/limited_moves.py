"""Whether a priced move keeps the limits, what it costs beside the way, its count.

The moves are those of a plain day (`moves.py`), in the direction of travel. A change is
priced first; only one that is accepted is looked at here for loads, stops, lengths and
minutes, by sums that are noted along the routes. Orders with wishes of their own are
looked at one by one.
"""

from __future__ import annotations

import math
from typing import Any

from clusterfirst.stages.compiled import inlined, inner
from clusterfirst.stages.search.limit_checks import (
    away,
    enter,
    keeps,
    leave,
    leg_minutes,
    may_move,
    minutes_between,
    uneven,
)
from clusterfirst.stages.search.linked import accept, after, before, distance, route_of


@inlined
def settle(
    limits: Any, state: Any, change: Any, pair: Any, new_r: Any, new_s: Any
) -> bool:
    """Count a change of two routes unless a limit, or its price, is against it.

    `change` is the cost, the price of orders that leave their vehicles, and what is
    allowed of both; the new routes are loads, stops, lengths and minutes.
    """
    delta, moving, allowed = change
    r, s = pair
    tours, memory, _ = state
    if moving > 0.0 and limits.away_now[0] * limits.move_price + moving > limits.most:
        return False
    delta += moving
    if not keeps(limits, r, new_r) or (r != s and not keeps(limits, s, new_s)):
        return False
    if limits.balance > 0:
        delta += uneven(limits, new_r) - uneven(limits, now(limits, tours, r))
        if r != s:
            delta += uneven(limits, new_s) - uneven(limits, now(limits, tours, s))
        if delta >= allowed:
            return False
    accept(tours, memory, delta, r, s)
    limits.length[r], limits.minutes[r] = new_r[2], new_r[3]
    if r != s:
        limits.length[s], limits.minutes[s] = new_s[2], new_s[3]
    return True


@inlined
def now(limits: Any, tours: Any, r: int) -> tuple[int, int, float, float]:
    return tours.load[r], tours.size[r], limits.length[r], limits.minutes[r]


@inlined
def priced_up_to(limits: Any, allowed: float) -> float:
    """Above what change of length a move is not looked at any further."""
    return math.inf if limits.balance > 0 else allowed


@inlined
def generous(limits: Any, allowed: float) -> float:
    """The same where prices of vehicles and orders that move are not known yet."""
    return priced_up_to(limits, allowed + limits.generous)


@inner
def all_may(limits: Any, tours: Any, node: int, stop: int, s: int) -> bool:
    """Whether vehicle s may take every order from a node up to before another."""
    r, first = route_of(tours, node), node
    while r != s and node != stop:
        if not may_move(limits, node, s, _fellows(limits, tours, first, stop, node)):
            return False
        node = after(tours, node)
    return True


@inlined
def _fellows(limits: Any, tours: Any, first: int, stop: int, c: int) -> int:
    """How many of the group of c are between two nodes, c among them."""
    g, count = limits.group[c], 0
    while g >= 0 and first != stop:
        count += limits.group[first] == g
        first = after(tours, first)
    return count


@inner
def moved_price(limits: Any, tours: Any, node: int, stop: int, s: int) -> float:
    """What it costs that the orders from a node up to before another change to s."""
    r, price = route_of(tours, node), 0.0
    while node != stop:
        price += away(limits, node, s) - away(limits, node, r)
        node = after(tours, node)
    return price


@inner
def change_vehicle(limits: Any, tours: Any, node: int, stop: int, s: int) -> None:
    """Note that the orders from a node up to before another ride on s from now on."""
    r = route_of(tours, node)
    while limits.watched > 0 and r != s and node != stop:
        leave(limits, node, r)
        enter(limits, node, s)
        node = after(tours, node)


@inlined
def pair_price(limits: Any, tours: Any, u: int, v: int) -> float:
    """What it costs, beside the way, that u and v change routes."""
    r, s = route_of(tours, u), route_of(tours, v)
    if limits.priced == 0 or r == s:
        return 0.0
    price = away(limits, u, s) - away(limits, u, r)
    return float(price + away(limits, v, r) - away(limits, v, s))


@inner
def string_prices(
    limits: Any, tours: Any, first: int, p: int, q: int, v: int
) -> tuple[float, float]:
    """What it costs that the orders from first to before q ride with v.

    The price of those that move, and that of a vehicle that is left without stops.
    """
    r, s = route_of(tours, first), route_of(tours, v)
    if r == s:
        return 0.0, 0.0
    fee = -limits.fixed[r] if p == q else 0.0
    return moved_price(limits, tours, first, q, s), fee


@inner
def string_fits(
    data: Any, limits: Any, state: Any, string: Any, amounts: Any, allowed: float
) -> bool:
    """Whether a string, short enough a way to go, may move; if so, it is counted."""
    tours = state[0]
    first, last, p, q, a, b, head, foot = string
    number, demand = amounts
    r, s = route_of(tours, first), route_of(tours, a)
    turned = head != first
    way, back, minutes, minutes_back = _string_sums(data, limits, tours, first, last)
    leaving = distance(data, p, q) - tours.gap[p] - tours.gap[last]
    delta = leaving + distance(data, a, head) - tours.gap[a] + distance(data, foot, b)
    if limits.one_way > 0 and turned:
        delta += back - way
    moving, fee = 0.0, 0.0
    if limits.priced > 0:
        moving, fee = string_prices(limits, tours, first, p, q, a)
    if delta >= priced_up_to(limits, allowed - moving - fee):
        return False
    if limits.picky > 0 and not all_may(limits, tours, first, q, s):
        return False
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
        return False
    change_vehicle(limits, tours, first, q, s)
    return True


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


@inner
def swap_fits(
    data: Any, limits: Any, state: Any, u: int, x: int, allowed: float
) -> bool:
    """Whether u and x may take each other's places; if so, it is counted."""
    tours = state[0]
    p, q, a, b = before(tours, u), after(tours, u), before(tours, x), after(tours, x)
    here = distance(data, p, x) + distance(data, x, q) - tours.gap[p] - tours.gap[u]
    there = distance(data, a, u) + distance(data, u, b) - tours.gap[a] - tours.gap[x]
    here_time, there_time = 0.0, 0.0
    if limits.timed > 0:
        here_time = _detour_minutes(data, limits, p, x, q)
        here_time -= leg_minutes(data, limits, p, u)
        here_time -= leg_minutes(data, limits, u, q)
        there_time = _detour_minutes(data, limits, a, u, b)
        there_time -= leg_minutes(data, limits, a, x)
        there_time -= leg_minutes(data, limits, x, b)
    sums = (here, there, here_time, there_time)
    return _trade_places(data, limits, state, (u, x), sums, allowed)


@inner
def exchange_fits(
    data: Any, limits: Any, state: Any, go: Any, come: Any, allowed: float
) -> bool:
    """Whether two orders may change routes; if so, it is counted.

    Each of them comes with the node it shall stand behind and the length it adds there.
    """
    tours = state[0]
    (u, at_u, more_u), (v, at_v, more_v) = go, come
    here = leaving(data, tours, u) + more_v
    there = leaving(data, tours, v) + more_u
    here_time, there_time = 0.0, 0.0
    if limits.timed > 0:
        here_time = _minutes_without(data, limits, tours, at_v, v, u)
        there_time = _minutes_without(data, limits, tours, at_u, u, v)
    sums = (here, there, here_time, there_time)
    return _trade_places(data, limits, state, (u, v), sums, allowed)


@inlined
def leaving(data: Any, tours: Any, u: int) -> float:
    """Change in length when u leaves its route."""
    a = before(tours, u)
    short = distance(data, a, after(tours, u))
    return float(short - tours.gap[a] - tours.gap[u])


@inlined
def _detour_minutes(data: Any, limits: Any, a: int, c: int, b: int) -> float:
    """Minutes from a over c to b, without the stop itself."""
    there = minutes_between(data, limits, a, c)
    return float(there + minutes_between(data, limits, c, b))


@inner
def _trade_places(
    data: Any, limits: Any, state: Any, pair: Any, sums: Any, allowed: float
) -> bool:
    """Whether two orders may ride for each other; if so, it is counted."""
    tours = state[0]
    u, x = pair
    here, there, here_time, there_time = sums
    change = (here + there, pair_price(limits, tours, u, x), allowed)
    shift = data.demands[u] - data.demands[x]
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
