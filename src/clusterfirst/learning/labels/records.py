"""The body of a label record: an expert's partition, compactly.

    head (44 bytes) | route of each customer | place in its route | rows | demands

Arrays are unsigned integers of 1, 2 or 4 bytes; the head says which, 0 meaning that
the array is left out. The places give the tours, so that the cost can be checked to
the last bit; imported sets have partitions only. Rows and demands are there only for
instances that cannot be drawn again. A failed label holds the reason instead.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clusterfirst.learning.experts.expert import ExpertSettings
from clusterfirst.problem.instance import MAX_CUSTOMERS, IntArray
from clusterfirst.problem.solution import Solution

TEACHERS = ("imported", "hgs", "pyvrp", "polish")
LABEL, FAILURE = 0, 1
ARRAYS = ("route", "place", "rows", "demands")
MAX_REASON = 300
HEAD = struct.Struct("<BBBBBBHIQIIdd")
HEAD_DTYPE = np.dtype(
    [
        ("kind", "u1"),
        ("teacher", "u1"),
        ("route_width", "u1"),
        ("place_width", "u1"),
        ("rows_width", "u1"),
        ("demands_width", "u1"),
        ("reserved", "<u2"),
        ("seed", "<u4"),
        ("index", "<u8"),
        ("customers", "<u4"),
        ("iterations", "<u4"),
        ("seconds", "<f8"),
        ("cost", "<f8"),
    ]
)
assert HEAD.size == HEAD_DTYPE.itemsize

Identity = tuple[int, int, str, int]


@dataclass(frozen=True, eq=False)
class Record:
    """One label, or one failure to make it."""

    customers: int
    index: int  # of the instance in its source
    teacher: str
    settings: ExpertSettings | None  # None for imported labels
    cost: float = 0.0
    route: IntArray | None = None  # (n,) route number of each customer
    place: IntArray | None = None  # (n,) position in that route
    rows: IntArray | None = None  # (n,) rows of the city
    demands: IntArray | None = None  # (n,)
    failure: str = ""

    @property
    def identity(self) -> Identity:
        """What makes two records rivals for one place: instance, teacher, seed."""
        seed = 0 if self.settings is None else self.settings.seed
        return self.customers, self.index, self.teacher, seed

    def encode(self) -> bytes:
        """Return the body."""
        arrays = [getattr(self, name) for name in ARRAYS]
        widths = [0 if array is None else _width(array) for array in arrays]
        seed, seconds, iterations = 0, 0.0, 0
        if self.settings is not None:
            seed = self.settings.seed
            seconds = self.settings.seconds or 0.0
            iterations = self.settings.iterations or 0
        head = HEAD.pack(
            FAILURE if self.failure else LABEL,
            TEACHERS.index(self.teacher),
            *widths,
            0,
            seed,
            self.index,
            self.customers,
            iterations,
            seconds,
            self.cost,
        )
        if self.failure:
            return head + self.failure.encode()[:MAX_REASON]
        return head + b"".join(
            array.astype(f"<u{width}").tobytes()
            for array, width in zip(arrays, widths, strict=True)
            if array is not None
        )


def of_solution(solution: Solution, customers: int) -> tuple[IntArray, IntArray]:
    """Return route and place of each customer, (n,) each."""
    route = np.zeros(customers, dtype=np.int64)
    place = np.zeros(customers, dtype=np.int64)
    for number, stops in enumerate(solution.routes):
        rows = np.array(stops) - 1
        route[rows], place[rows] = number, np.arange(len(rows))
    return route, place


def well_formed(bodies: Sequence[bytes], *, stored: bool) -> list[bytes]:
    """Return the bodies that are records; a right checksum does not make one.

    `stored` records carry rows and demands, because nobody can draw their instances.
    """
    long_enough = [body for body in bodies if len(body) >= HEAD.size]
    head = heads(long_enough)
    widths = np.stack([head[f"{name}_width"] for name in ARRAYS])
    stated = HEAD.size + head["customers"].astype(np.int64) * widths.sum(axis=0)
    needed = widths[[0, 2, 3]] if stored else widths[:1]
    sizes = np.array([len(body) for body in long_enough], dtype=np.int64)
    label = np.isin(widths, (0, 1, 2, 4)).all(axis=0) & (needed > 0).all(axis=0)
    label &= (sizes == stated) & np.isfinite(head["cost"]) & (head["kind"] == LABEL)
    sane = (label | (head["kind"] == FAILURE)) & (head["teacher"] < len(TEACHERS))
    sane &= head["customers"] <= MAX_CUSTOMERS
    return list(itertools.compress(long_enough, sane.tolist()))


def heads(bodies: Sequence[bytes]) -> npt.NDArray[Any]:
    """Return the heads of many bodies as one structured array."""
    return np.frombuffer(b"".join(b[: HEAD.size] for b in bodies), HEAD_DTYPE)


def identities(bodies: Sequence[bytes]) -> list[Identity]:
    """Return `Record.identity` of many bodies, quickly."""
    head = heads(bodies)
    teachers = [TEACHERS[number] for number in head["teacher"]]
    sizes, indices = head["customers"].tolist(), head["index"].tolist()
    return list(zip(sizes, indices, teachers, head["seed"].tolist(), strict=True))


def decode_alike(bodies: Sequence[bytes]) -> npt.NDArray[Any]:
    """Read labels of one size and one layout into a structured array at once."""
    first = np.frombuffer(bodies[0], HEAD_DTYPE, count=1)[0]
    n = int(first["customers"])
    arrays = [
        (name, f"<u{first[name + '_width']}", (n,))
        for name in ARRAYS
        if first[name + "_width"]
    ]
    dtype = np.dtype([("head", HEAD_DTYPE), *arrays])
    return np.frombuffer(b"".join(bodies), dtype)


def best_of_rivals(bodies: Sequence[bytes]) -> dict[Identity, bytes]:
    """One body for each identity: the cheapest label, a failure if there is none."""
    best: dict[Identity, bytes] = {}
    for identity, body in zip(identities(bodies), bodies, strict=True):
        best[identity] = min(best.get(identity, body), body, key=_preference)
    return best


def is_failure(body: bytes) -> bool:
    """Whether a record says why there is no label."""
    return body[0] == FAILURE


def _preference(body: bytes) -> tuple[bool, float, bytes]:
    return is_failure(body), HEAD.unpack_from(body)[-1], body


def _width(array: IntArray) -> int:
    largest = int(array.max(initial=0))
    return 1 if largest < 2**8 else 2 if largest < 2**16 else 4
