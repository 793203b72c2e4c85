"""Yesterday: shares that stay, stops that are frozen, and what the report says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clusterfirst.cli import main
from clusterfirst.files import read_solution, write_instance, write_solution
from clusterfirst.problem.constraints import Constraints
from clusterfirst.problem.errors import InputError
from clusterfirst.problem.fleet import Fleet
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.solving.keeping import ORDER_PRICE, Kept
from clusterfirst.solving.options import SolveOptions
from clusterfirst.solving.solver import solve

EFFORT = SolveOptions(iterations=300)
Capture = pytest.CaptureFixture[str]


def town(orders: int = 40, seed: int = 0, **more: float) -> Instance:
    """A day with three named vehicles and a limit on hours."""
    rng = np.random.default_rng(seed)
    limits = {name: np.full(3, value) for name, value in more.items()}
    fleet = Fleet(("Anna", "Ben", "Cleo"), np.array([90.0, 90.0, 90.0]), **limits)  # type: ignore[arg-type]  # arrays, by name
    demands = np.r_[0, rng.integers(1, 9, orders)]
    asked = Constraints(fleet, speed=30.0)
    return Instance(demands, 1, coords=rng.random((orders + 1, 2)), constraints=asked)


def plan_of(day: Instance, seed: int = 1) -> Solution:
    """A plan that no search would make: customers dealt out at random, feasibly."""
    rng = np.random.default_rng(seed)
    dealt = np.array_split(rng.permutation(np.arange(1, day.num_customers + 1)), 3)
    return Solution([part.tolist() for part in dealt], [0, 1, 2])


@pytest.mark.parametrize("share", [1.0, 0.9, 0.5])
def test_the_share_that_is_asked_for_stays(share: float) -> None:
    """At least this share is on its old vehicle, and what may move makes it shorter."""
    day = town()
    plan = plan_of(day)
    result = solve(day, EFFORT, keep=Kept(plan, share=share))
    now = {
        c: v
        for v, r in zip(
            result.solution.vehicles or (), result.solution.routes, strict=True
        )
        for c in r
    }
    stayed = sum(now[c] == v for v, r in enumerate(plan.routes) for c in r)
    assert stayed >= share * day.num_customers
    assert result.verdict.cost <= judge(day, plan).cost
    assert (stayed == day.num_customers) == (share == 1.0)


def test_frozen_stops_stay_and_the_rest_is_planned() -> None:
    """The first stops of each route stand where they stood; new orders come after."""
    day = town(44)
    plan = Solution([r for r in plan_of(town(40)).routes], [0, 1, 2])
    result = solve(day, EFFORT, keep=Kept(plan, 0.0, first_stops=5))
    assert result.verdict.feasible
    routes = dict(
        zip(result.solution.vehicles or (), result.solution.routes, strict=True)
    )
    for v, route in enumerate(plan.routes):
        assert routes[v][:5] == route[:5]


def test_frozen_starts_are_priced_right() -> None:
    """With all but two stops frozen, the answer is the best of all ways to go on."""
    day = town(6, seed=5)
    plan = Solution([[1, 2], [3, 4]], [0, 1])  # 5 and 6 are new
    result = solve(day, EFFORT, keep=Kept(plan, 0.0, first_stops=2))
    ways = []
    for a in range(3):
        for b in range(3):
            routes = [[1, 2], [3, 4], []]
            routes[a] = [*routes[a], 5]
            for both in {True, a == b}:
                more = [list(r) for r in routes]
                more[b] = [*more[b], 6] if both else [*more[b][:-1], 6, 5]
                drives = [v for v in range(3) if more[v]]
                ways.append(
                    judge(day, Solution([more[v] for v in drives], drives)).cost
                )
    assert result.verdict.cost == pytest.approx(min(ways))


def test_frozen_vehicles_stay_as_they_are() -> None:
    """A frozen route is the same to the stop; the others may change."""
    day = town(42)
    plan = plan_of(town(40))
    result = solve(day, EFFORT, keep=Kept(plan, 0.0, frozen="Ben"))
    routes = dict(
        zip(result.solution.vehicles or (), result.solution.routes, strict=True)
    )
    assert routes[1] == plan.routes[1]
    assert routes[0] != plan.routes[0]
    with pytest.raises(InputError, match="no vehicle has this name"):
        solve(day, EFFORT, keep=Kept(plan, 0.0, frozen="Dora"))


def test_frozen_stops_that_break_a_limit_are_refused() -> None:
    """What nobody may change cannot be mended: say so before the search."""
    day = town(40, max_stops=14.0)
    plan = Solution(
        [list(range(1, 16)), list(range(16, 28)), list(range(28, 41))], [0, 1, 2]
    )
    with pytest.raises(InputError, match="break a limit"):
        solve(day, EFFORT, keep=Kept(plan, 0.0, frozen="Anna"))


def test_the_report(tmp_path: Path, capsys: Capture) -> None:
    """What moved, why, and what free planning would save, in one sentence."""
    day = town()
    write_instance(tmp_path / "day.json", day)
    write_solution(tmp_path / "old.json", day, plan_of(day))
    command = ["solve", str(tmp_path / "day.json"), "--iterations", "200"]
    keep = ["--keep", str(tmp_path / "old.json")]
    assert main([*command, *keep, "--keep-share", "0.9"]) == 0
    said = capsys.readouterr().err
    assert "of 40 changed vehicle, 0 because of new orders" in said
    assert main([*command, "--method", "neural", *keep]) == 0
    assert "W436 routes begin with the plan that is kept" in capsys.readouterr().err
    assert "than free planning" in said
    assert main([*command, *keep, "--frozen", "Anna|Ben"]) == 0
    for wrong, word in (
        (["--keep-share", "2", *keep], "from 0 to 1"),
        (["--keep-share", "0.9"], "--keep FILE"),
        (["--frozen", "Dora", *keep], "no vehicle has this name"),
        (["--balance", "beauty"], "one of stops"),
        (["--balance", "stops", "--within", "much"], "a share is needed"),
        (["--within", "3%"], "--balance"),
    ):
        capsys.readouterr()
        assert main([*command, *wrong]) == 2
        assert word in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".csv", ".json", ".xlsx"])
def test_routes_keep_their_numbers(tmp_path: Path, suffix: str) -> None:
    """Nobody of route 2 is there today: route 3 stays 3, and tomorrow it still is."""
    rng = np.random.default_rng(4)
    points = np.vstack([[0, 0], *(a + rng.random((6, 2)) for a in (8, (8, -8), -8))])
    plan = Solution([range(1, 7), range(7, 13), range(13, 19)])
    ids = ("hub", *(f"c{k}" for k in range(1, 19)))
    day = Instance(np.r_[0, np.ones(18)], 6, coords=points, ids=ids)
    write_solution(tmp_path / f"0{suffix}", day, plan)
    rows = np.r_[0:7, 13:19]
    names = tuple(ids[row] for row in rows)
    today = Instance(np.r_[0, np.ones(12)], 6, coords=points[rows], ids=names)
    write_instance(tmp_path / "day.json", today)
    for turn in (1, 2):
        command = ["solve", str(tmp_path / "day.json"), "--iterations", "200"]
        keep = ["--keep", str(tmp_path / f"{turn - 1}{suffix}")]
        assert main([*command, *keep, "--out", str(tmp_path / f"{turn}{suffix}")]) == 0
        found, _ = read_solution(tmp_path / f"{turn}{suffix}", today)
        assert found.vehicles == (0, 2)
        assert [sorted(route) for route in found.routes] == [
            [*range(1, 7)],
            [*range(7, 13)],
        ]
        assert judge(today, found).feasible


@pytest.mark.parametrize("price", [0.5, 8.0])
def test_the_order_of_stops_stays_where_nothing_forces_it(price: float) -> None:
    """Another order than yesterday's is taken only where it saves enough."""
    day, changed = town(), 0
    plan = solve(day, SolveOptions(iterations=3)).solution
    shuffled = [list(r) for r in plan.routes]
    for route in shuffled:
        route[2], route[3] = route[3], route[2]
    plan = Solution(shuffled, plan.vehicles)
    kept = solve(day, EFFORT, keep=Kept(plan, price)).solution
    old = dict(zip(plan.vehicles or (), plan.routes, strict=True))
    for vehicle, route in zip(kept.vehicles or (), kept.routes, strict=True):
        now = set(route)
        before = [c for c in old[vehicle] if c in now]
        if len(before) < len(route) or before == list(route):
            continue
        changed += 1
        free = day.replace(constraints=day.constraints.replace(allow_unserved=True))
        lengths = [judge(free, Solution([r], [vehicle])).cost for r in (before, route)]
        assert lengths[0] - lengths[1] > ORDER_PRICE * price
    assert (changed > 0) == (price == 0.5)


def test_vehicles_that_are_gone_leave_their_customers_free(
    tmp_path: Path, capsys: Capture
) -> None:
    """Dora drove yesterday and is not in today's table: no refusal, and it is said."""
    day = town()
    assert day.constraints is not None
    fleet = Fleet(("Anna", "Dora", "Cleo"), np.array([90.0, 90.0, 90.0]))
    before = day.replace(constraints=day.constraints.replace(fleet=fleet))
    plan = plan_of(day)
    write_instance(tmp_path / "day.json", day)
    command = ["solve", str(tmp_path / "day.json"), "--iterations", "200"]
    for name in ("old.json", "old.csv"):
        write_solution(tmp_path / name, before, plan)
        assert (
            main([*command, "--keep", str(tmp_path / name), "--move-price", "9"]) == 0
        )
        said = capsys.readouterr().err
        gone = len(plan.routes[1])
        assert f"0 of {40 - gone} changed vehicle" in said
        assert f"{gone} were on vehicles that are not there today, and free" in said
        assert main(["check", str(tmp_path / "day.json"), str(tmp_path / name)]) == 2
        assert "E829" in capsys.readouterr().err
