"""What is compiled: no more than is needed, and no way to fall off the edge."""

from __future__ import annotations

import numpy as np
import pytest

from clusterfirst.stages.compiled import inner, kernel, random


@inner
def _added(values: np.ndarray, at: int) -> float:
    return float(values[at])


@kernel
def _twice(values: np.ndarray, at: int) -> float:
    first = -1
    total = _added(values, first) + _added(values, 0) + _added(values, at)
    for i in range(2):
        first = i
        total += _added(values, first)
    return total


def test_a_constant_does_not_compile_a_kernel_again() -> None:
    """Literals, and variables that begin as one, take the general version (B7)."""
    assert _twice(np.arange(3.0), 1) == 2.0 + 0.0 + 1.0 + 0.0 + 1.0
    _twice.recompile()  # type: ignore[attr-defined]  # of numba; not from the cache
    assert len(_added.overloads) == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("used", [False, True])
def test_python_cannot_call_an_inner_kernel(used: bool) -> None:
    """There is no door for Python: a sentence, where numba would crash."""
    if used:
        _twice(np.arange(3.0), 1)
    with pytest.raises(TypeError, match="for kernels"):
        (_added if used else random)(*[np.zeros(1), 0][: 1 + used])
