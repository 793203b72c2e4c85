"""Files are written beside their place and renamed into it.

Whoever reads the path sees the old file or the whole new one, never a part, also
after a crash: the data is on the disk before the name points to it.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from clusterfirst.problem.errors import InputError, Problem

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file that takes the place of `path` when the block ends without error."""
    target = real_place(path)
    # Cut, because a name may have 255 bytes; random, because others may write too.
    beside = target.with_name(f".{target.name[:40]}.{secrets.token_hex(6)}.part")
    try:
        with beside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
        sync_folder(target.parent)
    except BaseException as error:
        with suppress(OSError):
            beside.unlink()
        if isinstance(error, OSError):
            raise InputError(disk_problem(path, error)) from error
        raise


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a whole file, or nothing."""
    with replacing(path) as file:
        file.write(data)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a whole UTF-8 text file, or nothing."""
    write_bytes(path, text.encode("utf-8"))


def make_folder(path: str | os.PathLike[str]) -> Path:
    """Make a folder and its parents unless it is there already."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise InputError(disk_problem(path, error)) from error
    return folder


def real_place(path: str | os.PathLike[str]) -> Path:
    """Return the real place behind links, if it may be replaced by a file."""
    try:
        target, named = Path(os.path.realpath(path)), Path(path)
        # What is named: behind /dev/stdout is a pipe that has no path of its own.
        blocked = named.exists() and not named.is_file()
        what = "a folder" if named.is_dir() else "not a regular file"
    except (OSError, ValueError) as error:
        raise InputError(disk_problem(path, error)) from error
    if blocked:
        rule = f"cannot write: it is {what}"
        raise InputError(Problem("E731", "output", str(path), rule))
    return target


def disk_problem(path: str | os.PathLike[str], error: Exception) -> Problem:
    """Say why a place cannot be written to."""
    if isinstance(error, OSError) and error.errno in _FULL:
        rule = "the disk is full; a file that was there before is untouched"
        return Problem("E732", "output", str(path), rule)
    reason = getattr(error, "strerror", None) or "not a file name"
    if getattr(error, "errno", None) == errno.ENOTDIR:
        reason = "a part of this path is no folder"
    return Problem("E731", "output", str(path), f"cannot write: {reason}")


def sync_folder(folder: Path) -> None:
    """Put the new name itself on the disk, where the file system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
