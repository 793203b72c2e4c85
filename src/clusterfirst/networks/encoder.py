"""Transformer layers whose attention looks along neighbour lists, on numpy.

Shape letters as in network.py. The mask of the paper (Section 2.1) is a list per token,
so that the cost grows with T L, not T T, and so that relative geometry between a token
and each one it sees can enter twice: as a bias on the attention logits and as part of
the message.

These layers answer; `trainable/layers.py` has the same ones as they learn. config.py
describes both, names and shapes of the weights, and tests/test_parity.py compares them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from clusterfirst.networks.config import ModelConfig
from clusterfirst.networks.kernels import LANES, activate, add_and_norm, attend
from clusterfirst.networks.nodes import Float32
from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import IntArray

BLOCK = 4096  # pairs whose features are in the cache at a time
LAYERS = ("inner", "outer")  # of a perceptron


@dataclass(frozen=True)
class Lists:
    """Whom each token sees, in flat form: token t those in start[t]..start[t + 1]."""

    start: IntArray  # (T + 1,)
    index: IntArray  # (E,) tokens
    about: Float32  # (E, P + layers H) pair features, and what they add to the logits

    @property
    def arrays(self) -> tuple[IntArray, IntArray, Float32]:
        """As the kernels take them."""
        return self.start, self.index, self.about

    @property
    def longest(self) -> int:
        """Length of the longest list."""
        return int(np.diff(self.start).max(initial=1))


class Encoder:
    """Transformer layers whose attention looks along neighbour lists."""

    def __init__(
        self, config: ModelConfig, weights: Mapping[str, Any], phase: str, layers: int
    ) -> None:
        self.width, self.heads, self.pairs = (
            config.width,
            config.heads,
            config.pair_width,
        )
        name = f"{phase}.encoder"
        self.columns = interleaved(config.width, config.heads)
        self.layers = [
            _Layer(weights, f"{name}.layers.{i}", self.columns, config.heads)
            for i in range(layers)
        ]
        self.norm = (weights[f"{name}.norm.weight"], weights[f"{name}.norm.bias"])
        self.feedforward = config.feedforward
        if self.pairs:
            part = {each: f"{phase}.pair.{each}" for each in LAYERS}
            self.inner = _matrix(weights[f"{part['inner']}.weight"])
            self.inner_bias = weights[f"{part['inner']}.bias"]
            slopes = [each.slope for each in self.layers]
            # Pair features, and what they add to the logits of all layers and heads.
            outer = weights[f"{part['outer']}.weight"]
            last = weights[f"{part['outer']}.bias"]
            to_all = np.vstack([np.eye(self.pairs, dtype=np.float32), *slopes])
            self.outer = _matrix(to_all @ outer)
            self.outer_bias = to_all @ last

    def about(self, features: Float32, deadline: Deadline) -> Float32:
        """(E, P + layers H) what the layers know of pairs with these features."""
        E = features.shape[1]
        if not self.pairs:
            return np.empty((E, 0), dtype=np.float32)
        out = rows_to_read(E, self.outer.shape[1])
        for block in blocks(E):
            deadline.look()
            hidden = features[:, block].T @ self.inner
            activate(hidden, self.inner_bias)
            np.matmul(hidden, self.outer, out=out[block])
            out[block] += self.outer_bias
        return out

    def begin(self, change: Float32) -> Float32:
        """(T, 3 wide) queries, keys and values of the first layer: `begun` of `run`."""
        first, x, y = self.layers[0], np.zeros_like(change), np.empty_like(change)
        bias = np.zeros(self.width, dtype=np.float32)
        add_and_norm(x, change, bias, first.norm_attention, y)
        products: Float32 = y @ first.qkv
        return products

    def run(
        self,
        change: Float32,
        lists: Lists,
        deadline: Deadline,
        begun: Float32 | None = None,
    ) -> Float32:
        """(T, D) -> (T, D): attention and feed-forward, each normalised before.

        What is `begun` of the first tokens is not computed again.
        """
        T, D, H, P = len(change), self.width, self.heads, self.pairs
        lanes, wide = lanes_of(H), len(self.columns)
        x, y = np.zeros((T, D), dtype=np.float32), np.empty((T, D), dtype=np.float32)
        bias = np.zeros(D, dtype=np.float32)
        qkv = np.empty((T, 3 * wide), dtype=np.float32)
        mixed = rows_to_read(T, wide + P * lanes)
        inner = np.empty((T, self.feedforward), dtype=np.float32)
        room = (
            np.empty(wide, dtype=np.float32),
            (np.arange(LANES) < H).astype(np.float32),
            np.empty(lists.longest * LANES, dtype=np.float32),
        )
        for number, layer in enumerate(self.layers):
            deadline.look()
            add_and_norm(x, change, bias, layer.norm_attention, y)
            done = 0
            if begun is not None and number == 0:
                done = len(begun)
                qkv[:done] = begun
            np.matmul(y[done:], layer.qkv, out=qkv[done:])
            place = H, lanes, P, P + number * H
            attend(qkv, layer.query_bias, lists.arrays, place, room, mixed)
            change = np.matmul(mixed, layer.out)
            add_and_norm(x, change, layer.out_bias, layer.norm_feedforward, y)
            np.matmul(y, layer.inner, out=inner)
            activate(inner, layer.inner_bias)
            np.matmul(inner, layer.outer, out=change)
            bias = layer.outer_bias
        add_and_norm(x, change, bias, self.norm, y)
        return y


class _Layer:
    """The weights of one layer, turned the way products want them."""

    def __init__(
        self, weights: Mapping[str, Any], name: str, columns: IntArray, heads: int
    ) -> None:
        def part(key: str) -> Any:
            return weights[f"{name}.{key}"]

        self.norm_attention = (
            part("norm_attention.weight"),
            part("norm_attention.bias"),
        )
        self.norm_feedforward = (
            part("norm_feedforward.weight"),
            part("norm_feedforward.bias"),
        )
        out, biases = part("attention.out.weight"), part("attention.qkv.bias")
        D, qkv = len(out), part("attention.qkv.weight")
        scale = np.sqrt(np.float32(heads) / D)
        rows = [_spread(each, columns) for each in np.split(qkv, 3)]
        self.qkv = _matrix(np.concatenate([rows[0] * scale, *rows[1:]]))
        self.query_bias = _spread(biases[:D], columns) * scale
        # Weights of attention add up to 1: what all values have in common comes out.
        self.out_bias = part("attention.out.bias") + out @ biases[2 * D :]
        paired = f"{name}.attention.message.weight" in weights
        message = []
        if paired:
            by_head = part("attention.message.weight")  # (D, heads P)
            by_pair = interleaved(by_head.shape[1], heads, whole=1)
            message = [_spread(by_head.T, by_pair).T]
        self.slope: Any = part("attention.bias.weight") if paired else None
        self.out = _matrix(
            np.concatenate([_spread(out.T, columns).T, *message], axis=1)
        )
        self.inner = _matrix(part("feedforward.inner.weight"))
        self.inner_bias = part("feedforward.inner.bias")
        self.outer = _matrix(part("feedforward.outer.weight"))
        self.outer_bias = part("feedforward.outer.bias")


def _matrix(weight: Float32) -> Float32:
    """Input by output, in one piece."""
    return np.ascontiguousarray(weight.T)


def lanes_of(heads: int) -> int:
    """Lanes that a feature has in a vector: the heads, and some for nobody."""
    return 1 << (heads - 1).bit_length()


def interleaved(width: int, heads: int, whole: int = 2 * LANES) -> IntArray:
    """Which column stands where in attention: the heads of a feature together.

    -1 where nothing does, so that the columns are a multiple of `whole`.
    """
    lanes, each = lanes_of(heads), width // heads
    features = -(-each * lanes // whole) * whole // lanes
    columns = np.full((features, lanes), -1)
    columns[:each, :heads] = np.arange(width).reshape(heads, each).T
    return columns.ravel()


def _spread(rows: Float32, columns: IntArray) -> Float32:
    """Rows in the order of the columns, zeros where nothing stands."""
    found = rows[columns]
    found[columns < 0] = 0
    return found


def rows_to_read(count: int, width: int) -> Float32:
    """Room for rows beyond which a vector may still reach."""
    flat = np.empty(count * width + LANES, dtype=np.float32)
    flat[count * width :] = 0
    return flat[: count * width].reshape(count, width)


def blocks(length: int) -> Iterator[slice]:
    """Cut so that what is between two products stays in the cache."""
    return (slice(first, first + BLOCK) for first in range(0, length, BLOCK))
