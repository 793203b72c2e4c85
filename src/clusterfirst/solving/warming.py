"""Warm-up: what a solve runs is compiled and loaded before its clock starts.

numba keeps machine code on disk. What is missing there, after an installation all of
it, is compiled by separate processes on all cores, which fill one cache: that is
sooner done, can be counted, and ends with Ctrl-C, which numba itself swallows.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np

from clusterfirst.files.lock import waited_for
from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import Instance
from clusterfirst.solving.decoding import warm_assignment
from clusterfirst.solving.options import (
    AUTO,
    OUTSIDE,
    Kind,
    SolveOptions,
    find_method,
    run_method,
)
from clusterfirst.stages.kernel_cache import KERNELS, calls_left, kernels_left
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.search_state import SearchState
from clusterfirst.stages.tours.routing import QUICK, improve

Progress = Callable[[int, int], None]  # kernels left, and how many there were
POLL = 0.2  # seconds between two looks at the cache
FEW = 2  # kernels that are not worth a process
# What a plain day anneals with: neither limits nor what breeds.
ANNEALING = "stages.compiled " + " ".join(
    f"stages.search.{name}"
    for name in ["annealing", "linked", "moves", "regions", "rewiring", "ruin_recreate"]
)


@dataclass(frozen=True)
class Part:
    """Kernels that one process compiles: all that Python calls in these modules."""

    door: str  # the module that imports them all
    modules: tuple[str, ...]
    run: Callable[[str | None], None]  # is given the model


def warm_up(
    method: str = AUTO,
    model: str | None = None,
    *,
    polish: bool = True,
    limited: bool = False,
    on_progress: Progress | None = None,
) -> float:
    """Load and compile what a method needs, once per process; return the seconds."""
    start = time.perf_counter()
    parts = needed(method, polish and not limited)
    parts = ["limited", *parts] if limited else parts
    if any((name, model) not in _done for name in parts):
        _compile_elsewhere(parts, model, on_progress)
        for name in parts:
            if (name, model) not in _done:
                left = calls_left(PARTS[name].modules)
                with _alone(name) if left else nullcontext():
                    PARTS[name].run(model)
                _done.add((name, model))
    return time.perf_counter() - start


_done: set[tuple[str, str | None]] = set()


def needed(method: str, polish: bool) -> list[str]:
    """The parts that a method runs, the longest to compile first.

    Savings is what is left when a method has no answer in time; with it and
    Fisher-Jaikumar the network's parts are all that `auto` may take.
    """
    method = "neural" if method == AUTO else method
    found = find_method(method)
    if found is None or method.startswith(OUTSIDE):
        return []
    searches = polish and found.kind is not Kind.PEER
    parts = ["genetic", "polish"] if searches else []
    parts += ["network"] if method == "neural" else []
    parts += ["assignment"] if found.kind is Kind.SCORES else []
    parts += ["tours", "savings"]
    return parts + (["petal"] if method == "petal" else [])


@cache
def _toy() -> Instance:
    points = np.random.default_rng(0).random((41, 2))
    return Instance(np.array([0] + [1, 2] * 20), capacity=30, coords=points)


def _assignment(model: str | None) -> None:
    warm_assignment(_toy())


def _tours(model: str | None) -> None:
    improve(_toy(), Routes.of([range(1, 41)]), True, QUICK, Deadline.never())


def _polish(model: str | None) -> None:
    from clusterfirst.stages.search.polish import warm_up as warm_up_polish

    warm_up_polish()


def _genetic(model: str | None) -> None:
    from clusterfirst.stages.search.genetic.breeding import warm_up as warm_up_breeding

    warm_up_breeding(_toy())


def _limited(model: str | None) -> None:
    from clusterfirst.stages.classical import limited_savings
    from clusterfirst.stages.search import constrained

    day = constrained.warm_up()
    plain = day.replace(constraints=None)
    limited_savings.limited_savings(day, plain, limited_savings.kinds_of(day))


def _savings(model: str | None) -> None:
    run_method(SearchState(_toy(), Deadline.never(), iterations=1), "savings")


def _petal(model: str | None) -> None:
    run_method(SearchState(_toy(), Deadline.never(), iterations=1), "petal")


def _network(model: str | None) -> None:
    from clusterfirst.networks.model_folder import load_model
    from clusterfirst.networks.neural import DEFAULT_MODEL

    city = load_model(model or DEFAULT_MODEL).city
    day = _toy() if city is None else _toy().replace(metric=city.metric)
    options = SolveOptions("neural", model=model, new_locations="nearest", iterations=1)
    run_method(SearchState(day, Deadline.never(), iterations=1), "neural", options)


def _part(door: str, modules: str, run: Callable[[str | None], None]) -> Part:
    found = tuple(f"clusterfirst.{name}" for name in modules.split())
    return Part(f"clusterfirst.{door}", found, run)


PARTS = {
    "genetic": _part(
        "stages.search.genetic.breeding", "stages.search.genetic", _genetic
    ),
    "polish": _part("stages.search.polish", ANNEALING, _polish),
    "limited": _part(
        "solving.limited_start",
        "stages.search.limited stages.classical.limited_savings stages.compiled",
        _limited,
    ),
    "network": _part("solving.neural", "networks", _network),
    "assignment": _part("solving.decoding", "stages.assignment", _assignment),
    "tours": _part("stages.tours.routing", "stages.tours", _tours),
    "savings": _part("stages.classical.savings", "stages.classical.savings", _savings),
    "petal": _part("stages.classical.petal", "stages.classical.petal", _petal),
}


def _compile_elsewhere(
    parts: list[str], model: str | None, on_progress: Progress | None
) -> None:
    """Let processes compile what is on no disk yet; a failed one is made up for."""
    for name in parts:
        import_module(PARTS[name].door)
    waiting = [name for name in parts if calls_left(PARTS[name].modules) > FEW]
    if not waiting or not sys.executable:
        return
    modules = tuple(module for name in parts for module in PARTS[name].modules)
    total = kernels_left(modules)
    running: list[subprocess.Popen[bytes]] = []
    try:
        while waiting or running:
            while waiting and len(running) < (os.cpu_count() or 1):
                running.append(_start(waiting.pop(0), model))
            if on_progress is not None:
                on_progress(kernels_left(modules), total)
            time.sleep(POLL)
            running = [each for each in running if each.poll() is None]
    finally:
        for each in running:
            each.kill()
            each.wait()
    if on_progress is not None:
        on_progress(0, total)


@contextmanager
def _alone(part: str) -> Iterator[None]:
    """Several solves begin: one compiles, and the others read what it has compiled."""
    with ExitStack() as held:
        with suppress(OSError, AttributeError):  # no place for a cache: each for itself
            folder = Path(KERNELS[0]._cache.cache_path)  # noqa: SLF001  # of numba
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(waited_for(folder / f".warm-up-{part}"))
        yield


def _start(part: str, model: str | None) -> subprocess.Popen[bytes]:
    code = "from clusterfirst.solving.warming import main; main()"
    given = [part, str(os.getpid()), *([model] if model else [])]
    return subprocess.Popen(
        [sys.executable, "-c", code, *given],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,  # Ctrl-C, which a terminal sends to all, is ours
    )


def main() -> None:
    """Compile one part, in a process of its own, as long as its parent lives."""
    part, parent, *model = sys.argv[1:]

    def end_with_parent() -> None:
        while os.getppid() == int(parent):
            time.sleep(POLL)
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    with _alone(part):
        PARTS[part].run(model[0] if model else None)
