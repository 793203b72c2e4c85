"""What every expert needs: a budget, a child process, and the judge.

None of them says reliably when it failed: HGS answers "cost 0, no routes" to infeasible
input, PyVRP, OR-Tools and VROOM cut floats to integers without a word and crash on what
they do not like. So each gets checked and scaled input only, runs in a child process
under a wall-clock watchdog, and its answer counts only after `solution.judge` has
recomputed it.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from clusterfirst.problem.errors import InputError, NotFoundInTimeError, Problem
from clusterfirst.problem.instance import Instance, IntArray
from clusterfirst.problem.machine import crowding
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.solving.child import ChildFailedError, guarded_call

ATTEMPTS = 2  # a crash, hang or invalid answer is tried once more
MAX_SEED = 2**31 - 1  # a C int
# Wall-clock seconds per iteration and customer: ten times the slowest that was
# measured (2e-4, load 7 on two cores), because each improvement restarts the count.
SLOWEST_ITERATION = 2e-3


@dataclass(frozen=True)
class ExpertSettings:
    """How long and from which seed; exactly one of seconds and iterations.

    `seconds` is CPU time of HGS, and wall-clock time of the others. `iterations` are
    those without improvement of HGS and all of PyVRP's: slower machines then get the
    same answer.
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
            raise InputError(Problem("E423", name, str(budget), "must be above 0"))
        if not 0 <= self.seed <= MAX_SEED:
            rule = f"must be a whole number from 0 to {MAX_SEED}"
            raise InputError(Problem("E423", "seed", str(self.seed), rule))

    def patience(self, customers: int) -> float:
        """Wall-clock seconds after which a solve counts as hanging.

        HGS counts CPU seconds, and a busy machine has few of them in each second: at
        the lowest priority among twenty processes not even the child begins in 32.
        """
        if self.seconds is not None:
            return (10 * self.seconds + 30) * crowding()
        assert self.iterations is not None
        return (60 + self.iterations * customers * SLOWEST_ITERATION) * crowding()


@dataclass(frozen=True)
class Expert:
    """Somebody else's solver: what to install, and how to ask it."""

    name: str
    package: str  # as it is imported
    title: str
    extra: str  # of clusterfirst, that installs it
    prepare: Callable[[Instance, ExpertSettings], Any]  # checked and scaled input
    run: Callable[[Any], list[list[int]]]  # in the child process only

    def require(self) -> None:
        """Raise InputError, naming the extra, unless the package is installed."""
        if importlib.util.find_spec(self.package) is None:
            rule = f"{self.title} is not installed: "
            rule += f"pip install 'clusterfirst[{self.extra}]'"
            raise InputError(Problem("E422", self.name, rule=rule))

    def solve(
        self, instance: Instance, settings: ExpertSettings, attempts: int = ATTEMPTS
    ) -> Solution:
        """Return a judged, canonical solution.

        The first call of a thread starts a child process (0.2 s) that later calls
        reuse; it ends with the thread. Raises InfeasibleError when none can exist and
        NotFoundInTimeError, with the reason, when there was no valid one in two tries
        (`attempts`).
        """
        self.require()
        instance.require_plain(self.title)
        instance.require_feasible()
        small = solve_tiny(instance)
        if small is not None:
            return small
        call = self.prepare(instance, settings)
        patience = settings.patience(instance.num_customers)

        def ask() -> list[list[int]]:
            routes: list[list[int]] = guarded_call(self.run, call, patience)
            return routes

        return judged_answer(instance, self.title, ask, attempts)


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
class WholeNumbers:
    """An instance in whole numbers, as it travels to the child."""

    distances: IntArray
    demands: IntArray
    capacity: int
    vehicles: int
    settings: ExpertSettings


def in_whole_numbers(
    instance: Instance, settings: ExpertSettings, largest: float, vehicles: int
) -> WholeNumbers:
    """Scale the longest distance to `largest` and round."""
    longest = instance.distances.max()
    scale = largest / longest if longest > 0 else 1.0
    return WholeNumbers(
        distances=np.rint(instance.distances * scale).astype(np.int64),
        demands=instance.demand_units,
        capacity=instance.capacity_units,
        vehicles=vehicles,
        settings=settings,
    )
