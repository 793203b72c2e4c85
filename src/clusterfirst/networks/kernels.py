"""The sums of the networks that are no matrix products, compiled: float32 rows.

Shape letters as in network.py. Sums along neighbour lists read every listed row where
it lies; lists are flat, those of token t in start[t] .. start[t + 1].

These sums are short and their rows lie anywhere. Left to itself the compiler enters a
loop of vectors for each of them and leaves it again, which takes longer than the sums
(log/). So vectors of float32 are values here: those of LLVM, which turns them into what
a processor has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, models, register_model

from clusterfirst.networks.elementary import exp, gelu, inner_summing, log, summing

FLOAT = ir.FloatType()
FUSED = ("contract",)  # a product and a sum may be one instruction


def built(function: Callable[..., Any]) -> Any:
    """Let kernels call what builds their code; numba's own decorator has no types."""
    return intrinsic(function)


class VectorType(types.Type):
    """So many float32 in one register, or in a few."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        super().__init__(name=f"float32 x {lanes}")


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: VectorType) -> None:
        super().__init__(  # type: ignore[no-untyped-call]
            manager, kind, ir.VectorType(FLOAT, kind.lanes)
        )


def _place(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    """Pointer to the vector that begins at element `at` of an array in one piece."""
    data = context.make_array(kind.args[0])(context, builder, array).data
    wide = context.get_value_type(VectorType(kind.args[2].literal_value))
    return builder.bitcast(builder.gep(data, [at]), wide.as_pointer())


@built
def load(_: Any, array: Any, at: Any, lanes: Any) -> Any:
    """Return elements at .. at + lanes - 1 of an array, counted in one piece."""

    def generate(context: Any, builder: Any, kind: Any, given: Any) -> Any:
        place = _place(context, builder, kind, given[0], given[1])
        return builder.load(place, align=4)

    if not isinstance(lanes, types.IntegerLiteral):
        return None
    return VectorType(lanes.literal_value)(array, types.int64, lanes), generate


@built
def store(_: Any, array: Any, at: Any, lanes: Any, vector: Any) -> Any:
    """Write a vector to elements at .. of an array."""

    def generate(context: Any, builder: Any, kind: Any, given: Any) -> Any:
        place = _place(context, builder, kind, given[0], given[1])
        builder.store(given[3], place, align=4)
        return context.get_dummy_value()

    if not isinstance(lanes, types.IntegerLiteral):
        return None
    return types.void(array, types.int64, lanes, vector), generate


@built
def zeros(_: Any, lanes: Any) -> Any:
    """Return a vector of zeros."""

    def generate(context: Any, builder: Any, kind: Any, given: Any) -> Any:
        return ir.Constant(context.get_value_type(kind.return_type), None)

    if not isinstance(lanes, types.IntegerLiteral):
        return None
    return VectorType(lanes.literal_value)(lanes), generate


@built
def times_plus(_: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a b + c, element by element; a may be one number."""

    def generate(context: Any, builder: Any, kind: Any, given: Any) -> Any:
        left, right, more = given
        wide = context.get_value_type(kind.return_type)
        if not isinstance(kind.args[0], VectorType):
            one = builder.insert_element(
                ir.Constant(wide, ir.Undefined), left, ir.Constant(ir.IntType(32), 0)
            )
            lane = ir.Constant(ir.VectorType(ir.IntType(32), wide.count), None)
            left = builder.shuffle_vector(one, ir.Constant(wide, ir.Undefined), lane)
        product = builder.fmul(left, right, flags=FUSED)
        return builder.fadd(product, more, flags=FUSED)

    return c(a, b, c), generate


@built
def folded(_: Any, vector: Any, lanes: Any) -> Any:
    """Return the vector plus itself turned by so many lanes."""

    def generate(context: Any, builder: Any, kind: Any, given: Any) -> Any:
        count, step = kind.args[0].lanes, kind.args[1].literal_value
        order = [(lane + step) % count for lane in range(count)]
        lane = ir.Constant(ir.VectorType(ir.IntType(32), count), order)
        turned = builder.shuffle_vector(given[0], given[0], lane)
        return builder.fadd(given[0], turned)

    if not isinstance(lanes, types.IntegerLiteral):
        return None
    return vector(vector, lanes), generate


