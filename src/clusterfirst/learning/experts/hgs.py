"""HGS-CVRP through hygese, made safe: the expert behind every label.

HGS-CVRP (Vidal 2022) has no usable failure signal: it never returns on one
customer, answers "cost 0, no routes" to infeasible input, reads an uninitialised
pointer after an exception, and counts CPU instead of wall-clock time. So it gets
checked and scaled input only, runs in a child process under a wall-clock watchdog,
and its answer counts only after `solution.judge` has recomputed it.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from clusterfirst.learning.experts.engine import ChildFailedError, guarded_call
from clusterfirst.problem.errors import InputError, NotFoundInTimeError, Problem
from clusterfirst.problem.instance import FloatArray, Instance
from clusterfirst.problem.solution import Solution, judge

ATTEMPTS = 2  # a crash, hang or invalid answer is tried once more
MAX_SEED = 2**31 - 1  # a C int
# HGS refuses a largest demand above this; its loads are exact to 1e-5, absolutely.
MAX_DEMAND = 1e5
# Wall-clock seconds per iteration and customer: ten times the slowest that was
# measured (2e-4, load 7 on two cores), because each improvement restarts the count.
SLOWEST_ITERATION = 2e-3


@dataclass(frozen=True)
class HgsSettings:
    """How long and from which seed; exactly one of seconds and iterations.

    `seconds` is CPU time of the solve. `iterations` ends a run after so many
    iterations without improvement: slower machines then get the same answer.
    """

    seconds: float | None = None
    iterations: int | None = None
    seed: int = 1

    def __post_init__(self) -> None:
        if (self.seconds is None) == (self.iterations is None):
            rule = "give either seconds or iterations"
            got = "neither" if self.seconds is None else "both"
            raise InputError(Problem("E423", "budget", got, rule))
        budget = self.seconds if self.iterations is None else self.iterations
        assert budget is not None
        if not (math.isfinite(budget) and 0 < budget <= MAX_SEED):
            name = "seconds" if self.iterations is None else "iterations"
            raise InputError(Problem("E423", name, str(budget), "it must be above 0"))
        if not 0 <= self.seed <= MAX_SEED:
            rule = f"a whole number from 0 to {MAX_SEED} is needed"
            raise InputError(Problem("E423", "seed", str(self.seed), rule))

    def patience(self, customers: int) -> float:
        """Wall-clock seconds after which a solve counts as hanging.

        HGS counts CPU seconds, and a busy machine has few of them in each second.
        """
        if self.seconds is not None:
            return 10 * self.seconds + 30
        assert self.iterations is not None
        return 60 + self.iterations * customers * SLOWEST_ITERATION


def require_hygese() -> None:
    """Raise InputError, naming the extra, unless hygese is installed."""
    if importlib.util.find_spec("hygese") is None:
        rule = "hygese is not installed: pip install 'clusterfirst[labels]'"
        raise InputError(Problem("E422", "hgs", rule=rule))


def solve_with_hgs(
    instance: Instance, settings: HgsSettings, attempts: int = ATTEMPTS
) -> Solution:
    """Return a judged, canonical solution of HGS-CVRP.

    The first call of a thread starts a child process (0.2 s) that later calls
    reuse; it ends with the thread. Raises InfeasibleError when none can exist and
    NotFoundInTimeError, with the reason, when HGS gave no valid one in two tries
    (`attempts`).
    """
    require_hygese()
    instance.require_plain("HGS")
    instance.require_feasible()
    small = solve_tiny(instance)
    if small is not None:
        return small
    call = _prepare(instance, settings)
    patience = settings.patience(instance.num_customers)

    def ask() -> list[list[int]]:
        routes: list[list[int]] = guarded_call(_run, call, patience)
        return routes

    return judged_answer(instance, "HGS", ask, attempts)


def judged_answer(
    instance: Instance,
    expert: str,
    ask: Callable[[], list[list[int]]],
    attempts: int = ATTEMPTS,
) -> Solution:
    """Ask until the judge accepts the routes, so many times at most."""
    reason = ""
    for _ in range(attempts):
        try:
            solution = Solution(route for route in ask() if route).canonical()
        except ChildFailedError as failure:
            reason = str(failure)
            continue
        verdict = judge(instance, solution)
        if verdict.feasible:
            return solution
        reason = f"it gave no valid solution: {verdict.violations[0]}"
        if not solution.routes:
            reason = "it found no feasible solution"
    where = f"{expert} on {instance.name or 'the instance'}"
    raise NotFoundInTimeError(Problem("E601", where, rule=reason))


def solve_tiny(instance: Instance) -> Solution | None:
    """Solve up to two customers by hand (HGS hangs on one); None above that."""
    n = instance.num_customers
    if n > 2:
        return None
    singles = Solution([c] for c in range(1, n + 1))
    options = [singles, Solution([[1, 2]])] if n == 2 else [singles]
    verdicts = [(judge(instance, option), option) for option in options]
    valid = [(v.cost, i) for i, (v, _) in enumerate(verdicts) if v.feasible]
    if not valid:
        where = instance.name or "the instance"
        rule = "no feasible solution was found"
        raise NotFoundInTimeError(Problem("E601", where, rule=rule))
    return options[min(valid)[1]].canonical()


def fleet_bound(instance: Instance) -> int:
    """Vehicles that suffice, without cutting off an optimum.

    Two routes that fit in one vehicle merge at no cost when the triangle
    inequality holds, so an optimum has fewer than 2 K_min + 2 routes. HGS's own
    default (1.3 K_min + 3) makes instances with bulky demands infeasible.
    """
    n = instance.num_customers
    if instance.vehicles is not None:
        return min(n, instance.vehicles)
    return n if instance.metric == "matrix" else min(n, 2 * instance.min_vehicles + 5)


@dataclass(frozen=True)
class _HgsCall:
    """Checked and scaled input, as it travels to the child."""

    distances: FloatArray
    points: FloatArray | None
    demands: FloatArray
    capacity: float
    vehicles: int
    settings: HgsSettings


def _prepare(instance: Instance, settings: HgsSettings) -> _HgsCall:
    """Scale to what HGS accepts: 0.1 <= largest distance, demand <= 1e5."""
    units = instance.demand_units
    divisor = math.gcd(*units.tolist(), instance.capacity_units)
    demands, capacity = units / divisor, instance.capacity_units / divisor
    if not units.any():
        demands = np.concatenate([[0.0], np.ones(instance.num_customers)])
        capacity = float(instance.num_customers)
    shrink = max(1.0, demands.max() / MAX_DEMAND)
    demands, capacity = demands / shrink, min(capacity, demands.sum()) / shrink
    distances = instance.distances
    if not distances.any():
        # Every solution costs 0; distance 1 makes HGS look for few routes.
        distances = 1.0 - np.eye(len(distances))
    # HGS starts its overload penalty at distance / demand, clipped to 0.1..1000.
    # Always scaling keeps that at 10, and the answer the same in m and in km.
    target = float(np.clip(10 * demands.max(), 1e3, 1e5))
    points = None
    if instance.coords is not None:
        plane = instance.plane
        points = plane - plane.min(axis=0)  # hygese refuses negative coordinates
    return _HgsCall(
        distances=distances * (target / distances.max()),
        points=points,
        demands=demands,
        capacity=capacity,
        vehicles=fleet_bound(instance),
        settings=settings,
    )


def _run(call: _HgsCall) -> list[list[int]]:
    """Run HGS; in the child process only."""
    hygese: Any = importlib.import_module("hygese")
    settings = call.settings
    parameters = hygese.AlgorithmParameters(
        seed=settings.seed,
        timeLimit=settings.seconds or 0.0,
        nbIter=settings.iterations or 20_000,
        useSwapStar=call.points is not None,  # SWAP* needs polar sectors
    )
    data: dict[str, Any] = {
        "distance_matrix": call.distances,
        "demands": call.demands,
        "vehicle_capacity": call.capacity,
        "num_vehicles": call.vehicles,
        "depot": 0,
    }
    if call.points is not None:
        data["x_coordinates"], data["y_coordinates"] = call.points.T
    try:
        answer = hygese.Solver(parameters, verbose=False).solve_cvrp(
            data, rounding=False
        )
    except TypeError:  # hygese met a null pointer: HGS threw an exception
        return []
    routes: list[list[int]] = answer.routes
    return routes
