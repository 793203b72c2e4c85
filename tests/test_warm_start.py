"""Warm starts and streams of improvements: tolerant, honest, never worse."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterfirst.cli import main
from clusterfirst.files import write_instance
from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.sampling import sample_city, sample_day
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.solving.solver import SolveOptions, solve
from clusterfirst.stages.search.repair import repair_routes

CITY = sample_city(120, seed=4)
FEW = SolveOptions(iterations=3, polish=False)
Capture = pytest.CaptureFixture[str]


def day(index: int, customers: int = 40) -> Instance:
    return sample_day(CITY, customers, seed=8, index=index)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(1, 40))
def test_never_worse_than_the_repaired_start(seed: int, n: int) -> None:
    """Whatever routes are given, the answer costs at most what their repair does."""
    rng = np.random.default_rng(seed)
    instance = day(0, n)
    visits = rng.integers(-2, n + 4, rng.integers(0, 2 * n))
    start = [part.tolist() for part in np.array_split(visits, rng.integers(1, 6))]
    routes, _ = repair_routes(instance, start)
    result = solve(instance, FEW, start=start)
    assert result.verdict.feasible
    before = judge(instance, Solution(routes)).cost
    assert result.verdict.cost <= before * (1 + 1e-12)
    assert f"warm start: cost {before:.8g}" in result.notes[0]


def test_a_good_start_is_kept() -> None:
    """Feasible routes go in as given, and a weak method does not lose them."""
    instance = day(1)
    good = solve(instance, SolveOptions(iterations=30))
    again = solve(
        instance,
        SolveOptions(method="sweep", iterations=1, polish=False),
        start=good.solution.routes,
    )
    assert again.verdict.cost <= good.verdict.cost
    assert again.notes[0].endswith("as given")


def test_a_start_that_cannot_be_repaired_is_left_out() -> None:
    """Under a fleet limit a hopeless start is named, and the answer comes anyway."""
    demands = np.array([0, 6, 6, 4, 4, 5, 5])
    points = np.random.default_rng(0).random((7, 2))
    instance = Instance(demands, 10, coords=points, vehicles=3)
    result = solve(instance, FEW, start=[[3, 4], [1], [2]])
    assert result.verdict.feasible
    assert "could not be repaired" in result.notes[0]


def test_repair_after_the_deadline_is_quick_and_feasible() -> None:
    """Thousands of missing customers do not break a time limit."""
    rng = np.random.default_rng(0)
    n = 4000
    demands = np.concatenate([[0], rng.integers(1, 10, n)])
    instance = Instance(demands, 50, coords=rng.random((n + 1, 2)))
    everybody = [list(range(1, n // 2))]  # one route, far too full; half are missing
    start = time.perf_counter()
    routes, report = repair_routes(instance, everybody, Deadline.after(0.0))
    assert time.perf_counter() - start < 10.0  # a guard; measured: 0.6 s
    assert judge(instance, Solution(routes)).feasible
    assert report.added == n - n // 2 + 1


def test_yesterday_by_ids(tmp_path: Path, capsys: Capture) -> None:
    """A JSON answer of another day is matched by ids; strangers are counted."""
    write_instance(tmp_path / "old.json", day(2))
    write_instance(tmp_path / "new.json", day(3))
    old, new = (str(tmp_path / name) for name in ("old.json", "new.json"))
    answer = str(tmp_path / "answer.json")
    quick = ["--iterations", "3", "--no-polish"]
    assert main(["solve", old, "--out", answer, *quick]) == 0
    capsys.readouterr()
    assert main(["solve", new, "--warm-start", answer, "--json", *quick]) == 0
    note = json.loads(capsys.readouterr().out)["notes"][0]
    common = set(day(2).ids[1:]) & set(day(3).ids[1:])
    gone = 40 - len(common)
    assert f"{gone} unknown and 0 repeated visits removed" in note
    assert f"{gone} missing ones added" in note


def test_warm_start_needs_one_instance(tmp_path: Path, capsys: Capture) -> None:
    """Two instances, or a start that is no solution, end with one clear line each."""
    for index in (0, 1):
        write_instance(tmp_path / f"{index}.json", day(index))
    files = [str(tmp_path / f"{index}.json") for index in (0, 1)]
    (tmp_path / "s.sol").write_text("Route #1: 1 2 3\n")
    assert main(["solve", *files, "--warm-start", str(tmp_path / "s.sol")]) == 2
    assert "go with one instance" in capsys.readouterr().err
    assert main(["solve", files[0], "--warm-start", files[1]]) == 2
    err = capsys.readouterr().err
    assert "E811" in err
    assert "1.json" in err


def test_json_lines(tmp_path: Path, capsys: Capture) -> None:
    """Costs fall line by line, and the last line is the whole result."""
    write_instance(tmp_path / "day.json", day(5))
    file = str(tmp_path / "day.json")
    assert main(["solve", file, "--json-lines", "--iterations", "8"]) == 0
    *steps, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert {"seconds", "cost", "routes", "method"} <= set(steps[0])
    assert all(step["event"] == "improvement" for step in steps)
    costs = [step["cost"] for step in steps]
    assert costs == sorted(costs, reverse=True)
    seconds = [step["seconds"] for step in steps]
    assert seconds == sorted(seconds)
    assert last["event"] == "result"
    assert last["cost"] == pytest.approx(costs[-1])
    assert len(last["routes"]) == steps[-1]["routes"]
    (tmp_path / "bad.json").write_text("{")
    bad = str(tmp_path / "bad.json")
    assert main(["solve", bad, "--json-lines"]) == 2
    assert json.loads(capsys.readouterr().out)["event"] == "error"
    assert main(["solve", file, "--json", "--json-lines"]) == 2
