"""Taking over label sets that were made elsewhere, as records that carry instances."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from clusterfirst.files.sets import npz_arrays
from clusterfirst.files.source import MEGABYTE, Limits, named, read_bytes
from clusterfirst.learning.labels.columns import good_labels
from clusterfirst.learning.labels.labelset import alike
from clusterfirst.learning.labels.records import Record
from clusterfirst.learning.labels.shard_writer import write_shards
from clusterfirst.learning.labels.shards import read_shards
from clusterfirst.learning.labels.sources import PAPER_CAPACITY, Source, stored_set
from clusterfirst.problem.city import City
from clusterfirst.problem.errors import InputError, Problem, quote

ARRAYS = ("idx", "demand", "route", "cost")
LARGEST = 2**31 - 1
FILE_LIMITS = Limits(max_bytes=1024 * MEGABYTE)


def import_labels(
    path: str | Path, city: City, out: str | Path, *, capacity: float | None = None
) -> int:
    """Import an .npz of days in a city; return the number of new labels.

    Arrays: idx (B, n) locations counted from 0, demand (B, n), route (B, n) and
    cost (B,). All or nothing: one label that breaks a rule refuses the file.
    The capacity is the one given, or the city's, or the paper's.
    """
    path, out = Path(path), Path(out)
    arrays = _read_arrays(path)
    if capacity is None:
        capacity = PAPER_CAPACITY if city.capacity is None else city.capacity
    digest = hashlib.sha256()
    for array in arrays.values():
        digest.update(np.ascontiguousarray(array).tobytes())
    source = stored_set(path.stem, city, capacity, digest.hexdigest()[:32])
    bodies = [
        Record(
            customers=arrays["idx"].shape[1],
            index=i,
            teacher="imported",
            settings=None,
            cost=float(arrays["cost"][i]),
            route=arrays["route"][i],
            rows=arrays["idx"][i] + 1,
            demands=arrays["demand"][i],
        ).encode()
        for i in range(len(arrays["idx"]))
    ]
    _check(bodies, source, path)
    held: set[bytes] = set()
    if out.exists():
        for found, there in read_shards(out):
            held.update(there if found.key == source.key else ())
    return write_shards(out, source, (body for body in bodies if body not in held))


def _read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    with named(path):
        found = npz_arrays(read_bytes(path, FILE_LIMITS.max_bytes), FILE_LIMITS)
        if not found.keys() >= set(ARRAYS):
            rule = f"an .npz with the arrays {', '.join(ARRAYS)} is needed"
            got = ", ".join(found) or "no arrays"
            raise InputError(Problem("E711", "labels", got, rule))
    arrays = {name: found[name] for name in ARRAYS}
    shape, problems = arrays["idx"].shape, []
    for name, array in arrays.items():
        wanted = shape[:1] if name == "cost" else shape
        if len(shape) != 2 or array.shape != wanted or array.dtype.kind not in "iuf":
            rule = "idx, demand and route are (B, n), cost is (B,), all numbers"
            problems.append(Problem("E711", name, f"shape {array.shape}", rule))
        elif not np.isfinite(array).all() or (array < 0).any():
            rule = "must be finite numbers of at least 0"
            problems.append(Problem("E711", name, "something else", rule))
        elif name != "cost":
            if (array > LARGEST).any() or (array != np.floor(array)).any():
                rule = f"must be whole numbers up to {LARGEST}"
                problems.append(Problem("E711", name, "something else", rule))
            arrays[name] = array.astype(np.int64)
    if problems:
        raise InputError(problems, source=quote(str(path)))
    return arrays


def _check(bodies: list[bytes], source: Source, path: Path) -> None:
    for data in alike(bodies):
        _, faults = good_labels(data, source, 0)
        if faults:
            first = min(faults)
            where = f"label {data['head']['index'][first]}"
            got = f"{faults[first]} (and {len(faults) - 1} more)"
            rule = "every label must be valid"
            raise InputError(Problem("E711", where, got, rule), source=quote(str(path)))
