"""Labels of one size as columns, and what the judge says of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clusterfirst.learning.labels.sources import Source
from clusterfirst.problem.instance import FloatArray, Instance, IntArray
from clusterfirst.problem.solution import Solution, judge


@dataclass(frozen=True, eq=False)
class LabelGroup:
    """Labels of one size n as columns; B labels."""

    coords: FloatArray  # (B, n + 1, 2) in the plane, depot first
    demands: IntArray  # (B, n + 1) exact units
    capacity: IntArray  # (B,) in the same units
    rows: IntArray  # (B, n + 1) rows of the city; -1 without a city
    route: IntArray  # (B, n) route number of each customer, 0..K-1
    place: IntArray  # (B, n) position in its route; -1 if unknown
    cost: FloatArray  # (B,)
    index: IntArray  # (B,) of the instance in its source
    seed: IntArray  # (B,) of the teacher
    teacher: IntArray  # (B,) number in records.TEACHERS
    source: IntArray  # (B,) number in LabelSet.sources

    def __len__(self) -> int:
        return len(self.cost)

    def only(self, kept: npt.NDArray[Any]) -> LabelGroup:
        """Return some of the labels: a mask or positions."""
        return LabelGroup(**{name: array[kept] for name, array in vars(self).items()})


def concatenate(groups: list[LabelGroup]) -> LabelGroup:
    """Put groups of one size behind each other."""
    columns = [vars(group) for group in groups]
    return LabelGroup(
        **{name: np.concatenate([c[name] for c in columns]) for name in columns[0]}
    )


def good_labels(
    data: npt.NDArray[Any], source: Source, number: int
) -> tuple[LabelGroup | None, dict[int, str]]:
    """The right ones among records of one size and layout, and what others lack.

    Instances are drawn again, each once; faults go by the place of the record.
    """
    head, names = data["head"], data.dtype.names or ()
    route = data["route"].astype(np.int64)
    place = np.full_like(route, -1)
    if "place" in names:
        place = data["place"].astype(np.int64)
    instances: list[Instance | None]
    if source.kind == "stored":
        instances = [_stored(rows, source) for rows in data]
    else:
        wanted, at = np.unique(head["index"], return_inverse=True)
        drawn = [source.draw(route.shape[1], int(index)) for index in wanted]
        instances = [drawn[k] for k in at]
    costs = head["cost"].tolist()
    found = [*map(fault_of, instances, route, place, costs)]
    faults = {i: fault for i, fault in enumerate(found) if fault}
    kept = [i for i in range(len(data)) if i not in faults]
    if not kept:
        return None, faults
    days = [day for i in kept if (day := instances[i]) is not None]
    nowhere = np.full(route.shape[1] + 1, -1)
    rows = [nowhere if day.city_rows is None else day.city_rows for day in days]
    group = LabelGroup(
        coords=np.stack([day.plane for day in days]),
        demands=np.stack([day.demand_units for day in days]),
        capacity=np.array([day.capacity_units for day in days]),
        rows=np.stack(rows),
        route=route[kept],
        place=place[kept],
        cost=head["cost"][kept].astype(np.float64),
        index=head["index"][kept].astype(np.int64),
        seed=head["seed"][kept].astype(np.int64),
        teacher=head["teacher"][kept].astype(np.int64),
        source=np.full(len(kept), number),
    )
    return group, faults


def _stored(record: Any, source: Source) -> Instance | None:
    """The instance that a record carries, if its rows are those of the city."""
    assert source.city is not None
    rows = record["rows"].astype(np.int64)
    known = (rows >= 1) & (rows <= source.city.num_locations)
    if not known.all() or len(np.unique(rows)) < len(rows):
        return None
    return source.stored_instance(rows, record["demands"].astype(np.int64))


def fault_of(
    instance: Instance | None, route: IntArray, place: IntArray, cost: float
) -> str:
    """Say what is wrong with a label, or nothing."""
    if instance is None:
        return "a location is unknown or used twice"
    toured = bool((place >= 0).all())
    order, sizes = in_order(route, place)
    inside = np.arange(len(route)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    if toured and (place[order] != inside).any():
        return "the tours are not whole"
    stated = cost if toured and len(route) else None
    violations = judge(
        instance, as_solution(route, place), stated_cost=stated
    ).violations
    return str(violations[0]) if violations else ""


def in_order(route: IntArray, place: IntArray) -> tuple[IntArray, IntArray]:
    """The customers route by route, each at its place, and how many a route has."""
    # More routes than customers: one at least is empty, whatever the numbers are.
    route = np.minimum(route, len(route))
    return np.lexsort([place, route]), np.bincount(route)


def as_solution(route: IntArray, place: IntArray) -> Solution:
    """The routes of a label; where places are unknown, in any order."""
    order, sizes = in_order(route, place)
    return Solution(np.split(order + 1, np.cumsum(sizes)[:-1]) if len(sizes) else ())
