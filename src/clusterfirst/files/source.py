"""Bytes and text from a path the user gave, within limits.

Every reader starts here, so that a missing, endless, packed, binary or huge file
gets one sentence, whatever its format.
"""

from __future__ import annotations

import math
import os
import re
import stat
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from clusterfirst.problem.checks import inexact
from clusterfirst.problem.errors import InputError, InputWarning, Problem, quote
from clusterfirst.problem.instance import MAX_CUSTOMERS

MEGABYTE = 1 << 20
PACKED = {
    b"\x1f\x8b": "gzip data",
    b"PK\x03\x04": "zip data (rename it if it is an .xlsx file)",
    b"BZh": "bzip2 data",
    b"\xfd7zXZ": "xz data",
    b"\x28\xb5\x2f\xfd": "zstd data",
}
# Plain digits only: float() would also take "1_000", "nan" and Arabic digits.
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_NUMBER_CHARACTERS = set("0123456789+-.eE")
MAX_NUMBER_LENGTH = 400  # no float needs more, however it is written


@dataclass(frozen=True)
class Limits:
    """How much a reader takes before it refuses."""

    max_bytes: int = 64 * MEGABYTE
    max_customers: int = MAX_CUSTOMERS
    max_instances: int = 100_000  # in one file


DEFAULT_LIMITS = Limits()
MAX_LINE = 16 * MEGABYTE  # of text that is read line by line; JSON may be one line
MAX_COMPLAINTS = 1000  # a file with more faults than this is given up at once


@dataclass
class Complaints:
    """What is wrong with a file, collected so that a user sees all of it at once."""

    problems: list[Problem] = field(default_factory=list)

    def complain(
        self, code: str, where: str, got: str = "", rule: str = "", hint: str = ""
    ) -> None:
        """Remember one broken rule."""
        self.problems.append(Problem(code, where, got, rule, hint))
        if len(self.problems) >= MAX_COMPLAINTS:
            self.stop_if_wrong()

    def require_exact(self, text: str, where: str) -> None:
        """Refuse a demand or capacity that a float would change."""
        problem = inexact(text, where)
        if problem is not None:
            self.complain(problem.code, where, text, problem.rule)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Remember what is raised inside, but for places that are known to be wrong.

        Something right stands in for what was wrong there, and may be wrong elsewhere.
        """
        try:
            yield
        except InputError as error:
            known = {problem.where for problem in self.problems}
            self.problems += [p for p in error.problems if p.where not in known]

    def stop_if_wrong(self) -> None:
        """Raise what has been found so far."""
        if self.problems:
            raise InputError(self.problems)


def require_exact(words: Sequence[str], where: str) -> None:
    """Refuse demands or capacities that a float would change."""
    wrong = Complaints()
    for word in words:
        wrong.require_exact(word, where)
    wrong.stop_if_wrong()


@contextmanager
def named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name the file in every InputError that comes out of the block."""
    try:
        yield
    except InputError as error:
        if error.source:
            raise
        raise InputError(error.problems, source=quote(str(path))) from error


def read_bytes(
    path: str | os.PathLike[str],
    most: int = DEFAULT_LIMITS.max_bytes,
    option: str = "",
    *,
    growing: bool = False,
) -> bytes:
    """Return the content of a regular file of 1 to `most` bytes.

    This is how every file is read whose content is not our own doing. `option` is
    what raises the limit. A file that another program may append to meanwhile is
    `growing`; any other that changes under our eyes would be half old, half new.
    """
    try:
        data, steady = _read_regular(path, most, option)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or "not a file name"
        rule = f"cannot be read: {reason}"
        raise InputError(Problem("E102", "file", str(path), rule)) from error
    if len(data) > most:  # files of /proc say that they have no bytes
        raise InputError(_too_large(most, option))
    if not steady and not growing:
        rule = "it changed while it was read; try again"
        raise InputError(Problem("E102", "file", str(path), rule))
    if not data:
        raise InputError(Problem("E101", "file", "0 bytes", "it must not be empty"))
    return data


def _read_regular(
    path: str | os.PathLike[str], most: int, option: str
) -> tuple[bytes, bool]:
    """The bytes, at most one more than `most`, and whether they stood still.

    Looked at before it is opened, because opening a device may do something, and
    again after, because it may have been exchanged; opened without waiting, because
    a FIFO would wait for ever.
    """
    _require_regular(os.stat(path).st_mode)
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags), "rb") as file:
        before = os.fstat(file.fileno())
        _require_regular(before.st_mode)
        if before.st_size > most:  # not one byte of five gigabytes is read
            raise InputError(_too_large(most, option))
        data = file.read(most + 1)
        after = os.fstat(file.fileno())
    same = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    return data, same


