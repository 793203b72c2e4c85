"""Why orders stay: of each, what every vehicle would break if it took it as well.

A reason speaks of the plan as it is, so that whoever reads it can check it by trying.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from clusterfirst.problem.constraints import Constraints
from clusterfirst.problem.feasibility import fits_nowhere
from clusterfirst.problem.fleet import BoolArray, Fleet, FloatArray, IntArray
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge

# What a vehicle lacks that breaks a limit, in words.
MORE = {
    "capacity": "of capacity",
    "stops": "stops",
    "longest distance": "of distance",
    "longest duration": "minutes",
}


def reasons_to_stay(instance: Instance, solution: Solution) -> dict[str, str]:
    """Say of each order without a visit why; each reason can be checked by trying."""
    asked, verdict = instance.constraints, judge(instance, solution)
    if asked is None:  # vehicles are all alike, and without a limit there is a free one
        most = instance.vehicles or instance.num_customers + 1
        asked = Constraints(Fleet.of_one_kind(float(instance.capacity), most))
        instance = instance.replace(constraints=asked)
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
    return np.array(
        [(np.array(list(now.over([c]).values())) > 0).any(axis=0) for c in rows]
    )


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
        self.alone = instance.alone
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

    def over(self, rows: Sequence[int]) -> dict[str, FloatArray]:
        """(V,) by how much a vehicle would break each limit with these orders.

        Of several, each is asked by itself how much longer it makes a route; inf
        stands for what is forbidden.
        """
        instance, asked, fleet = self.instance, self.asked, self.asked.fleet
        assert instance.vehicle_units is not None
        kind, units = fleet.kind, int(instance.demand_units[list(rows)].sum())
        far = np.max([self._least(instance.lengths, c) for c in rows], axis=0)
        room = (instance.vehicle_units - self.load).astype(np.float64)
        found = {
            "capacity": units - room,
            "stops": self.sizes + len(rows) - fleet.max_stops[kind],
            "longest distance": self.length + far - fleet.max_distance[kind],
        }
        if asked.timed:
            late = np.max([self._least(instance.minutes, c) for c in rows], axis=0)
            service = 0.0 if asked.service is None else asked.service[list(rows)].sum()
            minutes = self.minutes + service + late
            found["longest duration"] = minutes - fleet.max_duration[kind]
        classes, allowed = asked.wishes
        if len(classes):
            may = allowed[classes[list(rows)]].all(axis=0)
            found["not allowed on it"] = np.where(may, 0.0, np.inf)
        if len(asked.aparts):
            not_with = [n for n in asked.aparts[list(rows)].tolist() if n >= 0]
            meets = np.isin(asked.aparts[self.here], not_with) & (self.here > 0)
            meets = np.logical_or.reduceat(meets, self.starts)
            found["an order it must not ride with"] = np.where(meets, np.inf, 0.0)
        return found

    def _least(self, legs: Callable[[Any, Any], FloatArray], c: int) -> FloatArray:
        """(V,) the least that c adds to each route."""
        between = legs(self.here, c) + legs(c, self.onward)
        between = between - legs(self.here, self.onward)
        least: FloatArray = np.minimum.reduceat(between, self.starts)
        return least

    def reason(self, c: int) -> str:
        """One sentence."""
        groups, names = self.asked.groups, self.asked.fleet.vehicle_names
        grouped = bool(len(groups)) and groups[c] >= 0
        rows = np.flatnonzero(groups == groups[c]).tolist() if grouped else [c]
        whole = " for its whole group" if len(rows) > 1 else ""
        over = self.over(rows)
        broken = {word: excess > 0 for word, excess in over.items()}
        free = ~np.any(list(broken.values()), axis=0)
        if free.any():
            name = names[int(np.flatnonzero(free)[0])]
            return f"no place was found{whole}; {name} might take it"
        count = Counter({word: int(mask.sum()) for word, mask in broken.items()})
        said = ", ".join(f"{w} ({k})" for w, k in count.most_common() if k)
        found = f"every vehicle would break a limit{whole}: {said}"
        if np.logical_or(broken["capacity"], broken["stops"]).all():
            found = f"all vehicles are full{whole}: {said}"
            if len(rows) == 1 and (more := self.one_more(c)):
                name, cost = more
                found += f"; one more {name} would cost {cost:.5g} for it alone"
        return found + self._nearly(over)

    def _nearly(self, over: dict[str, FloatArray]) -> str:
        """What the vehicle that lacks least would need."""
        fleet, kind = self.asked.fleet, self.asked.fleet.kind
        excess = np.maximum(np.array(list(over.values())), 0.0)
        most = {
            "capacity": self.instance.vehicle_units,
            "stops": fleet.max_stops[kind],
            "longest distance": fleet.max_distance[kind],
            "longest duration": fleet.max_duration[kind],
        }
        share = [e / most.get(word, 1.0) for word, e in zip(over, excess, strict=True)]
        v = int(np.sum(share, axis=0).argmin())
        if not np.isfinite(excess[:, v]).all():
            return ""
        unit = self.instance.plain_load(1)
        needs = {w: float(e) for w, e in zip(over, excess[:, v], strict=True) if e > 0}
        needs |= {"capacity": needs["capacity"] * unit} if "capacity" in needs else {}
        said = " and ".join(
            f"{amount:.5g} {MORE[word]}" for word, amount in needs.items()
        )
        return f"; {fleet.vehicle_names[v]} lacks {said}"

    def one_more(self, c: int) -> tuple[str, float] | None:
        """The kind of vehicle that would serve c alone at least cost, and that cost."""
        instance, asked, fleet = self.instance, self.asked, self.asked.fleet
        first = np.flatnonzero(np.diff(fleet.kind, prepend=-1))
        assert instance.vehicle_units is not None
        able = self.alone.units[c] <= instance.vehicle_units[first]
        able &= self.alone.length[c] <= fleet.max_distance
        if self.alone.minutes is not None:
            able &= self.alone.minutes[c] <= fleet.max_duration
        classes, allowed = asked.wishes
        if len(classes):
            able &= np.logical_or.reduceat(allowed[classes[c]], first)
        cost = np.where(able, fleet.fixed_cost + self.alone.length[c], np.inf)
        best = int(cost.argmin())
        return (fleet.names[best], float(cost[best])) if able.any() else None
