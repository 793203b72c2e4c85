"""Neighbouring vehicles assigned again, a few at a time: the local search.

A handful of vehicles and their customers is a small assignment problem. At the prices
of the LP relaxation the cost of an assignment is a constant plus the reduced costs of
its customers plus the price of the room that stays empty, all at least 0. So a search
that gives the surest customers their vehicles first, and turns back wherever that sum
reaches the present one, ends after some hundred steps, and the group is optimal.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import FloatArray, IntArray
from clusterfirst.stages.assignment.ejection_chains import Placement, column, put
from clusterfirst.stages.compiled import inner, kernel, random

VEHICLES = 5  # in a group
MEMBERS = 400  # customers beyond which a group does not grow
STEPS = 5000  # of one search
TRIES = 40  # draws of a further vehicle for a group
LOOK = 50  # groups between two looks at the clock
LESS = 1e-9  # what a better assignment must save, in mean costs of a customer


class Group(NamedTuple):
    """Room for one group, for kernels."""

    vehicles: IntArray  # (VEHICLES,)
    place: IntArray  # (K,) of each vehicle in the group, or -1
    member: IntArray  # (MEMBERS,) customers, the surest first
    regret: FloatArray  # (MEMBERS,) what the second-best vehicle costs more
    cost: FloatArray  # (MEMBERS, VEHICLES) reduced; inf: no candidate
    rank: IntArray  # (MEMBERS, VEHICLES) places, cheapest first
    turn: IntArray  # (MEMBERS + 1,) which of them is tried now
    value: FloatArray  # (MEMBERS + 1,) reduced costs of the customers before
    label: IntArray  # (MEMBERS,) places tried now
    best: IntArray  # (MEMBERS,) the best places so far
    load: IntArray  # (VEHICLES,)


def make_group(vehicles: int) -> Group:
    """Return the room a search needs, for a problem with so many vehicles."""
    return Group(
        vehicles=np.zeros(VEHICLES, dtype=np.int64),
        place=np.full(vehicles, -1, dtype=np.int64),
        member=np.zeros(MEMBERS, dtype=np.int64),
        regret=np.zeros(MEMBERS),
        cost=np.zeros((MEMBERS, VEHICLES)),
        rank=np.zeros((MEMBERS, VEHICLES), dtype=np.int64),
        turn=np.zeros(MEMBERS + 1, dtype=np.int64),
        value=np.zeros(MEMBERS + 1),
        label=np.zeros(MEMBERS, dtype=np.int64),
        best=np.zeros(MEMBERS, dtype=np.int64),
        load=np.zeros(VEHICLES, dtype=np.int64),
    )


def regroup(placed: Placement, rng: Any, rounds: int, deadline: Deadline) -> None:
    """Assign one group around each vehicle again, so many times; it must be feasible.

    `rng` is the state of `random`; the clock only cuts the groups short.
    """
    vehicles = len(placed.load)
    if vehicles < 2 or not len(placed.demands):
        return
    group = make_group(vehicles)
    chosen = np.take_along_axis(placed.cost, placed.choice[:, None], axis=1)
    less = LESS * max(abs(float(chosen.mean())), 1e-300)
    for first in range(0, rounds * vehicles, LOOK):
        if deadline.passed():
            return
        last = min(first + LOOK, rounds * vehicles)
        _regroup(placed, group, rng, (first, last), less)


@kernel
def _regroup(placed: Any, group: Any, rng: Any, numbers: Any, less: float) -> None:
    for number in range(numbers[0], numbers[1]):
        count = _gather(placed, group, number % len(placed.load), rng)
        members = _members(placed, group, count)
        if members and _search(placed, group, (members, count), less):
            for at in range(members):
                i = group.member[at]
                k = group.vehicles[group.best[at]]
                if placed.vehicle[i, placed.choice[i]] != k:
                    put(placed, i, column(placed, i, k))
        for at in range(count):
            group.place[group.vehicles[at]] = -1


@inner
def _size(placed: Any, j: int) -> int:
    count = 0
    head = i = placed.first[j]
    while i >= 0:
        count += 1
        i = placed.after[i]
        if i == head:
            break
    return count


@inner
def _gather(placed: Any, group: Any, j: int, rng: Any) -> int:
    """Vehicle j and others that customers of the group might go to; how many."""
    group.vehicles[0] = j
    group.place[j] = 0
    count, members = 1, _size(placed, j)
    for _ in range(TRIES):
        if count == len(group.vehicles):
            break
        k = group.vehicles[int(random(rng) * count)]
        i = placed.first[k]
        if i < 0:
            continue
        placed.first[k] = placed.after[i]  # so that all have their turn
        u = random(rng)
        k = placed.vehicle[i, int(u * u * u * placed.width[i])]
        more = _size(placed, k)
        if group.place[k] < 0 and members + more <= len(group.member):
            group.place[k] = count
            group.vehicles[count] = k
            count += 1
            members += more
    return count


@inner
def _members(placed: Any, group: Any, count: int) -> int:
    """List the customers, the surest first, with reduced costs; how many."""
    members = 0
    for place in range(count):
        head = i = placed.first[group.vehicles[place]]
        while i >= 0:
            if members == len(group.member):
                return 0  # one vehicle alone has too many
            members = _insert(placed, group, i, (members, count))
            i = placed.after[i]
            if i == head:
                break
    return members


@inner
def _insert(placed: Any, group: Any, i: int, sizes: Any) -> int:
    """Sort customer i in by its regret; return the number of members."""
    members, count = sizes
    regret = _regret(placed, group, i)
    at = members
    while at > 0 and group.regret[at - 1] < regret:
        group.regret[at] = group.regret[at - 1]
        group.member[at] = group.member[at - 1]
        for place in range(count):
            group.cost[at, place] = group.cost[at - 1, place]
            group.rank[at, place] = group.rank[at - 1, place]
        at -= 1
    group.regret[at] = regret
    group.member[at] = i
    for place in range(count):
        group.cost[at, place] = np.inf
    ranked, least = 0, 0.0
    for s in range(placed.width[i]):  # sorted by cost at the prices
        k = placed.vehicle[i, s]
        place = group.place[k]
        if place >= 0:
            paid = placed.cost[i, s] + placed.demands[i] * placed.price[k]
            least = paid if ranked == 0 else least
            group.cost[at, place] = paid - least
            group.rank[at, ranked] = place
            ranked += 1
    for place in range(count):
        if group.cost[at, place] == np.inf:
            group.rank[at, ranked] = place
            ranked += 1
    return int(members + 1)


@inner
def _regret(placed: Any, group: Any, i: int) -> float:
    """What the second-best vehicle of the group costs i more; inf if there is none."""
    found, least = 0, 0.0
    for s in range(placed.width[i]):
        k = placed.vehicle[i, s]
        if group.place[k] >= 0:
            paid = float(placed.cost[i, s] + placed.demands[i] * placed.price[k])
            if found:
                return paid - least
            found, least = 1, paid
    return np.inf


@inner
def _search(placed: Any, group: Any, sizes: Any, less: float) -> bool:
    """Look for a cheaper assignment of the group; `best` holds it if there is one."""
    members, count = sizes
    room, present, cheapest = 0, 0.0, np.inf
    for place in range(count):
        group.load[place] = 0
        k = group.vehicles[place]
        cheapest = min(cheapest, placed.price[k])
        spare = placed.capacity[k] - placed.load[k]
        present += placed.price[k] * spare
        room += spare
    for at in range(members):
        i = group.member[at]
        present += group.cost[at, group.place[placed.vehicle[i, placed.choice[i]]]]
    # Empty room costs at least the lowest price, wherever it is in the end.
    goal, empty, found = present - less, cheapest * room, False
    at, left = 0, STEPS
    group.turn[0] = -1
    group.value[0] = 0.0
    while at >= 0:
        if at == members:
            value = group.value[at]
            for place in range(count):
                k = group.vehicles[place]
                value += placed.price[k] * (placed.capacity[k] - group.load[place])
            if value < goal:
                goal, found = value, True
                for other in range(members):
                    group.best[other] = group.label[other]
        else:
            demand = placed.demands[group.member[at]]
            place = _next_place(placed, group, at, (count, goal - empty))
            if place >= 0 and left > 0:
                left -= 1
                group.label[at] = place
                group.load[place] += demand
                group.value[at + 1] = group.value[at] + group.cost[at, place]
                at += 1
                if at < members:
                    group.turn[at] = -1
                continue
            if left == 0:
                break
        at -= 1
        if at >= 0:
            i = group.member[at]
            group.load[group.label[at]] -= placed.demands[i]
    return found


@inner
def _next_place(placed: Any, group: Any, at: int, limits: Any) -> int:
    """The next vehicle for customer `at` that has room and is not too dear, or -1."""
    count, most = limits
    demand = placed.demands[group.member[at]]
    group.turn[at] += 1
    while group.turn[at] < count:
        place = group.rank[at, group.turn[at]]
        if group.value[at] + group.cost[at, place] >= most:
            return -1
        most_load = placed.capacity[group.vehicles[place]]
        if group.load[place] + demand <= most_load:
            return int(place)
        group.turn[at] += 1
    return -1
