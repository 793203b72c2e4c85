"""What to compare on: sets of instances, and what their costs are measured against.

A set is a folder of .vrp files, a set file, days drawn in a city, or a name. Named
sets are read from a folder laid out as NAMED says (`--data` or CLUSTERFIRST_DATA);
without it the public ones are drawn anew, to the bit, and the others say so.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from clusterfirst.cities.day_law import DayLaw, Wish
from clusterfirst.files import (
    Entry,
    read_instance,
    read_instances,
    read_orders,
    read_solution,
    write_json,
)
from clusterfirst.files.atomic import make_folder
from clusterfirst.files.sets import npz_arrays
from clusterfirst.files.source import Complaints, named, read_bytes, read_text
from clusterfirst.files.tables import parse_table
from clusterfirst.learning.experts.expert import ExpertSettings
from clusterfirst.learning.experts.hgs import HGS
from clusterfirst.problem.city import City
from clusterfirst.problem.errors import InputError, NotFoundInTimeError, Problem, quote
from clusterfirst.problem.instance import Instance, IntArray, Rounding
from clusterfirst.problem.machine import usable_cores
from clusterfirst.problem.sampling import PUBLIC_SETS, sample_day, sample_public
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.solving.cluster import map_tasks

DATA_VARIABLE = "CLUSTERFIRST_DATA"
CACHE_VARIABLE = "CLUSTERFIRST_CACHE"
REFERENCE_SEED = 1


@dataclass(frozen=True)
class NamedSet:
    """Where a named set lies under the data folder, and how its costs are counted."""

    path: str
    references: str
    rounding: Rounding = "none"
    city: str = ""  # the city of days that only name its rows
    only: str = ""  # one instance of the folder
    costs: str = ""  # a table with the costs, where the folder has no routes


_HGS = "HGS-CVRP on one core"
NAMED: dict[str, NamedSet] = {
    "city-100": NamedSet("city/test_n100.npz", f"{_HGS}, 2 s", city="city/city.npz"),
    "city-200": NamedSet("city/test_n200.npz", f"{_HGS}, 10 s", city="city/city.npz"),
    "city-500": NamedSet("city/test_n500.npz", f"{_HGS}, 60 s", city="city/city.npz"),
    "city-1000": NamedSet(
        "city/test_n1000.npz", f"{_HGS}, 150 s", city="city/city.npz"
    ),
    "lehd200": NamedSet("lehd/lehd_vrp200.npz", "LKH-3 (HGS is 1.1 % lower)"),
    "lehd500": NamedSet("lehd/lehd_vrp500.npz", "LKH-3 (HGS is 1.8 % lower)"),
    "X": NamedSet("X", "best known solutions", "round"),
    "xml100": NamedSet("xml100/xml100_dev.npz", "optimal solutions", "round"),
    "belem": NamedSet("loggibud/belem_days_0_89.npz", ""),
    "leuven1": NamedSet("xxl", "the best known solution", "round", only="Leuven1"),
    "ghent2": NamedSet("xxl", "the best known solution", "round", only="Ghent2"),
    "xl": NamedSet("xl", "best known costs", "round", costs="xl/references.csv"),
}
CITY_CAPACITY = 50  # the paper's constant capacity


class DataNotHereError(InputError):
    """A named set whose data is not on this machine."""


@dataclass(frozen=True, eq=False)
class Case:
    """One instance and the cost that others are measured against."""

    instance: Instance
    reference: float | None = None
    labels: IntArray | None = None  # (n,) route numbers in the reference, if known

    @property
    def digest(self) -> str:
        """What the instance is, whatever it is called."""
        return instance_digest(self.instance)


@dataclass(frozen=True)
class BenchSet:
    """Cases, and in words where their references come from ("" = none)."""

    name: str
    cases: tuple[Case, ...]
    references: str = ""


@dataclass(frozen=True)
class SetRequest:
    """Which part of which set; `first` to `last` - 1 as in Python's slices."""

    first: int = 0
    last: int | None = None
    data: Path | None = None
    rounding: Rounding | None = None

    @property
    def part(self) -> slice:
        """The instances asked for."""
        return slice(self.first, self.last)


def instance_digest(instance: Instance) -> str:
    """SHA-256 over everything that a cost depends on."""
    facts = (instance.metric, instance.rounding, instance.vehicles)
    digest = hashlib.sha256(repr(facts).encode())
    arrays = (instance.demand_units, instance.capacity_units)
    for array in (*arrays, instance.coords, instance.matrix):
        if array is not None:
            digest.update(np.asarray(array, dtype="<f8").tobytes())
    return digest.hexdigest()[:24]


# --- sets -------------------------------------------------------------------------


