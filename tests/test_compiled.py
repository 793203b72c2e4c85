"""What is compiled: no more than is needed, and no way to fall off the edge."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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


def test_a_kernel_follows_what_it_calls(tmp_path: Path) -> None:
    """An update of one file changes the kernels of others that hold its code."""
    head = "from clusterfirst.stages.compiled import inner, kernel\n"
    whole = (
        "from part import ADDED, one\n@kernel\ndef both():\n    return one() + ADDED\n"
    )
    (tmp_path / "whole.py").write_text(head + whole)
    part = "ADDED = {}\n@inner\ndef one():\n    return {}\n"
    for constant, called in ((10, 1), (10, 2), (20, 2)):
        (tmp_path / "part.py").write_text(head + part.format(constant, called))
        ask = [sys.executable, "-Bc", "import whole; print(whole.both())"]
        told = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        run = subprocess.run(
            ask, cwd=tmp_path, env=os.environ | told, capture_output=True, text=True
        )
        assert run.stdout.strip() == str(constant + called), run.stderr
