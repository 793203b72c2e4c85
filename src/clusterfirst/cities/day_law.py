"""The law of a city's days, fitted to the past ones: the paper's P_dem (Section 3).

How many orders: those of a past day, smoothed. Which locations: each has its own chance
of an order, shrunk towards that of all locations as far as the data asks for it, so
that one never seen keeps a chance, whose size is checked on the past; by weekday where
dates show that it matters; places next to each other have good and bad days together
where they do. Which demands: the location's own past ones, or those of all locations,
by how much locations differ. How far to trust each part is estimated (empirical Bayes),
nothing is set by hand.

Without past days it is the paper's law: any locations alike, demands 1 to 9. Day
`index` of a seed is a function of both, as everywhere.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.special import betaln, gammaln

from clusterfirst.cities.history import NO_WEEKDAY, WEEKDAYS, History
from clusterfirst.problem.city import City
from clusterfirst.problem.errors import InputError, InputWarning, Problem
from clusterfirst.problem.instance import FloatArray, Instance, IntArray
from clusterfirst.problem.sampling import generator, sample_day

FEW_DAYS = 5  # below, the chances of locations are not fitted
PAPER_ORDERS = 100
PAPER_DEMANDS = (1, 9)
PAPER_CAPACITY = 50
FEW_VEHICLES = 4  # days with fewer are another problem than anybody's
ZONE = 16  # locations that share good and bad days
STRENGTHS = np.logspace(-1, 5, 49)  # of priors, in days or orders
WEEK_STRENGTHS = np.logspace(-0.5, 2, 11)  # the same, of a location's own week
CLEARLY = 3.0  # in log likelihood: what a weekday has to explain to be believed


@dataclass(frozen=True)
class Wish:
    """What a drawn day has to be like; nothing, by default."""

    customers: int | None = None
    weekday: int | None = None  # 0 for Monday
    growth: float = 1.0  # of the number of orders
    capacity: float | None = None


@dataclass(frozen=True, eq=False)
class DayLaw:
    """A fitted law; `fit` makes one.

    `history` is what it was fitted on; without days it is the paper's law.
    """

    history: History
    chance: FloatArray  # (|X|,) of an order on a day
    split: FloatArray | None = None  # (|X|, 7) of its orders by weekday; None: alike
    alike: float = math.inf  # shape of a zone's common factor; large: none
    own_demand: float = math.inf  # orders at which a location's own demands weigh half
    zone: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def city(self) -> City:
        """The city whose days these are."""
        return self.history.city

    @property
    def is_paper(self) -> bool:
        """Whether there were no days to fit."""
        return len(self.history) == 0

    @cached_property
    def digest(self) -> str:
        """What tells laws apart: they follow from the days."""
        return self.history.digest

    def draw(self, seed: int, index: int, wish: Wish | None = None) -> Instance:
        """Draw day `index` of a seed."""
        wish = wish or Wish()
        if self.is_paper:
            usual = round(wish.growth * min(PAPER_ORDERS, self.city.num_locations))
            count = usual if wish.customers is None else wish.customers
            return sample_day(
                self.city, count, seed=seed, index=index, capacity=wish.capacity
            )
        rng = generator(seed, index)
        count, weekday = self._size(rng, wish, have=0)
        rows = self._locations(rng, count, weekday, np.empty(0, dtype=np.int64))
        name = f"{self.city.name or 'city'}-law-s{seed}-{index}"
        demands = self._demands(rng, rows)
        return self.city.day(rows, demands, capacity=wish.capacity, name=name)

    def complete(
        self, today: IntArray, seed: int, index: int, wish: Wish | None = None
    ) -> tuple[IntArray, FloatArray]:
        """Draw the orders still to come after those in rows `today`: rows, demands.

        A day with fewer orders than there are already has no more.
        """
        wish = wish or Wish()
        rng = generator(seed, index)
        count, weekday = self._size(rng, wish, have=len(today))
        rows = self._locations(rng, max(0, count - len(today)), weekday, today)
        return rows, self._demands(rng, rows)

    # --- how many ---------------------------------------------------------------

    def _size(self, rng: np.random.Generator, wish: Wish, have: int) -> tuple[int, int]:
        """Number of orders and weekday: a past day's, its number smoothed."""
        days = self.days_like(wish.weekday)
        spread = rng.standard_normal()  # drawn in any case: wishes change nothing else
        picked = rng.random()
        most = self.city.num_locations
        if self.is_paper:
            count, weekday = round(wish.growth * PAPER_ORDERS), NO_WEEKDAY
        else:
            orders = self.history.orders[days].astype(float)
            later = np.flatnonzero(orders * wish.growth >= have)
            if have and len(later):
                days, orders = days[later], orders[later]
            at = int(picked * len(days))
            weekday = int(self.history.weekdays[days[at]])
            count = round(wish.growth * _smoothed(orders, at, spread))
        if wish.customers is not None:
            count = wish.customers
            if not 0 <= count <= most:
                rule = f"the city has {most} locations"
                raise InputError(Problem("E401", "customers", str(count), rule))
        return min(max(count, 1 if wish.customers is None else 0), most), weekday

    def days_like(self, weekday: int | None) -> IntArray:
        """Numbers of the past days that a drawn one follows."""
        if weekday is None or self.is_paper:
            return np.arange(len(self.history))
        found = np.flatnonzero(self.history.weekdays == weekday)
        if not len(found):
            rule = "no past day of this city is one (city show lists weekdays)"
            raise InputError(Problem("E404", "weekday", WEEKDAYS[weekday], rule))
        return found

    # --- which locations ----------------------------------------------------------

    def _locations(
        self, rng: np.random.Generator, count: int, weekday: int, taken: IntArray
    ) -> IntArray:
        """Distinct rows, none of `taken`: the first to come in a race.

        A location with the chance p of an order a day comes by the end of it if it
        comes at the rate -log(1 - p).
        """
        rate = self.rates(weekday)
        arrival = rng.standard_exponential(len(rate)) / rate
        if self.alike < math.inf:
            common = rng.gamma(self.alike, 1 / self.alike, int(self.zone.max()) + 1)
            arrival /= np.maximum(common, 1e-12)[self.zone]
        arrival[taken - 1] = math.inf
        count = min(count, len(rate) - len(taken))
        first = np.argpartition(arrival, max(0, count - 1))[:count]
        rows: IntArray = np.sort(first) + 1
        return rows

    def rates(self, weekday: int) -> FloatArray:
        """Rate at which each location comes, (|X|,), on such a weekday."""
        found: FloatArray = self._all_rates[
            NO_WEEKDAY if self.split is None else weekday
        ]
        return found

    @cached_property
    def _all_rates(self) -> dict[int, FloatArray]:
        """Rates of arrival, by weekday where that is known to matter."""
        chances = {NO_WEEKDAY: self.chance}
        if self.split is not None:
            days = np.bincount(self.history.weekdays, minlength=7)
            for weekday in np.flatnonzero(days).tolist():
                orders = self.chance * len(self.history) * self.split[:, weekday]
                chances[weekday] = orders / days[weekday]
        sure = 1 - 0.5 / (len(self.history) + 1)
        return {day: -np.log1p(-np.minimum(p, sure)) for day, p in chances.items()}

    # --- which demands ------------------------------------------------------------

    def _demands(self, rng: np.random.Generator, rows: IntArray) -> FloatArray:
        own, which, pooled = rng.random((3, len(rows)))
        if self.is_paper:
            low, high = PAPER_DEMANDS
            whole: FloatArray = np.floor(low + (high - low + 1) * pooled)
            return whole
        values, begin = self._demands_by_row
        demands = self.history.demands[(pooled * len(values)).astype(np.int64)]
        times = begin[rows + 1] - begin[rows]
        weight = times / (times + self.own_demand)
        chosen = begin[rows] + (which * times).astype(np.int64)
        chosen = np.minimum(chosen, len(values) - 1)
        drawn: FloatArray = np.where(own < weight, values[chosen], demands)
        return drawn

    @cached_property
    def _demands_by_row(self) -> tuple[FloatArray, IntArray]:
        """All past demands sorted by row, and where each row's begin."""
        order = np.argsort(self.history.rows, kind="stable")
        begin = np.concatenate([[0], np.cumsum(self.history.times_ordered)])
        return self.history.demands[order], begin


