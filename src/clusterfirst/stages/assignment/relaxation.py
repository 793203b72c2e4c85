"""The LP relaxation of the capacitated assignment, exactly, and its prices.

In units of demand the relaxation is a transportation problem with cost Delta_ij / q_i
per unit, whose dual has one price per vehicle. Successive shortest paths between
vehicles solve it: every customer starts on its cheapest vehicle; units of an overfull
vehicle move along the cheapest chain of customers to the nearest one with room, and
prices rise so that reduced costs stay >= 0. Vehicles with room keep price 0, which is
complementary slackness: the result is the optimum, up to float rounding.

Above a thousand customers most of the flow is first pushed from vehicle to vehicle
without searching (epsilon-relaxation: an overfull vehicle raises its price until its
cheapest exit opens). Flow and prices then are optimal up to epsilon per unit; the
bound the prices prove is as true as before.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import FloatArray, IntArray
from clusterfirst.stages.compiled import inner, kernel

UNREACHED, LABELLED, FINAL = 0, 1, 2
SOLVED, IMPOSSIBLE, UNFINISHED = 0, 1, 2
EXACT_UP_TO = 1000  # customers; above, prices may be too high by EPSILON
EPSILON = 0.3  # in mean regrets per unit: costs 0.5 % of the bound, a tenth of the time
PUSHES = 60  # per customer; what goes round in circles is left to the searches
LOOK = 10_000  # pushes between two looks at the clock
WORK = 3_000_000  # rough number of operations of searches between two looks
LOOKS = 10_000  # after which prices are good enough whatever the clock says


class Transport(NamedTuple):
    """A transportation problem and its flow, for kernels."""

    cost: FloatArray  # (n, C) per unit of demand, cheapest first
    vehicle: IntArray  # (n, C); -1 pads
    demands: IntArray  # (n,)
    capacity: IntArray  # (K,)
    first: IntArray  # (K,) an entry i * C + s with flow on this vehicle, or -1
    after: IntArray  # (n C,) list of the entries with flow on the same vehicle
    before: IntArray  # (n C,)
    flow: IntArray  # (n C,) units
    load: IntArray  # (K,)
    price: FloatArray  # (K,) per unit of demand
    length: FloatArray  # (K,) labels of the present search
    state: IntArray  # (K,)
    parent: IntArray  # (K, 2) vehicle before, and customer that moves from there
    labelled: IntArray  # (K,) vehicles with a label, in order of appearance


def cheapest_first(cost: FloatArray, vehicle: IntArray) -> tuple[FloatArray, IntArray]:
    """Sort the candidates of each customer by cost, padding last."""
    order = np.argsort(np.where(vehicle < 0, np.inf, cost), axis=1, kind="stable")
    return np.take_along_axis(cost, order, 1), np.take_along_axis(vehicle, order, 1)


def make_transport(
    cost: FloatArray, vehicle: IntArray, demands: IntArray, room: IntArray
) -> Transport:
    """Return the problem with all flow still to be sent; `room` is (K,) capacities.

    Rows must come from `cheapest_first`: the search stops at the first candidate
    that is too dear.
    """
    vehicles = len(room)
    return Transport(
        cost=np.ascontiguousarray(cost / np.maximum(demands, 1)[:, None]),
        vehicle=np.ascontiguousarray(vehicle, dtype=np.int64),
        demands=np.array(demands, dtype=np.int64),
        capacity=np.array(room, dtype=np.int64),
        first=np.full(vehicles, -1, dtype=np.int64),
        after=np.zeros(cost.size, dtype=np.int64),
        before=np.zeros(cost.size, dtype=np.int64),
        flow=np.zeros(cost.size, dtype=np.int64),
        load=np.zeros(vehicles, dtype=np.int64),
        price=np.zeros(vehicles),
        length=np.zeros(vehicles),
        state=np.zeros(vehicles, dtype=np.int64),
        parent=np.zeros((vehicles, 2), dtype=np.int64),
        labelled=np.zeros(vehicles, dtype=np.int64),
    )


@inner
def _send(net: Any, i: int, s: int, units: int) -> None:
    """Add units (or take them away) on one entry and keep its vehicle's list."""
    entry, j = i * net.cost.shape[1] + s, net.vehicle[i, s]
    had = net.flow[entry] > 0
    net.flow[entry] += units
    if not had and net.flow[entry] > 0:
        head = net.first[j]
        net.after[entry] = head
        net.before[entry] = -1
        if head >= 0:
            net.before[head] = entry
        net.first[j] = entry
    elif had and net.flow[entry] == 0:
        a, b = net.before[entry], net.after[entry]
        if a >= 0:
            net.after[a] = b
        else:
            net.first[j] = b
        if b >= 0:
            net.before[b] = a


