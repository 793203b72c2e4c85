"""A forecast is the plan of many likely days, whoever plans them."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import numpy as np
import pytest

from clusterfirst.cities.day_law import Wish, fit
from clusterfirst.cities.forecast import (
    EFFORT,
    MEASURES,
    Forecast,
    ForecastSettings,
    forecast,
    lines,
)
from clusterfirst.cities.history import History, PastDay, write_history
from clusterfirst.cities.quick_plan import quick_plan
from clusterfirst.files import write_city
from clusterfirst.problem.errors import InfeasibleError, InputError
from clusterfirst.problem.sampling import sample_city
from clusterfirst.problem.solution import Solution, judge
from commands import Capture, problem_of, run

CITY = sample_city(80, seed=6, name="toy").replace(capacity=20, vehicles=1)
RNG = np.random.default_rng(0)
DAYS = tuple(
    PastDay(RNG.choice(80, 20, replace=False) + 1, RNG.integers(1, 6, 20) / 1.0)
    for _ in range(8)
)
LAW = fit(History(CITY, DAYS))


@pytest.fixture(scope="module")
def found() -> Forecast:
    """Twenty days on two processes."""
    return forecast(LAW, ForecastSettings(20, long_days=4))


def test_days_are_the_laws_and_plans_are_judged(found: Forecast) -> None:
    """Each row is what drawing and planning that day here gives; the fleet is free."""
    law = fit(History(CITY.replace(vehicles=None), DAYS))
    for index in (0, 7, 19):
        day = law.draw(0, index)
        plan = quick_plan(day, index, EFFORT)
        assert judge(day, Solution(plan.routes)).feasible
        row = dict(zip(MEASURES, found.table[index], strict=True))
        assert row["orders"] == day.num_customers
        assert row["load"] == day.demands.sum()
        assert row["vehicles"] == len(plan.routes)
        assert row["least vehicles"] == day.min_vehicles
        assert row["length"] == pytest.approx(plan.cost)


def test_workers_change_nothing(found: Forecast) -> None:
    """One process gives the numbers of two."""
    alone = forecast(LAW, ForecastSettings(20, long_days=4, workers=1))
    assert np.array_equal(alone.table, found.table)
    assert np.array_equal(alone.excess, found.excess)


def test_the_fleet_suffices_on_95_percent(found: Forecast) -> None:
    """It is the smallest number of vehicles that does, by plan and by load."""
    vehicles = found.of("vehicles")
    assert (vehicles <= found.fleet).mean() >= 0.95
    assert (vehicles <= found.fleet - 1).mean() < 0.95
    assert found.least_fleet <= found.fleet
    assert (found.excess >= -1e-9).mean() > 0.5
    assert "suffice on 95%" in lines(found)[0]


def test_growth_and_capacity_do_what_they_say() -> None:
    """More orders need more, larger vehicles fewer; a demand above one is refused."""
    few = {"long_days": 0, "workers": 1}
    usual = forecast(LAW, ForecastSettings(6, **few))
    grown = forecast(LAW, ForecastSettings(6, wish=Wish(growth=2.0), **few))
    large = forecast(LAW, ForecastSettings(6, wish=Wish(capacity=60), **few))
    assert grown.of("load").mean() > 1.6 * usual.of("load").mean()
    assert large.of("vehicles").mean() < usual.of("vehicles").mean()
    assert np.array_equal(large.of("orders"), usual.of("orders"))
    with pytest.raises(InfeasibleError, match="E201"):
        forecast(LAW, ForecastSettings(6, wish=Wish(capacity=4), **few))
    for wrong in ({"days": 0}, {"wish": Wish(growth=0)}, {"workers": 0}):
        with pytest.raises(InputError, match="E404"):
            ForecastSettings(**wrong)  # type: ignore[arg-type]


def test_the_command(tmp_path: Path, capsys: Capture) -> None:
    """Sentences, JSON, a table of days and a picture, for each capacity."""
    write_city(tmp_path / "toy", CITY)
    outs = [tmp_path / f"f.{kind}" for kind in ("png", "csv", "json")]
    words = [f"--out={path}" for path in outs]
    order = ["forecast", tmp_path / "toy", "--days", "4", "--workers", "1"]
    assert run(*order, "--customers", "10", "--capacity", "20, 30", *words) == 0
    assert capsys.readouterr().out.count("suffice") == 2
    table = outs[1].read_text().splitlines()
    assert table[0] == "capacity,day,orders,load,vehicles,least_vehicles,length"
    assert len(table) == 9
    document = json.loads(outs[2].read_text())
    assert [each["capacity"] for each in document["forecasts"]] == [20, 30]
    assert outs[0].read_bytes()[:4] == b"\x89PNG"
    for option, value in (("--capacity", "a"), ("--days", "0"), ("--weekday", "x")):
        assert run(*order, option, value) == 2
        assert "E404" in problem_of(capsys)
    assert run(*order, "--out", tmp_path / "f.txt") == 2
    assert "E106" in problem_of(capsys)


def test_a_weekday_can_be_asked_for(tmp_path: Path, capsys: Capture) -> None:
    """Tuesdays of a city whose other days are half as large have Tuesdays' orders."""
    city = CITY.replace(vehicles=None)
    monday, days = datetime.date(2026, 11, 16), []
    for number in range(14):
        count = 24 if number % 7 == 1 else 12
        rows = RNG.choice(80, count, replace=False) + 1
        date = monday + datetime.timedelta(number)
        days.append(PastDay(rows, np.full(count, 2.0), date))
    write_city(tmp_path / "toy", city)
    write_history(tmp_path / "toy", History(city, tuple(days)))
    words = ["forecast", tmp_path / "toy", "--days", "3", "--workers", "1", "--json"]
    orders = {}
    for name in ("tue", "Wednesday"):
        assert run(*words, "--weekday", name) == 0
        (found,) = json.loads(capsys.readouterr().out)["forecasts"]
        orders[name] = found["orders"]["mean"]
    assert orders["tue"] == pytest.approx(2 * orders["Wednesday"])
