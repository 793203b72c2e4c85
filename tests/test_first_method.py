"""Where nobody asks for a method: which start, and what is said about it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clusterfirst.cli import main
from clusterfirst.files import bundled_city, write_city
from clusterfirst.networks.model_folder import save_model
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.sampling import sample_city, sample_day
from clusterfirst.solving.first_method import (
    COOLER_FROM,
    NETWORK_SECONDS,
    NETWORK_TO,
    ONE_DECODING,
    default_time_limit,
    first_temperature,
    start_share,
    with_method,
)
from clusterfirst.solving.options import SolveOptions
from clusterfirst.solving.result import Result
from clusterfirst.solving.solver import solve
from clusterfirst.stages.search.schedule import PolishSettings
from networks import PSI, small_city, small_model

SETTINGS = PolishSettings()


def day(customers: int, **more: object) -> Instance:
    """A day of the bundled city."""
    found = sample_day(bundled_city(), customers, seed=8, index=customers)
    return found.replace(**more) if more else found


@pytest.mark.parametrize("limit", [None, 0.05, 0.1, 0.3, 1.0, 3.0, 60.0])
def test_the_network_gets_no_more_than_its_share(limit: float | None) -> None:
    """At every size it is asked only if one decoding is that quick, and then always."""
    for customers in (5, 30, 100, 500, 1000, 3000):
        options = SolveOptions(time_limit=limit)
        found, why_not = with_method(day(customers), options)
        least, each = NETWORK_SECONDS
        share = (least + each * customers) / (limit or default_time_limit(customers))
        assert not why_not
        if found.method == "neural":
            assert share <= ONE_DECODING
            assert start_share(found) <= 0.25
        elif customers >= 30:
            assert share > 0.8 * ONE_DECODING
            assert found.method == "savings"


def test_the_default_starts_from_the_network() -> None:
    """At one second and 100 customers it does, and the result says so."""
    result = solve(day(100), SolveOptions(time_limit=1.0))
    assert result.method == "neural+polish"
    assert not any("W723" in note for note in result.notes)


def test_very_large_maps_begin_with_savings() -> None:
    """However long the limit is: there savings with a cooler search is better."""
    city = sample_city(NETWORK_TO + 1, layout="clustered", seed=1)
    large = sample_day(city, NETWORK_TO + 1, seed=1, index=0)
    assert with_method(large, SolveOptions(time_limit=600.0))[0].method == "savings"


def test_a_method_by_name_is_that_method() -> None:
    """The rule chooses only where nobody did."""
    for name in ("fisher-jaikumar", "savings", "neural", "hgs"):
        given = SolveOptions(name, time_limit=1.0)
        assert with_method(day(100), given) == (given, "")


def test_counts_and_the_start_alone_stay_classical() -> None:
    """Repeatable answers and those without a search are Fisher-Jaikumar's."""
    for options in (SolveOptions(iterations=10), SolveOptions(polish=False)):
        assert with_method(day(100), options)[0].method == "fisher-jaikumar"


def test_what_the_network_does_not_know_is_said() -> None:
    """Endless routes, and no coordinates: another start, and why in a note."""
    long = day(100, capacity=10_000)
    square = np.abs(np.subtract.outer(np.arange(41.0), np.arange(41.0)))
    bare = Instance(
        np.ones(41, dtype=np.int64) - np.eye(41, dtype=int)[0],
        7,
        matrix=square,
        metric="matrix",
    )
    for instance, word in ((long, "customers per route"), (bare, "coordinates")):
        found, why_not = with_method(instance, SolveOptions())
        assert found.method != "neural"
        assert "not started from the network" in why_not
        assert word in why_not
    result = solve(bare, SolveOptions(time_limit=0.5))
    assert any("not started from the network" in note for note in result.notes)


def test_the_search_begins_cooler_where_its_start_is_good() -> None:
    """After the network unless routes are long, and after savings on large maps."""
    short = day(200)
    long = short.replace(capacity=float(short.demands.sum()) / 2)
    assert first_temperature(short, "neural", SETTINGS) < SETTINGS.hot
    for instance, method in ((short, "savings"), (long, "neural"), (long, "savings")):
        assert first_temperature(instance, method, SETTINGS) == SETTINGS.hot
    city = sample_city(COOLER_FROM, layout="clustered", seed=1)
    large = sample_day(city, COOLER_FROM, seed=1, index=0)
    assert first_temperature(large, "savings", SETTINGS) < SETTINGS.hot
    assert first_temperature(large, "fisher-jaikumar", SETTINGS) == SETTINGS.hot


def test_what_a_city_has_learned_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`solve --city` begins with the model that `learn` left in the city's folder."""
    city = tmp_path / "city"
    write_city(city, small_city())
    orders = tmp_path / "orders.csv"
    rows = [f"{name},3" for name in small_city().ids[1:60]]
    orders.write_text("id,demand\n" + "\n".join(rows) + "\n")
    given: list[SolveOptions] = []

    def watched(instance: Instance, options: SolveOptions, **more: Any) -> Result:
        given.append(options)
        return solve(instance, options, **more)

    monkeypatch.setattr("clusterfirst.solving.solver.solve", watched)
    words = ["solve", str(orders), "--city", str(city), "--capacity", "40", "--json"]
    words += ["--time-limit", "0.5"]
    assert main(words) == 0
    save_model(city / "learned" / "model", small_model("own", PSI), "")
    assert main(words) == 0
    assert main([*words, "--method", "neural"]) == 0
    assert main([*words, "--model", "general"]) == 0
    assert main([*words, "--method", "savings"]) == 0
    own = str(city / "learned" / "model")
    assert [o.model for o in given] == [None, own, own, "general", None]
    assert [o.method for o in given] == ["auto", "auto", "neural", "neural", "savings"]


def test_a_model_that_does_not_know_the_place_is_not_asked(tmp_path: Path) -> None:
    """Where a city's model refuses, the answer begins with savings and says why."""
    save_model(tmp_path / "own", small_model("own", PSI), "")
    options = SolveOptions(model=str(tmp_path / "own"))
    found, why_not = with_method(day(100), options)
    assert found.method == "savings"
    assert "not started from the network: E405" in why_not
    borrowing = replace(options, new_locations="nearest")
    assert with_method(day(100), borrowing) == (
        replace(borrowing, method="neural"),
        "",
    )
