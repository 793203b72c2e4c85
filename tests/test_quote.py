"""The price of an order: what it adds to today's plan, and to likely whole days."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from clusterfirst.cities.day_law import DayLaw, Wish, fit
from clusterfirst.cities.history import History, PastDay
from clusterfirst.cities.quote import NEW_VEHICLE, Insertion, Quoter, QuoteSettings
from clusterfirst.files import write_city
from clusterfirst.problem.city import City
from clusterfirst.problem.errors import InputError
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.sampling import sample_city
from clusterfirst.problem.solution import Solution, judge
from commands import Capture, problem_of, run

CITY = sample_city(200, seed=6, name="toy").replace(capacity=20)
FEW = QuoteSettings(completions=12, threads=1)


def toy_law() -> DayLaw:
    """Thirty orders a day, somewhere."""
    rng = np.random.default_rng(0)
    days = [
        PastDay(rng.choice(200, 30, replace=False) + 1, rng.integers(1, 6, 30) / 1.0)
        for _ in range(10)
    ]
    return fit(History(CITY, tuple(days)))


LAW = toy_law()


def today(count: int = 12, seed: int = 1) -> Instance:
    """The first orders of a day, at rows 1, 2, ... of the city."""
    rng = np.random.default_rng(seed)
    return CITY.day(np.arange(1, count + 1), rng.integers(1, 6, count) / 1.0)


def cheapest(quoter: Quoter, row: int, demand: float) -> float:
    """By trying every place, judged."""
    day = quoter.today
    assert day.city_rows is not None
    bigger = CITY.day(np.append(day.city_rows[1:], row), [*day.demands[1:], demand])
    new = day.num_customers + 1
    found = [np.inf]
    routes = [list(route) for route in quoter.plan.routes]
    for number in range(len(routes) + 1):
        for place in range(len(routes[number]) + 1 if number < len(routes) else 1):
            tried = [list(route) for route in routes] + [[]] * (number == len(routes))
            tried[number] = [*tried[number][:place], new, *tried[number][place:]]
            verdict = judge(bigger, Solution(tried))
            if verdict.feasible:
                found.append(verdict.cost - quoter.plan.cost)
    return min(found)


@pytest.mark.parametrize("row", [50, 77, 123, 200])
@pytest.mark.parametrize("demand", [0, 2.5, 9, 20])
def test_the_price_now_is_the_cheapest_of_all_places(row: int, demand: float) -> None:
    """Brute force over every position, judged, agrees with the quick formula."""
    quoter = Quoter(LAW, today())
    found = quoter.now(row, demand)
    assert found.fits
    assert found.price == pytest.approx(cheapest(quoter, row, demand))
    assert 0 <= quoter.after_repair(row, demand) <= found.price + 1e-9


def test_an_order_may_not_fit() -> None:
    """Above the capacity nothing fits; with a full fleet only what is left does."""
    quoter = Quoter(LAW, today())
    assert quoter.now(50, 20.5) == Insertion(False)
    with pytest.raises(InputError, match="E201"):
        quoter.expected(50, 20.5)
    one = CITY.day(np.array([1, 2]), np.array([9.0, 10.0]), vehicles=1)
    tight = Quoter(LAW, one)
    assert tight.now(50, 1).fits
    assert not tight.now(50, 1.000001).fits
    assert Quoter(LAW, one.replace(vehicles=2)).now(50, 1.5).vehicle == NEW_VEHICLE


def test_accepted_orders_change_the_plan() -> None:
    """The day grows by each order taken, and its plan stays feasible."""
    quoter = Quoter(LAW, today())
    for row in (60, 61, 62):
        before = quoter.plan.cost
        found = quoter.accept(row, 3)
        assert judge(quoter.today, Solution(quoter.plan.routes)).feasible
        assert quoter.plan.cost <= before + found.price + 1e-9
    assert quoter.today.num_customers == 15
    with pytest.raises(InputError, match="E407"):
        quoter.now(61, 1)


def test_likely_days_hold_todays_orders() -> None:
    """Each completion has all of today's orders as they are, and new ones."""
    quoter = Quoter(LAW, today(), settings=FEW)
    for day, plan in quoter._completed:  # noqa: SLF001  # what prices are made of
        assert day.city_rows is not None
        assert day.city_rows[1:13].tolist() == list(range(1, 13))
        assert day.demands[1:13].tolist() == quoter.today.demands[1:].tolist()
        assert len(set(day.city_rows.tolist())) == len(day.city_rows)
        assert judge(day, Solution(plan.routes)).cost == pytest.approx(plan.cost)


def test_prices_by_the_end_of_the_day() -> None:
    """They are never negative, repeatable, and small beside what a trip costs."""
    quoter = Quoter(LAW, today(), settings=FEW)
    near, far = quoter.expected(150, 1), quoter.expected(150, 1)
    assert np.array_equal(near.price.values, far.price.values)
    assert (near.price.values >= -1e-9).all()
    low, middle, high = near.price.quantiles
    assert low <= middle <= high
    alone = 2 * float(np.linalg.norm(CITY.coords[150] - CITY.coords[0]))
    assert near.price.mean < alone
    assert near.price.standard_error > 0
    again = Quoter(LAW, today(), settings=QuoteSettings(12, threads=2))
    assert np.array_equal(again.expected(150, 1).price.values, near.price.values)


