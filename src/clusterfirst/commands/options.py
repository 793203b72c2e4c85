"""Options that several commands share, so that they read the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clusterfirst.problem.errors import InputError, Problem, require_whole

Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout.")
]
Overwrite = Annotated[
    bool,
    typer.Option("--overwrite", help="Replace files that already exist in the folder."),
]
Seed = Annotated[
    int,
    typer.Option(
        help="Random seed; with --iterations the same seed gives the same answer."
    ),
]
DrawSeed = Annotated[
    int, typer.Option(help="Random seed; the same seed gives the same draws.")
]
Method = Annotated[
    str | None,
    typer.Option(
        help="auto (the default: the start that measured best), "
        "fisher-jaikumar, sweep, petal, savings or neural; or a peer: hgs, "
        "pyvrp, ortools, vroom, 'cmd:PROGRAM ...'."
    ),
]
Model = Annotated[
    str | None,
    typer.Option(help="Weights: a model's name or folder; implies --method neural."),
]
Polish = Annotated[
    bool | None,
    typer.Option(
        "--polish/--no-polish",
        help="Local search between routes until the time limit; on by default.",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(help="Threads of the search, 1 to 256; by default all usable cores."),
]
Engine = Annotated[
    str,
    typer.Option(
        help="pool (this machine) or ray (a cluster: RAY_ADDRESS names it, or one is "
        "started here)."
    ),
]
CityFolder = Annotated[
    str | None,
    typer.Option(
        "--city",
        help="City folder that the orders belong to; 'bundled' ships with the package.",
    ),
]


CityName = Annotated[
    str, typer.Argument(metavar="CITY", help="City folder, or 'bundled'.")
]
DayCustomers = Annotated[
    int | None,
    typer.Option(help="Customers per day; by default as past days have, or 100."),
]
First = Annotated[
    int,
    typer.Option(help="Index of the first instance; give each machine its own range."),
]


def exact_capacity(text: str) -> float:
    """Return a capacity as it is typed, or say why a float would change it."""
    from clusterfirst.files.source import plain_number
    from clusterfirst.problem.checks import inexact

    value = plain_number(text)
    if value is None:
        raise typer.BadParameter("must be a finite number in plain digits")
    problem = inexact(text, "--capacity")
    if problem is not None:
        raise typer.BadParameter(problem.rule)
    return value


Capacity = Annotated[
    float | None,
    typer.Option(
        parser=exact_capacity,
        metavar="FLOAT",
        help="Vehicle capacity; overrides the file's own.",
    ),
]
Vehicles = Annotated[int | None, typer.Option(help="Maximum number of vehicles.")]
Fleet = Annotated[
    str | None,
    typer.Option(
        "--vehicles",
        metavar="NUMBER|FILE",
        help="Maximum number of vehicles, or a table of vehicles (.csv, .xlsx).",
    ),
]
Matrix = Annotated[
    Path | None,
    typer.Option(
        help="Distances between the locations: .csv, .npz, or OSRM's table (.json), "
        "which may have durations too."
    ),
]
Durations = Annotated[
    Path | None,
    typer.Option(help="Travel times between the locations in minutes, as a matrix."),
]
MatrixIds = Annotated[
    Path | None,
    typer.Option(
        help="Ids of the rows of a matrix; by default as in the city, depot first."
    ),
]
Speed = Annotated[
    float | None,
    typer.Option(help="Distance per hour (km/h), where there are no durations."),
]
AllowUnserved = Annotated[
    bool,
    typer.Option(
        "--allow-unserved",
        help="Leave orders unserved if not all fit, lowest priority first.",
    ),
]
Rounding = Annotated[
    str | None,
    typer.Option(
        help="How to round each distance: none, round, trunc, dimacs or exact; by "
        "default as the file says, or none."
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(help="Folder of the named sets; also CLUSTERFIRST_DATA."),
]
MaxCustomers = Annotated[
    int, typer.Option(help="Refuse instances with more customers than this.")
]
MaxBytes = Annotated[int, typer.Option(help="Refuse files larger than this, in bytes.")]
InstanceFile = Annotated[Path, typer.Argument(metavar="INSTANCE", help="The instance.")]
SolutionFile = Annotated[
    Path,
    typer.Argument(
        metavar="SOLUTION", help="The solution: .sol, .json, or stops as .csv or .xlsx."
    ),
]

# As in instance.MAX_CUSTOMERS and files.source.Limits; a test compares them, because
# importing those here would bring numpy into every --help.
MAX_CUSTOMERS = 100_000
MAX_BYTES = 64 * 1024 * 1024


def require_seed(seed: int) -> int:
    """Return a seed that draws may begin with."""
    require_whole("--seed", seed, 0, 2**63 - 1)
    return seed


def claim(
    out: list[Path] | None, inputs: list[Path], suffixes: tuple[str, ...]
) -> list[Path]:
    """The files to write, checked before the work."""
    from clusterfirst.files.outputs import Outputs

    outputs = Outputs(inputs)
    for path in out or []:
        if path.suffix.lower() not in suffixes:
            rule = f"known here: {', '.join(suffixes)}"
            raise InputError(Problem("E106", "--out", path.name, rule))
    return [outputs.file(path) for path in out or []]
