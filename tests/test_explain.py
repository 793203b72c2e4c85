"""Looking inside: prices by brute force, the network's view, tables and pictures."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterfirst.cli import main
from clusterfirst.files import write_instance, write_solution
from clusterfirst.networks.model_folder import Model, save_model
from clusterfirst.problem.errors import InputError
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.solving.explaining.explain import CONFIDENT, explain, prices
from clusterfirst.solving.explaining.picture import write_explanation
from networks import PSI, RELATIVE, small_day, small_model
from strategies import instances, partitions

Capture = pytest.CaptureFixture[str]


def sweep(day: Instance) -> Solution:
    """Feasible routes: by angle until the vehicle is full."""
    away = day.plane[1:] - day.plane[0]
    routes: list[list[int]] = [[]]
    for i in (np.argsort(np.arctan2(away[:, 1], away[:, 0])) + 1).tolist():
        load = int(day.demand_units[routes[-1]].sum()) if routes[-1] else 0
        if load + day.demand_units[i] > day.capacity_units:
            routes.append([])
        routes[-1].append(i)
    return Solution(routes)


def moved(solution: Solution, customer: int, number: int) -> list[Solution]:
    """Every solution with the customer somewhere in route `number` instead."""
    routes = [[c for c in route if c != customer] for route in solution.routes]
    return [
        Solution(
            [*route[:place], customer, *route[place:]] if j == number else route
            for j, route in enumerate(routes)
        )
        for place in range(len(routes[number]) + 1)
    ]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_prices_by_brute_force(data: st.DataObject) -> None:
    """A price is the best change of the judged cost over all places of the route."""
    day = data.draw(instances(min_customers=1, max_customers=6, city_rows=False))
    solution = data.draw(partitions(day.num_customers))
    price = prices(day, solution)
    cost = judge(day, solution).cost
    for number, route in enumerate(solution.routes):
        for customer in range(1, day.num_customers + 1):
            found = price[customer - 1, number]
            if customer in route:
                assert found == 0
                continue
            options = moved(solution, customer, number)
            best = min(judge(day, other).cost for other in options) - cost
            assert found == pytest.approx(best, abs=1e-6 * max(1.0, cost))


def test_fits_and_next_best() -> None:
    """The next best vehicle is the cheapest other one, whether or not it fits."""
    day = small_day(40)
    found = explain(day, sweep(day))
    price = found.price.copy()
    price[np.arange(40), found.vehicle] = np.inf
    assert np.allclose(found.next_price, price.min(axis=1))
    loads = [day.demand_units[list(r)].sum() for r in found.solution.routes]
    for i in range(40):
        for j, load in enumerate(loads):
            room = load + day.demand_units[i + 1] <= day.capacity_units
            assert found.fits[i, j] == (room or found.vehicle[i] == j)


def psi_model() -> Model:
    """An untrained model of the small city."""
    return small_model("tiny", PSI)


@pytest.mark.parametrize("kind", ["psi", "relative"])
def test_the_network_is_asked(kind: str) -> None:
    """Seeds, Delta and plan come in the order of the routes, each seed once."""
    day = small_day(40)
    model = psi_model() if kind == "psi" else small_model("any", RELATIVE)
    found = explain(day, sweep(day), model).network
    assert found is not None
    routes = len(sweep(day).routes)
    real = found.seeds[found.seeds > 0].tolist()
    assert len(set(real)) == len(real) >= min(routes, day.min_vehicles)
    assert found.plan.shape == found.delta.shape == (40, routes)
    assert (found.plan.sum(axis=1) <= 1 + 1e-6).all()
    assert np.nanmin(found.delta) >= 0
    assert np.array_equal(found.confident, found.plan.max(axis=1) > CONFIDENT)


def test_routes_get_the_seed_the_plan_sends_them_to() -> None:
    """Renumbering the routes permutes what the network says of them."""
    day = small_day(40)
    solution = sweep(day)
    back = Solution(solution.routes[::-1])
    model = psi_model()
    mine, theirs = (explain(day, s, model).network for s in (solution, back))
    assert mine is not None
    assert theirs is not None
    assert np.array_equal(mine.seeds, theirs.seeds[::-1])
    assert np.allclose(mine.plan, theirs.plan[:, ::-1])
    assert np.allclose(mine.delta, theirs.delta[:, ::-1], equal_nan=True)


def test_rows_are_sorted_by_price_and_complete() -> None:
    """One row per customer, cheapest move first, the same in CSV and JSON."""
    day = small_day(30)
    found = explain(day, sweep(day), psi_model())
    rows = found.rows()
    assert sorted(row["customer"] for row in rows) == sorted(day.ids[1:])
    listed = [row["price"] for row in rows]
    assert listed == sorted(listed)
    table = list(csv.DictReader(io.StringIO(found.as_csv())))
    assert [row["customer"] for row in table] == [row["customer"] for row in rows]
    document = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert document["customers"] == rows
    assert len(document["seeds"]) == len(found.solution.routes)


@pytest.mark.parametrize("with_model", [False, True])
@pytest.mark.parametrize("customers", [0, 1, 2])
def test_tiny_days(customers: int, with_model: bool, tmp_path: Path) -> None:
    """No customer, or one vehicle only: nothing to compare with, and no crash."""
    day = small_day(customers)
    found = explain(
        day, Solution([range(1, customers + 1)]), psi_model() if with_model else None
    )
    assert len(found.rows()) == customers
    assert all(row["next"] is None and row["price"] is None for row in found.rows())
    assert found.summary()
    write_explanation(tmp_path / "picture.png", found)


@pytest.mark.parametrize("suffix", [".png", ".svg"])
@pytest.mark.parametrize("with_model", [False, True])
def test_pictures(suffix: str, with_model: bool, tmp_path: Path) -> None:
    """A picture with and without a network, the same bytes each time."""
    day = small_day(40)
    found = explain(day, sweep(day), psi_model() if with_model else None)
    for name in ("a", "b"):
        write_explanation(tmp_path / f"{name}{suffix}", found)
    one, other = ((tmp_path / f"{name}{suffix}").read_bytes() for name in "ab")
    assert one == other
    assert len(one) > 10_000


def test_a_solution_that_misses_a_customer_is_refused() -> None:
    """Who is not on a vehicle cannot be explained; overloaded vehicles can."""
    day = small_day(6)
    with pytest.raises(InputError, match="E802"):
        explain(day, Solution([[1, 2, 3], [4, 5]]))
    with pytest.raises(InputError, match="E803"):
        explain(day, Solution([[1, 2, 3], [3, 4, 5, 6]]))
    tight = day.replace(capacity=9)
    assert explain(tight, Solution([range(1, 7)]), psi_model()).rows()


def test_a_matrix_has_prices_but_no_picture(tmp_path: Path) -> None:
    """Prices need distances only; a picture needs a map."""
    day = small_day(8)
    bare = Instance(
        demands=day.demands,
        capacity=day.capacity,
        matrix=day.distances,
        metric="matrix",
    )
    solution = Solution([range(1, 5), range(5, 9)])
    found = explain(bare, solution)
    assert np.allclose(found.price, prices(day, solution))
    with pytest.raises(InputError, match="E141"):
        write_explanation(tmp_path / "no.png", found)


# --- the commands ---------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """day.json, day.sol and a model folder."""
    day = small_day(25)
    write_instance(tmp_path / "day.json", day)
    write_solution(tmp_path / "day.sol", day, sweep(day))
    save_model(tmp_path / "model", psi_model(), "card")
    return tmp_path


def test_command_prints_a_table(files: Path, capsys: Capture) -> None:
    """One line per customer on stdout, the summary on stderr."""
    assert main(["explain", str(files / "day.json"), str(files / "day.sol")]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 26
    assert out.split()[:5] == ["customer", "demand", "vehicle", "next", "price"]
    assert err.startswith("25 customers on ")


def test_metres_are_written_out(tmp_path: Path, capsys: Capture) -> None:
    """Prices of some kilometres are whole metres, on screen and in the picture."""
    day = small_day(25)
    day = day.replace(coords=day.plane * 1e5, city_rows=None, city_hash="")
    write_instance(tmp_path / "day.json", day)
    write_solution(tmp_path / "day.sol", day, sweep(day))
    command = ["explain", str(tmp_path / "day.json"), str(tmp_path / "day.sol")]
    assert main(command) == 0
    table = capsys.readouterr().out
    assert max(float(line.split()[4]) for line in table.splitlines()[1:]) >= 10_000
    assert main([*command, "--out", str(tmp_path / "picture.svg")]) == 0
    picture = (tmp_path / "picture.svg").read_text()
    assert re.search(r"\+\d{4,}", picture)
    assert "e+0" not in table + picture


def test_command_with_a_model(files: Path, capsys: Capture) -> None:
    """Tables and picture with the model's view, as JSON on request."""
    command = ["explain", str(files / "day.json"), str(files / "day.sol")]
    command += ["--model", str(files / "model"), "--json"]
    for name in ("table.csv", "table.json", "picture.svg"):
        command += ["--out", str(files / name)]
    assert main(command) == 0
    out, _ = capsys.readouterr()
    document = json.loads(out)
    assert document["model"] == "model"
    assert {"delta", "share", "confident"} <= set(document["customers"][0])
    assert json.loads((files / "table.json").read_text()) == document
    assert (files / "table.csv").read_text().startswith("customer,demand,vehicle")
    assert (files / "picture.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize("with_model", [False, True])
def test_command_solves_first(files: Path, capsys: Capture, with_model: bool) -> None:
    """Without SOLUTION the instance is solved first, with the model if there is one."""
    command = ["explain", str(files / "day.json"), "--json"]
    command += ["--model", str(files / "model")] if with_model else []
    assert main(command) == 0
    document = json.loads(capsys.readouterr().out)
    assert sum(map(len, document["routes"])) == 25


@pytest.mark.parametrize(
    "words",
    [
        ["--out", "table.xlsx"],
        ["--new-locations", "guess"],
        ["--model", "nowhere"],
    ],
)
def test_command_refuses(files: Path, capsys: Capture, words: list[str]) -> None:
    """Wrong words get one line and exit code 2."""
    command = ["explain", str(files / "day.json"), str(files / "day.sol"), *words]
    assert main(command) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1


def test_unknown_locations(files: Path, capsys: Capture) -> None:
    """A day elsewhere is refused with the two ways out; nearest borrows."""
    day = small_day(25)
    assert day.coords is not None
    away = day.replace(coords=day.coords + 0.01, city_rows=None, city_hash="")
    write_instance(files / "away.json", away)
    command = ["explain", str(files / "away.json"), str(files / "day.sol")]
    command += ["--model", str(files / "model")]
    assert main(command) == 2
    assert "26 of 26 locations unknown" in capsys.readouterr().err
    assert main([*command, "--new-locations", "nearest"]) == 0


def test_models_command(files: Path, capsys: Capture) -> None:
    """Sound folders are listed, damaged ones named, and the exit code says which."""
    assert main(["models", str(files / "model")]) == 0
    assert "name model  input psi  layers 2+2" in capsys.readouterr().out
    assert main(["models"]) == 0
    weights = files / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    capsys.readouterr()
    assert main(["models", str(files / "model"), "--json"]) == 2
    out, _ = capsys.readouterr()
    assert "E701" in json.loads(out)["models"][0]["problem"]
