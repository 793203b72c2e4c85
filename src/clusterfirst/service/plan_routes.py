"""`/v1/plans`: ask, watch, stop, export, move, plan again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response, StreamingResponse

from clusterfirst.files.strict_json import Checker
from clusterfirst.service import schemas
from clusterfirst.service.cities import finder
from clusterfirst.service.inputs import CSV, JSON, XLSX, Body, document_of, read_wish
from clusterfirst.service.moves import read_move
from clusterfirst.service.plans import (
    FORMATS,
    Plans,
    best_so_far,
    dumps,
    when,
)
from clusterfirst.service.replan import read_changes
from clusterfirst.service.requests import (
    answer_of,
    key_of,
    plans_of,
    preferred_wait,
    read_body,
)
from clusterfirst.service.store import Key
from clusterfirst.service.worker import Look
from clusterfirst.service.worker_pool import Live

router = APIRouter(prefix="/v1/plans", tags=["plans"])
TICK = 0.1  # seconds between two events of one plan
STOPPING = 10.0  # seconds in which a worker hands over its best
HEARTBEAT = 15.0
MODEL = "general"  # asked for the stages of a plan
STAGES_SECONDS = 180.0  # compiling included, after a fresh installation
PLAN = schemas.answers(200, 202, schema=schemas.PLAN)


@router.post(
    "",
    responses=PLAN,
    openapi_extra=schemas.body("plan", schemas.PLAN_BODY, tables=True),
)
async def ask(request: Request) -> Response:
    """Ask for a plan; `Prefer: wait=2` answers at once when it is done in time.

    A table (CSV, XLSX) takes `capacity`, `vehicles`, `city`, `depot` and the options
    from the query. The same Idempotency-Key gives the same plan.
    """
    plans = plans_of(request)
    body = await read_body(request, (JSON, CSV, XLSX))
    key = _key_or_room(request, body)

    def write_down() -> Live:
        plans.pool.require_room()
        wish = read_wish(body, plans.limits, finder(plans.store))
        return plans.ask(wish, key=key)

    return await _answer(request, await run_in_threadpool(plans.once, key, write_down))


def _key_or_room(request: Request, body: Body) -> Key | None:
    """The key; without one a full queue is said before anything is read.

    With one the plan may be there already, and is given whatever waits.
    """
    key = key_of(request, body)
    if key is None:
        plans_of(request).pool.require_room()
    return key


async def _answer(request: Request, asked: str | Live) -> Response:
    """The plan now, or after as long as the client would wait."""
    plans, wait = plans_of(request), preferred_wait(request)
    plan = asked if isinstance(asked, str) else asked.plan
    live = plans.pool.live.get(plan) if isinstance(asked, str) else asked
    if live is not None and wait:
        await live.wait(wait)
    document = await run_in_threadpool(plans.document, plan)
    headers = {"Location": f"/v1/plans/{plan}"}
    if wait:
        headers["Preference-Applied"] = f"wait={wait:g}"
    over = document["status"] not in ("queued", "running")
    return JSONResponse(document, 200 if over else 202, headers)


@router.get("", responses=schemas.answers(200))
async def newest(request: Request) -> dict[str, Any]:
    """The newest plans, without their routes."""
    found = await run_in_threadpool(plans_of(request).store.recent, 50)
    return {"plans": [{**row, "created": when(row["created"])} for row in found]}


@router.get("/{plan}", responses=schemas.answers(200, schema=schemas.PLAN))
async def look(plan: str, request: Request) -> JSONResponse:
    """A plan with its best routes so far and the history of its cost."""
    return JSONResponse(await run_in_threadpool(plans_of(request).document, plan))


@router.get("/{plan}/instance", responses=schemas.answers(200, schema=schemas.INSTANCE))
async def instance(plan: str, request: Request) -> Response:
    """What the plan is for, as it was understood."""
    plans = plans_of(request)

    def text() -> str:
        return plans.store.instance(plans.row(plan).instance)

    return Response(await run_in_threadpool(text), media_type=JSON)


@router.delete("/{plan}", responses=schemas.answers(200, schema=schemas.PLAN))
async def stop(plan: str, request: Request) -> JSONResponse:
    """Stop, and return the best so far; a plan that is done stays as it is."""
    plans = plans_of(request)
    live = plans.pool.live.get(plan)
    if live is not None:
        await run_in_threadpool(plans.pool.stop, live)
        await live.wait(STOPPING)
    return JSONResponse(await run_in_threadpool(plans.document, plan))


@router.get(
    "/{plan}/events",
    responses={
        **schemas.answers(),
        200: {"description": "events", "content": {"text/event-stream": {}}},
    },
    response_class=StreamingResponse,
)
async def events(plan: str, request: Request) -> Response:
    """Every improvement as a server-sent event, then `done` with the plan."""
    plans = plans_of(request)
    await run_in_threadpool(plans.row, plan)  # unknown plans end here
    return StreamingResponse(_events(plans, plan), media_type="text/event-stream")


async def _events(plans: Plans, plan: str) -> AsyncIterator[str]:
    live, sent, quiet = plans.pool.live.get(plan), 0, time.monotonic()
    while live is not None and not live.over:
        if len(live.history) > sent and live.best is not None:
            points, sent = live.history[sent:], len(live.history)
            found = await run_in_threadpool(best_so_far, live)
            news = {**found, "seconds": points[-1]["seconds"], "points": points}
            yield f"event: improvement\ndata: {dumps(news)}\n\n"
            quiet = time.monotonic()
            await asyncio.sleep(TICK)
            continue
        if time.monotonic() - quiet > HEARTBEAT:
            yield ": still here\n\n"
            quiet = time.monotonic()
        await live.next_change(1.0)
    document = await run_in_threadpool(plans.document, plan)
    yield f"event: done\ndata: {dumps(document)}\n\n"


@router.get(
    "/{plan}/export.{suffix}",
    responses=schemas.answers(200),
    description=f"The routes as a file: {', '.join(FORMATS)}.",
)
async def export(plan: str, suffix: str, request: Request) -> Response:
    """The routes as a file."""
    plans = plans_of(request)
    async with request.app.state.drawing:  # pictures take seconds: one at a time
        content, media = await run_in_threadpool(plans.export, plan, suffix)
    name = f'attachment; filename="plan-{plan[:8]}.{suffix}"'
    return Response(content, media_type=media, headers={"Content-Disposition": name})


@router.post(
    "/{plan}/move",
    responses=schemas.answers(200),
    openapi_extra=schemas.body("move"),
)
async def move(plan: str, request: Request) -> JSONResponse:
    """What moving a customer to another route would cost; with `apply` a new plan."""
    body = await read_body(request)
    document = document_of(body, {"customer", "route", "apply"})
    check = Checker()
    customer = check.text(document.get("customer"), "customer")
    check.stop_if_wrong()
    number, apply = read_move(document)
    plans, key = plans_of(request), key_of(request, body)
    return JSONResponse(
        await run_in_threadpool(plans.move, plan, customer, number, apply, key)
    )


@router.post(
    "/{plan}/replan",
    responses=PLAN,
    openapi_extra=schemas.body("replan"),
)
async def replan(plan: str, request: Request) -> Response:
    """Plan again with orders added, removed or changed, from these routes."""
    plans = plans_of(request)
    body: Body = await read_body(request)
    key = _key_or_room(request, body)

    def write_down() -> Live:
        plans.pool.require_room()
        row = plans.row(plan)
        old, solution = plans.solution(row)
        changes = read_changes(body, old, plans.limits)
        start = changes.routes(old, solution)
        return plans.ask(changes.wish, key=key, parent=row, start=start)

    return await _answer(request, await run_in_threadpool(plans.once, key, write_down))


@router.post(
    "/{plan}/quote",
    responses=schemas.answers(200),
    openapi_extra=schemas.body("quote"),
)
async def quote(plan: str, request: Request) -> JSONResponse:
    """What a new order would cost on every route of this plan, the cheapest first;
    with `apply` a new plan that has it on `route`.
    """
    body, plans = await read_body(request), plans_of(request)
    key = key_of(request, body)
    return JSONResponse(await run_in_threadpool(plans.quote, plan, body, key))


@router.get("/{plan}/stages", responses=schemas.answers(200))
async def stages(plan: str, request: Request) -> JSONResponse:
    """The seed of each route and how sure the network is of each customer."""
    plans = plans_of(request)
    plans.pool.require_room()
    found = await run_in_threadpool(lambda: plans.solution(plans.row(plan)))
    look = Look(*found, MODEL)
    return JSONResponse(await answer_of(plans.pool, look, STAGES_SECONDS))


@router.get("/{plan}/explain/{customer:path}", responses=schemas.answers(200))
async def explain(plan: str, customer: str, request: Request) -> JSONResponse:
    """Why a customer is on its route, and what every other one would cost."""
    plans = plans_of(request)
    return JSONResponse(await run_in_threadpool(plans.explanation, plan, customer))
