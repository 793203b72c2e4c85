"""What a figure is worth nothing without: date, commit, machine, load."""

from __future__ import annotations

import os
import platform
import re
import resource
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parent.parent


def commit() -> str:
    """The commit that was measured, marked where the sources differ from it."""
    return _git("describe", "--always", "--dirty=+", "--exclude=*") or "unknown"


def _git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(
        command, capture_output=True, text=True, check=False
    ).stdout.strip()


def processor() -> str:
    """The name of the processor."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    found = re.search(r"model name\s*:\s*(.+)", text)
    return found.group(1).strip() if found else platform.machine()


def facts() -> dict[str, str | float]:
    """Everything that a stored figure is stored with."""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "commit": commit(),
        "processor": processor(),
        "cores": os.cpu_count() or 0,
        "load": round(os.getloadavg()[0], 1),
    }


@contextmanager
def timed() -> Iterator[dict[str, float]]:
    """Wall-clock and CPU seconds of a block, children's too, once it has ended."""

    def cpu() -> float:
        both = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        return sum(resource.getrusage(who).ru_utime for who in both)

    begin, used = time.perf_counter(), cpu()
    took: dict[str, float] = {}
    yield took
    took["seconds"] = round(time.perf_counter() - begin, 4)
    took["cpu_seconds"] = round(cpu() - used, 4)
