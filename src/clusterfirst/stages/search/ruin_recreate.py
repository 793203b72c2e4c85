"""Ruin and recreate: slack induction by string removals, the large steps.

Christiaens and Vanden Berghe (Transportation Science 54, 2020): take short strings of
customers out of routes that pass near a random customer, put them back greedily while
now and then blinking at a position. Insertion looks only at the nearest neighbours of a
customer, so that a step costs the same at 100 and at 10,000 customers; a rejected one
is undone link by link.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clusterfirst.problem.instance import FloatArray, IntArray
from clusterfirst.stages.compiled import inner, random, signed
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

NOWHERE = -1


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
    return Ruins(
        taken=np.zeros(n, dtype=np.int64),
        stood=np.zeros(n, dtype=np.int64),
        home=np.zeros(n, dtype=np.int64),
        order=np.zeros(n, dtype=np.int64),
        key=np.zeros(n),
        absent=np.zeros(n, dtype=np.uint8),
        hit=np.zeros(routes, dtype=np.int64),
    )


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


@inner
def _best_place(
    data: Any, tours: Any, absent: Any, rng: Any, c: int, blink: float
) -> tuple[int, float]:
    """Return the node to stand behind and the added length; NOWHERE if none fits."""
    n = len(data.demands) - 1
    room = data.capacity - data.demands[c]
    best, where = math.inf, NOWHERE
    for i in range(data.near.shape[1]):
        v = signed(data.near[c, i])
        to = data.near_gap[c, i]
        if v == 0:
            break
        if absent[v] == 1 or tours.load[route_of(tours, v)] > room:
            continue
        extra = to + distance(data, c, after(tours, v)) - tours.gap[v]
        if extra < best and random(rng) >= blink:
            best, where = extra, v
        a = before(tours, v)
        extra = to + distance(data, c, a) - tours.gap[a]
        if extra < best and random(rng) >= blink:
            best, where = extra, a
    alone = 2.0 * distance(data, c, n + 1)
    if alone < best:
        for r in range(len(tours.size)):
            if tours.size[r] == 0:
                return n + 1 + r, alone
    return where, best


@inner
def ruin_and_recreate(
    data: Any, tours: Any, memory: Any, ruins: Any, plan: Any, temperature: float
) -> None:
    """Make one large step if its change in length is accepted."""
    keep_best(tours, memory)
    rng = memory.rng
    out, delta = ruin(data, tours, ruins, rng, plan)
    sort_removed(data, ruins, rng, out)
    allowed = -temperature * math.log(1.0 - random(rng))
    placed = 0
    while placed < out:
        c = ruins.order[placed]
        where, extra = _best_place(data, tours, ruins.absent, rng, c, plan.blink)
        if where == NOWHERE:
            break
        link(data, tours, c, where)
        ruins.absent[c] = 0
        delta += extra
        placed += 1
    if placed == out and delta < allowed:
        memory.cost[0] += delta
        for i in range(out):
            touch(tours, memory, ruins.home[i])
            touch(tours, memory, route_of(tours, ruins.order[i]))
        return
    for i in range(placed - 1, -1, -1):
        unlink(data, tours, ruins.order[i])
    for i in range(out - 1, -1, -1):
        ruins.absent[ruins.taken[i]] = 0
        link(data, tours, ruins.taken[i], ruins.stood[i])
