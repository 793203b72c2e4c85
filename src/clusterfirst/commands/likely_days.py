"""`quote` and `forecast`: what follows from the likely days of a city."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterfirst.commands import options
from clusterfirst.commands.console import (
    counted,
    emit,
    emit_json,
    write_each,
    write_forms,
)
from clusterfirst.commands.reading import Reader, folders_read, open_law
from clusterfirst.problem.errors import InputError, Problem, require_one_of

if TYPE_CHECKING:
    from clusterfirst.cities.quote import Quoter


Weekday = Annotated[
    str | None,
    typer.Option(help="mon, tue, wed, thu, fri, sat or sun; default: any."),
]


def quote(
    city: options.CityName,
    orders: Annotated[Path, typer.Option(help="CSV of today's orders: id,demand.")],
    demand: Annotated[float, typer.Option(help="Demand of the new order.")],
    location: Annotated[
        str | None,
        typer.Option("--id", help="Id of its location, if the city knows it."),
    ] = None,
    lat: Annotated[
        float | None, typer.Option(help="Latitude of its location, instead of --id.")
    ] = None,
    lon: Annotated[
        float | None, typer.Option(help="Longitude of its location.")
    ] = None,
    x: Annotated[
        float | None,
        typer.Option(help="x coordinate of its location, instead of --id."),
    ] = None,
    y: Annotated[
        float | None, typer.Option(help="y coordinate of its location.")
    ] = None,
    plan: Annotated[
        Path | None, typer.Option(help="Today's routes; default: plan them now.")
    ] = None,
    completions: Annotated[
        int, typer.Option(help="Number of likely ends of the day to average over.")
    ] = 200,
    expect: Annotated[
        int | None,
        typer.Option(help="Expected number of orders by the end of the day, if known."),
    ] = None,
    weekday: Weekday = None,
    capacity: options.Capacity = None,
    seed: options.DrawSeed = 0,
    out: Annotated[
        list[Path] | None, typer.Option(help="Also draw it, as .png or .svg.")
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Price a new order: now, and by the end of the day.

    Now is the best place in today's plan. By the end of the day is what the order adds
    to the whole day, over likely completions drawn from the law of the city's days: the
    10th, 50th and 90th percentile, with and without it on the same completions.
    """
    from clusterfirst.cities.day_law import Wish, warn_of_paper_law
    from clusterfirst.cities.quote import Quoter, QuoteSettings
    from clusterfirst.cities.quote_picture import draw
    from clusterfirst.cities.quote_picture import quote as ask
    from clusterfirst.files.picture import write_figure

    targets = options.claim(out, [orders, *folders_read(city, None)], (".png", ".svg"))
    law = open_law(city)
    reader = Reader(city, capacity)
    today = reader.instance(orders)
    today.require_feasible()
    wish = Wish(customers=expect, weekday=_weekday(weekday))
    warn_of_paper_law(law, replace(wish, capacity=today.capacity))
    settings = QuoteSettings(completions, options.require_seed(seed), wish=wish)
    routes = None if plan is None else reader.solution(plan, today)[0].routes
    quoter = Quoter(law, today, routes, settings)
    found = ask(quoter, _row(quoter, location, (lat, lon), (x, y)), demand)
    if as_json:
        emit_json(found.document())
    else:
        for line in found.lines(today.unit):
            emit(line)
    return write_each(
        targets, lambda target: write_figure(target, lambda: draw(quoter, found))
    )


def _row(
    quoter: Quoter,
    location: str | None,
    degrees: tuple[float | None, float | None],
    plane: tuple[float | None, float | None],
) -> int:
    """Row of the new order's place, which is given in one of three ways."""
    on_globe = quoter.city.metric == "greatcircle"
    first, second = degrees if on_globe else plane
    wrong = plane if on_globe else degrees
    point = first is not None and second is not None
    if (location is None) == (not point) or wrong != (None, None):
        axes = "--lat and --lon" if on_globe else "--x and --y"
        rule = f"the place of the order is needed once: --id, or {axes}"
        raise InputError(Problem("E400", "usage", rule=rule))
    if location is not None:
        return quoter.row_of(location)
    assert first is not None
    assert second is not None
    return quoter.add_place((second, first) if on_globe else (first, second))


def forecast(
    city: options.CityName,
    days: Annotated[
        int, typer.Option(help="Number of likely days to draw and plan.")
    ] = 1000,
    weekday: Weekday = None,
    growth: Annotated[
        float, typer.Option(help="Orders per day, as a multiple of past days.")
    ] = 1.0,
    capacity: Annotated[
        str | None,
        typer.Option(
            help="Capacities to compare, such as 120,180; default: the city's."
        ),
    ] = None,
    customers: Annotated[
        int | None, typer.Option(help="Orders per day; default: as on past days.")
    ] = None,
    seed: options.DrawSeed = 0,
    workers: Annotated[int, typer.Option(help="Planning processes.")] = 2,
    engine: options.Engine = "pool",
    out: Annotated[
        list[Path] | None,
        typer.Option(help="Write .png or .svg, .csv (a row per day) or .json."),
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Forecast vehicles, length and load over likely days of a city.

    Days are drawn from the law of the past days and planned in milliseconds each; the
    fleet that suffices on 95 % of them is named, and by how much the quick plans are
    longer than those of a long search.
    """
    from clusterfirst.cities.day_law import Wish, warn_of_paper_law
    from clusterfirst.cities.forecast import ForecastSettings, draw, lines, table
    from clusterfirst.cities.forecast import forecast as run

    targets = options.claim(
        out, folders_read(city, None), (".png", ".svg", ".csv", ".json")
    )
    law, found = open_law(city), []
    for one in _capacities(capacity):
        wish = Wish(customers, _weekday(weekday), growth, one)
        warn_of_paper_law(law, wish)
        law.days_like(wish.weekday)
        settings = ForecastSettings(
            days,
            options.require_seed(seed),
            wish,
            workers=workers,
            engine=engine,  # type: ignore[arg-type]  # checked there
        )
        found.append(run(law, settings, counted("days")))
        if not as_json:
            for line in lines(found[-1]):
                emit(line)
    if as_json:
        emit_json({"forecasts": [each.summary() for each in found]})
    about = {"city": law.city.name, "past_days": len(law.history)}
    return write_forms(
        targets,
        figure=lambda: draw(found),
        table=lambda: table(found),
        document=lambda: about | {"forecasts": [each.summary() for each in found]},
    )


def _capacities(text: str | None) -> list[float | None]:
    if text is None:
        return [None]
    try:
        return [options.exact_capacity(word.strip()) for word in text.split(",")]
    except typer.BadParameter as error:
        rule = "must be numbers above 0, separated by commas"
        raise InputError(Problem("E404", "--capacity", text, rule)) from error


def _weekday(name: str | None) -> int | None:
    from clusterfirst.cities.history import WEEKDAYS

    if name is None:
        return None
    require_one_of("--weekday", name.lower()[:3], WEEKDAYS)
    return WEEKDAYS.index(name.lower()[:3])
