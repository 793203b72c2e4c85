"""Orders that stay: each reason is what trying every place would find."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import openpyxl
import pytest

from clusterfirst.problem.constraints import Constraints
from clusterfirst.problem.fleet import Fleet
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.problem.staying import reasons_to_stay
from clusterfirst.solving.alternatives import LIMITS
from commands import run

ON_A_ROUTE = {"E801", "E821", "E822", "E823", "E824", "E826"}


def broken_by_hand(day: Instance, plan: dict[int, list[int]], c: int) -> Counter[str]:
    """How many vehicles break each limit wherever c stands on them."""
    assert day.constraints is not None
    count: Counter[str] = Counter()
    for v in range(day.constraints.fleet.size):
        always: set[str] | None = None
        for at in range(len(plan.get(v, [])) + 1):
            route = [*plan.get(v, [])]
            route.insert(at, c)
            tried = {**plan, v: route}
            found = judge(day, Solution(tried.values(), tried.keys())).violations
            codes = {problem.code for problem in found} & ON_A_ROUTE
            always = codes if always is None else always & codes
        count.update(LIMITS[code] for code in always or ())
    return count


def tight_day(rng: np.random.Generator) -> Instance:
    """Two vehicles with little room of every sort, and orders with wishes."""
    orders = 6
    fleet = Fleet(
        ("a", "b"),
        np.array([9.0, 12.0]),
        max_stops=rng.integers(1, 4, 2).astype(float),
        max_distance=rng.integers(100, 250, 2).astype(float),
        max_duration=rng.integers(100, 250, 2).astype(float),
    )
    asked = Constraints(
        fleet,
        durations=rng.integers(1, 60, (orders + 1, orders + 1)).astype(float),
        not_vehicle=("", *rng.choice(["", "", "a", "b"], orders)),
        apart=("", *rng.choice(["", "x"], orders)),
        allow_unserved=True,
    )
    matrix = rng.integers(1, 60, (orders + 1, orders + 1)).astype(float)
    np.fill_diagonal(matrix, 0)
    demands = np.r_[0, rng.integers(1, 6, orders)]
    return Instance(demands, 1, matrix=matrix, metric="matrix", constraints=asked)


def test_reasons_are_those_of_trying_every_place() -> None:
    """The count of vehicles behind each word is that of a loop over all places."""
    rng, words = np.random.default_rng(3), Counter[str]()
    for _ in range(150):
        day = tight_day(rng)
        plan: dict[int, list[int]] = {}
        for c in range(2, day.num_customers + 1):
            v = int(rng.integers(2))
            tried = {**plan, v: [*plan.get(v, []), c]}
            if judge(day, Solution(tried.values(), tried.keys())).feasible:
                plan = tried
        reason = reasons_to_stay(day, Solution(plan.values(), plan.keys()))["1"]
        told = {w: int(k) for w, k in re.findall(r"[:,] ([a-z ]+) \((\d+)\)", reason)}
        if told:
            assert told == broken_by_hand(day, plan, 1), reason
            words.update(told)
    assert set(words) == set(LIMITS[code] for code in ON_A_ROUTE)


def test_a_full_fleet_says_what_one_more_vehicle_would_cost() -> None:
    """Fixed cost, there and back, of the kind that is cheapest for the order alone."""
    fleet = Fleet(
        ("lorry", "van"), np.array([9.0, 5.0]), fixed_cost=np.array([30.0, 7.0])
    )
    day = Instance(
        [0, 9, 5, 4],
        1,
        coords=[[0, 0], [1, 0], [0, 1], [3, 4]],
        constraints=Constraints(fleet, allow_unserved=True),
    )
    why = reasons_to_stay(day, Solution([[1], [2]], [0, 1]))["3"]
    assert why.startswith("all vehicles are full: capacity (2)")
    assert "one more van would cost 17 " in why


def test_who_must_not_ride_together_stays_for_that_reason() -> None:
    """Room for both on the only vehicle, and a word that keeps them apart."""
    fleet = Fleet(("van",), np.array([9.0]))
    asked = Constraints(fleet, apart=("", "x", "x"), allow_unserved=True)
    day = Instance([0, 1, 1], 1, coords=np.eye(3)[:, :2], constraints=asked)
    why = reasons_to_stay(day, Solution([[1]], [0]))["2"]
    assert why == f"every vehicle would break a limit: {LIMITS['E826']} (1)"


def test_a_plain_day_has_reasons_too() -> None:
    """Vehicles without a table are all alike, and as many as the limit says."""
    day = Instance([0, 3, 3], 4, coords=np.eye(3)[:, :2], vehicles=1)
    why = reasons_to_stay(day, Solution([[1]]))["2"]
    assert "capacity (1)" in why


@pytest.fixture
def crowded(tmp_path: Path) -> list[str]:
    """Three orders, one vehicle for two of them."""
    (tmp_path / "locations.csv").write_text("id,x,y\nhub,0,0\na,1,0\nb,9,9\nc,0,1\n")
    (tmp_path / "orders.csv").write_text("id,demand\na,3\nb,3\nc,3\n")
    (tmp_path / "vehicles.csv").write_text("name,capacity\nAnna,7\n")
    city = tmp_path / "city"
    made = run(
        "city", "init", tmp_path / "locations.csv", "--depot", "hub", "--out", city
    )
    assert made == 0
    day = [tmp_path / "orders.csv", "--city", city]
    rest = ["--vehicles", tmp_path / "vehicles.csv", "--allow-unserved"]
    return [str(word) for word in [*day, *rest]]


def test_reasons_are_printed_and_written(
    crowded: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`solve` says who stays and why; map, sheets and workbook carry the same words."""
    outs = [tmp_path / name for name in ("m.html", "d.sheets.html", "p.xlsx")]
    asked = [word for out in outs for word in ("--out", str(out))]
    assert run("solve", *crowded, "--iterations", "300", *asked) == 0
    said = capsys.readouterr().err
    (told,) = re.findall(
        r"1 order is not served \(demand 3\): (\w), because (.*)", said
    )
    order, why = told
    assert order == "b"
    assert why.startswith("all vehicles are full: capacity (1)")
    for out in outs[:2]:
        assert why in out.read_text()
    sheet = openpyxl.load_workbook(outs[2])["unserved"]
    rows = [[cell.value for cell in row] for row in sheet.iter_rows()]
    assert rows == [["id", "demand", "why"], ["b", 3, why]]
