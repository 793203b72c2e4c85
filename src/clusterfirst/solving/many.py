"""Many instances in one call: each one on one core, as many at a time as there are.

The network is too small to use several cores well, and a second thread waits at every
product. Side by side, threads do not wait: products and compiled kernels let go of the
interpreter. Every answer is that of `solve` alone, to the last bit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from clusterfirst.problem.errors import ClusterfirstError, InputError, Problem
from clusterfirst.problem.instance import Instance
from clusterfirst.solving.canonical import canonical
from clusterfirst.solving.cluster import Engine, require_engine
from clusterfirst.solving.options import SolveOptions
from clusterfirst.solving.solver import Result, new_state, search, solve, warm_up

if TYPE_CHECKING:
    from clusterfirst.networks.network import Network

Answer = Result | ClusterfirstError
Key = TypeVar("Key")
AHEAD = 8  # instances per thread that are taken from the input before they are needed
EVERY_ROUND = 1000  # more than a network has fleets and moves: no clock, no limit


def solve_many(
    instances: Iterable[Instance],
    options: SolveOptions | None = None,
    engine: Engine = "pool",
) -> Iterator[Answer]:
    """Yield the answer of each instance in turn; an error stands for itself only.

    Instances are taken from the input as they are needed. The neural method without
    polish runs on `options.cores` instances at a time; whatever polishes uses all
    cores on one instance after the other. `engine="ray"`: see `solve_on_cluster`.
    """
    options = options or SolveOptions()
    require_engine(engine)
    if engine == "ray":
        early: dict[int, Answer] = {}
        turn = 0
        for index, answer in solve_on_cluster(enumerate(instances), options):
            early[index] = answer
            while turn in early:
                yield early.pop(turn)
                turn += 1
        return
    if not _side_by_side(options):
        for instance in instances:
            yield _answer(instance, options)
        return
    warm_up(options.method, options.model, polish=options.polish)
    alone = replace(options, threads=1)
    waiting: deque[Future[Answer]] = deque()
    pool = ThreadPoolExecutor(options.cores)
    try:
        for instance in instances:
            waiting.append(pool.submit(_answer, instance, alone))
            if len(waiting) > AHEAD * options.cores:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def solve_on_cluster(
    instances: Iterable[tuple[Key, Instance]], options: SolveOptions
) -> Iterator[tuple[Key, Answer]]:
    """Yield answers as they come, each solved on one core of a Ray cluster.

    With `options.threads` on so many cores of one node. By `iterations` the answers are
    those of this machine with the same number of threads.
    """
    from clusterfirst.solving.cluster import map_ray

    options = replace(options, threads=options.threads or 1)
    tasks = ((key, instance, options) for key, instance in instances)
    for outcome in map_ray(_solve_there, tasks, cores=options.cores):
        answer = outcome.value
        if answer is None:
            rule = "its worker ended unexpectedly twice"
            answer = InputError(Problem("E509", "instance", outcome.failure, rule))
        elif isinstance(answer, Result):
            answer = replace(answer, instance=outcome.task[1])  # ours, not its copy
        yield outcome.task[0], answer


def _solve_there(task: tuple[Key, Instance, SolveOptions]) -> Answer:
    """In a worker of the cluster."""
    return _answer(task[1], task[2])


def decode_all(network: Network, instances: Sequence[Instance]) -> list[Answer]:
    """Answers of a network at hand, without search or clock: what validation judges.

    The decoding is that of `solve --method neural --no-polish`, on one thread.
    """
    options = SolveOptions("neural", iterations=EVERY_ROUND, polish=False, threads=1)
    return [_decoded(network, instance, options) for instance in instances]


def _decoded(network: Network, instance: Instance, options: SolveOptions) -> Answer:
    from clusterfirst.networks.neural import NeuralScorer
    from clusterfirst.solving.neural import run_scorer

    form = canonical(instance)
    state = new_state(form, options)
    try:
        rows = form.instance.city_rows
        scorer = NeuralScorer(network, form.instance, rows)
        run_scorer(state, scorer, options.neural)
        return search(state, form, options, method_done=True)
    except ClusterfirstError as error:
        return error


def _side_by_side(options: SolveOptions) -> bool:
    """Whether each instance is one core's work: the network alone, no search."""
    alone = not (options.neural.recombines or options.polish)
    return options.method == "neural" and alone


def _answer(instance: Instance, options: SolveOptions) -> Answer:
    """The answer of one instance by itself."""
    try:
        return solve(instance, options)
    except ClusterfirstError as error:
        return error
