"""Routes to begin a search with limits from: savings within the limits, by vehicle."""

from __future__ import annotations

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.fleet import BoolArray, FloatArray
from clusterfirst.problem.instance import Instance, IntArray
from clusterfirst.stages.classical.limited_savings import kinds_of, limited_savings
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.search.constrained import Routing
from clusterfirst.stages.tours.routing import QUICK, improve


def first_routing(day: Instance) -> Routing:
    """Savings within the limits of the vehicles; who has no place is left out."""
    if not day.num_customers:
        return {}
    plain = both_ways_alike(day)
    routes = limited_savings(day, plain, kinds_of(day))
    return fitting(day, improve(plain, routes, False, QUICK, Deadline.never()))


def both_ways_alike(day: Instance) -> Instance:
    """The plain day beneath, every way as long as the mean of it and the way back."""
    matrix = day.matrix
    if matrix is not None and not np.array_equal(matrix, matrix.T):
        matrix = (matrix + matrix.T) / 2
    return day.replace(constraints=None, matrix=matrix, vehicles=None)


def fitting(day: Instance, routes: Routes) -> Routing:
    """Give each route to a vehicle that may drive it, or cut it where none is left.

    The heaviest choose first, among the smallest vehicles. Of a route that no free
    vehicle drives as it is, the longest beginning that one does goes to it, then what
    is left. Orders of groups are left out: insertion puts them together.
    """
    free = Vehicles(day)
    found: Routing = {}
    left: list[IntArray] = []
    loads = routes.sums(day.demand_units)
    for k in np.argsort(-loads, kind="stable").tolist():
        route = _shorter_way(day, free.served_alone(routes[k]))
        vehicle = free.smallest(route)
        if vehicle < 0:
            left.append(route)
        elif len(route):
            found[vehicle] = route.tolist()
    for route in left:
        while len(route):
            vehicle, count = free.longest(route)
            if count:
                found[vehicle] = route[:count].tolist()
            route = route[max(1, count) :]
    return found


class Vehicles:
    """The vehicles without a route, and what of a route each of them may drive."""

    def __init__(self, day: Instance) -> None:
        assert day.constraints is not None
        assert day.vehicle_units is not None
        self.day, self.asked, self.units = day, day.constraints, day.vehicle_units
        self.idle = np.ones(self.asked.fleet.size, dtype=np.bool_)
        self.order = np.argsort(self.units, kind="stable")
        self.alike = _alike(day)

    def served_alone(self, route: IntArray) -> IntArray:
        """The route without orders that groups keep together."""
        groups = self.asked.groups
        return route[groups[route] < 0] if len(groups) else route

    def cut(self, route: IntArray, vehicle: int) -> IntArray:
        """What this vehicle may drive of a route: the dearest detours are left out."""
        route = self.served_alone(route)
        route = self.met_once(_shorter_way(self.day, route))
        only = np.array([vehicle])
        while len(route) and not self._may(route, only)[0, -1]:
            before = np.concatenate([[0], route[:-1]])
            after = np.concatenate([route[1:], [0]])
            saved = self.day.lengths(before, route) + self.day.lengths(route, after)
            saved -= self.day.lengths(before, after)
            route = np.delete(route, saved.argmax())
        return route

    def met_once(self, route: IntArray) -> IntArray:
        """The route without orders that must not meet an earlier one on it."""
        again = self._met(route)
        return route[~again] if again.any() else route

    def smallest(self, route: IntArray) -> int:
        """The smallest free vehicle that may drive all of a route, which takes it."""
        if not len(route):
            return 0
        tried = self._tried()
        able = tried[self._may(route, tried)[:, -1]]
        return self._taken(int(able[0])) if len(able) else -1

    def longest(self, route: IntArray) -> tuple[int, int]:
        """Who may drive most of the beginning of a route, takes it, and how much."""
        tried = self._tried()
        if not len(tried):
            return -1, 0
        counts = self._may(route, tried).sum(axis=1)
        at = int(counts.argmax())
        return (self._taken(int(tried[at])) if counts[at] else -1), int(counts[at])

    def _taken(self, vehicle: int) -> int:
        self.idle[vehicle] = False
        return vehicle

    def _tried(self) -> IntArray:
        """One free vehicle of each sort, the smallest first."""
        free = self.order[self.idle[self.order]]
        _, first = np.unique(self.alike[free], return_index=True)
        return free[np.sort(first)]

    def _may(self, route: IntArray, tried: IntArray) -> BoolArray:
        """(vehicles, stops) whether each may drive the route up to each stop."""
        day, asked, fleet = self.day, self.asked, self.asked.fleet
        kind = fleet.kind[tried, None]
        may = day.demand_units[route].cumsum() <= self.units[tried, None]
        may &= np.arange(1, len(route) + 1) <= fleet.max_stops[kind]
        may &= _upto(route, day.lengths) <= fleet.max_distance[kind]
        if asked.timed:
            minutes = _upto(route, day.minutes)
            if asked.service is not None:
                minutes = minutes + asked.service[route].cumsum()
            may &= minutes <= fleet.max_duration[kind]
        classes, allowed = asked.wishes
        if len(classes):
            may &= allowed[classes[route]][:, tried].T
        may &= ~self._met(route)
        return np.logical_and.accumulate(may, axis=1)

    def _met(self, route: IntArray) -> BoolArray:
        """(stops,) whether an order meets an earlier one that it must not meet."""
        if not len(self.asked.aparts):
            return np.zeros(len(route), dtype=np.bool_)
        numbers = self.asked.aparts[route]
        again: BoolArray = numbers >= 0
        again[np.unique(numbers, return_index=True)[1]] = False
        return again


def _alike(day: Instance) -> IntArray:
    """(V,) a number for each sort of vehicles: of one kind, and wished alike."""
    asked = day.constraints
    assert asked is not None
    columns = [asked.fleet.kind]
    if len(asked.wishes[0]):
        columns += list(asked.wishes[1].astype(np.int64))
    found: IntArray = np.unique(np.array(columns), axis=1, return_inverse=True)[1]
    return found.reshape(-1)


def _upto(route: IntArray, legs: object) -> FloatArray:
    """(stops,) from the depot to each stop and back to the depot."""
    assert callable(legs)
    before = np.concatenate([[0], route[:-1]])
    there: FloatArray = legs(before, route).cumsum() + legs(route, 0)
    return there


def _shorter_way(day: Instance, route: IntArray) -> IntArray:
    """The route in the shorter direction."""
    if day.symmetric or not len(route):
        return route
    ahead, back = Routes.of([route, route[::-1]]).lengths(day)
    return route[::-1] if back < ahead else route
