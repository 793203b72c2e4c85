"""Why orders stay: of each, what every vehicle would break if it took it as well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from clusterfirst.problem.constraints import Constraints
from clusterfirst.problem.feasibility import fits_nowhere
from clusterfirst.problem.fleet import BoolArray, FloatArray, IntArray
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge


def reasons_to_stay(instance: Instance, solution: Solution) -> dict[str, str]:
    """Say of each order without a visit why; each reason can be checked by trying."""
    asked, verdict = instance.constraints, judge(instance, solution)
    if asked is None:
        return {instance.ids[c]: "no vehicle has room for it" for c in verdict.unserved}
    alone = {
        row: f"{why} ({got})" for row, got, why in fits_nowhere(asked, instance.alone)
    }
    now = _Now.of(instance, asked, solution)
    return {instance.ids[c]: alone.get(c) or now.reason(c) for c in verdict.unserved}


def limits_broken(
    instance: Instance, solution: Solution, rows: Sequence[int]
) -> BoolArray:
    """(rows, V) whether a vehicle would break a limit if it took an order as well."""
    assert instance.constraints is not None
    now = _Now.of(instance, instance.constraints, solution)
    return np.array([np.any(list(now.broken(c).values()), axis=0) for c in rows])


class _Now:
    """What the vehicles do, and what one more order would break."""

    def __init__(
        self,
        instance: Instance,
        asked: Constraints,
        here: IntArray,
        onward: IntArray,
        sizes: IntArray,
    ) -> None:
        self.instance, self.asked = instance, asked
        self.here, self.onward, self.sizes = here, onward, sizes
        self.starts = np.cumsum(sizes + 1) - (sizes + 1)
        self.load = np.add.reduceat(instance.demand_units[here], self.starts)
        self.length = np.add.reduceat(instance.lengths(here, onward), self.starts)
        self.minutes = np.zeros(len(sizes))
        if asked.timed:
            times = instance.minutes(here, onward)
            if asked.service is not None:
                times = times + asked.service[here]
            self.minutes = np.add.reduceat(times, self.starts)

    @classmethod
    def of(cls, instance: Instance, asked: Constraints, solution: Solution) -> _Now:
        """The state of a plan."""
        size = asked.fleet.size
        drives = list(solution.vehicles or range(len(solution.routes)))
        routes = dict(zip(drives, solution.routes, strict=True))
        here = np.concatenate([[0, *routes.get(v, ())] for v in range(size)])
        onward = np.concatenate([[*routes.get(v, ()), 0] for v in range(size)])
        sizes = np.array([len(routes.get(v, ())) for v in range(size)])
        return cls(instance, asked, here, onward, sizes)

    def broken(self, c: int) -> dict[str, BoolArray]:
        """(V,) for each limit, whether a vehicle would break it."""
        instance, asked, fleet = self.instance, self.asked, self.asked.fleet
        assert instance.vehicle_units is not None
        kind = fleet.kind
        classes, allowed = asked.wishes
        found = {
            "capacity": self.load + instance.demand_units[c] > instance.vehicle_units,
            "stops": self.sizes + 1 > fleet.max_stops[kind],
            "longest distance": self.length + self._least(instance.lengths, c)
            > fleet.max_distance[kind],
        }
        if asked.timed:
            service = 0.0 if asked.service is None else float(asked.service[c])
            minutes = self.minutes + service + self._least(instance.minutes, c)
            found["longest duration"] = minutes > fleet.max_duration[kind]
        if len(classes):
            found["not allowed on it"] = ~allowed[classes[c]]
        return found

    def _least(self, legs: Callable[[Any, Any], FloatArray], c: int) -> FloatArray:
        """(V,) the least that c adds to each route."""
        between = legs(self.here, c) + legs(c, self.onward)
        between = between - legs(self.here, self.onward)
        least: FloatArray = np.minimum.reduceat(between, self.starts)
        return least

    def reason(self, c: int) -> str:
        """One sentence."""
        broken = self.broken(c)
        free = ~np.any(list(broken.values()), axis=0)
        if free.any():
            names = self.asked.fleet.vehicle_names
            grouped = len(self.asked.groups) and self.asked.groups[c] >= 0
            if grouped:
                return "no vehicle has room for its whole group"
            name = names[int(np.flatnonzero(free)[0])]
            return f"no place was found in time; {name} might take it"
        count = Counter({word: int(mask.sum()) for word, mask in broken.items()})
        said = ", ".join(f"{w} ({k})" for w, k in count.most_common() if k)
        return f"every vehicle would break a limit: {said}"
