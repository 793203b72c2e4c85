"""From what the user typed to instances: files, folders and days of a city."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from clusterfirst.commands import options
from clusterfirst.problem.errors import InputError, Problem, quote, require_whole

if TYPE_CHECKING:
    from clusterfirst.cities.day_law import DayLaw
    from clusterfirst.cities.history import History
    from clusterfirst.files import Limits
    from clusterfirst.files.day import Asked
    from clusterfirst.problem.city import City
    from clusterfirst.problem.instance import Instance
    from clusterfirst.problem.solution import Solution

BUNDLED = "bundled"  # the name of the city that comes with the package
SUFFIXES = (".vrp", ".json", ".txt", ".npz", ".csv", ".xlsx")
TABLES = (".csv", ".xlsx")


def open_city(name: str) -> City:
    """Return the city in a folder, or the one that comes with the package."""
    from clusterfirst.files import bundled_city, read_city

    return bundled_city() if name == BUNDLED else read_city(name)


def place_to_learn(name: str) -> Path:
    """Return the folder in a city's own for what `learn` makes."""
    if name == BUNDLED:
        rule = "the bundled city has no folder of its own; name one"
        raise InputError(Problem("E404", "--out", rule=rule))
    return Path(name) / "learned"


def learned_model(name: str | None) -> str | None:
    """Return the model that a city has learned, if it has."""
    if name is None or name == BUNDLED:
        return None
    found = place_to_learn(name) / "model"
    return str(found) if (found / "manifest.json").is_file() else None


def open_history(name: str) -> History:
    """Return a city with its past days; the bundled one has none."""
    from clusterfirst.cities.history import History, read_history

    city = open_city(name)
    return History(city) if name == BUNDLED else read_history(name, city)


def open_law(name: str) -> DayLaw:
    """Return the law of a city's days, fitted to those it remembers."""
    from clusterfirst.cities.day_law import fit

    return fit(open_history(name))


def expand(paths: Sequence[Path], suffixes: tuple[str, ...] = SUFFIXES) -> list[Path]:
    """Return the files, with each folder replaced by those in it that fit."""
    files: list[Path] = []
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue
        inside = sorted(p for p in path.iterdir() if p.suffix.lower() in suffixes)
        if not inside:
            rule = f"no file in this folder ends in {', '.join(suffixes)}"
            raise InputError(Problem("E102", "folder", str(path), rule))
        files.extend(inside)
    return files


def is_set(source: Path) -> bool:
    """Whether a file holds many instances under names of its own."""
    return source.suffix.lower() in (".txt", ".npz")


def folders_read(city: str | None, model: str | None) -> list[Path]:
    """Return the folders, of those the user named, whose files must not be lost."""
    return [Path(name) for name in (city, model) if name and Path(name).is_dir()]


@dataclass(frozen=True)
class DayFiles:
    """The options that say what a day has beside its orders."""

    vehicles: str | None = None  # a number, or a table
    matrix: Path | None = None
    durations: Path | None = None
    matrix_ids: Path | None = None
    speed: float | None = None
    allow_unserved: bool = False

    @property
    def number(self) -> int | None:
        """The limit on the fleet, if it is a number."""
        word = (self.vehicles or "").strip()
        plain = word.lstrip("+-").isdecimal() and len(word) <= 18
        return int(word) if plain else None

    @property
    def table(self) -> Path | None:
        """The table of vehicles, if it is one."""
        given = self.vehicles is not None and self.number is None
        return Path(str(self.vehicles)) if given else None

    @property
    def paths(self) -> list[Path]:
        """The files that are read."""
        files = (self.table, self.matrix, self.durations, self.matrix_ids)
        return [path for path in files if path is not None]

    def read(self, limits: Limits) -> Asked:
        """Return what the files say."""
        from clusterfirst.files.day import Asked
        from clusterfirst.files.matrices import read_matrices
        from clusterfirst.files.tables import TABLES
        from clusterfirst.files.vehicles import read_fleet

        fleet = None
        if self.table is not None:
            if self.table.suffix.lower() not in TABLES:
                rule = f"must be a whole number or a table ({', '.join(TABLES)})"
                got = str(self.vehicles)
                raise InputError(Problem("E404", "--vehicles", got, rule))
            fleet = read_fleet(self.table, limits)
        if self.matrix_ids is not None and not (self.matrix or self.durations):
            rule = "it names the rows of --matrix or --durations, and there is none"
            got = str(self.matrix_ids)
            raise InputError(Problem("E404", "--matrix-ids", got, rule))
        ids = self.matrix_ids
        return Asked(
            fleet,
            None if self.matrix is None else read_matrices(self.matrix, ids, limits),
            None
            if self.durations is None
            else read_matrices(self.durations, ids, limits, durations=True),
            self.speed,
            self.allow_unserved,
        )


