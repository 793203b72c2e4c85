"""Equal wall clock on equal cores: run methods side by side on a set.

Every method runs in a process of its own that is pinned to its core (or both). The
clock runs from arrays handed over to routes returned, matrices included; start-up
is measured apart. Runs are interleaved, method by method in rotating order, so that
a busy minute of the machine hits all alike, and beside every timing stands the fp32
matmul rate of that core at that moment (science notes, "Reporting rules").
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

import numpy as np

from clusterfirst.evidence.bench.rows import Key, Row, RowsFile
from clusterfirst.evidence.bench.run import (
    Answer,
    Method,
    Run,
    answer,
    check_method,
    judged,
    prepare,
)
from clusterfirst.evidence.bench.sets import BenchSet, Case
from clusterfirst.problem.errors import InputError, require_rules
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.machine import usable_cores
from clusterfirst.problem.solution import judge
from clusterfirst.solving.child import Child, ChildFailedError
from clusterfirst.solving.cluster import Engine, map_tasks
from clusterfirst.solving.options import TIME_LIMITS

STARTUP_PATIENCE = 600.0  # seconds; numba compiles for a minute on a busy machine


@dataclass(frozen=True)
class BenchOptions:
    """Which methods, how long, from which seeds, on how many cores.

    `model` holds the weights of the neural methods. `engine="ray"` spreads the runs
    over `workers` of a cluster: quality only, timings there compare with nothing.
    """

    methods: tuple[str, ...]
    seconds: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0, 10.0)
    seeds: tuple[int, ...] = (0,)
    cores: int = 1
    model: str | None = None
    engine: Engine = "pool"
    workers: int = 2

    def __post_init__(self) -> None:
        low, high = TIME_LIMITS
        ray = self.engine == "ray"
        most = 1 if ray else len(usable_cores())
        few = f"1 to {most}" + (" on a cluster, for quality only" if ray else "")
        rules = {
            "methods": (bool(self.methods), "must be at least one"),
            "seconds": (
                bool(self.seconds) and all(low <= s <= high for s in self.seconds),
                f"each must be {low:g} to {high:g}",
            ),
            "seeds": (
                bool(self.seeds) and all(0 <= seed < 2**30 for seed in self.seeds),
                "must be whole numbers from 0 to 2^30",
            ),
            "cores": (self.cores in range(1, most + 1), few),
            "engine": (self.engine in ("pool", "ray"), "one of pool, ray"),
        }
        require_rules(self, rules)
        for method in self.methods:
            check_method(method)


def with_ablation(methods: Sequence[str]) -> tuple[str, ...]:
    """The methods, and for each neural one its twins without a network.

    What is left of the gain over them is the network's own. Who names one of two twins
    gets that one only: the other takes all the seconds there are.
    """
    found = list(methods)
    for method in methods:
        twins = Method.of(method).twins
        if not set(twins) & set(methods):
            found += twins
    return tuple(dict.fromkeys(found))


# --- all runs ---------------------------------------------------------------------


@dataclass(frozen=True)
class BenchProgress:
    """How far a comparison is, by time."""

    done: int
    total: int
    left: float  # seconds, from the pace so far


@dataclass
class BenchResult:
    """The rows asked for, and the methods that could not run, with the reason."""

    rows: list[Row] = field(default_factory=list)
    not_run: dict[str, InputError] = field(default_factory=dict)


def bench(
    bench_set: BenchSet,
    options: BenchOptions,
    file: RowsFile,
    on_progress: Callable[[BenchProgress], None] | None = None,
) -> BenchResult:
    """Run what has no row yet, and return every row of this comparison.

    A method that cannot run here is left out; InputError if that is true of all.
    """
    known = {row.key: row for row in file.read()}
    result = BenchResult()
    todo: list[tuple[Case, Key]] = []
    for case, key in plan(bench_set, options):
        if key in known:
            result.rows.append(known[key])
        else:
            todo.append((case, key))
    make = _on_ray if options.engine == "ray" else _one_by_one
    total = sum(key.limit for _, key in todo)
    start, done, spent = time.perf_counter(), 0, 0.0
    for case, key, found in make(todo, options):
        if found is None or isinstance(found, InputError):
            if found is not None:
                result.not_run[key.method] = found
        else:
            row = _row(bench_set.name, case, key, found)
            file.append([row])
            result.rows.append(row)
        done, spent = done + 1, spent + key.limit
        if on_progress is not None:
            pace = (time.perf_counter() - start) / spent
            on_progress(BenchProgress(done, len(todo), pace * (total - spent)))
    if not result.rows:
        raise next(iter(result.not_run.values()))
    return result


def plan(bench_set: BenchSet, options: BenchOptions) -> Iterator[tuple[Case, Key]]:
    """Every run, instance by instance, the methods in rotating order."""
    models = {text: weights_key(text, options.model) for text in options.methods}
    turns = itertools.product(bench_set.cases, options.seconds, options.seeds)
    for turn, (case, limit, seed) in enumerate(turns):
        digest = case.digest
        shift = turn % len(options.methods)
        for method in options.methods[shift:] + options.methods[:shift]:
            run = (limit, seed, options.cores, options.engine)
            yield case, Key(digest, method, models[method], *run)


def weights_key(text: str, default: str | None) -> str:
    """NAME@HASH of the weights a method uses: other weights are other runs."""
    method = Method.of(text)
    if method.name != "neural":
        return ""
    from clusterfirst.files.verified_folder import manifest_hash
    from clusterfirst.networks.model_folder import find_model
    from clusterfirst.networks.neural import DEFAULT_MODEL

    name = method.weights(default) or DEFAULT_MODEL
    try:
        return f"{name}@{manifest_hash(find_model(name))[:8]}"
    except InputError:  # the run itself will say so
        return name


Found = tuple[Case, Key, Answer | InputError | None]


def _one_by_one(
    todo: Sequence[tuple[Case, Key]], options: BenchOptions
) -> Iterator[Found]:
    """On this machine: one method at a time, on the cores asked for."""
    failed: set[str] = set()
    with closing(WarmProcesses(options)) as processes:
        for case, key in todo:
            if key.method in failed:
                yield case, key, None
                continue
            try:
                yield case, key, processes.run(case, key)
            except InputError as error:
                failed.add(key.method)
                yield case, key, error


class WarmProcesses:
    """One process per method and core, kept warm between runs."""

    def __init__(self, options: BenchOptions) -> None:
        self.options = options
        self._cores = tuple(usable_cores()[: options.cores])
        self._children: dict[tuple[str, tuple[int, ...]], Child] = {}
        self.startup: dict[str, float] = {}  # seconds until a method was ready

    def run(self, case: Case, key: Key) -> Answer:
        """Run a method once; on more cores a single-threaded one from as many seeds.

        The better answer counts, and the longer time.
        """
        if Method.of(key.method).uses_threads or len(self._cores) == 1:
            parts = [(self._cores, key.seed)]
        else:
            first = len(self._cores) * key.seed
            parts = [((c,), first + i) for i, c in enumerate(self._cores)]
        try:  # all are ready before the first one starts
            children = [self._child(key.method, cores) for cores, _ in parts]
        except ChildFailedError as failure:
            return Answer(None, key.limit, reason=f"start-up: {failure}")
        for child, (cores, seed) in zip(children, parts, strict=True):
            model = self.options.model
            run = Run(case.instance, key.method, key.limit, seed, cores, model)
            child.start(answer, run)
        found = [self._result(key, cores) for cores, _ in parts]
        solved = [a for a in found if a.routes is not None]
        startup = self.startup[key.method]
        if not solved:
            return replace(found[0], startup=startup)
        best = min(solved, key=lambda a: _cost(case.instance, a))
        slowest = max(found, key=lambda a: a.seconds)
        return Answer(best.routes, slowest.seconds, slowest.gflops, startup)

    def _child(self, method: str, cores: tuple[int, ...]) -> Child:
        child = self._children.get((method, cores))
        if child is None:
            start = time.perf_counter()
            child = Child()
            try:
                setup = (method, self.options.model, cores)
                child.call(prepare, setup, STARTUP_PATIENCE)
            except BaseException:
                child.close()
                raise
            self._children[method, cores] = child
            self.startup[method] = time.perf_counter() - start
        return child

    def _result(self, key: Key, cores: tuple[int, ...]) -> Answer:
        """Wait for an answer; a method that crashed or hangs gets a new process."""
        patience = STARTUP_PATIENCE + 10 * key.limit
        try:
            found: Answer = self._child(key.method, cores).result(patience)
        except ChildFailedError as failure:
            self._children.pop((key.method, cores)).close()
            return Answer(None, key.limit, reason=str(failure))
        return found

    def close(self) -> None:
        """End all processes."""
        for child in self._children.values():
            child.close()


def _on_ray(todo: Sequence[tuple[Case, Key]], options: BenchOptions) -> Iterator[Found]:
    """On a cluster, many at a time; which one was which is in the task's number."""
    tasks = (
        (i, Run(case.instance, key.method, key.limit, key.seed, model=options.model))
        for i, (case, key) in enumerate(todo)
    )
    outcomes = map_tasks(
        _numbered, tasks, workers=options.workers, engine=options.engine
    )
    for outcome in outcomes:
        case, key = todo[outcome.task[0]]
        if outcome.value is None:
            yield case, key, Answer(None, key.limit, reason=outcome.failure)
        else:
            yield case, key, outcome.value


def _numbered(task: tuple[int, Run]) -> Answer | InputError:
    try:
        return answer(task[1])
    except InputError as error:
        return error


def _cost(instance: Instance, found: Answer) -> float:
    """The judge's cost; infinite for routes it refuses."""
    assert found.routes is not None
    verdict = judge(instance, found.routes)
    return verdict.cost if verdict.feasible else np.inf


def _row(set_name: str, case: Case, key: Key, found: Answer) -> Row:
    """Judge an answer and write it down."""
    return Row(
        set_name=set_name,
        instance=case.instance.name,
        customers=case.instance.num_customers,
        **vars(key),
        **judged(case.instance, found.routes, found.reason),
        seconds=found.seconds,
        startup=found.startup,
        gflops=found.gflops,
    )
