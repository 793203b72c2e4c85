"""Annealing for days with constraints: small steps, and ruin and recreate.

The same strings are removed as in a plain day; what comes back stands only where its
vehicle may take it. Orders without a place go to the bank and are drawn again later.
Distances are taken in the direction of travel, so matrices need not be symmetric.
"""

from __future__ import annotations

import math
from typing import Any

from clusterfirst.stages.compiled import inlined, inner, kernel, random, signed
from clusterfirst.stages.search.limit_checks import (
    away,
    enter,
    leave,
    leg_minutes,
    mark,
    may_ride,
    measure,
    minutes_between,
    to_bank,
)
from clusterfirst.stages.search.limited_crossings import random_limited_move
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
from clusterfirst.stages.search.ruin_recreate import NOWHERE, ruin, sort_removed

RECALLED = 4  # orders that a step draws from the bank, at most


@inlined
def _allowed(
    data: Any, limits: Any, tours: Any, c: int, a: int, b: int, extra: float
) -> float:
    """What order c adds between nodes a and b for so much more length, if it may."""
    r = route_of(tours, a)
    if limits.length[r] + extra > limits.longest[r]:
        return math.inf
    if limits.timed > 0:
        time = limits.service[c]
        if limits.durations.shape[0] > 1:
            time += minutes_between(data, limits, a, c)
            time += minutes_between(data, limits, c, b)
            time -= leg_minutes(data, limits, a, b)
        else:
            time += limits.pace * extra
        if limits.minutes[r] + time > limits.slowest[r]:
            return math.inf
    if tours.size[r] == 0:
        extra += limits.fixed[r]
    moving = away(limits, c, r)
    if moving > 0.0 and limits.away_now[0] * moving + moving > limits.most:
        return math.inf
    return float(extra + moving)


@inlined
def _best_place(
    data: Any, limits: Any, tours: Any, absent: Any, rng: Any, c: int, blink: float
) -> tuple[int, float]:
    """Return the node to stand behind and what that adds; NOWHERE if none fits."""
    best, where = math.inf, NOWHERE
    for i in range(data.near.shape[1]):
        v = signed(data.near[c, i])
        if v == 0:
            break
        if absent[v] == 1 or not may_ride(data, limits, tours, c, route_of(tours, v)):
            continue
        to = fro = data.near_gap[c, i]
        if limits.one_way > 0:
            fro = distance(data, v, c)
        for a in (v, before(tours, v)):
            b = after(tours, a)
            way = fro + distance(data, c, b) if a == v else distance(data, a, c) + to
            extra = way - tours.gap[a]
            if extra < best:
                extra = _allowed(data, limits, tours, c, a, b, extra)
                if extra < best and random(rng) >= blink:
                    best, where = extra, a
    first = len(data.demands)
    alone = distance(data, first, c) + distance(data, c, first)
    seen = -1
    for r in range(len(tours.size) if alone + limits.cheapest < best else 0):
        # Vehicles of a kind are alike, but for wishes and where an order comes from.
        if tours.size[r] > 0 or not may_ride(data, limits, tours, c, r):
            continue
        if limits.kind[r] == seen and limits.home[c] != r:
            continue
        seen = limits.kind[r]
        depot = first + r
        way = distance(data, depot, c) + distance(data, c, depot)
        extra = _allowed(data, limits, tours, c, depot, depot, way - tours.gap[depot])
        if extra < best:
            best, where = extra, depot
    if where == NOWHERE:
        return _any_place(data, limits, tours, c)
    return where, best


@inner
def _any_place(data: Any, limits: Any, tours: Any, c: int) -> tuple[int, float]:
    """The best place on all routes, for an order whose neighbours have none."""
    best, where = math.inf, NOWHERE
    for r in range(len(tours.size)):
        if tours.size[r] == 0 or not may_ride(data, limits, tours, c, r):
            continue
        depot = len(data.demands) + r
        node = depot
        while True:
            b = after(tours, node)
            extra = distance(data, node, c) + distance(data, c, b) - tours.gap[node]
            if extra < best:
                extra = _allowed(data, limits, tours, c, node, b, extra)
                if extra < best:
                    best, where = extra, node
            node = b
            if node == depot:
                break
    return where, best


@inner
def _place(
    data: Any, limits: Any, tours: Any, ruins: Any, rng: Any, how: Any
) -> tuple[float, int]:
    """Insert what is out, in order; return the change and the routes it changed.

    `how` is how many are out, how many routes changed before, and the blinks.
    """
    total, count, blink = how
    delta = 0.0
    for i in range(total):
        c = ruins.order[i]
        where, extra = _best_place(data, limits, tours, ruins.absent, rng, c, blink)
        ruins.key[i] = 0.0
        if where == NOWHERE:
            delta += limits.worth[c]
            continue
        ruins.key[i] = 1.0
        r = route_of(tours, where)
        count = mark(limits, count, r)
        if limits.timed > 0:
            b = after(tours, where)
            time = minutes_between(data, limits, where, c) + limits.service[c]
            time += minutes_between(data, limits, c, b)
            limits.minutes[r] += time - leg_minutes(data, limits, where, b)
        gap = tours.gap[where]
        link(data, tours, c, where)
        limits.length[r] += tours.gap[where] + tours.gap[c] - gap
        delta += extra + enter(limits, c, r)
        ruins.absent[c] = 0
    return delta, count


