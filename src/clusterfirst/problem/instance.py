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
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from clusterfirst.problem.distances import EARTH_RADIUS_KM as EARTH_RADIUS_KM
from clusterfirst.problem.distances import ROUNDINGS as ROUNDINGS
from clusterfirst.problem.distances import FloatArray as FloatArray
from clusterfirst.problem.distances import Rounding as Rounding
from clusterfirst.problem.distances import great_circle, round_distances
from clusterfirst.problem.errors import InfeasibleError, InputError, Problem
from clusterfirst.problem.exact import MAX_DECIMALS as MAX_DECIMALS
from clusterfirst.problem.exact import MAX_EXACT as MAX_EXACT
from clusterfirst.problem.exact import exact_units, require_exact_integers

IntArray = npt.NDArray[np.int64]
Metric = Literal["euclidean", "greatcircle", "matrix"]

METRICS: tuple[str, ...] = get_args(Metric)
MAX_CUSTOMERS = 100_000
MAX_COORDINATE = 1e9
MAX_ID_LENGTH = 200


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
        (n + 1, n + 1) symmetric distances, with metric "matrix". Coordinates may
        come along for pictures and for the methods that need geometry.
    rounding
        Applied to every distance; the names and meanings are PyVRP's.
    vehicles
        Hard limit on the number of routes, or None.
    ids
        The user's own names, (n + 1,), depot first; "0".."n" by default.
    city_rows
        (n + 1,) rows of the city this day was drawn from (depot = row 0), and
        city_hash the hash of that city.
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
    max_customers: int = field(default=MAX_CUSTOMERS, repr=False)
    demand_units: IntArray = field(init=False, repr=False)
    capacity_units: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        problems: list[Problem] = []
        _check_options(self, problems)
        _raise(problems)
        require_exact_integers(self.demands, "demands")
        require_exact_integers(self.capacity, "capacity")
        demands = _array(self.demands, "demands", 1)
        n = len(demands) - 1
        if n < 0:
            rule = "the depot must be row 0"
            raise InputError(Problem("E115", "demands", "0 rows", rule))
        if n > self.max_customers:
            problems.append(
                Problem(
                    "E401",
                    "customers",
                    str(n),
                    f"the limit is {self.max_customers} (--max-customers)",
                )
            )
            _raise(problems)
        ids = self.ids or tuple(str(i) for i in range(n + 1))
        _check_ids(ids, n, problems)
        _raise(problems)
        _check_demands(demands, self.capacity, ids, problems)
        coords = self.coords if self.coords is None else _coords(self, n, ids, problems)
        matrix = self.matrix if self.matrix is None else _matrix(self, n, problems)
        if (matrix is None) == (self.metric == "matrix"):
            rule = "a distance matrix goes with metric 'matrix', and only there"
            problems.append(Problem("E120", "metric", self.metric, rule))
        if coords is None and matrix is None:
            rule = "coordinates or a distance matrix are needed"
            problems.append(Problem("E111", "coords", "neither", rule))
        rows = None
        if self.city_rows is not None:
            rows = _array(self.city_rows, "city_rows", 1).astype(np.int64)
            if len(rows) != n + 1 or (len(rows) and rows.min() < 0):
                rule = f"{n + 1} rows of the city are needed"
                problems.append(Problem("E405", "city_rows", str(len(rows)), rule))
        _raise(problems)
        units, capacity_units = exact_units(demands, self.capacity, ids)
        if np.all(demands == np.floor(demands)):
            demands = demands.astype(np.int64)
        capacity = float(self.capacity)
        capacity = int(capacity) if capacity.is_integer() else capacity
        for array in (demands, coords, matrix, rows, units):
            if array is not None:
                array.setflags(write=False)
        checked: dict[str, Any] = {
            "demands": demands,
            "capacity": capacity,
            "coords": coords,
            "matrix": matrix,
            "ids": tuple(ids),
            "city_rows": rows,
            "demand_units": units,
            "capacity_units": capacity_units,
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

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
        if self.metric != "greatcircle":
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

    def infeasibility(self) -> list[Problem]:
        """Reasons, found without search, why no solution can exist."""
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
                f"infeasible: total demand {_plain(self.demands.sum())} needs at "
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

    def same_as(self, other: Instance) -> bool:
        """Whether two instances are equal field by field, array by array."""
        return all(
            np.array_equal(getattr(self, f.name), getattr(other, f.name))
            if isinstance(getattr(self, f.name), np.ndarray)
            or isinstance(getattr(other, f.name), np.ndarray)
            else getattr(self, f.name) == getattr(other, f.name)
            for f in fields(self)
            if f.name != "max_customers"
        )


def _raise(problems: Sequence[Problem]) -> None:
    if problems:
        raise InputError(problems)


def _plain(value: Any) -> str:
    """A number as a person would write it."""
    return str(int(value)) if float(value).is_integer() else f"{float(value):.6g}"


def _array(value: Any, name: str, ndim: int) -> npt.NDArray[Any]:
    """A fresh float64 copy with the right number of axes, or an error."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        rule = f"a {ndim}-dimensional array of numbers is needed"
        raise InputError(Problem("E306", name, str(value), rule)) from error
    if array.ndim != ndim:
        rule = f"{ndim} dimension(s) are needed"
        raise InputError(Problem("E306", name, f"shape {array.shape}", rule))
    return array


def _check_options(instance: Instance, problems: list[Problem]) -> None:
    if instance.metric not in METRICS:
        rule = f"one of {', '.join(METRICS)}"
        problems.append(Problem("E120", "metric", str(instance.metric), rule))
    if instance.rounding not in ROUNDINGS:
        rule = f"one of {', '.join(ROUNDINGS)}"
        problems.append(Problem("E120", "rounding", str(instance.rounding), rule))
    vehicles = instance.vehicles
    whole = isinstance(vehicles, int | np.integer) and not isinstance(vehicles, bool)
    if vehicles is not None and not (whole and vehicles >= 1):
        rule = "a whole number of at least 1 is needed"
        problems.append(Problem("E404", "vehicles", str(vehicles), rule))
    capacity = instance.capacity
    if isinstance(capacity, bool) or not isinstance(
        capacity, (int, float, np.integer, np.floating)
    ):
        rule = "a number is needed"
        problems.append(Problem("E306", "capacity", str(capacity), rule))
    elif not (math.isfinite(capacity) and capacity > 0):
        rule = "it must be a finite number above 0"
        problems.append(Problem("E123", "capacity", str(capacity), rule))


def _check_ids(ids: Sequence[str], n: int, problems: list[Problem]) -> None:
    if len(ids) != n + 1:
        rule = f"{n + 1} are needed, the depot's first"
        problems.append(Problem("E308", "ids", str(len(ids)), rule))
        return
    seen: dict[str, int] = {}
    for i, name in enumerate(ids):
        if not isinstance(name, str) or not name or not name.isprintable():
            rule = "a non-empty name of printable characters is needed"
            problems.append(Problem("E308", f"id of row {i}", repr(name), rule))
        elif len(name) > MAX_ID_LENGTH:
            rule = f"at most {MAX_ID_LENGTH} characters"
            problems.append(Problem("E308", f"id of row {i}", name, rule))
        elif name in seen:
            rule = f"already used by row {seen[name]}"
            problems.append(Problem("E308", f"id of row {i}", name, rule))
        seen.setdefault(name, i)


def _check_demands(
    demands: FloatArray, capacity: float, ids: Sequence[str], problems: list[Problem]
) -> None:
    for i in np.flatnonzero(~np.isfinite(demands)).tolist():
        rule = "a finite number is needed"
        problems.append(Problem("E134", f"demand of {ids[i]}", str(demands[i]), rule))
    for i in np.flatnonzero(demands < 0).tolist():
        rule = "it must be at least 0"
        problems.append(Problem("E133", f"demand of {ids[i]}", str(demands[i]), rule))
    if demands[0] > 0:
        problems.append(
            Problem("E119", "demand of the depot", str(demands[0]), "it must be 0")
        )


def _coords(
    instance: Instance, n: int, ids: Sequence[str], problems: list[Problem]
) -> FloatArray:
    coords = _array(instance.coords, "coords", 2)
    if coords.shape != (n + 1, 2):
        rule = f"({n + 1}, 2) is needed: one row per demand, depot first"
        problems.append(Problem("E113", "coords", f"shape {coords.shape}", rule))
        return coords
    degrees = instance.metric == "greatcircle"
    axes = ("lon", "lat") if degrees else ("x", "y")
    limits = (180.0, 90.0) if degrees else (MAX_COORDINATE, MAX_COORDINATE)
    for axis in (0, 1):
        column = coords[:, axis]
        for i in np.flatnonzero(~np.isfinite(column)).tolist():
            where = f"{axes[axis]} of {ids[i]}"
            rule = "a finite number is needed"
            problems.append(Problem("E131", where, str(column[i]), rule))
        for i in np.flatnonzero(np.abs(column) > limits[axis]).tolist():
            where = f"{axes[axis]} of {ids[i]}"
            rule = f"the absolute value must be at most {limits[axis]:g}"
            hint = "are lat and lon swapped?" if degrees else ""
            problems.append(Problem("E132", where, str(column[i]), rule, hint))
    return coords


def _matrix(instance: Instance, n: int, problems: list[Problem]) -> FloatArray:
    matrix = _array(instance.matrix, "matrix", 2)
    if matrix.shape != (n + 1, n + 1):
        rule = f"({n + 1}, {n + 1}) is needed"
        problems.append(Problem("E113", "matrix", f"shape {matrix.shape}", rule))
        return matrix
    bad = np.argwhere(
        ~np.isfinite(matrix) | (matrix < 0) | (matrix > 4 * MAX_COORDINATE)
    )
    for i, j in bad[:21].tolist():
        rule = "a finite distance of at least 0 is needed"
        problems.append(Problem("E131", f"matrix[{i}][{j}]", str(matrix[i, j]), rule))
    if not len(bad):
        for i in np.flatnonzero(np.diagonal(matrix))[:21].tolist():
            rule = "the diagonal must be 0"
            where = f"matrix[{i}][{i}]"
            problems.append(Problem("E131", where, str(matrix[i, i]), rule))
        skew = np.argwhere(matrix != matrix.T)
        if len(skew):
            i, j = skew[0].tolist()
            rule = (
                f"the other way it is {matrix[j, i]:g}; "
                "only symmetric matrices are supported so far"
            )
            where = f"matrix[{i}][{j}]"
            problems.append(Problem("E142", where, f"{matrix[i, j]:g}", rule))
    return matrix
