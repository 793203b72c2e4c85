"""clusterfirst: routes for your city in seconds.

The public names below are imported when they are first used (PEP 562), so that
`import clusterfirst` does no work.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from clusterfirst.cities.history import History, add_days, read_history
    from clusterfirst.cities.quote import Quoter
    from clusterfirst.files import (
        bundled_city,
        read_city,
        read_instance,
        read_instances,
        read_orders,
        read_solution,
        write_city,
        write_instance,
        write_solution,
    )
    from clusterfirst.files.picture import write_picture
    from clusterfirst.problem.city import City
    from clusterfirst.problem.errors import (
        ClusterfirstError,
        InfeasibleError,
        InputError,
        InputWarning,
        NotFoundInTimeError,
        Problem,
    )
    from clusterfirst.problem.instance import Instance
    from clusterfirst.problem.sampling import (
        sample_city,
        sample_day,
        sample_public,
        sample_world,
    )
    from clusterfirst.problem.solution import Solution, Verdict, judge
    from clusterfirst.solving.many import solve_many
    from clusterfirst.solving.solver import Result, SolveOptions, solve

_HOME = {
    "cities.history": ["History", "add_days", "read_history"],
    "cities.quote": ["Quoter"],
    "problem.city": ["City"],
    "problem.errors": [
        "ClusterfirstError",
        "InfeasibleError",
        "InputError",
        "InputWarning",
        "NotFoundInTimeError",
        "Problem",
    ],
    "files": [
        "bundled_city",
        "read_city",
        "read_instance",
        "read_instances",
        "read_orders",
        "read_solution",
        "write_city",
        "write_instance",
        "write_solution",
    ],
    "problem.instance": ["Instance"],
    "solving.many": ["solve_many"],
    "files.picture": ["write_picture"],
    "problem.sampling": ["sample_city", "sample_day", "sample_public", "sample_world"],
    "problem.solution": ["Solution", "Verdict", "judge"],
    "solving.solver": ["Result", "SolveOptions", "solve"],
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "City",
    "ClusterfirstError",
    "History",
    "InfeasibleError",
    "InputError",
    "InputWarning",
    "Instance",
    "NotFoundInTimeError",
    "Problem",
    "Quoter",
    "Result",
    "Solution",
    "SolveOptions",
    "Verdict",
    "__version__",
    "add_days",
    "bundled_city",
    "judge",
    "read_city",
    "read_history",
    "read_instance",
    "read_instances",
    "read_orders",
    "read_solution",
    "sample_city",
    "sample_day",
    "sample_public",
    "sample_world",
    "solve",
    "solve_many",
    "write_city",
    "write_instance",
    "write_picture",
    "write_solution",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
