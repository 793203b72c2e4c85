"""When to stop: wall-clock deadlines, and Ctrl-C where nobody would see it."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass
from traceback import walk_stack
from types import FrameType

LLVM = "llvmlite."  # numba's compiler


class TimeUpError(Exception):
    """The deadline passed in the middle of what is worth nothing half done."""


@dataclass(frozen=True)
class Deadline:
    """A point on the wall clock; `Deadline.never()` does not pass."""

    at: float  # time.perf_counter() value

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """Return the deadline `seconds` from now."""
        return cls(time.perf_counter() + seconds)

    @classmethod
    def never(cls) -> Deadline:
        """Return a deadline that does not pass: work ends by counts, repeatably."""
        return cls(math.inf)

    def left(self) -> float:
        """Seconds left, never below 0; inf for `never`."""
        return max(0.0, self.at - time.perf_counter())

    def passed(self) -> bool:
        """Whether time is up."""
        return self.left() <= 0.0

    def look(self) -> None:
        """Raise TimeUpError if time is up."""
        if self.passed():
            raise TimeUpError

    def share(self, fraction: float) -> Deadline:
        """Return a deadline after this fraction of what is left."""
        return (
            Deadline.after(self.left() * fraction) if self.left() < math.inf else self
        )


NEVER = Deadline.never()


def is_compiling(frame: FrameType | None) -> bool:
    """Whether a frame is inside of numba, whose callbacks swallow exceptions.

    Its lock is held while it compiles, not while it loads what is compiled already:
    there the frame is one of LLVM's. Importing this imports no numba.
    """
    locks = sys.modules.get("numba.core.compiler_lock")
    if locks is not None and locks.global_compiler_lock.is_locked():
        return True
    callers = () if frame is None else walk_stack(frame)
    return any(f.f_globals.get("__name__", "").startswith(LLVM) for f, _ in callers)
