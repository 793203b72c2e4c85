"""Many instances in one call: the network in batches, the rest on all cores.

A network takes less time for a batch than for its instances one by one, also when the
seeds have moved and are scored again. Each thread takes a batch from the network to the
tours: torch and the compiled kernels let go of the interpreter. The rest is `solve`.

A batch holds instances of one size and fleet only. Padding would change the order in
which the network adds up, so the last bits of its costs, so (the assignment anneals)
many answers; without padding the answers are those of single calls.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from clusterfirst.problem.errors import ClusterfirstError
from clusterfirst.problem.instance import Instance, IntArray
from clusterfirst.solving.canonical import Canonical, canonical
from clusterfirst.solving.decoding import decode, fleets
from clusterfirst.solving.options import SolveOptions
from clusterfirst.solving.solver import (
    Result,
    new_state,
    search,
    solve,
    start_clock,
    warm_up,
)
from clusterfirst.stages.scores import Scores
from clusterfirst.stages.search_state import SearchState

if TYPE_CHECKING:
    from clusterfirst.networks.model import Router
    from clusterfirst.networks.neural import Encoded
    from clusterfirst.solving.neural import Request, Requests

Answer = Result | ClusterfirstError
WINDOW = 50_000  # customers of the instances taken from the input at a time
BATCH = 3300  # customers and depots that the network sees at a time
EVERY_ROUND = 1000  # more than a network has fleets and moves: no clock, no limit


@dataclass
class _Job:
    """An instance the network can score, and what it asks to be scored at next."""

    number: int  # in its window
    form: Canonical
    state: SearchState
    rows: IntArray | None  # of the city
    fleets: tuple[int, ...]
    asked: Requests
    request: Request
    error: ClusterfirstError | None = None

    def decode(self, scores: Scores, options: SolveOptions) -> None:
        """Make routes of scores and ask for the next; its own time alone counts."""
        start_clock(self.state, options)
        self.state.round_start = time.perf_counter()
        try:
            found = decode(self.state, scores, options.decoding)
            self.state.end_round()
            self.request = self.asked.send((scores, found))
        except ClusterfirstError as error:
            self.error = error
        if self.error is not None or self.state.finished:
            self.request = None

    def finish(self, options: SolveOptions) -> Answer:
        """Return the answer; without routes, `solve` finds safe ones."""
        try:
            if self.error is not None:
                raise self.error
            return search(self.state, self.form, options, method_done=True)
        except ClusterfirstError as error:
            return error


# Where an answer will be: the job of its batch, and which of its answers.
_Place = tuple[Future[list[Answer]], int]


def solve_many(
    instances: Iterable[Instance], options: SolveOptions | None = None
) -> Iterator[Answer]:
    """Yield the answer of each instance in turn; an error stands for itself only.

    Instances are taken from the input as they are needed, a window at a time.
    The neural method without polish runs in batches on `options.threads` threads;
    whatever polishes uses all cores on one instance after the other.
    """
    options = options or SolveOptions()
    if not _by_threads(options):
        for instance in instances:
            yield from _answers(instance, options)
        return
    import torch

    warm_up(options.method, options.model)
    waiting: list[_Place] = []
    pool = ThreadPoolExecutor(options.threads)
    # The cores are taken by our threads: torch's own would only spin beside them.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for window in _windows(instances):
            started = _start(pool, window, options)
            for answers, at in waiting:  # of the window before, while this one runs
                yield answers.result()[at]
            waiting = started
        for answers, at in waiting:
            yield answers.result()[at]
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


def decode_all(router: Router, instances: Sequence[Instance]) -> list[Answer]:
    """Answers of a network at hand, without search or clock: what validation judges.

    The decoding is that of `solve --method neural --no-polish`, on one thread.
    """
    options = SolveOptions("neural", iterations=EVERY_ROUND, polish=False, threads=1)
    forms = [canonical(instance) for instance in instances]
    jobs = [_job(i, f, f.instance.city_rows, options) for i, f in enumerate(forms)]
    found: dict[int, Answer] = {}
    for batch in _batches(jobs):
        answers = _solve_batch(router, batch, options)
        found |= {job.number: one for job, one in zip(batch, answers, strict=True)}
    return [found[number] for number in range(len(instances))]


def _windows(instances: Iterable[Instance]) -> Iterator[list[Instance]]:
    """Instances until there are many customers, and so on."""
    window: list[Instance] = []
    for instance in instances:
        window.append(instance)
        if sum(one.num_customers for one in window) >= WINDOW:
            yield window
            window = []
    if window:
        yield window


def _by_threads(options: SolveOptions) -> bool:
    """Whether instances may run side by side: the network alone, no search."""
    return options.method == "neural" and options.shots == 1 and not options.polish


def _in_batches(options: SolveOptions) -> bool:
    """Whether costs are all that the assignment needs of the network."""
    return options.assign not in ("sparse", "hard")


def _answers(instance: Instance, options: SolveOptions) -> list[Answer]:
    """The answer of one instance by itself."""
    try:
        return [solve(instance, options)]
    except ClusterfirstError as error:
        return [error]


def _start(
    pool: ThreadPoolExecutor, window: list[Instance], options: SolveOptions
) -> list[_Place]:
    """Start all of a window; a batch is one thread's from the network to the tours."""
    if not _in_batches(options):
        return [(pool.submit(_answers, one, options), 0) for one in window]
    from clusterfirst.networks.model_folder import load_model
    from clusterfirst.networks.neural import DEFAULT_MODEL

    model = load_model(options.model or DEFAULT_MODEL)
    places: dict[int, _Place] = {}
    jobs: list[_Job] = []
    for number, instance in enumerate(window):
        try:
            instance.require_plain("this version of solve")
            instance.require_feasible()
            assert len(instance.plane)  # raises if there are no coordinates
            form, borrow = canonical(instance), options.new_locations == "nearest"
            rows = model.rows_of(form.instance, borrow=borrow)
            job = _job(number, form, rows, options)
        except ClusterfirstError:  # alone, it will say so again
            places[number] = (pool.submit(_answers, instance, options), 0)
            continue
        job.state.notes.extend(model.outside(instance))
        jobs.append(job)
    for batch in _batches(jobs):
        answers = pool.submit(_solve_batch, model.router, batch, options)
        places.update({job.number: (answers, i) for i, job in enumerate(batch)})
    return [places[number] for number in range(len(window))]


