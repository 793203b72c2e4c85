"""`solve`: plan routes and hand them over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clusterfirst.commands import options, wishes
from clusterfirst.commands.answers import Answers
from clusterfirst.commands.console import (
    ProgressLine,
    leave_progress,
)
from clusterfirst.commands.reading import (
    Reader,
    expand,
    folders_read,
    is_set,
    learned_model,
    with_reader,
)
from clusterfirst.commands.territories import refuse_familiar, solve_familiar
from clusterfirst.problem.errors import ClusterfirstError, InputError, Problem

if TYPE_CHECKING:
    from clusterfirst.problem.instance import Instance
    from clusterfirst.solving.solver import Result, SolveOptions
    from clusterfirst.stages.routes import Routes


@with_reader
def solve(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Instances (.vrp, .json, .txt and .npz sets, .csv or .xlsx orders) or "
            "folders.",
        ),
    ],
    reader: Reader,
    method: options.Method = None,
    model: options.Model = None,
    seed_sets: Annotated[
        int | None,
        typer.Option(
            help="Neural method: number of seed sets to try; the best routes win "
            "(default 3 without a search and up to 25 vehicles, else 1)."
        ),
    ] = None,
    recentre: Annotated[
        int | None,
        typer.Option(
            help="Neural method: how often the seeds move to the middles of the routes "
            "found (default 2; the paper: 0)."
        ),
    ] = None,
    new_locations: Annotated[
        str | None,
        typer.Option(
            help="What to do with locations that a city's model does not know: refuse "
            "(default), or use the nearest."
        ),
    ] = None,
    polish: options.Polish = None,
    assign: Annotated[
        str | None,
        typer.Option(help="Assignment: fast (default), exact, sparse or hard."),
    ] = None,
    fleet: Annotated[
        str | None,
        typer.Option(
            help="kmin: the fewest vehicles that hold the demand; best (default): try "
            "one or two more as well."
        ),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            help="Seconds per instance; by default 1, above 1000 customers N/1000."
        ),
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option(
            help="Stop by counts, not by the clock: repeatable to the byte. Iterations "
            "of the polish (a hundred small steps and a large one, 6 to 10 "
            "microseconds), after one round of the method for every 10,000 of them, 10 "
            "at least; without polish, rounds of the method."
        ),
    ] = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    warm_start: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Routes to start from (.sol, .json, .csv, .xlsx): repaired, and never "
            "made worse.",
        ),
    ] = None,
    keep: wishes.Keep = None,
    move_price: wishes.MovePrice = None,
    keep_share: wishes.KeepShare = None,
    frozen: wishes.Frozen = None,
    balance: wishes.BalanceBy = None,
    within: wishes.Within = None,
    familiar: wishes.Familiar = None,
    out: Annotated[
        list[Path] | None,
        typer.Option(
            help="A .sol, .json, .csv, .geojson, .png or .svg file, or a folder that "
            "gets NAME.sol for each instance NAME; may be repeated."
        ),
    ] = None,
    overwrite: options.Overwrite = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Keep the answers that are in the folder already and are right; solve "
            "the others.",
        ),
    ] = False,
    engine: options.Engine = "pool",
    as_json: options.Json = False,
    json_lines: Annotated[
        bool,
        typer.Option(
            "--json-lines",
            help="Print each improvement as a line of JSON; the last "
            "line is the result.",
        ),
    ] = False,
) -> int:
    """Plan routes for one or more instances.

    One instance without --out prints its routes on stdout, as .sol text or, for CSV
    orders, as a table with one row per stop; several print one line each. A file
    that cannot be read does not stop the others. --engine ray solves several at once,
    each on --threads cores (1) of a cluster; lines come as answers do.
    """
    from clusterfirst.files.outputs import Outputs
    from clusterfirst.solving.cluster import require_engine
    from clusterfirst.solving.solver import SolveOptions

    refuse_contradictions(model, method, as_json and json_lines)
    cluster = require_engine(engine) == "ray"
    own = learned_model(reader.city_name) if method in (None, "neural") else None
    given: dict[str, Any] = {
        "method": "neural" if model is not None else method,
        "model": model or own,
        "seed_sets": seed_sets,
        "recentre": recentre,
        "new_locations": new_locations or (None if model or not own else "nearest"),
        "polish": polish,
        "assign": assign,
        "fleet": fleet,
        "time_limit": time_limit,
        "threads": threads,
        "iterations": iterations,
        "seed": seed,
    }
    settings = SolveOptions(**{k: v for k, v in given.items() if v is not None})
    sources = expand(files)
    read = [path for path in (*sources, warm_start, keep) if path is not None]
    outputs = Outputs(
        [*read, *reader.files.paths, *folders_read(reader.city_name, model or own)],
        overwrite or resume,
    )
    answers = Answers(out or [], outputs, as_json, json_lines, len(sources) > 1)
    asked = wishes.Asked.of(
        warm_start, keep, (move_price, keep_share, frozen), (balance, within)
    )
    other = keep or warm_start or balance or (engine if cluster else None)
    refuse_familiar(familiar, reader.city_name, other)
    job = _Job(reader, settings, answers, asked, resume, familiar)
    job.plan(sources)
    try:
        if cluster:
            job.solve_on_cluster(sources)
        else:
            job.solve_each(sources)
    except KeyboardInterrupt:
        answers.code = 130
    return answers.close()


def refuse_contradictions(
    model: str | None, method: str | None, two_kinds_of_json: bool
) -> None:
    if model is not None and method not in (None, "neural"):
        rule = "a model goes with --method neural; leave one of the two out"
        raise InputError(Problem("E404", "method", method or "", rule))
    if two_kinds_of_json:
        rule = "one document or one per line; leave one of the two out"
        raise InputError(Problem("E404", "--json-lines", "--json too", rule))


@dataclass(frozen=True)
class _Job:
    """What to do with each file."""

    reader: Reader
    settings: SolveOptions
    answers: Answers
    asked: wishes.Asked
    resume: bool = False
    familiar: float | None = None
    sets: dict[Path, list[Instance]] = field(default_factory=dict)  # read by `plan`

    def plan(self, sources: Sequence[Path]) -> None:
        """Claim a place for every answer; the names of a set are inside of it."""
        if not self.answers.folders:
            return
        for source in sources:
            names = [source.stem]
            if is_set(source):
                try:
                    found = self.reader.instances(source)
                except ClusterfirstError:
                    continue  # named in its turn; the others are solved
                self.sets[source] = found
                names = [instance.name for instance in found]
            self.answers.plan(source, names)

    def solve_each(self, sources: Sequence[Path]) -> None:
        """Solve one file after the other, on this machine."""
        show = ProgressLine()
        for number, source in enumerate(sources, start=1):
            if len(sources) > 1:
                show(f"{number} of {len(sources)}: {source.name}")
            self.solve_file(source)

    def solve_file(self, source: Path) -> None:
        """Solve every instance in a file; whatever is wrong is noted, not raised."""
        left = list(self._left(source))
        found = self._each([instance for _, instance in left])
        for (index, _), answer in zip(left, found, strict=True):
            self._add(source, index, answer)

    def solve_on_cluster(self, sources: Sequence[Path]) -> None:
        """Solve every instance of all files, on a cluster, as there is room."""
        from clusterfirst.solving.many import solve_on_cluster

        if self.asked.warm_start or self.asked.more or self.answers.as_lines:
            rule = "--warm-start, --keep, --balance and --json-lines go with pool"
            raise InputError(Problem("E404", "--engine", "ray", rule))
        show = ProgressLine()
        tasks = (
            ((source, index), instance)
            for source in sources
            for index, instance in self._left(source)
        )
        done = solve_on_cluster(tasks, self.settings)
        for count, ((source, index), answer) in enumerate(done, start=1):
            self._add(source, index, answer)
            show(f"{count} solved")

    def _left(self, source: Path) -> Iterator[tuple[int, Instance]]:
        """The instances of a file that have no answer yet, with their places in it."""
        try:
            instances = self.sets.pop(source, None) or self.reader.instances(source)
            self.answers.expect(instances)
            if self.answers.several:
                self.asked.refuse_several()
        except ClusterfirstError as error:
            self.answers.add_error(source, error)
            return
        for index, instance in enumerate(instances):
            if not (self.resume and self.answers.has(source, index, instance)):
                yield index, instance

    def _add(
        self, source: Path, index: int, answer: Result | ClusterfirstError
    ) -> None:
        if isinstance(answer, ClusterfirstError):
            self.answers.add_error(source, answer)
            return
        self.answers.add(source, index, answer)
        if answer.interrupted:  # this answer is safe; no other file is begun
            raise KeyboardInterrupt

    def _each(self, instances: list[Instance]) -> Iterator[Result | ClusterfirstError]:
        """Answers in turn; several instances of a file without a stream at once."""
        alone = self.answers.as_lines or self.asked.more or self.familiar is not None
        if len(instances) > 1 and not alone:
            from clusterfirst.solving.many import solve_many

            yield from solve_many(instances, self.settings)
            return
        for instance in instances:
            try:
                yield self._solve(instance)
            except ClusterfirstError as error:
                yield error

    def _solve(self, instance: Instance) -> Result:
        from clusterfirst.solving.solver import solve as solve_instance

        start, kept = self.asked.plans(self.reader, instance)
        began = 0.0

        def improved(cost: float, routes: Routes) -> None:
            document = {
                "instance": instance.name,
                "seconds": time.perf_counter() - began,
                "cost": cost,
                "routes": len(routes),
                "method": self.settings.method,
            }
            self.answers.improved(document)

        startup = warmed(instance, self.settings, limited=self.asked.more)
        if self.familiar is not None:
            startup += compiled(self.settings, limited=True)
        began = time.perf_counter()
        if self.familiar is not None:
            found = solve_familiar(
                instance,
                (self.reader, self.familiar),
                self.settings,
                improved if self.answers.as_lines else None,
            )
            return replace(found, startup=startup + found.startup)
        result = solve_instance(
            instance,
            self.settings,
            on_improvement=improved if self.answers.as_lines else None,
            on_progress=_shares_left(self.settings.iterations),
            start=None if start is None else start.routes,
            keep=kept,
            balance=self.asked.balance(),
        )
        return replace(result, startup=startup + result.startup)


def _shares_left(iterations: int | None) -> Callable[[str, float], None] | None:
    """Count each stage down where no clock runs."""
    if iterations is None:
        return None
    line = ProgressLine(every=5.0)

    def progress(stage: str, done: float) -> None:
        line(f"{stage}: {1 - done:.0%} of its iterations left")

    return progress


def warmed(
    instance: Instance, settings: SolveOptions, *, limited: bool = False
) -> float:
    """Start up, with a word to the user while kernels are being compiled."""
    from clusterfirst.solving.first_method import with_method

    instance.require_feasible()  # the reasons that need no search need no start-up
    if limited or instance.constraints is not None or not instance.symmetric:
        return compiled(settings, limited=True)
    return compiled(with_method(instance, settings)[0])


def compiled(settings: SolveOptions, *, limited: bool = False) -> float:
    """Compile what is not on disk yet, counting down; return the seconds."""
    from clusterfirst.solving.warming import warm_up

    show = ProgressLine(5.0, at_once=True)
    work = "compiling {} kernels, once after each installation: {} left"
    try:
        return warm_up(
            settings.method,
            settings.model,
            polish=settings.polish,
            limited=limited,
            on_progress=lambda left, total: show(work.format(total, left)),
        )
    finally:
        leave_progress()
