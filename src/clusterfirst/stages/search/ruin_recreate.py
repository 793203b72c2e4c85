"""Ruin and recreate: slack induction by string removals, the large steps.

Christiaens and Vanden Berghe (Transportation Science 54, 2020): take short strings of
customers out of routes that pass near a random customer, put them back greedily while
now and then blinking at a position. Insertion looks only at the nearest neighbours of a
customer, so that a step costs the same at 100 and at 10,000 customers; a rejected one
is undone link by link.

`limits` is None on a plain day, and no part of what is compiled for it. With limits,
what comes back stands only where its vehicle may take it, or goes to the bank.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clusterfirst.problem.instance import FloatArray, IntArray
from clusterfirst.stages.compiled import inlined, inner, random, signed
from clusterfirst.stages.search.limit_checks import enter, may_ride
from clusterfirst.stages.search.limited_places import (
    NOWHERE,
    added_within,
    forget_changes,
    keep_changes,
    leave_and_recall,
    place_elsewhere,
    take_back,
    take_place,
)
from clusterfirst.stages.search.linked import (
    after,
    before,
    distance,
    keep_best,
    link,
    route_of,
    touch,
    unlink,
)


class Ruins(NamedTuple):
    """The kernel's own arrays: kernels allocate nothing."""

    taken: IntArray  # (n + 1,) customers taken out, in order
    stood: IntArray  # (n + 1,) the node each of them stood behind
    home: IntArray  # (n + 1,) the route each of them left
    order: IntArray  # (n + 1,) the same customers in the order of insertion
    key: FloatArray  # (n + 1,) sort keys
    absent: npt.NDArray[np.uint8]  # (n + 1,) 1 while a customer is out
    hit: IntArray  # (routes,) routes ruined in this step


def ruins_for(customers: int, routes: int) -> Ruins:
    """Return memory in which nobody is out."""
    n = customers + 1
    taken, stood, home, order = np.zeros((4, n), dtype=np.int64)
    absent, hit = np.zeros(n, dtype=np.uint8), np.zeros(routes, dtype=np.int64)
    return Ruins(taken, stood, home, order, np.zeros(n), absent, hit)


@inner
def _take_string(
    data: Any, tours: Any, ruins: Any, out: int, plan: Any
) -> tuple[int, float]:
    """Take a string around a customer out of its route.

    `plan` is the customer, how many to take, how many to keep in the middle of them,
    and two random numbers. Returns how many are out now and the change in length.
    """
    c, length, kept, first, second = plan
    n = len(data.demands) - 1
    span = length + kept
    back, node = 0, before(tours, c)
    while back < span - 1 and node <= n:
        back += 1
        node = before(tours, node)
    ahead, node = 0, after(tours, c)
    while ahead < span - 1 and node <= n:
        ahead += 1
        node = after(tours, node)
    low = max(0, span - 1 - ahead)
    node = c
    for _ in range(low + int(first * (back - low + 1))):
        node = before(tours, node)
    skip = span if kept == 0 else 1 + int(second * (length - 1))
    delta = 0.0
    for at in range(span):
        onward = after(tours, node)
        if at < skip or at >= skip + kept:
            ruins.taken[out] = node
            ruins.stood[out] = before(tours, node)
            ruins.home[out] = route_of(tours, node)
            ruins.order[out] = node
            ruins.absent[node] = 1
            delta += unlink(data, tours, node)
            out += 1
        node = onward
    return out, delta


@inner
def ruin(data: Any, tours: Any, ruins: Any, rng: Any, plan: Any) -> tuple[int, float]:
    """Remove strings near a random customer; return their number and the change."""
    n = len(data.demands) - 1
    most_strings = 4.0 * plan.removed / (1.0 + plan.longest) - 1.0
    strings = int(random(rng) * most_strings + 1.0)
    seed = 1 + int(random(rng) * n)
    out, done, delta = 0, 0, 0.0
    for step in range(data.near.shape[1] + 1):
        if done == strings:
            break
        c = seed if step == 0 else signed(data.near[seed, step - 1])
        if c == 0:
            break
        if ruins.absent[c] == 1:
            continue
        r = route_of(tours, c)
        fresh = True
        for i in range(done):
            fresh &= ruins.hit[i] != r
        if not fresh:
            continue
        ruins.hit[done] = r
        done += 1
        size = tours.size[r]
        length = min(int(random(rng) * min(float(size), plan.longest) + 1.0), size)
        kept = 0
        if 1 < length < size and random(rng) < plan.split:
            kept = 1
            while length + kept < size and random(rng) < plan.keep_more:
                kept += 1
        string = (c, length, kept, random(rng), random(rng))
        out, change = _take_string(data, tours, ruins, out, string)
        delta += change
    return out, delta


