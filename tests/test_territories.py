"""Usual areas follow the routes of many days, and familiar plans keep to them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterfirst.cities.areas import (
    FILE,
    Areas,
    familiarity,
    read_areas,
    usual_drivers,
    write_areas,
)
from clusterfirst.cities.history import History, PastDay, write_history
from clusterfirst.cities.partition import BALANCE, Ground, _beside, partition
from clusterfirst.cities.territories import (
    Territories,
    TerritorySettings,
    find_territories,
)
from clusterfirst.files import write_city
from clusterfirst.files.city_folder import add_locations
from clusterfirst.problem.city import City
from clusterfirst.problem.errors import InputError
from clusterfirst.problem.instance import FloatArray, IntArray
from clusterfirst.problem.solution import judge
from clusterfirst.solving.familiar import Familiar, solve_familiar
from clusterfirst.solving.options import SolveOptions
from commands import Capture, problem_of, run

RNG = np.random.default_rng(5)
CORNERS = np.array([[0.0, 8.0], [8.0, 0.0], [0.0, -8.0], [-8.0, 0.0]])


def town() -> History:
    """Four villages around the depot, each of them one vehicle's work on a day."""
    places = [CORNERS[k] + RNG.normal(0, 0.5, (15, 2)) for k in range(4)]
    city = City(np.vstack([[[0.0, 0.0]], *places]), name="town", capacity=12)
    days = []
    for _ in range(10):
        rows = np.concatenate(
            [15 * k + 1 + RNG.choice(15, 5, replace=False) for k in range(4)]
        )
        days.append(PastDay(rows, np.full(20, 2.0)))
    return History(city, tuple(days))


TOWN = town()
QUICK = SolveOptions(iterations=200, threads=1)


@pytest.fixture(scope="module")
def found() -> Territories:
    """Four areas of the town."""
    return find_territories(TOWN, TerritorySettings(4, days=10))


@pytest.fixture
def folder(tmp_path: Path, found: Territories) -> Path:
    """The town on disk, with its areas."""
    place = tmp_path / "town"
    write_city(place, TOWN.city)
    write_history(place, TOWN)
    write_areas(place, found.areas)
    return place


def connected(points: FloatArray, of_row: IntArray) -> bool:
    """Whether each area is one piece, where every location is a cell."""
    beside = _beside(points[1:])
    for k in np.unique(of_row[1:]).tolist():
        mine = set(np.flatnonzero(of_row[1:] == k).tolist())
        todo = [mine.pop()]
        while todo:
            near = [j for j in beside[todo.pop()] if j in mine]
            mine.difference_update(near)
            todo += near
        if mine:
            return False
    return True


def test_villages_become_areas(found: Territories) -> None:
    """What shares a vehicle every day is one area, and keeping to it costs nothing."""
    of_row = found.areas.of_row
    for k in range(4):
        assert len(set(of_row[15 * k + 1 : 15 * k + 16].tolist())) == 1
    assert len(set(of_row[1:].tolist())) == 4
    assert found.price.real
    assert len(found.price.longer) == 2
    assert np.allclose(found.price.longer, 0, atol=1e-6)
    assert np.allclose(found.price.free[:, 2], 1)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 6), st.integers(6, 40), st.integers(0, 10**6))
def test_areas_are_all_there_connected_and_balanced(
    count: int, locations: int, seed: int
) -> None:
    """Any map, any routes: every area has locations and is one piece; where cells are
    small the loads are balanced."""
    rng = np.random.default_rng(seed)
    points = rng.random((locations + 1, 2)).round(int(rng.integers(1, 6)))
    weights = np.concatenate([[0.0], rng.uniform(1, 2, locations)])
    served = [
        [part + 1 for part in np.array_split(rng.permutation(locations), count)]
        for _ in range(3)
    ]
    of_row = partition(Ground(points, weights), served, count)
    assert of_row[0] == -1
    assert np.array_equal(np.unique(of_row[1:]), np.arange(count))
    if len(np.unique(points[1:], axis=0)) == locations:
        assert connected(points, of_row)
    loads = np.bincount(of_row[1:], weights[1:], count)
    if count == 2 and locations >= 30 and len(np.unique(points, axis=0)) > 25:
        assert loads.max() <= (1 + BALANCE) * loads.mean() + weights.max()


