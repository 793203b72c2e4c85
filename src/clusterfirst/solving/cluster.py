"""One map over processes of this machine or a Ray cluster; children on its nodes.

The cluster is the one that RAY_ADDRESS names, or one that is started on this machine.
Its nodes need this package in this version, and nothing of ours travels but the tasks.
A worker or a node that dies is replaced by Ray; its tasks are tried once more.
"""

from __future__ import annotations

import importlib
import logging
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, Literal, TypeVar

from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.machine import usable_cores
from clusterfirst.solving.child import Child, ChildFailedError

Task = TypeVar("Task")
Value = TypeVar("Value")
ATTEMPTS = 2  # a task whose process died is tried once more
WINDOW = 2  # tasks in flight per worker: one runs, one waits
OBJECT_STORE = 80 * 2**20  # bytes; answers are a few kilobytes each
REACHABLE = 5.0  # seconds that a message to a node may take
LONGEST_LISTEN = 2.0  # seconds between two looks at whether a node is still there


@dataclass(frozen=True)
class Outcome(Generic[Task, Value]):
    """What became of a task: its value, or why its process failed twice."""

    task: Task
    value: Value | None
    failure: str = ""


def map_ray(
    function: Callable[[Task], Value],
    tasks: Iterable[Task],
    workers: int | None = None,
    cores: int = 1,
) -> Iterator[Outcome[Task, Value]]:
    """Yield outcomes as they come, each task on `cores` cores of a node.

    Without a number of workers every core of the cluster is used.
    """
    started = not _ray_module().is_initialized()
    ray = _ray(workers or len(usable_cores()))
    _require_node(ray, cores)
    if workers is None:
        workers = max(1, int(ray.cluster_resources().get("CPU", 1)) // cores)
    remote = ray.remote(num_cpus=cores, max_retries=ATTEMPTS - 1)(function)
    running: dict[Any, Task] = {}
    queue = iter(tasks)
    try:
        while True:
            for task in queue:
                running[remote.remote(task)] = task
                if len(running) >= WINDOW * workers:
                    break
            if not running:
                return
            ready, _ = ray.wait(list(running), num_returns=1)
            task = running.pop(ready[0])
            try:
                yield Outcome(task, ray.get(ready[0]))
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except ray.exceptions.RayError as error:
                yield Outcome(task, None, _reason(error))
    finally:
        if started:
            ray.shutdown()


def join_cluster(workers: int) -> None:
    """Join the cluster, or start one; refuse what cannot work before the work."""
    _require_node(_ray(workers), 1)


def _require_node(ray: Any, cores: int) -> None:
    """A task that fits on no node would wait for ever."""
    largest = max(
        (node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]),
        default=0,
    )
    if cores > largest:
        rule = f"the largest node of the cluster has {largest:g} cores"
        raise InputError(Problem("E421", "threads", str(cores), rule))


class RemoteChild:
    """A `Child` on some node, with its `connection`, `signal` and `close`."""

    def __init__(self, main: str) -> None:
        self._ray = _ray(1)
        host = self._ray.remote(num_cpus=1, max_concurrency=3)(_Host)
        self._host = host.remote(main)
        self._arrived: deque[Any] = deque()
        self._asked: Any = None
        self.connection = self

    def send(self, message: object) -> None:
        """Hand a message to the child."""
        self._get(self._host.send.remote(message), REACHABLE)

    def poll(self, seconds: float) -> bool:
        """Whether a message arrives in time; EOFError when there is no child."""
        end = time.monotonic() + seconds
        while not self._arrived:
            self._asked = self._asked or self._host.receive.remote(LONGEST_LISTEN)
            found = self._get(self._asked, max(0.0, end - time.monotonic()))
            if found is None:
                return False
            self._arrived.extend(found)
            self._asked = None
        return True

    def recv(self) -> Any:
        """The next message."""
        while not self._arrived:
            self.poll(LONGEST_LISTEN)
        return self._arrived.popleft()

    def signal(self, number: int) -> None:
        """Send the child a signal."""
        self._host.signal.remote(number)  # nobody waits for a node that may be gone

    def close(self) -> None:
        """End it; the kernel ends the child with its host."""
        self._ray.kill(self._host)

    def _get(self, answer: Any, seconds: float) -> Any:
        """What the host says, or None when it does not in time."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(answer, timeout=seconds)
        except errors.GetTimeoutError:
            return None
        except (errors.RayError, EOFError, OSError) as error:
            raise EOFError(_reason(error)) from error


class _Host:
    """Keeps a child on its node and passes messages on."""

    def __init__(self, main: str) -> None:
        self.child = Child(main)

    def send(self, message: object) -> bool:
        self.child.connection.send(message)
        return True

    def receive(self, seconds: float) -> list[Any]:
        """All messages that are there, at least one if it comes in time."""
        pipe = self.child.connection
        found: list[Any] = []
        while pipe.poll(0.0 if found else seconds):
            found.append(pipe.recv())
        return found

    def signal(self, number: int) -> bool:
        self.child.signal(number)
        return True


def _reason(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _ray_module() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        rule = "Ray is not installed: pip install 'clusterfirst[ray]'"
        raise InputError(Problem("E422", "engine", "ray", rule)) from error


def _ray(workers: int) -> Any:
    """Ray, joined to the cluster of RAY_ADDRESS or to one started on this machine."""
    ray = _ray_module()
    if ray.is_initialized():
        return ray
    local: dict[str, Any] = {}
    address = os.environ.get("RAY_ADDRESS")
    if not address:
        local = {
            "num_cpus": workers,
            "include_dashboard": False,
            "object_store_memory": OBJECT_STORE,
            # Ray's default of 15 starves the workers on a machine with other work.
            "_system_config": {"worker_niceness": 0},
        }
    polite = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **local)
    except (ConnectionError, ValueError, RuntimeError) as error:
        rule = "no cluster answers at RAY_ADDRESS" if address else _reason(error)
        raise InputError(Problem("E421", "engine", address or "ray", rule)) from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, polite)  # Ray's own exits as if something broke
    return ray


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
