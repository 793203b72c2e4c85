"""Bodies and preferences of requests, within limits and before any parsing."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any, cast

from fastapi import Request

from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.service.inputs import JSON, Body
from clusterfirst.service.plans import Plans
from clusterfirst.service.problems import Refusal
from clusterfirst.service.store import Key, digest, new_id
from clusterfirst.service.worker import Question
from clusterfirst.service.worker_pool import Live, WorkerPool

BODY_SECONDS = 30.0  # for the whole body; slower clients are let go
MOST_WAIT = 60.0


def plans_of(request: Request) -> Plans:
    """The plans that the application keeps."""
    return cast(Plans, request.app.state.plans)


async def read_body(request: Request, kinds: Sequence[str] = (JSON,)) -> Body:
    """The body of an acceptable kind and size."""
    given = request.headers.get("content-type", "")
    kind = given.split(";")[0].strip().lower()
    if kind not in kinds:
        rule = f"Content-Type: {' or '.join(kinds)} is needed"
        raise Refusal(Problem("E502", "body", given or "no Content-Type", rule))
    if request.headers.get("content-encoding", "identity") != "identity":
        rule = "send it unpacked"
        raise Refusal(Problem("E502", "body", "a Content-Encoding", rule))
    most = plans_of(request).limits.body_bytes
    stated = request.headers.get("content-length", "0")
    if stated.isdigit() and int(stated) > most:
        raise _too_large(most)
    content = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                content += part
                if len(content) > most:
                    raise _too_large(most)
    except TimeoutError as error:
        rule = f"it took longer than {BODY_SECONDS:g} s"
        raise Refusal(Problem("E510", "body", rule=rule)) from error
    return Body(bytes(content), kind, dict(request.query_params))


def _too_large(most: int) -> Refusal:
    return Refusal(Problem("E501", "body", rule=f"the limit is {most} bytes"))


def preferred_wait(request: Request) -> float:
    """Seconds that the client would wait for an answer (RFC 7240: `Prefer: wait=2`)."""
    match = re.search(r"\bwait=(\d{1,4})\b", request.headers.get("prefer", ""))
    return min(float(match[1]), MOST_WAIT) if match else 0.0


def key_of(request: Request, body: Body) -> Key | None:
    """The Idempotency-Key with what this request is known by, if there is one."""
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not (1 <= len(key) <= 200 and key.isprintable()):
        rule = "1 to 200 printable characters are needed"
        raise Refusal(Problem("E404", "Idempotency-Key", rule=rule))
    where = f"{request.url.path} {sorted(body.query.items())} "
    return key, digest(where.encode() + body.content)


async def answer_of(
    pool: WorkerPool, question: Question, seconds: float
) -> dict[str, Any]:
    """Let a worker answer a question that leaves nothing behind."""
    live = Live(new_id(), question, seconds, saved=False)
    pool.submit(live)
    await live.wait(seconds)
    if live.status != "done":
        pool.stop(live)
        found = live.answer.get("problems")
        if found:
            fields = ("code", "where", "got", "rule")
            raise InputError(Problem(*(found[0][key] for key in fields)))
        rule = "no answer in time; ask for less"
        raise Refusal(Problem("E510", "question", rule=rule))
    return {key: value for key, value in live.answer.items() if key != "history"}