def test_areas_that_follow_routes_beat_the_first_partition() -> None:
    """Moving cells raises the stops that are at home, and never lowers them."""
    weights = np.concatenate([[0.0], np.ones(60)])
    followed, at_first = [], []
    for seed in range(6):
        points = np.random.default_rng(seed).random((61, 2))
        turned = np.argsort(points[1:] @ [1.0, 2.0])  # stripes that are no petals
        stripes = [part + 1 for part in np.array_split(turned, 3)]
        for served, homes in (([stripes] * 5, followed), ([], at_first)):
            area = partition(Ground(points, weights), served, 3)
            drivers = usual_drivers(stripes, area).tolist()
            homes.append(familiarity(stripes, area, drivers))
    assert np.all(np.array(followed) >= np.array(at_first))
    assert np.mean(followed) > max(0.75, float(np.mean(at_first)))


def test_drivers_are_matched_one_to_one() -> None:
    """No two routes have one driver, and no other matching has more stops at home."""
    from itertools import permutations

    rng = np.random.default_rng(2)
    area = np.concatenate([[-1], rng.integers(0, 3, 12)])
    area[1:4] = [0, 1, 2]
    routes = [part.tolist() for part in np.array_split(rng.permutation(12) + 1, 3)]
    best = max(familiarity(routes, area, each) for each in permutations(range(3)))
    drivers = usual_drivers(routes, area).tolist()
    assert len(set(drivers)) == 3
    assert familiarity(routes, area, drivers) == best


def mixed() -> tuple[Areas, IntArray]:
    """Areas across the villages: free plans are not familiar."""
    of_row = np.concatenate([[-1], np.arange(60) % 4])
    areas = Areas(TOWN.city, of_row)
    return areas, areas.of_day(TOWN.instance(0))


def test_a_price_makes_routes_familiar() -> None:
    """The higher the price, the more stops at home, the longer the routes; all judged,
    and what is told is true."""
    _, area = mixed()
    day = TOWN.instance(0).replace(capacity=20)  # room for any area's orders
    shares, costs = [], []
    for weight in (0.0, 0.5, 50.0):
        result = solve_familiar(day, Familiar(area, weight), QUICK)
        assert judge(result.instance, result.solution).feasible
        assert result.solution.vehicles is not None
        told = result.details["familiar"]
        share = familiarity(result.solution.routes, area, result.solution.vehicles)
        assert told["familiarity"] == share
        assert told["longer"] == pytest.approx(
            result.verdict.cost / told["cost_of_the_free_plan"] - 1
        )
        assert result.as_dict()["familiar"] == told
        shares.append(share)
        costs.append(result.verdict.cost)
    assert shares == sorted(shares)
    assert costs == sorted(costs)
    assert shares[-1] == 1.0
    assert shares[0] < 0.8


def test_familiar_routes_are_repeatable_and_named(
    folder: Path, capsys: Capture
) -> None:
    """The same iterations, the same plan; the driver of each route is in the table."""
    day = TOWN.instance(3)
    orders = folder.parent / "day.csv"
    rows = zip(day.ids[1:], day.demands[1:].tolist(), strict=True)
    orders.write_text("id,demand\n" + "".join(f"{n},{d:g}\n" for n, d in rows))
    texts = []
    for name in ("a.csv", "b.csv"):
        out = folder.parent / name
        args = ("solve", orders, "--city", folder, "--familiar", "0.5")
        assert run(*args, "--iterations", "50", "--out", out) == 0
        texts.append(out.read_text())
    assert texts[0] == texts[1]
    assert "area 1" in texts[0]
    assert "100% of the stops" in capsys.readouterr().err


def test_a_fleet_smaller_than_the_areas_is_refused() -> None:
    """Drivers without a vehicle: a sentence, before any planning."""
    _, area = mixed()
    day = TOWN.instance(0).replace(vehicles=3, capacity=20)
    with pytest.raises(InputError, match="E415"):
        solve_familiar(day, Familiar(area, 0.5), QUICK)


