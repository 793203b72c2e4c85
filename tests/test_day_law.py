"""Drawn days are like the days a city remembers."""

from __future__ import annotations

import datetime
import warnings
from pathlib import Path

import numpy as np
import pytest

from clusterfirst.cities.day_law import DayLaw, Wish, fit, warn_of_paper_law
from clusterfirst.cities.history import History, PastDay
from clusterfirst.cities.law_check import check_law
from clusterfirst.files import write_city
from clusterfirst.problem.city import City
from clusterfirst.problem.errors import InputError, InputWarning
from clusterfirst.problem.instance import FloatArray
from clusterfirst.problem.sampling import sample_city, sample_day
from commands import Capture, problem_of, run

LOCATIONS = 300
CITY = sample_city(LOCATIONS, seed=2, name="toy").replace(capacity=60)
MONDAY = datetime.date(2026, 1, 5)


def past(
    chances: FloatArray, days: int, *, seed: int = 0, dated: bool = False
) -> History:
    """Days on which location i has an order with chances[day % 7, i] or chances[i].

    Even locations ask for 2, odd ones for 7.
    """
    rng = np.random.default_rng(seed)
    found = []
    for number in range(days):
        chance = chances if chances.ndim == 1 else chances[number % 7]
        rows = np.flatnonzero(rng.random(LOCATIONS) < chance) + 1
        demands = np.where(rows % 2 == 0, 2.0, 7.0)
        date = MONDAY + datetime.timedelta(number) if dated else None
        found.append(PastDay(rows, demands, date, str(number)))
    return History(CITY, tuple(found))


def frequencies(law: DayLaw, count: int, wish: Wish | None = None) -> FloatArray:
    """How often each location has an order on drawn days."""
    times = np.zeros(LOCATIONS + 1)
    for index in range(count):
        rows = law.draw(5, index, wish).city_rows
        assert rows is not None
        times[rows[1:]] += 1
    return times[1:] / count


TWO_KINDS = np.where(np.arange(LOCATIONS) < 60, 0.5, 0.05)


def test_a_day_is_a_function_of_seed_and_index() -> None:
    """The same pair gives the same day, in any order; other pairs give others."""
    law = fit(past(TWO_KINDS, 40))
    later, first = law.draw(3, 9), law.draw(3, 0)
    assert law.draw(3, 0).same_as(first)
    assert fit(past(TWO_KINDS, 40)).draw(3, 9).same_as(later)
    assert not law.draw(4, 0).same_as(first)


def test_frequent_locations_stay_frequent_and_rare_ones_possible() -> None:
    """Drawn frequencies follow the true ones, also of locations never seen."""
    history = past(TWO_KINDS, 40)
    law = fit(history)
    drawn = frequencies(law, 300)
    assert drawn[:60].mean() == pytest.approx(0.5, abs=0.06)
    assert drawn[60:].mean() == pytest.approx(0.05, abs=0.015)
    never = history.times_ordered[1:] == 0
    assert never.sum() > 10
    assert 0.005 < drawn[never].mean() < 0.05


def test_numbers_of_orders_keep_mean_and_spread() -> None:
    """The smoothed numbers have the mean and the variance of the past ones."""
    history = past(TWO_KINDS, 60)
    law = fit(history)
    sizes = np.array([law.draw(1, index).num_customers for index in range(400)])
    assert sizes.mean() == pytest.approx(history.orders.mean(), rel=0.02)
    assert sizes.std() == pytest.approx(history.orders.std(), rel=0.15)
    assert len(np.unique(sizes)) > len(np.unique(history.orders))


def test_locations_keep_their_own_demands() -> None:
    """Where locations differ in demand, drawn days do; else demands are pooled."""
    history = past(TWO_KINDS, 40)
    law = fit(history)
    day = law.draw(1, 0)
    assert day.city_rows is not None
    known = history.times_ordered[day.city_rows[1:]] > 3
    expected = np.where(day.city_rows[1:] % 2 == 0, 2, 7)
    assert (day.demands[1:] == expected)[known].mean() > 0.95
    rng = np.random.default_rng(0)
    mixed = [
        PastDay(day.rows, rng.choice([2.0, 7.0], len(day.rows))) for day in history.days
    ]
    assert fit(History(CITY, tuple(mixed))).own_demand > 50