def open_set(name: str, request: SetRequest) -> BenchSet:
    """Read a folder of .vrp, a set file or a named set; DataNotHereError if absent."""
    path = Path(name)
    if name in NAMED or name in PUBLIC_SETS:
        found = _named_set(name, request)
    elif path.is_dir():
        entries = _folder(path, request)
        found = _set(path.name, entries, "the .sol files beside the instances")
    elif path.exists():
        entries = read_instances(path, rounding=request.rounding)[request.part]
        found = _set(path.stem, entries, "the set's own")
    else:
        known = ", ".join(dict.fromkeys([*NAMED, *PUBLIC_SETS]))
        rule = f"no such file or folder; named sets: {known}"
        raise InputError(Problem("E406", "set", name, rule))
    if not found.cases:
        rule = "no instance is left to solve"
        got = f"{request.first}:{'' if request.last is None else request.last}"
        raise InputError(Problem("E406", f"instances of {name}", got, rule))
    return found


def city_set(
    city: City, customers: int, count: int, *, seed: int, capacity: float | None
) -> BenchSet:
    """Days of a city by the paper's law; they have no references."""
    cases = tuple(
        Case(sample_day(city, customers, seed=seed, index=index, capacity=capacity))
        for index in range(count)
    )
    return BenchSet(f"{city.name or 'city'}-{customers}", cases)


def law_set(law: DayLaw, count: int, wish: Wish, *, seed: int) -> BenchSet:
    """Days drawn from the law of a city; they have no references."""
    cases = tuple(Case(law.draw(seed, index, wish)) for index in range(count))
    size = "" if wish.customers is None else f"-{wish.customers}"
    return BenchSet(f"{law.city.name or 'city'}{size}", cases)


def orders_set(files: Sequence[Path], city: City, capacity: float | None) -> BenchSet:
    """Days of a city from tables of orders; they have no references."""
    cases = tuple(Case(read_orders(path, city, capacity)) for path in files)
    return BenchSet(f"{city.name or 'city'}-orders", cases)


def data_folder(given: Path | None) -> Path | None:
    """The folder of `--data`, or of the variable CLUSTERFIRST_DATA."""
    if given is not None:
        return given
    named = os.environ.get(DATA_VARIABLE)
    return Path(named) if named else None


def _named_set(name: str, request: SetRequest) -> BenchSet:
    data = data_folder(request.data)
    spec = NAMED.get(name)
    if spec is not None and data is not None and (data / spec.path).exists():
        request = replace(request, rounding=request.rounding or spec.rounding)
        if (data / spec.path).is_dir():
            entries = _folder(data / spec.path, request, spec.only)
        else:
            city = _npz_city(data / spec.city) if spec.city else None
            whole = read_instances(
                data / spec.path, city=city, rounding=request.rounding
            )
            entries = whole[request.part]
        found = _set(name, entries, spec.references)
        if spec.costs and found.cases:
            found = with_references(found, str(data / spec.costs))
            found = replace(found, references=spec.references)
        return found
    if name in PUBLIC_SETS:
        indices = range(PUBLIC_SETS[name].count)[request.part]
        return BenchSet(name, tuple(Case(sample_public(name, i)) for i in indices))
    assert spec is not None
    rule = f"data not here: {spec.path} is looked for in --data or {DATA_VARIABLE}"
    raise DataNotHereError(Problem("E406", "set", name, rule))


def _folder(folder: Path, request: SetRequest, only: str = "") -> list[Entry]:
    """The .vrp files of a folder, with the solutions beside them."""
    files = sorted(
        (p for p in folder.iterdir() if p.suffix.lower() == ".vrp"), key=_by_number
    )
    if only:
        files = [path for path in files if path.stem == only]
    entries = []
    for path in files[request.part]:
        instance = read_instance(path, rounding=request.rounding)
        beside = path.with_suffix(".sol")
        solution = None
        if beside.exists():
            solution, _ = read_solution(beside, instance)
            violations = judge(instance, solution).violations
            if violations:
                raise InputError(violations, quote(str(beside)))
        entries.append(Entry(instance.replace(name=path.stem), solution=solution))
    return entries


def _by_number(path: Path) -> list[tuple[int, str]]:
    """Sort key: X-n106 comes before X-n1001."""
    parts = re.split(r"(\d+)", path.stem)
    return [(int(part) if part.isdigit() else -1, part) for part in parts]