@inlined
def _recall(limits: Any, ruins: Any, rng: Any, out: int) -> tuple[int, float]:
    """Draw some orders from the bank; return how many are out now, and their price."""
    price = 0.0
    for _ in range(min(RECALLED, limits.banked[0])):
        if limits.banked[0] == 0:
            break
        at = int(random(rng) * limits.banked[0])
        g = limits.group[limits.bank[at]]
        price += _take_from_bank(limits, ruins, at, out)
        out += 1
        at = limits.banked[0] - 1
        while g >= 0 and at >= 0:  # a group comes back as a whole or not at all
            if limits.group[limits.bank[at]] == g:
                price += _take_from_bank(limits, ruins, at, out)
                out += 1
            at -= 1
    return out, price


@inner
def _take_from_bank(limits: Any, ruins: Any, at: int, out: int) -> float:
    c = limits.bank[at]
    limits.banked[0] -= 1
    limits.bank[at] = limits.bank[limits.banked[0]]
    ruins.order[out] = c
    return float(limits.worth[c])


@inlined
def _undo(
    data: Any, limits: Any, tours: Any, ruins: Any, out: int, total: int, count: int
) -> None:
    """Put everything back where it was."""
    for i in range(total - 1, -1, -1):
        c = ruins.order[i]
        if ruins.key[i] > 0.0:
            leave(limits, c, route_of(tours, c))
            unlink(data, tours, c)
        ruins.absent[c] = 1
        ruins.key[i] = 1.0
    for i in range(out - 1, -1, -1):
        c, r = ruins.taken[i], ruins.home[i]
        ruins.absent[c] = 0
        link(data, tours, c, ruins.stood[i])
        enter(limits, c, r)
    for i in range(total):
        if ruins.absent[ruins.order[i]] == 1:
            to_bank(limits, ruins.order[i])
    for i in range(count):
        r = limits.changed[i]
        limits.is_changed[r] = 0
        limits.length[r] = limits.length_was[i]
        limits.minutes[r] = limits.minutes_was[i]


@inlined
def _measure_changed(data: Any, limits: Any, tours: Any, count: int) -> None:
    for i in range(count):
        r = limits.changed[i]
        limits.is_changed[r] = 0
        measure(data, limits, tours, r)


@inlined
def step(
    data: Any,
    limits: Any,
    tours: Any,
    memory: Any,
    ruins: Any,
    plan: Any,
    temperature: float,
) -> None:
    """Make one large step if its change is accepted."""
    keep_best(tours, memory)
    rng = memory.rng
    out, delta = ruin(data, tours, ruins, rng, plan)
    count = 0
    for i in range(out):
        r = ruins.home[i]
        delta += leave(limits, ruins.taken[i], r) - away(limits, ruins.taken[i], r)
        if i == 0 or ruins.home[i - 1] != r:
            count = mark(limits, count, r)
            measure(data, limits, tours, r)
            if tours.size[r] == 0:
                delta -= limits.fixed[r]
    total, price = _recall(limits, ruins, rng, out)
    delta -= price
    sort_removed(data, ruins, rng, total)
    allowed = -temperature * math.log(1.0 - random(rng))
    how = (total, count, plan.blink)
    change, count = _place(data, limits, tours, ruins, rng, how)
    if delta + change >= allowed:
        _undo(data, limits, tours, ruins, out, total, count)
        return
    memory.cost[0] += delta + change
    for i in range(out):
        touch(tours, memory, ruins.home[i])
    for i in range(total):
        c = ruins.order[i]
        if ruins.key[i] > 0.0:
            touch(tours, memory, route_of(tours, c))
        else:
            to_bank(limits, c)
    # Sums that grew by differences are taken afresh: no drift over millions of steps.
    _measure_changed(data, limits, tours, count)


@kernel
def anneal_limited(
    data: Any, limits: Any, state: Any, plan: Any, iterations: int, temperature: float
) -> None:
    """Run so many iterations at one temperature."""
    tours, memory, ruins = state
    for _ in range(iterations):
        for _ in range(plan.moves):
            random_limited_move(data, limits, state, plan, temperature)
        rest = plan.ruins if limits.balance == 0 else 0.0
        while rest > 0.0 and (rest >= 1.0 or random(memory.rng) < rest):
            step(data, limits, tours, memory, ruins, plan, temperature)
            rest -= 1.0
    keep_best(tours, memory)


@kernel
def construct(data: Any, limits: Any, state: Any) -> None:
    """Insert everyone who is in the bank, in its order; note the cost of the whole."""
    tours, memory, ruins = state
    for r in range(len(tours.size)):
        measure(data, limits, tours, r)  # what begins on the road uses up its limits
    total = limits.banked[0]
    limits.banked[0] = 0
    for i in range(total):
        ruins.order[i] = limits.bank[i]
        ruins.absent[limits.bank[i]] = 1
    _, count = _place(data, limits, tours, ruins, memory.rng, (total, 0, 0.0))
    _measure_changed(data, limits, tours, count)
    cost = 0.0
    for i in range(total):
        if ruins.key[i] == 0.0:
            to_bank(limits, ruins.order[i])
            cost += limits.worth[ruins.order[i]]
    for r in range(len(tours.size)):
        measure(data, limits, tours, r)
        cost += limits.length[r]
        if tours.size[r] > 0:
            cost += limits.fixed[r]
        touch(tours, memory, r)
    for c in range(1, len(data.demands)):
        if ruins.absent[c] == 0:
            cost += away(limits, c, route_of(tours, c))
    for g in range(len(limits.group_size)):
        if limits.group_in[g] < limits.group_size[g]:
            cost += limits.group_worth[g]
    memory.cost[0] = cost
    memory.cost[1] = math.inf
    keep_best(tours, memory)
