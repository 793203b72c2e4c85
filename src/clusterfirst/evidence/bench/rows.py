"""Rows of a comparison: one line per run in a file that is only ever appended to.

A comparison that was stopped goes on where it was: what has a row is not run again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from clusterfirst.evidence.bench.sets import BenchSet, Case
from clusterfirst.files.atomic import disk_problem, make_folder
from clusterfirst.files.source import (
    MEGABYTE,
    Complaints,
    named,
    plain_number,
    read_bytes,
    read_text,
)
from clusterfirst.files.tables import parse_table
from clusterfirst.problem.errors import InputError, Problem, quote

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class Key:
    """What a run is: the same key is the same run."""

    digest: str  # of the instance
    method: str
    model: str
    limit: float  # wall-clock seconds allowed
    seed: int
    cores: int
    engine: str


@dataclass(frozen=True)
class Row:
    """A run and what came of it; `cost` is None where there was no valid answer."""

    set_name: str
    instance: str
    customers: int
    digest: str
    method: str
    model: str
    limit: float
    seed: int
    cores: int
    engine: str
    cost: float | None
    vehicles: int | None
    seconds: float  # from arrays handed over to routes returned
    startup: float = 0.0  # imports, compilation and weights, paid once per process
    gflops: float = 0.0  # fp32 matmul on the same core right before the run
    reason: str = ""  # why there is no answer
    at: str = ""  # when, UTC
    version: str = ""

    @property
    def key(self) -> Key:
        """What the run is."""
        return Key(**{field.name: getattr(self, field.name) for field in fields(Key)})


MAX_ROWS = 1024 * MEGABYTE
PUBLISHED = "published"  # engine of a row that somebody else measured
Line = TypeVar("Line", bound="DataclassInstance")


class LinesFile(Generic[Line]):
    """One dataclass per line of a file; survives a kill at any moment."""

    def __init__(self, path: Path, kind: type[Line]) -> None:
        self.path, self._line = path, kind
        self._kind = TypeAdapter(kind)

    def read(self) -> list[Line]:
        """Every whole row; a line cut off by a kill is no row."""
        if not self.path.exists() or _is_empty(self.path):
            return []
        with named(self.path):
            data = read_bytes(self.path, MAX_ROWS, growing=True)
        rows = (self._row(line) for line in data.split(b"\n"))
        return [row for row in rows if row is not None]

    @property
    def is_ours(self) -> bool:
        """Whether a run wrote the file, or began to: a kill may leave half a line."""
        if not self.path.is_file():
            return False
        with named(self.path):
            data = read_bytes(self.path, MAX_ROWS, growing=True)
        begun = f'{{"{fields(self._line)[0].name}"'.encode()
        torn = b"\n" not in data and (begun.startswith(data) or data.startswith(begun))
        return torn or bool(self.read())

    def _row(self, line: bytes) -> Line | None:
        try:
            return self._kind.validate_json(line, strict=True)
        except ValidationError:
            return None

    def append(self, new: Iterable[Line]) -> None:
        """Add rows, each in one write."""
        make_folder(self.path.parent)
        try:
            with self.path.open("ab+") as file:
                for row in new:
                    line = json.dumps(asdict(row), ensure_ascii=False) + "\n"
                    # After a kill the file may end inside a line: that line is lost.
                    file.seek(0, 2)
                    if file.tell():
                        file.seek(-1, 2)
                        if file.read(1) != b"\n":
                            line = "\n" + line
                    file.write(line.encode("utf-8"))
                    file.flush()
        except OSError as error:
            raise InputError(disk_problem(self.path, error)) from error


def _is_empty(path: Path) -> bool:
    return path.is_file() and not path.stat().st_size


class RowsFile(LinesFile[Row]):
    """`rows.jsonl` in a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "rows.jsonl", Row)


COLUMNS = ("method", "seconds", "instance", "cost")


def read_published(path: Path, bench_set: BenchSet) -> list[Row]:
    """The rows of the table whose instance is in the set, by its name."""
    cases = {case.instance.name: case for case in bench_set.cases}
    found: dict[tuple[str, float, str], Row] = {}
    wrong = Complaints()
    with named(path):
        table = parse_table(read_text(path), [COLUMNS])
        for line, cells in table.rows:
            row = dict(zip(table.columns, cells, strict=True))
            words = (row["seconds"], row["cost"], row.get("measured") or row["seconds"])
            limit, cost, seconds = (plain_number(word) or 0.0 for word in words)
            method, instance = row["method"], row["instance"]
            key, rule = (method, limit, instance), ""
            if not method or not instance:
                rule = "a cell is empty"
            elif min(limit, cost, seconds) <= 0:
                rule = "seconds and cost must be numbers above 0"
            elif key in found:
                rule = f"a second cost of {quote(instance)} for this method and time"
            if rule:
                wrong.complain("E311", f"line {line}", method, rule)
            elif instance in cases:
                case = cases[instance]
                found[key] = _published(bench_set.name, case, key, cost, seconds)
        wrong.stop_if_wrong()
    if not found:
        rule = f"none of its instances is in the set {bench_set.name}"
        raise InputError(Problem("E404", "published", str(path), rule))
    return list(found.values())


def _published(
    set_name: str,
    case: Case,
    key: tuple[str, float, str],
    cost: float,
    seconds: float,
) -> Row:
    method, limit, instance = key
    return Row(
        set_name=set_name,
        instance=instance,
        customers=case.instance.num_customers,
        digest=case.digest,
        method=method,
        model="",
        limit=limit,
        seed=0,
        cores=1,
        engine=PUBLISHED,
        cost=cost,
        vehicles=None,
        seconds=seconds,
    )
