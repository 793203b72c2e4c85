"""Descent to a local optimum: the first milliseconds of polishing, compiled.

Every move makes a customer u a neighbour of one of its nearest customers v: moving a
string of one to three customers from u on (either way round), swapping such a string
of one or two with the customer next to v, and changing two edges (2-opt within a
route; 2-opt* in its three forms between routes). The first improving move is made;
customers whose surroundings did not change are not looked at again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clusterfirst.problem.instance import IntArray
from clusterfirst.stages.compiled import Ground, Tours, distance, kernel, link, unlink

LOOK = 12  # neighbours tried per customer
LONGEST = 3  # customers in a moved string
TINY = 1e-9  # smaller relative gains are rounding noise


class Notes(NamedTuple):
    """What the descent remembers; kernels allocate nothing."""

    place: IntArray  # (nodes,) position in the route; depots have 0
    upto: IntArray  # (nodes,) load of the route up to and with this node
    queue: IntArray  # (n + 1,) ring of customers to look at
    queued: IntArray  # (n + 1,) 0 or 1
    ends: IntArray  # (2,) first and number in the ring
    first: IntArray  # (n + 1,) scratch for the routes being written
    second: IntArray  # (n + 1,)
    string: IntArray  # (LONGEST,) the string being moved
    changed: IntArray  # (routes,) 1 until SWAP* has looked at the route as it is


def notes_for(ground: Ground, tours: Tours) -> Notes:
    """Return notes in which every customer waits to be looked at."""
    n, nodes = len(ground.demands) - 1, len(tours.after)
    queue = np.zeros(n + 1, dtype=np.int64)
    queue[:n] = np.arange(1, n + 1)
    notes = Notes(
        np.zeros(nodes, dtype=np.int64),
        np.zeros(nodes, dtype=np.int64),
        queue,
        np.ones(n + 1, dtype=np.int64),
        np.array([0, n], dtype=np.int64),
        np.zeros(n + 1, dtype=np.int64),
        np.zeros(n + 1, dtype=np.int64),
        np.zeros(LONGEST, dtype=np.int64),
        np.ones(len(tours.load), dtype=np.int64),
    )
    _note_all(ground, tours, notes)
    return notes


@kernel
def note(ground: Any, tours: Any, notes: Any, r: int) -> None:
    """Write down positions and loads along route r."""
    n = len(ground.demands) - 1
    depot = n + 1 + r
    notes.changed[r] = 1
    notes.place[depot] = 0
    notes.upto[depot] = 0
    place, load, node = 0, 0, tours.after[depot]
    while node != depot:
        place += 1
        load += ground.demands[node]
        notes.place[node] = place
        notes.upto[node] = load
        node = tours.after[node]


@kernel
def _note_all(ground: Any, tours: Any, notes: Any) -> None:
    for r in range(len(tours.load)):
        note(ground, tours, notes, r)


@kernel
def _wake(notes: Any, node: int) -> None:
    """Queue a customer whose surroundings changed."""
    n = len(notes.queued) - 1
    if node <= n and notes.queued[node] == 0:
        notes.queued[node] = 1
        notes.queue[(notes.ends[0] + notes.ends[1]) % (n + 1)] = node
        notes.ends[1] += 1


@kernel
def wake_route(tours: Any, notes: Any, r: int) -> None:
    n = len(notes.queued) - 1
    node = tours.after[n + 1 + r]
    while node <= n:
        _wake(notes, node)
        node = tours.after[node]


@kernel
def _step(tours: Any, node: int, forward: bool) -> int:
    return int(tours.after[node] if forward else tours.before[node])


@kernel
def _write(ground: Any, tours: Any, nodes: Any, count: int, r: int) -> None:
    """Make nodes[:count] the customers of route r."""
    depot = len(ground.demands) + r
    tours.load[r] = 0
    tours.size[r] = count
    last = depot
    for i in range(count):
        c = nodes[i]
        tours.after[last] = c
        tours.before[c] = last
        tours.route[c] = r
        tours.gap[last] = distance(ground, last, c)
        tours.load[r] += ground.demands[c]
        last = c
    tours.after[last] = depot
    tours.before[depot] = last
    tours.gap[last] = distance(ground, last, depot) if count > 0 else 0.0


@kernel
def _copy(tours: Any, nodes: Any, count: int, node: int, forward: bool) -> int:
    """Append the customers from `node` to the depot that way; return the new count."""
    n = len(nodes) - 1
    while node <= n:
        nodes[count] = node
        count += 1
        node = _step(tours, node, forward)
    return count


@kernel
def _join(tours: Any, nodes: Any, head: Any, tail: Any) -> int:
    """Write the way from a depot to `head`, then on from `tail`; return the count.

    Both are (node, forward): forward is where the depot of that piece lies.
    """
    count = _copy(tours, nodes, 0, head[0], head[1])
    for i in range(count // 2):
        nodes[i], nodes[count - 1 - i] = nodes[count - 1 - i], nodes[i]
    return _copy(tours, nodes, count, tail[0], tail[1])


@kernel
def _rewrite(ground: Any, tours: Any, notes: Any, counts: Any, routes: Any) -> None:
    """Make the two written lists of customers the two routes."""
    _write(ground, tours, notes.first, counts[0], routes[0])
    _write(ground, tours, notes.second, counts[1], routes[1])
    for r in routes:
        note(ground, tours, notes, r)
        wake_route(tours, notes, r)


@kernel
def _cross(ground: Any, tours: Any, notes: Any, u: int, v: int) -> float:
    """Try 2-opt* with the new edge u - v; return the change in length made."""
    routes = (tours.route[u], tours.route[v])
    first, second, limit = notes.first, notes.second, ground.capacity
    to = distance(ground, u, v)
    pu, x, pv, y = tours.before[u], tours.after[u], tours.before[v], tours.after[v]
    gap_u, gap_v, gap_pu, gap_pv = (
        tours.gap[u],
        tours.gap[v],
        tours.gap[pu],
        tours.gap[pv],
    )
    total = tours.load[routes[0]] + tours.load[routes[1]]
    noise = -TINY * (to + gap_u + gap_v + gap_pu + gap_pv)
    # ... v -> u ..., and ... pu -> y ...
    delta = to + distance(ground, pu, y) - gap_v - gap_pu
    load = notes.upto[pu] + tours.load[routes[1]] - notes.upto[v]
    if delta < noise and load <= limit >= total - load:
        counts = (
            _join(tours, first, (v, False), (u, True)),
            _join(tours, second, (pu, False), (y, True)),
        )
        _rewrite(ground, tours, notes, counts, routes)
        return float(delta)
    # ... u -> v turned round, and x turned round -> y ...
    delta = to + distance(ground, x, y) - gap_u - gap_v
    load = notes.upto[u] + notes.upto[v]
    if delta < noise and load <= limit >= total - load:
        counts = (
            _join(tours, first, (u, False), (v, False)),
            _join(tours, second, (x, True), (y, True)),
        )
        _rewrite(ground, tours, notes, counts, routes)
        return float(delta)
    # u turned round -> v ..., and ... pu -> pv turned round
    delta = to + distance(ground, pu, pv) - gap_pu - gap_pv
    load = notes.upto[pu] + notes.upto[pv]
    if delta < noise and load <= limit >= total - load:
        counts = (
            _join(tours, first, (u, True), (v, True)),
            _join(tours, second, (pu, False), (pv, False)),
        )
        _rewrite(ground, tours, notes, counts, routes)
        return float(delta)
    return 0.0


@kernel
def _turn(ground: Any, tours: Any, notes: Any, u: int, v: int) -> float:
    """Try 2-opt with the new edge u - v inside a route; return the change made."""
    to = distance(ground, u, v)
    if notes.place[u] > notes.place[v]:
        u, v = v, u
    after = distance(ground, tours.after[u], tours.after[v])
    ahead = to + after - tours.gap[u] - tours.gap[v]
    pu, pv = tours.before[u], tours.before[v]
    behind = to + distance(ground, pu, pv) - tours.gap[pu] - tours.gap[pv]
    if min(ahead, behind) >= -TINY * (to + tours.gap[u] + tours.gap[pu]):
        return 0.0
    # The piece to turn is from after u to v, or from u to before v.
    start, stop = (tours.after[u], v) if ahead <= behind else (u, pv)
    r, nodes = tours.route[u], notes.first
    count = _copy(tours, nodes, 0, tours.after[len(ground.demands) + r], True)
    i, j = notes.place[start] - 1, notes.place[stop] - 1
    while i < j:
        nodes[i], nodes[j] = nodes[j], nodes[i]
        i += 1
        j -= 1
    _write(ground, tours, nodes, count, r)
    note(ground, tours, notes, r)
    wake_route(tours, notes, r)
    return float(min(ahead, behind))


@kernel
def _move(ground: Any, tours: Any, notes: Any, length: int, target: Any) -> None:
    """Put the string notes.string[:length] between v and w, its first customer at v."""
    v, w, w_after = target
    string = notes.string
    old = tours.route[string[0]]
    _wake(notes, v)
    _wake(notes, w)
    for i in range(length):
        _wake(notes, tours.before[string[i]])
        _wake(notes, tours.after[string[i]])
        unlink(ground, tours, string[i])
    at = v if w_after else w
    for i in range(length):
        link(ground, tours, string[i], at)
        _wake(notes, string[i])
        at = string[i] if w_after else w
    note(ground, tours, notes, old)
    note(ground, tours, notes, tours.route[v])


@kernel
def _relocate(ground: Any, tours: Any, notes: Any, u: int, v: int) -> float:
    """Try moving a string that starts at u next to v, and swaps with v's neighbours."""
    n = len(ground.demands) - 1
    other = tours.route[u] != tours.route[v]
    room = ground.capacity - tours.load[tours.route[v]]
    home_room = ground.capacity - tours.load[tours.route[u]]
    to = distance(ground, u, v)
    for forward in (True, False):
        e, weight = u, 0
        a = _step(tours, u, not forward)
        for length in range(1, LONGEST + 1):
            if e > n or e == v:
                break
            notes.string[length - 1] = e
            weight += ground.demands[e]
            b = _step(tours, e, forward)
            saved = distance(ground, a, u) + distance(ground, e, b)
            for w_after in (True, False):
                w = _step(tours, v, w_after)
                if w in (u, e) or (length == LONGEST and w == notes.string[1]):
                    continue
                delta = to + distance(ground, e, w) - distance(ground, v, w)
                delta += distance(ground, a, b) - saved
                if delta < -TINY * (to + saved) and (not other or weight <= room):
                    _move(ground, tours, notes, length, (v, w, w_after))
                    return float(delta)
                if not other or w > n or length == 3:
                    continue
                z = _step(tours, w, w_after)
                shift = weight - ground.demands[w]
                if shift > room or -shift > home_room:
                    continue
                delta = to + distance(ground, e, z) - distance(ground, v, w)
                delta += distance(ground, a, w) + distance(ground, w, b) - saved
                delta -= distance(ground, w, z)
                if delta < -TINY * (to + saved):
                    _swap(ground, tours, notes, length, (v, w, w_after))
                    return float(delta)
            e = b
    return 0.0


