"""Whether a change keeps the limits of a day, and what it costs beside the way.

Every question is answered in O(1) by what `Limits` holds of each route; sums along a
route are noted when somebody asks.
"""

from __future__ import annotations

from typing import Any

from clusterfirst.stages.compiled import inlined, inner
from clusterfirst.stages.search.linked import after, distance


@inlined
def minutes_between(data: Any, limits: Any, a: int, b: int) -> float:
    """Minutes from node a to node b."""
    if limits.timed == 0:
        return 0.0
    if limits.durations.shape[0] > 1:
        return float(limits.durations[data.rows[a], data.rows[b]])
    return float(limits.pace * distance(data, a, b)) if limits.pace > 0.0 else 0.0


@inlined
def leg_minutes(data: Any, limits: Any, a: int, b: int) -> float:
    """Minutes from node a to b, which follows it: each is read from far away once."""
    if limits.timed == 0 or limits.durations.shape[0] == 1:
        return minutes_between(data, limits, a, b)
    if limits.leg_to[a] != b:
        limits.leg_to[a] = b
        limits.leg[a] = limits.durations[data.rows[a], data.rows[b]]
    return float(limits.leg[a])


@inlined
def may_ride(data: Any, limits: Any, tours: Any, c: int, r: int) -> bool:
    """Whether vehicle r may take order c, apart from the way to it."""
    if tours.load[r] + data.demands[c] > limits.capacity[r]:
        return False
    if tours.size[r] >= limits.stops[r]:
        return False
    return bool(limits.special[c] == 0 or _may_ride(limits, c, r))


@inlined
def _may_ride(limits: Any, c: int, r: int) -> bool:
    if limits.allowed[limits.wish[c], r] == 0:
        return False
    g = limits.group[c]
    if g >= 0 and limits.group_in[g] > 0 and limits.group_at[g] != r:
        return False
    a = limits.apart[c]
    return not (a >= 0 and limits.apart_in[a, r] > 0)


@inlined
def enter(limits: Any, c: int, r: int) -> float:
    """Note that order c rides on vehicle r; return the price of a group made whole."""
    return 0.0 if limits.special[c] == 0 else float(_enter(limits, c, r))


@inlined
def leave(limits: Any, c: int, r: int) -> float:
    """Note that order c left vehicle r; return the price of a group that it broke."""
    return 0.0 if limits.special[c] == 0 else float(_leave(limits, c, r))


@inlined
def may_move(limits: Any, c: int, s: int, together: int) -> bool:
    """Whether order c may change to vehicle s, apart from loads and ways.

    So many orders of its group, itself among them, go there together.
    """
    return bool(limits.special[c] == 0 or _may_move(limits, c, s, together))


@inlined
def _enter(limits: Any, c: int, r: int) -> float:
    g, a = limits.group[c], limits.apart[c]
    if a >= 0:
        limits.apart_in[a, r] += 1
    if limits.home[c] >= 0 and limits.home[c] != r:
        limits.away_now[0] += 1
    if g < 0:
        return 0.0
    limits.group_at[g] = r
    limits.group_in[g] += 1
    return -float(limits.group_worth[g]) if whole(limits, g) else 0.0


@inlined
def _leave(limits: Any, c: int, r: int) -> float:
    g, a = limits.group[c], limits.apart[c]
    if a >= 0:
        limits.apart_in[a, r] -= 1
    if limits.home[c] >= 0 and limits.home[c] != r:
        limits.away_now[0] -= 1
    if g < 0:
        return 0.0
    broken = whole(limits, g)
    limits.group_in[g] -= 1
    return float(limits.group_worth[g]) if broken else 0.0


@inlined
def whole(limits: Any, g: int) -> bool:
    """Whether all of a group are on the road."""
    return bool(limits.group_in[g] == limits.group_size[g])


@inlined
def away(limits: Any, c: int, r: int) -> float:
    """The price of an order that is not on the vehicle it was on."""
    h = limits.home[c]
    return float(limits.move_price) if h >= 0 and h != r else 0.0


@inlined
def _may_move(limits: Any, c: int, s: int, together: int) -> bool:
    if limits.allowed[limits.wish[c], s] == 0:
        return False
    g, a = limits.group[c], limits.apart[c]
    if g >= 0 and limits.group_in[g] > together:
        return False
    return not (a >= 0 and limits.apart_in[a, s] > 0)


@inlined
def keeps(limits: Any, r: int, new: Any) -> bool:
    """Whether vehicle r may drive so much, so many stops, so far and so long.

    What is above a limit already, by rounding, may become less.
    """
    load, size, length, minutes = new
    if load > limits.capacity[r] or size > limits.stops[r]:
        return False
    if length > limits.longest[r] and length > limits.length[r]:
        return False
    return bool(minutes <= limits.slowest[r] or minutes <= limits.minutes[r])


@inner
def uneven(limits: Any, new: Any) -> float:
    """The price of a route that has more, or less, than each should have."""
    load, size, length, minutes = new
    if size == 0:
        return 0.0
    has = float(size)
    if limits.balance == 2:
        has = float(load)
    elif limits.balance == 3:
        has = length
    elif limits.balance == 4:
        has = minutes
    return float(limits.even[0] * (has - limits.even[1]) ** 2)


@inlined
def note_way(data: Any, limits: Any, tours: Any, r: int) -> None:
    """Write down the sums along route r, unless they stand there."""
    if tours.noted[r] == 0:
        _note_way(data, limits, tours, r)


@inner
def _note_way(data: Any, limits: Any, tours: Any, r: int) -> None:
    tours.noted[r] = 1
    depot = len(data.demands) + r
    tours.place[depot] = 0
    tours.upto[depot] = 0
    place, load, node = 0, 0, depot
    ahead, back, clock, clock_back = 0.0, 0.0, 0.0, 0.0
    while True:
        onward = after(tours, node)
        ahead += tours.gap[node]
        if limits.one_way > 0:
            back += distance(data, onward, node)
        if limits.timed > 0:
            if limits.one_way == 0 and limits.durations.shape[0] == 1:
                clock += limits.pace * tours.gap[node]
            else:
                clock += leg_minutes(data, limits, node, onward)
            if limits.one_way > 0:
                clock_back += minutes_between(data, limits, onward, node)
        if onward == depot:
            break
        node = onward
        place += 1
        load += data.demands[node]
        tours.place[node] = place
        tours.upto[node] = load
        limits.ahead[node] = ahead
        limits.back[node] = back if limits.one_way > 0 else ahead
        if limits.timed > 0:
            clock += limits.service[node]
            clock_back += limits.service[node]
            limits.clock[node] = clock
            limits.clock_back[node] = clock_back if limits.one_way > 0 else clock
    limits.length[r], limits.minutes[r] = ahead, clock
    limits.length_back[r] = back if limits.one_way > 0 else ahead
    limits.minutes_back[r] = clock_back if limits.one_way > 0 else clock


@inner
def measure(data: Any, limits: Any, tours: Any, r: int) -> None:
    """Walk along route r and note its length and minutes."""
    depot = len(data.demands) + r
    length, minutes, node = 0.0, 0.0, depot
    streets = limits.timed > 0 and limits.durations.shape[0] > 1
    while True:
        onward = after(tours, node)
        length += tours.gap[node]
        if streets:
            minutes += leg_minutes(data, limits, node, onward)
        if onward == depot:
            break
        minutes += limits.service[onward]
        node = onward
    if limits.timed > 0 and not streets:
        minutes += limits.pace * length
    limits.length[r] = length
    limits.minutes[r] = minutes
