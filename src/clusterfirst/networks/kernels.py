"""The sums of the networks, compiled: float32 rows, a block of them at a time.

Shape letters as in network.py. A block of rows goes through all that needs no other
row, products included, while it is in the cache. A trained matrix comes in panels
(columns / PANEL, depth, PANEL), filled up with zeros; rows are padded to a multiple of
ROWS, and what stands there means nothing.

Sums along neighbour lists read every listed row where it lies; lists are flat, those
of token t in start[t] .. start[t + 1].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clusterfirst.networks.elementary import exp, gelu, inner_summing, log, summing
from clusterfirst.networks.vectors import (
    LANES,
    PANEL,
    ROWS,
    folded,
    larger,
    load,
    minus,
    ones,
    over,
    plus,
    store,
    tile,
    times,
    times_plus,
    zeros,
)

F = np.float32
EPSILON = F(1e-5)  # of a layer norm, as in torch
BLOCK = 4 * ROWS  # rows


@inner_summing
def _product(x: Any, panels: Any, out: Any, places: Any, steps: Any) -> None:
    """Products of rows with a matrix; `places` and `steps` say where rows stand.

    `places` is (first number of x, how many rows, first row of out), `steps` those of
    x from row to row and from column to column.
    """
    (at, rows, to), (row, column) = places, steps
    count, depth, wide = panels.shape[0], panels.shape[1], out.shape[1]
    for p in range(count):
        for r in range(0, rows, ROWS):
            first, into = p * depth * PANEL, (to + r) * wide + p * PANEL
            where = (at + r * row, first, into)
            tile((x, panels, out), where, (row, column, depth, wide))


@inner_summing
def _activate(x: Any, bias: Any, rows: int) -> None:
    """gelu(x + bias) in place."""
    for r in range(rows):
        for i in range(len(bias)):
            x[r, i] = gelu(x[r, i] + bias[i])


@inner_summing
def _normalise(row: Any, norm: Any, out: Any) -> None:
    """Layer norm of one row."""
    weight, shift = norm
    D, total, spread = len(weight), F(0.0), F(0.0)
    for i in range(D):
        total += row[i]
    mean = total / F(D)
    for i in range(D):
        spread += (row[i] - mean) * (row[i] - mean)
    rise = F(1.0) / np.sqrt(spread / F(D) + EPSILON)
    for i in range(D):
        out[i] = (row[i] - mean) * rise * weight[i] + shift[i]


@inner_summing
def _add_and_norm(x: Any, change: Any, bias: Any, norm: Any, out: Any) -> None:
    """Add to rows of x and write their layer norm."""
    for r in range(len(x)):
        for i in range(len(bias)):
            x[r, i] += change[r, i] + bias[i]
        _normalise(x[r], norm, out[r])


@inner_summing
def _hand_on(y: Any, panels: Any, out: Any, first: int, rows: int) -> None:
    """Write products of rows with what follows, or the rows if nothing does."""
    if len(panels) > 0:
        _product(y, panels, out, (0, rows, first), (y.shape[1], 1))
        return
    for r in range(rows):
        for i in range(y.shape[1]):
            out[first + r, i] = y[r, i]


@summing
def enter(x: Any, rows: Any, follows: Any, room: Any, out: Any) -> None:
    """What follows before the first layer, for rows first .. end - 1 of x."""
    norm, panels = follows
    for first in range(rows[0], rows[1], BLOCK):
        count = min(BLOCK, rows[1] - first)
        for r in range(count):
            _normalise(x[first + r], norm, room[r])
        _hand_on(room, panels, out, first, count)


@summing
def layer(
    x: Any, qkv: Any, lists: Any, place: Any, weights: Any, rooms: Any, out: Any
) -> None:
    """One transformer layer for rows first .. end - 1 of x, which it changes.

    `place` is (first, end, what `_attend` wants to know). `weights` is (bias of the
    queries, three matrices with biases, the norm before the second, what follows):
    `out` gets queries, keys and values of the next layer, or the norm after the last.
    """
    (begin, end, heads), (bias, matrices, norm, (last, panels)) = place, weights
    (to_out, out_bias), (to_inner, inner_bias), (to_outer, outer_bias) = matrices
    own, mixed, y, hidden, change = rooms
    for first in range(begin, end, BLOCK):
        rows = min(BLOCK, end - first)
        some = x[first : first + rows]
        _attend((qkv, bias), (first, rows), lists, heads, own, mixed)
        _product(mixed, to_out, change, (0, rows, 0), (mixed.shape[1], 1))
        _add_and_norm(some, change, out_bias, norm, y)
        _product(y, to_inner, hidden, (0, rows, 0), (y.shape[1], 1))
        _activate(hidden, inner_bias, rows)
        _product(hidden, to_outer, change, (0, rows, 0), (hidden.shape[1], 1))
        _add_and_norm(some, change, outer_bias, last, y)
        _hand_on(y, panels, out, first, rows)


@summing
def linear(x: Any, rows: int, to: Any, room: Any, out: Any) -> None:
    """Products of the first rows of x with a matrix, and its bias added."""
    panels, bias = to
    for first in range(0, rows, BLOCK):
        count = min(BLOCK, rows - first)
        at = first * x.shape[1]
        _product(x, panels, room, (at, count, 0), (x.shape[1], 1))
        _write(room, (first, count), bias, out)


@summing
def perceptron(x: Any, line: Any, inner: Any, outer: Any, rooms: Any, out: Any) -> None:
    """Two layers, the paper's form of every head, of the first rows of x.

    `line` is (how many rows, and the steps of x from row to row and from column to
    column).
    """
    (rows, row, column), (hidden, last) = line, rooms
    (to_inner, inner_bias), (to_outer, outer_bias) = inner, outer
    for first in range(0, rows, BLOCK):
        count = min(BLOCK, rows - first)
        _product(x, to_inner, hidden, (first * row, count, 0), (row, column))
        _activate(hidden, inner_bias, count)
        _product(hidden, to_outer, last, (0, count, 0), (hidden.shape[1], 1))
        _write(last, (first, count), outer_bias, out)


@inner_summing
def _write(room: Any, rows: Any, bias: Any, out: Any) -> None:
    """Write a block of sums and a bias to the rows of `out`."""
    first, count = rows
    for r in range(count):
        for i in range(len(bias)):
            out[first + r, i] = room[r, i] + bias[i]


@inner_summing
def _attend(
    queries: Any, rows: Any, lists: Any, place: Any, room: Any, out: Any
) -> None:
    """What some tokens gather from those they see (the paper's mask, Section 2.1).

    Columns of queries, keys and values stand feature by feature, the heads of each
    together, so that lane k of a vector belongs to head k mod H and one sum serves all
    heads. `lists` is (start (T + 1,), index (E,), about (E, P + layers H)): the tokens
    seen, their pair features, and the biases these give the logits of every layer;
    `place` is (heads, their lanes H, P, column of this layer's biases). `bias` is that
    of the queries: one of the keys cancels in the softmax, and that of the values is in
    the product that follows. `room` is a query (D,), which lanes take a bias, and
    logits (longest LANES,). Writes mean values and mean pair features (rows, D + P H)
    under the attention weights.
    """
    (start, index, about), (_, _, P, _), (qkv, bias) = lists, place, queries
    query, mask, logits = room
    D, wide = len(query), out.shape[1]
    for r in range(rows[1]):
        t = rows[0] + r
        for i in range(D):
            query[i] = qkv[t, i] + bias[i]
        first, seen = start[t], index[start[t] : start[t + 1]]
        _logits((query, qkv), seen, (about, first, mask), place, logits)
        _exponentials(logits, len(seen))
        _mix(logits, qkv, seen, out, r * wide)
        if P > 0:
            pairs = about[first : first + len(seen)]
            _means(logits, pairs, place, out, r * wide + D)


@inner_summing
def _logits(rows: Any, seen: Any, biases: Any, place: Any, out: Any) -> None:
    """Products of a query with the listed keys, each head's in its lanes."""
    (query, qkv), (about, first, mask), (_, H, P, column) = rows, biases, place
    D, wide = len(query), qkv.shape[1]
    for j in range(len(seen)):
        key = seen[j] * wide + D
        one, two = zeros(LANES), zeros(LANES)
        if P > 0:
            at = (first + j) * about.shape[1] + column
            one = times_plus(load(mask, 0, LANES), load(about, at, LANES), one)
        for i in range(0, D, 2 * LANES):
            other = load(qkv, key + i, LANES)
            one = times_plus(load(query, i, LANES), other, one)
            other = load(qkv, key + i + LANES, LANES)
            two = times_plus(load(query, i + LANES, LANES), other, two)
        one = plus(one, two)
        if H <= 8:
            one = folded(one, 8)
        if H <= 4:
            one = folded(one, 4)
        if H <= 2:
            one = folded(one, 2)
        if H <= 1:
            one = folded(one, 1)
        store(out, j * LANES, LANES, one)


@inner_summing
def _exponentials(logits: Any, count: int) -> None:
    """Turn the first logits of each lane into weights that add up to 1."""
    top = load(logits, 0, LANES)
    for j in range(1, count):
        top = larger(top, load(logits, j * LANES, LANES))
    for j in range(count):
        store(logits, j * LANES, LANES, minus(load(logits, j * LANES, LANES), top))
    for k in range(count * LANES):
        logits[k] = exp(logits[k])
    total = zeros(LANES)
    for j in range(count):
        total = plus(total, load(logits, j * LANES, LANES))
    share = over(ones(LANES), total)
    for j in range(count):
        store(logits, j * LANES, LANES, times(load(logits, j * LANES, LANES), share))


@inner_summing
def _mix(weights: Any, qkv: Any, seen: Any, out: Any, first: int) -> None:
    """Sum of the values of the listed rows under the weights.

    Several sums at a time, each of which waits for itself.
    """
    wide = qkv.shape[1]
    D = wide // 3
    many = D - D % (4 * LANES)
    for i in range(0, many, 4 * LANES):
        one, two, three, four = zeros(LANES), zeros(LANES), zeros(LANES), zeros(LANES)
        for j in range(len(seen)):
            share = load(weights, j * LANES, LANES)
            at = seen[j] * wide + 2 * D + i
            one = times_plus(share, load(qkv, at, LANES), one)
            two = times_plus(share, load(qkv, at + LANES, LANES), two)
            three = times_plus(share, load(qkv, at + 2 * LANES, LANES), three)
            four = times_plus(share, load(qkv, at + 3 * LANES, LANES), four)
        store(out, first + i, LANES, one)
        store(out, first + i + LANES, LANES, two)
        store(out, first + i + 2 * LANES, LANES, three)
        store(out, first + i + 3 * LANES, LANES, four)
    for i in range(many, D, LANES):
        one = zeros(LANES)
        for j in range(len(seen)):
            share = load(weights, j * LANES, LANES)
            one = times_plus(share, load(qkv, seen[j] * wide + 2 * D + i, LANES), one)
        store(out, first + i, LANES, one)


@inner_summing
def _means(weights: Any, rows: Any, place: Any, out: Any, first: int) -> None:
    """Sums of the pair features of all rows under the weights, head by head.

    Vectors are longer than there are heads: what each of them writes too much, the
    next one writes again.
    """
    (_, H, P, _), count = place, len(rows)
    many = P - P % 4
    for p in range(0, many, 4):
        one, two, three, four = zeros(LANES), zeros(LANES), zeros(LANES), zeros(LANES)
        for j in range(count):
            share = load(weights, j * LANES, LANES)
            one = times_plus(rows[j, p], share, one)
            two = times_plus(rows[j, p + 1], share, two)
            three = times_plus(rows[j, p + 2], share, three)
            four = times_plus(rows[j, p + 3], share, four)
        store(out, first + p * H, LANES, one)
        store(out, first + (p + 1) * H, LANES, two)
        store(out, first + (p + 2) * H, LANES, three)
        store(out, first + (p + 3) * H, LANES, four)
    for p in range(many, P):
        one = zeros(LANES)
        for j in range(count):
            one = times_plus(rows[j, p], load(weights, j * LANES, LANES), one)
        store(out, first + p * H, LANES, one)


@summing
def join_lists(nodes: Any, owner: Any, seeds: Any, out: Any) -> None:
    """Write the lists of nodes, then seeds: a token's own two, or its owner's nodes.

    `seeds` is (start, index, about) like the others.
    """
    (start, index, about), (from_start, from_index, from_about) = nodes, seeds
    into, to_index, to_about = out
    at = 0
    for t in range(len(owner)):
        into[t] = at
        first, end = start[owner[t]], start[owner[t] + 1]
        at = _copy((index, about), first, end, (to_index, to_about), at)
        first, end = from_start[t], from_start[t + 1]
        at = _copy((from_index, from_about), first, end, (to_index, to_about), at)
    into[len(owner)] = at


@inner_summing
def _copy(source: Any, first: int, end: int, out: Any, at: int) -> int:
    """Entries first .. end - 1 to place `at`; return where the next ones go."""
    (index, about), (to_index, to_about) = source, out
    for e in range(first, end):
        to_index[at] = index[e]
        for i in range(about.shape[1]):
            to_about[at, i] = about[e, i]
        at += 1
    return at


@summing
def latent_distances(unit: Any, seeds: Any, candidates: Any, out: Any) -> None:
    """Delta_ij = |h_i - c_j| of unit vectors, at each customer's candidates."""
    for i in range(len(candidates)):
        row = unit[i + 1]
        for c in range(candidates.shape[1]):
            other = seeds[candidates[i, c]]
            dot = F(0.0)
            for d in range(len(row)):
                dot += row[d] * other[d]
            square = F(2.0) - F(2.0) * dot
            out[i, c] = np.sqrt(min(max(square, F(1e-6)), F(4.0)))


@summing
def shared_products(left: Any, right: Any, mine: Any, others: Any, out: Any) -> None:
    """Products of the channels of customer and seed, pair by pair: (SHARED, m)."""
    for k in range(len(mine)):
        row, other = left[mine[k]], right[others[k]]
        for s in range(len(row)):
            out[s, k] = row[s] * other[s]


@summing
def pair_costs(
    features: Any, rows: int, inner: Any, outer: Any, room: Any, out: Any
) -> None:
    """Add softplus(weight gelu(inner x) + constant) of each column of features."""
    (to_inner, bias), (weight, constant) = inner, outer
    steps = (1, features.shape[1])
    for first in range(0, rows, BLOCK):
        count = min(BLOCK, rows - first)
        _product(features, to_inner, room, (first, count, 0), steps)
        _activate(room, bias, count)
        for r in range(count):
            total = constant[0]
            for i in range(len(weight)):
                total += room[r, i] * weight[i]
            room[r, 0] = total
        for r in range(count):
            value = room[r, 0]
            more = max(value, F(0.0)) + log(F(1.0) + exp(-abs(value)))
            out[first + r] += more
