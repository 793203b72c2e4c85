"""`city add-days`, `add-locations` and `check-law`: a city that remembers and grows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clusterfirst.commands import options
from clusterfirst.commands.console import emit, emit_facts, emit_json, say
from clusterfirst.commands.reading import BUNDLED, expand, open_history
from clusterfirst.problem.errors import InputError, Problem, require_whole

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

    require_own(folder)
    history, new = add(folder, expand(orders, (".csv",)))
    say(f"added {new} {'day' if new == 1 else 'days'} to {folder}")
    emit_facts(lines(facts(history)))
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

    require_own(folder)
    city, new = add(folder, locations)
    say(f"added {new} locations to {folder}, which has {city.num_locations} now")
    return 0


def check_law(
    folder: OwnCity,
    hold_back: Annotated[
        int, typer.Option(help="Newest days that the law is judged on, not fitted to.")
    ] = 30,
    draws: Annotated[int, typer.Option(help="Days to draw.")] = 200,
    as_json: options.Json = False,
) -> int:
    """Compare days drawn from the fitted law with real days held back.

    Orders, load, share of known locations, distance to the nearest order and length of
    the routes (savings) are compared by Kolmogorov-Smirnov tests; the law passes if
    none differs beyond chance at 5 % for all five together.
    """
    from clusterfirst.cities.law_check import check_law as check

    history = open_history(folder)
    require_whole("--draws", draws, 2, 100_000)
    found = check(history, hold_back, draws)
    passed = all(each.passed for each in found)
    if as_json:
        rows = [
            {
                "measure": each.measure,
                "real": float(each.real.mean()),
                "drawn": float(each.drawn.mean()),
                "p_value": each.p_value,
                "passed": each.passed,
            }
            for each in found
        ]
        emit_json({"days": hold_back, "draws": draws, "passed": passed, "rows": rows})
        return 0
    emit(f"{'mean of a day':<36}{'real':>12}{'drawn':>12}{'p':>8}")
    for each in found:
        real, drawn = each.real.mean(), each.drawn.mean()
        words = "" if each.passed else "  differs"
        emit(
            f"{each.measure:<36}{real:>12.6g}{drawn:>12.6g}{each.p_value:>8.3f}{words}"
        )
    fitted = len(history) - hold_back
    verdict = "passes" if passed else "does not pass"
    emit(f"the law of {fitted} days {verdict} on the {hold_back} after them")
    return 0


def require_own(folder: str) -> None:
    """Refuse the bundled city, and what is no folder."""
    if folder == BUNDLED or not Path(folder).is_dir():
        rule = "a city folder of your own is needed (`clusterfirst city init`)"
        raise InputError(Problem("E102", "city", folder, rule))
