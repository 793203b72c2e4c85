"""Ruin and recreate: slack induction by string removals, compiled.

Christiaens and Vanden Berghe (Transportation Science 54, 2020): take short strings of
customers out of routes that pass near a random customer, put them back greedily while
now and then blinking at a position, accept by simulated annealing. Insertion looks
only at the nearest neighbours of a customer, so that one iteration costs the same at
100 and at 10,000 customers; a rejected iteration is undone link by link.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from clusterfirst.problem.instance import FloatArray, IntArray
from clusterfirst.stages.compiled import Tours, distance, kernel, link, random, unlink

MEAN_REMOVED = 10.0  # customers removed per iteration (6, 8, 14: worse, see LOG.md)
LONGEST_STRING = 10.0
BLINK = 0.01  # probability of passing over a position
SPLIT = 0.5  # probability of keeping customers in the middle of a string
KEEP_MORE = 0.01  # probability of keeping one customer more there
NOWHERE = -1


class Memory(NamedTuple):
    """The kernel's own arrays: kernels allocate nothing."""

    taken: IntArray  # (n + 1,) customers taken out, in order
    stood: IntArray  # (n + 1,) the node each of them stood behind
    home: IntArray  # (n + 1,) the route each of them left
    order: IntArray  # (n + 1,) the same customers in the order of insertion
    key: FloatArray  # (n + 1,) sort keys
    absent: IntArray  # (n + 1,) 1 while a customer is out
    hit: IntArray  # (routes,) routes ruined in this iteration
    dirty: IntArray  # (routes,) routes that changed since the best solution
    is_dirty: IntArray  # (routes,) 0 or 1
    dirt: IntArray  # (1,) number of dirty routes
    cost: FloatArray  # (2,) current and best


def memory_for(tours: Tours, customers: int, cost: float) -> Memory:
    """Return fresh memory for annealing from tours of this cost."""
    n, routes = customers + 1, len(tours.load)
    return Memory(
        taken=np.zeros(n, dtype=np.int64),
        stood=np.zeros(n, dtype=np.int64),
        home=np.zeros(n, dtype=np.int64),
        order=np.zeros(n, dtype=np.int64),
        key=np.zeros(n),
        absent=np.zeros(n, dtype=np.int64),
        hit=np.zeros(routes, dtype=np.int64),
        dirty=np.zeros(routes, dtype=np.int64),
        is_dirty=np.zeros(routes, dtype=np.int64),
        dirt=np.zeros(1, dtype=np.int64),
        cost=np.array([cost, cost]),
    )


@kernel
def _take_string(
    ground: Any, tours: Any, memory: Any, out: int, plan: Any
) -> tuple[int, float]:
    """Take a string around a customer out of its route.

    `plan` is the customer, how many to take, how many to keep in the middle of them,
    and two random numbers. Returns how many are out now and the change in length.
    """
    c, length, kept, first, second = plan
    n = len(ground.demands) - 1
    span = length + kept
    back, node = 0, tours.before[c]
    while back < span - 1 and node <= n:
        back += 1
        node = tours.before[node]
    ahead, node = 0, tours.after[c]
    while ahead < span - 1 and node <= n:
        ahead += 1
        node = tours.after[node]
    low = max(0, span - 1 - ahead)
    node = c
    for _ in range(low + int(first * (back - low + 1))):
        node = tours.before[node]
    skip = span if kept == 0 else 1 + int(second * (length - 1))
    delta = 0.0
    for at in range(span):
        onward = tours.after[node]
        if at < skip or at >= skip + kept:
            memory.taken[out] = node
            memory.stood[out] = tours.before[node]
            memory.home[out] = tours.route[node]
            memory.order[out] = node
            memory.absent[node] = 1
            delta += unlink(ground, tours, node)
            out += 1
        node = onward
    return out, delta


@kernel
def _ruin(
    ground: Any, tours: Any, memory: Any, rng: Any, longest: float
) -> tuple[int, float]:
    """Remove strings near a random customer; return their number and the change."""
    n = len(ground.demands) - 1
    most_strings = 4.0 * MEAN_REMOVED / (1.0 + longest) - 1.0
    strings = int(random(rng) * most_strings + 1.0)
    seed = 1 + int(random(rng) * n)
    out, done, delta = 0, 0, 0.0
    for step in range(ground.near.shape[1] + 1):
        if done == strings:
            break
        c = seed if step == 0 else ground.near[seed, step - 1]
        if c == 0:
            break
        r = tours.route[c]
        fresh = True
        for i in range(done):
            fresh &= memory.hit[i] != r
        if not fresh:
            continue
        memory.hit[done] = r
        done += 1
        size = tours.size[r]
        length = min(int(random(rng) * min(float(size), longest) + 1.0), size)
        kept = 0
        if 1 < length < size and random(rng) < SPLIT:
            kept = 1
            while length + kept < size and random(rng) < KEEP_MORE:
                kept += 1
        plan = (c, length, kept, random(rng), random(rng))
        out, change = _take_string(ground, tours, memory, out, plan)
        delta += change
    return out, delta


