"""Where labelled instances come from, so that they need not be stored.

An instance is a function of (source, customers, index): a day of a city, a draw of
the training world, an instance of a public set. Label files keep the description
of the source and the index; whoever reads them draws the instance again. Label
sets from elsewhere, which nobody can draw again, are `stored`: their records carry
the rows of the city and the demands.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from clusterfirst.cities.day_law import DayLaw, Wish, fit
from clusterfirst.cities.history import History
from clusterfirst.problem.city import City
from clusterfirst.problem.errors import InputError, InputWarning, Problem
from clusterfirst.problem.instance import MAX_EXACT, FloatArray, Instance, IntArray
from clusterfirst.problem.sampling import (
    PUBLIC_SETS,
    sample_day,
    sample_public,
    sample_uniform,
)
from clusterfirst.problem.worlds import WORLDS

Kind = Literal[
    "city", "law", "world", "long", "xml", "towns", "uniform", "public", "stored"
]
PAPER_CAPACITY = 50  # the paper, Section 3
# Raise this when sampling.py draws something else for the same (seed, index).
GENERATOR = 1
MAX_SEED = 2**64 - 1


@dataclass(frozen=True, eq=False)
class Source:
    """A family of instances; use `law_days`, `city_days`, `world` ..."""

    kind: Kind
    name: str
    seed: int = 0
    city: City | None = None
    capacity: float = PAPER_CAPACITY
    demand: tuple[int, int] = (1, 9)
    digest: str = ""  # of the imported arrays, for `stored`
    law: DayLaw | None = None  # of the days, for `law`
    real: int = 0  # the first instances are so many past days, the others drawn

    @cached_property
    def description(self) -> dict[str, Any]:
        """What identifies the source, as it stands in the header of a shard."""
        known: dict[str, Any] = {"kind": self.kind, "generator": GENERATOR}
        if self.kind in ("city", "law", "uniform", *WORLDS):
            known["seed"] = self.seed
        if self.kind == "public":
            known["name"] = self.name
        if self.city is not None:
            known |= {
                "city": self.city.hash,
                "metric": self.city.metric,
                "capacity": self.capacity,
            }
            if self.city.matrix is not None:
                known["matrix"] = self.city.matrix_hash
        if self.kind == "uniform" and self.capacity != PAPER_CAPACITY:
            known["capacity"] = self.capacity  # sets from before know the paper's only
        if self.kind == "city":
            known["demand"] = list(self.demand)
        if self.kind == "stored":
            known["digest"] = self.digest
        if self.law is not None:
            known |= {"days": self.law.digest, "real": self.real}
        return known

    @cached_property
    def key(self) -> str:
        """Short hash of the description; names of files start with it."""
        text = json.dumps(self.description, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def draw(self, customers: int, index: int) -> Instance:
        """Return the instance with this index; 0 customers: as many as a day has."""
        if self.law is not None:
            return self._day(self.law, customers, index)
        if self.kind in WORLDS:
            return WORLDS[self.kind](customers, seed=self.seed, index=index)
        if self.kind == "uniform":
            return sample_uniform(
                customers, seed=self.seed, index=index, capacity=self.capacity
            )
        if self.kind == "city":
            assert self.city is not None
            return sample_day(
                self.city,
                customers,
                seed=self.seed,
                index=index,
                capacity=self.capacity,
                demand=self.demand,
            )
        if self.kind == "stored":
            rule = "the instances of an imported set cannot be drawn again"
            raise InputError(Problem("E424", "source", self.name, rule))
        instance = sample_public(self.name, index)
        if instance.num_customers != customers:
            rule = f"{self.name} has instances of {instance.num_customers} customers"
            raise InputError(Problem("E406", "customers", str(customers), rule))
        return instance

    def _day(self, law: DayLaw, customers: int, index: int) -> Instance:
        """A past day, or one drawn from their law."""
        if index < self.real:
            day = law.history.instance(index, capacity=self.capacity)
            if customers in (0, day.num_customers):
                return day
        wish = Wish(customers=customers or None, capacity=self.capacity)
        return law.draw(self.seed, index, wish)

    def stored_instance(
        self, rows: IntArray, demands: IntArray | FloatArray
    ) -> Instance:
        """Return the instance of a record that carries rows and demands."""
        assert self.city is not None
        return self.city.day(rows, demands, capacity=self.capacity)


def city_days(
    city: City,
    *,
    seed: int,
    capacity: float | None = None,
    demand: tuple[int, int] = (1, 9),
) -> Source:
    """Return the days of a city; capacity is the city's own or the paper's."""
    if capacity is None:
        capacity = PAPER_CAPACITY if city.capacity is None else city.capacity
    if not 0 <= demand[0] <= demand[1]:
        rule = "two whole numbers in rising order are needed"
        raise InputError(Problem("E424", "demand", str(demand), rule))
    name = city.name or "city"
    # The capacity is the source's and the fleet is free, as in the paper.
    city = city.replace(capacity=None, vehicles=None)
    return Source("city", name, _seed(seed), city, _plain(capacity), demand)


def law_days(
    law: DayLaw, *, seed: int, real: bool = True, capacity: float | None = None
) -> Source:
    """Return the days of a fitted law, with `real` the past ones first.

    A law without past days is the paper's, and so is the source.
    """
    if law.is_paper:
        return city_days(law.city, seed=seed, capacity=capacity)
    chosen = law.city.capacity if capacity is None else capacity
    if chosen is None:
        rule = "a capacity is needed: --capacity Q, or store one with the city"
        raise InputError(Problem("E122", "capacity", "none", rule))
    # The whole table is the city that is learned; its fleet is free.
    city = law.city.replace(capacity=None, vehicles=None, founded=None)
    law = replace(law, history=law.history.in_city(city))
    return Source(
        "law",
        city.name or "city",
        _seed(seed),
        city,
        _plain(chosen),
        law=law,
        real=len(law.history) if real else 0,
    )


def world(*, seed: int, name: str = "world") -> Source:
    """Return the mix of the general model, or one of `WORLDS` by name."""
    kind: Any = name
    return Source(kind, name, _seed(seed))


def uniform(*, seed: int, capacity: float | None = None) -> Source:
    """Return i.i.d. uniform customers and depots, the paper's standard setting."""
    wanted = _plain(PAPER_CAPACITY if capacity is None else capacity)
    return Source("uniform", "uniform", _seed(seed), capacity=wanted)


