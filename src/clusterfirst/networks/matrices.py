"""Trained matrices, packed as the kernels want them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from clusterfirst.networks.kernels import BLOCK, linear, perceptron
from clusterfirst.networks.nodes import Float32
from clusterfirst.networks.vectors import PANEL, ROWS


def whole(count: int, step: int = PANEL) -> int:
    """The next multiple of a step."""
    return -(-count // step) * step


def padded(rows: int, columns: int) -> Float32:
    """Room for rows, with more behind them that a kernel may read and write."""
    room = np.empty((rows + ROWS, columns), dtype=np.float32)
    room[rows:] = 0
    return room[:rows]


class Linear:
    """A matrix and a bias."""

    def __init__(self, weight: Float32, bias: Float32) -> None:
        columns, depth = weight.shape
        wide = np.zeros((depth, whole(columns)), dtype=np.float32)
        wide[:, :columns] = weight.T
        cut = wide.reshape(depth, -1, PANEL).transpose(1, 0, 2)
        self.panels: Float32 = np.ascontiguousarray(cut)
        self.bias: Float32 = np.array(bias, dtype=np.float32)
        self.wide = wide.shape[1]

    @property
    def arrays(self) -> tuple[Float32, Float32]:
        """As the kernels take them."""
        return self.panels, self.bias

    def __call__(self, x: Any) -> Float32:
        """(rows, columns) of any (rows, depth)."""
        out = padded(len(x), len(self.bias))
        room = padded(BLOCK, self.wide)
        linear(_read(x), len(x), self.arrays, room, out)
        return out


@dataclass(frozen=True)
class Perceptron:
    """Two of them, with gelu between."""

    inner: Linear
    outer: Linear

    def write(self, x: Float32, line: tuple[int, int, int], out: Float32) -> None:
        """What it makes of rows of x; `line` as for the kernel."""
        rooms = padded(BLOCK, self.inner.wide), padded(BLOCK, self.outer.wide)
        perceptron(x, line, self.inner.arrays, self.outer.arrays, rooms, out)

    def __call__(self, x: Any) -> Float32:
        """(rows, columns) of any (rows, depth)."""
        out = padded(len(x), len(self.outer.bias))
        given = _read(x)
        self.write(given, (len(x), given.shape[1], 1), out)
        return out


def _read(x: Any) -> Float32:
    """The rows with room behind them."""
    room = padded(len(x), np.shape(x)[1])
    room[:] = x
    return room
