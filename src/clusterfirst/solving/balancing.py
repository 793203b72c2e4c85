"""Routes as even as possible for a little more length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import FloatArray, Instance
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.stages.search.constrained import Keeping, LimitedSearch, Routing
from clusterfirst.stages.search.schedule import PolishSettings, Schedule

MEASURES = ("stops", "load", "distance", "duration")
FALLS = 12  # times that the temperature falls, each aiming at other routes
HOT, COLD = 0.2, 0.01  # in mean distances to neighbours
LOOK = 100  # customers for each iteration between two looks at the routes
FASTER = 1.05  # the price of unevenness after a chunk within the length allowed


@dataclass(frozen=True)
class Balance:
    """What is to be even, and for how much more length."""

    measure: str
    within: float = 0.03  # of the length

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            rule = f"one of {', '.join(MEASURES)}"
            raise InputError(Problem("E404", "--balance", self.measure, rule))
        if not 0.0 <= self.within <= 10.0:
            rule = "a share of the length is needed, such as 3%"
            raise InputError(Problem("E404", "--within", str(self.within), rule))


def spread(values: Sequence[float] | FloatArray) -> float:
    """The most less the least of the routes that drive."""
    return float(np.max(values) - np.min(values)) if len(values) else 0.0


def measured(instance: Instance, solution: Solution, measure: str) -> FloatArray:
    """(R,) what each route has of a measure."""
    verdict = judge(instance, solution)
    found = {
        "stops": [len(route) for route in solution.routes],
        "load": verdict.loads,
        "distance": verdict.lengths,
        "duration": verdict.minutes,
    }[measure]
    if solution.routes and not found:
        rule = "durations are not known; give --durations or --speed"
        raise InputError(Problem("E435", "--balance", measure, rule))
    return np.array(found, dtype=np.float64)


def balanced(
    day: Instance,
    start: Routing,
    asked: Balance,
    settings: PolishSettings,
    deadline: Deadline,
) -> Routing:
    """Return the most even routes that were found within the length allowed.

    The price of unevenness rises while the routes are short enough and falls while
    they are not, so that the search stays where the length allowed is used up.
    """
    search = LimitedSearch(day, start, settings, Keeping())
    code = MEASURES.index(asked.measure) + 1
    even = np.zeros(2)
    timed = int(search.limits.timed or code == 4)
    search.limits = search.limits._replace(balance=code, even=even, timed=timed)
    search.plan = search.plan._replace(ruins=0.0)
    search.measure()
    seen = _Seen(search, code)
    allowed = seen.length() * (1 + asked.within) * (1 + 1e-12)
    now, drives = seen.values(), int((search.region.tours.size > 0).sum())
    best, least, shortest = start, spread(now), seen.length()
    schedule = Schedule.of(day, settings, deadline)
    done, chunk = 0, 1 + day.num_customers // LOOK
    while (used := schedule.used(done)) < 1.0 and drives:
        fall, part = divmod(used * FALLS, 1.0)
        # Another number of routes may be even too: each fall aims at one.
        routes = max(1, drives + (0, 0, 1, -1)[int(fall) % 4])
        even[1] = seen.values().sum() / routes
        if even[0] == 0.0:
            even[0] = search.scale / max(float(np.var(now)), 1e-12 + even[1] ** 2 / 99)
        search.anneal(chunk, HOT * math.exp(part * math.log(COLD / HOT)))
        done += chunk
        length, values = seen.length(), seen.values()
        even[0] *= FASTER if length <= allowed else 1 / FASTER
        if length <= allowed and (spread(values), length) < (least, shortest):
            best, least, shortest = (
                search.routing(best=False),
                spread(values),
                length,
            )
    return best


@dataclass(frozen=True)
class _Seen:
    """What the routes of a search have now."""

    search: LimitedSearch
    code: int

    def values(self) -> FloatArray:
        limits, tours = self.search.limits, self.search.region.tours
        table = (tours.size, tours.load, limits.length, limits.minutes)
        values: FloatArray = table[self.code - 1][tours.size > 0].astype(np.float64)
        return values

    def length(self) -> float:
        return float(self.search.limits.length.sum())
