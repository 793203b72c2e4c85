"""Everything that can go wrong, as sentences a user can act on.

Each problem has a code (stable, listed in docs/errors.md), the place, what was
found there and the rule it breaks. The command line prints one line per problem
and ends with the exit code of the error's class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

INTERRUPTED = 130  # exit code after Ctrl-C
MAX_LINES = 20  # problems printed before "... and n more"
MAX_ECHO = 80  # characters of the user's own text repeated in a message


def quote(value: object) -> str:
    """Return the user's own text, cut and with control characters escaped."""
    text = value if isinstance(value, str) else repr(value)
    text = text if text.isprintable() else text.encode("unicode_escape").decode()
    return text if len(text) <= MAX_ECHO else text[: MAX_ECHO - 3] + "..."


@dataclass(frozen=True)
class Problem:
    """One broken rule: `CODE where: found got; rule. hint`."""

    code: str
    where: str
    got: str = ""
    rule: str = ""
    hint: str = ""

    def __str__(self) -> str:
        found = f"found {quote(self.got)}" if self.got else ""
        body = "; ".join(part for part in (found, self.rule) if part)
        tail = f" ({self.hint})" if self.hint else ""
        return f"{self.code} {quote(self.where)}: {body}{tail}"

    def as_dict(self) -> dict[str, str]:
        """Return the fields for `--json`."""
        return {
            "code": self.code,
            "where": quote(self.where),
            "got": quote(self.got),
            "rule": self.rule,
            "message": str(self),
        }


class ClusterfirstError(Exception):
    """Base of every error this package raises on purpose."""

    exit_code = 2

    def __init__(self, problems: Problem | Iterable[Problem], source: str = "") -> None:
        self.problems = (
            (problems,) if isinstance(problems, Problem) else tuple(problems)
        )
        self.source = source  # the file the user gave, if any
        super().__init__("\n".join(self.lines()))

    def __reduce__(self) -> tuple[type[ClusterfirstError], tuple[object, str]]:
        # Exceptions pickle their text by default; a worker's error must arrive with
        # its problems.
        return type(self), (self.problems, self.source)

    def lines(self) -> list[str]:
        """One line per problem, at most MAX_LINES."""
        prefix = f"{self.source}: " if self.source else ""
        lines = [f"{prefix}{problem}" for problem in self.problems[:MAX_LINES]]
        if len(self.problems) > MAX_LINES:
            lines.append(f"{prefix}... and {len(self.problems) - MAX_LINES} more")
        return lines


class InputError(ClusterfirstError, ValueError):
    """Wrong file, instance, option, model file or disk (exit code 2)."""


class InfeasibleError(ClusterfirstError):
    """No feasible solution exists: proven, in words (exit code 1)."""

    exit_code = 1


class NotFoundInTimeError(ClusterfirstError):
    """None was found in time; infeasibility is not proven (exit code 1)."""

    exit_code = 1


class InputWarning(UserWarning):
    """Input that is accepted but deserves a line on stderr."""


def stop_if_wrong(problems: Sequence[Problem]) -> None:
    """Raise what has been found."""
    if problems:
        raise InputError(problems)


def require_one_of(where: str, got: str, known: Iterable[str]) -> None:
    """Refuse an option that is none of the words it may be."""
    known = list(known)
    if got not in known:
        rule = f"must be one of {', '.join(known)}"
        raise InputError(Problem("E404", where, got, rule))


def require_whole(where: str, got: int, low: int, high: int) -> None:
    """Refuse an option out of its range."""
    if not low <= got <= high:
        rule = f"must be a whole number from {low} to {high}"
        raise InputError(Problem("E404", where, str(got), rule))


def require_rules(
    settings: object,
    rules: Mapping[str, tuple[bool, str]],
    code: str = "E404",
    prefix: str = "",
) -> None:
    """Raise InputError for the settings whose rule (whether kept, words) is broken."""
    stop_if_wrong(broken_rules(settings, rules, code, prefix))


def broken_rules(
    settings: object,
    rules: Mapping[str, tuple[bool, str]],
    code: str = "E404",
    prefix: str = "",
) -> list[Problem]:
    """Return a problem for each setting whose rule is broken."""
    return [
        Problem(code, prefix + name, str(getattr(settings, name)), rule)
        for name, (kept, rule) in rules.items()
        if not kept
    ]
