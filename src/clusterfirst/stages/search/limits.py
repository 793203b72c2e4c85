"""What a day with constraints adds to the compiled search, checked in O(1) per place.

Slot r of the tours is vehicle r. Orders that are on no vehicle are in the bank, at a
price far above any way. A plain CVRP has none of this and runs none of it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clusterfirst.problem.constraints import Constraints
from clusterfirst.problem.instance import FloatArray, Instance, IntArray
from clusterfirst.stages.compiled import inlined, inner, kernel
from clusterfirst.stages.search.linked import after, distance

SAFE = 1 - 1e-12  # of a limit: the judge adds in another order
LEAST_WORTH = 1e-3  # of the highest priority: what is worth nothing is served too
BANK_PRICE = 2.0  # times the dearest order alone, for the least worth


class Limits(NamedTuple):
    """Limits of each vehicle, wishes of each order, and what the routes use of them."""

    capacity: IntArray  # (V,)
    stops: IntArray  # (V,)
    longest: FloatArray  # (V,)
    slowest: FloatArray  # (V,) minutes
    fixed: FloatArray  # (V,) cost of driving at all
    kind: IntArray  # (V,) vehicles of one kind are alike
    wish: IntArray  # (n + 1,) class of each order
    allowed: npt.NDArray[np.uint8]  # (C, V)
    group: IntArray  # (n + 1,) -1: none
    apart: IntArray  # (n + 1,) -1: none
    worth: FloatArray  # (n + 1,) price of leaving an order in the bank; 0 in groups
    service: FloatArray  # (n + 1,) minutes
    durations: FloatArray  # (n + 1, n + 1) minutes, or (1, 1)
    pace: float  # minutes per distance where there are no durations
    home: IntArray  # (n + 1,) the vehicle of another plan, -1: none
    move_price: float  # of each order that is not at home
    length: FloatArray  # (V,) of each route now
    minutes: FloatArray  # (V,)
    group_worth: FloatArray  # (G,) price of a group that is not complete
    group_size: IntArray  # (G,)
    group_at: IntArray  # (G,) vehicle of each group
    group_in: IntArray  # (G,) its members on the road
    apart_in: npt.NDArray[np.int32]  # (A, V)
    bank: IntArray  # (n + 1,) orders on no vehicle
    banked: IntArray  # (1,) how many
    changed: IntArray  # (V,) routes to measure again
    is_changed: IntArray  # (V,) 0 or 1
    # what is asked at all: a search passes over the rest
    timed: int
    one_way: int  # ways differ from the ways back
    own_starts: int  # vehicles go on from where they are
    picky: int  # wishes, groups, or orders that must not meet
    watched: int  # picky, or another plan is to be kept
    mixed: int  # vehicles are not all alike
    priced: int  # vehicles cost something, or moves do
    cheapest: float  # the least that an idle vehicle costs; -inf where starts differ
    generous: float  # the most that such prices give back, about
    most: float  # price of all orders that may leave their vehicles
    away_now: IntArray  # (1,) orders that have
    balance: int  # what is to be even: 0 nothing, 1 stops, 2 load, 3 way, 4 minutes
    even: FloatArray  # (2,) the price of its squares, and what each route should have
    # sums along the routes that are `noted`: length and minutes up to a node
    ahead: FloatArray  # (nodes,)
    back: FloatArray  # (nodes,) driven the other way
    clock: FloatArray  # (nodes,) minutes, with service
    clock_back: FloatArray  # (nodes,)
    length_back: FloatArray  # (V,)
    minutes_back: FloatArray  # (V,)


def limits_of(
    instance: Instance, vehicles: IntArray, home: IntArray, price: tuple[float, float]
) -> Limits:
    """Return the limits of a day whose slots are these vehicles; everyone is banked.

    `price` is that of an order which is not at home, and how many may be.
    """
    asked = instance.constraints
    assert asked is not None
    assert instance.vehicle_units is not None
    fleet, n, size = asked.fleet, instance.num_customers, len(vehicles)
    kind = fleet.kind[vehicles]
    worth = bank_prices(instance)
    wish, allowed = _wishes(asked, n, vehicles)
    groups, aparts = (
        numbers if len(numbers) else np.full(n + 1, -1)
        for numbers in (asked.groups, asked.aparts)
    )
    must = ~fleet.optional[kind]
    fixed = fleet.fixed_cost[kind] - np.where(must, 2 * worth.max(), 0.0)
    grouped = groups >= 0
    count = int(groups.max(initial=-1)) + 2
    return Limits(
        capacity=np.array(instance.vehicle_units[vehicles]),
        stops=np.minimum(fleet.max_stops[kind], 2**40).astype(np.int64),
        longest=fleet.max_distance[kind] * SAFE,
        slowest=fleet.max_duration[kind] * SAFE,
        fixed=fixed,
        kind=np.array(kind),
        wish=wish,
        allowed=allowed,
        group=groups.copy(),
        apart=aparts.copy(),
        worth=np.where(grouped, 0.0, worth),
        service=np.zeros(n + 1) if asked.service is None else np.array(asked.service),
        durations=np.zeros((1, 1))
        if asked.durations is None
        else np.array(asked.durations),
        pace=0.0 if asked.speed is None else 60.0 / asked.speed,
        home=home,
        move_price=price[0],
        length=np.zeros(size),
        minutes=np.zeros(size),
        group_worth=np.bincount(
            groups[grouped], worth[grouped], minlength=count
        ).astype(np.float64),
        group_size=np.bincount(groups[grouped], minlength=count),
        group_at=np.zeros(count, dtype=np.int64),
        group_in=np.zeros(count, dtype=np.int64),
        apart_in=np.zeros((aparts.max(initial=-1) + 2, size), dtype=np.int32),
        bank=np.concatenate([np.arange(1, n + 1), [0]]),
        banked=np.array([n]),
        changed=np.zeros(size, dtype=np.int64),
        is_changed=np.zeros(size, dtype=np.int64),
        **_asked(instance, fixed, home, price, kind),
    )


def _asked(
    instance: Instance,
    fixed: FloatArray,
    home: IntArray,
    price: tuple[float, float],
    kind: IntArray,
) -> dict[str, Any]:
    """What is asked at all, and room for the sums along the routes."""
    asked = instance.constraints
    assert asked is not None
    fleet, size = asked.fleet, len(kind)
    picky = len(asked.wishes[0]) > 0 or len(asked.groups) > 0 or len(asked.aparts) > 0
    kept = bool((home >= 0).any())
    nodes = instance.num_customers + 1 + size
    return dict(
        timed=int(asked.timed and bool(np.isfinite(fleet.max_duration).any())),
        one_way=int(not instance.symmetric),
        own_starts=0,
        picky=int(picky),
        watched=int(picky or kept),
        mixed=int(picky or kept or len(np.unique(kind)) > 1),
        priced=int(kept or bool(fixed.any())),
        cheapest=float(fixed.min(initial=0.0)) if fixed.size else 0.0,
        generous=float(np.abs(fleet.fixed_cost).max()) + 3 * price[0] * kept,
        most=np.inf if np.isinf(price[1]) else (price[1] + 0.5) * price[0],
        away_now=np.zeros(1, dtype=np.int64),
        balance=0,
        even=np.zeros(2),
        ahead=np.zeros(nodes),
        back=np.zeros(nodes),
        clock=np.zeros(nodes),
        clock_back=np.zeros(nodes),
        length_back=np.zeros(size),
        minutes_back=np.zeros(size),
    )


def bank_prices(instance: Instance) -> FloatArray:
    """(n + 1,) what leaving an order costs: more than driving to it ever could."""
    asked = instance.constraints
    assert asked is not None
    n = instance.num_customers
    priority = np.ones(n + 1) if asked.priority is None else np.array(asked.priority)
    most = float(priority[1:].max(initial=0.0)) or 1.0
    weight = np.maximum(priority, LEAST_WORTH * most)
    rows = np.arange(n + 1)
    alone = instance.lengths(0, rows) + instance.lengths(rows, 0)
    dearest = float(alone.max()) + float(asked.fleet.fixed_cost.max()) + 1e-9
    # Dear enough that no two orders are left for the sake of one of little worth.
    return BANK_PRICE * dearest * weight / float(weight[1:].min(initial=most))


def _wishes(
    asked: Constraints, n: int, vehicles: IntArray
) -> tuple[IntArray, npt.NDArray[np.uint8]]:
    classes, allowed = asked.wishes
    if not len(classes):
        return np.zeros(n + 1, dtype=np.int64), np.ones((1, len(vehicles)), np.uint8)
    return classes.copy(), np.ascontiguousarray(allowed[:, vehicles], dtype=np.uint8)


@inlined
def minutes_between(data: Any, limits: Any, a: int, b: int) -> float:
    """Minutes from node a to node b."""
    if limits.timed == 0:
        return 0.0
    if limits.durations.shape[0] > 1:
        return float(limits.durations[data.rows[a], data.rows[b]])
    return float(limits.pace * distance(data, a, b)) if limits.pace > 0.0 else 0.0


@inner
def may_ride(data: Any, limits: Any, tours: Any, c: int, r: int) -> bool:
    """Whether vehicle r may take order c, apart from the way to it."""
    if tours.load[r] + data.demands[c] > limits.capacity[r]:
        return False
    if tours.size[r] >= limits.stops[r]:
        return False
    if limits.picky == 0:
        return True
    if limits.allowed[limits.wish[c], r] == 0:
        return False
    g = limits.group[c]
    if g >= 0 and limits.group_in[g] > 0 and limits.group_at[g] != r:
        return False
    a = limits.apart[c]
    return not (a >= 0 and limits.apart_in[a, r] > 0)


@inner
def enter(limits: Any, c: int, r: int) -> float:
    """Note that order c rides on vehicle r; return the price of a group made whole."""
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


@inner
def leave(limits: Any, c: int, r: int) -> float:
    """Note that order c left vehicle r; return the price of a group that it broke."""
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


@inner
def may_move(limits: Any, c: int, s: int) -> bool:
    """Whether order c may change to vehicle s, apart from loads and ways."""
    if limits.allowed[limits.wish[c], s] == 0:
        return False
    g, a = limits.group[c], limits.apart[c]
    if g >= 0 and limits.group_in[g] > 1:
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


@inner
def note_way(data: Any, limits: Any, tours: Any, r: int) -> None:
    """Write down the sums along route r, unless they stand there."""
    if tours.noted[r] == 1:
        return
    tours.noted[r] = 1
    depot = len(data.demands) + r
    tours.place[depot] = 0
    tours.upto[depot] = 0
    place, load, node = 0, 0, depot
    ahead, back, clock, clock_back = 0.0, 0.0, 0.0, 0.0
    while True:
        onward = after(tours, node)
        ahead += tours.gap[node]
        if limits.one_way == 0 and limits.durations.shape[0] == 1:
            clock += limits.pace * tours.gap[node]
        else:
            clock += minutes_between(data, limits, node, onward)
        if limits.one_way > 0:
            back += distance(data, onward, node)
            clock_back += minutes_between(data, limits, onward, node)
        if onward == depot:
            break
        node = onward
        place += 1
        load += data.demands[node]
        clock += limits.service[node]
        clock_back += limits.service[node]
        tours.place[node] = place
        tours.upto[node] = load
        limits.ahead[node] = ahead
        limits.clock[node] = clock
        limits.back[node] = back if limits.one_way > 0 else ahead
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
            minutes += minutes_between(data, limits, node, onward)
        if onward == depot:
            break
        minutes += limits.service[onward]
        node = onward
    if limits.timed > 0 and not streets:
        minutes += limits.pace * length
    limits.length[r] = length
    limits.minutes[r] = minutes


@kernel
def measure_all(data: Any, limits: Any, tours: Any) -> None:
    """Walk along every route; what was noted along them is forgotten."""
    for r in range(len(tours.size)):
        measure(data, limits, tours, r)
        tours.noted[r] = 0


@inner
def mark(limits: Any, count: int, r: int) -> int:
    """Remember to measure route r again; return how many are remembered."""
    if limits.is_changed[r] == 0:
        limits.is_changed[r] = 1
        limits.changed[count] = r
        count += 1
    return count


@inner
def to_bank(limits: Any, c: int) -> None:
    """Put an order into the bank."""
    limits.bank[limits.banked[0]] = c
    limits.banked[0] += 1
