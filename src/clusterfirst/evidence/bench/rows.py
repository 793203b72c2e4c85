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

from clusterfirst.files.atomic import disk_problem, make_folder
from clusterfirst.files.source import MEGABYTE, named, read_bytes
from clusterfirst.problem.errors import InputError

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
    startup: float  # imports, compilation and weights, paid once per process
    gflops: float  # fp32 matmul on the same core right before the run
    reason: str  # why there is no answer
    at: str  # when, UTC
    version: str

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
        self.path = path
        self._kind = TypeAdapter(kind)

    def read(self) -> list[Line]:
        """Every whole row; a line cut off by a kill is no row."""
        if not self.path.exists() or _is_empty(self.path):
            return []
        with named(self.path):
            data = read_bytes(self.path, MAX_ROWS, growing=True)
        rows = (self._row(line) for line in data.split(b"\n"))
        return [row for row in rows if row is not None]

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