@inner
def move(net: Any, entry: int, t: int, units: int) -> int:
    """Move units of an entry to the customer's column t; return the vehicle there."""
    i, s = entry // net.cost.shape[1], entry % net.cost.shape[1]
    j, k = net.vehicle[i, s], net.vehicle[i, t]
    _send(net, i, s, -units)
    _send(net, i, t, units)
    net.load[j] -= units
    net.load[k] += units
    return int(k)


@kernel
def _start(net: Any) -> None:
    """Send every customer to its cheapest vehicle."""
    for i in range(len(net.demands)):
        _send(net, i, 0, net.demands[i])
        net.load[net.vehicle[i, 0]] += net.demands[i]


@inner
def _cheapest_exit(net: Any, j: int) -> tuple[int, int, float]:
    """Entry on vehicle j and column that flow leaves by most cheaply; its cost."""
    columns = net.cost.shape[1]
    best, found, to = np.inf, -1, -1
    entry = net.first[j]
    while entry >= 0:
        i = entry // columns
        here = net.cost[i, entry % columns]
        for t in range(columns):
            k = net.vehicle[i, t]
            if k < 0 or net.cost[i, t] - here >= best:
                break
            extra = net.cost[i, t] + net.price[k] - here
            if k != j and extra < best:
                best, found, to = extra, entry, t
        entry = net.after[entry]
    return found, to, best


@kernel
def push(net: Any, queue: Any, ends: Any, epsilon: float, pushes: int) -> int:
    """Let overfull vehicles of the queue push flow out; return the pushes left over.

    `state` marks the vehicles that wait; only overfull vehicles raise their price, and
    none falls below its capacity, so vehicles with room keep price 0. Each turn of
    the inner loop costs a push, each of the outer one takes a vehicle off the queue,
    which only pushes fill.
    """
    while ends[0] != ends[1]:
        j = queue[ends[0]]
        while net.load[j] > net.capacity[j]:
            if pushes == 0:
                return 0
            entry, t, extra = _cheapest_exit(net, j)
            if entry < 0:
                break  # a dead end; the search for chains says so
            pushes -= 1
            if extra >= net.price[j]:
                net.price[j] = extra + epsilon
            units = min(net.flow[entry], net.load[j] - net.capacity[j])
            k = move(net, entry, t, units)
            if net.load[k] > net.capacity[k] and net.state[k] == UNREACHED:
                net.state[k] = LABELLED
                queue[ends[1]] = k
                ends[1] = (ends[1] + 1) % len(queue)
        net.state[j] = UNREACHED
        ends[0] = (ends[0] + 1) % len(queue)
    return pushes


def step_of_prices(net: Transport) -> float:
    """By how much a push may miss the cheapest exit."""
    two = net.cost[:, : 2 if net.cost.shape[1] > 1 else 1]
    regret = np.where(net.vehicle[:, two.shape[1] - 1] < 0, 0, two[:, -1] - two[:, 0])
    return EPSILON * float(regret.mean())


