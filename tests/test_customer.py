"""One order in five sentences; prices are those of trying it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clusterfirst.cli import main
from clusterfirst.problem.constraints import Constraints
from clusterfirst.problem.errors import InputError
from clusterfirst.problem.fleet import Fleet
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.solving.explaining.customer import alternatives, why
from test_constraints import some_day


def test_prices_are_those_of_trying_every_place() -> None:
    """The best place on each vehicle, found by trying all, and what it breaks."""
    rng = np.random.default_rng(5)
    for _ in range(40):
        day = some_day(rng)
        where = rng.integers(0, 2, day.num_customers)
        drives = np.unique(where).tolist()
        routes = [(np.flatnonzero(where == v) + 1).tolist() for v in drives]
        plan = Solution(routes, drives)
        row = 1 + int(rng.integers(day.num_customers))
        now = judge(day, plan)
        asked = day.constraints
        assert asked is not None
        names = asked.fleet.vehicle_names
        for other in alternatives(day, plan, row)[0]:
            v = names.index(other.vehicle)
            costs = []
            stay = {
                k: [c for c in r if c != row]
                for k, r in zip(drives, routes, strict=True)
            }
            for at in range(len(stay.get(v, [])) + 1):
                moved = {k: list(r) for k, r in stay.items()}
                moved.setdefault(v, []).insert(at, row)
                some = {k: r for k, r in moved.items() if r}
                costs.append(judge(day, Solution(some.values(), some.keys())).cost)
            assert min(costs) - now.cost == pytest.approx(other.extra)
            faults = {p.code for p in now.violations}
            if not other.broken:
                assert other.extra == pytest.approx(min(costs) - now.cost)
            elif "capacity" in other.broken and not faults:
                load = sum(day.demands[c] for c in (*stay.get(v, []), row))
                assert load > asked.fleet.capacities[asked.fleet.kind[v]]


def test_five_sentences() -> None:
    """Where it is, what it costs, the next vehicle, the others, what binds."""
    day = Instance(
        demands=[0, 4, 4, 4],
        capacity=1,
        coords=[[0, 0], [1, 0], [0, 2], [3, 0]],
        ids=("hub", "a", "b", "c"),
        constraints=Constraints(Fleet(("x", "y"), np.array([8.0, 5.0]))),
    )
    reasons = why(day, Solution([[1, 2], [3]], [0, 1]), "a")
    assert len(reasons.sentences) == 5
    assert reasons.sentences[0] == (
        "Order a (demand 4) is stop 1 of 2 on x, between hub and b."
    )
    assert (
        "y: there the plan costs 1.2361 less, but breaks: capacity"
        in (reasons.sentences[2])
    )
    assert reasons.sentences[4] == "What keeps it from a cheaper vehicle: capacity."
    with pytest.raises(InputError, match="E813"):
        why(day, Solution([[1, 2], [3]], [0, 1]), "hub")


def test_on_the_command_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`explain --customer` prints them, in plain days too, and refuses strangers."""
    vrp = """DIMENSION : 4
CAPACITY : 10
EDGE_WEIGHT_TYPE : EUC_2D
NODE_COORD_SECTION
1 0.5 0
2 4 0
3 0 3
4 1 1
DEMAND_SECTION
1 0
2 5
3 6
4 4
DEPOT_SECTION
1
-1
"""
    (tmp_path / "a.vrp").write_text(vrp)
    (tmp_path / "a.sol").write_text("Route #1: 1 3\nRoute #2: 2\n")
    words = ["explain", str(tmp_path / "a.vrp"), str(tmp_path / "a.sol"), "--customer"]
    assert main([*words, "3"]) == 0
    assert len(capfd.readouterr().out.splitlines()) == 5
    assert main([*words, "7"]) == 2
    assert "E813" in capfd.readouterr().err
