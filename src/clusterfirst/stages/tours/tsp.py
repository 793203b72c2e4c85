"""Compiled tours: 2-opt and Or-opt with kicks.

Nodes are 0..m of a dense distance block, 0 being the depot; a tour is an order of
1..m. The search is deterministic: kicks come from xorshift numbers with a
fixed start, so equal blocks give equal tours on every machine.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clusterfirst.problem.instance import FloatArray, IntArray
from clusterfirst.stages.compiled import inner, kernel

EPSILON = 1e-10  # relative: smaller gains are rounding noise and would cycle
NEAR = 10  # neighbours that a move may lead to
SEED = np.uint64(88172645463325252)


class Room(NamedTuple):
    """One tour and what its search needs; kernels allocate nothing."""

    tour: IntArray  # (size,) nodes in order
    position: IntArray  # (size,) of each node in the tour
    best: IntArray  # (size,) the best tour so far
    near: IntArray  # (size, at most NEAR) nearest nodes first
    ring: IntArray  # (size,) nodes that wait to be looked at
    waiting: IntArray  # (size,) 0 or 1
    kept: IntArray  # (size,) stops being moved
    ends: IntArray  # (6,) nodes that a move or a kick touched


def solve_blocks(
    blocks: FloatArray,
    starts: IntArray,
    orders: IntArray,
    kicks: float,
) -> None:
    """Tour every cluster c: its nodes are orders[starts[c]:starts[c+1]], depot out.

    `orders` holds, per cluster, a permutation of 1..m to start from and is
    overwritten by the tour. `blocks` are the (m+1, m+1) distances one after the
    other. There are `kicks` kicks per stop.
    """
    largest = int(np.diff(starts).max(initial=0)) + 1
    numbers = np.empty((6 + NEAR) * largest + 6, dtype=np.int64)
    _solve(blocks, starts, orders, float(kicks), numbers)


@inner
def _cluster(blocks: Any, starts: Any, orders: Any, c: int, at: int) -> Any:
    """The order and the distances of cluster c, and where the next ones begin."""
    order = orders[starts[c] : starts[c + 1]]
    size = len(order) + 1
    return order, blocks[at : at + size * size].reshape(size, size), at + size * size


@kernel
def _solve(blocks: Any, starts: Any, orders: Any, kicks: float, numbers: Any) -> None:
    at = 0
    for c in range(len(starts) - 1):
        order, block, at = _cluster(blocks, starts, orders, c, at)
        if len(order) > 2:
            _local_search(block, order, int(kicks * len(order)), numbers)


@kernel
def nearest_first(blocks: Any, starts: Any, orders: Any) -> None:
    """Write each cluster's nearest-neighbour order from the depot into `orders`.

    `orders` holds a permutation of 1..m per cluster.
    """
    at = 0
    for c in range(len(starts) - 1):
        order, block, at = _cluster(blocks, starts, orders, c, at)
        here = 0
        for p in range(len(order)):
            closest = p
            for q in range(p, len(order)):  # those not visited yet
                nearer = block[here, order[q]] - block[here, order[closest]]
                if nearer < 0 or (nearer == 0 and order[q] < order[closest]):
                    closest = q
            here = order[closest]
            order[closest] = order[p]
            order[p] = here


@inner
def _length(block: Any, tour: Any) -> float:
    """Length of a closed tour of node numbers."""
    total = float(block[tour[-1], tour[0]])
    for p in range(len(tour) - 1):
        total += float(block[tour[p], tour[p + 1]])
    return total


@inner
def _local_search(block: Any, order: Any, kicks: int, numbers: Any) -> None:
    """2-opt and Or-opt to a local optimum, then `kicks` segment kicks, best kept."""
    size = len(block)
    count = min(NEAR, size - 1)
    room = Room(
        numbers[:size],
        numbers[size : 2 * size],
        numbers[2 * size : 3 * size],
        numbers[6 * size : (6 + count) * size].reshape(size, count),
        numbers[3 * size : 4 * size],
        numbers[4 * size : 5 * size],
        numbers[5 * size : 6 * size],
        numbers[(6 + count) * size : (6 + count) * size + 6],
    )
    _find_neighbours(block, room.near)
    longest = 0.0
    for a in range(size):
        for b in range(size):
            longest = max(longest, block[a, b])
        room.waiting[a] = 1
        room.ring[a] = a
        room.tour[a] = order[a - 1] if a else 0
    noise = EPSILON * (longest + 1e-300)
    _number(room)
    _descend(block, room, size, noise)
    _copy(room.tour, room.best)
    best_length, state = _length(block, room.tour), SEED
    for _ in range(kicks):
        state = _kick(room, state)
        _descend(block, room, _without_doubles(room), noise)
        now = _length(block, room.tour)
        if now < best_length - noise:
            best_length = now
            _copy(room.tour, room.best)
        elif now > best_length + noise:
            _copy(room.best, room.tour)
            _number(room)
    depot = 0
    while room.best[depot] != 0:
        depot += 1
    for p in range(size - 1):
        order[p] = room.best[(depot + 1 + p) % size]


@inner
def _copy(tour: Any, to: Any) -> None:
    for p in range(len(tour)):
        to[p] = tour[p]


@inner
def _number(room: Any) -> None:
    """Write down where each node is."""
    for p in range(len(room.tour)):
        room.position[room.tour[p]] = p


@inner
def _without_doubles(room: Any) -> int:
    """Let the nodes a kick touched wait, each once; return how many."""
    count = 0
    for e in range(6):
        a = room.ends[e]
        if not room.waiting[a]:
            room.waiting[a] = 1
            room.ring[count] = a
            count += 1
    return count


@inner
def _find_neighbours(block: Any, near: Any) -> None:
    """The nearest nodes of each, nearest first, by insertion."""
    size, most = near.shape
    for a in range(size):
        found = 0
        for b in range(size):
            if b == a or (found == most and block[a, b] >= block[a, near[a, -1]]):
                continue
            at = min(found, most - 1)
            while at > 0 and block[a, near[a, at - 1]] > block[a, b]:
                near[a, at] = near[a, at - 1]
                at -= 1
            near[a, at] = b
            found = min(found + 1, most)


@inner
def _reverse(room: Any, first: int, last: int) -> None:
    """Reverse the cyclic stretch of positions first..last, the shorter way round."""
    tour, position = room.tour, room.position
    size = len(tour)
    inside = (last - first) % size + 1
    if 2 * inside > size:
        first, last = (last + 1) % size, (first - 1) % size
        inside = size - inside
    for _ in range(inside // 2):
        a, b = tour[first], tour[last]
        tour[first], position[b] = b, first
        tour[last], position[a] = a, last
        first = (first + 1) % size
        last = (last - 1) % size


@inner
def _descend(block: Any, room: Any, count: int, noise: float) -> None:
    """Improve around the `count` nodes that wait until none of them finds a move.

    Nodes come back only after a move, and each move shortens the tour by more than
    `noise`, which rounding cannot give back: the queue runs empty.
    """
    size, head = len(room.tour), 0
    while count:
        a = room.ring[head]
        head = (head + 1) % size
        count -= 1
        room.waiting[a] = 0
        found = _two_opt(block, room, a, noise)
        if not found:
            found = _or_opt(block, room, a, noise)
        for e in range(found):
            b = room.ends[e]
            if not room.waiting[b]:
                room.waiting[b] = 1
                room.ring[(head + count) % size] = b
                count += 1


@inner
def _two_opt(block: Any, room: Any, a: int, noise: float) -> int:
    """Best move that gives `a` a near neighbour by reversing a stretch."""
    tour, position, ends = room.tour, room.position, room.ends
    size = len(tour)
    best, best_b, best_way = -noise, -1, 0
    for way in (1, -1):
        a_next = tour[(position[a] + way) % size]
        here = block[a, a_next]
        for b in room.near[a]:
            gain = block[a, b] - here
            if gain >= 0:
                break
            b_next = tour[(position[b] + way) % size]
            gain += block[a_next, b_next] - block[b, b_next]
            if gain < best and b != a_next:
                best, best_b, best_way = gain, b, way
    if best_b < 0:
        return 0
    b = best_b
    ends[0], ends[1] = a, b
    ends[2] = tour[(position[a] + best_way) % size]
    ends[3] = tour[(position[b] + best_way) % size]
    if best_way == 1:
        _reverse(room, (position[a] + 1) % size, position[b])
    else:
        _reverse(room, position[b], (position[a] - 1) % size)
    return 4


@inner
def _or_opt(block: Any, room: Any, a: int, noise: float) -> int:
    """Best move of 1..3 stops that start or end at `a` to beside a near node."""
    tour, position, ends = room.tour, room.position, room.ends
    size = len(tour)
    best, best_other, best_left, best_right = -noise, -1, -1, -1
    joins_left = False
    for way in (1, -1):  # the stretch runs from `a` in this direction
        for stops in range(1, min(3, size - 3) + 1):
            far = tour[(position[a] + way * (stops - 1)) % size]
            out_a = tour[(position[a] - way) % size]
            out_far = tour[(position[far] + way) % size]
            freed = block[out_a, a] + block[far, out_far] - block[out_a, out_far]
            for b in room.near[a]:
                if block[a, b] >= freed:
                    break
                offset = (position[b] - position[a]) * way % size
                if offset < stops:
                    continue  # b is in the stretch
                for side in (1, -1):
                    other = tour[(position[b] + side) % size]
                    if (b == out_a and other == a) or (b == out_far and other == far):
                        other = out_far if b == out_a else out_a
                    gain = block[a, b] + block[far, other] - block[b, other] - freed
                    if gain < best:
                        best, best_other = gain, other
                        best_left, best_right = b, far
                        joins_left = way == 1
    if best_left < 0:
        return 0
    far, b, other = best_right, best_left, best_other
    first, last = (a, far) if joins_left else (far, a)
    ends[0], ends[1], ends[2], ends[3] = a, far, b, other
    ends[4] = tour[(position[first] - 1) % size]
    ends[5] = tour[(position[last] + 1) % size]
    _relocate(room, (first, last), a, (b, other))
    return 6


@inner
def _relocate(room: Any, stretch: Any, a: int, between: Any) -> None:
    """Move a stretch between two neighbours, its end `a` next to the first of them."""
    tour, kept, (b, other) = room.tour, room.kept, between
    size = len(tour)
    start = room.position[stretch[0]]
    stops = (room.position[stretch[1]] - start) % size + 1
    for p in range(size):  # the stretch first, then the rest in its order
        kept[p] = tour[(start + p) % size]
    write = 0
    for p in range(stops, size):
        node = kept[p]
        tour[write] = node
        write += 1
        follow = kept[p + 1] if p + 1 < size else kept[stops]
        if (node == b and follow == other) or (node == other and follow == b):
            a_first = node == b
            ahead = (kept[0] == a) == a_first
            for q in range(stops):
                tour[write] = kept[q] if ahead else kept[stops - 1 - q]
                write += 1
            b, other = -1, -1  # once: with two nodes left both directions match
    _number(room)


@inner
def _kick(room: Any, state: Any) -> Any:
    """Swap two neighbouring short stretches (a local double bridge)."""
    tour, kept = room.tour, room.kept
    size = len(tour)
    span = np.uint64(min(size - 2, 30))
    low, middle, high = size, size, 0
    for _ in range(3):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        cut: Any = np.int64(state % span)
        middle = max(low, min(middle, cut))
        low, high = min(low, cut), max(high, cut)
    start = np.int64((state >> np.uint64(20)) % np.uint64(size))
    one, two = middle - low + 1, high - middle + 1
    if one + two > size - 1:
        two = size - 1 - one
    for p in range(one + two):
        kept[p] = tour[(start + p) % size]
    for p in range(one + two):
        node = kept[(p + one) % (one + two)]
        tour[(start + p) % size] = node
        room.position[node] = (start + p) % size
    marks = (start - 1, start, start + two - 1, start + two, start + one + two - 1)
    for t in range(5):
        room.ends[t] = tour[marks[t] % size]
    room.ends[5] = tour[(start + one + two) % size]
    return state
