"""Every script of the campaign runs, goes on where it stopped, finds what it must."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "campaign"))
import page
import record
from checker import Day, faults

DAY = Day([0, "0.1", "0.2", "0.3"], "0.3", points=[(0, 0), (3, 4), (0, 1), (1, 0)])
ROUTES = [[1, 2], [3]]
COST = 5 + 18**0.5 + 1 + 2


def script(name: str) -> ModuleType:
    """A script of the campaign as a module; benchmarks have one called answers too."""
    path = record.ROOT / "campaign" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"campaign_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_second_checker_agrees_with_arithmetic() -> None:
    """A right answer has no faults: 0.1 + 0.2 is 0.3, as people mean it."""
    assert faults(DAY, ROUTES, COST) == []


@pytest.mark.parametrize(
    ("routes", "cost", "vehicles"),
    [
        ([[1, 2]], COST, None),
        ([[1, 2], [3], [3]], COST, None),
        ([[1, 2, 3]], COST, None),
        ([[1, 3], [2]], COST, None),
        (ROUTES, COST * (1 + 1e-7), None),
        (ROUTES, COST, 1),
        ([[1, 2], [3], []], COST, None),
    ],
)
def test_the_second_checker_finds_every_fault(
    routes: list[list[int]], cost: float, vehicles: int | None
) -> None:
    """Missing, double, overloaded, over the fleet, wrong cost, empty: all named."""
    day = Day(DAY.demands, DAY.capacity, DAY.points, vehicles=vehicles)
    assert faults(day, routes, cost)


@pytest.mark.parametrize(
    ("rounding", "twice"),
    [("round", 4), ("trunc", 2), ("dimacs", 34), ("exact", 3464)],
)
def test_the_second_checker_rounds_as_it_says(rounding: str, twice: int) -> None:
    """The root of three (1.7320508), there and back: every rounding by hand."""
    day = Day([0, 1], 1, points=[(0, 0), (1, 2**0.5)], rounding=rounding)
    assert not faults(day, [[1]], twice)
    assert faults(day, [[1]], twice + 1)


def test_cases_go_on_where_they_stopped(tmp_path: Path) -> None:
    """Counts add up over calls; failures are kept, run again, and leave when mended."""
    broken = {3}
    seen: list[int] = []

    def case(number: int, notes: record.Notes) -> None:
        seen.append(number)
        notes.count("tried")
        notes.value("number", number)
        if number in broken:
            raise ValueError("broken")

    promise = record.Promise("try", "It holds.", 10, case)
    assert record.main(promise, ["--count", "2", "--results", str(tmp_path)]) == 0
    assert record.main(promise, ["--count", "4", "--results", str(tmp_path)]) == 1
    assert seen == [0, 1, 2, 3, 4, 5]
    held = json.loads((tmp_path / "try.json").read_text())
    assert (held["done"], held["failed"]) == (6, 1)
    assert held["failures"][0]["case"] == 3
    assert held["counts"] == {"tried": 6}
    assert (held["slices"][0]["from"], held["slices"][-1]["to"]) == (0, 6)
    broken.clear()
    assert record.main(promise, ["--again", "--results", str(tmp_path)]) == 0
    assert seen[-1] == 3
    assert record.main(promise, ["--results", str(tmp_path)]) == 0
    assert json.loads((tmp_path / "try.json").read_text())["done"] == 10


def test_a_failed_case_stays_on_record_until_it_has_been_run_again(
    tmp_path: Path,
) -> None:
    """A rerun that is stopped loses no failure; what only it brought is counted."""
    broken = {1, 2}

    def case(number: int, notes: record.Notes) -> None:
        if number in broken:
            raise ValueError("broken")
        notes.count("held")

    def run(*words: str) -> dict[str, Any]:
        record.main(promise, [*words, "--results", str(tmp_path)])
        held: dict[str, Any] = json.loads((tmp_path / "try.json").read_text())
        return held

    promise = record.Promise("try", "It holds.", 4, case)
    run()
    broken.clear()
    held = run("--again", "--seconds", "0")  # stopped before its first case
    assert [failure["case"] for failure in held["failures"]] == [1, 2]
    held = run("--again")
    assert held["failures"] == []
    assert held["counts"] == {"held": 4}
    (tmp_path / "answers.json").write_bytes((tmp_path / "try.json").read_bytes())
    shown = page.page(tmp_path)
    assert "2 failed when first run; 0 still do (run again: 1, 2)." in shown
    assert "held 4 (2 only when run again)" in shown
    held = run("--repeat", "3")  # beside the record, not in it
    assert held["counts"] == {"held": 4}
    assert (held["repeated"][0]["cases"], held["repeated"][0]["counts"]) == (
        3,
        {"held": 3},
    )


def test_a_hang_is_a_finding(tmp_path: Path) -> None:
    """A case that does not end is ended, and counted as a failure."""

    def case(number: int, notes: record.Notes) -> None:
        while True:
            pass

    promise = record.Promise("try", "It ends.", 1, case, seconds=0.2)
    assert record.main(promise, ["--results", str(tmp_path)]) == 1


@pytest.mark.parametrize(
    ("name", "count"),
    [("answers", 25), ("files", 60), ("models", 20), ("symmetries", 2)],
)
def test_small_counts_hold(name: str, count: int, tmp_path: Path) -> None:
    """A few cases of a promise, here and now."""
    promise = replace(script(name).PROMISE, prepare=None)
    words = ["--count", str(count), "--results", str(tmp_path)]
    assert record.main(promise, words) == 0
    assert json.loads((tmp_path / f"{name}.json").read_text())["done"] == count


def test_a_killed_job_is_whole() -> None:
    """One kill of the quickest job."""
    kills = script("kills")
    notes = record.attempt(kills.PROMISE, kills.JOBS.index("solve"))
    assert notes.failures == []


@pytest.mark.parametrize("name", ["disk_full", "changing", "four_threads", "in_a_loop"])
def test_a_scenario_of_the_rest_holds(name: str, tmp_path: Path) -> None:
    """One of each that takes seconds."""
    notes = record.Notes()
    getattr(script("rest"), name)(tmp_path, notes)
    assert notes.failures == []


def test_a_small_solve_keeps_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The measurement itself runs; without load, on one small day."""
    limits = script("limits")
    monkeypatch.setattr(limits, "load", lambda: [None])
    monkeypatch.setattr(limits, "SIZES", (20,))
    monkeypatch.setattr(limits, "METHODS", ("savings",))
    monkeypatch.setattr(limits, "CROWDED", math.inf)  # whatever runs beside the tests
    notes = record.attempt(limits.PROMISE, 0)
    assert len(notes.values["seconds over the limit"]) == 1


def test_the_page_is_what_is_on_record() -> None:
    """docs/reliability.md is generated: python campaign/page.py."""
    assert page.PAGE.read_text(encoding="utf-8") == page.page(record.RESULTS)


def test_every_script_is_on_the_page() -> None:
    """A promise that is tried is one that is published."""
    for name in page.PROMISES:
        assert script(name).PROMISE.name == name
