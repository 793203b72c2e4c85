"""Everything that outlives the process, in one SQLite file.

A plan is written before its request is answered, and its answer before anybody is told:
after a kill -9 the plans without one are simply run again. Plans never change once
they are finished; a move or a new planning makes another plan with a parent.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, astuple, dataclass, field, replace
from pathlib import Path
from typing import Any

from clusterfirst.problem.errors import InputError, Problem

FILE = "clusterfirst.sqlite"
DAY = 86_400.0
# Script n brings a database of version n - 1 to version n; scripts are never changed.
_SCRIPTS = (Path(__file__).parent / "migrations").glob("*.sql")
MIGRATIONS = tuple(
    path.read_text(encoding="utf-8")
    for path in sorted(_SCRIPTS, key=lambda path: int(path.stem))
)
Key = tuple[str, str]  # an Idempotency-Key, and what the whole request is known by


@dataclass(frozen=True)
class PlanRow:
    """A plan as it is stored."""

    id: str
    created: float
    name: str
    origin: str  # solved, moved or replanned
    parent: str | None
    version: int
    instance: str  # hash of the document
    request: dict[str, Any]  # options, and routes to start from
    status: str = "queued"  # until it is done, stopped or failed
    finished: float | None = None
    answer: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Lesson:
    """What became of the wish to learn a city."""

    city: str
    hours: float
    status: str  # queued, running, stopped, done or failed
    created: float
    stage: str = ""
    line: str = ""  # where the stage stands, or how it ended

    @property
    def runs(self) -> bool:
        """Whether it is on its way."""
        return self.status in ("queued", "running")

    def on(
        self, status: str, *, stage: str | None = None, line: str | None = None
    ) -> Lesson:
        """The same lesson, further on."""
        stage = self.stage if stage is None else stage
        line = self.line if line is None else line
        return replace(self, status=status, stage=stage, line=line)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def new_id() -> str:
    """An id that nobody guesses."""
    return secrets.token_urlsafe(12).replace("-", "a").replace("_", "b")


class Store:
    """One connection, used by one thread at a time."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE
        self._lock = threading.RLock()
        try:
            self._db = sqlite3.connect(
                self.path, timeout=10.0, check_same_thread=False, isolation_level=None
            )
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("PRAGMA foreign_keys = ON")
            self._migrate()
        except sqlite3.Error as error:
            rule = f"this database cannot be used: {error}"
            raise InputError(Problem("E731", "--data", str(folder), rule)) from error

    def _migrate(self) -> None:
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version > len(MIGRATIONS):
            rule = f"this program knows versions up to {len(MIGRATIONS)}"
            got = f"version {version}"
            raise InputError(Problem("E309", "--data", got, rule))
        for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
            self._db.executescript(
                f"BEGIN; {script}; PRAGMA user_version = {number}; COMMIT;"
            )

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it is on disk afterwards, or nothing."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._db.execute(query, values).fetchall()

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._db.close()

    def backup(self, target: Path) -> None:
        """Copy everything, while others write: a whole file, or none."""
        beside = target.with_name(f".{target.name[:40]}.{new_id()}.part")
        try:
            copy = sqlite3.connect(beside)
            with self._lock, closing(copy):
                self._db.backup(copy)
            beside.replace(target)
        except sqlite3.OperationalError as error:
            rule = f"nothing was written: {error}"
            raise InputError(Problem("E732", "--backup", str(target), rule)) from error
        finally:
            beside.unlink(missing_ok=True)

    # --- plans --------------------------------------------------------------------

    def add_plan(self, plan: PlanRow, document: str, key: Key | None = None) -> None:
        """Write a plan with its instance and the key under which it was asked for."""
        with self._writing() as db:
            db.execute(
                "INSERT OR IGNORE INTO instances VALUES (?, ?)",
                (plan.instance, document),
            )
            db.execute(
                "INSERT INTO plans VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    plan.id,
                    plan.created,
                    plan.finished,
                    plan.name,
                    plan.origin,
                    plan.parent,
                    plan.version,
                    plan.instance,
                    json.dumps(plan.request),
                    plan.status,
                    json.dumps(plan.answer) if plan.answer else None,
                ),
            )
            _use_key(db, key, plan.id)

    def finish_plan(self, plan: str, status: str, answer: dict[str, Any]) -> None:
        """Write the answer; one that is there already stays."""
        with self._writing() as db:
            db.execute(
                "UPDATE plans SET status = ?, answer = ?, finished = ? "
                "WHERE id = ? AND status = 'queued'",
                (status, json.dumps(answer), time.time(), plan),
            )

    def plan(self, plan: str) -> PlanRow | None:
        """A plan, or None."""
        rows = self._rows(f"SELECT {_COLUMNS} FROM plans WHERE id = ?", plan)
        return _plan(rows[0]) if rows else None

    def unfinished(self) -> list[PlanRow]:
        """What was accepted and has no answer, oldest first."""
        query = f"SELECT {_COLUMNS} FROM plans WHERE status = 'queued' ORDER BY created"
        return [_plan(row) for row in self._rows(query)]

    def recent(self, most: int) -> list[dict[str, Any]]:
        """The newest plans, without their routes."""
        query = (
            "SELECT id, created, name, origin, parent, version, status, "
            "json_extract(answer, '$.cost'), json_array_length(answer, '$.routes') "
            "FROM plans ORDER BY created DESC LIMIT ?"
        )
        names = "id created name origin parent version status cost vehicles"
        rows = self._rows(query, most)
        return [dict(zip(names.split(), row, strict=True)) for row in rows]

    def instance(self, digest: str) -> str:
        """The document of an instance."""
        rows = self._rows("SELECT document FROM instances WHERE hash = ?", digest)
        return str(rows[0][0])

    def made_with(self, key: str) -> tuple[str, str] | None:
        """The request that a key was used for, and the plan or city it made."""
        rows = self._rows("SELECT body, made FROM used_keys WHERE key = ?", key)
        return (rows[0][0], rows[0][1]) if rows else None

    def forget(self, days: float) -> int:
        """Remove finished plans older than this; return how many."""
        old = time.time() - days * DAY
        with self._writing() as db:
            gone = db.execute(
                "DELETE FROM plans WHERE created < ? AND status != 'queued'", (old,)
            ).rowcount
            db.execute(
                "DELETE FROM instances WHERE hash NOT IN (SELECT instance FROM plans)"
            )
            db.execute(
                "DELETE FROM used_keys WHERE made NOT IN "
                "(SELECT id FROM plans UNION ALL SELECT id FROM cities "
                "UNION ALL SELECT city FROM lessons)"
            )
        return gone

    # --- cities -------------------------------------------------------------------

    def add_city(
        self,
        name: str,
        depot: str,
        defaults: str,
        locations: str,
        key: Key | None = None,
    ) -> str:
        """Write a city; return its id."""
        city = new_id()
        with self._writing() as db:
            db.execute(
                "INSERT INTO cities VALUES (?, ?, ?, ?, ?, ?)",
                (city, time.time(), name, depot, defaults, locations),
            )
            _use_key(db, key, city)
        return city

    def city(self, city: str) -> tuple[str, str, str, str] | None:
        """Name, depot, defaults and locations of a city, or None."""
        query = "SELECT name, depot, defaults, locations FROM cities WHERE id = ?"
        rows = self._rows(query, city)
        return (rows[0][0], rows[0][1], rows[0][2], rows[0][3]) if rows else None

    def cities(self) -> list[tuple[str, str]]:
        """Id and name of every city."""
        return [(a, b) for a, b in self._rows("SELECT id, name FROM cities")]

    def add_days(
        self, city: str, days: Sequence[tuple[str, str]], key: Key | None = None
    ) -> str | None:
        """Write name and orders of days, all or none; the name that was there."""
        known = "SELECT name FROM days WHERE city = ? AND name = ?"
        with self._writing() as db:
            for name, _ in days:
                if db.execute(known, (city, name)).fetchone():
                    return name
            rows = [(city, name, time.time(), orders) for name, orders in days]
            db.executemany("INSERT INTO days VALUES (?, ?, ?, ?)", rows)
            _use_key(db, key, city)
        return None

    def days(self, city: str) -> list[tuple[str, str]]:
        """Name and orders of each day of a city, in the order of the names."""
        query = "SELECT name, orders FROM days WHERE city = ? ORDER BY name"
        return [(a, b) for a, b in self._rows(query, city)]

    # --- lessons ------------------------------------------------------------------

    def use_key(self, key: Key | None, made: str) -> None:
        """Remember what a key was used for."""
        with self._writing() as db:
            _use_key(db, key, made)

    def set_lesson(self, lesson: Lesson) -> Lesson:
        """Write a lesson; the one before of the same city is forgotten."""
        with self._writing() as db:
            db.execute(
                "INSERT OR REPLACE INTO lessons VALUES (?, ?, ?, ?, ?, ?)",
                astuple(lesson),
            )
        return lesson

    def lesson(self, city: str) -> Lesson | None:
        """The lesson of a city, or None."""
        rows = self._rows("SELECT * FROM lessons WHERE city = ?", city)
        return Lesson(*rows[0]) if rows else None

    def next_lesson(self) -> Lesson | None:
        """One that was interrupted, or the oldest that waits."""
        query = (
            "SELECT * FROM lessons WHERE status IN ('running', 'queued') "
            "ORDER BY status DESC, created LIMIT 1"
        )
        rows = self._rows(query)
        return Lesson(*rows[0]) if rows else None


_COLUMNS = (
    "id, created, name, origin, parent, version, instance, request, status, "
    "finished, answer"
)


def _use_key(db: sqlite3.Connection, key: Key | None, made: str) -> None:
    if key is not None:
        db.execute("INSERT INTO used_keys VALUES (?, ?, ?)", (*key, made))


def _plan(row: tuple[Any, ...]) -> PlanRow:
    values = dict(zip(_COLUMNS.split(", "), row, strict=True))
    for name in ("request", "answer"):
        values[name] = json.loads(values[name] or "{}")
    return PlanRow(**values)


def digest(text: str | bytes) -> str:
    """What an instance or a body is known by."""
    data = text.encode() if isinstance(text, str) else text
    return hashlib.sha256(data).hexdigest()
