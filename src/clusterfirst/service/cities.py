"""`/v1/cities`: the places a team serves, and the days that were planned there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse

from clusterfirst.cities.history import PastDay, date_of, days_of_table
from clusterfirst.files import bundled_city, read_locations
from clusterfirst.files.csv_files import format_locations, format_orders
from clusterfirst.files.source import check_title
from clusterfirst.files.strict_json import Checker
from clusterfirst.files.tables import table_text
from clusterfirst.problem.city import City, oddities
from clusterfirst.problem.errors import Problem
from clusterfirst.service import schemas
from clusterfirst.service.inputs import CSV, Body, query_figures, through_file
from clusterfirst.service.problems import Refusal
from clusterfirst.service.requests import key_of, plans_of, read_body
from clusterfirst.service.store import Store

router = APIRouter(prefix="/v1/cities", tags=["cities"])
BUNDLED = "bundled"


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
            locations.encode(), lambda path: read_locations(path, depot)
        )
        return found.replace(name=name, **json.loads(defaults))

    return find


@router.post(
    "",
    responses=schemas.answers(201),
    openapi_extra=schemas.table("locations"),
    status_code=201,
)
async def create(request: Request) -> JSONResponse:
    """Create a city from a table of locations; the query has `name`, `depot`,
    `capacity` and `vehicles`.
    """
    plans = plans_of(request)
    body = await read_body(request, (CSV,))
    key = key_of(request, body)

    def write_down() -> dict[str, Any]:
        figures, words = _query_of(body, {"name": "", "depot": "depot"})
        name, depot = words["name"], words["depot"]
        check_title(name, "name")
        limits = plans.limits.of_files
        city = through_file(
            body.content, lambda path: read_locations(path, depot, limits)
        )
        city = city.replace(name=name, **figures)
        defaults = json.dumps({"capacity": city.capacity, "vehicles": city.vehicles})
        rows = (city.name, city.ids[0], defaults, format_locations(city))
        made = plans.once(key, lambda: plans.store.add_city(*rows, key))
        return _shown(made, city, 0) | {"warnings": list(map(str, oddities(city)))}

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
    openapi_extra=schemas.table("orders"),
    status_code=201,
)
async def add_days(city: str, request: Request) -> dict[str, Any]:
    """Add past days: one, whose `date` or name the query has, or those of a table
    with a column `date`.
    """
    plans = plans_of(request)
    body = await read_body(request, (CSV,))
    key = key_of(request, body)

    def write_down() -> dict[str, Any]:
        if city == BUNDLED:
            rule = "the bundled city is not changed; create one of your own"
            raise Refusal(Problem("E511", "city", BUNDLED, rule))
        figures, words = _query_of(body, {"date": ""})
        home = finder(plans.store)(city).replace(**figures)
        limits = plans.limits.of_files
        text = through_file(body.content, lambda path: table_text(path, limits))
        days = _named_days(text, words["date"], home)
        usual = home.capacity or 1.0
        rows = [
            (name, format_orders(home.day(day.rows, day.demands, capacity=usual)))
            for name, day in days
        ]

        def add() -> None:
            known = plans.store.add_days(city, rows, key)
            if known:
                rule = "the city has a day of this name already"
                raise Refusal(Problem("E511", "date", known, rule))

        plans.once(key, add)
        return {
            "city": city,
            "dates": [name for name, _ in days],
            "orders": sum(len(day.rows) for _, day in days),
        }

    return await run_in_threadpool(write_down)


def _query_of(
    body: Body, known: dict[str, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The figures of a query, and its words or what stands in for them."""
    query, check = dict(body.query), Checker()
    figures = query_figures(query, check)
    check.mapping(query, "the query", {*known, "capacity", "vehicles"})
    check.stop_if_wrong()
    return figures, {**known, **query}


def _named_days(text: str, name: str, city: City) -> list[tuple[str, PastDay]]:
    """The days of a table: of the name that the query has, or of its own dates."""
    if name and not re.fullmatch(r"[\w-]{1,40}", name, re.ASCII):
        rule = "a date or name of 1 to 40 letters, digits and hyphens is needed"
        raise Refusal(Problem("E404", "date", name, rule))
    if re.fullmatch(r"\d{4}-\d\d-\d\d", name):
        date_of(name)
    found = days_of_table(text, name, city)
    named = [(day.date.isoformat() if day.date else name, day) for day in found]
    if not all(own for own, _ in named):
        rule = "the query needs the date or name of the day, or the table a column date"
        raise Refusal(Problem("E404", "date", rule=rule))
    if len({own for own, _ in named}) < len(named):
        rule = "each date may be written in one way only"
        raise Refusal(Problem("E412", "date", rule=rule))
    other = next((own for own, _ in named if name and own != name), None)
    if other is not None:
        raise Refusal(Problem("E404", "date", name, f"the table says {other}"))
    return named