@kernel
def _sort_removed(ground: Any, memory: Any, rng: Any, out: int) -> None:
    """Order the removed customers: random, by demand, far first or near first."""
    depot = len(ground.demands)
    order, key = memory.order, memory.key
    pick = random(rng) * 11.0
    for i in range(out):
        if pick < 4.0:
            key[i] = random(rng)
        elif pick < 8.0:
            key[i] = -ground.demands[order[i]]
        elif pick < 10.0:
            key[i] = -distance(ground, order[i], depot)
        else:
            key[i] = distance(ground, order[i], depot)
    for i in range(1, out):
        c, k = order[i], key[i]
        j = i - 1
        while j >= 0 and key[j] > k:
            order[j + 1] = order[j]
            key[j + 1] = key[j]
            j -= 1
        order[j + 1] = c
        key[j + 1] = k


@kernel
def _anywhere(ground: Any, tours: Any, c: int) -> tuple[int, float]:
    """Return the cheapest place in any route with room: few have it by then."""
    n = len(ground.demands) - 1
    room = ground.capacity - ground.demands[c]
    best, where = math.inf, NOWHERE
    for r in range(len(tours.size)):
        if tours.load[r] > room:
            continue
        a = depot = n + 1 + r
        while True:
            b = tours.after[a]
            extra = distance(ground, a, c) + distance(ground, c, b) - tours.gap[a]
            if extra < best:
                best, where = extra, a
            a = b
            if a == depot:
                break
    return where, best


@kernel
def _best_place(
    ground: Any, tours: Any, absent: Any, rng: Any, c: int
) -> tuple[int, float]:
    """Return the node to stand behind and the added length; NOWHERE if none fits."""
    n = len(ground.demands) - 1
    room = ground.capacity - ground.demands[c]
    best, where = math.inf, NOWHERE
    for i in range(ground.near.shape[1]):
        v = ground.near[c, i]
        if v == 0:
            break
        if absent[v] == 1 or tours.load[tours.route[v]] > room:
            continue
        to = ground.near_gap[c, i]
        extra = to + distance(ground, c, tours.after[v]) - tours.gap[v]
        if extra < best and random(rng) >= BLINK:
            best, where = extra, v
        a = tours.before[v]
        extra = to + distance(ground, c, a) - tours.gap[a]
        if extra < best and random(rng) >= BLINK:
            best, where = extra, a
    alone = 2.0 * distance(ground, c, n + 1)
    if alone < best:
        for r in range(len(tours.size)):
            if tours.size[r] == 0:
                return n + 1 + r, alone
    if where == NOWHERE:
        return _anywhere(ground, tours, c)
    return where, best


@kernel
def _keep_best(tours: Any, best: Any, memory: Any) -> None:
    """Copy the routes that changed since the last best solution."""
    n = len(memory.absent) - 1
    for i in range(memory.dirt[0]):
        r = memory.dirty[i]
        memory.is_dirty[r] = 0
        best.load[r] = tours.load[r]
        best.size[r] = tours.size[r]
        node = n + 1 + r
        while True:
            best.after[node] = tours.after[node]
            best.before[node] = tours.before[node]
            best.route[node] = r
            best.gap[node] = tours.gap[node]
            node = tours.after[node]
            if node > n:
                break
    memory.dirt[0] = 0


@kernel
def _accept(tours: Any, best: Any, memory: Any, out: int, delta: float) -> None:
    """Make the change the current solution, and the best one if it is."""
    memory.cost[0] += delta
    for i in range(out):
        for r in (memory.home[i], tours.route[memory.order[i]]):
            if memory.is_dirty[r] == 0:
                memory.is_dirty[r] = 1
                memory.dirty[memory.dirt[0]] = r
                memory.dirt[0] += 1
    if memory.cost[0] < memory.cost[1] - 1e-10 * abs(memory.cost[1]):
        memory.cost[1] = memory.cost[0]
        _keep_best(tours, best, memory)


@kernel
def anneal(
    ground: Any, state: Any, rng: Any, iterations: int, temperature: float
) -> None:
    """Run ruin and recreate at one temperature; `state` is tours, best, memory."""
    tours, best, memory = state
    n = len(ground.demands) - 1
    filled = 0
    for r in range(len(tours.size)):
        filled += tours.size[r] > 0
    longest = min(LONGEST_STRING, n / max(filled, 1))
    for _ in range(iterations):
        out, delta = _ruin(ground, tours, memory, rng, longest)
        _sort_removed(ground, memory, rng, out)
        allowed = -temperature * math.log(1.0 - random(rng))
        placed = 0
        while placed < out:
            c = memory.order[placed]
            where, extra = _best_place(ground, tours, memory.absent, rng, c)
            if where == NOWHERE:
                break
            link(ground, tours, c, where)
            memory.absent[c] = 0
            delta += extra
            placed += 1
        if placed == out and delta < allowed:
            _accept(tours, best, memory, out, delta)
            continue
        for i in range(placed - 1, -1, -1):
            unlink(ground, tours, memory.order[i])
        for i in range(out - 1, -1, -1):
            memory.absent[memory.taken[i]] = 0
            link(ground, tours, memory.taken[i], memory.stood[i])