def fit(history: History) -> DayLaw:
    """Fit the law; InputWarning where there is little or nothing to fit."""
    alike = np.full(history.city.num_locations, 0.5)
    if len(history) == 0:
        return DayLaw(history, alike)
    own = _own_demand(history)
    if len(history) < FEW_DAYS:
        rule = (
            f"below {FEW_DAYS} all locations are taken to be alike; orders a day and "
            "demands are those of these days"
        )
        _warn(Problem("W413", "past days", str(len(history)), rule))
        return DayLaw(history, alike, own_demand=own)
    law = DayLaw(history, _chances(history), own_demand=own)
    zone = _zones(history.city)
    law = replace(law, split=_split_by_weekday(history), zone=zone)
    return replace(law, alike=_alike(law))


def warn_of_paper_law(law: DayLaw, wish: Wish) -> None:
    """Say so where the paper's law cannot be that of this city."""
    if not law.is_paper:
        return
    capacity = wish.capacity or law.city.capacity or PAPER_CAPACITY
    orders = wish.customers or min(PAPER_ORDERS, law.city.num_locations)
    low, high = PAPER_DEMANDS
    vehicles = orders * (low + high) / 2 / capacity
    hint = "`clusterfirst city add-days` lets it learn yours"
    if capacity < high:
        rule = f"without past days demands are {low} to {high}, some do not fit"
        _warn(Problem("W414", "capacity", f"{capacity:g}", rule, hint))
    elif vehicles < FEW_VEHICLES:
        rule = (
            f"without past days demands are {low} to {high}: a day of {orders} orders "
            f"fills {vehicles:.2g} vehicles"
        )
        _warn(Problem("W414", "capacity", f"{capacity:g}", rule, hint))


