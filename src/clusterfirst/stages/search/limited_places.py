"""Ruin and recreate on a day with limits: where an order may stand, and the bank.

Orders without a place go to the bank and are drawn again later. The routes that a step
changes are marked, so that their sums come back where it is undone.
"""

from __future__ import annotations

import math
from typing import Any

from clusterfirst.stages.compiled import inlined, inner, random
from clusterfirst.stages.search.limit_checks import (
    away,
    enter,
    leave,
    leg_minutes,
    may_ride,
    measure,
    minutes_between,
)
from clusterfirst.stages.search.linked import after, distance, route_of, touch, unlink

NOWHERE = -1
RECALLED = 4  # orders that a step draws from the bank, at most


@inlined
def added_within(
    data: Any, limits: Any, tours: Any, c: int, a: int, extra: float
) -> float:
    """What order c adds behind node a for so much more length; inf: it must not."""
    r = route_of(tours, a)
    if limits.length[r] + extra > limits.longest[r]:
        return math.inf
    if limits.timed > 0:
        time = limits.service[c]
        if limits.durations.shape[0] > 1:
            b = after(tours, a)
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
def place_elsewhere(
    data: Any, limits: Any, tours: Any, c: int, where: int, best: float
) -> tuple[int, float]:
    """The best place on idle vehicles too, or on all where none is found yet."""
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
        extra = added_within(data, limits, tours, c, depot, way - tours.gap[depot])
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
                extra = added_within(data, limits, tours, c, node, extra)
                if extra < best:
                    best, where = extra, node
            node = b
            if node == depot:
                break
    return where, best


@inlined
def take_place(
    data: Any, limits: Any, tours: Any, ruins: Any, i: int, where: int
) -> float:
    """Count the ith order that is out for its new place, before it is linked there.

    Returns the price of groups that it makes whole, or that of staying in the bank.
    """
    c = ruins.order[i]
    ruins.key[i] = 0.0 if where == NOWHERE else 1.0
    if where == NOWHERE:
        return float(limits.worth[c])
    r, b = route_of(tours, where), after(tours, where)
    mark(limits, r)
    if limits.timed > 0:
        time = minutes_between(data, limits, where, c) + limits.service[c]
        time += minutes_between(data, limits, c, b)
        limits.minutes[r] += time - leg_minutes(data, limits, where, b)
    longer = distance(data, where, c) + distance(data, c, b)
    limits.length[r] += longer - tours.gap[where]
    return enter(limits, c, r)


@inlined
def leave_and_recall(
    data: Any, limits: Any, tours: Any, ruins: Any, rng: Any, out: int
) -> tuple[int, float]:
    """Count so many that are out, and draw some from the bank; all, and their price."""
    price = 0.0
    for i in range(out):
        c, r = ruins.taken[i], ruins.home[i]
        price += leave(limits, c, r) - away(limits, c, r)
        if i == 0 or ruins.home[i - 1] != r:
            mark(limits, r)
            measure(data, limits, tours, r)
            if tours.size[r] == 0:
                price -= limits.fixed[r]
    for _ in range(min(RECALLED, limits.banked[0])):
        if limits.banked[0] == 0:
            break
        at = int(random(rng) * limits.banked[0])
        g = limits.group[limits.bank[at]]
        price -= _take_from_bank(limits, ruins, at, out)
        out += 1
        at = limits.banked[0] - 1
        while g >= 0 and at >= 0:  # a group comes back as a whole or not at all
            if limits.group[limits.bank[at]] == g:
                price -= _take_from_bank(limits, ruins, at, out)
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
def mark(limits: Any, r: int) -> None:
    """Remember that route r is about to change, and its sums."""
    if limits.is_changed[r] == 0:
        limits.is_changed[r] = 1
        count = limits.num_changed[0]
        limits.changed[count] = r
        limits.length_was[count] = limits.length[r]
        limits.minutes_was[count] = limits.minutes[r]
        limits.num_changed[0] = count + 1


@inlined
def keep_changes(data: Any, limits: Any, state: Any, total: int) -> None:
    """Measure the routes that changed; bank the orders that found no place.

    Sums that grew by differences are taken afresh: no drift over millions of steps.
    """
    tours, memory, ruins = state
    for i in range(limits.num_changed[0]):
        r = limits.changed[i]
        limits.is_changed[r] = 0
        measure(data, limits, tours, r)
        touch(tours, memory, r)
    limits.num_changed[0] = 0
    for i in range(total):
        if ruins.key[i] == 0.0:
            _to_bank(limits, ruins.order[i])


@inlined
def take_back(data: Any, limits: Any, tours: Any, ruins: Any, i: int) -> None:
    """Take the ith order out again, if it found a place."""
    c = ruins.order[i]
    if ruins.key[i] > 0.0:
        leave(limits, c, route_of(tours, c))
        unlink(data, tours, c)
    ruins.absent[c] = 1


@inlined
def forget_changes(limits: Any, ruins: Any, total: int) -> None:
    """Bank who came from there; the sums of the routes are what they were."""
    for i in range(total):
        if ruins.absent[ruins.order[i]] == 1:
            _to_bank(limits, ruins.order[i])
    for i in range(limits.num_changed[0]):
        r = limits.changed[i]
        limits.is_changed[r] = 0
        limits.length[r] = limits.length_was[i]
        limits.minutes[r] = limits.minutes_was[i]
    limits.num_changed[0] = 0


@inner
def _to_bank(limits: Any, c: int) -> None:
    """Put an order into the bank."""
    limits.bank[limits.banked[0]] = c
    limits.banked[0] += 1
