"""What every test process needs first."""

import signal

# A shell starts background jobs with Ctrl-C ignored, and children inherit that: the
# tests of Ctrl-C would wait for ever in a CI behind an `&`. Handlers are not inherited.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