def _warn(problem: Problem) -> None:
    warnings.warn(str(problem), InputWarning, stacklevel=3)


def _smoothed(orders: FloatArray, at: int, normal: float) -> float:
    """A past number with some noise that leaves mean and variance as they were."""
    spread = float(orders.std())
    if spread == 0:
        return float(orders[at])
    width = 1.06 * len(orders) ** -0.2  # Silverman's rule, in standard deviations
    off = (orders[at] - orders.mean()) / spread + width * normal
    return float(orders.mean() + spread * off / math.sqrt(1 + width**2))


def _chances(history: History) -> FloatArray:
    """Chance of an order of each location: its share of the days, shrunk.

    Binomial counts under a beta prior whose mean is the overall share; the strength
    of the prior is the one under which the counts are most likely.
    """
    days, times = len(history), history.times_ordered[1:]
    mean = max(times.mean(), 1e-9) / days
    mean = min(mean, 1 - 1e-9)
    values, how_often = np.unique(times, return_counts=True)

    def likelihood(strength: float) -> float:
        a, b = strength * mean, strength * (1 - mean)
        each = betaln(a + values, b + days - values) - betaln(a, b)
        return float((how_often * each).sum())

    strength = max(STRENGTHS.tolist(), key=likelihood)
    chance: FloatArray = (strength * mean + times) / (strength + days)
    chance[times == 0] *= _news(history, strength * mean)
    return np.minimum(chance, 1.0)


def _news(history: History, prior: float) -> float:
    """How much more often a location not seen so far orders than the prior says.

    Day by day over the second half of the past, each day against those before it: a
    table of locations may hold nobody who never orders, or many who never will.
    """
    locations = history.city.num_locations
    seen = np.zeros(locations + 1, dtype=bool)
    orders = found = expected = 0.0
    for number, day in enumerate(history.days):
        if 2 * number >= len(history):
            new = locations - int(seen.sum())
            share = new * prior / (prior * locations + orders)
            expected += len(day.rows) * share
            found += int((~seen[day.rows]).sum())
        orders += len(day.rows)
        seen[day.rows] = True
    return (found + 1) / (expected + 1)


