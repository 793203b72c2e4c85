"""Answers where a method has none of its own in time, and its own where it has one."""

from __future__ import annotations

import pytest

from clusterfirst.evidence.bench import run as bench_run
from clusterfirst.solving import solver
from clusterfirst.solving.options import METHODS, Kind, Method
from clusterfirst.solving.solver import SolveOptions, solve
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.search_state import SearchState
from test_solver import town


@pytest.mark.parametrize("polish", [True, False])
def test_savings_answer_where_a_method_had_no_time(
    polish: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On large days savings answer instead, a note says so, and a bench says no."""
    day = town(solver.SAFE_FIRST)
    savings = solve(day, SolveOptions(method="savings", polish=False, iterations=1))
    monkeypatch.setitem(METHODS, "sweep", by_hand("no_answer"))
    name = "sweep+polish" if polish else "sweep"
    options = SolveOptions(method="sweep", polish=polish, iterations=1)
    result = solve(day, options)
    assert result.verdict.cost <= savings.verdict.cost
    assert any("W205" in note and "savings" in note for note in result.notes)
    assert "not the answer of sweep" in result.status  # the last line of all (B13)
    found = bench_run.answer(bench_run.Run(day, name, 2.0, seed=0))
    assert "W205" in found.reason
    assert (found.routes is not None) == polish


def by_hand(function: str) -> Method:
    """An entry for one of the methods below."""
    return Method(f"test_safe_start:{function}", Kind.ROUTES)


def no_answer(state: SearchState) -> None:
    """A method that has run out of time."""


def everyone_alone(state: SearchState) -> None:
    """A method whose answer is worse than any safe one."""
    state.offer(Routes.of([i] for i in range(1, state.instance.num_customers + 1)))


def interrupted_early(state: SearchState) -> None:
    """Ctrl-C before the method has anything."""
    raise KeyboardInterrupt


def test_the_answer_of_a_method_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shorter safe start is no answer of the method; with polish it is a start."""
    day = town(solver.SAFE_FIRST)
    monkeypatch.setitem(METHODS, "sweep", by_hand("everyone_alone"))
    options = SolveOptions(method="sweep", polish=False, iterations=1)
    result = solve(day, options)
    assert len(result.solution.routes) == day.num_customers
    polished = solve(day, SolveOptions(method="sweep", iterations=1))
    assert len(polished.solution.routes) < day.num_customers
    assert not any("W205" in note for note in [*result.notes, *polished.notes])


def test_interrupt_before_the_method_has_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a large day there is an answer all the same."""
    monkeypatch.setitem(METHODS, "sweep", by_hand("interrupted_early"))
    result = solve(town(solver.SAFE_FIRST), SolveOptions(method="sweep", iterations=1))
    assert result.interrupted
    assert result.verdict.feasible
    assert any("W205" in note for note in result.notes)


def test_a_limit_too_short_for_the_size_is_one_warning() -> None:
    """Below the least limit `solve` says so, once, and not W205 as well (A4)."""
    day = town(3000)
    result = solve(day, SolveOptions(time_limit=0.05))
    assert result.verdict.feasible
    assert solver.least_time_limit(day.num_customers) == pytest.approx(0.12)
    assert [note[:4] for note in result.notes if note[:2] == "W2"] == ["W206"]
