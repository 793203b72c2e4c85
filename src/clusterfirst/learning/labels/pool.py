"""All labels of a run in memory, packed: 100,000 of N = 100 take about 0.2 GB.

Labels of one size are columns of the smallest whole-number type that holds them; a
label is unpacked only when it is drawn. Neighbour lists of whole labels, the larger
part of the work of making a batch, are kept too (0.2 GB more for all of them).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from clusterfirst.learning.labels.columns import LabelGroup
from clusterfirst.learning.labels.labelset import LabelSet
from clusterfirst.networks.nodes import NeighbourRule, NodeArrays, neighbour_lists
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import FloatArray, IntArray


@dataclass(frozen=True)
class Label:
    """An expert's partition of one instance."""

    nodes: NodeArrays
    route: IntArray  # (n,) route number of each customer, 0..K-1


@dataclass(frozen=True, eq=False)
class _Pack:
    """Labels of one size n as columns; those of one instance follow each other."""

    coords: FloatArray  # (B, n + 1, 2)
    demands: npt.NDArray[Any]  # (B, n + 1) whole numbers, as all below
    capacity: npt.NDArray[Any]  # (B,)
    rows: npt.NDArray[Any] | None  # (B, n + 1) rows of the city
    route: npt.NDArray[Any]  # (B, n)
    first: IntArray  # (I + 1,) where the labels of each instance begin, and the end

    @property
    def customers(self) -> int:
        """Size n of every label."""
        return int(self.route.shape[1])

    def reach(self) -> dict[str, tuple[float, float]]:
        """Least and most customers, customers per route and largest demand share."""
        units, capacity = self.demands.astype(np.float64), self.capacity[:, None]
        share = units / capacity
        # A map whose customers want nothing would fit one vehicle.
        per_route = self.customers / np.maximum(share.sum(axis=1), 1e-9)
        per_route = np.minimum(per_route, self.customers)
        largest = share.max(axis=1)
        return {
            "customers": (float(self.customers), float(self.customers)),
            "per_route": (float(per_route.min()), float(per_route.max())),
            "largest_share": (float(largest.min()), float(largest.max())),
        }

    def label(self, number: int) -> Label:
        """Unpack one label."""
        rows = None if self.rows is None else self.rows[number].astype(np.int64)
        nodes = NodeArrays(
            self.coords[number],
            self.demands[number].astype(np.int64),
            int(self.capacity[number]),
            rows,
        )
        return Label(nodes, self.route[number].astype(np.int64))


