"""An instance in an order and in units that do not depend on how it was written down.

Ties are broken by row number in many places, and searches draw numbers, so another
numbering of the same customers, or grams instead of kilograms, would give another
answer. The networks are invariant (the paper, Appendix on symmetries); with this the
answers are too: customers go by distance from the depot, then demand, and demands are
divided by their greatest common divisor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from clusterfirst.problem.instance import Instance, IntArray
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.scores import Scores


@dataclass(frozen=True, eq=False)
class Canonical:
    """What is solved, and how its rows are called outside."""

    given: Instance
    instance: Instance
    order: IntArray  # (n + 1,) row of the given instance for each row of this one

    def to_given(self, routes: Routes) -> Routes:
        """Routes in the rows of the given instance."""
        return routes.renamed(self.order)

    def from_given(self, routes: Iterable[Sequence[int]]) -> Routes:
        """Routes of the given instance in our rows."""
        return Routes.of(routes).renamed(np.argsort(self.order))

    def details_to_given(self, details: dict[str, Any]) -> dict[str, Any]:
        """What a decoding left, in the rows of the given instance."""
        if "scores" not in details:
            return details
        scores = self._scores_to_given(details["scores"])
        labels = details["labels"][np.argsort(self.order[1:])]
        return {**details, "scores": scores, "labels": labels}

    def _scores_to_given(self, scores: Scores) -> Scores:
        rows = np.argsort(self.order[1:])
        return replace(
            scores,
            seeds=self.order[scores.seeds],
            cost=scores.cost[rows],
            candidates=None if scores.candidates is None else scores.candidates[rows],
            plan=None if scores.plan is None else scores.plan[rows],
        )


def canonical(instance: Instance) -> Canonical:
    """Sort the customers by what no symmetry changes; exact ties by coordinates."""
    units, coords = instance.demand_units, instance.coords
    if coords is None:
        away = instance.lengths(0, np.arange(instance.num_customers + 1))
        order = np.lexsort((units[1:], away[1:])) + 1
    else:
        points = instance.plane
        away = np.hypot(*(points - points[0]).T)
        order = np.lexsort((points[1:, 1], points[1:, 0], units[1:], away[1:])) + 1
    order = np.concatenate([[0], order])
    step = max(1, int(np.gcd.reduce(units)))
    matrix, constraints = instance.matrix, instance.constraints
    if constraints is not None:
        assert instance.vehicle_units is not None
        first = np.flatnonzero(np.diff(constraints.fleet.kind, prepend=-1))
        largest = (instance.vehicle_units[first] // step).astype(np.float64)
        constraints = constraints.reordered(
            order, replace(constraints.fleet, capacities=largest)
        )
    sorted_instance = instance.replace(
        demands=units[order] // step,
        # What is above a multiple of the step can never be used.
        capacity=instance.capacity_units // step,
        coords=None if coords is None else coords[order],
        matrix=None if matrix is None else matrix[np.ix_(order, order)],
        ids=tuple(instance.ids[row] for row in order.tolist()),
        city_rows=None if instance.city_rows is None else instance.city_rows[order],
        constraints=constraints,
        columns={},
    )
    return Canonical(instance, sorted_instance, order)
