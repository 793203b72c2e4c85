"""Shards under kills, damage, full disks and rival writers."""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from clusterfirst.learning.labels import shard_writer
from clusterfirst.learning.labels.shard_writer import ShardWriter, write_shards
from clusterfirst.learning.labels.shards import read_shards, scan, shard_paths
from clusterfirst.learning.labels.sources import world
from clusterfirst.problem.errors import InputError, InputWarning

SOURCE = world(seed=1)
BODIES = [
    np.random.default_rng(i).bytes(int(size))
    for i, size in enumerate(np.random.default_rng(0).integers(0, 60, 8))
]


def _bodies(folder: Path) -> list[bytes]:
    return [body for _, bodies in read_shards(folder) for body in bodies]


def _write(folder: Path, bodies: list[bytes]) -> bytes:
    write_shards(folder, SOURCE, bodies)
    (path,) = shard_paths(folder)
    return path.read_bytes()


def _in_child(work: Callable[[], None]) -> int:
    """Run in a forked process; return its wait status."""
    child = os.fork()
    if not child:
        warnings.simplefilter("ignore")
        try:
            work()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Bodies come back in order, over several runs and full shards."""
    whole = _write(tmp_path / "once", BODIES)
    for body in BODIES:
        write_shards(tmp_path / "often", SOURCE, [body])
    assert _bodies(tmp_path / "often") == BODIES
    assert shard_paths(tmp_path / "often")[0].read_bytes() == whole


def test_full_shards_are_followed_by_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shard above the size limit is left alone and the next one begun."""
    monkeypatch.setattr(shard_writer, "SHARD_BYTES", 120)
    write_shards(tmp_path, SOURCE, BODIES)
    assert len(shard_paths(tmp_path)) > 2
    assert _bodies(tmp_path) == BODIES


def _kill_at(call: int, part: float) -> None:
    """Let the call-th write, fsync or rename end the process, writes half done."""
    count = 0

    def counting(name: str) -> None:
        real = getattr(os, name)

        def counted(*arguments: object) -> object:
            nonlocal count
            count += 1
            if count == call:
                if name == "write":
                    file, data = arguments
                    real(file, bytes(data)[: int(part * len(bytes(data)))])  # type: ignore[call-overload]
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments)

        setattr(os, name, counted)

    for name in ("write", "fsync", "replace", "link"):
        counting(name)


@pytest.mark.parametrize("part", [0.0, 0.5])
def test_a_kill_at_every_system_call_loses_nothing_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: float
) -> None:
    """Kill at call 1, 2, ...: all that append returned for is there, in order.

    Running again then gives the very bytes of the run that was never killed.
    """
    monkeypatch.setattr(shard_writer, "SYNC_SECONDS", 0)
    whole = _write(tmp_path / "whole", BODIES)
    for call in range(1, 200):
        folder = tmp_path / str(call)
        ours, theirs = os.pipe()

        def work(folder: Path = folder, call: int = call, ack: int = theirs) -> None:
            shout = os.write
            _kill_at(call, part)
            with ShardWriter(folder, SOURCE) as writer:
                for body in BODIES:
                    writer.append(body)
                    shout(ack, b"+")

        status = _in_child(work)
        os.close(theirs)
        acknowledged = len(os.read(ours, 1000))
        os.close(ours)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)  # torn tails are cut
            with ShardWriter(folder, SOURCE):
                pass
            found = _bodies(folder)
            assert found == BODIES[: len(found)]
            assert len(found) >= acknowledged
            assert _write(folder, BODIES[len(found) :]) == whole
        if not os.WIFSIGNALED(status):
            break
    assert call > 2 * len(BODIES)  # every write and fsync was a point of death


