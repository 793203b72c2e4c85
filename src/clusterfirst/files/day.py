"""A day put together from its tables: orders, vehicles, street matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from clusterfirst.files.csv_files import Orders
from clusterfirst.files.matrices import Matrices
from clusterfirst.files.source import warn
from clusterfirst.problem.city import City
from clusterfirst.problem.constraints import WORDS, Constraints
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.fleet import Fleet
from clusterfirst.problem.instance import Instance


@dataclass(frozen=True)
class Asked:
    """What is asked of a day beside its orders."""

    fleet: Fleet | None = None
    matrix: Matrices | None = None  # of distances, and perhaps of durations
    durations: Matrices | None = None
    speed: float | None = None  # distance per hour
    allow_unserved: bool = False

    def of(
        self, instance: Instance, orders: Orders | None = None, city: City | None = None
    ) -> Instance:
        """Return the day with all of it; a plain one stays plain."""
        if self.speed is not None and self._durations(instance, city) is not None:
            rule = "durations are given: leave the speed out"
            raise InputError(Problem("E404", "--speed", f"{self.speed:g}", rule))
        changes = self._distances(instance, city) | self._columns(instance, orders)
        constraints = self._constraints(instance, orders, city)
        if constraints is not None:
            changes["constraints"] = constraints
        return instance.replace(**changes) if changes else instance

    def _distances(self, instance: Instance, city: City | None) -> dict[str, Any]:
        if self.matrix is None:
            return {}
        distances, _ = self.matrix.of_day(instance, city)
        if distances is None:
            rule = "this file has durations only; distances are needed (--matrix)"
            raise InputError(Problem("E111", "--matrix", "no distances", rule))
        return {"matrix": distances, "metric": "matrix"}

    def _durations(self, instance: Instance, city: City | None) -> Any:
        for source in (self.durations, self.matrix):
            if source is not None and source.durations is not None:
                return source.of_day(instance, city)[1]
        if self.durations is not None:
            rule = "this file has no durations (--durations)"
            raise InputError(Problem("E111", "--durations", "distances only", rule))
        return None

    @staticmethod
    def _columns(instance: Instance, orders: Orders | None) -> dict[str, Any]:
        """What else the table of orders says; it has the last word."""
        if orders is None or not orders.columns:
            return {}
        own = {name: ("", *cells) for name, cells in orders.columns.items()}
        return {"columns": instance.columns | own}

    def _constraints(
        self, instance: Instance, orders: Orders | None, city: City | None
    ) -> Constraints | None:
        fields: dict[str, Any] = {}
        if orders is not None:
            words = {k: ("", *cells) for k, cells in orders.words.items() if any(cells)}
            amounts = {k: np.array([0.0, *v]) for k, v in orders.amounts.items()}
            fields = words | amounts
        needed = fields.keys() & set(WORDS)
        durations = self._durations(instance, city)
        if durations is not None:
            fields["durations"] = durations
        if self.speed is not None:
            fields["speed"] = self.speed
        asked = self.fleet is not None or self.allow_unserved or durations is not None
        base = instance.constraints
        if not (asked or needed or self.speed is not None or base is not None):
            _warn_of_unused(instance, fields)
            return None
        fleet = self.fleet or (
            base.fleet
            if base is not None
            else Fleet.of_one_kind(
                float(instance.capacity),
                instance.vehicles or max(1, instance.num_customers),
            )
        )
        if base is not None:
            changes = {"fleet": fleet, **fields}
            changes["allow_unserved"] = self.allow_unserved or base.allow_unserved
            return base.replace(**changes)
        return Constraints(fleet, allow_unserved=self.allow_unserved, **fields)


def _warn_of_unused(instance: Instance, fields: dict[str, Any]) -> None:
    service = fields.get("service")
    if service is not None and service.any():
        rule = "not used: no speed, durations or vehicles with a longest duration"
        where = f"{instance.name} service"
        warn(Problem("W432", where, "minutes of service", rule))
