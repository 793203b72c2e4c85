"""How good a model is: the solved gap, on instances it never trains on.

Decode, tour, judge, and compare with HGS; the losses alone do not tell. Instances
come from a seed of their own, and their references are kept on disk as labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from clusterfirst.assignment.fast import FastSettings, assign_fast
from clusterfirst.assignment.problem import AssignProblem
from clusterfirst.clock import Deadline
from clusterfirst.errors import InputError, Problem
from clusterfirst.instance import FloatArray, Instance
from clusterfirst.labels.making import LabelOptions, LabelProgress, label, read_labels
from clusterfirst.labels.sources import Source, city_days, uniform, world
from clusterfirst.networks.model import Router
from clusterfirst.networks.neural import encode, score
from clusterfirst.scores import Scores
from clusterfirst.solution import Solution, judge
from clusterfirst.tours.routing import tours

SEED = 0x5EED_0F_7A11D  # of validation instances; no label is drawn from it
CHUNK = 32  # instances in one batch of the networks


@dataclass(frozen=True, eq=False)
class Validation:
    """Instances and what HGS needs for them."""

    instances: Sequence[Instance]
    costs: FloatArray


@dataclass(frozen=True)
class SolvedGap:
    """Cost over reference, minus 1, of each instance; nan where none was found."""

    each: FloatArray

    @property
    def mean(self) -> float:
        """Mean over the instances that were solved; nan if none was."""
        solved = self.each[~np.isnan(self.each)]
        return float(solved.mean()) if len(solved) else float("nan")

    @property
    def unsolved(self) -> float:
        """Share of the instances without a feasible answer."""
        return float(np.isnan(self.each).mean())


@dataclass(frozen=True)
class ValidationPlan:
    """How many instances of which size, and how long the reference may search."""

    customers: int = 100
    count: int = 100
    seconds: float = 1.0
    workers: int = 1


def validation_source(source: Source) -> Source:
    """The same family of instances, drawn from the seed of validation."""
    if source.city is not None:
        return city_days(
            source.city, seed=SEED, capacity=source.capacity, demand=source.demand
        )
    if source.kind == "uniform":
        return uniform(seed=SEED, capacity=source.capacity)
    return world(seed=SEED)


def make_validation(
    source: Source,
    plan: ValidationPlan,
    cache: Path,
    on_progress: Callable[[LabelProgress], None] | None = None,
) -> Validation:
    """Draw instances like those of `source`; references are made once, then read."""
    own = validation_source(source)
    folder = cache / f"{own.key}-n{plan.customers}-{plan.seconds:g}s"
    options = LabelOptions(
        customers=plan.customers,
        count=plan.count,
        seconds=plan.seconds,
        workers=plan.workers,
    )
    label(own, folder, options, on_progress)
    found = read_labels(folder)
    group = found.groups.get(plan.customers)
    chosen = [] if group is None else np.flatnonzero(group.index < plan.count).tolist()
    if group is None or not chosen:
        rule = "HGS found no reference; validate without, or with other instances"
        raise InputError(Problem("E711", "validation", str(folder), rule))
    return Validation([found.instance(i) for i in chosen], group.cost[chosen])


def solved_gap(router: Router, validation: Validation) -> SolvedGap:
    """Solve every instance search-free with K_min and K_min + 1 vehicles.

    Uses no random number of the training's, so that validating never changes a run.
    """
    was_training = router.training
    gaps = np.full(len(validation.instances), np.nan)
    for start in range(0, len(gaps), CHUNK):
        part = list(validation.instances[start : start + CHUNK])
        rows = [instance.city_rows for instance in part]
        encoded = encode(router, part, rows)
        for extra in (0, 1):
            fleets = [instance.min_vehicles + extra for instance in part]
            for i, scores in enumerate(score(router, encoded, fleets)):
                cost = _cost_of(part[i], scores)
                reference = validation.costs[start + i]
                gaps[start + i] = np.fmin(gaps[start + i], cost / reference - 1)
    router.train(was_training)
    return SolvedGap(gaps)


def _cost_of(instance: Instance, scores: Scores) -> float:
    """Judged cost of the assignment at these scores; nan if there is none."""
    problem = AssignProblem(
        cost=scores.cost,
        demands=instance.demand_units[1:],
        capacity=instance.capacity_units,
        vehicles=len(scores.seeds),
        candidates=scores.candidates,
    )
    found = assign_fast(problem, FastSettings(), Deadline.never())
    if len(found.labels) and found.labels[0] < 0:
        return float("nan")
    verdict = judge(instance, Solution(tours(instance, found.labels)))
    return verdict.cost if verdict.feasible else float("nan")


def first_source(sources: Sequence[Source]) -> Source:
    """The source to validate on: the first whose instances can be drawn."""
    for source in sources:
        if source.kind != "public":
            return replace(source, seed=0)
    rule = "a public set is for reporting, never for choosing; validate on a city"
    raise InputError(Problem("E424", "validation", sources[0].name, rule))
