"""One process at a time in a folder.

The kernel lets go of the lock when the process ends, however it ends, so there are
no stale locks. What the lock itself made, its file and empty folders, goes with it:
a refusal leaves nothing behind.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from clusterfirst.files.atomic import disk_problem, make_folder
from clusterfirst.problem.errors import InputError, Problem

LOCK = ".lock"


@contextmanager
def locked(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Hold a folder, made if need be; E723 names the process that has it."""
    place = Path(folder)
    new = [each for each in (place, *place.parents) if not each.exists()]
    make_folder(place)
    try:
        handle = _hold(place)
        try:
            yield place
        finally:
            with suppress(OSError):
                os.unlink(place / LOCK)  # while it is ours
            os.close(handle)
    finally:
        for each in new:
            with suppress(OSError):  # it holds something by now
                each.rmdir()


@contextmanager
def waited_for(file: Path) -> Iterator[None]:
    """Hold a lock file that stays, after whoever has it now."""
    with open(file, "a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _hold(folder: Path) -> int:
    """Lock the file that is there; one that its holder removes meanwhile is not."""
    path = folder / LOCK
    while True:
        try:
            how = os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW
            handle = os.open(path, how, 0o666)
        except OSError as error:
            raise InputError(disk_problem(path, error)) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                if not re.fullmatch(rb"\d*", os.pread(handle, 20, 0)):
                    os.close(handle)
                    rule = "it is there already, and no lock of ours"
                    raise InputError(Problem("E734", "--out", str(path), rule))
                break
        except FileNotFoundError:
            pass
        except BlockingIOError as error:
            holder = os.pread(handle, 20, 0).decode(errors="replace").strip()
            os.close(handle)
            rule = f"it is in use by process {holder or 'unknown'}"
            raise InputError(Problem("E723", "folder", str(folder), rule)) from error
        os.close(handle)
    with suppress(OSError):  # the number is for the message only
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
    return handle
