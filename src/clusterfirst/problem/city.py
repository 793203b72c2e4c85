"""A city: the fixed locations a team serves, of which each day uses a few.

On disk a city is a folder with `city.json` (depot, metric, default capacity and
fleet, hash) and `locations.csv`; its hash is what models remember. A city may grow:
new locations come after the others, so that rows keep their numbers, and the hash
stays that of the rows it was founded with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import FloatArray, Instance, IntArray, Metric


@dataclass(frozen=True, eq=False)
class City:
    """All locations, depot in row 0, under the user's own ids.

    `capacity` and `vehicles` are the defaults for a day in this city; `founded` is the
    number of rows that `hash` covers, None for all of them. `columns` is what else the
    table of locations says: an address, a phone number.
    """

    coords: FloatArray  # (|X| + 1, 2); x, y or lon, lat
    ids: tuple[str, ...] = ()
    metric: Metric = "euclidean"
    name: str = ""
    capacity: float | None = None
    vehicles: int | None = None
    founded: int | None = None
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)

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

    def grown(
        self,
        coords: FloatArray,
        ids: Sequence[str],
        columns: Mapping[str, Sequence[str]] | None = None,
    ) -> City:
        """Return the same city with further locations after those it has."""
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
            metric=self.metric,
            vehicles=self.vehicles if vehicles is None else vehicles,
            name=name,
            ids=tuple(self.ids[row] for row in rows.tolist()),
            city_rows=rows,
            city_hash=self.hash,
            columns={
                name: tuple(cells[row] for row in rows.tolist())
                for name, cells in self.columns.items()
            },
        )

    def replace(self, **changes: object) -> City:
        """Return a copy with some fields changed."""
        return replace(self, **changes)  # type: ignore[arg-type]  # checked at birth
