"""Making labels: expert solutions of drawn instances, resumable at any moment.

There is no work list and no state: what is left to do is the asked range of
indices minus what the shards hold. Workers return records and only this process
writes, so a killed run loses at most the label each worker had in hand.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from clusterfirst.learning.experts.expert import ExpertSettings
from clusterfirst.learning.experts.hgs import HGS
from clusterfirst.learning.experts.own_teacher import solve_with_polish
from clusterfirst.learning.experts.pyvrp_expert import PYVRP
from clusterfirst.learning.labels.records import (
    FAILURE,
    Identity,
    Record,
    best_of_rivals,
    heads,
    identities,
    of_solution,
    well_formed,
)
from clusterfirst.learning.labels.shard_writer import ShardWriter, write_shards
from clusterfirst.learning.labels.shards import read_shards
from clusterfirst.learning.labels.sources import Source
from clusterfirst.problem.errors import (
    InputError,
    NotFoundInTimeError,
    Problem,
    require_rules,
)
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.solving.cluster import Engine, map_tasks

Teacher = Literal["hgs", "pyvrp", "polish"]
SOLVERS = {"hgs": HGS.solve, "pyvrp": PYVRP.solve, "polish": solve_with_polish}


@dataclass(frozen=True)
class LabelOptions:
    """What to make; exactly one of seconds and iterations per label.

    Indices first .. first + count - 1, each with teacher seeds 1 .. seeds_per_instance
    (several seeds give several good partitions). Machines that share the work take
    ranges of their own and `merge` afterwards. Without customers (0) each day of a
    city has its own number.
    """

    customers: int
    count: int
    seconds: float | None = None
    iterations: int | None = None
    workers: int = 1
    first: int = 0
    seeds_per_instance: int = 1
    teacher: Teacher = "hgs"
    engine: Engine = "pool"

    def __post_init__(self) -> None:
        least = {"customers": 0, "count": 0, "first": 0, "seeds_per_instance": 1}
        rules = {
            name: (getattr(self, name) >= low, f"must be at least {low}")
            for name, low in least.items()
        }
        rules["teacher"] = (self.teacher in SOLVERS, f"one of {', '.join(SOLVERS)}")
        require_rules(self, rules, "E423")
        _ = self.budget  # checks seconds and iterations

    @property
    def budget(self) -> ExpertSettings:
        """Seconds or iterations, with the first seed."""
        return ExpertSettings(seconds=self.seconds, iterations=self.iterations)


@dataclass(frozen=True)
class LabelProgress:
    """Where a labelling run stands."""

    total: int  # labels asked for
    found: int  # of these, there before this run
    made: int = 0
    failed: int = 0
    elapsed: float = 0.0  # seconds of this run
    last_failure: str = ""
    efficiency: float | None = None  # labels/s as a share of workers / seconds

    @property
    def rate(self) -> float:
        """Labels per second of this run."""
        return self.made / self.elapsed if self.elapsed > 0 else 0.0

    @property
    def left(self) -> float:
        """Estimated seconds to go; 0 while nothing is known."""
        missing = self.total - self.found - self.made - self.failed
        return missing / self.rate if self.rate > 0 else 0.0


@dataclass(frozen=True)
class _LabelTask:
    source: Source
    customers: int
    index: int
    teacher: Teacher
    settings: ExpertSettings

    def blank(self, failure: str = "") -> Record:
        """A record without a solution."""
        given = self.customers, self.index, self.teacher, self.settings
        return Record(*given, failure=failure)


def label(
    source: Source,
    out: str | Path,
    options: LabelOptions,
    on_progress: Callable[[LabelProgress], None] | None = None,
) -> LabelProgress:
    """Make the labels that `out` does not hold yet; return how it ended.

    Labels in the folder with the same teacher and seed and at least this budget
    count as made; failures are tried again. Ctrl-C and kills lose nothing: run
    again to continue.
    """
    for expert in (HGS, PYVRP):
        if expert.name == options.teacher:
            expert.require()
    if not options.customers and source.law is None:
        rule = "at least 1 is needed: only past days have a number of their own"
        raise InputError(Problem("E423", "customers", "0", rule))
    if options.count:
        source.draw(options.customers, options.first)  # a wrong size is said at once
        source.draw(options.customers, options.first + options.count - 1)
    with ShardWriter(Path(out), source) as writer:
        had = _held(Path(out), source, options)
        total = options.count * options.seeds_per_instance
        tasks = [t for t in _tasks(source, options) if t.blank().identity not in had]
        progress = LabelProgress(total, total - len(tasks))
        if on_progress:
            on_progress(progress)
        begin = time.perf_counter()
        for outcome in map_tasks(
            solve_task, tasks, workers=options.workers, engine=options.engine
        ):
            why = outcome.failure or "no answer"
            record = outcome.value or outcome.task.blank(failure=why)
            writer.append(record.encode())
            progress = replace(
                progress,
                made=progress.made + (not record.failure),
                failed=progress.failed + bool(record.failure),
                last_failure=record.failure or progress.last_failure,
                elapsed=time.perf_counter() - begin,
            )
            if options.seconds is not None:
                ideal = options.workers / options.seconds
                progress = replace(progress, efficiency=progress.rate / ideal)
            if on_progress:
                on_progress(progress)
    return progress


def solve_task(task: _LabelTask) -> Record:
    """Draw one instance and ask the expert; in a worker process."""
    instance = task.source.draw(task.customers, task.index)
    solve = SOLVERS[task.teacher]
    try:
        solution = solve(instance, task.settings)
    except NotFoundInTimeError as error:
        return task.blank(failure=str(error))
    return label_of(instance, solution, task.index, task.teacher, task.settings)


def label_of(
    instance: Instance,
    solution: Solution,
    index: int,
    teacher: str,
    settings: ExpertSettings,
) -> Record:
    """Return the record of a solution, judged once more; InputError if it is wrong."""
    solution = solution.canonical()
    verdict = judge(instance, solution)
    if not verdict.feasible:
        raise InputError(verdict.violations, source=instance.name)
    route, place = of_solution(solution, instance.num_customers)
    return Record(
        customers=instance.num_customers,
        index=index,
        teacher=teacher,
        settings=settings,
        cost=verdict.cost,
        route=route,
        place=place,
    )


def _tasks(source: Source, options: LabelOptions) -> Iterator[_LabelTask]:
    for index in range(options.first, options.first + options.count):
        for seed in range(1, options.seeds_per_instance + 1):
            settings = replace(options.budget, seed=seed)
            yield _LabelTask(
                source, options.customers, index, options.teacher, settings
            )


def _held(folder: Path, source: Source, options: LabelOptions) -> set[Identity]:
    """Identities of the labels that need not be made again."""
    held: set[Identity] = set()
    for found, bodies in read_shards(folder):
        if found.key == source.key:
            bodies = well_formed(bodies, stored=False)
            head = heads(bodies)
            enough = (
                head["iterations"] >= options.iterations
                if options.iterations is not None
                else head["seconds"] >= options.seconds
            ) & (head["kind"] != FAILURE)
            found_here = itertools.compress(identities(bodies), enough.tolist())
            if options.customers:
                held.update(found_here)
            else:  # the size is the day's own
                held.update((0, *identity[1:]) for identity in found_here)
    return held


def merge(folders: Sequence[str | Path], out: str | Path) -> int:
    """Write the labels of several folders into a new one; return their number.

    One record per instance, teacher and seed: the cheapest, a failure only if there
    is no label. The order of folders does not matter, nor does merging twice: the
    bytes are the same.
    """
    target = Path(out)
    if target.exists() and any(target.iterdir()):
        rule = "a new or empty folder is needed"
        raise InputError(Problem("E711", "out", str(out), rule))
    sources: dict[str, Source] = {}
    found: dict[str, list[bytes]] = {}
    for folder in folders:
        for source, bodies in read_shards(Path(folder)):
            # The name is for people; the smallest wins whatever the order.
            other = sources.setdefault(source.key, source)
            if source.name < other.name:
                sources[source.key] = source
            whole = well_formed(bodies, stored=source.kind == "stored")
            found.setdefault(source.key, []).extend(whole)
    written = 0
    for key in sorted(found):
        best = best_of_rivals(found[key])
        written += write_shards(target, sources[key], [best[i] for i in sorted(best)])
    return written