def require_regular(path: str | os.PathLike[str]) -> None:
    """Refuse what would be waited for: a pipe, a socket, a device."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        rule = f"cannot be read: {getattr(error, 'strerror', None) or 'no file name'}"
        raise InputError(Problem("E102", "file", str(path), rule)) from error
    _require_regular(mode)


def _require_regular(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise InputError(Problem("E102", "file", "a folder", "a file is needed"))
    if not stat.S_ISREG(mode):
        rule = "only regular files are read; save the data to a file first"
        raise InputError(Problem("E104", "file", "a socket, pipe or device", rule))


def _too_large(most: int, option: str) -> Problem:
    limit = _size(most)
    rule = f"the limit is {limit}" + (f" ({option})" if option else "")
    return Problem("E104", "file", f"more than {limit}", rule)


def read_text(path: str | os.PathLike[str], limits: Limits = DEFAULT_LIMITS) -> str:
    """Return the text of a UTF-8 file; a byte-order mark and CRLF are accepted."""
    data = read_bytes(path, limits.max_bytes, "--max-bytes")
    for magic, kind in PACKED.items():
        if data.startswith(magic):
            rule = "unpack it first; from a spreadsheet, save as CSV UTF-8"
            raise InputError(Problem("E105", "file", kind, rule))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        utf16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
        kind = "UTF-16" if utf16 else "Latin-1 or Windows-1252"
        hint = f"it looks like {kind}: save it as UTF-8"
        got = f"bytes that are not UTF-8 text at byte {error.start}"
        raise InputError(
            Problem("E103", "file", got, "UTF-8 text is needed", hint)
        ) from error
    zero = text.find("\0")
    if zero >= 0:
        got = f"a NUL byte at character {zero}"
        raise InputError(Problem("E103", "file", got, "UTF-8 text is needed"))
    if not text.strip():
        got, rule = "only blank space", "it must not be empty"
        raise InputError(Problem("E101", "file", got, rule))
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if Path(path).suffix.lower() != ".json" and len(text) > MAX_LINE:
        longest = max(map(len, text.split("\n")))
        if longest > MAX_LINE:
            rule = f"the limit is {_size(MAX_LINE)}"
            got = f"a line of {longest} characters"
            raise InputError(Problem("E104", "file", got, rule))
    return text


def plain_number(text: str) -> float | None:
    """Return a finite number written in plain digits, or None."""
    if len(text) > MAX_NUMBER_LENGTH or not _NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if abs(value) != math.inf else None


def plain_numbers(words: Sequence[str]) -> list[float] | None:
    """Return many plain numbers quickly, or None if any word is not one."""
    if not set("".join(words)) <= _NUMBER_CHARACTERS:
        return None
    if max(map(len, words), default=0) > MAX_NUMBER_LENGTH:
        return None
    try:
        values = [float(word) for word in words]
    except ValueError:
        return None
    return None if math.inf in map(abs, values) else values


def number_hint(text: str) -> str:
    """Say what is probably wrong with text that is not a number."""
    if re.fullmatch(r"[+-]?\d+,\d+", text):
        return "write a decimal point"
    return (
        ""
        if text.lower().strip("+- ") in {"nan", "inf", "infinity"}
        else ("write plain digits")
    )


def check_title(name: str, where: str) -> None:
    """Refuse the name of an instance that cannot be printed on one line."""
    if len(name) > 200 or not name.isprintable():
        rule = "at most 200 printable characters"
        raise InputError(Problem("E304", where, name, rule))


def warn(problem: Problem) -> None:
    """Give a line on stderr about input that is accepted but odd."""
    warnings.warn(str(problem), InputWarning, stacklevel=4)


@contextmanager
def heard_warnings() -> Iterator[list[str]]:
    """Collect what `warn` says in the block, each line once; for one thread only."""
    lines: list[str] = []
    with warnings.catch_warnings(record=True) as odd:
        warnings.simplefilter("always", InputWarning)
        yield lines
    said = [str(w.message) for w in odd if issubclass(w.category, InputWarning)]
    lines += dict.fromkeys(said)


def _size(count: int) -> str:
    whole, rest = divmod(count, MEGABYTE)
    return f"{count} bytes" if rest else f"{whole} MB"
