"""What stands before every request: who asks, how much, and what leaves.

Plain ASGI, outside of the framework: requests that are refused cost almost nothing,
and every answer, errors of the framework included, leaves with the same headers.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from clusterfirst.problem.errors import ClusterfirstError, Problem
from clusterfirst.service.problems import Refusal, problem_response
from clusterfirst.service.settings import LOCAL_HOSTS, ServiceSettings

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

log = logging.getLogger("clusterfirst.service")
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: "
    "blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
MOST_DRAINED = 100 << 20  # bytes of a refused body
DRAIN_SECONDS = 5.0
OPEN = ("/health", "/ready")  # and the page: nothing in them is anybody's


class Incoming:
    """The body of a request, of which a refusal has not read all.

    A connection that is closed while its client still sends is reset, and the client
    never sees why it was refused: so the rest is read and thrown away, for a while.
    """

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._receive = receive
        headers = dict(scope["headers"])
        sends = headers.keys() & {b"content-length", b"transfer-encoding"}
        self._over = not sends or b"expect" in headers  # that one waits for our word

    async def receive(self) -> Message:
        """Hand a part of the body on."""
        message = await self._receive()
        self._over = self._over or not message.get("more_body", False)
        return message

    async def drain(self) -> None:
        """Read what is left, within limits of time and size."""
        left = MOST_DRAINED
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while not self._over and left > 0:
                    left -= len((await self.receive()).get("body", b""))


class Guard:
    """Refuses strangers, adds headers, counts, and turns errors into sentences."""

    def __init__(self, app: App, settings: ServiceSettings) -> None:
        self.app = app
        self.settings = settings
        self.answered: dict[int, int] = {}  # by status
        self.seconds = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begin = time.monotonic()
        body = Incoming(scope, receive)

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                await body.drain()
                status = message["status"]
                self.answered[status] = self.answered.get(status, 0) + 1
                self.seconds += time.monotonic() - begin
                given = list(message.get("headers", []))
                names = {name for name, _ in given}
                added = [pair for pair in HEADERS if pair[0] not in names]
                if b"cache-control" not in names:
                    added.append((b"cache-control", b"no-store"))
                message["headers"] = given + added
            await send(message)

        try:
            self._admit(scope)
            await self.app(scope, body.receive, sending)
        except ClusterfirstError as error:
            await problem_response(error)(scope, body.receive, sending)
        except Exception:  # it was answered (`app._as_bug`) before it came here
            log.exception("a request failed")

    def _admit(self, scope: Scope) -> None:
        headers = dict(scope["headers"])
        token = self.settings.token
        path = scope["path"]
        if token is None:
            # A page of another site must not reach us through a name that it owns.
            _require_local(headers)
            return
        if path in OPEN or not path.startswith(("/v1", "/metrics")):
            return
        given = headers.get(b"authorization", b"")
        if not hmac.compare_digest(given, b"Bearer " + token.encode()):
            rule = "Authorization: Bearer TOKEN is needed"
            raise Refusal(
                Problem("E507", "token", rule=rule), {"WWW-Authenticate": "Bearer"}
            )


def _require_local(headers: dict[bytes, bytes]) -> None:
    host = headers.get(b"host", b"").decode("latin-1")
    origin = headers.get(b"origin", b"").decode("latin-1")
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    if name not in LOCAL_HOSTS or (origin and origin != f"http://{host}"):
        rule = "without a token only pages and programs of this machine are answered"
        raise Refusal(Problem("E504", "Host or Origin", rule=rule))