@inner
def sort_removed(data: Any, ruins: Any, rng: Any, out: int) -> None:
    """Order the removed customers: random, by demand, far first or near first."""
    depot = len(data.demands)
    order, key = ruins.order, ruins.key
    pick = random(rng) * 11.0
    for i in range(out):
        if pick < 4.0:
            key[i] = random(rng)
        elif pick < 8.0:
            key[i] = -data.demands[order[i]]
        else:
            key[i] = distance(data, order[i], depot)
            if pick < 10.0:
                key[i] = -key[i]
    for i in range(1, out):
        c, k = order[i], key[i]
        j = i - 1
        while j >= 0 and key[j] > k:
            order[j + 1] = order[j]
            key[j + 1] = key[j]
            j -= 1
        order[j + 1] = c
        key[j + 1] = k


@inlined
def _best_place(
    data: Any, limits: Any, tours: Any, absent: Any, rng: Any, c: int, blink: float
) -> tuple[int, float]:
    """Return the node to stand behind and what that adds; NOWHERE if none fits."""
    room = data.capacity - data.demands[c]
    best, where = math.inf, NOWHERE
    for i in range(data.near.shape[1]):
        v = signed(data.near[c, i])
        to = fro = data.near_gap[c, i]
        if v == 0:
            break
        if absent[v] == 1:
            continue
        if limits is None:
            if tours.load[route_of(tours, v)] > room:
                continue
        else:
            if not may_ride(data, limits, tours, c, route_of(tours, v)):
                continue
            if limits.one_way > 0:
                fro = distance(data, v, c)
        extra = fro + distance(data, c, after(tours, v)) - tours.gap[v]
        if extra < best:
            extra = _added(data, limits, tours, c, v, extra)
            if extra < best and random(rng) >= blink:
                best, where = extra, v
        a = before(tours, v)
        extra = to + distance(data, a, c) - tours.gap[a]
        if extra < best:
            extra = _added(data, limits, tours, c, a, extra)
            if extra < best and random(rng) >= blink:
                best, where = extra, a
    if limits is not None:
        return place_elsewhere(data, limits, tours, c, where, best)
    alone = 2.0 * distance(data, c, len(data.demands))
    if alone < best:
        for r in range(len(tours.size)):
            if tours.size[r] == 0:
                return len(data.demands) + r, alone
    return where, best


@inlined
def _added(data: Any, limits: Any, tours: Any, c: int, a: int, extra: float) -> float:
    """What order c adds behind node a for so much more length."""
    if limits is None:
        return extra
    return added_within(data, limits, tours, c, a, extra)


@inlined
def recreate(
    data: Any, limits: Any, state: Any, total: int, blink: float, delta: float
) -> tuple[int, float]:
    """Insert what is out, in order; return how many were seen to.

    The change is added to `delta`. On a plain day the first one without a place ends
    it; with limits such a one stays out.
    """
    tours, memory, ruins = state
    for i in range(total):
        c = ruins.order[i]
        where, extra = _best_place(
            data, limits, tours, ruins.absent, memory.rng, c, blink
        )
        if limits is not None:
            delta += take_place(data, limits, tours, ruins, i, where)
        elif where == NOWHERE:
            return i, delta
        if where != NOWHERE:
            link(data, tours, c, where)
            ruins.absent[c] = 0
            delta += extra
    return total, delta


@inlined
def ruin_and_recreate(
    data: Any, limits: Any, state: Any, plan: Any, temperature: float
) -> None:
    """Make one large step if its change is accepted."""
    tours, memory, ruins = state
    keep_best(tours, memory)
    rng = memory.rng
    out, delta = ruin(data, tours, ruins, rng, plan)
    total = out
    if limits is not None:
        total, price = leave_and_recall(data, limits, tours, ruins, rng, out)
        delta += price
    sort_removed(data, ruins, rng, total)
    allowed = -temperature * math.log(1.0 - random(rng))
    placed, delta = recreate(data, limits, state, total, plan.blink, delta)
    if placed == total and delta < allowed:
        memory.cost[0] += delta
        if limits is not None:
            keep_changes(data, limits, state, total)
            return
        for i in range(out):
            touch(tours, memory, ruins.home[i])
            touch(tours, memory, route_of(tours, ruins.order[i]))
        return
    for i in range(placed - 1, -1, -1):
        if limits is None:
            unlink(data, tours, ruins.order[i])
        else:
            take_back(data, limits, tours, ruins, i)
    for i in range(out - 1, -1, -1):
        ruins.absent[ruins.taken[i]] = 0
        link(data, tours, ruins.taken[i], ruins.stood[i])
        if limits is not None:
            enter(limits, ruins.taken[i], ruins.home[i])
    if limits is not None:
        forget_changes(limits, ruins, total)
