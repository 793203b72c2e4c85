"""SWAP*: two routes exchange a customer each, both going where they fit best, compiled.

Vidal (Computers and Operations Research 140, 2022): neither customer has to take the
other's place. The three cheapest places of every customer in the other route are found
once per pair of routes, so all exchanges of a pair cost about as much as looking at
each customer at each place. Only routes that pass near each other are paired, by the
neighbour lists, so that bare matrices work too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clusterfirst.problem.instance import FloatArray, IntArray
from clusterfirst.stages.compiled import Ground, Tours, distance, kernel, link, unlink
from clusterfirst.stages.search.local_search import TINY, note, wake_route

PLACES = 3  # remembered per customer; an exchange makes at most two of them unusable
CLOSE = 6  # neighbours of a customer whose routes are paired with its own


class Exchanges(NamedTuple):
    """What SWAP* remembers; kernels allocate nothing."""

    extra: FloatArray  # (n + 1, PLACES) added length, least first
    place: IntArray  # (n + 1, PLACES) the node to stand behind
    seen: IntArray  # (routes,) the route this one was paired with last


def exchanges_for(ground: Ground, tours: Tours) -> Exchanges:
    """Return memory for the routes of a region."""
    n, routes = len(ground.demands) - 1, len(tours.load)
    return Exchanges(
        np.zeros((n + 1, PLACES)),
        np.zeros((n + 1, PLACES), dtype=np.int64),
        np.full(routes, -1, dtype=np.int64),
    )


@kernel
def _find_places(ground: Any, tours: Any, memory: Any, r: int, s: int) -> None:
    """Find the cheapest places in route s of every customer of route r."""
    n = len(ground.demands) - 1
    extra, place = memory.extra, memory.place
    u = tours.after[n + 1 + r]
    while u <= n:
        extra[u] = np.inf
        a = n + 1 + s
        from_a = distance(ground, a, u)
        while True:
            b = tours.after[a]
            from_b = distance(ground, u, b)
            more = from_a + from_b - tours.gap[a]
            if more < extra[u, PLACES - 1]:
                i = PLACES - 1
                while i > 0 and extra[u, i - 1] > more:
                    extra[u, i], place[u, i] = extra[u, i - 1], place[u, i - 1]
                    i -= 1
                extra[u, i], place[u, i] = more, a
            a, from_a = b, from_b
            if a > n:
                break
        u = tours.after[u]


@kernel
def _place_without(
    ground: Any, tours: Any, memory: Any, u: int, v: int
) -> tuple[float, int]:
    """Added length and best place of u in the route of v, when v has left it."""
    before, after = tours.before[v], tours.after[v]
    best = distance(ground, before, u) + distance(ground, u, after)
    best -= distance(ground, before, after)
    where = before
    for i in range(PLACES):
        a = memory.place[u, i]
        if memory.extra[u, i] >= best:
            break
        if a not in (v, before):
            best, where = memory.extra[u, i], a
            break
    return best, where


@kernel
def _leaving(ground: Any, tours: Any, u: int) -> float:
    """Change in length when u leaves its route."""
    a, b = tours.before[u], tours.after[u]
    return float(distance(ground, a, b) - tours.gap[a] - tours.gap[u])


@kernel
def _exchange(ground: Any, tours: Any, memory: Any, r: int, s: int) -> float:
    """Make the best exchange between two routes; return the change in length."""
    n = len(ground.demands) - 1
    _find_places(ground, tours, memory, r, s)
    _find_places(ground, tours, memory, s, r)
    best, best_u, best_v, to_u, to_v = 0.0, 0, 0, 0, 0
    u = tours.after[n + 1 + r]
    while u <= n:
        left = _leaving(ground, tours, u)
        v = tours.after[n + 1 + s]
        while v <= n:
            shift = ground.demands[u] - ground.demands[v]
            fits = tours.load[s] + shift <= ground.capacity
            if fits and tours.load[r] - shift <= ground.capacity:
                delta = left + _leaving(ground, tours, v)
                if delta < best:  # insertions only add
                    more_u, at_u = _place_without(ground, tours, memory, u, v)
                    delta += more_u
                    more_v, at_v = _place_without(ground, tours, memory, v, u)
                    delta += more_v
                    if delta < best - TINY * (more_u + more_v):
                        best, best_u, best_v, to_u, to_v = delta, u, v, at_u, at_v
            v = tours.after[v]
        u = tours.after[u]
    if best < 0.0:
        unlink(ground, tours, best_u)
        unlink(ground, tours, best_v)
        link(ground, tours, best_u, to_u)
        link(ground, tours, best_v, to_v)
    return best


@kernel
def _with_neighbours(ground: Any, tours: Any, notes: Any, memory: Any, r: int) -> float:
    """Exchange between route r and each route near it; return the change made."""
    n = len(ground.demands) - 1
    total = 0.0
    memory.seen[r] = r
    u = tours.after[n + 1 + r]
    while u <= n:
        for i in range(min(CLOSE, ground.near.shape[1])):
            v = ground.near[u, i]
            if v == 0:
                break
            s = tours.route[v]
            if memory.seen[s] == r:
                continue
            memory.seen[s] = r
            delta = _exchange(ground, tours, memory, r, s)
            if delta < 0.0:
                total += delta
                for changed in (r, s):
                    note(ground, tours, notes, changed)
                    wake_route(tours, notes, changed)
                return total
        u = tours.after[u]
    return total


@kernel
def exchange_routes(
    ground: Any, tours: Any, notes: Any, memory: Any, start: int
) -> tuple[int, float]:
    """Try exchanges of one changed route, the next from `start` on.

    Returns the route (or -1 if none has changed) and the change in length made.
    """
    routes = len(tours.load)
    for step in range(routes):
        r = (start + step) % routes
        if notes.changed[r] == 0:
            continue
        notes.changed[r] = 0
        memory.seen[:] = -1
        return r, _with_neighbours(ground, tours, notes, memory, r)
    return -1, 0.0