def test_areas_come_back(folder: Path, found: Territories) -> None:
    """What is read is what was written; rows added later belong to the nearest."""
    again = read_areas(folder)
    assert np.array_equal(again.of_row, found.areas.of_row)
    assert again.facts == json.loads(json.dumps(found.areas.facts))
    new = folder.parent / "new.csv"
    x, y = (TOWN.city.coords[3] + 1e-3).tolist()
    new.write_text(f"id,x,y\nnew,{x},{y}\n")
    add_locations(folder, new)
    grown = read_areas(folder)
    assert len(grown.of_row) == 62
    assert grown.of_row[-1] == found.areas.of_row[3]


def test_a_city_replaced_meanwhile_keeps_its_folder(
    folder: Path, found: Territories
) -> None:
    """Areas of another city are neither written nor read."""
    other = City(TOWN.city.coords + 1.0, name="other", capacity=12)
    write_city(folder, other)
    before = (folder / FILE).read_bytes()
    with pytest.raises(InputError, match="E408"):
        write_areas(folder, found.areas)
    assert (folder / FILE).read_bytes() == before
    with pytest.raises(InputError, match="E415"):
        read_areas(folder)


@pytest.mark.parametrize(
    "damage",
    [
        b"x",
        b"[" * 100_000,
        b'{"areas": [1]}',
        b'{"format": "clusterfirst-territories", "version": 1}',
    ],
)
def test_damaged_files_are_sentences(folder: Path, damage: bytes) -> None:
    """No traceback, whatever the file holds."""
    (folder / FILE).write_bytes(damage)
    with pytest.raises(InputError, match="E415"):
        read_areas(folder)


@pytest.mark.parametrize("areas", [[0, 2], [0.5], [-1], [0] * 100, ["a"], [True], []])
def test_wrong_areas_are_refused(folder: Path, areas: list[object]) -> None:
    """Areas are numbered without gaps, one for each location at most."""
    document = json.loads((folder / FILE).read_text())
    (folder / FILE).write_text(json.dumps(document | {"areas": areas}))
    with pytest.raises(InputError, match="E415"):
        read_areas(folder)


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("--vehicles", "0"), "E404"),
        (("--vehicles", "61"), "E404"),
        (("--vehicles", "3", "--days", "0"), "E404"),
        (("--vehicles", "3", "--capacity", "1"), "E201"),
        (("--vehicles", "3", "--out", "map.doc"), "E106"),
    ],
)
def test_bad_territories_are_sentences(
    folder: Path, capsys: Capture, args: tuple[str, ...], code: str
) -> None:
    """Nothing is written, one line says why."""
    before = (folder / FILE).read_bytes()
    assert run("territories", folder, *args) in (1, 2)
    assert problem_of(capsys).startswith(code)
    assert (folder / FILE).read_bytes() == before


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("--familiar", "0.5"), "E404"),
        (("--familiar", "-1", "--city", "CITY"), "E404"),
        (("--familiar", "nan", "--city", "CITY"), "E404"),
        (("--familiar", "1", "--city", "bundled"), "E102"),
        (("--familiar", "1", "--city", "CITY", "--warm-start", "ORDERS"), "E404"),
    ],
)
def test_bad_familiarity_is_a_sentence(
    folder: Path, capsys: Capture, args: tuple[str, ...], code: str
) -> None:
    """Familiar routes need a city with areas and a price."""
    orders = folder.parent / "day.csv"
    orders.write_text("id,demand\n1,2\n2,2\n")
    names = {"CITY": str(folder), "ORDERS": str(orders)}
    given_args = [names.get(arg, arg) for arg in args]
    assert run("solve", orders, *given_args) == 2
    assert code in problem_of(capsys)


def test_a_map_and_a_table_are_drawn(folder: Path, capsys: Capture) -> None:
    """A row per location, a picture, and one document."""
    out = folder.parent
    args = ("territories", folder, "--vehicles", "3", "--days", "2", "--json")
    assert run(*args, "--out", out / "a.png", "--out", out / "a.csv") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["vehicles"] == 3
    assert len((out / "a.csv").read_text().splitlines()) == 61
    assert (out / "a.png").read_bytes().startswith(b"\x89PNG")
    assert read_areas(folder).count == 3