@kernel
def _swap(ground: Any, tours: Any, notes: Any, length: int, target: Any) -> None:
    """Exchange the string with w, the neighbour of v."""
    v, w, w_after = target
    string = notes.string
    low = string[0]  # the end of the string that comes first in its route
    if length == 2 and tours.after[string[1]] == string[0]:
        low = string[1]
    home = tours.before[low]
    z = _step(tours, w, w_after)
    _wake(notes, z)
    unlink(ground, tours, w)
    _move(ground, tours, notes, length, (v, z, w_after))
    link(ground, tours, w, home)
    _wake(notes, w)
    note(ground, tours, notes, tours.route[home])


@kernel
def descend(ground: Any, tours: Any, notes: Any, most: int, inside: bool) -> float:
    """Look at up to `most` customers; return the change in length made.

    `inside` keeps every customer in its route.
    """
    n = len(ground.demands) - 1
    total = 0.0
    for _ in range(most):
        if notes.ends[1] == 0:
            break
        u = notes.queue[notes.ends[0]]
        notes.ends[0] = (notes.ends[0] + 1) % (n + 1)
        notes.ends[1] -= 1
        notes.queued[u] = 0
        for i in range(min(LOOK, ground.near.shape[1])):
            v = ground.near[u, i]
            if v == 0:
                break
            if inside and tours.route[u] != tours.route[v]:
                continue
            delta = _relocate(ground, tours, notes, u, v)
            if delta == 0.0 and tours.route[u] == tours.route[v]:
                delta = _turn(ground, tours, notes, u, v)
            elif delta == 0.0:
                delta = _cross(ground, tours, notes, u, v)
            if delta < 0.0:
                total += delta
                _wake(notes, u)
                break
    return total