def test_weekdays_count_only_where_they_matter() -> None:
    """Locations of one weekday are drawn on it; without a pattern all are alike."""
    week = np.full((7, LOCATIONS), 0.1)
    week[1, :40], week[[0, 2, 3, 4, 5, 6], :40] = 0.8, 0.02
    law = fit(past(week, 140, dated=True))
    assert law.split is not None
    tuesdays = frequencies(law, 100, Wish(weekday=1))
    others = frequencies(law, 100, Wish(weekday=4))
    assert tuesdays[:40].mean() > 0.5
    assert others[:40].mean() < 0.1
    assert others[40:].mean() == pytest.approx(0.1, abs=0.02)
    assert fit(past(np.full(LOCATIONS, 0.1), 70, dated=True)).split is None
    with pytest.raises(InputError, match="E404"):
        fit(past(TWO_KINDS, 40)).draw(0, 0, Wish(weekday=1))


def test_neighbours_come_together_where_they_did() -> None:
    """Zones with good and bad days are found and drawn; independent ones are not."""
    rng = np.random.default_rng(3)
    independent = fit(past(np.full(LOCATIONS, 0.2), 80))
    assert independent.alike > 50
    zone = independent.zone
    together = []
    for _ in range(80):
        good = rng.random(int(zone.max()) + 1) < 0.3
        rows = np.flatnonzero(rng.random(LOCATIONS) < np.where(good[zone], 0.6, 0.03))
        together.append(PastDay(rows + 1, np.ones(len(rows))))
    law = fit(History(CITY, tuple(together)))
    assert law.alike < 3

    def variance(days: list[np.ndarray]) -> float:
        return float(
            np.var([np.bincount(zone[rows - 1], minlength=99) for rows in days])
        )

    drawn = [law.draw(0, i).city_rows[1:] for i in range(80)]  # type: ignore[index]
    plain = [independent.draw(0, i).city_rows[1:] for i in range(80)]  # type: ignore[index]
    real = variance([day.rows for day in together])
    assert variance(drawn) == pytest.approx(real, rel=0.35)
    assert variance(plain) < 0.5 * real


def test_wishes_are_granted() -> None:
    """Customers, growth and capacity are as asked; too many customers are refused."""
    law = fit(past(TWO_KINDS, 40))
    assert law.draw(0, 0, Wish(customers=17)).num_customers == 17
    assert law.draw(0, 0, Wish(capacity=99)).capacity == 99
    usual = np.mean([law.draw(0, i).num_customers for i in range(100)])
    grown = np.mean(
        [law.draw(0, i, Wish(growth=1.5)).num_customers for i in range(100)]
    )
    assert grown == pytest.approx(1.5 * usual, rel=0.02)
    with pytest.raises(InputError, match="E401"):
        law.draw(0, 0, Wish(customers=LOCATIONS + 1))


def test_the_rest_of_a_day_is_new() -> None:
    """Orders still to come are none of today's, and fill up a likely number."""
    history = past(TWO_KINDS, 40)
    law = fit(history)
    today = history.days[0].rows[:20]
    sizes = []
    for index in range(100):
        rows, demands = law.complete(today, 1, index)
        assert not set(rows) & set(today)
        assert len(rows) == len(set(rows)) == len(demands)
        sizes.append(len(rows) + 20)
    assert np.mean(sizes) == pytest.approx(history.orders.mean(), rel=0.1)
    everybody = np.arange(1, LOCATIONS + 1)
    assert len(law.complete(everybody, 1, 0)[0]) == 0


