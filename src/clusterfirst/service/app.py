"""The application: what it keeps while it runs, its routers and its page."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

from fastapi import FastAPI, Request
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.staticfiles import StaticFiles

from clusterfirst import __version__
from clusterfirst.problem.errors import ClusterfirstError, InputError, Problem
from clusterfirst.service import (
    cities,
    lessons,
    likely_days,
    plan_routes,
    question_routes,
)
from clusterfirst.service.guard import Guard
from clusterfirst.service.metrics import metrics_text
from clusterfirst.service.plans import Plans
from clusterfirst.service.problems import Refusal, problem_response
from clusterfirst.service.settings import BASEMAP, ServiceSettings
from clusterfirst.service.store import Store

PAGE = Path(__file__).parent / "page"
LEAFLET = Path(__file__).parent.parent / "files" / "leaflet"
FORGET_EVERY = 3600.0  # seconds
LOOK = ["GET", "HEAD"]  # monitors ask for the head alone


def create_app(settings: ServiceSettings) -> Guard:
    """The whole service as an ASGI application."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        store = Store(settings.data)
        app.state.plans = plans = Plans(settings, store)
        app.state.drawing = asyncio.Lock()
        app.state.lessons = teacher = lessons.Lessons(store, settings)
        forgetting = asyncio.create_task(_forget(store, settings.limits.days))
        yield
        forgetting.cancel()
        await run_in_threadpool(teacher.close)
        await run_in_threadpool(plans.pool.close)
        store.close()

    app = FastAPI(
        title="clusterfirst",
        version=__version__,
        summary="Delivery routes in seconds.",
        openapi_url="/v1/openapi.json",
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    for part in (plan_routes, question_routes, cities, lessons, likely_days):
        app.include_router(part.router)
    app.state.settings = settings
    guard = Guard(app, settings)
    _add_root_routes(app, guard)
    if settings.basemap is not None:
        _add_basemap(app, settings.basemap)
    app.mount("/page", StaticFiles(directory=PAGE))
    app.mount("/leaflet", StaticFiles(directory=LEAFLET))
    app.add_exception_handler(ClusterfirstError, _as_problem)
    app.add_exception_handler(HTTPException, _as_problem)
    app.add_exception_handler(sqlite3.OperationalError, _as_full_disk)
    app.add_exception_handler(Exception, _as_bug)
    return guard


async def _forget(store: Store, days: float) -> None:
    while True:
        await run_in_threadpool(store.forget, days)
        await asyncio.sleep(FORGET_EVERY)


async def _as_problem(request: Request, error: Exception) -> Response:
    """Errors of ours and of the framework in the same words."""
    if isinstance(error, HTTPException):
        rule = {404: "there is nothing here", 405: "not with this method"}
        words = rule.get(error.status_code, "it cannot be answered")
        problem = Problem("E503", "request", rule=words)
        refusal = Refusal(problem, error.headers)
        return problem_response(refusal, error.status_code)
    assert isinstance(error, ClusterfirstError)
    settings: ServiceSettings = request.app.state.settings
    error.problems = tuple(map(settings.hidden, error.problems))
    return problem_response(error)


async def _as_full_disk(request: Request, error: Exception) -> Response:
    """What is not on disk is not answered."""
    rule = f"nothing was changed: {error}"
    return problem_response(InputError(Problem("E732", "the database", rule=rule)))


async def _as_bug(request: Request, error: Exception) -> Response:
    """The framework raises it again, and the guard writes it into the log."""
    rule = "this is a bug; the log of the service shows where"
    problem = Problem("E999", type(error).__name__, rule=rule)
    return problem_response(InputError(problem))


def _add_basemap(app: FastAPI, path: Path) -> None:
    @app.get(BASEMAP, include_in_schema=False)
    async def basemap() -> FileResponse:  # by ranges: a page reads what it shows
        headers = {"Cache-Control": "private, max-age=3600"}
        return FileResponse(
            path, media_type="application/octet-stream", headers=headers
        )


def _add_root_routes(app: FastAPI, guard: Guard) -> None:
    @app.api_route("/health", methods=LOOK, tags=["state"])
    async def health() -> dict[str, str]:
        """The service answers."""
        return {"status": "up", "version": __version__}

    @app.api_route(
        "/ready",
        methods=LOOK,
        tags=["state"],
        responses={503: {"description": "not yet"}},
    )
    async def ready(request: Request) -> Response:
        """200 once every worker is warm."""
        pool = request.app.state.plans.pool
        state = {"ready": pool.ready, "workers": pool.warm, "of": len(pool.threads)}
        return JSONResponse(state, 200 if pool.ready else 503)

    @app.get("/metrics", tags=["state"], response_class=PlainTextResponse)
    async def metrics(request: Request) -> PlainTextResponse:
        """Counters and gauges in Prometheus' text format."""
        return PlainTextResponse(metrics_text(request.app.state.plans.pool, guard))

    @app.api_route("/", methods=LOOK, include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(PAGE / "index.html", headers={"Cache-Control": "no-cache"})
