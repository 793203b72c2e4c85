"""One run of one method, in a process of its own, with its clock beside it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import cache

import numpy as np

from clusterfirst.clock import Deadline
from clusterfirst.errors import ClusterfirstError, InputError, Problem
from clusterfirst.experts.outside import COMMAND
from clusterfirst.experts.peers import answer_of_peer, is_peer, require_peer
from clusterfirst.instance import Instance
from clusterfirst.solution import Solution
from clusterfirst.solver import SolveOptions, solve, warm_up

POLISH = "+polish"
MATMUL_SIZE = 512


def check_method(method: str) -> None:
    """Raise InputError unless the method exists, by its name."""
    if method.endswith(POLISH) and is_peer(method.removesuffix(POLISH)):
        rule = "a peer runs as it is, without our polish"
        raise InputError(Problem("E404", "methods", method, rule))
    if method.startswith(COMMAND):
        require_peer(method)  # what the user typed is wrong, not missing
    elif not is_peer(method):
        SolveOptions(method=method.removesuffix(POLISH))


def searches(method: str) -> bool:
    """Whether a method improves whole solutions by local search."""
    return is_peer(method) or method.endswith(POLISH)


def uses_threads(method: str) -> bool:
    """Whether a method can use two cores at once by itself."""
    return method == "vroom" or method.endswith(POLISH)


@dataclass(frozen=True)
class Run:
    """One instance for one method."""

    instance: Instance
    method: str
    limit: float
    seed: int
    cores: tuple[int, ...] = ()  # to be pinned to; () on a cluster
    model: str | None = None


@dataclass(frozen=True)
class Answer:
    """Routes as the method returned them, not judged; None with a reason."""

    routes: Solution | None
    seconds: float
    gflops: float = 0.0
    startup: float = 0.0  # filled in by whoever started the process
    reason: str = ""


def answer(run: Run) -> Answer:
    """Run a method on an instance that has computed nothing yet; in a child."""
    prepare((run.method, run.model, run.cores))
    gflops = matmul_rate()
    start = time.perf_counter()
    reason = ""
    routes: Solution | None = None
    try:
        if is_peer(run.method):
            deadline = Deadline.after(run.limit)
            routes = answer_of_peer(run.method, run.instance, deadline, run.seed)
        else:
            options = SolveOptions(
                method=run.method.removesuffix(POLISH),
                polish=run.method.endswith(POLISH),
                threads=max(1, len(run.cores)),
                time_limit=run.limit,
                seed=run.seed,
                model=run.model if "neural" in run.method else None,
            )
            routes = solve(run.instance, options).solution
    except ClusterfirstError as error:
        reason = str(error.problems[0])
    except Exception as error:  # a bug in one run must not end a comparison of hours
        reason = f"E999 {type(error).__name__}: {error}"
    return Answer(routes, time.perf_counter() - start, gflops, reason=reason)


@cache
def prepare(setup: tuple[str, str | None, tuple[int, ...]]) -> None:
    """Pin this process to the cores; load and compile what the method needs, once.

    InputError, such as for an extra or weights that are missing, ends the method.
    """
    method, model, cores = setup
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    name = method.removesuffix(POLISH)
    if is_peer(name):
        require_peer(name)
    warm_up(name, model if name == "neural" else None)
    if method.endswith(POLISH):
        from clusterfirst.search.polish import warm_up as warm_up_polish

        warm_up_polish()


def matmul_rate() -> float:
    """GFLOP/s of one fp32 matmul now: what the machine has to give."""
    a = np.ones((MATMUL_SIZE, MATMUL_SIZE), dtype=np.float32)
    a @ a
    start = time.perf_counter()
    a @ a
    return float(2 * MATMUL_SIZE**3 / (time.perf_counter() - start) / 1e9)
