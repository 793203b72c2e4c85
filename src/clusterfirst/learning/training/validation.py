"""How good a model is: the solved gap, on instances it never trains on.

Decode, tour, judge, and compare with HGS; the losses alone do not tell. Instances
come from a seed of their own, and their references are kept on disk as labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from clusterfirst.learning.labels.labelset import read_labels
from clusterfirst.learning.labels.making import LabelOptions, LabelProgress, label
from clusterfirst.learning.labels.sources import (
    Source,
    city_days,
    law_days,
    uniform,
    world,
)
from clusterfirst.networks.network import Network
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import FloatArray, Instance
from clusterfirst.solving.many import Answer, decode_all
from clusterfirst.solving.solver import Result

SEED = 0x5EED_0F_7A11D  # of validation instances; no label is drawn from it
PATIENCE = (1, 4, 16)  # times the seconds, while HGS finds nothing on a busy machine


@dataclass(frozen=True, eq=False)
class Validation:
    """Instances and what HGS needs for them."""

    instances: Sequence[Instance]
    costs: FloatArray
    seconds: float = math.nan  # that HGS had for each


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
    if source.law is not None:
        return law_days(source.law, seed=SEED, real=False, capacity=source.capacity)
    if source.city is not None:
        return city_days(
            source.city, seed=SEED, capacity=source.capacity, demand=source.demand
        )
    if source.kind == "uniform":
        return uniform(seed=SEED, capacity=source.capacity)
    return world(seed=SEED, name=source.kind)


def make_validation(
    source: Source,
    plan: ValidationPlan,
    cache: Path,
    on_progress: Callable[[LabelProgress], None] | None = None,
) -> Validation:
    """Draw instances like those of `source`; references are made once, then read."""
    return references(validation_source(source), plan, cache, on_progress)


def references(
    own: Source,
    plan: ValidationPlan,
    cache: Path,
    on_progress: Callable[[LabelProgress], None] | None = None,
) -> Validation:
    """Return the first instances of a source and what HGS needs for them."""
    for patience in PATIENCE:
        longer = replace(plan, seconds=patience * plan.seconds)
        found = _references(own, longer, cache, on_progress)
        if found.instances:
            return found
    rule = "HGS found no reference; validate without, or with other instances"
    raise InputError(Problem("E711", "validation", str(cache), rule))


def _references(
    own: Source,
    plan: ValidationPlan,
    cache: Path,
    on_progress: Callable[[LabelProgress], None] | None,
) -> Validation:
    folder = cache / f"{own.key}-n{plan.customers}-{plan.seconds:g}s"
    options = LabelOptions(
        customers=plan.customers,
        count=plan.count,
        seconds=plan.seconds,
        workers=plan.workers,
    )
    label(own, folder, options, on_progress)
    found = read_labels(folder)
    numbers: list[int] = []
    costs: list[float] = []
    before = 0
    for customers, group in found.groups.items():
        if plan.customers in (0, customers):
            chosen = np.flatnonzero(group.index < plan.count)
            numbers += (before + chosen).tolist()
            costs += group.cost[chosen].tolist()
        before += len(group)
    days = [found.instance(i) for i in numbers]
    return Validation(days, np.array(costs), plan.seconds)


def solved_gap(network: Network, validation: Validation) -> SolvedGap:
    """Decode every instance as `solve --no-polish` does; the clock is not looked at.

    Uses no random number of the training's, so that validating never changes a run.
    """
    answers = decode_all(network, validation.instances)
    costs = np.array([_own_cost(answer) for answer in answers])
    return SolvedGap(costs / validation.costs - 1)


def _own_cost(answer: Answer) -> float:
    """The judged cost; nan where the network had no answer and another was given."""
    if not isinstance(answer, Result) or "fallback" in answer.details:
        return float("nan")
    return answer.verdict.cost


def first_source(sources: Sequence[Source]) -> Source:
    """The source to validate on: the first whose instances can be drawn."""
    for source in sources:
        if source.kind != "public":
            return replace(source, seed=0)
    rule = "a public set is for reporting, never for choosing; validate on a city"
    raise InputError(Problem("E424", "validation", sources[0].name, rule))
