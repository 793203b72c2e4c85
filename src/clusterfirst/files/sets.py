"""Sets of instances in one file: LEHD .txt, and .npz of RL4CO's and our layouts.

The layouts are described in docs/formats.md. Arrays are read by their headers,
checked against the size of the file before anything is allocated, and never
unpickled.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from clusterfirst.files.source import (
    DEFAULT_LIMITS,
    Limits,
    check_title,
    number_hint,
    plain_number,
    plain_numbers,
    require_exact,
)
from clusterfirst.problem.city import City
from clusterfirst.problem.errors import InputError, Problem, quote
from clusterfirst.problem.instance import Instance, IntArray, Rounding
from clusterfirst.problem.solution import Solution

Arrays = dict[str, npt.NDArray[Any]]
EXPANSION = 8  # how much larger than the largest file its unpacked arrays may be


@dataclass(frozen=True, eq=False)
class Entry:
    """An instance of a set and, where the file has them, its references.

    `labels` (n,) is the route number of each customer, for sets that keep the
    clusters and not the order of visits.
    """

    instance: Instance
    cost: float | None = None
    solution: Solution | None = None
    labels: IntArray | None = None


@dataclass(frozen=True)
class SetContext:
    """What the file itself does not say."""

    stem: str = ""  # instances without names are called stem-0, stem-1, ...
    city: City | None = None
    rounding: Rounding = "none"
    first: int | None = None  # read only so many
    limits: Limits = DEFAULT_LIMITS

    def instance(self, index: int, **fields: Any) -> Instance:
        """Build instance `index`; its number comes into every message."""
        fields.setdefault("name", f"{self.stem}-{index}")
        try:
            check_title(fields["name"], "name")
            return Instance(
                rounding=self.rounding,
                max_customers=self.limits.max_customers,
                **fields,
            )
        except InputError as error:
            raise InputError(
                replace(p, where=f"instance {index}: {p.where}") for p in error.problems
            ) from error

    def count(self, there: int) -> int:
        """How many of the instances that are there to read."""
        count = there if self.first is None else min(there, self.first)
        if count > self.limits.max_instances:
            rule = f"the limit is {self.limits.max_instances} in one file; split it"
            raise InputError(Problem("E401", "instances", str(count), rule))
        return count


# --- LEHD text ------------------------------------------------------------------

LEHD_KEYS = ("depot", "customer", "capacity", "demand", "cost", "node_flag")


def parse_lehd(text: str, context: SetContext) -> list[Entry]:
    """Return the instances of a LEHD set, one per line."""
    lines = [
        (number, line)
        for number, line in enumerate(text.split("\n"), start=1)
        if line.strip()
    ]
    wanted = lines[: context.count(len(lines))]
    return [_lehd_entry(i, n, line, context) for i, (n, line) in enumerate(wanted)]


def _lehd_entry(index: int, number: int, line: str, context: SetContext) -> Entry:
    fields = _lehd_fields(number, line)
    n = len(fields["customer"]) // 2
    demands = fields["demand"]
    if len(demands) == n and not (n and demands[0] == 0):
        demands = [0.0, *demands]
    rules = {
        "depot": len(fields["depot"]) == 2,
        "customer": len(fields["customer"]) == 2 * n,
        "capacity": len(fields["capacity"]) == 1,
        "demand": len(demands) == n + 1,
        "cost": len(fields["cost"]) in (0, 1),
        "node_flag": len(fields["node_flag"]) in (0, 2 * n),
    }
    for key, right in rules.items():
        if not right:
            got = f"{len(fields[key])} numbers"
            rule = f"not the right number for {n} customers"
            raise InputError(Problem("E331", f"line {number} {key}", got, rule))
    points = np.array(fields["depot"] + fields["customer"]).reshape(-1, 2)
    instance = context.instance(
        index, demands=demands, capacity=fields["capacity"][0], coords=points
    )
    cost = fields["cost"][0] if fields["cost"] else None
    return Entry(instance, cost, _lehd_routes(number, fields["node_flag"]))


def _lehd_fields(number: int, line: str) -> dict[str, list[float]]:
    fields: dict[str, list[float]] = {key: [] for key in LEHD_KEYS}
    words = [word.strip() for word in line.strip().rstrip(",").split(",")]
    starts = [i for i, word in enumerate(words) if word in fields]
    seen = [words[i] for i in starts]
    if starts[:1] != [0] or len(set(seen)) != len(seen):
        rule = f"each of {', '.join(LEHD_KEYS)} once, depot first, is needed"
        raise InputError(Problem("E331", f"line {number}", line, rule))
    for start, stop in pairwise([*starts, len(words)]):
        values = plain_numbers(words[start + 1 : stop])
        if values is None:
            bad = next(w for w in words[start + 1 : stop] if plain_number(w) is None)
            rule = "must be a finite number"
            where = f"line {number} {words[start]}"
            raise InputError(Problem("E331", where, bad, rule, number_hint(bad)))
        fields[words[start]] = values
        if words[start] in ("capacity", "demand"):
            require_exact(words[start + 1 : stop], f"line {number} {words[start]}")
    for key in LEHD_KEYS[:4]:
        if key not in seen:
            rule = f"{key} is missing"
            raise InputError(Problem("E331", f"line {number}", rule=rule))
    return fields


def _lehd_routes(number: int, flags: list[float]) -> Solution | None:
    """Nodes in order of visit, then for each whether the depot comes before it."""
    half = len(flags) // 2
    routes: list[list[int]] = []
    for node, starts in zip(flags[:half], flags[half:], strict=True):
        if starts not in (0, 1) or not node.is_integer() or (not starts and not routes):
            got = f"{node:g} with flag {starts:g}"
            rule = "whole node numbers, then flags 1 (new route) or 0, are needed"
            raise InputError(Problem("E331", f"line {number} node_flag", got, rule))
        if starts:
            routes.append([])
        routes[-1].append(int(node))
    return Solution(routes) if flags else None


# --- npz ------------------------------------------------------------------------


def parse_npz(data: bytes, context: SetContext) -> list[Entry]:
    """Return the instances of an .npz set, whose arrays tell the layout."""
    arrays = npz_arrays(data, context.limits)
    for names, build in LAYOUTS:
        if names <= arrays.keys():
            return list(build(arrays, context))
    needed = " or ".join(", ".join(sorted(names)) for names, _ in LAYOUTS)
    got = ", ".join(sorted(arrays)) or "no arrays"
    raise InputError(Problem("E322", "arrays", got, f"needed: {needed}"))


def npz_arrays(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Arrays:
    """Return the arrays of an .npz file by name, read within the limits."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            if sum(m.file_size for m in members) > EXPANSION * limits.max_bytes:
                size = EXPANSION * limits.max_bytes
                rule = f"the limit is {size} bytes (--max-bytes times {EXPANSION})"
                raise InputError(Problem("E104", "file", "larger arrays", rule))
            return {
                m.filename.removesuffix(".npy"): _array(archive.read(m), m.filename)
                for m in members
            }
    except InputError:
        raise
    except Exception as error:
        # zipfile, zlib and numpy's header parser raise whatever they meet in
        # damaged bytes (BadZipFile, zlib.error, SyntaxError, RuntimeError, ...).
        rule = f"this is not a readable .npz file: {quote(str(error))}"
        raise InputError(Problem("E321", "file", rule=rule)) from error