def _npz_city(path: Path) -> City:
    """The paper's city as it lies in the data folder: `locations` and `depot`."""
    try:
        with named(path):
            arrays = npz_arrays(read_bytes(path))
        coords = np.vstack([arrays["depot"], arrays["locations"]])
    except (KeyError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        rule = f"the arrays depot and locations cannot be read: {quote(str(error))}"
        raise InputError(Problem("E322", "city", str(path), rule)) from error
    return City(coords.astype(np.float64), name="city", capacity=CITY_CAPACITY)


def _set(name: str, entries: Iterable[Entry], references: str) -> BenchSet:
    cases = tuple(
        Case(entry.instance, _reference(entry), _labels(entry)) for entry in entries
    )
    known = any(case.reference is not None for case in cases)
    return BenchSet(name, cases, references if known else "")


def _reference(entry: Entry) -> float | None:
    """The cost of the reference routes, recomputed; else the cost the set states."""
    if entry.solution is not None:
        verdict = judge(entry.instance, entry.solution)
        if verdict.feasible:
            return verdict.cost
    return entry.cost


def _labels(entry: Entry) -> IntArray | None:
    """The reference's clusters, however the set states them."""
    if entry.solution is None:
        return entry.labels
    return route_numbers(entry.instance, entry.solution)


def route_numbers(instance: Instance, solution: Solution) -> IntArray:
    """(n,) the route of each customer, -1 if none has it."""
    labels = np.full(instance.num_customers, -1, dtype=np.int64)
    for number, route in enumerate(solution.routes):
        labels[np.array(route, dtype=np.int64) - 1] = number
    return labels


# --- references from elsewhere ------------------------------------------------------


def with_references(
    bench_set: BenchSet,
    given: str,
    on_progress: Callable[[int, int], None] | None = None,
) -> BenchSet:
    """Measure against `hgs:SECONDS` or the costs in a CSV file (instance,cost).

    `on_progress` gets the number of long runs that are done, and of all.
    """
    if given.startswith("hgs:"):
        try:
            seconds = float(given.removeprefix("hgs:"))
            settings = ExpertSettings(seconds=seconds, seed=REFERENCE_SEED)
        except ValueError as error:  # InputError is one
            rule = "hgs:SECONDS with a number above 0, or a CSV file, is needed"
            raise InputError(Problem("E404", "references", given, rule)) from error
        cases = _long_runs(bench_set.cases, settings, on_progress)
        about = f"{_HGS}, {seconds:g} s, seed {REFERENCE_SEED}"
        return replace(bench_set, cases=cases, references=about)
    costs = _read_costs(Path(given))
    missing = [c.instance.name for c in bench_set.cases if c.instance.name not in costs]
    if missing:
        rule = f"no cost is given for {quote(missing[0])}"
        raise InputError(Problem("E404", "references", given, rule))
    cases = tuple(Case(c.instance, costs[c.instance.name]) for c in bench_set.cases)
    return replace(bench_set, cases=cases, references=f"the costs in {given}")


def _read_costs(path: Path) -> dict[str, float]:
    wrong = Complaints()
    with named(path):
        table = parse_table(read_text(path), [("instance", "cost")])
        costs = table.numbers("cost", wrong)
        wrong.stop_if_wrong()
    return dict(zip(table.column("instance"), costs, strict=True))


def cache_folder() -> Path:
    """Where long runs are kept: CLUSTERFIRST_CACHE, or the user's own cache."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "clusterfirst"


def _long_runs(
    cases: Sequence[Case],
    settings: ExpertSettings,
    on_progress: Callable[[int, int], None] | None,
) -> tuple[Case, ...]:
    """The cases with the answers of long HGS runs, all cores at work.

    The cache holds routes; their cost is recomputed, so a wrong file cannot lie.
    """
    folder = make_folder(cache_folder() / "references")
    ending = f"hgs-{settings.seconds:g}s-{settings.seed}.json"
    paths = [folder / f"{case.digest}-{ending}" for case in cases]
    found = [_kept(case, path) for case, path in zip(cases, paths, strict=True)]
    missing = [i for i, case in enumerate(found) if case is None]
    # Copies: the distances a run computes must not travel with every later run.
    tasks = ((i, cases[i].instance.replace(), settings) for i in missing)
    outcomes = map_tasks(_long_run, tasks, workers=len(usable_cores()))
    for done, outcome in enumerate(outcomes, start=1):
        if outcome.value is None:
            name = cases[outcome.task[0]].instance.name
            problem = Problem("E601", f"HGS on {name}", rule=outcome.failure)
            raise NotFoundInTimeError(problem)
        i, solution = outcome.value
        routes = [list(route) for route in solution.routes]
        write_json(paths[i], {"routes": routes})
        found[i] = _against(cases[i], solution)
        if on_progress is not None:
            on_progress(done, len(missing))
    return tuple(case for case in found if case is not None)


def _kept(case: Case, path: Path) -> Case | None:
    """The case with the routes of a file; None where it must be made anew."""
    try:
        kept = Solution(json.loads(read_bytes(path))["routes"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return _against(case, kept) if judge(case.instance, kept).feasible else None


def _long_run(task: tuple[int, Instance, ExpertSettings]) -> tuple[int, Solution]:
    number, instance, settings = task
    return number, HGS.solve(instance, settings)


def _against(case: Case, solution: Solution) -> Case:
    """The case, measured against a solution."""
    cost = judge(case.instance, solution).cost
    labels = route_numbers(case.instance, solution)
    return replace(case, reference=cost, labels=labels)
