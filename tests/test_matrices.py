"""Products inside kernels are those of the library, and one row's are its own."""

from __future__ import annotations

import numpy as np
import pytest

from clusterfirst.networks.kernels import BLOCK
from clusterfirst.networks.matrices import Linear, Perceptron
from clusterfirst.networks.vectors import PANEL, ROWS

SHAPES = [
    (1, 1),
    (3, 2),
    (11, PANEL),
    (PANEL + 1, 7),
    (160, 3 * PANEL),
    (33, PANEL - 1),
]


def _linear(depth: int, columns: int, rng: np.random.Generator) -> Linear:
    weight = rng.standard_normal((columns, depth), dtype=np.float32)
    return Linear(weight, rng.standard_normal(columns, dtype=np.float32))


@pytest.mark.parametrize(("depth", "columns"), SHAPES)
@pytest.mark.parametrize("rows", [1, ROWS - 1, ROWS, BLOCK + 1, 3 * BLOCK])
def test_a_matrix_and_its_bias(depth: int, columns: int, rows: int) -> None:
    """Any shape: what is padded never shows."""
    rng = np.random.default_rng(depth * rows)
    weight = rng.standard_normal((columns, depth), dtype=np.float32)
    bias = rng.standard_normal(columns, dtype=np.float32)
    x = rng.standard_normal((rows, depth), dtype=np.float32)
    wanted = x.astype(float) @ weight.T + bias
    assert np.abs(Linear(weight, bias)(x) - wanted).max() < 1e-4


def test_a_row_is_added_up_alike_in_any_company() -> None:
    """Alone, in front, behind others, in another block: the same bits."""
    rng = np.random.default_rng(5)
    head = Perceptron(_linear(20, 50, rng), _linear(50, 9, rng))
    x = rng.standard_normal((2 * BLOCK + 5, 20), dtype=np.float32)
    together = head(x)
    for row in (0, 1, ROWS, BLOCK - 1, BLOCK, len(x) - 1):
        assert np.array_equal(head(x[row : row + 1])[0], together[row])


def test_rows_and_columns_may_change_places() -> None:
    """Features that stand in columns give what they give in rows."""
    rng = np.random.default_rng(6)
    head = Perceptron(_linear(10, 32, rng), _linear(32, 24, rng))
    pairs = BLOCK + 7
    features = np.zeros((10, 2 * BLOCK), dtype=np.float32)
    features[:, :pairs] = rng.standard_normal((10, pairs), dtype=np.float32)
    out = np.empty((pairs, 24), dtype=np.float32)
    head.write(features, (pairs, 1, features.shape[1]), out)
    assert np.array_equal(out, head(features[:, :pairs].T))
