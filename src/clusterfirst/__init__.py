"""clusterfirst: routes for your city in seconds.

The public names below are imported when they are first used (PEP 562), so that
`import clusterfirst` does no work.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from clusterfirst.cities.history import History as History
    from clusterfirst.cities.history import add_days as add_days
    from clusterfirst.cities.history import read_history as read_history
    from clusterfirst.cities.quote import Quoter as Quoter
    from clusterfirst.files import bundled_city as bundled_city
    from clusterfirst.files import read_city as read_city
    from clusterfirst.files import read_instance as read_instance
    from clusterfirst.files import read_instances as read_instances
    from clusterfirst.files import read_orders as read_orders
    from clusterfirst.files import read_solution as read_solution
    from clusterfirst.files import write_city as write_city
    from clusterfirst.files import write_instance as write_instance
    from clusterfirst.files import write_solution as write_solution
    from clusterfirst.files.picture import write_picture as write_picture
    from clusterfirst.problem.city import City as City
    from clusterfirst.problem.errors import ClusterfirstError as ClusterfirstError
    from clusterfirst.problem.errors import InfeasibleError as InfeasibleError
    from clusterfirst.problem.errors import InputError as InputError
    from clusterfirst.problem.errors import InputWarning as InputWarning
    from clusterfirst.problem.errors import NotFoundInTimeError as NotFoundInTimeError
    from clusterfirst.problem.errors import Problem as Problem
    from clusterfirst.problem.instance import Instance as Instance
    from clusterfirst.problem.sampling import sample_city as sample_city
    from clusterfirst.problem.sampling import sample_day as sample_day
    from clusterfirst.problem.sampling import sample_public as sample_public
    from clusterfirst.problem.sampling import sample_world as sample_world
    from clusterfirst.problem.solution import Solution as Solution
    from clusterfirst.problem.solution import Verdict as Verdict
    from clusterfirst.problem.solution import judge as judge
    from clusterfirst.solving.many import solve_many as solve_many
    from clusterfirst.solving.solver import Result as Result
    from clusterfirst.solving.solver import SolveOptions as SolveOptions
    from clusterfirst.solving.solver import solve as solve

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

__all__ = ["__version__", *sorted(_MODULE_OF)]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
