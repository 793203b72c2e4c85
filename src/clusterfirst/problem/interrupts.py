"""Ctrl-C: where nobody would see the exception that it raises."""

from __future__ import annotations

import sys


def is_compiling() -> bool:
    """Whether this thread is inside of numba, whose callbacks swallow exceptions.

    Importing this imports no numba.
    """
    locks = sys.modules.get("numba.core.compiler_lock")
    return locks is not None and bool(locks.global_compiler_lock.is_locked())
