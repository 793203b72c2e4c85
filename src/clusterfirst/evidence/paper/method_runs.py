"""One instance decoded once, as the paper decodes: no search, no safe start.

Seeds and costs from the network, transport plan, HiGHS, tours; then the judge. What
is measured runs from arrays handed over to routes returned, in this process; start-up
(imports, compilation, weights) is paid before the clock starts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, fields

import numpy as np

from clusterfirst.evidence.bench.run import Run, answer, judged, matmul_rate
from clusterfirst.evidence.paper.variants import Weights
from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution
from clusterfirst.solving.neural import run_network
from clusterfirst.solving.options import DecodingSettings, NeuralSettings
from clusterfirst.solving.solver import warm_up
from clusterfirst.stages.search_state import SearchState
from clusterfirst.stages.tours.routing import FULL, improve

NEURAL = "neural"


@dataclass(frozen=True)
class Recipe:
    """What to run: a network with a decoding, or a classical method."""

    method: str = NEURAL
    model: str = ""  # name of the weights
    assign: str = ""  # exact, sparse or hard
    fleet: str = "kmin"  # or best: of K_min and K_min + 1
    mip_gap: float = 0.001  # of the paper's appendix on testing
    patience: float = 1.0  # times the usual seconds of an instance

    def __str__(self) -> str:
        if self.method != NEURAL:
            return self.method
        gap = "" if self.mip_gap == 0.001 else f" to {self.mip_gap:g}"
        return f"{self.model} {self.assign}{gap} {self.fleet}"


@dataclass(frozen=True)
class RunKey:
    """The same key is the same run."""

    digest: str  # of the instance
    method: str
    weights: str  # digest of the model folder
    assign: str
    fleet: str
    mip_gap: float
    seconds_allowed: float


@dataclass(frozen=True)
class MethodRun(RunKey):
    """A run and what came of it; `cost` is None where there was no valid answer."""

    cost: float | None
    vehicles: int | None
    seconds: float
    reached: float | None  # MIP gap proven by the assignment; None: no bound
    fixed: int  # hard: customers the plan was sure of
    freed: int  # of these, how many the assignment did not keep
    gflops: float  # fp32 matmul right before
    reason: str  # why there is no answer
    at: str
    version: str

    @property
    def key(self) -> RunKey:
        """What the run is."""
        names = [field.name for field in fields(RunKey)]
        return RunKey(**{name: getattr(self, name) for name in names})


@dataclass(frozen=True, eq=False)
class Decoding:
    """Routes of the network, and what it said on the way."""

    state: SearchState
    solution: Solution
    seconds: float


def allowed(recipe: Recipe, seconds: float) -> float:
    """Seconds of one instance; two fleet sizes get twice as many."""
    return seconds * recipe.patience * (2 if recipe.fleet == "best" else 1)


def key_of(
    digest: str, recipe: Recipe, weights: Weights | None, seconds: float
) -> RunKey:
    """The key under which the run is kept."""
    return RunKey(
        digest,
        recipe.method,
        weights.digest if weights is not None else "",
        recipe.assign,
        recipe.fleet,
        recipe.mip_gap,
        allowed(recipe, seconds),
    )


def decode(
    instance: Instance, recipe: Recipe, weights: Weights, limit: float
) -> Decoding | None:
    """Let the network plan the routes; None if nothing feasible came of it."""
    warm_up(NEURAL, weights.folder)
    start = time.perf_counter()
    copy = instance.replace()  # it has computed no distances yet
    state = SearchState(copy, Deadline.after(limit))
    printed = DecodingSettings(
        recipe.assign, recipe.fleet, printed=True, mip_gap=recipe.mip_gap
    )
    run_network(state, NeuralSettings(printed, weights.folder))
    if state.best is None:
        return None
    routes = improve(copy, state.best, False, FULL, state.deadline)
    spent = time.perf_counter() - start
    solution = Solution(routes.lists()).canonical()
    return Decoding(state, solution, spent)


def run_method(
    instance: Instance, recipe: Recipe, key: RunKey, weights: Weights | None
) -> MethodRun:
    """Run once and judge."""
    rate, limit = matmul_rate(), key.seconds_allowed
    reached, fixed, freed, reason = None, 0, 0, ""
    solution: Solution | None = None
    if weights is None:
        found = answer(Run(instance.replace(), recipe.method, limit, seed=0))
        solution, spent, reason = found.routes, found.seconds, found.reason
    else:
        start = time.perf_counter()
        decoded = decode(instance, recipe, weights, limit)
        spent = time.perf_counter() - start
        if decoded is None:
            reason = "no feasible routes in time"
        else:
            solution, spent = decoded.solution, decoded.seconds
            assignment = decoded.state.details["assignment"]
            fixed, freed = assignment.fixed, assignment.freed
            reached = float(assignment.gap) if np.isfinite(assignment.gap) else None
    return MethodRun(
        **vars(key),
        **judged(instance, solution, reason),
        seconds=spent,
        reached=reached,
        fixed=fixed,
        freed=freed,
        gflops=rate,
    )
