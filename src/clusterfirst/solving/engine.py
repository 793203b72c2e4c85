"""Map work over processes of this machine, or over a Ray cluster (`cluster.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Literal

from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.solving.child import Child, ChildFailedError
from clusterfirst.solving.cluster import ATTEMPTS, Outcome, Task, Value, map_ray

Engine = Literal["pool", "ray"]
ENGINES: tuple[Engine, ...] = ("pool", "ray")  # this machine, a cluster


def map_tasks(
    function: Callable[[Task], Value],
    tasks: Iterable[Task],
    *,
    workers: int,
    engine: Engine = "pool",
) -> Iterator[Outcome[Task, Value]]:
    """Yield outcomes as they come; tasks are drawn only as they are needed.

    An exception of the function ends the map. `engine="ray"` uses the cluster that
    RAY_ADDRESS names, or starts one of so many workers on this machine.
    """
    require_engine(engine)
    if workers < 1:
        rule = "at least 1 is needed"
        raise InputError(Problem("E421", "workers", str(workers), rule))
    if engine == "pool":
        return _map_pool(function, tasks, workers)
    return map_ray(function, tasks, workers)


def require_engine(engine: str) -> Engine:
    """The engine of a name, or a sentence."""
    for known in ENGINES:
        if engine == known:
            return known
    rule = f"one of {', '.join(ENGINES)}"
    raise InputError(Problem("E421", "engine", str(engine), rule))


def _map_pool(
    function: Callable[[Task], Value], tasks: Iterable[Task], workers: int
) -> Iterator[Outcome[Task, Value]]:
    waiting = ((task, 1) for task in tasks)
    idle: list[Child] = []
    busy: dict[Connection, tuple[Child, Task, int]] = {}

    def begin(task: Task, attempt: int) -> None:
        child = idle.pop() if idle else Child()
        child.start(function, task)
        busy[child.connection] = child, task, attempt

    try:
        for task, attempt in waiting:
            begin(task, attempt)
            if len(busy) == workers:
                break
        while busy:
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                child, task, attempt = busy.pop(ready)
                try:
                    outcome = Outcome[Task, Value](task, child.result())
                    idle.append(child)
                except ChildFailedError as failure:
                    if attempt < ATTEMPTS:
                        begin(task, attempt + 1)
                        continue
                    outcome = Outcome(task, None, str(failure))
                # The worker gets its next task before the consumer gets this
                # result: writing to disk costs the worker nothing.
                for task, attempt in waiting:
                    begin(task, attempt)
                    break
                yield outcome
    finally:
        for child in [*idle, *(child for child, _, _ in busy.values())]:
            child.close()
