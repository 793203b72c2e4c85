"""`city` and `sample`: cities as folders, and days drawn from them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterfirst.commands import options
from clusterfirst.commands.console import emit_facts, emit_json, say, write_forms
from clusterfirst.commands.history import add_days, add_locations, check_law
from clusterfirst.commands.reading import folders_read, open_history, open_law
from clusterfirst.problem.errors import (
    InputError,
    Problem,
    require_one_of,
    require_whole,
)

if TYPE_CHECKING:
    from clusterfirst.cities.day_law import Wish
    from clusterfirst.problem.city import City
    from clusterfirst.problem.instance import FloatArray, Instance

FORMATS = ("json", "vrp")
PORTRAITS = (".png", ".svg", ".csv")  # of the past days

city_app = typer.Typer(
    help="Make and show cities: folders of fixed locations.",
    rich_markup_mode=None,
)
city_app.command("add-days")(add_days)
city_app.command("add-locations")(add_locations)
city_app.command("check-law")(check_law)

Name = Annotated[str, typer.Option(help="Display name; default: the folder's name.")]
CityOut = Annotated[Path, typer.Option(help="Folder for the new city.")]


@city_app.command("sample")
def sample_a_city(
    out: CityOut,
    locations: Annotated[int, typer.Option(help="Number of locations.")] = 3000,
    layout: Annotated[str, typer.Option(help="uniform or clustered.")] = "uniform",
    seed: options.DrawSeed = 0,
    name: Name = "",
    capacity: options.Capacity = None,
    vehicles: options.Vehicles = None,
    overwrite: options.Overwrite = False,
) -> int:
    """Draw a city in the unit square with the depot in its centre, as in the paper."""
    from clusterfirst.problem.instance import MAX_CUSTOMERS
    from clusterfirst.problem.sampling import sample_city

    require_whole("--locations", locations, 1, MAX_CUSTOMERS)
    options.require_seed(seed)
    require_one_of("--layout", layout, ("uniform", "clustered"))
    city = sample_city(
        locations,
        seed=seed,
        layout=layout,  # type: ignore[arg-type]  # checked above
    )
    _claim(out, [], overwrite)
    return _store(city, out, name, capacity, vehicles)


@city_app.command("init")
def init_city(
    locations: Annotated[
        Path,
        typer.Argument(
            metavar="LOCATIONS", help="CSV with columns id,x,y or id,lat,lon."
        ),
    ],
    depot: Annotated[str, typer.Option(help="The id of the depot in that table.")],
    out: CityOut,
    matrix: options.Matrix = None,
    matrix_ids: options.MatrixIds = None,
    name: Name = "",
    capacity: options.Capacity = None,
    vehicles: options.Vehicles = None,
    overwrite: options.Overwrite = False,
) -> int:
    """Make a city of your own locations; capacity and fleet become its defaults.

    With --matrix the distances of its days are those of the streets: the same there and
    back, for at most 5,000 rows. The networks and the maps go by the coordinates.
    """
    from clusterfirst.files import read_locations

    tables = [path for path in (matrix, matrix_ids) if path is not None]
    _claim(out, [locations, *tables], overwrite)
    city = read_locations(locations, depot)
    if matrix is not None:
        city = city.replace(matrix=_street_distances(city, matrix, matrix_ids))
    elif matrix_ids is not None:
        _refuse("a city without --matrix", **{"matrix-ids": matrix_ids})
    return _store(city, out, name, capacity, vehicles)


def _street_distances(city: City, matrix: Path, ids: Path | None) -> FloatArray:
    """The distances between all locations of a city, in its order."""
    from clusterfirst.files.matrices import read_matrices
    from clusterfirst.files.source import named

    found = read_matrices(matrix, ids)
    with named(matrix):
        distances, _ = found.of_day(city.everywhere(), None)
        if distances is None:
            rule = "this file has durations only; distances are needed"
            raise InputError(Problem("E111", "--matrix", "no distances", rule))
        city.replace(matrix=distances)  # what is wrong with it is said of this file
    return distances


@city_app.command("show")
def show_city(
    folder: options.CityName,
    out: Annotated[
        list[Path] | None,
        typer.Option(help="Past days as a picture (.png, .svg) or a table (.csv)."),
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Print what a city folder holds, its past days too, after checking its hash."""
    from clusterfirst.cities.portrait import draw, lines, table
    from clusterfirst.cities.portrait import facts as facts_of_days
    from clusterfirst.problem.city import extent_of, oddities

    history = open_history(folder)
    city = history.city
    targets = options.claim(out, folders_read(folder, None), PORTRAITS)
    if targets and not len(history):
        rule = "this city has no past days to show; add some (city add-days)"
        raise InputError(Problem("E404", "--out", targets[0].name, rule))
    days = facts_of_days(history)
    low, high = city.coords.min(axis=0).tolist(), city.coords.max(axis=0).tolist()
    facts = {
        "name": city.name,
        "locations": city.num_locations,
        "depot": city.ids[0],
        "metric": city.metric if city.matrix is None else "matrix",
        "from": low,
        "to": high,
        "capacity": city.capacity,
        "vehicles": city.vehicles,
        "hash": city.hash,
    }
    for problem in oddities(city):
        say(f"clusterfirst: {problem}")
    if as_json:
        emit_json(facts | {"place": str(extent_of(city)), "history": days})
    else:
        shown = {"from": _point(low), "to": _point(high), "place": extent_of(city)}
        known = facts | shown | lines(days)
        emit_facts({k: "-" if v in (None, "") else v for k, v in known.items()})
    return write_forms(targets, lambda: draw(history), lambda: table(history))


