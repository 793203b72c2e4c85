"""The price of a new order: now, and by the end of the day.

Now: the best place in today's plan, and what a short search makes of it. By the end of
the day: over likely completions of today's orders, what the order adds to the whole
day. The same completions, plans and seeds serve with and without it (common random
numbers). A plan with the order starts from one without it, and is itself a plan without
it once the order is passed by: the difference is to the better of the two, so that a
search that was lucky on one side does not become a price.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from clusterfirst.cities.day_law import DayLaw, Wish
from clusterfirst.cities.quick_plan import Plan, Routes, improved, quick_plan
from clusterfirst.problem.city import City
from clusterfirst.problem.errors import InputError, Problem, require_whole
from clusterfirst.problem.instance import FloatArray, Instance, IntArray
from clusterfirst.problem.solution import Solution, judge

MICRO = 1_000_000  # demands have at most 6 decimals: in millionths they are whole
NEW_VEHICLE = -1
REPAIR, PLAN = 4, 40  # times the effort of a quick plan, for today's


@dataclass(frozen=True)
class QuoteSettings:
    """How many completions, from which seed, on how many cores."""

    completions: int = 200
    seed: int = 0
    threads: int = 2
    wish: Wish = field(default_factory=Wish)  # weekday, number of orders if known

    def __post_init__(self) -> None:
        for name, most in (("completions", 100_000), ("threads", 64)):
            require_whole(name, getattr(self, name), 1, most)


@dataclass(frozen=True)
class Insertion:
    """The best place for an order in today's plan."""

    fits: bool
    price: float = float("nan")
    vehicle: int = NEW_VEHICLE  # number of the route, from 0; NEW_VEHICLE: one more
    place: int = 0  # stops before it


@dataclass(frozen=True, eq=False)
class Spread:
    """A number over completions."""

    values: FloatArray  # of each completion

    @cached_property
    def quantiles(self) -> tuple[float, float, float]:
        """p10, p50 and p90."""
        low, middle, high = np.quantile(self.values, [0.1, 0.5, 0.9]).tolist()
        return low, middle, high

    @property
    def mean(self) -> float:
        """The expected value."""
        return float(self.values.mean())

    @property
    def standard_error(self) -> float:
        """Of the mean, by the number of completions."""
        count = len(self.values)
        return float(self.values.std(ddof=1) / np.sqrt(count)) if count > 1 else 0.0

    def document(self) -> dict[str, float]:
        """Return plain values for JSON."""
        names = ("p10", "p50", "p90", "mean", "standard_error")
        numbers = (*self.quantiles, self.mean, self.standard_error)
        return dict(zip(names, numbers, strict=True))


@dataclass(frozen=True, eq=False)
class Expected:
    """What an order adds by the end of the day."""

    price: Spread  # in length
    vehicles: Spread


@dataclass(frozen=True, eq=False)
class _Paths:
    """A plan as the places where a stop can go, in rows of the city."""

    before: IntArray
    after: IntArray
    route: IntArray
    edge: FloatArray
    spare: IntArray  # capacity left of each route, in millionths
    first: IntArray  # number of the first place of each route


