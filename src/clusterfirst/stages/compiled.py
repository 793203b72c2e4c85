"""What the compiled kernels share: distances, random numbers, linked routes.

numba compiles these once and caches the machine code on disk. Routes are circular
doubly linked lists: node 1..n is a customer, node n + 1 + r is the depot as route r
sees it. Unlinking and linking a customer are O(1) and undo each other exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numba import njit
from numba.core.types import unliteral

from clusterfirst.problem.instance import EARTH_RADIUS_KM, FloatArray, IntArray
from clusterfirst.stages.kernel_cache import enable_cache

OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "_nrt": False,
    "no_cfunc_wrapper": True,
}
Function = TypeVar("Function", bound=Callable[..., Any])

EUCLIDEAN, ROUNDED, SPHERE, MATRIX = range(4)


def kernel(function: Function) -> Function:
    """Compile for calls from Python: cached on disk, without the interpreter lock.

    Kernels allocate nothing, so reference counting is switched off: counting every
    field of every tuple they pass around took 40 % of the time, and threads fight
    over the counters.
    """
    return compiled()(function)


def inner(function: Function) -> Function:
    """Compile for calls from other kernels only.

    The door for Python takes a third of the time of compilation, and most kernels
    are never called from there.
    """
    return compiled(no_cpython_wrapper=True)(function)


def compiled(**more: Any) -> Callable[[Function], Function]:
    """Compile with these options of numba too, `fastmath` for example."""

    def compiler(function: Function) -> Function:
        dispatcher = njit(**OPTIONS, **more)(function)
        found = dispatcher.get_call_template

        def get_call_template(args: Any, kws: Any) -> Any:
            # A kernel that is called with a constant, or with a variable that is
            # one for a moment of type inference, would be compiled again for it.
            return found(tuple(map(unliteral, args)), kws)

        dispatcher.get_call_template = get_call_template
        if more.get("no_cpython_wrapper"):
            _shut_door(dispatcher)
        enable_cache(dispatcher)
        return cast(Function, dispatcher)

    return compiler


def _shut_door(dispatcher: Any) -> None:
    """Let Python not jump to where numba has compiled no door for it."""

    def add_overload(result: Any) -> None:
        dispatcher.overloads[tuple(result.signature.args)] = result

    def refuse(*_: Any, **__: Any) -> None:
        raise TypeError(f"{dispatcher.__name__} is for kernels; Python cannot call it")

    dispatcher.add_overload = add_overload
    dispatcher._compile_for_args = refuse  # noqa: SLF001  # numba has no other way


class Ground(NamedTuple):
    """Distances, demands and neighbours, in a form every kernel can take.

    Nodes are 0 (unused), customers 1..n and one depot per route.
    """

    mode: int
    points: FloatArray  # (nodes, 3): plane coordinates, or unit vectors on a sphere
    rows: IntArray  # (nodes,) rows of `matrix`
    matrix: FloatArray  # distances, or (1, 1) when they come from `points`
    scale: float  # ROUNDED: floor(distance * scale + offset)
    offset: float
    demands: IntArray  # (n + 1,)
    capacity: int
    near: IntArray  # (n + 1, k) nearest customers first; 0 ends a list
    near_gap: FloatArray  # (n + 1, k) their distances


class Tours(NamedTuple):
    """Linked routes; `gap[v]` is the distance from v to `after[v]`."""

    after: IntArray  # (nodes,)
    before: IntArray  # (nodes,)
    route: IntArray  # (nodes,)
    load: IntArray  # (routes,)
    size: IntArray  # (routes,) customers
    gap: FloatArray  # (nodes,)


@inner
def distance(ground: Any, a: int, b: int) -> float:
    """Distance between nodes a and b, equal to `Instance.lengths`."""
    if ground.mode == MATRIX:
        return float(ground.matrix[ground.rows[a], ground.rows[b]])
    dx = ground.points[a, 0] - ground.points[b, 0]
    dy = ground.points[a, 1] - ground.points[b, 1]
    if ground.mode == EUCLIDEAN:
        return math.sqrt(dx * dx + dy * dy)
    if ground.mode == ROUNDED:
        plain = math.sqrt(dx * dx + dy * dy)
        return float(np.floor(plain * ground.scale + ground.offset))
    dz = ground.points[a, 2] - ground.points[b, 2]
    chord = math.sqrt(dx * dx + dy * dy + dz * dz)
    return 2.0 * EARTH_RADIUS_KM * math.asin(min(1.0, 0.5 * chord))


@inner
def random(state: Any) -> float:
    """Return a uniform number in [0, 1) by splitmix64; `state` holds one uint64."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@inner