def _array(data: bytes, name: str) -> npt.NDArray[Any]:
    """One .npy member; np.load would allocate whatever its header claims."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    read_header: Callable[..., Any] = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    shape, fortran, dtype = read_header(stream)
    left = len(data) - stream.tell()
    if dtype.kind not in "biufU" or math.prod(shape) * dtype.itemsize != left:
        got = f"{dtype} of shape {shape} in {left} bytes"
        rule = "an array of plain numbers or text is needed"
        raise InputError(Problem("E321", name, got, rule))
    flat = np.frombuffer(data, dtype=dtype, offset=stream.tell())
    return flat.reshape(shape, order="F" if fortran else "C")


def _shaped(arrays: Arrays, name: str, *shape: int | None) -> npt.NDArray[Any]:
    """An array of numbers whose shape fits, None standing for any length."""
    array = arrays[name]
    fits = array.ndim == len(shape) and all(
        want is None or have == want
        for have, want in zip(array.shape, shape, strict=True)
    )
    if not fits or array.dtype.kind not in "iuf":
        got = f"{array.dtype} of shape {array.shape}"
        sizes = ", ".join("any" if want is None else str(want) for want in shape)
        rule = f"must be numbers of shape ({sizes})"
        raise InputError(Problem("E323", f"array {name}", got, rule))
    return array


def _whole(arrays: Arrays, name: str, *shape: int | None) -> IntArray:
    """An array of whole numbers, wide enough to count on with."""
    array = _shaped(arrays, name, *shape)
    if array.dtype.kind not in "iu":
        rule = "must be whole numbers"
        raise InputError(Problem("E323", f"array {name}", str(array.dtype), rule))
    return array.astype(np.int64)


def _capacities(arrays: Arrays, count: int) -> npt.NDArray[Any]:
    if arrays["capacity"].ndim == 0:
        return np.broadcast_to(_shaped(arrays, "capacity"), count)
    return _shaped(arrays, "capacity", count)


def _depot_first(arrays: Arrays, context: SetContext) -> Iterator[Entry]:
    """Our layout: coords (B, N+1, 2), demand (B, N+1), with optional references."""
    coords = _shaped(arrays, "coords", None, None, 2)
    count, size = coords.shape[:2]
    demand = _shaped(arrays, "demand", count, size)
    capacity = _capacities(arrays, count)
    names = arrays.get("name", np.empty(0))
    if names.dtype.kind == "U" and names.shape != (count,):
        rule = f"{count} names are needed"
        raise InputError(Problem("E323", "array name", str(names.shape), rule))
    costs = _shaped(arrays, "ref_cost", count) if "ref_cost" in arrays else None
    routes = _reference_routes(arrays, count)
    for i in range(context.count(count)):
        fields = {"name": str(names[i])} if names.dtype.kind == "U" else {}
        instance = context.instance(
            i,
            demands=demand[i],
            capacity=capacity[i].item(),
            coords=coords[i],
            **fields,
        )
        cost = None if costs is None else float(costs[i])
        yield Entry(instance, cost, None if routes is None else routes(i))


def _reference_routes(arrays: Arrays, count: int) -> Callable[[int], Solution] | None:
    """Reader of the flat "0 a b 0 c d 0" routes, cut by ref_off."""
    if not {"ref_routes", "ref_off"} <= arrays.keys():
        return None
    flat = _whole(arrays, "ref_routes", None)
    cuts = _cuts(arrays, "ref_off", len(flat))
    if len(cuts) != count + 1:
        rule = f"{count + 1} are needed"
        raise InputError(Problem("E323", "array ref_off", f"{len(cuts)} cuts", rule))

    def routes(i: int) -> Solution:
        stops = flat[cuts[i] : cuts[i + 1]]
        parts = np.split(stops, np.flatnonzero(stops == 0))
        return Solution([part[part != 0].tolist() for part in parts if part.any()])

    return routes


def _cuts(arrays: Arrays, name: str, length: int) -> IntArray:
    """Where a flat array of this length is cut into instances."""
    cuts = _whole(arrays, name, None)
    ends = np.concatenate([[0], cuts, [length]])
    if (np.diff(ends) < 0).any():
        rule = f"rising numbers from 0 to {length} are needed"
        raise InputError(Problem("E323", f"array {name}", "other numbers", rule))
    return cuts


def _rl4co(arrays: Arrays, context: SetContext) -> Iterator[Entry]:
    """RL4CO's layout: depot (B, 2), locs (B, N, 2), demand (B, N), capacity (B,)."""
    locs = _shaped(arrays, "locs", None, None, 2)
    count, n = locs.shape[:2]
    depot = _shaped(arrays, "depot", count, 2)
    demand = _shaped(arrays, "demand", count, n)
    capacity = _capacities(arrays, count)
    for i in range(context.count(count)):
        yield Entry(
            context.instance(
                i,
                demands=np.concatenate([[0], demand[i]]),
                capacity=capacity[i].item(),
                coords=np.vstack([depot[i], locs[i]]),
            )
        )