def public_set(name: str) -> Source:
    """Return a public test set by name."""
    if name not in PUBLIC_SETS:
        rule = f"known sets: {', '.join(PUBLIC_SETS)}"
        raise InputError(Problem("E406", "set", name, rule))
    return Source("public", name)


def stored_set(name: str, city: City, capacity: float, digest: str) -> Source:
    """Return the source of an imported set of days in a city."""
    city = city.replace(capacity=None, vehicles=None)
    return Source("stored", name, city=city, capacity=_plain(capacity), digest=digest)


def from_description(
    description: Mapping[str, Any], name: str, find_days: Callable[[str, str], History]
) -> Source:
    """Rebuild a source from the header of a shard.

    `find_days` knows cities by their hash, and their past days by their digest.
    """
    kind: Any = description.get("kind")
    if kind not in get_args(Kind) or description.get("generator") != GENERATOR:
        raise _not_ours(f"kind {kind}, generator {description.get('generator')}")
    wanted = description.get("city")
    if (wanted is not None) != (kind in ("city", "law", "stored")):
        raise _not_ours(f"kind {kind} with city {wanted}")
    if wanted is not None and not re.fullmatch("[0-9a-f]{64}", str(wanted)):
        raise _not_ours(f"city {wanted}")
    demand, seed = description.get("demand", [1, 9]), description.get("seed", 0)
    capacity = description.get("capacity", PAPER_CAPACITY)
    if not (
        isinstance(demand, list)
        and [type(number) for number in demand] == [int, int]
        and 0 <= demand[0] <= demand[1] <= MAX_EXACT
    ):
        raise _not_ours(f"demand {demand}")
    if type(seed) is not int or not 0 <= seed <= MAX_SEED:
        raise _not_ours(f"seed {seed}")
    if type(capacity) not in (int, float) or not 0 < capacity <= MAX_EXACT:
        raise _not_ours(f"capacity {capacity}")
    days, real = description.get("days", ""), description.get("real", 0)
    if kind == "law" and not re.fullmatch("[0-9a-f]{24}", str(days)):
        raise _not_ours(f"days {days}")
    if type(real) is not int or real < 0:
        raise _not_ours(f"real {real}")
    history = None if wanted is None else find_days(wanted, str(days))
    source = Source(
        kind=kind,
        name=str(description.get("name", name)),
        seed=seed,
        city=None if history is None else history.city,
        capacity=capacity,
        demand=(demand[0], demand[1]),
        digest=str(description.get("digest", "")),
        law=_fitted(history) if kind == "law" and history is not None else None,
        real=real,
    )
    if source.description != dict(description):
        raise _not_ours("fields this program does not know")
    return source


def _fitted(history: History) -> DayLaw:
    """The law once more; what there is to warn of was said when labels were made."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        return fit(history)


def _not_ours(got: str) -> InputError:
    rule = "made by another configuration or a newer program"
    return InputError(Problem("E713", "shard header", got, rule))


def _plain(capacity: float) -> float:
    """50.0 and 50 are one capacity and must give one key."""
    return int(capacity) if float(capacity).is_integer() else float(capacity)


def _seed(seed: int) -> int:
    if not 0 <= seed <= MAX_SEED:
        rule = "must be a whole number from 0 to 2**64 - 1"
        raise InputError(Problem("E424", "seed", str(seed), rule))
    return int(np.uint64(seed))
