"""Every limit of a day is judged as one would by hand; every wrong one is named."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from clusterfirst.problem.constraints import Constraints
from clusterfirst.problem.errors import InfeasibleError, InputError
from clusterfirst.problem.fleet import Fleet
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.solving.canonical import canonical


def random_day(rng: np.random.Generator, orders: int = 5) -> Instance:
    """A day with every constraint there is, some of them tight."""
    rows = orders + 1
    words = ["", "", "g", "h"]
    names = ["", "", "", "car", "van", "van 2", "car|van 1"]
    fleet = Fleet(
        names=("car", "van"),
        capacities=np.array([6.5, 11.0]),
        counts=np.array([1, 2]),
        max_stops=np.array([rng.choice([2, np.inf]), rng.choice([3, np.inf])]),
        max_distance=np.array([np.inf, rng.choice([300.0, np.inf])]),
        max_duration=np.array([rng.choice([200.0, np.inf]), np.inf]),
        fixed_cost=np.array([10.0, 0.0]),
        optional=np.array([True, bool(rng.integers(2))]),
    )
    vehicle, forbidden, group, apart = (
        tuple(["", *rng.choice(cells, orders).tolist()])
        for cells in (names, names[:5], words, words)
    )
    constraints = Constraints(
        fleet,
        durations=rng.integers(1, 90, (rows, rows)).astype(float),
        service=np.r_[0, rng.integers(0, 30, orders)].astype(float),
        vehicle=vehicle,
        not_vehicle=forbidden,
        priority=np.ones(rows),
        group=group,
        apart=apart,
        allow_unserved=bool(rng.integers(2)),
    )
    matrix = rng.integers(1, 100, (rows, rows)).astype(float)
    np.fill_diagonal(matrix, 0)
    demands = np.r_[0, rng.choice([1.5, 2.0, 3.0], orders)]
    return Instance(demands, 1, matrix=matrix, metric="matrix", constraints=constraints)


def some_day(rng: np.random.Generator) -> Instance:
    """A random day that does not contradict itself."""
    while True:
        with suppress(InputError):
            return random_day(rng)


def by_hand(day: Instance, solution: Solution) -> set[str]:
    """The codes of what is broken, found stop by stop with plain loops."""
    assert day.constraints is not None
    asked, fleet = day.constraints, day.constraints.fleet
    assert solution.vehicles is not None
    durations, service = asked.durations, asked.service
    assert durations is not None
    assert service is not None
    codes, rides = set(), {}
    for route, v in zip(solution.routes, solution.vehicles, strict=True):
        kind = 0 if v == 0 else 1
        walk = list(pairwise([0, *route, 0]))
        minutes = sum(durations[a, b] for a, b in walk) + sum(service[c] for c in route)
        codes |= {
            code
            for code, found, most in [
                ("E801", sum(day.demands[c] for c in route), fleet.capacities[kind]),
                ("E821", len(route), fleet.max_stops[kind]),
                ("E822", sum(day.distances[a, b] for a, b in walk), [0, 0]),
                ("E823", minutes, fleet.max_duration[kind]),
            ]
            if code != "E822" and found > most
        }
        if sum(day.distances[a, b] for a, b in walk) > fleet.max_distance[kind]:
            codes.add("E822")
        called = {("car", "van 1", "van 2")[v], ("car", "van", "van")[v]}
        for c in route:
            rides[c] = v
            wish = asked.vehicle[c] if asked.vehicle else ""
            never = asked.not_vehicle[c] if asked.not_vehicle else ""
            if (wish and not called & set(wish.split("|"))) or never in called:
                codes.add("E824")
    codes |= {"E807"} if len(solution.routes) > fleet.size else set()
    if not asked.allow_unserved and len(rides) < day.num_customers:
        codes.add("E802")
    for a in range(1, day.num_customers + 1):
        for b in range(1, a):
            if asked.group and asked.group[a] and asked.group[a] == asked.group[b]:
                codes |= {"E825"} if rides.get(a) != rides.get(b) else set()
            if asked.apart and asked.apart[a] and asked.apart[a] == asked.apart[b]:
                together = a in rides and rides.get(a) == rides.get(b)
                codes |= {"E826"} if together else set()
    for v in (0, 1, 2):
        times = solution.vehicles.count(v)
        codes |= {"E827"} if times > 1 else set()
        if not times and not fleet.optional[0 if v == 0 else 1]:
            codes.add("E828")
    return codes


def test_the_judge_agrees_with_plain_loops() -> None:
    """All constraints at once, 3000 random plans: the same faults, the same cost."""
    rng = np.random.default_rng(1)
    seen: set[str] = set()
    for _ in range(100):
        day = some_day(rng)
        for _ in range(30):
            where = rng.integers(-1 if rng.random() < 0.3 else 0, 3, day.num_customers)
            plan = [
                (rng.permutation(np.flatnonzero(where == v) + 1).tolist(), v)
                for v in range(3)
                if (where == v).any()
            ]
            if rng.random() < 0.1 and len(plan[-1][0]) > 1:
                plan.append(([plan[-1][0].pop()], plan[-1][1]))
            solution = Solution([r for r, _ in plan], [v for _, v in plan])
            verdict = judge(day, solution)
            codes = {problem.code for problem in verdict.violations}
            assert codes == by_hand(day, solution)
            seen |= codes
            assert day.constraints is not None
            fixed = 10.0 * sum(v == 0 for _, v in plan)
            assert verdict.cost == pytest.approx(sum(verdict.lengths) + fixed)
    assert seen == {"E801", "E802", "E807", *(f"E82{k}" for k in range(1, 9))}


def test_the_canonical_form_has_the_same_verdicts() -> None:
    """Another order of the rows and other units change neither faults nor cost."""
    rng = np.random.default_rng(2)
    for _ in range(50):
        day = some_day(rng)
        form = canonical(day)
        where = rng.integers(0, 3, day.num_customers)
        drives = np.unique(where).tolist()
        routes = [(np.flatnonzero(where == v) + 1).tolist() for v in drives]
        ours = judge(form.instance, Solution(form.from_given(routes), drives))
        theirs = judge(day, Solution(routes, drives))
        assert ours.cost == pytest.approx(theirs.cost)
        assert {p.code for p in ours.violations} == {p.code for p in theirs.violations}


FLEET = Fleet(names=("a", "b"), capacities=np.array([5.0, 9.0]))


def day_with(fleet: Fleet = FLEET, **asked: Any) -> Instance:
    """Three orders at 1, 2 and 3 km from the depot, demand 4 each."""
    return Instance(
        demands=[0, 4, 4, 4],
        capacity=1,
        coords=[[0, 0], [1, 0], [0, 2], [3, 0]],
        constraints=Constraints(fleet, **asked),
    )


@pytest.mark.parametrize(
    ("code", "asked"),
    [
        ("E432", {"service": [0, 1, -1, 1]}),
        ("E432", {"service": [0, 1, np.nan, 1]}),
        ("E432", {"priority": [0, 1]}),
        ("E432", {"speed": -30.0}),
        ("E432", {"group": ("", "x")}),
        ("E433", {"vehicle": ("", "c", "", "")}),
        ("E433", {"not_vehicle": ("", "a|d", "", "")}),
        ("E434", {"vehicle": ("", "a", "", ""), "not_vehicle": ("", "a", "", "")}),
        ("E434", {"vehicle": ("", "a", "b", ""), "group": ("", "x", "x", "")}),
        ("E434", {"group": ("", "x", "x", ""), "apart": ("", "y", "y", "")}),
        ("E113", {"durations": np.ones((2, 2))}),
        ("E131", {"durations": np.full((4, 4), np.nan)}),
        ("E131", {"durations": np.full((4, 4), -1.0)}),
    ],
)
def test_wrong_wishes_are_named(code: str, asked: dict[str, Any]) -> None:
    """What cannot be asked is refused when the day is made, with its code."""
    with pytest.raises(InputError) as caught:
        day_with(**asked)
    assert code in {problem.code for problem in caught.value.problems}


@pytest.mark.parametrize(
    "table",
    [
        {"names": ()},
        {"names": ("a", "a")},
        {"names": ("a", "")},
        {"names": ("a", "b|c")},
        {"capacities": [5.0, 0.0]},
        {"capacities": [5.0, np.nan]},
        {"capacities": [5.0]},
        {"counts": [1, 0]},
        {"counts": [1, 1.5]},
        {"counts": [1, 10**9]},
        {"names": ("a", "a 2"), "counts": [2, 1]},
        {"max_stops": [1, 0]},
        {"max_stops": [1, 2.5]},
        {"max_distance": [1, -3]},
        {"max_duration": [1, np.nan]},
        {"fixed_cost": [0, -1]},
        {"fixed_cost": [0, np.inf]},
    ],
)
def test_wrong_vehicles_are_named(table: dict[str, Any]) -> None:
    """A table of vehicles that cannot be is refused with a sentence."""
    with pytest.raises(InputError) as caught:
        Fleet(**{"names": ("a", "b"), "capacities": np.array([5.0, 9.0])} | table)
    assert caught.value.problems[0].code == "E431"


def test_a_longest_duration_needs_times() -> None:
    """Hours without durations or a speed would never bind: refused."""
    fleet = Fleet(("a",), np.array([20.0]), max_duration=np.array([60.0]))
    with pytest.raises(InputError, match="E435"):
        day_with(fleet)
    day = day_with(fleet, speed=9.0)
    assert judge(day, Solution([[1, 2, 3]])).minutes[0] > 60
    assert not judge(day, Solution([[1, 2, 3]])).feasible


@pytest.mark.parametrize(
    ("code", "fleet", "asked"),
    [
        ("E206", {}, {"vehicle": ("", "a", "a", "a"), "group": ("", "x", "x", "x")}),
        ("E206", {"capacities": [3.0, 3.5]}, {}),
        ("E206", {"max_distance": [5.0, 5.0]}, {}),
        ("E206", {"max_duration": [30.0, 30.0]}, {"speed": 10.0}),
        ("E202", {"capacities": [5.0, 6.9]}, {}),
        ("E207", {"capacities": [50, 50], "max_stops": [1, 1]}, {}),
        ("E209", {"max_duration": [9.0, 9.0]}, {"speed": 1e9, "service": [0, 7, 7, 7]}),
        ("E208", {"counts": [4, 1], "optional": [False, True]}, {}),
    ],
)
def test_impossible_days_are_refused_with_the_reason(
    code: str, fleet: dict[str, Any], asked: dict[str, Any]
) -> None:
    """What no plan can serve is said before the search; unserved orders are a way."""
    table = {"names": ("a", "b"), "capacities": [5.0, 9.0]} | fleet
    day = day_with(Fleet(**table), **asked)
    assert code in {problem.code for problem in day.infeasibility()}
    with pytest.raises(InfeasibleError):
        day.require_feasible()
    assert day.constraints is not None
    free = day.replace(constraints=day.constraints.replace(allow_unserved=True))
    assert (code == "E208") == bool(free.infeasibility())


def test_refusals_say_which_orders_and_how_much_is_missing() -> None:
    """Capacity, stops, distance and minutes: the amounts are those of a calculator."""
    fleet = Fleet(("a", "b"), np.array([5.0, 4.0]))
    service = np.r_[0, 5.0, 5.0, 5.0]
    tables: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
        (
            {"capacities": [3.0, 3.5]},
            {},
            ["room for 6.5", "2.5 too much", "leaving order 1 "],
        ),
        (
            {"max_stops": [1, 1]},
            {},
            ["there are 3 orders, 1 too much", "leaving order 1 "],
        ),
        (
            {"max_duration": [7.0, 6.0]},
            {"speed": 1e9, "service": service},
            ["13 minutes at most", "15 minutes, 2 too much"],
        ),
        ({"max_distance": [9.0, 8.0]}, {}, ["order 3", "1 are missing"]),
        (
            {"max_duration": [50.0, 40.0]},
            {"speed": 10.0},
            ["order 3", "60 minutes there and back", "10 minutes are missing"],
        ),
        ({"capacities": [2.5, 8.0]}, {"not_vehicle": ("", "", "b", "")}, ["0.5 are"]),
    ]
    for table, asked, words in tables:
        changed = {"names": fleet.names, "capacities": [5.0, 9.0]} | table
        day = Instance(
            [0, 3, 3, 3],
            1,
            coords=[[0, 0], [1, 0], [2, 0], [5, 0]],
            constraints=Constraints(Fleet(**changed), **asked),
        )
        said = "; ".join(f"{p.where} {p.got} {p.rule}" for p in day.infeasibility())
        for word in words:
            assert word in said, said


def test_direction_and_vehicles_survive_the_canonical_form() -> None:
    """On one-way streets a route is not turned, and its vehicle stays with it."""
    solution = Solution([[3, 1], [2]], [1, 0])
    assert solution.canonical() == Solution([[2], [3, 1]], [0, 1])
    with pytest.raises(InputError, match="E829"):
        Solution([[1], [2]], [0])
