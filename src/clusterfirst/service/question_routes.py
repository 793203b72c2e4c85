"""Questions that leave nothing behind: validate, check, VROOM, limits, a demo."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from clusterfirst.files import BUNDLED_ORDERS, bundled_city, read_orders
from clusterfirst.files.json_files import instance_document, instance_of
from clusterfirst.files.solutions import solution_of, verdict_document
from clusterfirst.files.strict_json import parse_json
from clusterfirst.networks.model_folder import shipped
from clusterfirst.problem.errors import ClusterfirstError, Problem
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.service import schemas
from clusterfirst.service.choices import solve_options
from clusterfirst.service.cities import finder
from clusterfirst.service.inputs import (
    CSV,
    JSON,
    XLSX,
    document_of,
    lines_of,
    read_text_of,
    read_wish,
)
from clusterfirst.service.plans import FORMATS, Plans
from clusterfirst.service.problems import status_of
from clusterfirst.service.requests import plans_of, read_body
from clusterfirst.service.store import new_id
from clusterfirst.service.vroom import read_vroom, vroom_answer, vroom_error
from clusterfirst.service.worker import Task
from clusterfirst.service.worker_pool import Live
from clusterfirst.solving.solver import default_time_limit

router = APIRouter(prefix="/v1", tags=["questions"])
CHECK_KEYS = {"instance", "routes", "cost"}


@router.post(
    "/validate",
    responses=schemas.answers(200),
    openapi_extra=schemas.body("plan", schemas.PLAN_BODY, tables=True),
)
async def validate(request: Request) -> dict[str, Any]:
    """All problems of the input with their codes; nothing is solved."""
    plans = plans_of(request)
    body = await read_body(request, (JSON, CSV, XLSX))

    def shown(problems: Sequence[Problem]) -> list[dict[str, Any]]:
        return _with_lines(problems, lines_of(body, plans.limits) if problems else {})

    def look() -> dict[str, Any]:
        try:
            wish = read_wish(body, plans.limits, finder(plans.store))
            plans.with_model(wish.options)
            problems = wish.instance.infeasibility()
        except ClusterfirstError as error:
            return {"valid": False, "problems": shown(error.problems)}
        found = wish.instance
        return {
            "valid": not problems,
            "problems": shown(problems),
            "warnings": list(wish.warnings),
            "customers": found.num_customers,
            "capacity": found.capacity,
            "demand": float(found.demands.sum()),
            "least_vehicles": found.min_vehicles,
            "unit": found.unit,
            "instance": instance_document(found),
        }

    return await run_in_threadpool(look)


def _with_lines(
    problems: Sequence[Problem], lines: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Problems in the order of the table, each with its line where it has one."""
    found: list[dict[str, Any]] = []
    for problem in problems[:1000]:
        one: dict[str, Any] = problem.as_dict()
        own = re.match(r"line (\d+)", problem.where)
        named = re.match(r"(?:customer|order) (.+)", one["where"])
        if own:
            one["line"] = int(own[1])
        elif named and named[1] in lines:
            one["line"] = lines[named[1]]
        found.append(one)
    return sorted(found, key=lambda one: one.get("line", 0))


@router.post(
    "/check",
    responses=schemas.answers(200),
    openapi_extra=schemas.body("check"),
)
async def check(request: Request) -> dict[str, Any]:
    """Judge somebody's routes: recompute the cost, list every violation."""
    plans = plans_of(request)
    body = await read_body(request)

    def look() -> dict[str, Any]:
        document = document_of(body, CHECK_KEYS)
        instance = instance_of(document.get("instance"), plans.limits.of_files)
        solution, stated = solution_of(document, instance)
        verdict = judge(instance, solution, stated_cost=stated)
        return verdict_document(instance, solution, verdict, stated)

    return await run_in_threadpool(look)


@router.post(
    "/vroom",
    responses={**schemas.answers(200), 500: {"description": "VROOM's code 1"}},
    openapi_extra=schemas.body("vroom"),
)
@router.post("/vroom/", include_in_schema=False)  # as vroom-express is asked
async def vroom(request: Request) -> JSONResponse:
    """The CVRPs among VROOM's problems, in VROOM's format and with its error codes."""
    plans = plans_of(request)
    try:
        body = await read_body(request)
        plans.pool.require_room()
        parsed = await run_in_threadpool(parse_json, read_text_of(body.content))
        problem = await run_in_threadpool(read_vroom, parsed, plans.limits.customers)
        limit = problem.seconds or default_time_limit(problem.instance.num_customers)
        options = solve_options({"time_limit": limit}, plans.limits)
    except ClusterfirstError as error:
        return _vroom_refusal(error)
    begin = time.monotonic()
    answer: dict[str, Any] = {}
    if not problem.instance.infeasibility():
        answer = await _planned(plans, Task(problem.instance, options), limit)
    if answer.get("routes") is None:  # not all fit, or none was found: some may stay
        answer = await _planned(plans, Task(problem.relaxed, options), limit)
    if answer.get("routes") is None:
        found = answer.get("problems") or [{"message": "no answer in time"}]
        return JSONResponse({"code": 1, "error": found[0]["message"]}, 500)
    at = {name: row for row, name in enumerate(problem.instance.ids)}
    routes = [[at[c] for c in route] for route in answer["routes"]]
    spent = round(1000 * (time.monotonic() - begin))
    return JSONResponse(vroom_answer(problem, Solution(routes), spent))


@router.get("/vroom/health", include_in_schema=False)
async def vroom_health() -> Response:
    """What vroom-express has under its address: nothing but a 200."""
    return Response()


async def _planned(plans: Plans, task: Task, limit: float) -> dict[str, Any]:
    """The answer of a worker that nobody keeps."""
    live = Live(new_id(), task, limit, saved=False)
    plans.pool.submit(live)
    await live.wait(limit + 60.0)
    if not live.over:
        await run_in_threadpool(plans.pool.stop, live)
    return live.answer


def _vroom_refusal(error: ClusterfirstError) -> JSONResponse:
    """What vroom-express answers with: 400, but for what is too large or too much."""
    status = status_of(error.problems)
    headers = getattr(error, "headers", None)
    return JSONResponse(
        vroom_error(error), status if status in (413, 429) else 400, headers
    )


@router.get("/limits", responses=schemas.answers(200))
async def limits(request: Request) -> dict[str, Any]:
    """What is refused here, and which exports and models there are."""
    plans = plans_of(request)
    return {
        **plans.limits.as_dict(),
        "workers": len(plans.pool.threads),
        "formats": FORMATS,
        "models": list(shipped()),
        "basemap": plans.basemap,
    }


@router.get("/demo-data", responses=schemas.answers(200, schema=schemas.PLAN_BODY))
async def demo_data() -> dict[str, Any]:
    """A body that `POST /v1/plans` accepts as it is: the bundled day."""
    day = await run_in_threadpool(lambda: read_orders(BUNDLED_ORDERS, bundled_city()))
    document = instance_document(day.replace(name="demo day"))
    return {"instance": document, "options": {"time_limit": 3.0}}
