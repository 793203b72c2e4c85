"""SWAP*: two customers change routes, each going wherever it fits best there.

Vidal (Computers and Operations Research 140, 2022). Only routes whose sectors, seen
from the depot, overlap are looked at; the three best places of every customer in the
other route are enough, because one customer leaves it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clusterfirst.problem.instance import FloatArray, IntArray
from clusterfirst.stages.compiled import inlined, inner, signed
from clusterfirst.stages.search.genetic.descent import (
    NOT_YET,
    count_move,
    leg,
    shifted,
    shuffle,
)
from clusterfirst.stages.search.linked import (
    NodeArray,
    after,
    before,
    link,
    unlink,
)

PLACES = 3
CIRCLE = 65536
NOWHERE = np.inf


class Exchanges(NamedTuple):
    """What SWAP* remembers."""

    angles: IntArray  # (n + 1,) of customers round the depot, in parts of CIRCLE
    begins: IntArray  # (routes,) angle at which the sector of the route begins
    widths: IntArray  # (routes,) and its width
    seen: IntArray  # (routes,) number of moves when the sector was measured
    tested: IntArray  # (routes,) number of moves when the route was last tested
    order: NodeArray  # (routes,) in which routes are tested
    known: IntArray  # (routes, n + 1) number of moves when places were found
    places: NodeArray  # (routes, n + 1, 3) behind whom, best first
    extras: FloatArray  # (routes, n + 1, 3) change in length there


def exchanges_for(points: FloatArray, routes: int) -> Exchanges:
    """Return the memory of SWAP* with so many routes; points as seen from the depot."""
    nodes = len(points)
    turns = np.arctan2(points[:, 1], points[:, 0]) / (2 * np.pi)
    return Exchanges(
        angles=np.floor(turns * CIRCLE).astype(np.int64) % CIRCLE,
        begins=np.zeros(routes, dtype=np.int64),
        widths=np.zeros(routes, dtype=np.int64),
        seen=np.zeros(routes, dtype=np.int64),
        tested=np.zeros(routes, dtype=np.int64),
        order=np.arange(routes, dtype=np.uint32),
        known=np.zeros((routes, nodes), dtype=np.int64),
        places=np.zeros((routes, nodes, PLACES), dtype=np.uint32),
        extras=np.zeros((routes, nodes, PLACES)),
    )


@inner
def exchange_routes(data: Any, tours: Any, descent: Any, exchanges: Any) -> None:
    """Make the best exchange of every two routes that changed and overlap."""
    for i in range(len(exchanges.order)):
        r = signed(exchanges.order[i])
        tested = exchanges.tested[r]
        exchanges.tested[r] = descent.moves[0]
        for j in range(len(exchanges.order)):
            s = signed(exchanges.order[j])
            if r >= s or tours.size[r] == 0 or tours.size[s] == 0:
                continue
            if max(descent.changed[r], descent.changed[s]) <= tested:
                continue
            if _overlap(data, tours, descent, exchanges, r, s):
                _exchange_best(data, tours, descent, exchanges, r, s)


@inner
def begin_exchanges(descent: Any, exchanges: Any) -> None:
    """Forget what a descent before this one knew; draw the order of routes anew."""
    shuffle(descent.rng, exchanges.order)
    exchanges.tested[:] = NOT_YET
    exchanges.seen[:] = NOT_YET
    exchanges.known[:, :] = NOT_YET


@inlined
def _overlap(
    data: Any, tours: Any, descent: Any, exchanges: Any, r: int, s: int
) -> bool:
    """Whether the sectors of two routes do."""
    _measure(data, tours, descent, exchanges, r)
    _measure(data, tours, descent, exchanges, s)
    ahead = (exchanges.begins[s] - exchanges.begins[r]) % CIRCLE
    behind = (exchanges.begins[r] - exchanges.begins[s]) % CIRCLE
    return bool(ahead <= exchanges.widths[r] or behind <= exchanges.widths[s])


@inner
def _measure(data: Any, tours: Any, descent: Any, exchanges: Any, r: int) -> None:
    """The sector of a route: each customer widens it on the nearer side."""
    if exchanges.seen[r] >= descent.changed[r]:
        return
    exchanges.seen[r] = descent.moves[0]
    n = len(data.demands) - 1
    node = after(tours, n + 1 + r)
    begin, width = exchanges.angles[node], 0
    while node <= n:
        at = (exchanges.angles[node] - begin) % CIRCLE
        if at > width:
            if at - width <= CIRCLE - at:
                width = at
            else:
                begin = exchanges.angles[node]
                width += CIRCLE - at
        node = after(tours, node)
    exchanges.begins[r], exchanges.widths[r] = begin, width


@inner
def _exchange_best(
    data: Any, tours: Any, descent: Any, exchanges: Any, r: int, s: int
) -> None:
    """Make the best exchange of two routes, or the best move from one to the other."""
    _find_places(data, tours, descent, exchanges, r, s)
    _find_places(data, tours, descent, exchanges, s, r)
    n = len(data.demands) - 1
    least = -descent.least
    best_u, best_v, at_u, at_v = 0, 0, 0, 0
    u = after(tours, n + 1 + r)
    while u <= n:
        gain_u = _leaving(tours, descent, u)
        extra = exchanges.extras[s, u, 0] + gain_u
        extra += shifted(data, tours, descent, r, s, data.demands[u])
        if extra < least:
            least, best_u, best_v = extra, u, 0
            at_u = signed(exchanges.places[s, u, 0])
        v = after(tours, n + 1 + s)
        while v <= n:
            shift = data.demands[u] - data.demands[v]
            delta = gain_u + _leaving(tours, descent, v)
            delta += shifted(data, tours, descent, r, s, shift)
            if delta < least:
                one, more_one = _place_without(tours, descent, exchanges, s, u, v)
                two, more_two = _place_without(tours, descent, exchanges, r, v, u)
                delta += more_one + more_two
                if delta < least:
                    least, best_u, best_v, at_u, at_v = delta, u, v, one, two
            v = after(tours, v)
        u = after(tours, u)
    v = after(tours, n + 1 + s)
    while v <= n:
        extra = exchanges.extras[r, v, 0] + _leaving(tours, descent, v)
        extra += shifted(data, tours, descent, s, r, data.demands[v])
        if extra < least:
            least, best_u, best_v = extra, 0, v
            at_v = signed(exchanges.places[r, v, 0])
        v = after(tours, v)
    if best_u == 0 and best_v == 0:
        return
    if best_u > 0:
        unlink(data, tours, best_u)
    if best_v > 0:
        unlink(data, tours, best_v)
        link(data, tours, best_v, at_v)
    if best_u > 0:
        link(data, tours, best_u, at_u)
    count_move(data, tours, descent, r, s)


@inlined
def _leaving(tours: Any, descent: Any, u: int) -> float:
    """Change in length when u leaves its route."""
    p = before(tours, u)
    short = leg(descent, p, after(tours, u))
    return float(short - tours.gap[p] - tours.gap[u])


@inlined
def _place_without(
    tours: Any, descent: Any, exchanges: Any, s: int, u: int, v: int
) -> tuple[int, float]:
    """The best place of u in route s when v has left: behind whom, and at what cost."""
    where, y = before(tours, v), after(tours, v)
    best = leg(descent, where, u) + leg(descent, u, y) - leg(descent, where, y)
    for i in range(PLACES):
        if exchanges.extras[s, u, i] >= best:
            break
        place = signed(exchanges.places[s, u, i])
        if place not in (where, v):
            return place, exchanges.extras[s, u, i]
    return where, best


@inner
def _find_places(
    data: Any, tours: Any, descent: Any, exchanges: Any, r: int, s: int
) -> None:
    """The best three places in route s of each customer of route r."""
    n = len(data.demands) - 1
    depot = n + 1 + s
    u = after(tours, n + 1 + r)
    while u <= n:
        if exchanges.known[s, u] < descent.changed[s]:
            exchanges.known[s, u] = descent.moves[0]
            extras, places = exchanges.extras[s, u], exchanges.places[s, u]
            extras[:] = NOWHERE
            a = depot
            to_a = leg(descent, a, u)
            while True:
                b = after(tours, a)
                to_b = leg(descent, u, b)
                extra = to_a + to_b - tours.gap[a]
                if extra < extras[2]:
                    at = 2
                    while at > 0 and extra < extras[at - 1]:
                        extras[at], places[at] = extras[at - 1], places[at - 1]
                        at -= 1
                    extras[at], places[at] = extra, a
                a, to_a = b, to_b
                if a == depot:
                    break
        u = after(tours, u)
