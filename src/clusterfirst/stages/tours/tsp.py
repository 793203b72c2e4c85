"""Compiled tours: exact by dynamic programming, or 2-opt and Or-opt with kicks.

Nodes are 0..m of a dense distance block, 0 being the depot; a tour is an order of
1..m. Both solvers are deterministic: kicks come from xorshift numbers with a
fixed start, so equal blocks give equal tours on every machine.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from clusterfirst.problem.instance import FloatArray, IntArray

Graph = tuple[FloatArray, IntArray]  # distances, and each node's nearest nodes
Path = tuple[IntArray, IntArray]  # the tour, and each node's position in it

EPSILON = 1e-10  # relative: smaller gains are rounding noise and would cycle


@njit(cache=True, nogil=True)
def solve_blocks(
    blocks: FloatArray,
    starts: IntArray,
    orders: IntArray,
    exact: int,
    kicks: float,
) -> None:
    """Tour every cluster c: its nodes are orders[starts[c]:starts[c+1]], depot out.

    `orders` holds, per cluster, a permutation of 1..m to start from and is
    overwritten by the tour. `blocks` are the (m+1, m+1) distances one after the
    other. Clusters of at most `exact` stops are solved exactly, others by local
    search with `kicks` kicks per stop.
    """
    at = 0
    for c in range(len(starts) - 1):
        order = orders[starts[c] : starts[c + 1]]
        size = len(order) + 1
        block = blocks[at : at + size * size].reshape(size, size)
        at += size * size
        if len(order) <= 2:
            continue
        if len(order) <= exact:
            order[:] = held_karp(block)
        else:
            order[:] = local_search(block, order, int(kicks * len(order)))


@njit(cache=True)
def nearest_first(blocks: FloatArray, starts: IntArray, orders: IntArray) -> None:
    """Write each cluster's nearest-neighbour order from the depot into `orders`."""
    at = 0
    for c in range(len(starts) - 1):
        order = orders[starts[c] : starts[c + 1]]
        size = len(order) + 1
        block = blocks[at : at + size * size].reshape(size, size)
        at += size * size
        left = np.ones(size, np.bool_)
        here = 0
        for p in range(len(order)):
            closest = -1
            for k in range(1, size):
                if left[k] and (closest < 0 or block[here, k] < block[here, closest]):
                    closest = k
            left[closest] = False
            order[p] = here = closest


@njit(cache=True, fastmath={"nnan", "nsz", "reassoc"})  # lets the minimum vectorise
def held_karp(block: FloatArray) -> IntArray:
    """Shortest tour by dynamic programming over subsets (Held and Karp 1962)."""
    m = len(block) - 1
    between = block[1:, 1:].copy()
    best = np.full((1 << m, m), 1e300)  # path 0 -> all of the subset, ending at k
    for k in range(m):
        best[1 << k, k] = block[0, k + 1]
    for chosen in range(1, 1 << m):
        for k in range(m):
            before = chosen ^ (1 << k)
            if before < chosen and before:
                shortest = 1e300
                for j in range(m):
                    shortest = min(shortest, best[before, j] + between[k, j])
                best[chosen, k] = shortest
    order = np.empty(m, np.int64)
    chosen = (1 << m) - 1
    onward = block[0, 1:]  # from the depot backwards: the cheapest way to arrive
    for position in range(m - 1, -1, -1):
        last = int(np.argmin(best[chosen] + onward))
        order[position] = last + 1
        chosen ^= 1 << last
        onward = between[last]
    return order


@njit(cache=True)
def length(block: FloatArray, tour: IntArray) -> float:
    """Length of a closed tour of node numbers."""
    total = float(block[tour[-1], tour[0]])
    for p in range(len(tour) - 1):
        total += float(block[tour[p], tour[p + 1]])
    return total


@njit(cache=True)
def local_search(block: FloatArray, start: IntArray, kicks: int) -> IntArray:
    """2-opt and Or-opt to a local optimum, then `kicks` segment kicks, best kept."""
    size = len(block)
    tour = np.zeros(size, np.int64)
    tour[1:] = start
    noise = EPSILON * (block.max() + 1e-300)
    position = np.empty(size, np.int64)
    for p in range(size):
        position[tour[p]] = p
    graph = (block, _neighbours(block, min(10, size - 1)))
    path = (tour, position)
    queue = np.arange(size)
    _descend(graph, path, queue, noise)
    best, best_length = tour.copy(), length(block, tour)
    state = np.uint64(88172645463325252)
    for _ in range(kicks):
        state, touched = _kick(path, state)
        _descend(graph, path, touched, noise)
        now = length(block, tour)
        if now < best_length - noise:
            best_length = now
            best[:] = tour
        elif now > best_length + noise:
            tour[:] = best
            for p in range(size):
                position[tour[p]] = p
    depot = 0
    while best[depot] != 0:
        depot += 1
    return np.concatenate((best[depot + 1 :], best[:depot]))