class LabelPool:
    """Instances in order of size, each with one or more partitions."""

    def __init__(self, packs: Sequence[_Pack]) -> None:
        self._packs = sorted(
            (pack for pack in packs if pack.customers and len(pack.route)),
            key=lambda pack: pack.customers,
        )
        if not self._packs:
            rule = "must be at least one label of at least one customer"
            raise InputError(Problem("E711", "labels", "none", rule))
        counts = [len(pack.first) - 1 for pack in self._packs]
        self._ends = np.cumsum(counts)  # of the instances of each pack
        self._sizes = np.array([pack.customers for pack in self._packs])
        self._lists: dict[
            tuple[NeighbourRule, int, int], npt.NDArray[Any]
        ] = {}  # by pack

    @classmethod
    def of_labels(cls, labels: Sequence[Label]) -> LabelPool:
        """Pack labels, each an instance of its own."""
        by_size: dict[tuple[int, bool], list[Label]] = {}
        for label in labels:
            key = len(label.route), label.nodes.rows is None
            by_size.setdefault(key, []).append(label)
        return cls([_pack_labels(alike) for alike in by_size.values()])

    @classmethod
    def of_set(cls, labels: LabelSet) -> LabelPool:
        """Pack the labels that were read from folders."""
        return cls.of_sets([labels])

    @classmethod
    def of_sets(cls, sets: Sequence[LabelSet]) -> LabelPool:
        """Pack several sets; one that stands there twice is drawn twice as often."""
        packs = {
            id(labels): [_pack_group(group) for group in labels.groups.values()]
            for labels in sets
        }
        return cls([pack for labels in sets for pack in packs[id(labels)]])

    def __len__(self) -> int:
        """Number of labels."""
        return sum(len(pack.route) for pack in self._packs)

    def between(self, least: int, most: int | None = None) -> range:
        """Numbers of the instances with `least` to `most` customers."""
        ends = np.concatenate([[0], self._ends])
        low = ends[np.searchsorted(self._sizes, least)]
        if most is None:
            return range(int(low), int(ends[-1]))
        high = ends[np.searchsorted(self._sizes, most, side="right")]
        return range(int(low), int(high))

    def size_of(self, instance: int) -> int:
        """Customers of an instance."""
        return self._packs[self._pack_of(instance)].customers

    def draw(
        self,
        instance: int,
        rng: np.random.Generator,
        rule: NeighbourRule | None = None,
    ) -> Label:
        """Return one of the partitions of an instance; with a rule, with its lists."""
        at = self._pack_of(instance)
        pack = self._packs[at]
        place = instance - (int(self._ends[at - 1]) if at else 0)
        begin, end = int(pack.first[place]), int(pack.first[place + 1])
        number = begin if end == begin + 1 else int(rng.integers(begin, end))
        label = pack.label(number)
        if rule is None:
            return label
        key = rule, id(pack), begin  # partitions of an instance share its lists
        if key not in self._lists:
            # One more than the token, so that -1, which pads, becomes 0.
            self._lists[key] = _smallest(neighbour_lists(label.nodes, rule) + 1)
        lists = self._lists[key].astype(np.int64) - 1
        return replace(label, nodes=replace(label.nodes, lists=lists))

    def list_size(self, instance: int, rule: NeighbourRule) -> int:
        """Neighbours that a token of the instance sees."""
        at = self._pack_of(instance)
        pack = self._packs[at]
        place = instance - (int(self._ends[at - 1]) if at else 0)
        return rule.size(pack.label(int(pack.first[place])).nodes)

    def _pack_of(self, instance: int) -> int:
        return int(np.searchsorted(self._ends, instance, side="right"))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that batches depend on."""
        digest = hashlib.sha256()
        for pack in self._packs:
            for array in vars(pack).values():
                if array is not None:
                    digest.update(str(array.shape).encode())
                    digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    @cached_property
    def reach(self) -> dict[str, tuple[float, float]]:
        """Least and most of what describes an instance: what training has seen."""
        ranges = [pack.reach() for pack in self._packs]
        return {
            name: (min(r[name][0] for r in ranges), max(r[name][1] for r in ranges))
            for name in ranges[0]
        }

    @property
    def has_rows(self) -> bool:
        """Whether every label knows its rows of a city, which psi needs."""
        return all(pack.rows is not None for pack in self._packs)

    @property
    def sizes(self) -> dict[int, int]:
        """Number of labels by customers."""
        return {pack.customers: len(pack.route) for pack in self._packs}


def _pack_group(group: LabelGroup) -> _Pack:
    # Labels are in the order of (source, index): partitions of one instance meet.
    changes = (np.diff(group.source) != 0) | (np.diff(group.index) != 0)
    first = np.concatenate([[0], np.flatnonzero(changes) + 1, [len(group)]])
    known = len(group) > 0 and bool((group.rows >= 0).all())
    return _Pack(
        coords=group.coords,
        demands=_smallest(group.demands),
        capacity=_smallest(group.capacity),
        rows=_smallest(group.rows) if known else None,
        route=_smallest(group.route),
        first=first,
    )


def _pack_labels(labels: Sequence[Label]) -> _Pack:
    nodes = [label.nodes for label in labels]
    rows = [each.rows for each in nodes if each.rows is not None]
    return _Pack(
        coords=np.stack([each.coords for each in nodes]),
        demands=_smallest(np.stack([each.demands for each in nodes])),
        capacity=_smallest(np.array([each.capacity for each in nodes])),
        rows=_smallest(np.stack(rows)) if rows else None,
        route=_smallest(np.stack([label.route for label in labels])),
        first=np.arange(len(labels) + 1),
    )


def _smallest(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same whole numbers in as few bytes as hold the largest."""
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))
