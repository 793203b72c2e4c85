"""Reading labels back: every instance drawn again, every label checked.

Labels come as columns, grouped by the number of customers and in an order that
depends on what the labels are, not on who wrote them when. The judge looks at each.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from clusterfirst.learning.labels.columns import (
    LabelGroup,
    as_solution,
    concatenate,
    good_labels,
)
from clusterfirst.learning.labels.records import (
    best_of_rivals,
    decode_alike,
    is_failure,
    well_formed,
)
from clusterfirst.learning.labels.shards import read_shards, warn
from clusterfirst.learning.labels.sources import Source
from clusterfirst.problem.instance import FloatArray, Instance, IntArray
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
        return as_solution(group.route[i], group.place[i])

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
        best = best_of_rivals(records).values()
        failures += sum(map(is_failure, best))
        dropped += len(bodies[key]) - len(records)
        for data in alike([body for body in best if not is_failure(body)]):
            group, faults = good_labels(data, source, number)
            dropped += len(faults)
            if faults:
                first, n = min(faults), data["route"].shape[1]
                warn(
                    f"W715 {len(faults)} of {len(data)} labels of {n} customers are "
                    f"left out; the first, {source.name} "
                    f"{data['head']['index'][first]}: {faults[first]}"
                )
            if group is not None:
                parts.setdefault(group.route.shape[1], []).append(group)
    groups = {}
    for n in sorted(parts):
        whole = concatenate(parts[n])
        order = [whole.seed, whole.teacher, whole.index, whole.source]
        groups[n] = whole.only(np.lexsort(order))
    return LabelSet(groups, [sources[key] for key in keys], failures, dropped)


def alike(bodies: list[bytes]) -> list[npt.NDArray[Any]]:
    """Split into columns of one size and layout each."""
    piles: dict[bytes, list[bytes]] = {}
    for body in bodies:
        # The widths and the number of customers stand at these bytes of the head.
        piles.setdefault(body[2:6] + body[20:24], []).append(body)
    return [decode_alike(pile) for pile in piles.values()]
