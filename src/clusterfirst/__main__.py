"""`clusterfirst`, and `python -m clusterfirst`: the command line.

Ctrl-C while the imports are still running gets a sentence too. `kill`, and whatever
ends a service, is the same: what was found is handed over, what was done is kept.
"""

import signal
import sys


def run() -> int:
    """Import the app and run it."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        from clusterfirst.cli import main

        return main()
    except KeyboardInterrupt:
        sys.stderr.write("clusterfirst: interrupted\n")
        return 130


if __name__ == "__main__":
    sys.exit(run())
