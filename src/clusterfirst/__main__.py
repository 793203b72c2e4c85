"""`clusterfirst`, and `python -m clusterfirst`: the command line.

Ctrl-C while the imports are still running gets a sentence too. `kill`, and whatever
ends a service, is the same: what was found is handed over, what was done is kept.
"""

import os
import signal
import sys
from types import FrameType

from clusterfirst.problem.clock import is_compiling


def run() -> int:
    """Import the app and run it."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, _interrupt)
    try:
        from clusterfirst.cli import main

        return main()
    except KeyboardInterrupt:
        sys.stderr.write("clusterfirst: interrupted\n")
        return 130
    finally:  # what is done is done: leaving must not change the exit code
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, or end at once where nobody would see it.

    numba compiles through callbacks of C, which print an exception and go on. No
    answer and no file of ours is open while it does.
    """
    if is_compiling():
        os.write(2, b"clusterfirst: interrupted\n")
        os._exit(130)
    signal.default_int_handler(number, frame)


if __name__ == "__main__":
    sys.exit(run())