def sample(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="City folder, 'bundled', or a public test set: cvrp100, lehd200, "
            "lehd500, cvrp1000, tam1000, tam2000, tam5000, tam7000.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the instances.")],
    customers: options.DayCustomers = None,
    count: Annotated[int, typer.Option(help="Number of instances.")] = 1,
    first: options.First = 0,
    seed: Annotated[
        int | None, typer.Option(help="Seed of a city's days; 0 by default.")
    ] = None,
    capacity: options.Capacity = None,
    file_format: Annotated[
        str, typer.Option("--format", help="json (remembers the city's rows) or vrp.")
    ] = "json",
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare a public set with its SHA-256.")
    ] = False,
    overwrite: options.Overwrite = False,
) -> int:
    """Draw days of a city or of a public test set as files.

    Instance i of a seed is a function of (seed, i): any part of a set can be drawn
    again anywhere. Days of a city follow the law of its past days (city add-days);
    without any, demands are 1 to 9 and the capacity is the city's, or else 50.
    """
    from clusterfirst.cities.day_law import Wish
    from clusterfirst.files import write_instance
    from clusterfirst.files.atomic import make_folder
    from clusterfirst.files.outputs import Outputs, file_name
    from clusterfirst.problem.sampling import PUBLIC_SETS

    require_one_of("--format", file_format, FORMATS)
    require_whole("--count", count, 0, 10**6)
    require_whole("--first", first, 0, 2**63 - 1)
    if source in PUBLIC_SETS:
        _refuse(source, customers=customers, seed=seed, capacity=capacity)
        drawn = _public(source, first, count, verify)
    else:
        _refuse("a city", verify=verify or None)
        seed = 0 if seed is None else seed
        options.require_seed(seed)
        wish = Wish(customers, capacity=capacity)
        drawn = _days(source, wish, seed, range(first, first + count))
    outputs = Outputs(folders_read(source, None), overwrite)
    written = 0
    for instance in drawn:
        name = file_name(instance.name, f".{file_format}")
        target = outputs.inside(out, name, instance.name)
        make_folder(out)
        write_instance(target, instance)
        written += 1
    say(f"wrote {written} instances to {out}")
    return 0


def _days(city: str, wish: Wish, seed: int, indices: range) -> Iterator[Instance]:
    from clusterfirst.cities.day_law import warn_of_paper_law

    law = open_law(city)
    warn_of_paper_law(law, wish)
    for index in indices:
        yield law.draw(seed, index, wish)


def _public(name: str, first: int, count: int, verify: bool) -> Iterator[Instance]:
    from clusterfirst.problem.sampling import (
        PUBLIC_SETS,
        public_set_hash,
        sample_public,
    )

    spec = PUBLIC_SETS[name]
    if spec.note:
        say(f"{name}: {spec.note}")
    if verify:
        drawn = public_set_hash(name)
        if drawn != spec.sha256:
            rule = f"the stored SHA-256 is {spec.sha256}"
            raise InputError(Problem("E406", name, drawn, rule))
        say(f"{name}: SHA-256 {drawn} as stored")
    for index in range(first, first + count):
        yield sample_public(name, index)


def _claim(out: Path, inputs: list[Path], overwrite: bool) -> None:
    from clusterfirst.files.outputs import Outputs

    outputs = Outputs(inputs, overwrite)
    for name in ("locations.csv", "city.json", "distances.npy"):
        outputs.inside(out, name)


def _store(
    city: City, out: Path, name: str, capacity: float | None, vehicles: int | None
) -> int:
    from clusterfirst.files import write_city
    from clusterfirst.problem.city import extent_of, oddities

    city = city.replace(name=name or out.name, capacity=capacity, vehicles=vehicles)
    write_city(out, city)
    say(f"wrote {out}: {city.num_locations} locations, hash {city.hash[:12]}...")
    say(str(extent_of(city)))
    for problem in oddities(city):
        say(f"clusterfirst: {problem}")
    return 0


def _refuse(source: str, **given: object) -> None:
    for name, value in given.items():
        if value is not None:
            rule = f"it does not go with {source}"
            raise InputError(Problem("E404", f"--{name}", str(value), rule))


def _point(values: list[float]) -> str:
    return f"({values[0]:.6g}, {values[1]:.6g})"
