"""`clusterfirst`, and `python -m clusterfirst`: the command line.

Ctrl-C while the imports are still running gets a sentence too. `kill`, and whatever
ends a service, is the same: what was found is handed over, what was done is kept.
"""

import atexit
import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import NoReturn

from clusterfirst.problem.clock import is_compiling
from clusterfirst.problem.errors import INTERRUPTED


def run() -> int:
    """Import the app and run it."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, _interrupt)
    try:
        from clusterfirst.cli import main

        code = main()
    except KeyboardInterrupt:
        sys.stderr.write("clusterfirst: interrupted\n")
        code = INTERRUPTED
    finally:  # what is done is done: leaving must not change the exit code
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
    if code == INTERRUPTED:
        _leave()
    return code


def _leave() -> NoReturn:
    """End now: to take torch apart takes Python a second of CPU after its last line."""
    atexit._run_exitfuncs()  # noqa: SLF001  # children and temporary folders go
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # closed, or never open
            stream.flush()
    os._exit(INTERRUPTED)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, or end at once where nobody would see it.

    numba compiles through callbacks of C, which print an exception and go on. No
    answer and no file of ours is open while it does.
    """
    if is_compiling(frame):
        os.write(2, b"clusterfirst: interrupted\n")
        os._exit(INTERRUPTED)
    signal.default_int_handler(number, frame)


if __name__ == "__main__":
    sys.exit(run())
