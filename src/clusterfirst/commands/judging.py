"""`check` and `export`: what a given solution is worth, and how people read it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterfirst.commands import options
from clusterfirst.commands.console import emit, emit_json, say, write_each
from clusterfirst.commands.reading import Reader, folders_read, with_reader

if TYPE_CHECKING:
    from clusterfirst.problem.instance import Instance
    from clusterfirst.problem.solution import Solution


@with_reader
def check(
    instance_file: options.InstanceFile,
    solution_file: options.SolutionFile,
    reader: Reader,
    as_json: options.Json = False,
) -> int:
    """Judge a solution: recompute its cost, list every violation.

    Exit code 0 means feasible, 1 not feasible, 2 that a file could not be read.
    """
    from clusterfirst.files.solutions import verdict_document
    from clusterfirst.problem.errors import InfeasibleError
    from clusterfirst.problem.solution import judge

    instance = reader.instance(instance_file)
    solution, stated = reader.solution(solution_file, instance)
    verdict = judge(instance, solution, stated_cost=stated)
    fitting = [] if stated is None else roundings_that_fit(instance, solution, stated)
    if as_json:
        found = verdict_document(instance, solution, verdict, stated)
        emit_json(found | {"stated_cost_fits_rounding": fitting})
        return 0 if verdict.feasible else 1
    if verdict.violations:
        for line in InfeasibleError(verdict.violations).lines():
            emit(line)
        if fitting and instance.rounding not in fitting:
            say(f"the stated cost is right with --rounding {' or '.join(fitting)}")
    word = "feasible" if verdict.feasible else "not feasible"
    unit = f" {instance.unit}" if instance.unit else ""
    routes = f"{len(solution.routes)} routes"
    rounded = f"rounding {instance.rounding}"
    emit(f"{word}: cost {verdict.cost:.10g}{unit}, {routes}, {rounded}")
    return 0 if verdict.feasible else 1


def roundings_that_fit(
    instance: Instance, solution: Solution, stated: float
) -> list[str]:
    """Return the rounding rules under which the stated cost is right."""
    from clusterfirst.problem.instance import ROUNDINGS
    from clusterfirst.problem.solution import costs_agree, judge

    return [
        rounding
        for rounding in ROUNDINGS
        if costs_agree(
            judge(instance.replace(rounding=rounding), solution).cost, stated
        )
    ]


@with_reader
def export(
    instance_file: options.InstanceFile,
    solution_file: options.SolutionFile,
    out: Annotated[
        list[Path],
        typer.Option(
            help="A map (.html), driver sheets (.sheets.html), a workbook (.xlsx), "
            "stops (.csv), a picture (.png, .svg), .geojson, .gpx, .json or .sol; may "
            "be repeated."
        ),
    ],
    reader: Reader,
    compare: Annotated[
        Path | None,
        typer.Option(
            help="Another plan, yesterday's for example: the map marks changes."
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(help="Time of day at which routes start (7:30), for the sheets."),
    ] = None,
    basemap: Annotated[
        Path | None,
        typer.Option(help="Streets for the map: a PMTiles file of vector tiles."),
    ] = None,
) -> int:
    """Write a plan for people and for other programs.

    The map is one file that works without a network; the sheets print one page per
    route. Extra columns of your tables (address, phone, note) are carried along by id.
    """
    from clusterfirst.files import write_solution
    from clusterfirst.files.by_suffix import Extras, require_solution_fits
    from clusterfirst.files.outputs import Outputs
    from clusterfirst.files.solutions import route_names
    from clusterfirst.problem.changes import changes_between

    others = [path for path in (compare, basemap) if path is not None]
    read = [instance_file, solution_file, *others, *reader.files.paths]
    outputs = Outputs([*read, *folders_read(reader.city_name, None)])
    for target in out:
        outputs.file(target)
    minutes = None if start is None else _time_of_day(start)
    instance = reader.instance(instance_file)
    solution, _ = reader.solution(solution_file, instance)
    timed = instance.constraints is not None and instance.constraints.timed
    if start is not None and not timed:
        say("--start: no times are known; give --speed KMH or --durations FILE")
    changes = None
    if compare is not None:
        before, _ = reader.solution(compare, instance, strangers=True)
        names = route_names(instance, before)
        changes = changes_between(before.routes, solution.routes, names)
    for target in out:
        require_solution_fits(target, instance)
    extras = Extras(changes, minutes, basemap)
    return write_each(
        out, lambda target: write_solution(target, instance, solution, extras=extras)
    )


def _time_of_day(text: str) -> float:
    """Minutes after midnight."""
    from clusterfirst.problem.errors import InputError, Problem

    hours, _, minutes = text.partition(":")
    if hours.isdecimal() and minutes.isdecimal() and len(text) <= 5:
        found = 60 * int(hours) + int(minutes)
        if int(minutes) < 60 and found < 1440:
            return float(found)
    rule = "a time of day is needed, such as 7:30"
    raise InputError(Problem("E404", "--start", text, rule))
