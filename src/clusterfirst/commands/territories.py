"""`territories` and `solve --familiar`: usual areas for a city's drivers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterfirst.commands import options
from clusterfirst.commands.console import counted, emit, emit_json, write_forms
from clusterfirst.commands.history import OwnCity, require_own
from clusterfirst.commands.reading import Reader, folders_read, open_history
from clusterfirst.problem.errors import InputError, Problem

if TYPE_CHECKING:
    from clusterfirst.problem.instance import Instance
    from clusterfirst.solving.options import SolveOptions
    from clusterfirst.solving.result import Result
    from clusterfirst.stages.routes import Routes

KINDS = (".png", ".svg", ".csv", ".json")


def territories(
    city: OwnCity,
    vehicles: Annotated[int, typer.Option(help="Areas, one for each driver.")],
    days: Annotated[
        int, typer.Option(help="Likely days to plan, beside the past ones.")
    ] = 200,
    capacity: options.Capacity = None,
    seed: options.DrawSeed = 0,
    out: Annotated[
        list[Path] | None,
        typer.Option(
            help="Write .png or .svg (a map), .csv (a row per location) or .json."
        ),
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Find usual areas for the drivers of a city, and what keeping to them costs.

    Past and likely days are planned; the areas follow which locations share a vehicle,
    are connected on the map and balanced in load. They are kept in the city's folder,
    where `solve --city CITY --familiar` finds them. Days held back show how much longer
    routes are if all drivers keep to their areas.
    """
    from clusterfirst.cities.areas import write_areas
    from clusterfirst.cities.territories import (
        TerritorySettings,
        draw,
        find_territories,
        lines,
        table,
    )

    require_own(city)
    targets = options.claim(out, folders_read(city, None), KINDS)
    options.require_seed(seed)
    settings = TerritorySettings(vehicles, days, capacity, seed)
    found = find_territories(open_history(city), settings, counted("days"))
    write_areas(city, found.areas)
    if as_json:
        emit_json(found.facts())
    else:
        for line in lines(found):
            emit(line)
    return write_forms(
        targets,
        figure=lambda: draw(found.areas),
        table=lambda: table(found),
        document=found.facts,
    )


# --- solve --familiar -------------------------------------------------------------


def refuse_familiar(
    weight: float | None, city: str | None, other: Path | str | None
) -> None:
    """Familiar routes are those of a city, and no other plan's."""
    if weight is None:
        return
    if city is None:
        rule = "usual areas are those of a city: --city CITY"
        raise InputError(Problem("E404", "--familiar", f"{weight:g}", rule))
    if other is not None:
        rule = "it goes without --keep, --warm-start, --balance and --engine ray"
        raise InputError(Problem("E404", "--familiar", str(other), rule))


def solve_familiar(
    instance: Instance,
    asked: tuple[Reader, float],
    settings: SolveOptions,
    on_improvement: Callable[[float, Routes], None] | None = None,
) -> Result:
    """Plan a day for drivers who know their areas of the reader's city."""
    from clusterfirst.cities.areas import read_areas
    from clusterfirst.solving.familiar import Familiar
    from clusterfirst.solving.familiar import solve_familiar as run

    reader, weight = asked
    assert reader.city_name is not None
    require_own(reader.city_name)
    areas = read_areas(reader.city_name, reader.city)
    return run(
        instance, Familiar(areas.of_day(instance), weight), settings, on_improvement
    )