def unlink(ground: Any, tours: Any, c: int) -> float:
    """Take customer c out of its route; return the change in length."""
    a, b, r = tours.before[c], tours.after[c], tours.route[c]
    tours.after[a] = b
    tours.before[b] = a
    old = tours.gap[a] + tours.gap[c]
    tours.gap[a] = distance(ground, a, b)
    tours.load[r] -= ground.demands[c]
    tours.size[r] -= 1
    return float(tours.gap[a] - old)


@inner
def link(ground: Any, tours: Any, c: int, a: int) -> None:
    """Put customer c behind node a."""
    b, r = tours.after[a], tours.route[a]
    tours.after[a] = c
    tours.before[c] = a
    tours.after[c] = b
    tours.before[b] = c
    tours.route[c] = r
    tours.gap[a] = distance(ground, a, c)
    tours.gap[c] = distance(ground, c, b)
    tours.load[r] += ground.demands[c]
    tours.size[r] += 1


@kernel
def _link_all(ground: Any, tours: Any, flat: Any, starts: Any) -> float:
    """Fill `tours` with routes flat[starts[r]:starts[r + 1]]; return their length."""
    n = len(ground.demands) - 1
    total = 0.0
    for r in range(len(tours.load)):
        depot = n + 1 + r
        tours.after[depot] = depot
        tours.before[depot] = depot
        tours.route[depot] = r
        tours.gap[depot] = 0.0
        tours.load[r] = 0
        tours.size[r] = 0
        if r + 1 < len(starts):
            for at in range(starts[r], starts[r + 1]):
                link(ground, tours, flat[at], tours.before[depot])
        node = depot
        while True:
            total += tours.gap[node]
            node = tours.after[node]
            if node == depot:
                break
    return total


class Flat(NamedTuple):
    """Routes one behind the other: route r is stops[starts[r]:starts[r + 1]]."""

    stops: IntArray  # (n,)
    starts: IntArray  # (routes + 1,)

    @classmethod
    def of(cls, routes: Sequence[Sequence[int]]) -> Flat:
        """Return these routes."""
        stops = np.array([c for route in routes for c in route], dtype=np.int64)
        starts = np.zeros(len(routes) + 1, dtype=np.int64)
        np.cumsum([len(route) for route in routes], out=starts[1:])
        return cls(stops, starts)

    @property
    def sizes(self) -> IntArray:
        """(routes,) customers of each."""
        return np.diff(self.starts)

    def lists(self) -> list[list[int]]:
        """The routes as lists of customers."""
        stops, starts = self.stops.tolist(), self.starts.tolist()
        return [stops[a:b] for a, b in pairwise(starts)]


def link_routes(ground: Ground, routes: Flat, slots: int) -> tuple[Tours, float]:
    """Return linked routes, `slots` of them counting empty ones, and their length."""
    nodes = len(ground.demands) + slots
    after, before, route = (np.zeros(nodes, dtype=np.int64) for _ in range(3))
    load, size = np.zeros(slots, dtype=np.int64), np.zeros(slots, dtype=np.int64)
    tours = Tours(after, before, route, load, size, np.zeros(nodes))
    return tours, float(_link_all(ground, tours, routes.stops, routes.starts))


def read_routes(tours: Tours) -> Flat:
    """Return the non-empty routes."""
    slots = len(tours.load)
    stops = np.zeros(len(tours.after) - slots - 1, dtype=np.int64)
    starts = np.zeros(slots + 1, dtype=np.int64)
    count = _read_all(tours, stops, starts)
    return Flat(stops, starts[: count + 1])


@kernel
def _read_all(tours: Any, stops: Any, starts: Any) -> int:
    """Write down the non-empty routes; return their number."""
    at, count = 0, 0
    for depot in range(len(tours.after) - len(tours.load), len(tours.after)):
        node = tours.after[depot]
        while node != depot:
            stops[at] = node
            at += 1
            node = tours.after[node]
        if at > starts[count]:
            count += 1
            starts[count] = at
    return count
