"""Street matrices: distances and durations between locations.

CSV (with the ids in the first row and column, or bare numbers), NPZ (`distances`,
`durations`, `ids`), or the JSON of OSRM's `table` service, whose metres and seconds
become km and minutes. Without ids the order is that of the locations, the depot first.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from clusterfirst.files.sets import npz_arrays
from clusterfirst.files.source import (
    DEFAULT_LIMITS,
    Limits,
    named,
    plain_number,
    read_bytes,
    read_text,
)
from clusterfirst.files.strict_json import parse_json
from clusterfirst.files.tables import SEPARATORS, parse_table, table_text
from clusterfirst.problem.city import City
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import FloatArray, Instance

SUFFIXES = (".csv", ".npz", ".json")
METRES, SECONDS = 1000.0, 60.0  # in a km, in a minute


@dataclass(frozen=True, eq=False)
class Matrices:
    """Tables between locations; None where the file has none."""

    distances: FloatArray | None = None
    durations: FloatArray | None = None
    ids: tuple[str, ...] | None = None

    def of_day(
        self, instance: Instance, city: City | None
    ) -> tuple[FloatArray | None, FloatArray | None]:
        """Return distances and durations between the rows of a day."""
        rows = np.array(self._rows(instance, city), dtype=np.int64)
        pick = np.ix_(rows, rows)
        return (
            None if self.distances is None else self.distances[pick],
            None if self.durations is None else self.durations[pick],
        )

    @property
    def size(self) -> int:
        """Number of locations."""
        found = self.distances if self.distances is not None else self.durations
        return 0 if found is None else len(found)

    def _rows(self, instance: Instance, city: City | None) -> Sequence[int]:
        """Where each row of the day is in the table."""
        if self.ids is None:
            if self.size == instance.num_customers + 1:
                return range(self.size)
            if city is not None and self.size == len(city.ids):
                assert instance.city_rows is not None
                rows: list[int] = instance.city_rows.tolist()
                return rows
            rule = f"{instance.num_customers + 1} rows are needed, the depot first"
            if city is not None:
                rule += f", or all {len(city.ids)} locations of the city"
            raise InputError(Problem("E113", "matrix", f"{self.size} rows", rule))
        place = {name: row for row, name in enumerate(self.ids)}
        missing = [name for name in instance.ids if name not in place]
        if missing:
            rule = "the matrix has no row of that id"
            raise InputError(
                [Problem("E113", "matrix", name, rule) for name in missing]
            )
        return [place[name] for name in instance.ids]


def read_matrices(
    path: str | os.PathLike[str],
    ids: str | os.PathLike[str] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    *,
    durations: bool = False,
) -> Matrices:
    """Return the tables in a file; `ids` is a file that names its rows.

    A CSV has one table: distances, or with `durations` minutes.
    """
    suffix = Path(path).suffix.lower()
    with named(path):
        if suffix == ".csv":
            found = _parse_csv(read_text(path, limits), durations)
        elif suffix == ".npz":
            found = _parse_npz(
                read_bytes(path, limits.max_bytes, "--max-bytes"), limits
            )
        elif suffix == ".json":
            found = _parse_osrm(read_text(path, limits))
        else:
            rule = f"a matrix ends in {', '.join(SUFFIXES)}"
            raise InputError(Problem("E106", "file", suffix or "no suffix", rule))
        _check(found)
    if ids is None:
        return found
    with named(ids):
        return _named(found, _read_ids(ids, limits))


def _read_ids(path: str | os.PathLike[str], limits: Limits) -> list[str]:
    """One id per line, or a table with a column of them."""
    text = table_text(path, limits)
    lines = [line.strip() for line in text.strip().split("\n")]
    if any(mark in lines[0] for mark in SEPARATORS) or lines[0].lower() == "id":
        return parse_table(text, [("id",)]).column("id")
    return lines


def _named(found: Matrices, ids: Sequence[str]) -> Matrices:
    if len(ids) != found.size:
        rule = f"the matrix has {found.size} rows"
        raise InputError(Problem("E113", "ids", f"{len(ids)} ids", rule))
    if len(set(ids)) < len(ids):
        twice = next(name for name in ids if list(ids).count(name) > 1)
        raise InputError(Problem("E308", "ids", twice, "each id is needed once"))
    return replace(found, ids=tuple(ids))


def _parse_csv(text: str, durations: bool) -> Matrices:
    separator = max(SEPARATORS, key=text.partition("\n")[0].count)
    try:
        lines = csv.reader(io.StringIO(text), delimiter=separator, strict=True)
        rows = [row for row in lines if any(row)]
    except csv.Error as error:
        raise InputError(Problem("E311", "matrix", str(error))) from error
    if not rows:
        rule = "a table of numbers, a row per location, is needed"
        raise InputError(Problem("E113", "matrix", "nothing", rule))
    ids: list[str] | None = None
    # The first cell of a table with ids is empty or a word, never a distance.
    if plain_number(rows[0][0].strip()) is None:
        ids = [name.strip() for name in rows[0][1:]]
        if [row[0].strip() for row in rows[1:]] != ids:
            rule = "the first column must name the same ids as the first row"
            raise InputError(Problem("E113", "ids", rule=rule))
        rows = [row[1:] for row in rows[1:]]
    size = len(rows)
    matrix = np.zeros((size, size))
    for i, row in enumerate(rows):
        if len(row) != size:
            rule = f"the table has {size} rows: as many numbers are needed in each"
            got = f"{len(row)} numbers"
            raise InputError(Problem("E113", f"matrix row {i + 1}", got, rule))
        for j, cell in enumerate(row):
            word = cell.strip().replace(",", ".") if separator != "," else cell.strip()
            value = plain_number(word)
            if value is None:
                rule = "a finite number is needed; is there a way at all?"
                where = f"matrix row {i + 1} column {j + 1}"
                raise InputError(Problem("E313", where, cell or "an empty cell", rule))
            matrix[i, j] = value
    found = Matrices(durations=matrix) if durations else Matrices(distances=matrix)
    return found if ids is None else _named(found, ids)


def _parse_npz(data: bytes, limits: Limits) -> Matrices:
    arrays = npz_arrays(data, limits)
    names = arrays.keys() & {"distances", "durations"}
    if not names:
        rule = "an array `distances` or `durations` is needed"
        raise InputError(Problem("E322", "file", ", ".join(sorted(arrays)), rule))
    for name in names:
        kind, dims = arrays[name].dtype, arrays[name].ndim
        if dims != 2 or kind.kind not in "iuf":
            got = f"{kind} of shape {arrays[name].shape}"
            rule = "a square of numbers is needed"
            raise InputError(Problem("E323", name, got, rule))
    tables = {name: arrays[name].astype(np.float64) for name in names}
    found = Matrices(tables.get("distances"), tables.get("durations"))
    if "ids" not in arrays:
        return found
    if arrays["ids"].ndim != 1:
        got = f"shape {arrays['ids'].shape}"
        raise InputError(Problem("E323", "ids", got, "one name per row is needed"))
    return _named(found, [str(i) for i in arrays["ids"]])


def _parse_osrm(text: str) -> Matrices:
    document = parse_json(text)
    if not isinstance(document, dict) or document.get("code") != "Ok":
        rule = 'the answer of an OSRM table service with "code": "Ok" is needed'
        raise InputError(Problem("E322", "the document", rule=rule))
    found = Matrices(
        _osrm_table(document, "distances", METRES),
        _osrm_table(document, "durations", SECONDS),
    )
    if not found.size:
        rule = "distances or durations are needed (annotations=duration,distance)"
        raise InputError(Problem("E322", "the document", "neither", rule))
    return found


def _osrm_table(document: dict[str, Any], name: str, unit: float) -> FloatArray | None:
    rows = document.get(name)
    if rows is None:
        return None
    square = isinstance(rows, list) and all(
        isinstance(row, list) and len(row) == len(rows) for row in rows
    )
    if not square or not rows:
        rule = "as many rows as columns are needed: ask for all sources and targets"
        raise InputError(Problem("E113", name, rule=rule))
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            if value is None:
                rule = "OSRM found no way between these two"
                raise InputError(Problem("E131", f"{name}[{i}][{j}]", "null", rule))
            if isinstance(value, bool) or not isinstance(value, int | float):
                rule = "must be a number"
                raise InputError(Problem("E306", f"{name}[{i}][{j}]", str(value), rule))
    try:
        return np.array(rows, dtype=np.float64) / unit
    except OverflowError as error:
        rule = "a number is too large"
        raise InputError(Problem("E306", name, rule=rule)) from error


def _check(found: Matrices) -> None:
    """Squares of one size; what is in them, the instance checks."""
    for name in ("distances", "durations"):
        matrix = getattr(found, name)
        if matrix is not None and matrix.shape != (found.size, found.size):
            rule = f"({found.size}, {found.size}) is needed"
            raise InputError(Problem("E113", name, f"shape {matrix.shape}", rule))
