"""exp, log and gelu of the kernels against the library's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import erf

from clusterfirst.networks.elementary import exp, gelu, log, summing


@summing
def _each_exp(x: Any) -> None:
    for i in range(len(x)):
        x[i] = exp(x[i])


@summing
def _each_log(x: Any) -> None:
    for i in range(len(x)):
        x[i] = log(x[i])


@summing
def _each_gelu(x: Any) -> None:
    for i in range(len(x)):
        x[i] = gelu(x[i])


def _true_gelu(x: Any) -> Any:
    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


@pytest.mark.parametrize(
    ("kernel", "truth", "points", "relative"),
    [
        (_each_exp, np.exp, np.linspace(-86, 86, 200_001), True),
        (_each_log, np.log, np.geomspace(1e-30, 1e30, 200_001), False),
        (_each_log, np.log, np.linspace(0.5, 2, 200_001), False),
        (_each_gelu, _true_gelu, np.linspace(-50, 50, 200_001), False),
        (_each_gelu, _true_gelu, np.linspace(-6, 6, 200_001), False),
    ],
)
def test_within_rounding(
    kernel: Callable[[Any], None],
    truth: Callable[[Any], Any],
    points: Any,
    relative: bool,
) -> None:
    """A few units in the last place of float32, everywhere the networks go."""
    x = points.astype(np.float32)
    found, wanted = x.copy(), truth(x.astype(np.float64))
    kernel(found)
    scale = np.abs(wanted) if relative else np.maximum(np.abs(wanted), 1.0)
    assert (np.abs(found - wanted) / scale).max() < 1e-6