def _split_by_weekday(history: History) -> FloatArray | None:
    """Share of each location's orders by weekday (|X|, 7); None if all are alike.

    A location either follows the week of all, or has one of its own (a Dirichlet prior
    around that of all). How many have, and how far theirs are from it, is what makes
    the counts most likely.
    """
    if (history.weekdays == NO_WEEKDAY).any() or len(np.unique(history.weekdays)) < 2:
        return None
    weekday = np.repeat(history.weekdays, history.orders)
    flat = (history.rows - 1) * 7 + weekday
    times = np.bincount(flat, minlength=7 * history.city.num_locations).reshape(-1, 7)
    share = times.sum(axis=0) / times.sum()
    used, total = share > 0, times.sum(axis=1)
    common = (times[:, used] * np.log(share[used])).sum(axis=1)
    best, split = float(common.sum()) + CLEARLY, None
    for strength in WEEK_STRENGTHS.tolist():
        prior = strength * share[used]
        own = (gammaln(prior + times[:, used]) - gammaln(prior)).sum(axis=1)
        own += gammaln(strength) - gammaln(strength + total)
        how_many, has_own = 0.5, np.empty(0)
        for _ in range(20):  # expectation and maximisation
            odds = np.clip(own - common, -500, 500)
            has_own = how_many / (how_many + (1 - how_many) * np.exp(-odds))
            how_many = float(np.clip(has_own.mean(), 1e-6, 1 - 1e-6))
        mixed = np.logaddexp(own + np.log(how_many), common + np.log(1 - how_many))
        if mixed.sum() > best:
            best = float(mixed.sum())
            theirs = (strength * share + times) / (strength + total)[:, None]
            split = share + has_own[:, None] * (theirs - share)
    return split


def _zones(city: City) -> IntArray:
    """Cut the map in halves until at most ZONE locations are left in each part."""
    points = city.coords[1:]
    zone = np.zeros(len(points), dtype=np.int64)
    parts, count = [np.arange(len(points))], 0
    while parts:
        part = parts.pop()
        if len(part) <= ZONE:
            zone[part] = count
            count += 1
            continue
        axis = int(np.argmax(np.ptp(points[part], axis=0)))
        ordered = part[np.argsort(points[part, axis], kind="stable")]
        parts += [ordered[: len(part) // 2], ordered[len(part) // 2 :]]
    return zone


def _alike(law: DayLaw) -> float:
    """Shape of the gamma factor that a zone's locations share on a day.

    By moments: how much more a zone's orders vary from day to day than independent
    locations would.
    """
    history, zones = law.history, int(law.zone.max(initial=0)) + 1
    above = expected_square = 0.0
    shares = {
        weekday: np.bincount(law.zone, law.rates(weekday), zones)
        / law.rates(weekday).sum()
        for weekday in np.unique(history.weekdays).tolist()
    }
    for day in history.days:
        share = shares[day.weekday]
        mean = len(day.rows) * share
        found = np.bincount(law.zone[day.rows - 1], minlength=zones)
        above += float(((found - mean) ** 2 - mean * (1 - share)).sum())
        expected_square += float((mean**2).sum())
    ratio = above / max(expected_square, 1e-12)
    return 1 / ratio if ratio > 0.01 else math.inf


def _own_demand(history: History) -> float:
    """Orders at which a location's own demands weigh as much as those of all.

    Ratio of the variances within and between locations (one-way analysis of variance),
    of ranks, so that a few large demands do not decide.
    """
    _, same, times = np.unique(history.demands, return_inverse=True, return_counts=True)
    rank = (np.cumsum(times) - times / 2)[same]
    size = history.times_ordered[1:].astype(float)
    total = np.bincount(history.rows, rank, len(size) + 1)[1:]
    groups, count = int((size > 0).sum()), len(rank)
    if count <= groups or groups < 2:
        return math.inf
    mean = np.divide(total, size, out=np.zeros_like(total), where=size > 0)
    within = float(((rank - mean[history.rows - 1]) ** 2).sum()) / (count - groups)
    between = float((size * (mean - rank.mean()) ** 2).sum()) / (groups - 1)
    usual = (count - float((size**2).sum()) / count) / (groups - 1)
    beyond = (between - within) / usual
    if beyond <= 0:
        return math.inf
    return max(within / beyond, 1e-9)
