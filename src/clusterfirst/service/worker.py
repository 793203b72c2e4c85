"""A worker: a process that is warm, solves one plan at a time and tells how it goes.

It answers over the pipe of `solving.child.Child`: ("ready", seconds) once; for each
task any number of ("better", points, routes), each with every improvement since the
last one as (seconds, cost, vehicles), and then ("done", answer),
("stopped", answer or None) or ("failed", problems). SIGUSR1 stops the search, which
hands over its best routes.
"""

from __future__ import annotations

import signal
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Protocol

from clusterfirst.files.source import heard_warnings
from clusterfirst.problem.errors import ClusterfirstError, Problem
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution
from clusterfirst.solving.child import pipe_to_parent
from clusterfirst.solving.options import SolveOptions

if TYPE_CHECKING:
    from clusterfirst.stages.routes import Routes

STOP = signal.SIGUSR1
BETWEEN = 0.03  # seconds between two reports of better routes


@dataclass(frozen=True)
class Task:
    """What a worker is asked to do."""

    instance: Instance
    options: SolveOptions
    start: Sequence[Sequence[int]] | None = None


class Question(Protocol):
    """What else a worker may be asked: something that knows its answer."""

    def answer(self) -> dict[str, Any]:
        """Plain values for JSON."""
        ...


@dataclass(frozen=True)
class Look:
    """A question to the network: what it thinks of a plan."""

    instance: Instance
    solution: Solution
    model: str

    def answer(self) -> dict[str, Any]:
        """Seeds by route, and how sure the transport plan is of each customer."""
        from clusterfirst.solving.explaining.explain import explain

        found = explain(self.instance, self.solution, self.model, borrow=True)
        assert found.network is not None
        ids, network = self.instance.ids, found.network
        own = network.plan[range(len(found.vehicle)), found.vehicle]
        return {
            "model": network.model,
            "seeds": [ids[seed] if seed else None for seed in network.seeds.tolist()],
            "shares": dict(zip(ids[1:], own.round(4).tolist(), strict=True)),
            "confident": int(network.confident.sum()),
        }


class Search:
    """One search as its parent sees it; the stop signal never cuts a message."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe
        self.searching = self.sending = self.stopped = False
        self.began = self.sent = 0.0
        self.best: Routes | None = None
        self.points: list[tuple[float, float, int]] = []  # not reported yet

    def stop(self, number: int, frame: object) -> None:
        """The signal handler."""
        self.stopped = self.searching
        if self.searching and not self.sending:
            raise KeyboardInterrupt

    def better(self, cost: float, routes: Routes) -> None:
        """Report every improvement, but not more often than anybody looks."""
        self.sending = True
        self.best, now = routes, time.perf_counter()
        self.points.append((now - self.began, cost, len(routes)))
        if now - self.sent >= BETWEEN:
            self.sent = now
            self.report()
        self.sending = False
        if self.stopped:
            raise KeyboardInterrupt

    def report(self) -> None:
        """Hand over what was found since the last time."""
        if self.best is not None and self.points:
            self.pipe.send(("better", self.points, self.best.lists()))
        self.points = []

    def run(self, task: Task | Question) -> tuple[Any, ...]:
        """Search and return the message that ends it."""
        from clusterfirst.solving.solver import solve

        if not isinstance(task, Task):
            try:
                return "done", _answer_of(task)
            except ClusterfirstError as error:
                return "failed", list(error.problems)
        self.began, self.sent = time.perf_counter(), 0.0
        self.best, self.points, self.stopped = None, [], False
        try:
            self.searching = True
            result = solve(
                task.instance,
                task.options,
                on_improvement=self.better,
                start=task.start,
            )
            self.searching = False
        except KeyboardInterrupt:
            self.searching = self.sending = False
            return "stopped", self._best_so_far(task)
        except ClusterfirstError as error:
            self.searching = False
            return "failed", list(error.problems)
        except MemoryError:
            self.searching = False
            rule = "there is not enough of it for this plan"
            return "failed", [Problem("E733", "memory", rule=rule)]
        ended = "stopped" if result.interrupted else "done"
        return ended, result.as_dict()

    def _best_so_far(self, task: Task) -> dict[str, Any] | None:
        """What the stop signal interrupted outside of the search's own care."""
        from clusterfirst.files.solutions import solution_document

        if self.best is None:
            return None
        routes = Solution(self.best.lists()).canonical()
        document = solution_document(task.instance, routes)
        status = "interrupted: the best answer so far"
        return document | {"method": task.options.method, "status": status, "notes": []}


def _answer_of(question: Question) -> dict[str, Any]:
    """The answer, and the warnings that the command line would print."""
    with heard_warnings() as lines:
        answer = question.answer()
    return {**answer, "warnings": lines}


def main() -> None:
    """Warm up, then serve tasks until the pipe closes."""
    pipe = pipe_to_parent()
    search = Search(pipe)
    signal.signal(STOP, search.stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {STOP})
    from clusterfirst.solving.solver import warm_up

    pipe.send(("ready", warm_up() + warm_up("neural") + warm_up(limited=True)))
    while True:
        try:
            task = pipe.recv()
        except (EOFError, ConnectionError):
            return
        try:
            answer = search.run(task)
        except Exception as error:  # a bug: the parent hears of it, the log has it all
            traceback.print_exc(file=sys.stderr)
            rule = "this is a bug; the log of the service shows where"
            answer = "failed", [Problem("E999", type(error).__name__, rule=rule)]
        try:
            search.report()
            pipe.send(answer)
        except ConnectionError:
            return
