"""Many instances in one call: the network in batches, the rest on all cores.

A network on one small instance leaves a core mostly idle; on a batch it does not. While
it works on one batch, threads decode the one before: the compiled kernels let go of the
interpreter. Everything else is `solve`.

A batch holds instances of one size and fleet only. Padding would change the order in
which the network adds up, so the last bits of its costs, so (the assignment anneals)
many answers; without padding the answers are those of single calls.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from clusterfirst.clock import Deadline
from clusterfirst.decoding import fleets
from clusterfirst.errors import ClusterfirstError
from clusterfirst.instance import Instance, IntArray
from clusterfirst.method import Work
from clusterfirst.scores import Scores
from clusterfirst.solve_options import SolveOptions
from clusterfirst.solver import Result, solve, warm_up

if TYPE_CHECKING:
    from clusterfirst.networks.model_folder import Model

Answer = Result | ClusterfirstError
WINDOW = 50_000  # customers of the instances taken from the input at a time
BATCH = 3300  # customers and depots that the network sees at a time


@dataclass(frozen=True)
class _Known:
    """An instance the network can score."""

    number: int
    instance: Instance
    rows: IntArray | None  # of the city
    fleets: tuple[int, ...]


def solve_many(
    instances: Iterable[Instance], options: SolveOptions | None = None
) -> Iterator[Answer]:
    """Yield the answer of each instance in turn; an error stands for itself only.

    Instances are taken from the input as they are needed, a window at a time.
    The neural method without polish runs on `options.threads` threads, and with
    `recentre` 0 in batches too (a moved seed waits for its own instance's answer);
    whatever polishes uses all cores on one instance after the other.
    """
    options = options or SolveOptions()
    if not _by_threads(options):
        for instance in instances:
            yield _answer(instance, options)
        return
    import torch

    warm_up(options.method, options.model)
    waiting: list[Future[Answer]] = []
    pool = ThreadPoolExecutor(options.threads)
    # The cores are taken by our threads: torch's own would only spin beside them.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for window in _windows(instances):
            started = _start(pool, window, options)
            for answer in waiting:  # of the window before, while this one is decoded
                yield answer.result()
            waiting = started
        for answer in waiting:
            yield answer.result()
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


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
    """Whether one pass of the network is all that decoding needs."""
    return options.recentre == 0 and options.assign not in ("sparse", "hard")


def _answer(
    instance: Instance,
    options: SolveOptions,
    scores: Sequence[Scores] | None = None,
    seconds: float = 0.0,
    notes: Sequence[str] = (),
) -> Answer:
    """One answer; seconds (its share) and notes are those of its batch."""
    try:
        result = solve(instance, options, scores=scores)
    except ClusterfirstError as error:
        return error
    if scores is None:
        return result
    spent = {**result.seconds, "encode": seconds}
    return replace(result, seconds=spent, notes=[*notes, *result.notes])


def _start(
    pool: ThreadPoolExecutor, window: list[Instance], options: SolveOptions
) -> list[Future[Answer]]:
    """Score the window batch by batch; each is decoded while the next is scored."""
    if not _in_batches(options):
        return [pool.submit(_answer, one, options) for one in window]
    from clusterfirst.networks.model_folder import load_model
    from clusterfirst.networks.neural import DEFAULT_MODEL

    model = load_model(options.model or DEFAULT_MODEL)
    answers: dict[int, Future[Answer]] = {}
    known: list[_Known] = []
    for i, instance in enumerate(window):
        try:
            instance.require_feasible()
            assert len(instance.plane)  # raises if there are no coordinates
            rows = model.rows_of(instance, borrow=options.new_locations == "nearest")
            sizes = fleets(Work(instance, Deadline.never(), fleet=options.fleet))
            known.append(_Known(i, instance, rows, tuple(sizes)))
        except ClusterfirstError:  # alone, it will say so again
            answers[i] = pool.submit(_answer, instance, options)
    for batch in _batches(known):
        begin = time.perf_counter()
        scores = _scores(model, batch)
        share = (time.perf_counter() - begin) / len(batch)
        for one, found in zip(batch, scores, strict=True):
            answers[one.number] = pool.submit(
                _answer,
                one.instance,
                options,
                found,
                share,
                model.outside(one.instance),
            )
    return [answers[i] for i in range(len(window))]


def _batches(known: list[_Known]) -> Iterator[list[_Known]]:
    """Instances of one shape together, as many as a batch may hold."""
    for shape, alike in groupby(sorted(known, key=_shape), key=_shape):
        together = list(alike)
        most = max(1, BATCH // (shape[0] + 1))
        for first in range(0, len(together), most):
            yield together[first : first + most]


def _shape(one: _Known) -> tuple[int, ...]:
    """What all of a batch have in common: customers and fleet sizes."""
    return (one.instance.num_customers, *one.fleets)


def _scores(model: Model, batch: list[_Known]) -> list[list[Scores]]:
    """Scores of each instance at each of its fleet sizes."""
    from clusterfirst.networks.neural import encode, score

    encoded = encode(
        model.router, [one.instance for one in batch], [one.rows for one in batch]
    )
    turns = [
        score(model.router, encoded, [vehicles] * len(batch))
        for vehicles in batch[0].fleets
    ]
    return [list(found) for found in zip(*turns, strict=True)]
