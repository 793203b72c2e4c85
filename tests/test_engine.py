"""Processes that answer calls: results, deaths, hangs, orphans, Ray."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.solving.child import Child, ChildFailedError, guarded_call
from clusterfirst.solving.cluster import map_tasks

PATIENCE = 60.0  # seconds; guards against hangs on a busy machine


def square(x: int) -> int:
    """Return x * x, but die on 13 and complain on -1."""
    if x == 13:
        os.kill(os.getpid(), signal.SIGSEGV)
    if x == -1:
        raise InputError(Problem("E999", "x", "-1", "no negative numbers"))
    return x * x


def die_once(folder: str) -> str:
    """Die the first time, answer the second."""
    mark = Path(folder) / "been here"
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "second life"


def sleep(seconds: float) -> None:
    """Wait."""
    time.sleep(seconds)


def pid(_: object) -> int:
    """Return the process id."""
    return os.getpid()


def unpicklable(_: object) -> object:
    """Return what cannot travel."""
    return lambda: None


def test_every_task_is_answered_once_whatever_the_number_of_workers() -> None:
    """The pool returns f(task) for every task of a lazy iterable, each once."""
    for workers in (1, 3):
        outcomes = list(map_tasks(square, iter(range(10)), workers=workers))
        assert sorted((o.task, o.value) for o in outcomes) == [
            (x, x * x) for x in range(10)
        ]


def test_a_task_that_kills_its_process_fails_alone() -> None:
    """A segmentation fault becomes one named failure; the other tasks are done."""
    outcomes = {o.task: o for o in map_tasks(square, range(11, 16), workers=2)}
    assert "SIGSEGV" in outcomes[13].failure
    assert all(outcomes[x].value == x * x for x in (11, 12, 14, 15))


def test_a_process_that_dies_once_is_replaced(tmp_path: Path) -> None:
    """The second attempt of a task counts."""
    (outcome,) = map_tasks(die_once, [str(tmp_path)], workers=1)
    assert outcome.value == "second life"


def test_errors_of_the_function_arrive_whole() -> None:
    """An InputError raised in a worker is raised here with its problems."""
    with pytest.raises(InputError, match=r"E999 x: found -1") as caught:
        list(map_tasks(square, [2, -1], workers=1))
    assert caught.value.problems[0].code == "E999"


def test_a_hanging_call_is_ended_and_the_next_one_works() -> None:
    """The watchdog ends the child; the same thread then gets a new one."""
    first = guarded_call(pid, None, PATIENCE)
    with pytest.raises(ChildFailedError, match=r"no answer after 0\.1 s"):
        guarded_call(sleep, 1000, 0.1)
    second = guarded_call(pid, None, PATIENCE)
    assert second != first
    assert guarded_call(pid, None, PATIENCE) == second
    with pytest.raises(TypeError, match="cannot send"):
        guarded_call(unpicklable, None, PATIENCE)


def test_children_die_with_a_killed_parent() -> None:
    """After SIGKILL of the parent no child is left behind."""
    code = (
        "import sys, time; from clusterfirst.solving.cluster import Child\n"
        "child = Child(); print(child.call(abs, -1, 60), child.pid)\n"
        "sys.stdout.flush(); child.start(time.sleep, 1000); time.sleep(1000)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline().split()[-1])
    parent.kill()
    parent.wait()
    parent.stdout.close()
    end = time.monotonic() + PATIENCE
    while _running(child):
        assert time.monotonic() < end, "the child outlived its parent"
        time.sleep(0.02)


def _running(process: int) -> bool:
    """Whether a process exists and is not merely waiting to be reaped."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_leaving_the_map_early_ends_its_processes() -> None:
    """A consumer that stops (or Ctrl-C) leaves no process running."""
    results = map_tasks(pid, range(100), workers=2)
    first = next(results).value
    assert first is not None
    results.close()  # type: ignore[attr-defined]  # it is a generator
    assert not _running(first)


def test_a_closed_child_stays_closed() -> None:
    """The context manager ends the process."""
    with Child() as child:
        assert child.call(square, 3, PATIENCE) == 9
    assert not child.alive()


def test_a_parent_that_leaves_without_reading_gets_no_words(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """An unread answer resets the pipe when its reader closes it: the child just ends.

    A parent interrupted between an answer's arrival and its reading does that.
    """
    child = Child()
    child.start(square, 3)
    assert child.connection.poll(PATIENCE)
    child.connection.close()
    patience = time.monotonic() + PATIENCE
    while child.alive() and time.monotonic() < patience:
        time.sleep(0.01)
    assert not child.alive()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("workers", "engine"), [(0, "pool"), (-2, "ray"), (1, "magic")]
)
def test_wrong_options_are_named(workers: int, engine: str) -> None:
    """Wrong numbers of workers and unknown engines get one sentence."""
    with pytest.raises(InputError, match="E421"):
        map_tasks(square, [1], workers=workers, engine=engine)  # type: ignore[arg-type]


@pytest.mark.skipif(
    importlib.util.find_spec("ray") is not None, reason="the extra `ray` is installed"
)
def test_without_ray_the_extra_is_named() -> None:
    """Asking for Ray without Ray says which extra to install."""
    with pytest.raises(InputError, match=r"clusterfirst\[ray\]"):
        next(map_tasks(square, [1], workers=1, engine="ray"))
