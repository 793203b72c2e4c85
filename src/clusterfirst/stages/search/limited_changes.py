"""A change of two routes within the limits: whether it may be, its price, its count."""

from __future__ import annotations

import math
from typing import Any

from clusterfirst.stages.compiled import inlined, inner
from clusterfirst.stages.search.limit_checks import (
    away,
    enter,
    keeps,
    leave,
    may_move,
    uneven,
)
from clusterfirst.stages.search.linked import accept, after, route_of


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
    if r == s:
        return 0.0
    price = away(limits, u, s) - away(limits, u, r)
    return float(price + away(limits, v, r) - away(limits, v, s))
