"""Figures of what a city knows, on the 90 Belem days: each part prints its own.

    python benchmarks/city.py --data shared/data [open law quote-speed quotes forecast
                                      plans territories learned] [--model FOLDER]

Days 0 to 59 fit the law, 60 to 89 judge it. Wall-clock and CPU seconds stand side by
side, because a busy machine doubles the one and not the other. Each part goes into
benchmarks/results/city-PART.json, and from there into docs/a-real-city.md by
`python docs/generate_numbers.py`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import machine
from city_routes import learned, plans, territories
from clusterfirst.cities.day_law import Wish, fit
from clusterfirst.cities.forecast import ForecastSettings, forecast, lines
from clusterfirst.cities.history import History, PastDay, read_history, write_history
from clusterfirst.cities.law_check import check_law
from clusterfirst.cities.quick_plan import Plan, improved, quick_plan
from clusterfirst.cities.quote import Quoter, QuoteSettings
from clusterfirst.files import write_city
from clusterfirst.problem.city import City
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.sampling import sample_city
from clusterfirst.problem.solution import Solution, judge

Figures = dict[str, Any]

RESULTS = Path(__file__).parent / "results"
FITTED = 60
QUOTED = 72  # the way of pricing was chosen on days 60 to 67
LONG = 30  # times the effort of a quick plan, for what a quote is compared with


def belem(data: Path) -> History:
    """The 90 days; orders of one address on one day are added up."""
    found = np.load(data / "loggibud" / "belem_days_0_89.npz")
    places = np.vstack([[0.0, 0.0], found["pool_xy_m"]])
    city = City(places, name="belem", capacity=int(found["capacity"]))
    days = []
    for begin, end in zip(found["off"][:-1], found["off"][1:], strict=True):
        rows, which = np.unique(found["loc"][begin:end] + 1, return_inverse=True)
        demands = np.bincount(which, found["size"][begin:end])
        days.append(PastDay(rows.astype(np.int64), demands, None, f"day{len(days):02}"))
    return History(city, tuple(days))


def open_speed(history: History) -> Figures:
    """A city of 30,000 locations and 1,000 days of 300 orders, and Belem."""
    rng = np.random.default_rng(0)
    city = sample_city(30_000, seed=1, name="large")
    days = tuple(
        PastDay(rng.choice(30_000, 300, replace=False) + 1, rng.integers(1, 9, 300) / 1)
        for _ in range(1000)
    )
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for one in (History(city, days), history):
            write_city(folder, one.city)
            write_history(folder, one)
            read_history(folder)
            with machine.timed() as took:
                read_history(folder)
            rows.append({"locations": one.city.num_locations, "days": len(one)} | took)
    return {"rows": rows}


def law(history: History) -> Figures:
    """Two-sample tests on days held back: those of the issue, and blind ones.

    Two ways to treat addresses never seen failed on days 60 to 89 before this one was
    kept, so those days were not blind; 30 to 59 chose nothing.
    """
    checks = []
    for fitted, held in ((FITTED, len(history) - FITTED), (30, 30)):
        with machine.timed() as took:
            found = check_law(history.part(0, fitted + held), held)
        rows = [
            {
                "measure": each.measure,
                "real": float(each.real.mean()),
                "drawn": float(each.drawn.mean()),
                "p": each.p_value,
                "passed": each.passed,
            }
            for each in found
        ]
        checks.append({"fitted": fitted, "judged": held, "rows": rows} | took)
    return {"checks": checks}


def quote_speed(history: History) -> Figures:
    """A place in a plan of 1,000 orders; a whole quote at N = 100."""
    fitted = fit(history)
    day = fitted.draw(7, 1, Wish(customers=1000))
    quoter = Quoter(fitted, day, settings=QuoteSettings(completions=1))
    free = np.setdiff1d(np.arange(1, 1000), day.city_rows)[:500].tolist()
    quoter.now(free[0], 3)
    with machine.timed() as insertions:
        for row in free:
            quoter.now(row, 3)
    half = fitted.draw(7, 0, Wish(customers=50, capacity=60))
    settings = QuoteSettings(wish=Wish(customers=100))
    row = int(np.setdiff1d(free, half.city_rows)[0])
    Quoter(fitted, half, settings=QuoteSettings(2)).expected(row, 3)  # compiled by now
    quoter = Quoter(fitted, half, settings=settings)
    with machine.timed() as first:
        quoter.expected(row, 3)
    with machine.timed() as another:
        quoter.expected(row + 1 if row + 1 not in half.city_rows else row + 2, 3)
    return {
        "prices": len(free),
        "prices_at_1000_orders": insertions,
        "200_completions_at_100": first,
        "another_order": another,
    }


def quotes(history: History, days: int = 6, each: int = 4, ends: int = 20) -> Figures:
    """Quotes at half of a day against what the order adds to the whole day.

    The halves are random: Belem's orders have no time of day.
    """
    fitted = fit(history.part(0, FITTED))
    rows = []
    for number in range(QUOTED, QUOTED + days):
        whole = history.instance(number)
        order = np.random.default_rng(number).permutation(whole.num_customers) + 1
        half = order[: len(order) // 2]
        assert whole.city_rows is not None
        taken = half[each:]
        today = history.city.day(whole.city_rows[taken], whole.demands[taken])
        quoter = Quoter(fitted, today, settings=QuoteSettings(ends))
        for customer in half[:each].tolist():
            row, demand = int(whole.city_rows[customer]), float(whole.demands[customer])
            low, middle, high = quoter.expected(row, demand).price.quantiles
            found = {
                "day": number,
                "true": true_price(whole, customer),
                "naive": quoter.now(row, demand).price,
                "p10": low,
                "p50": middle,
                "p90": high,
            }
            print(json.dumps(found), flush=True)
            rows.append(found)
    return {"fitted": FITTED, "completions": ends, "rows": rows}


def true_price(whole: Instance, customer: int) -> float:
    """What a customer adds to a day, by long searches that start from each other."""
    keep = np.delete(np.arange(whole.num_customers + 1), customer)
    order = [*keep.tolist(), customer]
    assert whole.coords is not None
    full = whole.replace(
        demands=whole.demands[order], coords=whole.coords[order],
        ids=tuple(whole.ids[i] for i in order), city_rows=None, city_hash="",
    )  # fmt: skip
    last = full.num_customers
    small = full.replace(
        demands=full.demands[:-1], coords=full.coords[:-1], ids=full.ids[:-1]
    )
    with_it = quick_plan(full, 0, LONG)
    without = min(
        improved(small, _passed_by(with_it, last), 1, LONG),
        quick_plan(small, 2, LONG),
        key=lambda plan: plan.cost,
    )
    again = improved(full, [*without.routes, [last]], 3, LONG)
    best = min(with_it, again, key=lambda plan: plan.cost)
    spared = judge(small, Solution(_passed_by(best, last))).cost
    return best.cost - min(without.cost, spared)


def _passed_by(plan: Plan, customer: int) -> list[list[int]]:
    routes = [[c for c in route if c != customer] for route in plan.routes]
    return [route for route in routes if route]


def forecasts(history: History) -> Figures:
    """1,000 days of N = 100 on two cores."""
    settings = ForecastSettings(wish=Wish(customers=100, capacity=60))
    fitted = fit(history)
    with machine.timed() as took:
        found = forecast(fitted, settings)
    return {"days": len(found.table), "lines": lines(found)} | took


PARTS: dict[str, Callable[[History], Figures]] = {
    "open": open_speed,
    "law": law,
    "quote-speed": quote_speed,
    "quotes": quotes,
    "forecast": forecasts,
    "plans": plans,
    "territories": territories,
}


def main() -> None:
    """Run the parts that were asked for, and store what they found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("shared/data"))
    parser.add_argument("parts", nargs="*", choices=[*PARTS, "learned"], default=[])
    parser.add_argument("--model", action="append", default=[], help="for `learned`")
    given = parser.parse_args()
    history = belem(given.data)
    every = PARTS | {"learned": partial(learned, models=["general", *given.model])}
    for name in given.parts or PARTS:
        begun = machine.facts()
        found = begun | every[name](history) | {"load_after": machine.facts()["load"]}
        text = json.dumps(found, indent=1)
        print(f"{name}: {text}", flush=True)
        (RESULTS / f"city-{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
