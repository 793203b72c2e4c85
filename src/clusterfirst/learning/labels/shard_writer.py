"""Writing label shards: nothing acknowledged is lost, whatever happens.

A record is one `write`, so a killed process loses none that `append` returned for;
it counts as acknowledged, safe against a power cut too, after the next fsync
(SYNC_SECONDS later at most, and at `close`). A kill inside a write leaves a torn
tail, which the next writer cuts under the folder's lock.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType

from clusterfirst.cities.history import write_history
from clusterfirst.files.atomic import make_folder, write_bytes, write_text
from clusterfirst.files.city_folder import write_city
from clusterfirst.files.lock import locked
from clusterfirst.files.outputs import Outputs
from clusterfirst.learning.labels.shards import (
    SUFFIX,
    city_folder,
    encode_frame,
    encode_header,
    read_manifest,
    read_shard,
    scan,
    shard_paths,
    warn,
    warn_if_short,
)
from clusterfirst.learning.labels.sources import Source
from clusterfirst.problem.errors import InputError, Problem

SHARD_BYTES = 16 * 2**20  # a shard above this size is full
SYNC_SECONDS = 0.2
DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class ShardWriter:
    """Appends records of one source to a folder; a context manager.

    Holds the folder's lock (files/lock.py).
    """

    def __init__(self, folder: Path, source: Source) -> None:
        self.folder, self.source = Path(folder), source
        self.written = 0  # records appended by this writer
        self.acknowledged = 0  # of these, on the disk for certain
        self._file = -1
        self._lock = contextlib.ExitStack()
        self._lock.enter_context(locked(self.folder))
        try:
            self._claim()
            with _disk_errors(self):
                repair(self.folder)
                if source.city is not None and not (self._city / "city.json").exists():
                    if source.law is not None:
                        write_history(make_folder(self._city), source.law.history)
                    write_city(self._city, source.city)
                self._open_last()
        except BaseException:
            self._lock.close()
            raise

    def _claim(self) -> None:
        """Take the folder: shards are the mark of one that labels were made in."""
        shards = [path.name for path in shard_paths(self.folder)]
        names = [*shards, self._name(0), "manifest.json"]
        if self.source.city is not None:
            names.append(f"{self._city.name}/")
        Outputs().resumed(self.folder, dict.fromkeys(names), ours=bool(shards))

    @property
    def _city(self) -> Path:
        """Where the city of the source is kept."""
        assert self.source.city is not None
        days = "" if self.source.law is None else self.source.law.digest
        return city_folder(self.folder, self.source.city.hash, days)

    def _name(self, number: int) -> str:
        return f"{self.source.key}-{number:04d}{SUFFIX}"

    def append(self, body: bytes) -> None:
        """Write a record; it is acknowledged after the next fsync."""
        frame = encode_frame(body)
        with _disk_errors(self):
            if self._size >= SHARD_BYTES:
                self.sync()
                self._create(self._number + 1)
            try:
                _write_all(self._file, frame)
            except OSError:
                # Leave no half record behind, so that what is there stays whole.
                with contextlib.suppress(OSError):
                    os.ftruncate(self._file, self._size)
                raise
            self._size += len(frame)
            self.written += 1
            if time.monotonic() - self._synced >= SYNC_SECONDS:
                self.sync()

    def sync(self) -> None:
        """Acknowledge everything appended so far."""
        with _disk_errors(self):
            os.fsync(self._file)
        self._synced = time.monotonic()
        self.acknowledged = self.written

    def close(self) -> None:
        """Acknowledge, bring the manifest up to date and release the folder."""
        try:
            self.sync()
            with _disk_errors(self):
                write_manifest(self.folder)
        finally:
            os.close(self._file)
            self._lock.close()

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
            return
        with contextlib.suppress(InputError):  # the first error is the one to tell
            self.close()

    def _open_last(self) -> None:
        ours = re.compile(f"{self.source.key}-([0-9]{{4,9}}){SUFFIX}")
        paths = [path for path in shard_paths(self.folder) if ours.fullmatch(path.name)]
        if not paths:
            self._create(0)
            return
        self._number = int(paths[-1].stem.rsplit("-", 1)[1])
        self._attach(paths[-1])

    def _create(self, number: int) -> None:
        self._number = number
        path = self.folder / self._name(number)
        write_bytes(path, encode_header(self.source))
        self._attach(path)

    def _attach(self, path: Path) -> None:
        before, self._file = self._file, os.open(path, os.O_WRONLY | os.O_APPEND)
        if before >= 0:
            os.close(before)
        self._size = os.fstat(self._file).st_size
        self._synced = time.monotonic()


def repair(folder: Path) -> None:
    """Cut torn tails; set damaged shards aside and keep their good records.

    Only for the holder of the folder's lock: another writer's record in the making
    looks like a torn tail.
    """
    manifest = read_manifest(folder)
    for path in shard_paths(folder):
        data = read_shard(path)
        found = scan(data)
        warn_if_short(path, len(data), found, manifest)
        if found.torn:
            cut = len(data) - found.good_bytes
            warn(f"W711 {path.name}: last record incomplete, cut {cut} bytes")
            with path.open("r+b") as file:
                file.truncate(found.good_bytes)
                os.fsync(file.fileno())
        elif found.damage:
            aside = _free_name(path)
            rule = f"file set aside as {aside.name}, the records before it are kept"
            warn(f"E712 {path.name} {found.damage}; {rule}")
            os.link(path, aside)
            if found.bodies:
                write_bytes(path, data[: found.good_bytes])
            else:
                path.unlink()


def write_shards(folder: Path, source: Source, bodies: Iterable[bytes]) -> int:
    """Write records in the given order; return their number."""
    with ShardWriter(folder, source) as writer:
        for body in bodies:
            writer.append(body)
        return writer.written


def write_manifest(folder: Path) -> None:
    """List every shard with its records, bytes, sha256 and source."""
    shards = {}
    for path in shard_paths(folder):
        data = read_shard(path)
        found = scan(data)
        shards[path.name] = {
            "records": len(found.bodies),
            "bytes": found.good_bytes,
            "sha256": hashlib.sha256(data[: found.good_bytes]).hexdigest(),
            "name": found.name,
            "source": found.description,
        }
    text = json.dumps({"format": 1, "shards": shards}, indent=1, sort_keys=True)
    write_text(folder / "manifest.json", text + "\n")


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _free_name(path: Path) -> Path:
    for number in range(1, 1000):
        name = path.with_name(f"{path.name}.{number}.corrupt")
        if not name.exists():
            return name
    raise InputError(Problem("E712", path.name, rule="too many damaged files aside"))


@contextlib.contextmanager
def _disk_errors(writer: ShardWriter) -> Iterator[None]:
    """Turn errors of the disk into one sentence."""
    try:
        yield
    except OSError as error:
        reason = "disk full" if error.errno in DISK_FULL else error.strerror
        rule = (
            f"{reason}; the {writer.acknowledged} records acknowledged before are "
            "safe, run again to continue"
        )
        problem = Problem("E732", str(writer.folder), rule=rule)
        raise InputError(problem) from error
