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

from clusterfirst.errors import InputError, InputWarning, Problem, quote
from clusterfirst.instance import MAX_CUSTOMERS

MEGABYTE = 1 << 20
PACKED = {
    b"\x1f\x8b": "gzip data",
    b"PK\x03\x04": "zip data (an .xlsx file is one too)",
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


DEFAULT_LIMITS = Limits()
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

    def stop_if_wrong(self) -> None:
        """Raise what has been found so far."""
        if self.problems:
            raise InputError(self.problems)


@contextmanager
def named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name the file in every InputError that comes out of the block."""
    try:
        yield
    except InputError as error:
        if error.source:
            raise
        raise InputError(error.problems, source=quote(str(path))) from error


def read_bytes(path: str | os.PathLike[str], limits: Limits = DEFAULT_LIMITS) -> bytes:
    """Return the content of a regular file of at most `limits.max_bytes`."""
    try:
        # Looked at before it is opened: opening a FIFO would wait for ever.
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise InputError(Problem("E102", "file", "a folder", "a file is needed"))
        if not stat.S_ISREG(mode):
            rule = "only regular files are read; save the data to a file first"
            raise InputError(Problem("E104", "file", "a pipe or device", rule))
        with Path(path).open("rb") as file:
            data = file.read(limits.max_bytes + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or "not a file name"
        rule = f"cannot be read: {reason}"
        raise InputError(Problem("E102", "file", str(path), rule)) from error
    if len(data) > limits.max_bytes:
        limit = _size(limits.max_bytes)
        got, rule = f"more than {limit}", f"the limit is {limit} (--max-bytes)"
        raise InputError(Problem("E104", "file", got, rule))
    if not data:
        rule = "an instance or solution is needed"
        raise InputError(Problem("E101", "file", "0 bytes", rule))
    return data


def read_text(path: str | os.PathLike[str], limits: Limits = DEFAULT_LIMITS) -> str:
    """Return the text of a UTF-8 file; a byte-order mark and CRLF are accepted."""
    data = read_bytes(path, limits)
    for magic, kind in PACKED.items():
        if data.startswith(magic):
            raise InputError(Problem("E105", "file", kind, "unpack it first"))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        utf16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
        hint = "it looks like UTF-16: save it as UTF-8" if utf16 else ""
        got = f"bytes that are not UTF-8 text at byte {error.start}"
        raise InputError(
            Problem("E103", "file", got, "UTF-8 text is needed", hint)
        ) from error
    zero = text.find("\0")
    if zero >= 0:
        got = f"a NUL byte at character {zero}"
        raise InputError(Problem("E103", "file", got, "UTF-8 text is needed"))
    if not text.strip():
        got, rule = "only blank space", "an instance or solution is needed"
        raise InputError(Problem("E101", "file", got, rule))
    return text.replace("\r\n", "\n").replace("\r", "\n")


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


def _size(count: int) -> str:
    whole, rest = divmod(count, MEGABYTE)
    return f"{count} bytes" if rest else f"{whole} MB"