@njit(cache=True)
def _neighbours(block: FloatArray, count: int) -> IntArray:
    size = len(block)
    near = np.empty((size, count), np.int64)
    for a in range(size):
        order = np.argsort(block[a])
        filled = 0
        for b in order:
            if b != a and filled < count:
                near[a, filled] = b
                filled += 1
    return near


@njit(cache=True)
def _reverse(path: Path, first: int, last: int) -> None:
    """Reverse the cyclic stretch of positions first..last, the shorter way round."""
    tour, position = path
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


@njit(cache=True)
def _descend(graph: Graph, path: Path, queue: IntArray, noise: float) -> None:
    """Improve around the nodes in `queue` until none of them finds a move.

    Nodes come back only after a move, and each move shortens the tour by more than
    `noise`, which rounding cannot give back: the queue runs empty.
    """
    size = len(path[0])
    waiting = np.zeros(size, np.bool_)
    ring = np.empty(size + 1, np.int64)
    head, count = 0, 0
    for a in queue:
        if not waiting[a]:
            waiting[a] = True
            ring[count] = a
            count += 1
    ends = np.empty(6, np.int64)
    while count:
        a = ring[head]
        head = (head + 1) % (size + 1)
        count -= 1
        waiting[a] = False
        found = _two_opt(graph, path, a, noise, ends)
        if not found:
            found = _or_opt(graph, path, a, noise, ends)
        for e in range(found):
            if not waiting[ends[e]]:
                waiting[ends[e]] = True
                ring[(head + count) % (size + 1)] = ends[e]
                count += 1


@njit(cache=True)
def _two_opt(graph: Graph, path: Path, a: int, noise: float, ends: IntArray) -> int:
    """Best move that gives `a` a near neighbour by reversing a stretch."""
    (block, near), (tour, position) = graph, path
    size = len(tour)
    best, best_b, best_way = -noise, -1, 0
    for way in (1, -1):
        a_next = tour[(position[a] + way) % size]
        here = block[a, a_next]
        for b in near[a]:
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
        _reverse(path, (position[a] + 1) % size, position[b])
    else:
        _reverse(path, position[b], (position[a] - 1) % size)
    return 4


@njit(cache=True)
def _or_opt(graph: Graph, path: Path, a: int, noise: float, ends: IntArray) -> int:
    """Best move of 1..3 stops that start or end at `a` to beside a near node."""
    (block, near), (tour, position) = graph, path
    size = len(tour)
    best, best_other, best_left, best_right = -noise, -1, -1, -1
    joins_left = False
    for way in (1, -1):  # the stretch runs from `a` in this direction
        for stops in range(1, min(3, size - 3) + 1):
            far = tour[(position[a] + way * (stops - 1)) % size]
            out_a = tour[(position[a] - way) % size]
            out_far = tour[(position[far] + way) % size]
            freed = block[out_a, a] + block[far, out_far] - block[out_a, out_far]
            for b in near[a]:
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
    before = tour[(position[first] - 1) % size]
    beyond = tour[(position[last] + 1) % size]
    ends[0], ends[1], ends[2], ends[3] = a, far, b, other
    ends[4], ends[5] = before, beyond
    _relocate(path, (first, last), a, (b, other))
    return 6


@njit(cache=True)
def _relocate(
    path: Path, stretch: tuple[int, int], a: int, between: tuple[int, int]
) -> None:
    """Move a stretch between two neighbours, its end `a` next to the first of them."""
    (tour, position), (b, other) = path, between
    size = len(tour)
    start = position[stretch[0]]
    stops = (position[stretch[1]] - start) % size + 1
    kept = np.empty(size, np.int64)
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
    for p in range(size):
        position[tour[p]] = p


@njit(cache=True)
def _kick(path: Path, state: np.uint64) -> tuple[np.uint64, IntArray]:
    """Swap two neighbouring short stretches (a local double bridge)."""
    tour, position = path
    size = len(tour)
    span = min(size - 2, 30)
    cuts = np.empty(3, np.int64)
    for c in range(3):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        cuts[c] = state % np.uint64(span)
    start = np.int64((state >> np.uint64(20)) % np.uint64(size))
    cuts.sort()
    one, two = cuts[1] - cuts[0] + 1, cuts[2] - cuts[1] + 1
    if one + two > size - 1:
        two = size - 1 - one
    kept = np.empty(one + two, np.int64)
    for p in range(one + two):
        kept[p] = tour[(start + p) % size]
    for p in range(one + two):
        node = kept[(p + one) % (one + two)]
        tour[(start + p) % size] = node
        position[node] = (start + p) % size
    touched = np.empty(6, np.int64)
    marks = (start - 1, start, start + two - 1, start + two, start + one + two - 1)
    for t in range(5):
        touched[t] = tour[marks[t] % size]
    touched[5] = tour[(start + one + two) % size]
    return state, touched
