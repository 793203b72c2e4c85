"""`bench`: compare methods on a set, at equal wall clock on equal cores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clusterfirst.commands import options
from clusterfirst.commands.console import ProgressLine, counted, emit, emit_json, say
from clusterfirst.commands.reading import expand, open_city, open_law
from clusterfirst.problem.errors import (
    INTERRUPTED,
    InputError,
    Problem,
    require_whole,
)

if TYPE_CHECKING:
    from clusterfirst.evidence.bench.compare import BenchOptions, BenchProgress
    from clusterfirst.evidence.bench.report import Report
    from clusterfirst.evidence.bench.rows import RowsFile
    from clusterfirst.evidence.bench.sets import BenchSet, SetRequest


Sets = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SET",
        help="Folders of .vrp files (with .sol references), .npz or .txt sets, or "
        "names: city-100/200/500/1000, lehd200, lehd500, X, xml100, belem, "
        "leuven1, ghent2, xl, cvrp100, cvrp1000, tam1000 ...",
    ),
]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        help="Separated by commas, or given again: fisher-jaikumar, sweep, petal, "
        "savings, neural or neural:MODEL, each also with +polish; hgs, pyvrp, "
        "ortools, vroom; 'cmd:PROGRAM {instance} {solution} {seconds} {seed}'."
    ),
]
Seconds = Annotated[
    str, typer.Option(help="Time limits per instance, in wall-clock seconds.")
]
Cores = Annotated[
    int,
    typer.Option(
        "--cores",
        "--threads",
        help="Cores of each run; a single-threaded method runs one seed on each, and "
        "its best answer counts.",
    ),
]
References = Annotated[
    str | None,
    typer.Option(
        help="What gaps are measured against: hgs:SECONDS (cached), or a CSV file "
        "with instance and cost; by default the set's own."
    ),
]
Published = Annotated[
    Path | None,
    typer.Option(
        help="Costs measured by others, marked as such: a CSV file with method, "
        "seconds, instance and cost."
    ),
]
EngineName = Annotated[
    str,
    typer.Option(
        help="pool: one run at a time, here; ray: spread over a cluster, for "
        "quality only."
    ),
]


def bench(
    sets: Sets = None,
    methods: Methods = None,
    seconds: Seconds = "0.1,0.3,1,3,10",
    seeds: Annotated[
        str, typer.Option(help="Random seeds, such as 0,1,2 or 0:3.")
    ] = "0",
    instances: Annotated[
        str | None, typer.Option(help="Part of the set, such as 0:32 or 5.")
    ] = None,
    cores: Cores = 1,
    references: References = None,
    published: Published = None,
    model: Annotated[
        str | None, typer.Option(help="Weights for neural: a name or a folder.")
    ] = None,
    city: Annotated[
        str | None,
        typer.Option(
            help="City of a SET of orders (.csv), or instead of a SET: days drawn from "
            "the law of its past days ('bundled' is ours)."
        ),
    ] = None,
    customers: options.DayCustomers = None,
    count: Annotated[int, typer.Option(help="Days of --city.")] = 10,
    capacity: options.Capacity = None,
    rounding: options.Rounding = None,
    engine: EngineName = "pool",
    workers: Annotated[int, typer.Option(help="Parallel runs with --engine ray.")] = 2,
    data: options.Data = None,
    out: Annotated[
        Path, typer.Option(help="Folder for the results; run again to resume.")
    ] = Path("out/bench"),
    as_json: options.Json = False,
) -> int:
    """Compare methods at equal wall clock on equal cores.

    Prints a table (mean gap with its 95 % interval by instance, share solved,
    vehicles, seconds) and writes it with CSV, JSON and a plot into --out. A neural
    method always runs beside its twins: the same decoder with Fisher-Jaikumar's costs.
    A kill loses nothing: finished runs in --out are not repeated.
    """
    from clusterfirst.evidence.bench.compare import BenchOptions, with_ablation

    if not sets and city is None:
        rule = "a SET or --city is needed"
        raise InputError(Problem("E400", "usage", rule=rule))
    wanted = BenchOptions(
        methods=with_ablation(_methods(methods)),
        seconds=tuple(_numbers("seconds", seconds, float)),
        seeds=_seeds(seeds),
        cores=cores,
        model=model,
        engine=engine,  # type: ignore[arg-type]  # checked there
        workers=workers,
    )
    if city is not None:
        if sets:
            own = _orders(sets, city, capacity)
        else:
            own = _city_days(city, customers, count, capacity)
        found = OpenedSets([own])
    else:
        found = _open(sets or [], _request(instances, data, rounding))
    costs = OtherCosts(references, published)
    return _compare_all(found, wanted, costs, out, as_json=as_json)


def _request(
    instances: str | None, data: Path | None, rounding: str | None
) -> SetRequest:
    """Which part of the sets, from where, with which rounding."""
    from clusterfirst.evidence.bench.sets import SetRequest
    from clusterfirst.problem.instance import ROUNDINGS

    if rounding is not None and rounding not in ROUNDINGS:
        rule = f"one of {', '.join(ROUNDINGS)}"
        raise InputError(Problem("E120", "rounding", rounding, rule))
    first, last = _part(instances)
    return SetRequest(first, last, data, rounding)  # type: ignore[arg-type]  # checked


@dataclass(frozen=True)
class OpenedSets:
    """The sets that are here, and the names of those whose data is not."""

    sets: list[BenchSet]
    not_here: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class OtherCosts:
    """Costs from elsewhere: what gaps are against, and rows of others."""

    references: str | None
    published: Path | None


def _compare_all(
    found: OpenedSets,
    wanted: BenchOptions,
    costs: OtherCosts,
    out: Path,
    *,
    as_json: bool,
) -> int:
    """Run set after set and print what came of each; return the exit code."""
    from clusterfirst.evidence.bench.report import document, table
    from clusterfirst.evidence.bench.rows import RowsFile
    from clusterfirst.files.lock import locked

    rows = RowsFile(out)
    reports = []
    try:
        with locked(out):  # two comparisons in one folder would run everything twice
            _claim(found, wanted, costs, rows)
            for part in found.sets:
                reports.append(_compare(part, costs, wanted, rows))
                if not as_json:
                    emit(table(reports[-1]))
    except KeyboardInterrupt:
        say(f"finished runs are kept in {rows.path}; run again to resume")
        return INTERRUPTED
    if as_json:
        results = [document(report) for report in reports]
        emit_json({"results": results, "data_not_here": found.not_here})
    else:
        for name in found.not_here:
            emit(f"{name}: data not here\n")
    return 0


def _claim(
    found: OpenedSets, wanted: BenchOptions, costs: OtherCosts, rows: RowsFile
) -> None:
    """Every file of every report; two sets of one name would share theirs."""
    from clusterfirst.evidence.bench.report import report_names
    from clusterfirst.files.outputs import Outputs

    given = [Path(costs.references)] if costs.references else []
    given += [costs.published] if costs.published else []
    sets = [part.name for part in found.sets]
    names = [name for part in sets for name in report_names(part, wanted.cores)]
    outputs = Outputs(path for path in given if path.is_file())
    outputs.resumed(rows.path.parent, [rows.path.name, *names], ours=rows.is_ours)


def _compare(
    bench_set: BenchSet, costs: OtherCosts, wanted: BenchOptions, rows: RowsFile
) -> Report:
    """Run one set, print its table and write its files."""
    from clusterfirst.evidence.bench.compare import bench as run_bench
    from clusterfirst.evidence.bench.report import (
        make_report,
        report_names,
        write_report,
    )
    from clusterfirst.evidence.bench.rows import read_published
    from clusterfirst.evidence.bench.sets import with_references

    others = []
    if costs.published is not None:
        others = read_published(costs.published, bench_set)
    if costs.references is not None:
        say(f"{bench_set.name}: references {costs.references} ...")
        show = counted("references")
        bench_set = with_references(bench_set, costs.references, show)
    result = run_bench(bench_set, wanted, rows, _reporter(bench_set.name))
    result.rows += others
    report = make_report(bench_set, result)
    rows.append([])  # the mark of this folder, also where no method could run
    names = report_names(bench_set.name, wanted.cores)
    paths = write_report(rows.path.parent, names, report)
    say(f"wrote {', '.join(str(path) for path in paths)}")
    return report


def _open(names: list[str], request: SetRequest) -> OpenedSets:
    """Read the sets; InputError if the data of none is here."""
    from clusterfirst.evidence.bench.sets import DataNotHereError, open_set

    found = OpenedSets([])
    for name in names:
        try:
            found.sets.append(open_set(name, request))
        except DataNotHereError as error:
            found.not_here.append(name)
            say(f"{name}: data not here")
            missing = error
    if not found.sets:
        raise missing
    return found


def _city_days(
    name: str, customers: int | None, count: int, capacity: float | None
) -> BenchSet:
    from clusterfirst.cities.day_law import PAPER_ORDERS, Wish, warn_of_paper_law
    from clusterfirst.evidence.bench.sets import law_set

    require_whole("count", count, 1, 10**6)
    law = open_law(name)
    if customers is None and law.is_paper:
        customers = min(PAPER_ORDERS, law.city.num_locations)
    wish = Wish(customers, capacity=capacity)
    warn_of_paper_law(law, wish)
    return law_set(law, count, wish, seed=0)


def _orders(names: list[str], city: str, capacity: float | None) -> BenchSet:
    """The days in tables of orders, as one set."""
    from clusterfirst.evidence.bench.sets import orders_set

    files = expand([Path(name) for name in names])
    other = [path for path in files if path.suffix.lower() != ".csv"]
    if other:
        rule = "with --city a SET is a table of orders (.csv) or a folder of them"
        raise InputError(Problem("E406", "set", str(other[0]), rule))
    return orders_set(files, open_city(city), capacity)


def _methods(given: list[str] | None) -> list[str]:
    """Methods between commas; a command may hold commas of its own."""
    found: list[str] = []
    for text in given or ["fisher-jaikumar,fisher-jaikumar+polish,hgs"]:
        found += [text] if text.startswith("cmd:") else text.split(",")
    return [name.strip() for name in found if name.strip()]


def _numbers(where: str, text: str, kind: Callable[[str], Any]) -> list[Any]:
    try:
        return [kind(word) for word in text.split(",")]
    except ValueError as error:
        rule = "must be numbers separated by commas"
        raise InputError(Problem("E404", where, text, rule)) from error


def _seeds(text: str) -> tuple[int, ...]:
    if ":" in text:
        first, last = _part(text)
        return tuple(range(first, last or 0))
    return tuple(_numbers("seeds", text, int))


def _part(text: str | None) -> tuple[int, int | None]:
    """`A:B`, `A:`, `:B`, or `A` alone for one instance."""
    if text is None:
        return 0, None
    first, colon, last = text.partition(":")
    try:
        begin = int(first or 0)
        end = begin + 1 if not colon else int(last) if last else None
    except ValueError as error:
        rule = "A:B with whole numbers is needed"
        raise InputError(Problem("E404", "range", text, rule)) from error
    if begin < 0 or (end is not None and end < 0):
        rule = "numbers count from 0"
        raise InputError(Problem("E404", "range", text, rule))
    return begin, end


def _reporter(name: str) -> Callable[[BenchProgress], None]:
    show = ProgressLine()

    def tell(now: BenchProgress) -> None:
        left = f"{now.left / 60:.1f} min left"
        show(f"{name}: {now.done} of {now.total} runs, {left}")

    return tell
