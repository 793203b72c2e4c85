"""The queue of plans and the threads that carry them to worker processes.

Each thread owns one worker: starts it, hands it one plan at a time, passes on what it
reports, and starts another one when it dies. A plan whose worker died is tried once
more and then reported. `Live` is a plan on its way, as the answering process sees it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from clusterfirst.problem.errors import Problem
from clusterfirst.problem.instance import Instance
from clusterfirst.service.problems import Refusal
from clusterfirst.service.settings import ServiceSettings
from clusterfirst.service.worker import STOP, Question, Task
from clusterfirst.solving.child import Child, ChildFailedError
from clusterfirst.solving.cluster import RemoteChild

ATTEMPTS = 2
GRACE = 20.0  # seconds after its limit in which a worker must have answered
WARM_UP = 600.0  # seconds for the first compilation on a slow machine
FULL_DISK = 1.0  # seconds between two tries to write an answer down
MAIN = "clusterfirst.service.worker"
log = logging.getLogger("clusterfirst.service")
Worker = Child | RemoteChild  # on this machine, or on a node of a cluster


class Live:
    """A plan that waits or runs; fields are written by one thread, read by all."""

    def __init__(
        self, plan: str, task: Task | Question, limit: float, *, saved: bool = True
    ) -> None:
        self.plan = plan
        self.saved = saved  # whether the store has it
        self.task = task
        self.limit = limit
        self.status = "queued"
        self.attempts = 0
        self.stop_wanted = False
        self.history: list[dict[str, float]] = []
        self.best: list[list[int]] | None = None
        self.answer: dict[str, Any] = {}
        self.changed = asyncio.Event()  # set and replaced at each change
        self.worker: Worker | None = None

    @property
    def instance(self) -> Instance:
        """What is planned."""
        assert isinstance(self.task, Task)
        return self.task.instance

    @property
    def over(self) -> bool:
        """Whether there is a final answer."""
        return self.status not in ("queued", "running")

    async def wait(self, seconds: float) -> None:
        """Wait until it is over, at most so long."""
        end = time.monotonic() + seconds
        while not self.over and (left := end - time.monotonic()) > 0:
            await self.next_change(left)

    async def next_change(self, seconds: float) -> None:
        """Wait for news, at most so long."""
        event = self.changed
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), seconds)


class WorkerPool:
    """Takes plans in, hands answers to `save`, and counts."""

    def __init__(
        self, settings: ServiceSettings, save: Callable[[Live, str], None]
    ) -> None:
        self.settings = settings
        self.limit = settings.limits.queue
        self.save = save
        self.live: dict[str, Live] = {}
        self.counts = {"done": 0, "stopped": 0, "failed": 0, "worker_restarts": 0}
        self.busy_seconds = 0.0
        self._queue: deque[Live] = deque()
        self._news = threading.Condition()
        self._closing = False
        self.warm = 0
        self._loop = asyncio.get_running_loop()
        self._children: set[Worker] = set()
        self.threads = [
            threading.Thread(target=self._work, name=f"worker {i + 1}", daemon=True)
            for i in range(settings.workers)
        ]
        for thread in self.threads:
            thread.start()

    @property
    def ready(self) -> bool:
        """Whether every worker is warm."""
        return self.warm == len(self.threads)

    @property
    def waiting(self) -> int:
        """Plans without a worker."""
        return len(self._queue)

    def require_room(self) -> None:
        """Refuse what would wait too long."""
        if len(self._queue) >= self.limit:
            rule = "the service is busy; try again later"
            problem = Problem("E505", "queue", f"{len(self._queue)} plans", rule)
            soon = self.busy_seconds / max(1, sum(self.counts.values()) or 1)
            wait = max(1, round(soon * self.limit / len(self.threads) / 4))
            raise Refusal(problem, {"Retry-After": str(min(wait, 60))})

    def submit(self, live: Live, *, first: bool = False) -> None:
        """Queue a plan."""
        with self._news:
            self.live[live.plan] = live
            (self._queue.appendleft if first else self._queue.append)(live)
            self._news.notify()

    def stop(self, live: Live) -> None:
        """Stop a plan: one that waits is over, one that runs hands over its best."""
        with self._news:
            live.stop_wanted = True
            if live in self._queue:
                self._queue.remove(live)
                waiting = True
            else:
                waiting = False
                if live.worker is not None:
                    live.worker.signal(STOP)
        if waiting:
            try:
                self._finish(live, "stopped", {})
            except sqlite3.OperationalError:  # a full disk
                self.submit(live)
                raise

    def close(self) -> None:
        """End the workers; what they were doing is run again at the next start."""
        with self._news:
            self._closing = True
            self._news.notify_all()
            children = list(self._children)
        for child in children:
            child.signal(signal.SIGKILL)
        for thread in self.threads:
            thread.join(5.0)

    # --- in the threads -----------------------------------------------------------

    def _work(self) -> None:
        child: Worker | None = None
        while not self._closing:
            if child is None:
                child = self._start()
                continue
            live = self._next()
            if live is not None and not self._run(child, live):
                self._end(child)
                child = None
        if child is not None:
            self._end(child)

    def _start(self) -> Worker | None:
        """A warm worker, or None when that failed."""
        child = (RemoteChild if self.settings.engine == "ray" else Child)(MAIN)
        with self._news:
            self._children.add(child)
        try:
            if not child.connection.poll(WARM_UP):
                raise EOFError
            child.connection.recv()
        except (EOFError, OSError):
            self._children.discard(child)
            child.close()
            self.counts["worker_restarts"] += 1
            time.sleep(0.5)  # a broken installation must not spin
            return None
        with self._news:
            self.warm += 1
        return child

    def _end(self, child: Worker) -> None:
        with self._news:
            self.warm -= 1
            self._children.discard(child)
        child.close()
        if not self._closing:
            self.counts["worker_restarts"] += 1

    def _next(self) -> Live | None:
        with self._news:
            if not self._queue:
                self._news.wait(1.0)
            if self._closing or not self._queue:
                return None
            return self._queue.popleft()

    def _run(self, child: Worker, live: Live) -> bool:
        """Carry one plan through; False if the worker is of no use any more."""
        live.attempts += 1
        begin = time.monotonic()
        try:
            child.connection.send(live.task)
            with self._news:
                live.worker, live.status = child, "running"
                if live.stop_wanted:
                    child.signal(STOP)
            self._tell(live)
            ended, value = self._listen(child, live, begin + live.limit + GRACE)
        except (EOFError, OSError, ChildFailedError):
            self._died(live)
            return False
        finally:
            with self._news:
                live.worker = None
            self.busy_seconds += time.monotonic() - begin
        if ended == "failed":
            said = [self.settings.hidden(problem).as_dict() for problem in value]
            self._settle(live, "failed", {"problems": said})
        else:
            self._settle(live, ended, value or {})
        return True

    def _listen(self, child: Worker, live: Live, deadline: float) -> tuple[str, Any]:
        """Pass reports on until the worker is through with the plan."""
        while True:
            if not child.connection.poll(max(0.0, deadline - time.monotonic())):
                raise ChildFailedError("it did not answer")
            kind, *rest = child.connection.recv()
            if kind != "better":
                return kind, rest[0]
            points, live.best = rest
            live.history += [
                {"seconds": round(seconds, 4), "cost": cost, "vehicles": vehicles}
                for seconds, cost, vehicles in points
            ]
            self._tell(live)

    def _died(self, live: Live) -> None:
        """Once more, or the truth."""
        if self._closing:
            return  # still without an answer on disk: run again at the next start
        live.history, live.best = [], None
        if live.stop_wanted:
            self._settle(live, "stopped", {})
        elif live.attempts < ATTEMPTS:
            live.status = "queued"
            self.submit(live, first=True)
        else:
            rule = f"its worker ended unexpectedly {ATTEMPTS} times"
            problem = Problem("E509", "plan", rule=rule)
            self._settle(live, "failed", {"problems": [problem.as_dict()]})

    def _settle(self, live: Live, status: str, answer: dict[str, Any]) -> None:
        """Finish; with a full disk that waits until there is room again."""
        while not self._closing:
            try:
                self._finish(live, status, answer)
                return
            except sqlite3.OperationalError as error:
                log.error("a plan waits to be written: %s", error)
                time.sleep(FULL_DISK)

    def _finish(self, live: Live, status: str, answer: dict[str, Any]) -> None:
        """Save first, tell then."""
        last = _last_point(live.history, answer)
        if last is not None:
            live.history.append(last)
        live.answer = {**answer, "history": live.history}
        self.save(live, status)
        self.counts[status] += 1
        live.status = status
        self.live.pop(live.plan, None)
        self._tell(live)

    def _tell(self, live: Live) -> None:
        def wake() -> None:
            event, live.changed = live.changed, asyncio.Event()
            event.set()

        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(wake)


def _last_point(
    history: Sequence[dict[str, float]], answer: dict[str, Any]
) -> dict[str, float] | None:
    """Where the curve ends, if the last report left something out."""
    if not answer.get("routes") or not (seconds := answer.get("seconds")):
        return None
    if history and history[-1]["cost"] <= answer["cost"]:
        return None
    spent = sum(value for key, value in seconds.items() if key != "start-up")
    return {
        "seconds": round(spent, 4),
        "cost": answer["cost"],
        "vehicles": len(answer["routes"]),
    }
