"""`/v1/quote` and `/v1/forecast`: what follows from the likely days of a city."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse

from clusterfirst.cities.day_law import Wish, fit
from clusterfirst.cities.forecast import ForecastSettings, forecast
from clusterfirst.cities.history import WEEKDAYS, History, PastDay, date_in
from clusterfirst.cities.quote import Quoter, QuoteSettings
from clusterfirst.files.csv_files import parse_days
from clusterfirst.files.strict_json import Checker
from clusterfirst.problem.instance import Instance
from clusterfirst.service import schemas
from clusterfirst.service.cities import finder
from clusterfirst.service.inputs import Body, document_of, read_day
from clusterfirst.service.plans import Plans
from clusterfirst.service.requests import answer_of, plans_of, read_body
from clusterfirst.service.store import Store

router = APIRouter(prefix="/v1", tags=["likely days"])
QUOTE_KEYS = {"city", "orders", "capacity", "vehicles", "order", "completions"}
QUOTE_KEYS |= {"weekday"}
FORECAST_KEYS = {"city", "days", "weekday", "growth", "capacity"}
ORDER_KEYS = {"id", "lat", "lon", "x", "y", "demand"}
MOST_COMPLETIONS = 1000
MOST_DAYS = 2000
SECONDS = 170.0  # for an answer; a likely day takes milliseconds


@dataclass(frozen=True)
class QuoteQuestion:
    """What one more order would cost, now and by the end of the day."""

    history: History
    today: Instance
    order: dict[str, Any]
    settings: QuoteSettings

    def answer(self) -> dict[str, Any]:
        """In a worker: today's plan, the insertion, the likely ends of the day."""
        from clusterfirst.cities.quote_picture import quote

        quoter = Quoter(fit(self.history), self.today, None, self.settings)
        order = self.order
        if "id" in order:
            row = quoter.row_of(order["id"])
        else:
            axes = ("lon", "lat") if "lat" in order else ("x", "y")
            row = quoter.add_place((order[axes[0]], order[axes[1]]))
        found = quote(quoter, row, order["demand"]).document()
        return {**found, "unit": self.today.unit, "past_days": len(self.history)}


@dataclass(frozen=True)
class ForecastQuestion:
    """What likely days need."""

    history: History
    settings: ForecastSettings

    def answer(self) -> dict[str, Any]:
        """In a worker: the days drawn and planned."""
        found = forecast(fit(self.history), self.settings).summary()
        return {**found, "past_days": len(self.history)}


def history_of(store: Store, city: str) -> History:
    """The days of a city that were added here."""
    home = finder(store)(city)
    days = []
    for name, orders in store.days(city):
        ((_, rows, demands),) = parse_days(orders, home)
        day = np.array(rows, dtype=np.int64), np.array(demands)
        days.append(PastDay(*day, date_in(name), name))
    return History(home, tuple(days))


@router.post(
    "/quote",
    responses=schemas.answers(200),
    openapi_extra=schemas.body("city_quote"),
)
async def quote(request: Request) -> JSONResponse:
    """The price of a new order in a city: now, and by the end of the day."""

    def read(plans: Plans, body: Body) -> QuoteQuestion:
        document = document_of(body, QUOTE_KEYS)
        check = Checker()
        history = history_of(plans.store, check.text(document.get("city"), "city"))
        today = read_day(document, history.city, plans.limits)
        today.require_feasible()
        order = _order(check, document.get("order"), today.metric == "greatcircle")
        count = check.whole(document.get("completions", 200), "completions")
        wish = Wish(weekday=_weekday(check, document.get("weekday")))
        _require(check, "completions", count, MOST_COMPLETIONS)
        check.stop_if_wrong()
        settings = QuoteSettings(count, threads=1, wish=wish)
        return QuoteQuestion(history, today, order, settings)

    return await _ask(request, read)


@router.post(
    "/forecast",
    responses=schemas.answers(200),
    openapi_extra=schemas.body("forecast"),
)
async def forecasts(request: Request) -> JSONResponse:
    """Vehicles, length and load over likely days of a city."""

    def read(plans: Plans, body: Body) -> ForecastQuestion:
        document = document_of(body, FORECAST_KEYS)
        check = Checker()
        history = history_of(plans.store, check.text(document.get("city"), "city"))
        days = check.whole(document.get("days", 200), "days")
        growth = check.number(document.get("growth", 1.0), "growth")
        capacity = document.get("capacity")
        capacity = None if capacity is None else check.exact(capacity, "capacity")
        _require(check, "days", days, MOST_DAYS)
        weekday = _weekday(check, document.get("weekday"))
        check.stop_if_wrong()
        wish = Wish(None, weekday, growth, capacity)
        settings = ForecastSettings(days, wish=wish, long_days=8, workers=1)
        fit(history).draw(0, 0, wish)  # what cannot be drawn is said at once
        return ForecastQuestion(history, settings)

    return await _ask(request, read)


async def _ask(
    request: Request, read: Callable[[Plans, Body], QuoteQuestion | ForecastQuestion]
) -> JSONResponse:
    """Read a question in a thread, and let a worker answer it."""
    plans = plans_of(request)
    body = await read_body(request)
    plans.pool.require_room()
    question = await run_in_threadpool(read, plans, body)
    return JSONResponse(await answer_of(plans.pool, question, SECONDS))


def _order(check: Checker, given: Any, degrees: bool) -> dict[str, Any]:
    order = check.mapping(given, "order", ORDER_KEYS)
    axes = ("lat", "lon") if degrees else ("x", "y")
    if "id" in order:
        check.text(order["id"], "order.id")
    else:
        for axis in axes:
            check.number(order.get(axis), f"order.{axis}")
    check.exact(order.get("demand"), "order.demand")
    check.stop_if_wrong()
    wanted = ("id",) if "id" in order else axes
    return {key: order[key] for key in (*wanted, "demand")}


def _weekday(check: Checker, given: Any) -> int | None:
    if given is None:
        return None
    if given not in WEEKDAYS:
        rule = f"must be one of {', '.join(WEEKDAYS)}"
        check.complain("E404", "weekday", str(given), rule)
        return None
    return WEEKDAYS.index(given)


def _require(check: Checker, name: str, value: int, most: int) -> None:
    if not 1 <= value <= most:
        check.complain("E404", name, str(value), f"1 to {most} here")