def _push_excess(net: Transport, deadline: Deadline) -> None:
    """Send most of the excess where there is room, at nearly least cost."""
    overfull = np.flatnonzero(net.load > net.capacity)
    queue = np.zeros(len(net.load) + 1, dtype=np.int64)
    queue[: len(overfull)] = overfull
    ends = np.array([0, len(overfull)])
    net.state[overfull] = LABELLED
    epsilon = step_of_prices(net)
    for _ in range(PUSHES * len(net.demands) // LOOK):
        if deadline.passed() or push(net, queue, ends, epsilon, LOOK):
            break
    net.state[:] = UNREACHED


@inner
def shorten(net: Any, k: int, length: float, count: int) -> tuple[int, bool]:
    """Give vehicle k this length if it is shorter; labels there are, and whether."""
    if net.state[k] == UNREACHED:
        net.state[k] = LABELLED
        net.labelled[count] = k
        count += 1
    elif length >= net.length[k]:
        return count, False
    net.length[k] = length
    return count, True


@inner
def _relax(net: Any, j: int, count: int, goal: float) -> tuple[int, float]:
    """Label the vehicles that customers on j could move to, below `goal`.

    Returns the number of labels and the least length of a vehicle with room.
    """
    columns = net.cost.shape[1]
    entry = net.first[j]
    while entry >= 0:
        i = entry // columns
        base = net.length[j] - net.cost[i, entry % columns] - net.price[j]
        for t in range(columns):
            k = net.vehicle[i, t]
            # Prices are >= 0 and costs sorted: nothing behind this is nearer.
            if k < 0 or base + net.cost[i, t] >= goal:
                break
            # After pushes a step may gain up to epsilon: it counts as free.
            length = max(base + net.cost[i, t] + net.price[k], net.length[j])
            if net.state[k] == FINAL or length >= goal:
                continue
            count, nearer = shorten(net, k, length, count)
            if not nearer:
                continue
            net.parent[k, 0] = j
            net.parent[k, 1] = i
            if net.load[k] < net.capacity[k]:
                goal = length
        entry = net.after[entry]
    return count, goal


@inner
def _nearest_room(net: Any, source: int) -> tuple[int, int]:
    """Search from an overfull vehicle to one with room (-1: none); raise prices.

    Returns that vehicle and how many were labelled.
    """
    net.labelled[0] = source
    net.state[source] = LABELLED
    net.length[source] = 0.0
    net.parent[source, 0] = -1
    count, final, found, goal = 1, 0, -1, np.inf
    while final < count:
        at = final  # final vehicles come first in the list
        for other in range(final + 1, count):
            if net.length[net.labelled[other]] < net.length[net.labelled[at]]:
                at = other
        low = net.labelled[at]
        if net.load[low] < net.capacity[low]:
            found = low
            break
        net.labelled[at] = net.labelled[final]
        net.labelled[final] = low
        final += 1
        net.state[low] = FINAL
        count, goal = _relax(net, low, count, goal)
    for at in range(count):
        k = net.labelled[at]
        if found >= 0 and at < final:
            net.price[k] += net.length[found] - net.length[k]
        net.state[k] = UNREACHED
    return found, count


@inner
def _column(net: Any, i: int, j: int) -> int:
    for s in range(net.cost.shape[1]):
        if net.vehicle[i, s] == j:
            return s
    return -1


@inner
def _augment(net: Any, source: int, target: int) -> None:
    """Move as many units as the chain from source to target allows.

    A shortest path passes each vehicle at most once, so following it back ends.
    """
    columns = net.cost.shape[1]
    excess = net.load[source] - net.capacity[source]
    units = min(excess, net.capacity[target] - net.load[target])
    k = target
    while k != source:
        j, i = net.parent[k, 0], net.parent[k, 1]
        units = min(units, net.flow[i * columns + _column(net, i, j)])
        k = j
    k = target
    while k != source:
        j, i = net.parent[k, 0], net.parent[k, 1]
        _send(net, i, _column(net, i, j), -units)
        _send(net, i, _column(net, i, k), units)
        k = j
    net.load[source] -= units
    net.load[target] += units


@kernel
def _improve(net: Any, work: int) -> int:
    """Send excess along chains until so much work is done; see `solve_transport`.

    Each augmenting path takes at least one unit of excess away, and costs work.
    """
    for source in range(len(net.load)):
        while net.load[source] > net.capacity[source]:
            if work <= 0:
                return UNFINISHED
            target, count = _nearest_room(net, source)
            if target < 0:
                return IMPOSSIBLE
            _augment(net, source, target)
            work -= count * (count + 100)
    return SOLVED


def solve_transport(net: Transport, deadline: Deadline) -> int:
    """Send all flow at least cost, above EXACT_UP_TO customers up to EPSILON.

    Returns SOLVED, IMPOSSIBLE (the candidate lists cannot hold the demand), or
    UNFINISHED after the deadline or too much work: prices are still valid, and low.
    """
    _start(net)
    if len(net.demands) > EXACT_UP_TO:
        _push_excess(net, deadline)
    state = UNFINISHED
    for _ in range(LOOKS):
        if state != UNFINISHED or deadline.passed():
            break
        state = _improve(net, WORK)
    return state


def priced(net: Transport, cost: FloatArray) -> FloatArray:
    """(n, C) cost of each candidate with the price of the room it takes."""
    price = net.price[np.maximum(net.vehicle, 0)]
    return np.where(net.vehicle < 0, np.inf, cost + net.demands[:, None] * price)


def reduced_costs(
    cost: FloatArray,
    vehicle: IntArray,
    demands: IntArray,
    room: IntArray,
    deadline: Deadline,
) -> tuple[FloatArray, float]:
    """(n, C) what using each candidate adds to the bound, and the bound itself."""
    net = make_transport(*cheapest_first(cost, vehicle), demands, room)
    solve_transport(net, deadline)
    price = net.price[np.maximum(vehicle, 0)]
    paid = np.where(vehicle < 0, np.inf, cost + demands[:, None] * price)
    least = paid.min(axis=1)
    bound = float(least.sum() - net.capacity @ net.price)
    return paid - least[:, None], bound


def lower_bound(net: Transport, cost: FloatArray) -> float:
    """What the prices prove: no assignment on these candidates is cheaper."""
    cheapest = priced(net, cost).min(axis=1)
    return float(cheapest.sum() - net.capacity @ net.price)