class Quoter:
    """Prices for new orders against a day that is kept warm.

    Parameters
    ----------
    law
        The law of the city's days.
    today
        Orders taken so far: a day of that city.
    plan
        Today's routes; planned here if there are none.
    """

    def __init__(
        self,
        law: DayLaw,
        today: Instance,
        plan: Sequence[Sequence[int]] | None = None,
        settings: QuoteSettings | None = None,
    ) -> None:
        if today.city_rows is None or today.city_hash != law.city.hash:
            rule = "today's orders must be a day of the law's city"
            raise InputError(Problem("E405", "orders", today.name, rule))
        self.law, self.settings = law, settings or QuoteSettings()
        self.city: City = law.city.replace(
            capacity=today.capacity, vehicles=today.vehicles
        )
        self.today = today
        self.plan = self._first_plan(plan)
        self._forget()

    def _first_plan(self, plan: Sequence[Sequence[int]] | None) -> Plan:
        if plan is None:
            return quick_plan(self.today, self.settings.seed, PLAN)
        verdict = judge(self.today, Solution(plan))
        if not verdict.feasible:
            raise InputError(verdict.violations)
        return Plan([list(route) for route in plan], verdict.cost)

    def _forget(self) -> None:
        """What follows from today's orders and plan is made anew when needed."""
        for name in ("_paths", "_completed", "_everywhere"):
            self.__dict__.pop(name, None)

    # --- orders -----------------------------------------------------------------

    def row_of(self, name: str) -> int:
        """Row of a location by the user's id."""
        row = self.city.row_of.get(name)
        if not row:
            rule = f"city {self.city.name or '(no name)'} has no such location to serve"
            raise InputError(Problem("E407", "id", name, rule))
        return row

    def add_place(self, point: tuple[float, float], name: str = "new order") -> int:
        """Return the row of a place the city does not know: x, y or lon, lat."""
        self.city = self.city.grown(np.array([point]), [name])
        self._forget()
        return self.city.num_locations

    def accept(self, row: int, demand: float) -> Insertion:
        """Take an order into today's plan, at its best place."""
        found = self.now(row, demand)
        if found.fits:
            self.plan = self._repaired(row, demand, found)
            self.today = self._with(self.today, row, demand)
            self._forget()
        return found

    # --- now --------------------------------------------------------------------

    def now(self, row: int, demand: float) -> Insertion:
        """Return the cheapest place for an order in today's plan; below 1 ms."""
        self._require_new(row, demand)
        return self._insertion(self._paths, self.today, row, demand)

    def after_repair(self, row: int, demand: float) -> float:
        """Return the price after a short search around the insertion."""
        found = self.now(row, demand)
        if not found.fits:
            return float("nan")
        full = self._repaired(row, demand, found)
        day = self._with(self.today, row, demand)
        return _price(day, full, self.plan)

    def _repaired(self, row: int, demand: float, found: Insertion) -> Plan:
        day = self._with(self.today, row, demand)
        routes = _inserted(self.plan.routes, found, self.today.num_customers + 1)
        return improved(day, routes, self.settings.seed, REPAIR)

    def _require_new(self, row: int, demand: float) -> None:
        assert self.today.city_rows is not None
        if row in self._rows_today:
            where = f"location {self.city.ids[row]}"
            rule = "it has an order today; a quote is for one more stop"
            raise InputError(Problem("E407", where, rule=rule))
        if not 0 <= demand < np.inf:
            rule = "must be a finite number of at least 0"
            raise InputError(Problem("E133", "demand", str(demand), rule))

    @property
    def _rows_today(self) -> set[int]:
        found = self.__dict__.get("_rows")
        if found is None or len(found) != len(self.today.demands):
            assert self.today.city_rows is not None
            found = self.__dict__["_rows"] = set(self.today.city_rows.tolist())
        return found

    @cached_property
    def _everywhere(self) -> Instance:
        """The whole city, which knows the distance between any two rows."""
        return self.city.everywhere(self.today.rounding)

    @cached_property
    def _paths(self) -> _Paths:
        return self._paths_of(self.today, self.plan.routes)

    def _paths_of(self, day: Instance, routes: Routes) -> _Paths:
        assert day.city_rows is not None
        stops = [day.city_rows[route] for route in routes]
        none = np.empty(0, dtype=np.int64)
        before = np.concatenate([none, *(np.r_[0, s] for s in stops)])
        after = np.concatenate([none, *(np.r_[s, 0] for s in stops)])
        places = np.array([len(s) + 1 for s in stops], dtype=np.int64)
        micro = np.round(day.demands * MICRO).astype(np.int64)
        load = np.array([micro[route].sum() for route in routes], dtype=np.int64)
        return _Paths(
            before,
            after,
            np.repeat(np.arange(len(routes)), places),
            self._everywhere.lengths(before, after),
            round(day.capacity * MICRO) - load,
            np.cumsum(places) - places,
        )

    def _insertion(
        self, paths: _Paths, day: Instance, row: int, demand: float
    ) -> Insertion:
        """The cheapest place, a vehicle of its own among them."""
        need, far = round(demand * MICRO), self._everywhere
        best = Insertion(False)
        if need > round(day.capacity * MICRO):
            return best
        if day.vehicles is None or len(paths.spare) < day.vehicles:
            best = Insertion(True, 2 * float(far.lengths(0, row)))
        if len(paths.before):
            extra = far.lengths(paths.before, row) + far.lengths(row, paths.after)
            extra -= paths.edge
            extra[(paths.spare < need)[paths.route]] = np.inf
            at = int(extra.argmin())
            if extra[at] < np.inf and not (best.fits and best.price <= extra[at]):
                route = int(paths.route[at])
                price, place = float(extra[at]), at - int(paths.first[route])
                best = Insertion(True, price, route, place)
        return best

    # --- by the end of the day ------------------------------------------------------

    def expected(self, row: int, demand: float) -> Expected:
        """Return the distribution of the price over likely ends of this day."""
        self._require_new(row, demand)
        if round(demand * MICRO) > round(self.today.capacity * MICRO):
            rule = f"it fits in no vehicle of capacity {self.today.capacity}"
            raise InputError(Problem("E201", "demand", f"{demand:g}", rule))
        order = (row, demand)
        with ThreadPoolExecutor(self.settings.threads) as pool:
            found = list(
                pool.map(lambda s: self._difference(s, order), self._completed)
            )
        prices, vehicles = np.array(found, dtype=np.float64).T
        return Expected(Spread(prices), Spread(vehicles))

    @cached_property
    def _completed(self) -> list[tuple[Instance, Plan]]:
        """Likely whole days and their plans, the same for every order asked about."""
        with ThreadPoolExecutor(self.settings.threads) as pool:
            return list(pool.map(self._complete, range(self.settings.completions)))

    def _complete(self, index: int) -> tuple[Instance, Plan]:
        assert self.today.city_rows is not None
        settings, here = self.settings, self.today.city_rows[1:]
        known = here[here <= self.law.city.num_locations]  # by the law
        rows, demands = self.law.complete(known, settings.seed, index, settings.wish)
        day = self._day(
            np.concatenate([here, rows]),
            np.concatenate([self.today.demands[1:], demands]),
        )
        return day, quick_plan(day, index)

    def _difference(
        self, completed: tuple[Instance, Plan], order: tuple[int, float]
    ) -> tuple[float, float]:
        """Length and vehicles that the order adds to one likely day."""
        day, plan = completed
        row, demand = order
        assert day.city_rows is not None
        same = np.flatnonzero(day.city_rows[1:] == row) + 1
        if len(same):  # it was going to come by itself: the day without it
            day, plan = _without(day, plan, int(same[0]))
        found = self._insertion(self._paths_of(day, plan.routes), day, row, demand)
        bigger, new = self._with(day, row, demand), day.num_customers + 1
        routes = _inserted(plan.routes, found, new)
        full = improved(bigger, routes, self.settings.seed)
        return _price(bigger, full, plan), len(full.routes) - len(plan.routes)

    def _with(self, day: Instance, row: int, demand: float) -> Instance:
        assert day.city_rows is not None
        rows = np.append(day.city_rows[1:], row)
        return self._day(rows, np.append(day.demands[1:], demand))

    def _day(self, rows: IntArray, demands: FloatArray) -> Instance:
        day = self.city.day(rows, demands)
        # Completions may need more vehicles than today's fleet: that is a price, too.
        free = None if len(demands) > self.today.num_customers + 1 else day.vehicles
        if free == day.vehicles and day.rounding == self.today.rounding:
            return day
        return day.replace(vehicles=free, rounding=self.today.rounding)