def test_kills_at_random_moments_lose_nothing(tmp_path: Path) -> None:
    """A writer killed again and again: every record it reported is there, once.

    `CLUSTERFIRST_KILLS` sets the number of kills (log/ has a run with 200).
    """
    rng = random.Random(7)
    bodies = [rng.randbytes(rng.randrange(300)) for _ in range(10_000)]
    had = 0
    for _ in range(int(os.environ.get("CLUSTERFIRST_KILLS", "10"))):
        ours, theirs = os.pipe()
        child = os.fork()
        if not child:
            warnings.simplefilter("ignore")
            with ShardWriter(tmp_path, SOURCE) as writer:
                for number in range(had, len(bodies)):
                    writer.append(bodies[number])
                    os.write(theirs, number.to_bytes(4, "little"))
            os._exit(0)
        os.close(theirs)
        time.sleep(rng.uniform(0, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(ours, "rb") as acknowledgements:
            said = acknowledgements.read()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            found = _bodies(tmp_path) if tmp_path.exists() else []
        reported = int.from_bytes(said[-4:], "little") + 1 if said else had
        assert found == bodies[: len(found)]
        assert len(found) >= reported
        had = len(found)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        write_shards(tmp_path, SOURCE, bodies[had:])
    assert _bodies(tmp_path) == bodies


def test_every_truncation_leaves_a_good_prefix(tmp_path: Path) -> None:
    """A file cut at any byte gives the records before the cut and no others."""
    whole = _write(tmp_path, BODIES)
    start = scan(_write(tmp_path / "empty", [])).good_bytes
    for size in range(len(whole)):
        found = scan(whole[:size])
        assert found.bodies == BODIES[: len(found.bodies)]
        assert found.good_bytes <= size
        assert bool(found.damage) == (found.good_bytes < size or size < start)


def test_every_flipped_byte_is_noticed(tmp_path: Path) -> None:
    """No single wrong byte yields a wrong record, or goes unsaid."""
    whole = _write(tmp_path, BODIES)
    for position in range(len(whole)):
        for flip in (0x01, 0x80, 0xFF):
            data = bytearray(whole)
            data[position] ^= flip
            found = scan(bytes(data))
            assert found.damage
            assert found.bodies == BODIES[: len(found.bodies)]


def test_a_torn_tail_is_cut_with_a_warning(tmp_path: Path) -> None:
    """The next writer cuts an unfinished record and says how many bytes."""
    whole = _write(tmp_path, BODIES)
    (path,) = shard_paths(tmp_path)
    path.write_bytes(whole + b"\x05\x00\x00\x00\xfa\xff")
    with pytest.warns(InputWarning, match="W711 .*cut 6 bytes"):
        write_shards(tmp_path, SOURCE, [])
    assert path.read_bytes() == whole


def test_a_damaged_middle_is_set_aside(tmp_path: Path) -> None:
    """The damaged file is kept under another name; its good prefix stays in use."""
    whole = _write(tmp_path, BODIES)
    (path,) = shard_paths(tmp_path)
    damaged = whole[:-30] + b"x" + whole[-29:]
    path.write_bytes(damaged)
    with pytest.warns(InputWarning, match="E712 .*the records before it are used"):
        assert _bodies(tmp_path) == BODIES[: len(_bodies(tmp_path))]
    with pytest.warns(InputWarning, match=r"E712 .*\.corrupt"):
        write_shards(tmp_path, SOURCE, [])
    (aside,) = tmp_path.glob("*.corrupt")
    assert aside.read_bytes() == damaged
    kept = _bodies(tmp_path)
    assert 0 < len(kept) < len(BODIES)
    assert kept == BODIES[: len(kept)]


def test_records_lost_at_a_boundary_are_noticed(tmp_path: Path) -> None:
    """A file cut between two records is shorter than its manifest says."""
    _write(tmp_path, BODIES[:8])
    _write(tmp_path / "short", BODIES[:5])
    data = shard_paths(tmp_path / "short")[0].read_bytes()
    shard_paths(tmp_path)[0].write_bytes(data)
    with pytest.warns(InputWarning, match="W714 .*3 of its records are missing"):
        assert _bodies(tmp_path) == BODIES[:5]


def test_a_second_writer_is_refused_and_told_who_writes(tmp_path: Path) -> None:
    """The folder has one writer; the sentence names its process."""
    with (
        ShardWriter(tmp_path, SOURCE),
        pytest.raises(InputError, match=f"E723 .*in use by process {os.getpid()}"),
    ):
        ShardWriter(tmp_path, world(seed=2))
    with ShardWriter(tmp_path, SOURCE):
        pass


def test_the_lock_dies_with_its_holder(tmp_path: Path) -> None:
    """After SIGKILL of a writer the folder is free at once, every time."""

    def hold() -> None:
        ShardWriter(tmp_path, SOURCE)
        os.kill(os.getpid(), signal.SIGKILL)

    for _ in range(20):
        assert os.WIFSIGNALED(_in_child(hold))
        with ShardWriter(tmp_path, SOURCE):
            pass


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_failing_disk_is_one_sentence_and_a_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Whichever write fails, half done: a clean stop, and running again completes."""
    real = os.write
    for fatal in range(1, len(BODIES) + 1):
        count = 0

        def fails(file: int, data: bytes, fatal: int = fatal) -> int:
            nonlocal count
            count += 1
            if count == fatal:
                return real(file, bytes(data)[: len(data) // 2])
            if count > fatal:
                raise OSError(code, os.strerror(code))
            return real(file, data)

        folder = tmp_path / str(fatal)
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", fails)
            with pytest.raises(InputError, match=r"E732 .*run again to continue"):
                write_shards(folder, SOURCE, BODIES)
        found = _bodies(folder)
        assert found == BODIES[: fatal - 1]
        write_shards(folder, SOURCE, BODIES[len(found) :])
        assert _bodies(folder) == BODIES


def test_a_file_size_limit_ends_in_the_same_sentence(tmp_path: Path) -> None:
    """With a real limit of the kernel the records before it are whole."""

    def work() -> None:
        try:
            with ShardWriter(tmp_path, SOURCE) as writer:  # which tries the disk first
                resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
                for body in BODIES * 10:
                    writer.append(body)
        except InputError as error:
            os._exit(7 if error.problems[0].code == "E732" else 1)

    assert os.waitstatus_to_exitcode(_in_child(work)) == 7
    found = _bodies(tmp_path)
    assert found
    assert found == (BODIES * 10)[: len(found)]


def test_bad_places_are_named(tmp_path: Path) -> None:
    """A file in place of the folder, or no folder to read, is one sentence."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="E73"):
        ShardWriter(tmp_path / "file", SOURCE)
    with pytest.raises(InputError, match="E711"):
        list(read_shards(tmp_path / "nowhere"))
