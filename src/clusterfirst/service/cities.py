"""`/v1/cities`: the places a team serves, and the days that were planned there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse

from clusterfirst.files import bundled_city, read_instance, read_locations
from clusterfirst.files.csv_files import format_locations, format_orders
from clusterfirst.files.strict_json import Checker
from clusterfirst.problem.city import City
from clusterfirst.problem.errors import Problem
from clusterfirst.service import schemas
from clusterfirst.service.inputs import CSV, query_figures, through_file
from clusterfirst.service.problems import Refusal
from clusterfirst.service.requests import key_of, plans_of, read_body
from clusterfirst.service.store import Store

router = APIRouter(prefix="/v1/cities", tags=["cities"])
BUNDLED = "bundled"
TABLE = {
    "requestBody": {
        "required": True,
        "content": {
            CSV: {
                "schema": {"type": "string"},
                "example": "id,lat,lon\ndepot,51.05,3.72\nnorth,51.07,3.72\n",
            }
        },
    }
}
ORDERS = {
    "requestBody": {
        "required": True,
        "content": {
            CSV: {"schema": {"type": "string"}, "example": "id,demand\nnorth,3\n"}
        },
    }
}


def finder(store: Store) -> Callable[[str], City]:
    """Look cities up by id."""

    def find(city: str) -> City:
        if city == BUNDLED:
            return bundled_city()
        row = store.city(city)
        if row is None:
            raise Refusal(Problem("E506", "city", rule="there is none of this id"))
        name, depot, defaults, locations = row
        found = through_file(
            locations.encode(), ".csv", lambda path: read_locations(path, depot)
        )
        return found.replace(name=name, **json.loads(defaults))

    return find


@router.post("", responses=schemas.answers(201), openapi_extra=TABLE, status_code=201)
async def create(request: Request) -> JSONResponse:
    """Create a city from a table of locations; the query has `name`, `depot`,
    `capacity` and `vehicles`.
    """
    plans = plans_of(request)
    body = await read_body(request, (CSV,))
    key = key_of(request, body)

    def write_down() -> dict[str, Any]:
        query = dict(body.query)
        check = Checker()
        figures = query_figures(query, check)
        check.stop_if_wrong()
        name, depot = query.get("name", ""), query.get("depot", "depot")
        limits = plans.limits.of_files
        city = through_file(
            body.content, ".csv", lambda path: read_locations(path, depot, limits)
        )
        city = city.replace(name=name[:200], **figures)
        defaults = json.dumps({"capacity": city.capacity, "vehicles": city.vehicles})
        rows = (city.name, city.ids[0], defaults, format_locations(city))
        made = plans.once(key, lambda: plans.store.add_city(*rows, key))
        return _shown(made, city, 0)

    document = await run_in_threadpool(write_down)
    where = {"Location": f"/v1/cities/{document['id']}"}
    return JSONResponse(document, 201, where)


@router.get("", responses=schemas.answers(200))
async def all_of_them(request: Request) -> dict[str, Any]:
    """Every city by id and name."""
    found = await run_in_threadpool(plans_of(request).store.cities)
    return {"cities": [{"id": a, "name": b} for a, b in [(BUNDLED, BUNDLED), *found]]}


@router.get("/{city}", responses=schemas.answers(200))
async def show(city: str, request: Request) -> dict[str, Any]:
    """A city, and the names of its days."""
    store = plans_of(request).store

    def look() -> dict[str, Any]:
        found, days = finder(store)(city), store.days(city)
        return _shown(city, found, len(days)) | {
            "day_names": [name for name, _ in days]
        }

    return await run_in_threadpool(look)


@router.get("/{city}/locations", responses=schemas.answers(200))
async def locations(city: str, request: Request) -> dict[str, Any]:
    """The places of a city, the depot first."""
    found = await run_in_threadpool(finder(plans_of(request).store), city)
    axes = ("lon", "lat") if found.metric == "greatcircle" else ("x", "y")
    rows = zip(found.ids, found.coords.tolist(), strict=True)
    return {"locations": [{"id": n, axes[0]: p[0], axes[1]: p[1]} for n, p in rows]}


def _shown(city_id: str, city: City, days: int) -> dict[str, Any]:
    return {
        "id": city_id,
        "name": city.name,
        "depot": city.ids[0],
        "locations": city.num_locations,
        "metric": city.metric,
        "capacity": city.capacity,
        "vehicles": city.vehicles,
        "hash": city.hash,
        "days": days,
    }


@router.post(
    "/{city}/days",
    responses=schemas.answers(201),
    openapi_extra=ORDERS,
    status_code=201,
)
async def add_day(city: str, request: Request) -> dict[str, Any]:
    """Add the orders of a day; the query has its `date` or name."""
    plans = plans_of(request)
    body = await read_body(request, (CSV,))
    key = key_of(request, body)

    def write_down() -> dict[str, Any]:
        if city == BUNDLED:
            rule = "the bundled city is not changed; create one of your own"
            raise Refusal(Problem("E511", "city", BUNDLED, rule))
        home = finder(plans.store)(city)
        query = dict(body.query)
        name = query.get("date", "")
        if not re.fullmatch(r"[\w-]{1,40}", name, re.ASCII):
            rule = "a date or name of 1 to 40 letters, digits and hyphens is needed"
            raise Refusal(Problem("E404", "date", name, rule))
        check = Checker()
        figures = {"capacity": home.capacity or 1.0, **query_figures(query, check)}
        check.stop_if_wrong()
        day = through_file(
            body.content,
            ".csv",
            lambda path: read_instance(
                path, city=home.replace(**figures), limits=plans.limits.of_files
            ),
        )

        def add() -> None:
            if not plans.store.add_day(city, name, format_orders(day), key):
                rule = "the city has a day of this name already"
                raise Refusal(Problem("E511", "date", name, rule))

        plans.once(key, add)
        return {"city": city, "date": name, "orders": day.num_customers}

    return await run_in_threadpool(write_down)
