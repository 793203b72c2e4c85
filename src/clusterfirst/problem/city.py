"""A city: the fixed locations a team serves, of which each day uses a few.

On disk a city is a folder with `city.json` (depot, metric, default capacity and
fleet, hash) and `locations.csv`; its hash is what models remember. With a matrix of
street distances (`distances.npy`) its days have those: rows of a day are a slice of
it, and coordinates serve the networks and the maps. A city may grow:
new locations come after the others, so that rows keep their numbers, and the hash
stays that of the rows it was founded with. Its extent tells people that it is theirs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from clusterfirst.problem.checks import checked_matrix
from clusterfirst.problem.distances import Rounding, great_circle
from clusterfirst.problem.errors import InputError, Problem, stop_if_wrong
from clusterfirst.problem.instance import FloatArray, Instance, IntArray, Metric


@dataclass(frozen=True, eq=False)
class City:
    """All locations, depot in row 0, under the user's own ids.

    `capacity` and `vehicles` are the defaults for a day in this city; `founded` is the
    number of rows that `hash` covers, None for all of them. `columns` is what else the
    table of locations says: an address, a phone number. `matrix` holds the distances
    between all rows where they are not those of `metric`, as long back as there.
    """

    coords: FloatArray  # (|X| + 1, 2); x, y or lon, lat
    ids: tuple[str, ...] = ()
    metric: Metric = "euclidean"
    name: str = ""
    capacity: float | None = None
    vehicles: int | None = None
    founded: int | None = None
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    matrix: FloatArray | None = None

    def __post_init__(self) -> None:
        # An instance with every location once checks exactly what a city must be.
        whole = Instance(
            demands=np.zeros(len(self.coords)),
            capacity=1.0 if self.capacity is None else self.capacity,
            coords=self.coords,
            metric=self.metric,
            vehicles=self.vehicles,
            ids=self.ids,
        )
        assert whole.coords is not None
        object.__setattr__(self, "coords", whole.coords)
        object.__setattr__(self, "ids", whole.ids)
        if self.matrix is not None:
            object.__setattr__(self, "matrix", _street_distances(self.matrix, whole))

    @property
    def num_locations(self) -> int:
        """Number of customer locations |X|; the depot is one row more."""
        return len(self.coords) - 1

    @cached_property
    def hash(self) -> str:
        """SHA-256 of metric and founding rows: what the city is known by.

        Ids may be renamed without harm, and locations added.
        """
        return self.hash_of(self.founded)

    def hash_of(self, rows: int | None = None) -> str:
        """SHA-256 of metric and the coordinates of the first rows, or of all."""
        digest = hashlib.sha256(self.metric.encode())
        # Adding 0 turns -0 into 0, which is the same place in other bits.
        places = np.ascontiguousarray(self.coords[:rows] + 0.0, dtype="<f8")
        digest.update(places.tobytes())
        return digest.hexdigest()

    @cached_property
    def matrix_hash(self) -> str:
        """SHA-256 of the matrix; empty where distances follow from places."""
        if self.matrix is None:
            return ""
        numbers = np.ascontiguousarray(self.matrix + 0.0, dtype="<f8")
        return hashlib.sha256(numbers.data).hexdigest()

    def everywhere(self, rounding: Rounding = "none") -> Instance:
        """Every location once, without demand: what distances can be asked of."""
        return Instance(
            np.zeros(len(self.coords)),
            1.0,
            coords=self.coords,
            ids=self.ids,
            rounding=rounding,
            **self._between(None),
        )

    def _between(self, rows: IntArray | None) -> dict[str, Any]:
        """What tells a day the distances between some rows, or all."""
        if self.matrix is None:
            return {"metric": self.metric}
        some = self.matrix if rows is None else self.matrix[np.ix_(rows, rows)]
        degrees = self.metric == "greatcircle"
        return {"metric": "matrix", "matrix": some, "degrees": degrees}

    def grown(
        self,
        coords: FloatArray,
        ids: Sequence[str],
        columns: Mapping[str, Sequence[str]] | None = None,
    ) -> City:
        """Return the same city with further locations after those it has."""
        if self.matrix is not None:
            rule = "its matrix has no distances to them"
            hint = "`clusterfirst city init` with a larger --matrix makes a new city"
            raise InputError(Problem("E409", "locations", "new ones", rule, hint))
        new, old = columns or {}, self.columns
        return self.replace(
            coords=np.vstack([self.coords, np.reshape(coords, (-1, 2))]),
            ids=(*self.ids, *ids),
            founded=self.founded or len(self.coords),
            columns={
                name: (
                    *old.get(name, ("",) * len(self.ids)),
                    *new.get(name, ("",) * len(ids)),
                )
                for name in dict.fromkeys([*old, *new])
            },
        )

    @cached_property
    def row_of(self) -> dict[str, int]:
        """Row of each id."""
        return {name: row for row, name in enumerate(self.ids)}

    def day(
        self,
        rows: IntArray,
        demands: FloatArray | IntArray,
        *,
        capacity: float | None = None,
        vehicles: int | None = None,
        name: str = "",
    ) -> Instance:
        """Return the instance of the customers in `rows` (1..|X|) with `demands`."""
        capacity = self.capacity if capacity is None else capacity
        if capacity is None:
            rule = "a capacity is needed: --capacity Q, or store one with the city"
            raise InputError(Problem("E122", "capacity", "none", rule))
        rows = np.concatenate([[0], np.asarray(rows, dtype=np.int64)])
        return Instance(
            demands=np.concatenate([[0], np.asarray(demands)]),
            capacity=capacity,
            coords=self.coords[rows],
            vehicles=self.vehicles if vehicles is None else vehicles,
            name=name,
            ids=tuple(self.ids[row] for row in rows.tolist()),
            city_rows=rows,
            city_hash=self.hash,
            columns={
                name: tuple(cells[row] for row in rows.tolist())
                for name, cells in self.columns.items()
            },
            **self._between(rows),
        )

    def replace(self, **changes: object) -> City:
        """Return a copy with some fields changed."""
        return replace(self, **changes)  # type: ignore[arg-type]  # checked at birth


MATRIX_ROWS = 5000  # 200 MB of distances


def _street_distances(given: FloatArray, whole: Instance) -> FloatArray:
    """The matrix of a city, checked."""
    size = len(whole.demands)
    if size > MATRIX_ROWS:
        rule = f"a city with a matrix has at most {MATRIX_ROWS} rows, the depot too"
        raise InputError(Problem("E401", "matrix", f"{size} rows", rule))
    problems: list[Problem] = []
    matrix = checked_matrix(given, size - 1, problems)
    stop_if_wrong(problems)
    one_way = np.argwhere(matrix != matrix.T)
    if len(one_way):
        i, j = one_way[0].tolist()
        where = f"from {whole.ids[i]} to {whole.ids[j]}"
        rule = f"{matrix[j, i]:g} back: a city's matrix is as long back as there"
        hint = "one-way streets go with each day: `solve --matrix`"
        got = f"{matrix[i, j]:g}"
        raise InputError(Problem("E142", where, got, rule, hint))
    matrix.setflags(write=False)
    return matrix


MORE_COMPACT = 20  # times nearer with lat and lon exchanged: they were
FAR = 3  # times the extent of all others: hardly a depot of this city


@dataclass(frozen=True)
class Extent:
    """The middle, the size and the reach of a city, in its own unit."""

    centre: tuple[float, float]  # x, y or lon, lat
    width: float
    height: float
    farthest: float  # from the depot
    degrees: bool

    def __str__(self) -> str:
        x, y = self.centre
        unit = " km" if self.degrees else ""
        size = f"{self.width:.3g} x {self.height:.3g}{unit}"
        away = f"farthest {self.farthest:.3g}{unit} from the depot"
        if not self.degrees:
            return f"centre ({x:.6g}, {y:.6g}), {size}, {away}"
        north = f"{abs(y):.2f} {'N' if y >= 0 else 'S'}"
        east = f"{abs(x):.2f} {'E' if x >= 0 else 'W'}"
        return f"centre {north} {east}, {size}, {away}"


def extent_of(city: City) -> Extent:
    """Return where a city is."""
    low, high = city.coords.min(axis=0), city.coords.max(axis=0)
    centre = (low + high) / 2
    degrees = city.metric == "greatcircle"
    across = np.array([[low[0], centre[1]], [high[0], centre[1]]])
    along = np.array([[centre[0], low[1]], [centre[0], high[1]]])
    width, height = (float(_apart(p[:1], p[1:], degrees)[0]) for p in (across, along))
    away = _apart(city.coords[:1], city.coords, degrees)
    x, y = centre.tolist()
    return Extent((x, y), width, height, float(away.max()), degrees)


def oddities(city: City) -> list[Problem]:
    """Say what is probably wrong: exchanged columns, or a depot of another place."""
    problems = []
    exchanged = _exchanged(city)
    if len(exchanged):
        names = ", ".join(city.ids[row] for row in exchanged[:5].tolist())
        rule = f"with lat and lon exchanged they are {MORE_COMPACT} times nearer"
        got = f"{len(exchanged)} far from all others: {names}"
        problems.append(Problem("W132", "locations", got, rule))
    if city.num_locations > 1 and 0 not in exchanged:
        degrees = city.metric == "greatcircle"
        others = city.coords[1:]
        spread = np.vstack([others.min(axis=0), others.max(axis=0)])
        size = float(_apart(spread[:1], spread[1:], degrees)[0])
        nearest = float(_apart(city.coords[:1], others, degrees).min())
        if nearest > FAR * size > 0:
            got = f"{nearest:.3g} from the nearest location"
            rule = f"all others lie within {size:.3g}; is this their depot?"
            problems.append(Problem("W133", f"depot {city.ids[0]}", got, rule))
    return problems


def _exchanged(city: City) -> np.ndarray:
    """Rows that lie with the others once their columns are exchanged."""
    swapped = city.coords[:, ::-1]
    if city.metric != "greatcircle" or len(city.coords) < 3:
        return np.empty(0, dtype=np.int64)
    middle = np.median(city.coords, axis=0, keepdims=True)
    legal = np.abs(swapped[:, 1]) <= 90
    away = great_circle(middle, city.coords)
    turned = great_circle(middle, np.where(legal[:, None], swapped, city.coords))
    return np.flatnonzero(legal & (turned * MORE_COMPACT < away))


def _apart(a: FloatArray, b: FloatArray, degrees: bool) -> FloatArray:
    if degrees:
        return great_circle(a, b)
    way: FloatArray = np.hypot(*(a - b).T)
    return way
