"""What a day with constraints adds to the compiled search, as arrays.

Slot r of the tours is vehicle r. Orders that are on no vehicle are in the bank, at a
price far above any way. A plain CVRP has none of this and runs none of it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clusterfirst.problem.constraints import Constraints
from clusterfirst.problem.instance import FloatArray, Instance, IntArray

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
    leg_to: IntArray  # (nodes,) the node that `leg` leads to from each
    leg: FloatArray  # (nodes,) minutes, read from the durations once
    pace: float  # minutes per distance where there are no durations
    special: npt.NDArray[np.uint8]  # (n + 1,) has a wish, a group or a home: looked at
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
    changed: IntArray  # (V,) routes that the step at hand changes
    num_changed: IntArray  # (1,) how many
    length_was: FloatArray  # (V,) of each of them before the step
    minutes_was: FloatArray  # (V,)
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
    groups, aparts = (_several(numbers, n) for numbers in (asked.groups, asked.aparts))
    must = ~fleet.optional[kind]
    fixed = fleet.fixed_cost[kind] - np.where(must, 2 * worth.max(), 0.0)
    grouped = groups >= 0
    count = int(groups.max(initial=-1)) + 2
    wanted = (wish > 0) | grouped | (aparts >= 0)
    timed = asked.timed and _hours_bind(instance, kind)
    units = instance.vehicle_units[vehicles]
    traits = [fleet.max_stops[kind], fleet.max_distance[kind], fleet.max_duration[kind]]
    traits += [fixed, units.astype(np.float64), *allowed.astype(np.float64)]
    kinds = np.unique(np.array(traits), axis=1, return_inverse=True)[1].reshape(-1)
    picky, kept = bool(wanted.any()), bool((home >= 0).any())
    return Limits(
        capacity=np.array(units),
        stops=np.minimum(fleet.max_stops[kind], 2**40).astype(np.int64),
        longest=fleet.max_distance[kind] * SAFE,
        slowest=fleet.max_duration[kind] * SAFE if timed else np.full(size, np.inf),
        fixed=fixed,
        kind=kinds,
        wish=wish,
        allowed=allowed,
        group=groups,
        apart=aparts,
        worth=np.where(grouped, 0.0, worth),
        service=_or_zeros(asked.service, (n + 1,)),
        durations=_or_zeros(asked.durations, (1, 1)),
        leg_to=np.full(n + 1 + size, -1, dtype=np.int64),
        leg=np.zeros(n + 1 + size),
        pace=0.0 if asked.speed is None else 60.0 / asked.speed,
        special=(wanted | (home >= 0)).astype(np.uint8),
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
        timed=int(timed),
        mixed=int(picky or kept or len(np.unique(kinds)) > 1),
        **_asked(instance, fixed, home, price, picky),
    )


def _or_zeros(given: FloatArray | None, shape: tuple[int, ...]) -> FloatArray:
    return np.zeros(shape) if given is None else np.array(given)


def _several(numbers: IntArray, n: int) -> IntArray:
    """(n + 1,) numbers of groups; one order alone is no group."""
    if not len(numbers):
        return np.full(n + 1, -1)
    alone = np.bincount(numbers[numbers >= 0], minlength=1) == 1
    return np.where((numbers >= 0) & alone[numbers], -1, numbers)


def _hours_bind(instance: Instance, kind: IntArray) -> bool:
    """Whether a route that keeps the other limits could take too long for somebody."""
    asked, n = instance.constraints, instance.num_customers
    assert asked is not None
    fleet = asked.fleet
    longest = float(fleet.max_duration[kind].min(initial=np.inf))
    if not np.isfinite(longest) or not n:
        return False
    upto = np.cumsum(np.sort(instance.demand_units[1:]))
    fit = int(np.searchsorted(upto, instance.capacity_units, side="right"))
    most = int(min(fit, n, fleet.max_stops[kind].max()))
    if asked.durations is not None:
        leg = float(asked.durations.max())
    elif instance.matrix is not None:
        leg = float(
            instance.minutes(
                *np.unravel_index(instance.matrix.argmax(), instance.matrix.shape)
            )
        )
    else:  # no way is longer than the two to the depot; rounding adds one unit at most
        leg = (
            60
            / (asked.speed or 1.0)
            * (1 + 2 * instance.lengths(0, np.arange(n + 1)).max())
        )
    stops = (
        0.0 if asked.service is None else np.sort(asked.service)[n + 1 - most :].sum()
    )
    return bool((most + 1) * leg + stops > longest * SAFE)


def _asked(
    instance: Instance,
    fixed: FloatArray,
    home: IntArray,
    price: tuple[float, float],
    picky: bool,
) -> dict[str, Any]:
    """What is asked at all, and room for the sums along the routes."""
    asked = instance.constraints
    assert asked is not None
    fleet, size = asked.fleet, len(fixed)
    kept = bool((home >= 0).any())
    nodes = instance.num_customers + 1 + size
    return dict(
        one_way=int(not instance.symmetric),
        own_starts=0,
        picky=int(picky),
        watched=int(picky or kept),
        priced=int(kept or bool(fixed.any())),
        cheapest=float(fixed.min(initial=0.0)) if fixed.size else 0.0,
        generous=float(np.abs(fleet.fixed_cost).max()) + 3 * price[0] * kept,
        most=np.inf if np.isinf(price[1]) else (price[1] + 0.5) * price[0],
        away_now=np.zeros(1, dtype=np.int64),
        balance=0,
        even=np.zeros(2),
        num_changed=np.zeros(1, dtype=np.int64),
        ahead=np.zeros(nodes),
        back=np.zeros(nodes),
        clock=np.zeros(nodes),
        clock_back=np.zeros(nodes),
        length_back=np.zeros(size),
        length_was=np.zeros(size),
        minutes_was=np.zeros(size),
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
    allowed = allowed[:, vehicles]
    wish = np.where(allowed.all(axis=1), 0, np.arange(len(allowed)))[classes]
    return wish, np.ascontiguousarray(allowed, dtype=np.uint8)
