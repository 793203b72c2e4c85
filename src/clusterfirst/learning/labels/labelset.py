"""Reading labels back: every instance drawn again, every label checked.

Labels come as columns, grouped by the number of customers and in an order that
depends on what the labels are, not on who wrote them when. Each is checked here as
the judge would, thousands at a time: loads in whole units, tours, cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from clusterfirst.learning.labels.columns import LabelGroup, checked, concatenate
from clusterfirst.learning.labels.records import (
    FAILURE,
    decode_alike,
    heads,
    well_formed,
)
from clusterfirst.learning.labels.shards import read_shards
from clusterfirst.learning.labels.sources import Source
from clusterfirst.problem.instance import (
    EARTH_RADIUS_KM,
    FloatArray,
    Instance,
    IntArray,
)
from clusterfirst.problem.solution import Solution


@dataclass(frozen=True)
class LabelView:
    """One label as plain arrays."""

    coords: FloatArray  # (n + 1, 2)
    demands: IntArray  # (n + 1,)
    capacity: int
    rows: IntArray | None  # (n + 1,) rows of the city
    route: IntArray  # (n,)
    cost: float


@dataclass(frozen=True, eq=False)
class LabelSet:
    """All good labels of some folders, by size."""

    groups: dict[int, LabelGroup]
    sources: list[Source]
    failures: int  # labels the teacher could not make
    dropped: int  # labels that did not pass the check

    def __len__(self) -> int:
        return sum(map(len, self.groups.values()))

    def __getitem__(self, number: int) -> LabelView:
        """Return a label by its number; sizes follow each other, smallest first."""
        group, i = self._find(number)
        rows = group.rows[i]
        return LabelView(
            coords=group.coords[i],
            demands=group.demands[i],
            capacity=int(group.capacity[i]),
            rows=None if rows[0] < 0 else rows,
            route=group.route[i],
            cost=float(group.cost[i]),
        )

    def instance(self, number: int) -> Instance:
        """Return the instance of a label, drawn again."""
        group, i = self._find(number)
        source: Source = self.sources[group.source[i]]
        if source.kind == "stored":
            assert source.city is not None
            scale = group.capacity[i] / source.capacity
            return source.stored_instance(
                group.rows[i, 1:], group.demands[i, 1:] / scale
            )
        return source.draw(group.route.shape[1], int(group.index[i]))

    def solution(self, number: int) -> Solution | None:
        """Return the tours of a label, or None if only the partition is known."""
        group, i = self._find(number)
        if group.place.shape[1] and group.place[i, 0] < 0:
            return None
        order = np.lexsort([group.place[i], group.route[i]])
        ends = np.cumsum(np.bincount(group.route[i]))[:-1]
        parts = np.split(order, ends) if len(order) else []
        return Solution((part + 1).tolist() for part in parts)

    def _find(self, number: int) -> tuple[LabelGroup, int]:
        position = number + len(self) if number < 0 else number
        for group in self.groups.values():
            if 0 <= position < len(group):
                return group, position
            position -= len(group)
        raise IndexError(f"label {number} of {len(self)}")


def read_labels(*folders: str | Path) -> LabelSet:
    """Read and check the labels of some folders; the best of rivals wins.

    Labels that do not pass are left out, with a warning that names the first.
    """
    sources: dict[str, Source] = {}
    bodies: dict[str, list[bytes]] = {}
    for folder in map(Path, folders):
        for source, found in read_shards(folder):
            sources.setdefault(source.key, source)
            bodies.setdefault(source.key, []).extend(found)
    keys = sorted(sources)
    parts: dict[int, list[LabelGroup]] = {}
    failures = dropped = 0
    for number, key in enumerate(keys):
        source = sources[key]
        records = well_formed(bodies[key], stored=source.kind == "stored")
        best, failed = _best_of_rivals(records)
        failures += failed
        dropped += len(bodies[key]) - len(records)
        for data in alike(best):
            group = columns(data, source, number)
            parts.setdefault(group.route.shape[1], []).append(group)
    groups = {}
    listed = [sources[key] for key in keys]
    for n in sorted(parts):
        whole = checked(concatenate(parts[n]), listed)
        dropped += sum(map(len, parts[n])) - len(whole)
        if len(whole):
            order = [whole.seed, whole.teacher, whole.index, whole.source]
            groups[n] = whole.only(np.lexsort(order))
    return LabelSet(groups, listed, failures, dropped)


def _best_of_rivals(bodies: list[bytes]) -> tuple[list[bytes], int]:
    """Keep one body per (size, index, teacher, seed); count the failures."""
    head = heads(bodies)
    label = head["kind"] != FAILURE
    names = ("customers", "index", "teacher", "seed")
    order = np.lexsort([head["cost"], ~label, *(head[name] for name in names[::-1])])
    ranked = np.stack([head[name][order].astype(np.uint64) for name in names])
    first = np.ones(len(order), dtype=bool)
    first[1:] = (ranked[:, 1:] != ranked[:, :-1]).any(axis=0)
    chosen = order[first]
    good = chosen[label[chosen]]
    return [bodies[i] for i in good], int((~label[chosen]).sum())


def alike(bodies: list[bytes]) -> list[npt.NDArray[Any]]:
    """Split into columns of one size and layout each."""
    piles: dict[bytes, list[bytes]] = {}
    for body in bodies:
        # The widths and the number of customers stand at these bytes of the head.
        piles.setdefault(body[2:6] + body[20:24], []).append(body)
    return [decode_alike(pile) for pile in piles.values()]


def columns(data: npt.NDArray[Any], source: Source, number: int) -> LabelGroup:
    """Draw the instances of labels of one source, size and layout."""
    head, names = data["head"], data.dtype.names or ()
    count, n = data["route"].shape
    if source.kind == "stored":
        drawn = _stored(data, source)
    else:
        drawn = _drawn(source, n, head["index"])
    place = data["place"].astype(np.int64) if "place" in names else None
    return LabelGroup(
        **drawn,
        route=data["route"].astype(np.int64),
        place=np.full((count, n), -1) if place is None else place,
        cost=head["cost"].astype(np.float64),
        index=head["index"].astype(np.int64),
        seed=head["seed"].astype(np.int64),
        teacher=head["teacher"].astype(np.int64),
        source=np.full(count, number),
    )


def _stored(data: npt.NDArray[Any], source: Source) -> dict[str, npt.NDArray[Any]]:
    """Instances that the records themselves carry."""
    city = source.city
    assert city is not None
    count = len(data)
    depot = np.zeros((count, 1), dtype=np.int64)
    rows = np.hstack([depot, data["rows"].astype(np.int64)])
    rows[rows > city.num_locations] = 0  # the check will refuse it
    unit = source.stored_instance(np.arange(1, 2), np.ones(1)).demand_units[1]
    demands = np.hstack([depot, data["demands"].astype(np.int64) * unit])
    return {
        "coords": _plane(city.coords[rows], city.metric),
        "demands": demands,
        "capacity": np.full(count, round(source.capacity * unit)),
        "rows": rows,
    }


def _drawn(
    source: Source, n: int, index: npt.NDArray[Any]
) -> dict[str, npt.NDArray[Any]]:
    """Instances drawn again, each once."""
    wanted, at = np.unique(index, return_inverse=True)
    drawn = [source.draw(n, int(i)) for i in wanted]
    unknown = np.full(n + 1, -1)
    rows = [unknown if i.city_rows is None else i.city_rows for i in drawn]
    return {
        "coords": np.stack([i.plane for i in drawn])[at],
        "demands": np.stack([i.demand_units for i in drawn])[at],
        "capacity": np.array([i.capacity_units for i in drawn])[at],
        "rows": np.stack(rows)[at],
    }


def _plane(coords: FloatArray, metric: str) -> FloatArray:
    """`Instance.plane` for a batch."""
    if metric != "greatcircle":
        return coords
    angle = np.radians(coords)
    middle = angle.mean(axis=1, keepdims=True)
    shrink = np.ones_like(middle)
    shrink[..., 0] = np.cos(middle[..., 1])
    plane: FloatArray = EARTH_RADIUS_KM * (angle - middle) * shrink
    return plane