def test_a_full_vehicle_costs_a_trip() -> None:
    """Where every order fills a vehicle, the price is a trip of its own, exactly."""
    full = CITY.day(np.array([1, 2]), np.array([20.0, 20.0]))
    rng = np.random.default_rng(0)
    days = [PastDay(rng.choice(200, 9, replace=False) + 1, np.full(9, 20.0))] * 6
    quoter = Quoter(fit(History(CITY, tuple(days))), full, settings=FEW)
    found = quoter.expected(90, 20)
    trip = 2 * float(np.linalg.norm(CITY.coords[90] - CITY.coords[0]))
    assert found.price.values == pytest.approx(trip)
    assert (found.vehicles.values == 1).all()


def test_an_order_that_was_coming_anyway() -> None:
    """A location that a completion has already is priced as if it had not."""
    everybody = Wish(customers=200)
    quoter = Quoter(LAW, today(), settings=QuoteSettings(3, threads=1, wish=everybody))
    found = quoter.expected(99, 4)
    assert (found.price.values >= 0).all()
    assert (found.price.values < 2).all()


def test_places_the_city_does_not_know() -> None:
    """A point gets a row of its own, and costs what its neighbour would."""
    quoter = Quoter(LAW, today())
    known = quoter.now(150, 2).price
    row = quoter.add_place((CITY.coords[150, 0], CITY.coords[150, 1]))
    assert row == 201
    assert quoter.now(row, 2).price == pytest.approx(known)
    assert len(Quoter(LAW, today(), settings=FEW).expected(150, 2).price.values) == 12
    assert quoter.accept(row, 2).fits
    assert quoter.expected(160, 1).price.mean >= 0


def test_wrong_questions_are_named() -> None:
    """Strange days, wrong plans, negative demands and odd settings are refused."""
    with pytest.raises(InputError, match="E405"):
        Quoter(LAW, sample_city(20, seed=1).day(np.array([1]), [1], capacity=5))
    with pytest.raises(InputError, match="E802"):
        Quoter(LAW, today(), [[1, 2]])
    with pytest.raises(InputError, match="E133"):
        Quoter(LAW, today()).now(50, -1)
    with pytest.raises(InputError, match="E404"):
        QuoteSettings(completions=0)
    with pytest.raises(InputError, match="E407"):
        Quoter(LAW, today()).row_of("nobody")


def test_the_command(tmp_path: Path, capsys: Capture) -> None:
    """It prints the three prices, as JSON too, and draws them."""
    write_city(tmp_path / "toy", CITY)
    orders = tmp_path / "today.csv"
    orders.write_text("id,demand\n" + "".join(f"{i},3\n" for i in range(1, 10)))
    words = ["quote", tmp_path / "toy", "--orders", orders, "--demand", "2"]
    words += ["--completions", "5", "--expect", "30"]
    picture = tmp_path / "q.png"
    assert run(*words, "--id", "150", "--out", picture) == 0
    out = capsys.readouterr().out
    assert "now" in out
    assert "over 5 likely ends" in out
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert run(*words, "--x", "0.5", "--y", "0.4", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["fits"]
    assert document["end_of_day"]["p10"] <= document["end_of_day"]["p90"]
    more = document["end_of_day"]["vehicles"]
    assert more["p10"] <= more["p50"] <= more["p90"]
    assert -1 <= more["mean"] <= 1  # plans of likely days are not the best ones
    assert more["standard_error"] >= 0
    for wrong in (
        [],
        ["--lat", "1", "--lon", "2"],
        ["--id", "1", "--x", "1", "--y", "1"],
    ):
        assert run(*words, *wrong) == 2
        assert "E400" in problem_of(capsys)
    assert run(*words, "--id", "150", "--weekday", "someday") == 2
    assert "E404" in problem_of(capsys)


def test_a_quote_in_degrees(tmp_path: Path, capsys: Capture) -> None:
    """A place by --lat and --lon costs what the location there does; too few days warn.

    The city has no past days, and capacities of 40, which the paper's law cannot mean.
    """
    rng = np.random.default_rng(3)
    points = np.array([4.35, 50.85]) + 0.05 * rng.standard_normal((41, 2))
    city = City(points, metric="greatcircle", capacity=40)
    write_city(tmp_path / "toy", city)
    orders = tmp_path / "today.csv"
    orders.write_text("id,demand\n" + "".join(f"{i},2\n" for i in range(1, 9)))
    words = ["quote", tmp_path / "toy", "--orders", orders, "--demand", "1", "--json"]
    words += ["--completions", "3", "--expect", "10"]
    lon, lat = points[30].tolist()
    found = []
    for place in (["--id", "30"], [f"--lat={lat!r}", f"--lon={lon!r}"]):
        assert run(*words, *place) == 0
        read = capsys.readouterr()
        assert "W414" in read.err
        found.append(json.loads(read.out)["now"])
    assert found[0]["price"] == pytest.approx(found[1]["price"], abs=1e-9)
