"""Child processes that answer calls, one at a time.

Every process is a fresh interpreter (never a fork: torch, HiGHS and numba keep
threads that do not survive one) that answers one call at a time over a private
pipe. It does not see Ctrl-C, which is the parent's to handle, and the kernel ends it
when the parent dies, however that happens.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe
from typing import Any

PR_SET_PDEATHSIG = 1  # linux/prctl.h


class ChildFailedError(Exception):
    """A child process died, or was ended because its time was up."""


class Child:
    """One process that answers calls one at a time; a context manager.

    Functions travel by name, so they must be importable in a fresh interpreter
    (which need not import the caller's `__main__`, unlike multiprocessing's). `main`
    is the module whose `main()` answers; it opens the pipe with `pipe_to_parent`.
    """

    def __init__(self, main: str = "clusterfirst.solving.child") -> None:
        ours, theirs = Pipe()
        # One thread of linear algebra each: the parallelism is in the processes.
        environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        code = f"from {main} import main; main()"
        command = [sys.executable, "-c", code, str(theirs.fileno()), str(os.getpid())]
        # Children inherit the mask: Ctrl-C, which a terminal sends to all, is ours.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process = subprocess.Popen(
                command,
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # native solvers print; answers use the pipe
                env=environment | dict(os.environ) | {"PYTHONPATH": _search_path()},
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            theirs.close()
        self.connection = ours

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def signal(self, number: int) -> None:
        """Send the process a signal, if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def start(self, function: Callable[[Any], Any], argument: object) -> None:
        """Send a call; fetch the answer with `result`."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send((function, argument))

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the answer; raise what the function raised.

        When the process dies or `timeout` seconds pass, it is ended for good and
        ChildFailedError says why.
        """
        try:
            if not self.connection.poll(timeout):
                self.close()
                raise ChildFailedError(f"no answer after {timeout:g} s; it was ended")
            failed, value = self.connection.recv()
        except (EOFError, ConnectionResetError):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1.0)  # its own signal explains its death
            self.close()
            raise ChildFailedError(_cause_of_death(self._process.returncode)) from None
        if failed:
            raise value
        return value

    def call(
        self, function: Callable[[Any], Any], argument: object, timeout: float
    ) -> Any:
        """`start`, then `result`."""
        self.start(function, argument)
        return self.result(timeout)

    def close(self) -> None:
        """End the process now; it holds nothing that could be lost."""
        self._process.kill()
        self._process.wait()
        self.connection.close()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_own = threading.local()  # the guarding child of this thread


def guarded_call(
    function: Callable[[Any], Any], argument: object, timeout: float
) -> Any:
    """Call in a child process that is kept for the next call of this thread.

    Native code that crashes or hangs takes only the child with it:
    ChildFailedError, and the next call gets a new child.
    """
    child: Child | None = getattr(_own, "child", None)
    if child is None or not child.alive() or child.connection.closed:
        child = _own.child = Child()
    try:
        return child.call(function, argument, timeout)
    except BaseException:
        # After Ctrl-C an answer may still be on its way: never reuse that pipe.
        child.close()
        raise


def _search_path() -> str:
    """Return sys.path for the child, so that it can import what we can."""
    return os.pathsep.join(path or os.getcwd() for path in sys.path)


def _cause_of_death(code: int | None) -> str:
    if code is not None and code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended with exit code {code}"


def _die_with_parent(parent: int) -> None:
    """Let the kernel kill us when the thread that started us ends (Linux).

    Elsewhere the closed pipe ends us after the current call.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we asked
        sys.exit(1)


def pipe_to_parent() -> Connection:
    """The pipe of this child, which from now on ends with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # some libraries lift the mask
    connection = Connection(int(sys.argv[1]))
    _die_with_parent(int(sys.argv[2]))
    return connection


def main() -> None:
    """Answer calls until the pipe closes."""
    connection = pipe_to_parent()
    while True:
        try:
            function, argument = connection.recv()
        except (EOFError, ConnectionError):  # our parent is gone: closed or reset
            return
        except Exception as error:  # a function that cannot be imported here
            connection.send((True, error))
            continue
        try:
            answer = (False, function(argument))
        except Exception as error:
            answer = (True, error)
        try:
            connection.send(answer)
        except ConnectionError:
            return
        except Exception as error:  # an answer that cannot be pickled
            connection.send((True, TypeError(f"cannot send the answer: {error}")))
