"""Routes as linked lists, and what the compiled search knows about the instance.

Nodes 1..n are customers, node n + 1 + r is the depot as route r sees it, node 0 is
unused. Each route is a circular doubly linked list through its depot, so that taking a
customer out and putting it back are O(1). Kernels allocate nothing. The memory of a
search holds its best routes, and what changed since they were written down.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clusterfirst.problem.distances import EARTH_RADIUS_KM
from clusterfirst.problem.instance import FloatArray, IntArray
from clusterfirst.stages.compiled import inlined, inner, kernel, signed
from clusterfirst.stages.routes import Routes

EUCLIDEAN, ROUNDED, SPHERE, MATRIX = range(4)
NEAR_BY = 0.02  # half a chord (250 km) up to which three terms are the arc to 3e-12

NodeArray = npt.NDArray[np.uint32]  # unsigned: kernels need not look for -1


class Data(NamedTuple):
    """Distances, demands and neighbours."""

    mode: int
    xy: FloatArray  # (2 nodes,) plane coordinates, or two axes of unit vectors
    z: FloatArray  # (nodes,) the third axis on a sphere
    rows: NodeArray  # (nodes,) rows of `matrix`
    matrix: FloatArray  # distances, or (1, 1) when they come from points
    scale: float  # ROUNDED and SPHERE: floor(distance * scale + offset), if scale > 0
    offset: float
    demands: IntArray  # (n + 1,)
    capacity: int
    near: NodeArray  # (n + 1, k) nearest customers first; 0 ends a list
    near_gap: FloatArray  # (n + 1, k) their distances
    ideal: FloatArray  # (n + 1,) the two shortest edges a customer could have


class Tours(NamedTuple):
    """Linked routes; `gap[v]` is the distance from v to `after[v]`.

    `place` and `upto` hold for the routes that are `noted`; a change clears the flag
    and nobody counts again before somebody asks.
    """

    after: NodeArray  # (nodes,)
    before: NodeArray  # (nodes,)
    route: NodeArray  # (nodes,)
    gap: FloatArray  # (nodes,)
    load: IntArray  # (routes,)
    size: IntArray  # (routes,) customers
    place: NodeArray  # (nodes,) position in the route; 0 for the depot
    upto: IntArray  # (nodes,) load of the route up to and with this node
    noted: npt.NDArray[np.uint8]  # (routes,)


@inlined
def distance(data: Any, a: int, b: int) -> float:
    """Distance between nodes a and b, equal to `Instance.lengths`."""
    if data.mode == MATRIX:
        return float(data.matrix[data.rows[a], data.rows[b]])
    dx = data.xy[2 * a] - data.xy[2 * b]
    dy = data.xy[2 * a + 1] - data.xy[2 * b + 1]
    square = dx * dx + dy * dy
    if data.mode == EUCLIDEAN:
        return math.sqrt(square)
    if data.mode == ROUNDED:
        return float(np.floor(math.sqrt(square) * data.scale + data.offset))
    dz = data.z[a] - data.z[b]
    return _arc(square + dz * dz, data.scale, data.offset)


@kernel
def _arc(square: float, scale: float, offset: float) -> float:
    """Kilometres along the earth between unit vectors at this squared distance."""
    half = min(1.0, 0.5 * math.sqrt(square))
    if half < NEAR_BY:
        flat = half * half
        angle = half * (1.0 + flat * (1.0 / 6.0 + flat * 0.075))
    else:
        angle = math.asin(half)
    arc = 2.0 * EARTH_RADIUS_KM * angle
    return float(np.floor(arc * scale + offset)) if scale > 0.0 else arc


@inlined
def after(tours: Any, node: int) -> int:
    """The next node of the route."""
    return signed(tours.after[node])


@inlined
def before(tours: Any, node: int) -> int:
    """The node before in the route."""
    return signed(tours.before[node])


@inlined
def route_of(tours: Any, node: int) -> int:
    """The route of a node."""
    return signed(tours.route[node])


@inlined
def join(data: Any, tours: Any, a: int, b: int) -> None:
    """Let b follow a."""
    tours.after[a] = b
    tours.before[b] = a
    tours.gap[a] = distance(data, a, b)


@inner
def unlink(data: Any, tours: Any, c: int) -> float:
    """Take customer c out of its route; return the change in length."""
    a, b, r = before(tours, c), after(tours, c), route_of(tours, c)
    old = tours.gap[a] + tours.gap[c]
    join(data, tours, a, b)
    tours.load[r] -= data.demands[c]
    tours.size[r] -= 1
    return float(tours.gap[a] - old)


@inner
def link(data: Any, tours: Any, c: int, a: int) -> None:
    """Put customer c behind node a."""
    b, r = after(tours, a), route_of(tours, a)
    join(data, tours, a, c)
    join(data, tours, c, b)
    tours.route[c] = r
    tours.load[r] += data.demands[c]
    tours.size[r] += 1


@inner
def note(data: Any, tours: Any, r: int) -> None:
    """Write down positions and loads along route r, unless they stand there."""
    if tours.noted[r] == 1:
        return
    tours.noted[r] = 1
    depot = len(data.demands) + r
    tours.place[depot] = 0
    tours.upto[depot] = 0
    place, load, node = 0, 0, after(tours, depot)
    while node != depot:
        place += 1
        load += data.demands[node]
        tours.place[node] = place
        tours.upto[node] = load
        node = after(tours, node)


def link_routes(data: Data, routes: Routes, slots: int) -> tuple[Tours, float]:
    """Return linked routes, `slots` of them counting empty ones, and their length."""
    nodes = len(data.demands) + slots
    tours = Tours(
        after=np.zeros(nodes, dtype=np.uint32),
        before=np.zeros(nodes, dtype=np.uint32),
        route=np.zeros(nodes, dtype=np.uint32),
        gap=np.zeros(nodes),
        load=np.zeros(slots, dtype=np.int64),
        size=np.zeros(slots, dtype=np.int64),
        place=np.zeros(nodes, dtype=np.uint32),
        upto=np.zeros(nodes, dtype=np.int64),
        noted=np.zeros(slots, dtype=np.uint8),
    )
    return tours, link_all(data, tours, routes.stops, routes.starts)


@kernel
def link_all(data: Any, tours: Any, stops: Any, starts: Any) -> float:
    """Fill `tours` with routes stops[starts[r]:starts[r + 1]]; return their length."""
    total = 0.0
    tours.load[:] = 0
    tours.size[:] = 0
    for r in range(len(tours.load)):
        depot = len(data.demands) + r
        tours.route[depot] = r
        last = depot
        if r + 1 < len(starts):
            for at in range(starts[r], starts[r + 1]):
                c = stops[at]
                join(data, tours, last, c)
                tours.route[c] = r
                tours.load[r] += data.demands[c]
                tours.size[r] += 1
                total += tours.gap[last]
                last = c
        join(data, tours, last, depot)
        total += tours.gap[last]
    return total


def read_routes(onward: NodeArray, customers: int) -> Routes:
    """Return the non-empty routes of a list of next nodes."""
    stops = np.zeros(customers, dtype=np.int64)
    starts = np.zeros(len(onward) - customers, dtype=np.int64)
    count = _read_all(onward, stops, starts)
    return Routes(stops, starts[: count + 1])


@kernel
def _read_all(onward: Any, stops: Any, starts: Any) -> int:
    """Write down the non-empty routes; return their number."""
    at, count = 0, 0
    for depot in range(len(stops) + 1, len(onward)):
        node = onward[depot]
        while node != depot:
            stops[at] = node
            at += 1
            node = onward[node]
        if at > starts[count]:
            count += 1
            starts[count] = at
    return count


NOISE = 1e-10  # of the cost: smaller gains are rounding


class Memory(NamedTuple):
    """The current cost, the best routes, and what changed since they were written."""

    rng: npt.NDArray[np.uint64]  # (1,)
    cost: FloatArray  # (2,) current and best
    best: NodeArray  # (nodes,) next nodes of the best routes
    dirty: IntArray  # (routes,) routes that changed since
    is_dirty: IntArray  # (routes,) 0 or 1
    dirt: IntArray  # (1,) number of dirty routes


def memory_for(tours: Tours, cost: float, seed: int) -> Memory:
    """Return the memory of a search that begins with these routes."""
    routes = len(tours.load)
    return Memory(
        rng=np.array([seed % 2**64], dtype=np.uint64),
        cost=np.array([cost, cost]),
        best=tours.after.copy(),
        dirty=np.zeros(routes, dtype=np.int64),
        is_dirty=np.zeros(routes, dtype=np.int64),
        dirt=np.zeros(1, dtype=np.int64),
    )


@inner
def keep_best(tours: Any, memory: Any) -> None:
    """Write the current routes down if they are the best."""
    now, best = memory.cost[0], memory.cost[1]
    if now >= best - NOISE * abs(best):
        return
    memory.cost[1] = now
    first_depot = len(tours.after) - len(tours.load)
    for i in range(memory.dirt[0]):
        r = memory.dirty[i]
        memory.is_dirty[r] = 0
        node = first_depot + r
        while True:
            onward = after(tours, node)
            memory.best[node] = onward
            node = onward
            if node >= first_depot:
                break
    memory.dirt[0] = 0


@inner
def touch(tours: Any, memory: Any, r: int) -> None:
    """Remember that route r is no longer what it was."""
    tours.noted[r] = 0
    if memory.is_dirty[r] == 0:
        memory.is_dirty[r] = 1
        memory.dirty[memory.dirt[0]] = r
        memory.dirt[0] += 1


@inner
def accept(tours: Any, memory: Any, delta: float, r: int, s: int) -> None:
    """Count a change of two routes that is about to be made.

    The best routes are written down only when they are about to be left for longer
    ones: a run of improvements is written once.
    """
    if delta > 0.0:
        keep_best(tours, memory)
    memory.cost[0] += delta
    touch(tours, memory, r)
    touch(tours, memory, s)
