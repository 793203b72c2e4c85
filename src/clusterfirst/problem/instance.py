"""The problem: one depot, customers with demands, vehicles of one capacity.

Conventions, stated once: row 0 is the depot, customers are rows 1..n. Demands and
capacity are kept as given and, beside that, as exact integers in a common unit
(`demand_units`, `capacity_units`): every stage that adds up loads uses those,
because float sums get the number of vehicles wrong in 1 % of the paper's own
instances. Distances come from here, with the formulas of
`distances.py`, and from nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from clusterfirst.problem.checks import MAX_DECIMALS as MAX_DECIMALS
from clusterfirst.problem.checks import MAX_EXACT as MAX_EXACT
from clusterfirst.problem.checks import METRICS as METRICS
from clusterfirst.problem.checks import Metric as Metric
from clusterfirst.problem.checks import (
    as_array,
    check_demands,
    check_ids,
    check_options,
    checked_coords,
    checked_matrix,
    exact_units,
    plain_number,
    require_exact_integers,
)
from clusterfirst.problem.constraints import Constraints, checked
from clusterfirst.problem.distances import EARTH_RADIUS_KM as EARTH_RADIUS_KM
from clusterfirst.problem.distances import ROUNDINGS as ROUNDINGS
from clusterfirst.problem.distances import FloatArray as FloatArray
from clusterfirst.problem.distances import Rounding as Rounding
from clusterfirst.problem.distances import great_circle, round_distances
from clusterfirst.problem.errors import (
    InfeasibleError,
    InputError,
    Problem,
    stop_if_wrong,
)
from clusterfirst.problem.feasibility import Alone, reasons
from clusterfirst.problem.fleet import IntArray as IntArray
from clusterfirst.problem.fleet import same_fields

MAX_CUSTOMERS = 100_000


@dataclass(frozen=True, eq=False)
class Instance:
    """A checked, immutable CVRP instance; change it with `replace`.

    Parameters
    ----------
    demands
        (n + 1,) with demands[0] == 0.
    capacity
        Capacity Q of each vehicle.
    coords
        (n + 1, 2): x, y in the plane, or longitude, latitude in degrees when
        metric is "greatcircle" (distances then are km). None for a bare matrix.
    matrix
        (n + 1, n + 1) distances from row to row, with metric "matrix". Coordinates
        may come along for pictures and for the methods that need geometry.
    rounding
        Applied to every distance; the names and meanings are PyVRP's.
    vehicles
        Hard limit on the number of routes, or None.
    ids
        The user's own names, (n + 1,), depot first; "0".."n" by default.
    city_rows
        (n + 1,) rows of the city this day was drawn from (depot = row 0), and
        city_hash the hash of that city.
    constraints
        A mixed fleet, hours, pins and groups; None is a plain CVRP. With them
        `capacity` is the largest of the fleet and `vehicles` its size.
    columns
        What else the user's tables say, (n + 1,) cells under each name: carried
        through to what people read.
    degrees
        Whether coordinates are longitude and latitude, which those beside a matrix
        may be too.
    """

    demands: npt.NDArray[Any]
    capacity: float
    coords: FloatArray | None = None
    matrix: FloatArray | None = None
    metric: Metric = "euclidean"
    rounding: Rounding = "none"
    vehicles: int | None = None
    name: str = ""
    ids: tuple[str, ...] = ()
    city_rows: IntArray | None = None
    city_hash: str = ""
    constraints: Constraints | None = None
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    degrees: bool = False
    max_customers: int = field(default=MAX_CUSTOMERS, repr=False)
    demand_units: IntArray = field(init=False, repr=False)
    capacity_units: int = field(init=False, repr=False)
    vehicle_units: IntArray | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        problems: list[Problem] = []
        check_options(self, problems)
        if self.metric not in METRICS:
            stop_if_wrong(problems)
        require_exact_integers(self.demands, "demands")
        require_exact_integers(self.capacity, "capacity")
        demands = as_array(self.demands, "demands", 1)
        n = len(demands) - 1
        if n < 0:
            rule = "the depot must be row 0"
            raise InputError(Problem("E115", "demands", "0 rows", rule))
        if n > self.max_customers:
            rule = f"the limit is {self.max_customers} (--max-customers)"
            raise InputError(Problem("E401", "customers", str(n), rule))
        ids = self.ids or tuple(str(i) for i in range(n + 1))
        check_ids(ids, n, problems)
        if len(ids) != n + 1:
            stop_if_wrong(problems)
        check_demands(demands, ids, problems)
        degrees = self.degrees or self.metric == "greatcircle"
        coords, matrix, rows = self._checked_places(degrees, ids, problems)
        stop_if_wrong(problems)
        capacities = [float(self.capacity)]
        constraints = self.constraints
        if constraints is not None:
            constraints = checked(constraints, ids)
            capacities = constraints.fleet.capacities.tolist()
        units, kinds = exact_units(demands, capacities, ids)
        if np.all(demands == np.floor(demands)):
            demands = demands.astype(np.int64)
        capacity = max(capacities)
        capacity = int(capacity) if capacity.is_integer() else capacity
        for array in (demands, coords, matrix, rows, units):
            if array is not None:
                array.setflags(write=False)
        checked_fields: dict[str, Any] = {
            "demands": demands,
            "capacity": capacity,
            "coords": coords,
            "matrix": matrix,
            "ids": tuple(ids),
            "city_rows": rows,
            "demand_units": units,
            "capacity_units": int(kinds.max()),
            "constraints": constraints,
            "degrees": degrees and coords is not None,
            "vehicle_units": None,
        }
        if constraints is not None:
            checked_fields["vehicles"] = constraints.fleet.size
            checked_fields["vehicle_units"] = kinds[constraints.fleet.kind]
        for name, value in checked_fields.items():
            object.__setattr__(self, name, value)

    def _checked_places(
        self, degrees: bool, ids: Sequence[str], problems: list[Problem]
    ) -> tuple[FloatArray | None, FloatArray | None, IntArray | None]:
        """Coordinates, distance matrix and rows of the city, of which one is there."""
        coords, matrix, n = self.coords, self.matrix, len(ids) - 1
        if coords is not None:
            coords = checked_coords(coords, degrees, ids, problems)
        if matrix is not None:
            matrix = checked_matrix(matrix, n, problems)
        if (matrix is None) == (self.metric == "matrix"):
            rule = "a distance matrix goes with metric 'matrix', and only there"
            problems.append(Problem("E120", "metric", self.metric, rule))
        if coords is None and matrix is None:
            rule = "coordinates or a distance matrix are needed"
            problems.append(Problem("E111", "coords", "neither", rule))
        rows = None
        if self.city_rows is not None:
            rows = as_array(self.city_rows, "city_rows", 1).astype(np.int64)
            if len(rows) != n + 1 or (len(rows) and rows.min() < 0):
                rule = f"{n + 1} rows of the city are needed"
                problems.append(Problem("E405", "city_rows", str(len(rows)), rule))
        return coords, matrix, rows

    @property
    def num_customers(self) -> int:
        """Number of customers n; rows are 0..n."""
        return len(self.demands) - 1

    @property
    def unit(self) -> str:
        """Unit of the cost: km for great-circle distances, else the user's own."""
        return "km" if self.metric == "greatcircle" else ""

    @cached_property
    def min_vehicles(self) -> int:
        """K_min = ceil(sum d / Q), in exact integers."""
        return -(-int(self.demand_units.sum()) // self.capacity_units)

    @property
    def plane(self) -> FloatArray:
        """(n + 1, 2) plane coordinates for geometry and pictures.

        Longitude and latitude become km east and north of their mean
        (equirectangular: at the scale of a city the error is far below 1 %).
        """
        if self.coords is None:
            rule = (
                "this method needs coordinates and the instance has only a matrix; "
                "use --method savings, or give coordinates too"
            )
            raise InputError(Problem("E141", "coords", rule=rule))
        if not self.degrees:
            return self.coords
        lon, lat = np.radians(self.coords[:, 0]), np.radians(self.coords[:, 1])
        east = (lon - lon.mean()) * math.cos(float(lat.mean()))
        return EARTH_RADIUS_KM * np.column_stack([east, lat - lat.mean()])

    def lengths(self, a: npt.ArrayLike, b: npt.ArrayLike) -> FloatArray:
        """Distances between rows a and b (broadcast together), rounded as asked."""
        a, b = np.asarray(a), np.asarray(b)
        if self.matrix is not None:
            raw = self.matrix[a, b]
        else:
            assert self.coords is not None
            if self.metric == "greatcircle":
                raw = great_circle(self.coords[a], self.coords[b])
            else:
                delta = self.coords[a] - self.coords[b]
                # Plain squares, as every CVRPLIB tool does: hypot may differ in
                # the last bit, which matters once a distance is rounded.
                raw = np.sqrt(delta[..., 0] ** 2 + delta[..., 1] ** 2)
        return round_distances(raw, self.rounding)

    def minutes(self, a: npt.ArrayLike, b: npt.ArrayLike) -> FloatArray:
        """Minutes from rows a to rows b, by the durations or the speed of the day."""
        assert self.constraints is not None
        if self.constraints.durations is not None:
            times: FloatArray = self.constraints.durations[np.asarray(a), np.asarray(b)]
            return times
        assert self.constraints.speed is not None
        return self.lengths(a, b) * (60 / self.constraints.speed)

    def plain_load(self, units: int) -> float:
        """A load in the user's own unit."""
        return units * self.capacity / self.capacity_units

    @cached_property
    def symmetric(self) -> bool:
        """Whether every way is as long as the way back, in distance and time."""
        tables = [self.matrix]
        if self.constraints is not None:
            tables.append(self.constraints.durations)
        return all(t is None or np.array_equal(t, t.T) for t in tables)

    @cached_property
    def distances(self) -> FloatArray:
        """(n + 1, n + 1) distances, computed once; O(n^2) memory."""
        rows = np.arange(self.num_customers + 1)
        full = self.lengths(rows[:, None], rows[None, :])
        full.setflags(write=False)
        return full

    def replace(self, **changes: Any) -> Instance:
        """Return a copy with some fields changed and everything checked again."""
        return replace(self, **changes)

    def part(self, rows: IntArray) -> Instance:
        """Return a plain day of some rows, the depot first among them."""
        return self.replace(
            demands=self.demands[rows],
            coords=None if self.coords is None else self.coords[rows],
            matrix=None if self.matrix is None else self.matrix[np.ix_(rows, rows)],
            ids=tuple(self.ids[row] for row in rows.tolist()),
            city_rows=None if self.city_rows is None else self.city_rows[rows],
            columns={},
        )

    @property
    def alone(self) -> Alone:
        """What serving each order by itself takes."""
        assert self.constraints is not None
        assert self.vehicle_units is not None
        rows, service = np.arange(self.num_customers + 1), self.constraints.service
        minutes = None
        if self.constraints.timed:
            minutes = self.minutes(0, rows) + self.minutes(rows, 0)
            minutes = minutes if service is None else minutes + service
        by_formula = self.matrix is None and self.constraints.durations is None
        return Alone(
            self.demand_units,
            self.vehicle_units,
            self.plain_load(1),
            self.lengths(0, rows) + self.lengths(rows, 0),
            minutes,
            by_formula and self.rounding == "none",
        )

    def infeasibility(self) -> list[Problem]:
        """Reasons, found without search, why no solution can exist."""
        if self.constraints is not None:
            return reasons(self.constraints, self.alone, self.ids)
        too_big = np.flatnonzero(self.demand_units > self.capacity_units)
        problems = [
            Problem(
                "E201",
                f"customer {self.ids[i]}",
                f"demand {self.demands[i]}",
                f"infeasible: it fits in no vehicle of capacity {self.capacity}",
            )
            for i in too_big.tolist()
        ]
        if self.vehicles is not None and self.min_vehicles > self.vehicles:
            rule = (
                f"infeasible: total demand {plain_number(self.demands.sum())} needs at "
                f"least {self.min_vehicles} vehicles of {self.capacity}"
            )
            problems.append(
                Problem("E202", "vehicles", f"a limit of {self.vehicles}", rule)
            )
        return problems

    def require_feasible(self) -> None:
        """Raise InfeasibleError if `infeasibility` finds a reason."""
        problems = self.infeasibility()
        if problems:
            raise InfeasibleError(problems)

    def require_plain(self, who: str) -> None:
        """Refuse constraints and one-way streets where only a plain CVRP is solved."""
        if self.constraints is not None:
            rule = f"{who} knows no fleet of several kinds, hours, pins or groups"
            raise InputError(Problem("E436", "constraints", rule=rule))
        if not self.symmetric:
            rule = f"{who} needs every way to be as long as the way back"
            raise InputError(Problem("E142", "matrix", "one that is not", rule))

    def same_as(self, other: Instance) -> bool:
        """Whether two instances are equal field by field, array by array."""
        return same_fields(self, other, "max_customers")
