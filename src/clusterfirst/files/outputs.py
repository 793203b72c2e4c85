"""Where answers go: the one place that decides the path of everything written.

Before a command begins its work it claims every file that it will write. A name from
inside a file never becomes a path, nothing is written outside of what `--out` names or
over an input of the same command, and whether there is room is tried, not assumed.
A folder that a command fills in several runs is claimed with `resumed`: what an earlier
run left may be replaced, what anybody else did may not.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import tempfile
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from clusterfirst.files.atomic import disk_problem, real_place
from clusterfirst.problem.errors import InputError, Problem

ROOM = 1 << 16  # bytes that are written to try a folder; most answers are smaller
MAX_NAME = 200  # bytes; file systems take 255, and others may add to a name
# Separators, and what Windows refuses; control characters are never printable.
_UNSAFE = re.compile(r'[/\\<>:"|?*]')
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


def file_name(name: str, suffix: str) -> str:
    """Return a file name for what the user calls `name`, which may be anything."""
    safe = "".join(c if c.isprintable() else "_" for c in _UNSAFE.sub("_", name))
    safe = safe.encode("utf-8", "replace").decode().rstrip(". ").lstrip()
    if safe.startswith((".", "-", "~")):  # hidden, an option, a home
        safe = "_" + safe
    if not safe or _DEVICES.fullmatch(safe):
        safe = f"_{safe}"
    data = safe.encode()
    most = MAX_NAME - len(suffix.encode())
    if len(data) > most:  # two long names that begin alike stay two
        mark = hashlib.sha256(data).hexdigest()[:12]
        safe = data[: most - 13].decode(errors="ignore") + f"-{mark}"
    return safe + suffix


@dataclass
class Outputs:
    """The files one command writes, claimed before it begins.

    `inputs` are the files, and folders of files, that the command reads.
    """

    inputs: Iterable[Path] = ()
    overwrite: bool = False
    _read: set[Path] = field(init=False, repr=False, default_factory=set)
    _read_nodes: set[tuple[int, int]] = field(
        init=False, repr=False, default_factory=set
    )
    _claimed: dict[str, str] = field(init=False, repr=False, default_factory=dict)
    _tried: set[Path] = field(init=False, repr=False, default_factory=set)

    def __post_init__(self) -> None:
        for path in self.inputs:
            for file in path.iterdir() if path.is_dir() else [path]:
                self._read.add(Path(os.path.realpath(file)))
                self._read_nodes |= _node(file)

    def file(self, path: Path, owner: str = "") -> Path:
        """Claim a file the user named; an older one is replaced."""
        place = self._claim(path, owner)
        if not place.parent.is_dir():
            missing = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            raise InputError(disk_problem(path, missing))
        self._try(place.parent)
        return path

    def inside(self, folder: Path, name: str, owner: str = "") -> Path:
        """Claim a file in a folder the user named; `file_name` has made its name.

        The folder is filled, but what is there stays unless `overwrite` is set.
        """
        path = folder / name
        place = self._claim(path, owner)
        home = Path(os.path.realpath(folder))
        if place.parent != home:
            raise InputError(_leads_out(path))
        if os.path.lexists(path) and not self.overwrite:
            rule = "it is there already; add --overwrite, or name another folder"
            raise InputError(Problem("E734", "--out", str(path), rule))
        self._try(home)
        return path

    def resumed(self, folder: Path, names: Iterable[str], *, ours: bool) -> None:
        """Claim files in a folder that the same command may have begun to fill.

        `ours`: it holds what only an earlier run of this command leaves. A name with a
        slash at its end is a folder, which is filled whoever made it.
        """
        home = Path(os.path.realpath(folder))
        for name in names:
            path = folder / name
            if not Path(os.path.realpath(path)).is_relative_to(home):
                raise InputError(_leads_out(path))
            if name.endswith("/"):
                continue
            self._claim(path, "")
            if os.path.lexists(path) and not ours:
                rule = "it is there already, not of this command; name another folder"
                raise InputError(Problem("E734", "--out", str(path), rule))
        self._try(home)

    def _claim(self, path: Path, owner: str) -> Path:
        """The real place, if it is no input and nobody else's."""
        place = real_place(path)
        # Hard links have one node and several names.
        if place in self._read or _node(place) & self._read_nodes:
            rule = "this is an input of the same command and would be lost"
            raise InputError(Problem("E734", "--out", str(path), rule))
        # Some file systems take upper and lower case, or two ways to write an
        # accent, for the same.
        key = unicodedata.normalize("NFC", str(place)).casefold()
        if key in self._claimed:
            others = self._claimed[key]
            rule = f"two answers would go there{others and f': that of {others} too'}"
            raise InputError(Problem("E734", "--out", str(path), rule))
        self._claimed[key] = owner
        return place

    def _try(self, folder: Path) -> None:
        """Write some bytes to the folder, or to where it will be, and forget them."""
        place = folder
        while not os.path.lexists(place) and place != place.parent:
            place = place.parent
        if place in self._tried:
            return
        try:
            disk = shutil.disk_usage(place)
            if disk.total and disk.free < ROOM:  # what the kernel makes up has no size
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            with tempfile.TemporaryFile(dir=place) as file:
                file.write(bytes(ROOM))
        except OSError as error:
            raise InputError(disk_problem(folder, error)) from error
        self._tried.add(place)


def _leads_out(path: Path) -> Problem:
    rule = "this is a link to a place outside of the folder"
    return Problem("E734", "--out", str(path), rule)


def _node(path: Path) -> set[tuple[int, int]]:
    """What the file system calls the file behind a name, if there is one."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return set()
    return {(found.st_dev, found.st_ino)}
