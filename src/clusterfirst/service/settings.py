"""What the service is started with: where its data are, and its limits."""

from __future__ import annotations

import math
import re
import socket
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from clusterfirst.files.source import Limits
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.solving.cluster import Engine

LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]", "testserver")
MEGABYTE = 1 << 20
BASEMAP = "/basemap.pmtiles"  # its address, where there is one
LEAST_TOKEN = 16  # characters; shorter ones can be guessed


@dataclass(frozen=True)
class ServiceLimits:
    """How much one request, and all of them, may ask for."""

    body_bytes: int = 10 * MEGABYTE
    customers: int = 20_000
    seconds: float = 60.0  # of one plan
    queue: int = 100  # plans that wait for a worker
    days: float = 30.0  # for which a plan is kept
    learn_hours: float = 24.0  # of one city's lesson

    def __post_init__(self) -> None:
        options = {
            "--max-bytes": self.body_bytes,
            "--max-customers": self.customers,
            "--max-seconds": self.seconds,
            "--max-queue": self.queue,
            "--keep-days": self.days,
        }
        for name, value in options.items():
            if not 0 < value < math.inf:
                rule = "a number above 0 is needed"
                raise InputError(Problem("E404", name, f"{value:g}", rule))

    def as_dict(self) -> dict[str, Any]:
        """The limits for `GET /v1/limits`."""
        return asdict(self)

    @property
    def of_files(self) -> Limits:
        """The same for the readers of files."""
        return Limits(max_bytes=self.body_bytes, max_customers=self.customers)


@dataclass(frozen=True)
class ServiceSettings:
    """Where the data are, how many workers, who may ask."""

    data: Path
    workers: int
    token: str | None = None  # asked of every request but those of the page
    limits: ServiceLimits = field(default_factory=ServiceLimits)
    basemap: Path | None = None  # a PMTiles file to draw behind the routes
    engine: Engine = "pool"  # where the workers are

    def __post_init__(self) -> None:
        # As every error names it: `hidden` has to find it.
        object.__setattr__(self, "data", self.data.resolve())

    @property
    def learned(self) -> Path:
        """Where the models of cities are, a folder for each."""
        return self.data / "learned"

    def hidden(self, problem: Problem) -> Problem:
        """A problem without the folder of the data: no answer tells where it is."""
        path = re.escape(str(self.data)) + r"[^\s'\"]*"
        texts = {
            name: re.sub(path, "a folder here", text)
            for name, text in vars(problem).items()
            if name != "code"
        }
        return replace(problem, **texts)


def read_token(path: Path) -> str:
    """The token in a file: its first line."""
    from clusterfirst.files.source import named, read_text

    with named(path):
        token = read_text(path).splitlines()[0].strip()
    if len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable():
        rule = f"at least {LEAST_TOKEN} ASCII characters are needed on its first line"
        raise InputError(Problem("E507", "--token-file", rule=rule))
    return token


def require_guarded(host: str, token: str | None) -> None:
    """Refuse to listen to other machines without a token."""
    if host not in ("127.0.0.1", "localhost", "::1") and token is None:
        rule = "other machines could reach it: --token-file FILE is needed"
        raise InputError(Problem("E507", "--host", host, rule))


def listening(host: str, port: int) -> socket.socket:
    """A socket at an address, before anything else is started."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        rule = f"it cannot listen there: {error.strerror}"
        got = f"{host} port {port}"
        raise InputError(Problem("E512", "--host and --port", got, rule)) from error
    # Otherwise answers wait 40 ms for the client to say that it got their heads.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
