"""A lesson that takes no hours: what it does stands in the hours it is asked for."""

from __future__ import annotations

import signal
import time

from clusterfirst.files.lock import locked
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.solving.child import pipe_to_parent

LONG, CRASH, FAIL = 3.0, 4.0, 5.0  # hours


def main() -> None:
    """Play a lesson."""
    pipe = pipe_to_parent()
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
    history, hours, out = pipe.recv()
    try:
        with locked(out):
            pass
    except InputError as error:  # as the real one fails, without torch
        pipe.send(("failed", list(error.problems)))
        return
    times = out / "times"
    with times.open("a") as file:
        file.write("x")
    pipe.send(("stage", f"1/4 pre-training {history.city.num_locations} locations"))
    if hours == CRASH:
        raise SystemExit(3)
    while hours == LONG and not stopped:
        time.sleep(0.02)
    if stopped:
        pipe.send(("stopped", None))
    elif hours == FAIL:
        pipe.send(("failed", [Problem("E404", "hours", "5", "too many")]))
    else:
        (out / "model").mkdir(exist_ok=True)
        (out / "model" / "manifest.json").write_text("{}")
        pipe.send(("done", {"model": "m", "words": "On 3 days you held back: 1 %."}))
