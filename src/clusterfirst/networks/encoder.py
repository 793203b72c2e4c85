"""Transformer layers whose attention looks along neighbour lists, as they answer.

Shape letters as in network.py. The mask of the paper (Section 2.1) is a list per token,
so that the cost grows with T L, not T T, and so that relative geometry between a token
and each one it sees can enter twice: as a bias on the attention logits and as part of
the message.

These layers answer; `trainable/layers.py` has the same ones as they learn. config.py
describes both, names and shapes of the weights, and tests/test_parity.py compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from clusterfirst.networks.config import ModelConfig
from clusterfirst.networks.kernels import BLOCK, enter, layer
from clusterfirst.networks.matrices import Linear, Perceptron, padded, whole
from clusterfirst.networks.nodes import Float32
from clusterfirst.networks.vectors import LANES, PANEL
from clusterfirst.problem.clock import NEVER, Deadline
from clusterfirst.problem.instance import IntArray

Weights = Mapping[str, Any]


@dataclass(frozen=True)
class Limits:
    """Of one computation."""

    deadline: Deadline = NEVER  # TimeUpError when it passes
    threads: int = 1  # that share the rows of each layer


ALONE = Limits()


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
        self, config: ModelConfig, weights: Weights, phase: str, layers: int
    ) -> None:
        name = f"{phase}.encoder"
        self.width, self.heads = config.width, config.heads
        self.pairs, self.feedforward = config.pair_width, config.feedforward
        self.columns = interleaved(config.width, config.heads)
        self.layers = [
            _Layer(weights, f"{name}.layers.{i}", self.columns, config.heads)
            for i in range(layers)
        ]
        nothing = np.empty((0, self.width, PANEL), dtype=np.float32)
        # Before the first layer, after it, ..., after the last one.
        self.follows = [(each.norm, each.qkv.panels) for each in self.layers]
        self.follows.append((norm_of(weights, f"{name}.norm"), nothing))
        if self.pairs:
            slopes: list[Any] = [each.slope for each in self.layers]
            # Pair features, and what they add to the logits of all layers and heads.
            to_all = np.vstack([np.eye(self.pairs, dtype=np.float32), *slopes])
            weight, bias = of_linear(weights, f"{phase}.pair.outer")
            inner = Linear(*of_linear(weights, f"{phase}.pair.inner"))
            self.pair = Perceptron(inner, Linear(to_all @ weight, to_all @ bias))

    def about(self, features: Float32, count: int) -> Float32:
        """(E, P + layers H) what the layers know of so many pairs.

        `features` has them in columns, filled up to `whole`.
        """
        if not self.pairs:
            return np.empty((count, 0), dtype=np.float32)
        out = rows_to_read(count, len(self.pair.outer.bias))
        self.pair.write(features, (count, 1, features.shape[1]), out)
        return out

    def begin(self, x: Float32, rows: tuple[int, int], out: Float32) -> None:
        """Write queries, keys and values of the first layer, of some rows of x."""
        room = padded(BLOCK, self.width)
        enter(x, rows, self.follows[0], room, out)

    def handed_on(self, tokens: int, number: int) -> Float32:
        """Room for what comes before a layer, or after the last one."""
        ended = number == len(self.layers)
        return padded(tokens, self.width if ended else 3 * len(self.columns))

    def run(
        self,
        x: Float32,
        lists: Lists,
        limits: Limits = ALONE,
        begun: Float32 | None = None,
    ) -> Float32:
        """(T, D) -> (T, D): attention and feed-forward, each normalised before.

        Changes x. What is `begun` of the first tokens is not computed again.
        """
        T, done = len(x), 0 if begun is None else len(begun)
        now, after = self.handed_on(T, 0), self.handed_on(T, 0)
        if begun is not None:
            now[:done] = begun
        self.begin(x, (done, T), now)
        step = whole(-(-T // limits.threads), BLOCK)
        parts = [(first, min(first + step, T)) for first in range(0, T, step)]
        rooms = [self._rooms(lists.longest) for _ in parts]
        with ThreadPoolExecutor(len(parts)) as pool:
            side_by_side = pool.map if len(parts) > 1 else map
            for number in range(len(self.layers)):
                limits.deadline.look()
                if number + 1 == len(self.layers):
                    after = self.handed_on(T, number + 1)
                one = partial(self._layer, number, (x, now, lists.arrays, after))
                list(side_by_side(one, parts, rooms))
                now, after = after, now
        return now

    def _layer(
        self, number: int, arrays: tuple[Any, ...], part: tuple[int, int], room: Any
    ) -> None:
        """One layer for some tokens."""
        x, now, lists, after = arrays
        H, P = self.heads, self.pairs
        places = (*part, (H, lanes_of(H), P, P + number * H))
        weights = self.layers[number].arrays(self.follows[number + 1])
        layer(x, now, lists, places, weights, room, after)

    def _rooms(self, longest: int) -> tuple[Any, ...]:
        """What one thread writes between its sums."""
        wide, lanes = len(self.columns), lanes_of(self.heads)
        logits = (
            np.empty(wide, dtype=np.float32),
            (np.arange(LANES) < self.heads).astype(np.float32),
            np.empty(longest * LANES, dtype=np.float32),
        )
        return (
            logits,
            rows_to_read(BLOCK, wide + self.pairs * lanes),
            padded(BLOCK, self.width),
            padded(BLOCK, whole(self.feedforward)),
            padded(BLOCK, whole(self.width)),
        )


class _Layer:
    """The weights of one layer, turned the way kernels want them."""

    def __init__(
        self, weights: Weights, name: str, columns: IntArray, heads: int
    ) -> None:
        def part(key: str) -> tuple[Float32, Float32]:
            return of_linear(weights, f"{name}.{key}")

        self.norm = norm_of(weights, f"{name}.norm_attention")
        self.norm_feedforward = norm_of(weights, f"{name}.norm_feedforward")
        (qkv, biases), (out, bias) = part("attention.qkv"), part("attention.out")
        D = len(out)
        scale = np.sqrt(np.float32(heads) / D)
        rows = [_spread(each, columns) for each in np.split(qkv, 3)]
        qkv = np.concatenate([rows[0] * scale, *rows[1:]])
        self.qkv = Linear(qkv, np.zeros(len(qkv), dtype=np.float32))
        self.query_bias = _spread(biases[:D], columns) * scale
        # Weights of attention add up to 1: what all values have in common comes out.
        bias = bias + out @ biases[2 * D :]
        self.slope, message = None, []
        if f"{name}.attention.message.weight" in weights:
            self.slope = weights[f"{name}.attention.bias.weight"]
            by_head = weights[f"{name}.attention.message.weight"]  # (D, heads P)
            by_pair = interleaved(by_head.shape[1], heads, multiple=1)
            message = [_spread(by_head.T, by_pair).T]
        mixed = np.concatenate([_spread(out.T, columns).T, *message], axis=1)
        self.out = Linear(mixed, bias)
        self.inner = Linear(*part("feedforward.inner"))
        self.outer = Linear(*part("feedforward.outer"))

    def arrays(self, follows: tuple[Any, Any]) -> tuple[Any, ...]:
        """As the kernel takes them."""
        matrices = self.out.arrays, self.inner.arrays, self.outer.arrays
        return self.query_bias, matrices, self.norm_feedforward, follows


def of_linear(weights: Weights, name: str) -> tuple[Float32, Float32]:
    """Weight and bias of that name."""
    return weights[f"{name}.weight"], weights[f"{name}.bias"]


def norm_of(weights: Weights, name: str) -> tuple[Float32, Float32]:
    """Weight and shift of a layer norm."""
    weight, shift = of_linear(weights, name)
    return np.array(weight), np.array(shift)


def lanes_of(heads: int) -> int:
    """Lanes that a feature has in a vector: the heads, and some for nobody."""
    return 1 << (heads - 1).bit_length()


def interleaved(width: int, heads: int, multiple: int = 2 * LANES) -> IntArray:
    """Which column stands where in attention: the heads of a feature together.

    -1 where nothing does, so that the columns are a whole `multiple`.
    """
    lanes, each = lanes_of(heads), width // heads
    features = whole(each * lanes, multiple) // lanes
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
