"""A lesson: the process in which the model of a city is learned.

It answers over the pipe of `solving.child.Child`: after one (history, hours, folder)
any number of ("stage", text) and ("line", text), then ("done", facts),
("stopped", None) or ("failed", problems). SIGTERM stops it; every stage goes on from
where it was.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from clusterfirst.cities.history import History
from clusterfirst.problem.errors import ClusterfirstError, Problem
from clusterfirst.solving.child import pipe_to_parent

POLITENESS = 10  # plans come first


def learn_city(
    pipe: Connection, history: History, hours: float, out: Path
) -> tuple[str, Any]:
    """Learn, and return the message that ends it."""
    from clusterfirst.learning.training.learn_plan import LearnSettings
    from clusterfirst.learning.training.learning import Listener, learn
    from clusterfirst.learning.training.processes import use_threads

    def send(kind: str, text: str) -> None:
        pipe.send((kind, text))

    use_threads(1)
    listener = Listener(
        say=lambda text: send("stage", text),
        line=lambda text: send("line", text),
        report=lambda now: send("line", f"step {now.step} of {now.steps}"),
    )
    try:
        model = learn(history, LearnSettings(hours), out, listener)
    except KeyboardInterrupt:
        model = None
    if model is None:
        return "stopped", None
    words = model.provenance.get("words", "")
    return "done", {"model": model.name, "words": words}


def main() -> None:
    """Learn one city; the parent keeps what is said."""
    pipe = pipe_to_parent()
    signal.signal(signal.SIGTERM, _interrupt)
    os.nice(POLITENESS)
    try:
        answer = learn_city(pipe, *pipe.recv())
    except ClusterfirstError as error:
        answer = "failed", list(error.problems)
    except KeyboardInterrupt:
        answer = "stopped", None
    except Exception as error:  # a bug: the parent hears of it, the log has it all
        traceback.print_exc(file=sys.stderr)
        rule = "this is a bug; the log of the service shows where"
        answer = "failed", [Problem("E999", type(error).__name__, rule=rule)]
    pipe.send(answer)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
