"""The sums of the networks that are no matrix products, compiled: float32 rows.

Shape letters as in network.py. Sums along neighbour lists read every listed row where
it lies; lists are flat, those of token t in start[t] .. start[t + 1].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clusterfirst.networks.elementary import exp, gelu, inner_summing, log, summing

F = np.float32
EPSILON = F(1e-5)  # of a layer norm, as in torch


@summing
def add_and_norm(x: Any, change: Any, bias: Any, norm: Any, out: Any) -> None:
    """Add to x and write its layer norm."""
    weight, shift = norm
    D = x.shape[1]
    for t in range(len(x)):
        row, more, into = x[t], change[t], out[t]
        total = F(0.0)
        for i in range(D):
            value = row[i] + more[i] + bias[i]
            row[i] = value
            total += value
        mean = total / F(D)
        spread = F(0.0)
        for i in range(D):
            spread += (row[i] - mean) * (row[i] - mean)
        rise = F(1.0) / np.sqrt(spread / F(D) + EPSILON)
        for i in range(D):
            into[i] = (row[i] - mean) * rise * weight[i] + shift[i]


@summing
def activate(x: Any, bias: Any) -> None:
    """gelu(x + bias) in place."""
    for t in range(len(x)):
        row = x[t]
        for i in range(len(row)):
            row[i] = gelu(row[i] + bias[i])


@summing
def attend(qkv: Any, bias: Any, lists: Any, layer: int, room: Any, out: Any) -> None:
    """What each token gathers from those it sees (the paper's mask, Section 2.1).

    `lists` is (start (T + 1,), index (E,), about (E, P + layers H)): the tokens seen,
    their pair features, and the biases these give the logits of every layer. `bias` is
    that of the queries: one of the keys cancels in the softmax, and that of the values
    is in the product that follows. `room` holds a query (D,) and logits (H, longest).
    Writes mean values and mean pair features (T, D + H P) under the attention weights.
    """
    (start, index, about), (query, logits) = lists, room
    H, D = len(logits), len(query)
    width, P = D // H, (out.shape[1] - D) // H
    scale = F(1.0 / np.sqrt(width))
    for t in range(len(qkv)):
        for i in range(D):
            query[i] = (qkv[t, i] + bias[i]) * scale
        seen, pair = index[start[t] : start[t + 1]], about[start[t] : start[t + 1]]
        for h in range(H):
            logit = logits[h, : len(seen)]
            _dots(query[h * width : (h + 1) * width], qkv, D + h * width, seen, logit)
            if P > 0:
                for j in range(len(seen)):
                    logit[j] += pair[j, P + layer * H + h]
            _softmax(logit)
            first = h * width
            _mix(logit, qkv, 2 * D + first, seen, out[t, first : first + width])
            first = D + h * P
            _mean(logit, pair, out[t, first : first + P])


@inner_summing
def _dots(mine: Any, rows: Any, first: int, seen: Any, out: Any) -> None:
    """Products of a row with a part of each listed one, from column `first` on."""
    for j in range(len(seen)):
        other = rows[seen[j], first : first + len(mine)]
        total = F(0.0)
        for i in range(len(mine)):
            total += mine[i] * other[i]
        out[j] = total


@inner_summing
def _softmax(weights: Any) -> None:
    top = weights[0]
    for j in range(len(weights)):
        top = max(top, weights[j])
    total = F(0.0)
    for j in range(len(weights)):
        weight = exp(weights[j] - top)
        weights[j] = weight
        total += weight
    share = F(1.0) / total
    for j in range(len(weights)):
        weights[j] *= share


@inner_summing
def _mix(weights: Any, rows: Any, first: int, seen: Any, out: Any) -> None:
    """Sum of a part of the listed rows under the weights."""
    for i in range(len(out)):
        out[i] = F(0.0)
    for j in range(len(seen)):
        share, other = weights[j], rows[seen[j], first : first + len(out)]
        for i in range(len(out)):
            out[i] += share * other[i]


@inner_summing
def _mean(weights: Any, rows: Any, out: Any) -> None:
    """Sum of the first columns of all rows under the weights."""
    for i in range(len(out)):
        out[i] = F(0.0)
    for j in range(len(weights)):
        share, row = weights[j], rows[j]
        for i in range(len(out)):
            out[i] += share * row[i]


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
def last_layer(x: Any, bias: Any, weight: Any, constant: Any, out: Any) -> None:
    """softplus(weight gelu(x + bias) + constant) of each row."""
    for k in range(len(x)):
        row, total = x[k], F(0.0)
        for i in range(len(row)):
            total += gelu(row[i] + bias[i]) * weight[i]
        out[k] = total + constant
    for k in range(len(out)):
        value = out[k]
        out[k] = max(value, F(0.0)) + log(F(1.0) + exp(-abs(value)))
