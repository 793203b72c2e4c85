"""`versions`: everything about a machine that a bug report needs."""

from __future__ import annotations

import os
import platform
import sys

from clusterfirst import __version__
from clusterfirst.commands import options
from clusterfirst.commands.console import emit_facts
from clusterfirst.problem.machine import usable_cores

PACKAGES = (
    "numpy scipy numba llvmlite highspy pydantic typer rich safetensors matplotlib "
    "torch hygese pyvrp pyvroom ortools ray fastapi uvicorn openpyxl"
)
# What changes where we look, how many threads run, or what libraries do.
VARIABLES = (
    "CLUSTERFIRST_",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMBA_",
    "RAY_ADDRESS",
    "XDG_CACHE_HOME",
)


def versions(as_json: options.Json = False) -> int:
    """Print what a bug report needs: versions, machine, threads and settings."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"clusterfirst": __version__, "python": platform.python_version()}
    for package in PACKAGES.split():
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    found |= {
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": f"{len(usable_cores())} usable of {os.cpu_count()}",
        "memory": _memory(),
        "encoding": f"{sys.getfilesystemencoding()}, {sys.stdout.encoding}",
        "models": ", ".join(_models()) or "none",
    }
    set_here = sorted(name for name in os.environ if name.startswith(VARIABLES))
    found |= {name: os.environ[name] for name in set_here}
    emit_facts(found, as_json)
    return 0


def _processor() -> str:
    """The name of the processor; Linux tells it only in a file."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2] for line in file if "model name" in line]
    except OSError:
        names = []
    return names[0].strip() if names else platform.processor() or platform.machine()


def _memory() -> str:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return "unknown"
    return f"{size / 2**30:.1f} GiB"


def _models() -> list[str]:
    """Shipped models by name and the beginning of the hash of their manifest."""
    from clusterfirst.files.verified_folder import manifest_hash
    from clusterfirst.networks.model_folder import shipped

    found = shipped().items()
    return [f"{name}@{manifest_hash(folder)[:8]}" for name, folder in found]