def _job(
    number: int, form: Canonical, rows: IntArray | None, options: SolveOptions
) -> _Job:
    """Return a job that has asked for its first scores."""
    from clusterfirst.solving.neural import requests

    sizes = tuple(fleets(form.instance, options.decoding))
    asked = requests(form.instance, options.neural)
    state = new_state(form, options)
    return _Job(number, form, state, rows, sizes, asked, next(asked))


def _batches(jobs: list[_Job]) -> Iterator[list[_Job]]:
    """Instances of one shape together, as many as a batch may hold."""
    for shape, alike in groupby(sorted(jobs, key=_shape), key=_shape):
        together = list(alike)
        most = max(1, BATCH // (shape[0] + 1))
        for first in range(0, len(together), most):
            yield together[first : first + most]


def _shape(job: _Job) -> tuple[int, ...]:
    """What all of a batch have in common: customers and fleet sizes."""
    return (job.state.instance.num_customers, *job.fleets)


def _solve_batch(
    router: Router, batch: list[_Job], options: SolveOptions
) -> list[Answer]:
    """Score all and decode each, until nobody asks for scores; then finish each."""
    from clusterfirst.networks.neural import encode

    with _shared(batch, "encode"):
        instances = [job.state.instance for job in batch]
        encoded = encode(router, instances, [job.rows for job in batch])
    while any(job.request is not None for job in batch):
        for alike in _asking_alike(batch):
            some = [batch[i] for i in alike]
            with _shared(some, "scores"):
                scores = _scores(router, encoded.only(alike), some, options)
            for job, found in zip(some, scores, strict=True):
                job.decode(found, options)
    return [job.finish(options) for job in batch]


def _asking_alike(batch: list[_Job]) -> list[list[int]]:
    """Jobs that ask for scores, by what they ask for: one call answers each group."""
    groups: dict[tuple[bool, int], list[int]] = {}
    for i, job in enumerate(batch):
        if isinstance(job.request, int):
            groups.setdefault((True, job.request), []).append(i)
        elif job.request is not None:
            groups.setdefault((False, len(job.request)), []).append(i)
    return list(groups.values())


def _scores(
    router: Router, encoded: Encoded, some: list[_Job], options: SolveOptions
) -> list[Scores]:
    """Scores of jobs that all ask for one fleet size, or for as many given seeds."""
    from clusterfirst.networks.neural import score, score_at
    from clusterfirst.solving.neural import seeds_for

    sizes = [job.request for job in some if isinstance(job.request, int)]
    if sizes:
        seeds = [
            seeds_for(job.state.instance, k, options.neural)
            for job, k in zip(some, sizes, strict=True)
        ]
        found = score(router, encoded, seeds)
        return [replace(one, vehicles=k) for one, k in zip(found, sizes, strict=True)]
    given = [job.request for job in some if isinstance(job.request, np.ndarray)]
    return score_at(router, encoded, given)


@contextmanager
def _shared(some: list[_Job], stage: str) -> Iterator[None]:
    """Add the time spent inside to a stage of all these jobs, in equal shares."""
    begin = time.perf_counter()
    yield
    share = (time.perf_counter() - begin) / len(some)
    for job in some:
        job.state.seconds[stage] = job.state.seconds.get(stage, 0.0) + share
