"""What `solve` returns: a judged answer and how it came about."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from clusterfirst.files.solutions import plan_document
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, Verdict


@dataclass(frozen=True)
class Result:
    """A judged answer and how it came about."""

    instance: Instance
    solution: Solution
    verdict: Verdict
    status: str  # a sentence
    method: str
    seconds: dict[str, float]  # by stage, start-up not included
    seed: int = 0
    startup: float = 0.0  # imports, compilation and weights, paid once per process
    interrupted: bool = False
    notes: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(
        default_factory=dict
    )  # arrays for `explain`, and who answered instead
    unserved: dict[str, str] = field(default_factory=dict)  # orders that stay, and why

    def as_dict(self) -> dict[str, Any]:
        """Everything but the arrays, for JSON."""
        return {
            "instance": self.instance.name,
            "method": self.method,
            "status": self.status,
            "cost": self.verdict.cost,
            "unit": self.instance.unit,
            "rounding": self.instance.rounding,
            **plan_document(self.instance, self.solution, self.verdict),
            **({"unserved": self.unserved} if self.unserved else {}),
            **({"familiar": told} if (told := self.details.get("familiar")) else {}),
            "capacity": self.instance.capacity,
            "seed": self.seed,
            "notes": self.notes,
            "seconds": {**self.seconds, "start-up": self.startup},
            "versions": versions(),
        }


@cache
def versions() -> dict[str, str]:
    """Versions of what an answer depends on."""
    found = {"python": platform.python_version()}
    for package in ("clusterfirst", "numpy", "numba", "highspy", "torch"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
