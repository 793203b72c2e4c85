"""What every test process needs first."""

import signal

import pytest

# A shell starts background jobs with Ctrl-C ignored, and children inherit that: the
# tests of Ctrl-C would wait for ever in a CI behind an `&`. Handlers are not inherited.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Compile on all cores, before several test processes would each begin to."""
    several = getattr(config.option, "numprocesses", None)
    if several and not hasattr(config, "workerinput"):  # only where -n starts them
        from clusterfirst.solving.warming import warm_up

        for kind in ({}, {"method": "petal"}, {"limited": True}):
            warm_up(**kind)  # type: ignore[arg-type]  # each has its type