@built
def larger(_: Any, a: Any, b: Any) -> Any:
    """Return the larger of two vectors, element by element."""

    def generate(context: Any, builder: Any, kind: Any, given: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *given), *given)

    return a(a, b), generate


def _by_element(name: str) -> Any:
    """What LLVM does with two vectors, element by element."""

    @built
    def both(_: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, kind: Any, given: Any) -> Any:
            return getattr(builder, name)(*given)

        return a(a, b), generate

    return both


plus, minus, over = _by_element("fadd"), _by_element("fsub"), _by_element("fdiv")


F = np.float32
LANES = 16  # of a vector: every head has some of them
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
def attend(qkv: Any, bias: Any, lists: Any, place: Any, room: Any, out: Any) -> None:
    """What each token gathers from those it sees (the paper's mask, Section 2.1).

    Columns of queries, keys and values stand feature by feature, the heads of each
    together, so that lane k of a vector belongs to head k mod H and one sum serves all
    heads. `lists` is (start (T + 1,), index (E,), about (E, P + layers H)): the tokens
    seen, their pair features, and the biases these give the logits of every layer;
    `place` is (heads, their lanes H, P, column of this layer's biases). `bias` is that
    of the queries: one of the keys cancels in the softmax, and that of the values is in
    the product that follows. `room` is a query (D,), which lanes take a bias, and
    logits (longest LANES,). Writes mean values and mean pair features (T, D + P H)
    under the attention weights.
    """
    (start, index, about), (_, _, P, _) = lists, place
    query, mask, logits = room
    D, wide = len(query), out.shape[1]
    for t in range(len(qkv)):
        for i in range(D):
            query[i] = qkv[t, i] + bias[i]
        first, seen = start[t], index[start[t] : start[t + 1]]
        _logits((query, qkv), seen, (about, first, mask), place, logits)
        _exponentials(logits, len(seen))
        _mix(logits, qkv, seen, out, t * wide)
        if P > 0:
            pairs = about[first : first + len(seen)]
            _means(logits, pairs, place, out, t * wide + D)


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
    for j in range(count):
        store(logits, j * LANES, LANES, over(load(logits, j * LANES, LANES), total))


@inner_summing
def _mix(weights: Any, qkv: Any, seen: Any, out: Any, first: int) -> None:
    """Sum of the values of the listed rows under the weights."""
    wide = qkv.shape[1]
    D = wide // 3
    for i in range(0, D, 2 * LANES):
        one, two = zeros(LANES), zeros(LANES)
        for j in range(len(seen)):
            share = load(weights, j * LANES, LANES)
            value = seen[j] * wide + 2 * D + i
            one = times_plus(share, load(qkv, value, LANES), one)
            two = times_plus(share, load(qkv, value + LANES, LANES), two)
        store(out, first + i, LANES, one)
        store(out, first + i + LANES, LANES, two)


@inner_summing
def _means(weights: Any, rows: Any, place: Any, out: Any, first: int) -> None:
    """Sums of the pair features of all rows under the weights, head by head.

    Vectors are longer than there are heads: what each of them writes too much, the
    next one writes again.
    """
    (_, H, P, _), count = place, len(rows)
    for p in range(P):
        one, two = zeros(LANES), zeros(LANES)
        for j in range(0, count - 1, 2):
            one = times_plus(rows[j, p], load(weights, j * LANES, LANES), one)
            at = (j + 1) * LANES
            two = times_plus(rows[j + 1, p], load(weights, at, LANES), two)
        if count % 2:
            at = (count - 1) * LANES
            one = times_plus(rows[count - 1, p], load(weights, at, LANES), one)
        store(out, first + p * H, LANES, plus(one, two))


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