def _price(day: Instance, full: Plan, plan: Plan) -> float:
    """What the last customer of a day adds to the better of two plans without it."""
    saved = _saving(day, full.routes, day.num_customers)
    return max(saved, full.cost - plan.cost)


def _inserted(routes: Routes, found: Insertion, customer: int) -> Routes:
    changed = [list(route) for route in routes]
    if found.vehicle == NEW_VEHICLE:
        return [*changed, [customer]]
    changed[found.vehicle].insert(found.place, customer)
    return changed


def _saving(day: Instance, routes: Iterable[Sequence[int]], customer: int) -> float:
    """What it saves to pass a customer by."""
    route = next(list(route) for route in routes if customer in route)
    at = route.index(customer)
    before = route[at - 1] if at else 0
    after = route[at + 1] if at + 1 < len(route) else 0
    legs = day.lengths([before, customer, before], [customer, after, after])
    return float(legs[0] + legs[1] - legs[2])


def _without(day: Instance, plan: Plan, customer: int) -> tuple[Instance, Plan]:
    """The same day and plan without one of its customers."""
    assert day.city_rows is not None
    keep = np.delete(np.arange(day.num_customers + 1), customer)
    smaller = day.part(keep)
    routes = [
        [c - (c > customer) for c in route if c != customer] for route in plan.routes
    ]
    cost = plan.cost - _saving(day, plan.routes, customer)
    return smaller, Plan([route for route in routes if route], cost)