def test_without_days_it_is_the_papers_law() -> None:
    """Without history `sample_day` is drawn, and what cannot fit is said."""
    law = fit(History(CITY))
    assert law.draw(3, 4).same_as(sample_day(CITY, 100, seed=3, index=4))
    rows, demands = law.complete(np.array([4, 5]), 0, 0)
    assert len(rows) == 98
    assert set(np.unique(demands)) <= set(range(1, 10))
    for capacity, words in ((480.5, "fills 1 vehicles"), (5, "do not fit")):
        with pytest.warns(InputWarning, match=words):
            warn_of_paper_law(law, Wish(capacity=capacity))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_paper_law(law, Wish())
        warn_of_paper_law(fit(past(TWO_KINDS, 40)), Wish(capacity=1e6))


def test_few_days_are_said_to_be_few() -> None:
    """Below five days the law keeps sizes and demands, and says what it leaves out."""
    history = past(TWO_KINDS, 3)
    with pytest.warns(InputWarning, match="W413"):
        law = fit(history)
    drawn = frequencies(law, 100)
    assert drawn[:60].mean() == pytest.approx(drawn[60:].mean(), rel=0.15)
    assert drawn.sum() == pytest.approx(history.orders.mean(), rel=0.1)
    assert set(law.draw(0, 0).demands[1:]) <= {2, 7}


def test_a_city_where_everybody_orders_every_day() -> None:
    """Chances of one and one single location do no harm."""
    rows = np.arange(1, LOCATIONS + 1)
    days = tuple(PastDay(rows, np.ones(LOCATIONS)) for _ in range(6))
    assert fit(History(CITY, days)).draw(0, 0).num_customers == LOCATIONS
    tiny = City(np.array([[0.0, 0.0], [1.0, 1.0]]), capacity=5)
    one = tuple(PastDay(np.array([1]), np.array([2.0])) for _ in range(6))
    assert fit(History(tiny, one)).draw(0, 0).demands.tolist() == [0, 2]


def test_the_check_passes_the_law_and_refuses_another() -> None:
    """Held-back days of the same city pass; days of another kind do not."""
    same = past(TWO_KINDS, 60)
    assert all(each.passed for each in check_law(same, 20, 60))
    turned = past(TWO_KINDS[::-1].copy(), 20, seed=1)
    changed = History(CITY, (*same.days[:40], *turned.days))
    failed = {each.measure for each in check_law(changed, 20, 60) if not each.passed}
    assert "share of known locations" in failed
    with pytest.raises(InputError, match="E404"):
        check_law(same, 60)


def test_commands_draw_from_the_law(tmp_path: Path, capsys: Capture) -> None:
    """sample and bench follow the past days of a city; bench takes tables of orders."""
    write_city(tmp_path / "toy", CITY)
    history = past(TWO_KINDS, 12)
    days = tmp_path / "days"
    days.mkdir()
    for number, day in enumerate(history.days):
        rows = zip(day.rows.tolist(), day.demands.tolist(), strict=True)
        text = "".join(f"{row},{demand:g}\n" for row, demand in rows)
        (days / f"{number}.csv").write_text("id,demand\n" + text)
    assert run("city", "add-days", tmp_path / "toy", days) == 0
    assert (
        run("sample", tmp_path / "toy", "--out", tmp_path / "drawn", "--count", 3) == 0
    )
    names = sorted(path.name for path in (tmp_path / "drawn").iterdir())
    assert names == [f"toy-law-s0-{index}.json" for index in range(3)]
    out = tmp_path / "out"
    order = ["--methods", "savings", "--seconds", "0.1", "--out", out]
    city = ["--city", tmp_path / "toy"]
    assert run("bench", days / "0.csv", days / "1.csv", *city, *order) == 0
    assert run("bench", *city, "--count", 2, *order) == 0
    capsys.readouterr()
    assert run("bench", tmp_path / "drawn", *city, *order) == 2
    assert "table of orders" in problem_of(capsys)
    assert run("city", "check-law", tmp_path / "toy", "--hold-back", 4, "--json") == 0
    assert run("city", "check-law", tmp_path / "toy", "--hold-back", 12) == 2
