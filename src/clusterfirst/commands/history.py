"""`city add-days` and `city add-locations`: a city that remembers and grows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clusterfirst.commands.console import emit, say
from clusterfirst.commands.reading import BUNDLED
from clusterfirst.problem.errors import InputError, Problem

OwnCity = Annotated[str, typer.Argument(metavar="CITY", help="City folder.")]


def add_days(
    folder: OwnCity,
    orders: Annotated[
        list[Path],
        typer.Argument(
            metavar="ORDERS",
            help="CSV tables with columns id,demand and, for several days in one "
            "file, date; or folders of them.",
        ),
    ],
) -> int:
    """Add past days to a city, each once.

    A day is known by its date (a column, or the name of its file: 2026-11-18.csv), or
    else by its orders. All files are checked before any day is added.
    """
    from clusterfirst.cities.history import add_days as add
    from clusterfirst.cities.portrait import facts, lines

    _require_own(folder)
    history, new = add(folder, _tables(orders))
    say(f"added {new} days to {folder}")
    for name, text in lines(facts(history)).items():
        emit(f"{name:<10} {text}")
    return 0


def add_locations(
    folder: OwnCity,
    locations: Annotated[
        Path,
        typer.Argument(metavar="LOCATIONS", help="CSV with columns as in `city init`."),
    ],
) -> int:
    """Add locations to a city, which stays the same city.

    Rows keep their numbers, so days and models keep their meaning; a model of this
    city knows which rows it has seen.
    """
    from clusterfirst.files.city_folder import add_locations as add

    _require_own(folder)
    city, new = add(folder, locations)
    say(f"added {new} locations to {folder}, which has {city.num_locations} now")
    return 0


def _tables(paths: list[Path]) -> list[Path]:
    """The files, with each folder replaced by its tables."""
    files: list[Path] = []
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue
        inside = sorted(p for p in path.iterdir() if p.suffix.lower() == ".csv")
        if not inside:
            rule = "no file in this folder ends in .csv"
            raise InputError(Problem("E102", "folder", str(path), rule))
        files.extend(inside)
    return files


def _require_own(folder: str) -> None:
    if folder == BUNDLED or not Path(folder).is_dir():
        rule = "a city folder of your own is needed (`clusterfirst city init`)"
        raise InputError(Problem("E102", "city", folder, rule))
