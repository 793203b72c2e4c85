"""The machine: the cores that this process may use, and how busy they are."""

from __future__ import annotations

import os


def usable_cores() -> list[int]:
    """The cores this process may run on; containers have fewer than the machine."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def crowding() -> float:
    """Processes that want each core, at least 1: wall-clock seconds of a CPU second.

    The mean of the last minute; 1 where the system does not tell (Windows).
    """
    if not hasattr(os, "getloadavg"):
        return 1.0
    return max(1.0, os.getloadavg()[0] / len(usable_cores()))