def _city_days(arrays: Arrays, context: SetContext) -> Iterator[Entry]:
    """Days of a city: idx (B, N) counts its customers from 0."""
    city = context.city
    if city is None:
        rule = "these days need their city (--city FOLDER)"
        raise InputError(Problem("E143", "city", "none", rule))
    rows = _whole(arrays, "idx", None, None)
    count, n = rows.shape
    demand = _shaped(arrays, "demand", count, n)
    costs = _shaped(arrays, "cost", count) if "cost" in arrays else None
    labels = _whole(arrays, "route", count, n) if "route" in arrays else None
    if rows.size and not (rows.min() >= 0 and rows.max() < city.num_locations):
        got = f"{rows.min()} to {rows.max()}"
        rule = f"rows of the city, 0 to {city.num_locations - 1}, are needed"
        raise InputError(Problem("E405", "array idx", got, rule))
    for i in range(context.count(count)):
        name = f"{context.stem}-{i}"
        instance = city.day(rows[i] + 1, demand[i], name=name)
        yield Entry(
            instance.replace(rounding=context.rounding),
            None if costs is None else float(costs[i]),
            labels=None if labels is None else labels[i],
        )


def _pool_days(arrays: Arrays, context: SetContext) -> Iterator[Entry]:
    """Days from a pool of addresses: stops loc[off[i]:off[i+1]] with their size."""
    pool = _shaped(arrays, "pool_xy_m", None, 2)
    rows = _whole(arrays, "loc", None)
    cuts = _cuts(arrays, "off", len(rows))
    size = _shaped(arrays, "size", len(rows))
    capacity = _capacities(arrays, max(len(cuts) - 1, 0))
    if len(rows) and not (rows.min() >= 0 and rows.max() < len(pool)):
        rule = f"rows of pool_xy_m, 0 to {len(pool) - 1}, are needed"
        raise InputError(Problem("E323", "array loc", "other numbers", rule))
    city = City(np.vstack([[0.0, 0.0], pool]), name=context.stem)
    for i in range(context.count(max(len(cuts) - 1, 0))):
        day = np.concatenate([[0], rows[cuts[i] : cuts[i + 1]] + 1])
        instance = context.instance(
            i,
            demands=np.concatenate([[0], size[cuts[i] : cuts[i + 1]]]),
            capacity=capacity[i].item(),
            coords=city.coords[day],
            city_rows=day,
            city_hash=city.hash,
        )
        yield Entry(instance)


LAYOUTS: Sequence[tuple[set[str], Callable[[Arrays, SetContext], Iterator[Entry]]]] = (
    ({"coords", "demand", "capacity"}, _depot_first),
    ({"depot", "locs", "demand", "capacity"}, _rl4co),
    ({"idx", "demand"}, _city_days),
    ({"pool_xy_m", "off", "loc", "size", "capacity"}, _pool_days),
)


def format_npz(instances: Sequence[Instance]) -> bytes:
    """Return a set in our layout; its instances have one number of customers."""
    sizes = sorted({instance.num_customers for instance in instances})
    metrics = {instance.metric for instance in instances}
    if len(sizes) != 1 or metrics != {"euclidean"}:
        got = f"sizes {sizes[:5]}, metrics {sorted(metrics)}"
        rule = "one size, and coordinates in the plane, are needed for an .npz set"
        raise InputError(Problem("E155", "set", got, rule))
    stream = io.BytesIO()
    np.savez_compressed(
        stream,
        name=np.array([instance.name for instance in instances]),
        coords=np.array([instance.coords for instance in instances]),
        demand=np.array([instance.demands for instance in instances]),
        capacity=np.array([instance.capacity for instance in instances]),
    )
    return stream.getvalue()
