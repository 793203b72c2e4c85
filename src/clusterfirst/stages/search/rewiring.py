"""Ends and pieces of linked routes change places: what a crossing does at last."""

from __future__ import annotations

from typing import Any

from clusterfirst.stages.compiled import inlined, inner, signed
from clusterfirst.stages.search.linked import after, before, join, note, route_of


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
    here, there, y = n + 1 + r, n + 1 + s, after(tours, v)
    end = before(tours, here)
    last = _append_backwards(data, tours, u, v, there, s, r)
    join(data, tours, last, here)
    last = _append_backwards(data, tours, there, end, u, r, s)
    join(data, tours, last, y)


@inlined
def _append_backwards(
    data: Any, tours: Any, last: int, node: int, stop: int, old: int, new: int
) -> int:
    """Go on from `last` over a node and those before it; return where that ends."""
    while node != stop:
        onward = before(tours, node)
        join(data, tours, last, node)
        _hand_over(data, tours, node, old, new)
        last, node = node, onward
    return last


@inner
def reverse(data: Any, tours: Any, u: int, v: int, one_way: int) -> None:
    """Turn round what lies between two edges u -> and v -> of a route.

    Either of the two pieces will do, the one with the depot too: the shorter one.
    Where ways differ from the ways back, only the piece without the depot will.
    """
    r = route_of(tours, u)
    if tours.noted[r] == 0:
        note(data, tours, r)
    tours.noted[r] = 0
    if tours.place[u] > tours.place[v]:
        u, v = v, u
    between = signed(tours.place[v]) - signed(tours.place[u])
    if one_way == 0 and 2 * between > tours.size[r] + 1:
        u, v = v, u
    last, node = after(tours, v), after(tours, u)
    while last != v:
        onward = after(tours, node)
        join(data, tours, node, last)
        last, node = node, onward
    join(data, tours, u, v)


@inner
def trade_routes(data: Any, tours: Any, r: int, s: int) -> None:
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
