"""One run of one method, in a process of its own, with its clock beside it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

import numpy as np

from clusterfirst import __version__
from clusterfirst.learning.experts.outside import COMMAND, is_search_free
from clusterfirst.learning.experts.peers import answer_of_peer, is_peer, require_peer
from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.errors import ClusterfirstError, InputError, Problem
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.solving.solver import SolveOptions, solve, warm_up

POLISH = "+polish"
ONCE = "once"
ONCE_DECODINGS = 6  # as many as the network gets: two fleets, each moved twice
MATMUL_SIZE = 512


@dataclass(frozen=True)
class Method:
    """A method taken apart: NAME, NAME:DETAIL, each also with +polish.

    The detail is the weights of `neural`, or "once" for Fisher-Jaikumar with as many
    decodings as the network gets. A command (`cmd:...`) is one name.
    """

    name: str
    detail: str = ""
    polish: bool = False

    @classmethod
    def of(cls, text: str) -> Method:
        """Take the text of `--methods` apart."""
        polish = text.endswith(POLISH)
        plain = text.removesuffix(POLISH)
        if plain.startswith(COMMAND):
            return cls(plain, polish=polish)
        name, _, detail = plain.partition(":")
        return cls(name, detail, polish)

    @property
    def searches(self) -> bool:
        """Whether it improves whole solutions by local search.

        Of an outside program nobody knows but who wrote the command.
        """
        if is_search_free(self.name):
            return False
        return is_peer(self.name) or self.polish

    @property
    def uses_threads(self) -> bool:
        """Whether it can use several cores at once by itself."""
        return self.name == "vroom" or self.polish

    def weights(self, default: str | None) -> str | None:
        """Its model; None for methods without a network, and for the usual one."""
        return (self.detail or default) if self.name == "neural" else None

    @property
    def twins(self) -> tuple[str, ...]:
        """The same decoder and polish with Fisher-Jaikumar's seeds and costs.

        Without polish twice: in the same seconds, and in as many decodings.
        """
        if self.name != "neural":
            return ()
        twin = "fisher-jaikumar"
        return (twin + POLISH,) if self.polish else (twin, f"{twin}:{ONCE}")


def check_method(text: str) -> None:
    """Raise InputError unless the method exists, by its name."""
    method = Method.of(text)
    if method.polish and is_peer(method.name):
        rule = "a peer runs as it is, without our polish"
        raise InputError(Problem("E404", "methods", text, rule))
    if method.name.startswith(COMMAND):
        require_peer(method.name)  # what the user typed is wrong, not missing
        return
    SolveOptions(method=method.name)
    once = method.name == "fisher-jaikumar" and method.detail == ONCE
    if method.detail and method.name != "neural" and not once:
        rule = f"after : only neural has weights, and fisher-jaikumar {ONCE}"
        raise InputError(Problem("E404", "methods", text, rule))


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
    method = Method.of(run.method)
    start = time.perf_counter()
    reason, loading = "", 0.0
    routes: Solution | None = None
    try:
        if is_peer(method.name):
            deadline = Deadline.after(run.limit)
            asked = (method.name, run.instance, deadline, run.seed)
            routes, loading = answer_of_peer(*asked)
        else:
            options = SolveOptions(
                method=method.name,
                polish=method.polish,
                iterations=ONCE_DECODINGS if method.detail == ONCE else None,
                threads=max(1, len(run.cores)),
                time_limit=run.limit,
                seed=run.seed,
                model=method.weights(run.model),
            )
            result = solve(run.instance, options)
            routes, reason = result.solution, result.details.get("fallback", "")
            if reason and not method.polish:
                routes = None  # somebody else's answer is not this method's
    except ClusterfirstError as error:
        reason = str(error.problems[0])
    except Exception as error:  # a bug in one run must not end a comparison of hours
        reason = f"E999 {type(error).__name__}: {error}"
    seconds = time.perf_counter() - start - loading
    return Answer(routes, seconds, gflops, reason=reason)


def judged(instance: Instance, routes: Solution | None, reason: str) -> dict[str, Any]:
    """What is kept of every answer: the judge's figures, or why there are none."""
    cost = vehicles = None
    if routes is not None:
        verdict = judge(instance, routes)
        if verdict.feasible:
            cost, vehicles = verdict.cost, len(routes.routes)
        else:
            reason = str(verdict.violations[0])
    return {
        "cost": cost,
        "vehicles": vehicles,
        "reason": reason,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": __version__,
    }


@cache
def prepare(setup: tuple[str, str | None, tuple[int, ...]]) -> None:
    """Pin this process to the cores; load and compile what the method needs, once.

    InputError, such as for an extra or weights that are missing, ends the method.
    """
    text, model, cores = setup
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    method = Method.of(text)
    if is_peer(method.name):
        require_peer(method.name)
    warm_up(method.name, method.weights(model), polish=method.polish)


def matmul_rate() -> float:
    """GFLOP/s of one fp32 matmul now: what the machine has to give."""
    a = np.ones((MATMUL_SIZE, MATMUL_SIZE), dtype=np.float32)
    a @ a
    start = time.perf_counter()
    a @ a
    return float(2 * MATMUL_SIZE**3 / (time.perf_counter() - start) / 1e9)