@dataclass(frozen=True)
class Reader:
    """Everything on the command line that says how files are to be read."""

    city_name: str | None = None
    capacity: float | None = None
    files: DayFiles = DayFiles()
    rounding: str | None = None
    max_customers: int = options.MAX_CUSTOMERS
    max_bytes: int = options.MAX_BYTES

    def __post_init__(self) -> None:
        from clusterfirst.problem.instance import Instance

        for name in ("max_customers", "max_bytes"):
            where = f"--{name.replace('_', '-')}"
            require_whole(where, getattr(self, name), 1, 2**62)
        # A city without customers checks the other options before any file is read.
        empty: dict[str, Any] = {"demands": [0], "capacity": 1, "coords": [[0, 0]]}
        Instance(**(empty | self._changes))
        if self.files.table is not None and self.capacity is not None:
            rule = "the table of vehicles has the capacities; leave one of the two out"
            raise InputError(Problem("E404", "--capacity", f"{self.capacity:g}", rule))

    @property
    def _changes(self) -> dict[str, Any]:
        """What the options change in an instance as it is read."""
        given = {
            "capacity": self.capacity,
            "vehicles": self.files.number,
            "rounding": self.rounding,
        }
        return {name: value for name, value in given.items() if value is not None}

    @property
    def limits(self) -> Limits:
        """How much is read before refusing."""
        from clusterfirst.files import Limits

        return Limits(max_bytes=self.max_bytes, max_customers=self.max_customers)

    @cached_property
    def city(self) -> City | None:
        """The city of `--city`, read once."""
        return None if self.city_name is None else open_city(self.city_name)

    @cached_property
    def asked(self) -> Asked:
        """What the tables beside the orders say, read once."""
        return self.files.read(self.limits)

    def instances(self, path: Path) -> list[Instance]:
        """Return the instances in a file: one, or all those of a set."""
        from clusterfirst.files import read_instances, read_orders
        from clusterfirst.files.source import named

        if path.suffix.lower() in TABLES and self.city is not None:
            day = read_orders(
                path,
                self.city,
                self.capacity,
                self.files.number,
                self.limits,
                asked=self.asked,
            )
            rounding = self._changes.get("rounding", day.rounding)
            return [day.replace(rounding=rounding)]
        entries = read_instances(
            path,
            city=self.city,
            rounding=self.rounding,  # type: ignore[arg-type]  # checked above
            limits=self.limits,
        )
        found = [self._changed(entry.instance) for entry in entries]
        with named(path):
            return [self.asked.of(instance, city=self.city) for instance in found]

    def _changed(self, instance: Instance) -> Instance:
        """An instance as the options want it."""
        changes = self._changes
        for name in changes.keys() & {"capacity", "vehicles"}:
            if instance.constraints is not None:
                rule = "the file has a table of vehicles; give another, or leave it out"
                got = str(changes[name])
                raise InputError(Problem("E404", f"--{name}", got, rule))
        return instance.replace(**changes) if changes else instance

    def instance(self, path: Path) -> Instance:
        """Return the one instance in a file."""
        found = self.instances(path)
        if len(found) != 1:
            rule = "one is needed here"
            got = f"{len(found)} instances"
            source = quote(str(path))
            raise InputError(Problem("E154", "file", got, rule), source)
        return found[0]

    def solution(
        self, path: Path, instance: Instance, *, strangers: bool = False
    ) -> tuple[Solution, float | None]:
        """Return the routes in a file and the cost it states; see `read_solution`."""
        from clusterfirst.files import read_solution

        return read_solution(path, instance, self.limits, strangers=strangers)


def with_reader(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command every option that says how a day is read, as one `reader`."""
    own = inspect.signature(command).parameters
    more = inspect.signature(_reader).parameters
    hints = get_type_hints(command, include_extras=True)
    hints |= get_type_hints(_reader, include_extras=True)
    hints.pop("reader")

    def run(**given: Any) -> int:
        reader = _reader(**{name: given.pop(name) for name in more})
        return command(reader=reader, **given)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = hints | {"return": int}
    order: list[str] = []
    for name in own:
        order += more if name == "reader" else [name]
    every = {**own, **more}
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # for typer
        [every[name].replace(annotation=hints[name]) for name in order]
    )
    return run


def _reader(
    city: options.CityFolder = None,
    capacity: options.Capacity = None,
    vehicles: options.Fleet = None,
    matrix: options.Matrix = None,
    durations: options.Durations = None,
    matrix_ids: options.MatrixIds = None,
    speed: options.Speed = None,
    allow_unserved: options.AllowUnserved = False,
    rounding: options.Rounding = None,
    max_customers: options.MaxCustomers = options.MAX_CUSTOMERS,
    max_bytes: options.MaxBytes = options.MAX_BYTES,
) -> Reader:
    day = DayFiles(vehicles, matrix, durations, matrix_ids, speed, allow_unserved)
    return Reader(city, capacity, day, rounding, max_customers, max_bytes)
