"""solve_many: the answers of single calls, in order, whatever else is in the input."""

from __future__ import annotations

import numpy as np
import pytest

import clusterfirst
from clusterfirst.files import bundled_city
from clusterfirst.problem.errors import InfeasibleError, InputError
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.sampling import sample_day
from clusterfirst.solving import many
from clusterfirst.solving.many import solve_many
from clusterfirst.solving.solver import Result, SolveOptions, solve

MODEL = "city-psi-one-layer"
# Counts, not the clock: a busy machine must not change the answers.
SEARCH_FREE = SolveOptions(
    "neural", model=MODEL, polish=False, iterations=2, recentre=0
)


def days(sizes: list[int]) -> list[Instance]:
    city = bundled_city()
    return [sample_day(city, n, seed=31, index=i) for i, n in enumerate(sizes)]


@pytest.mark.parametrize(
    ("fleet", "recentre"), [("kmin", 0), ("best", 0), ("kmin", 1), ("best", 2)]
)
def test_many_equal_single_calls(
    fleet: str, recentre: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Instances side by side get the routes of `solve`, in order."""
    monkeypatch.setattr(many, "AHEAD", 2)
    options = SolveOptions(
        "neural",
        model=MODEL,
        polish=False,
        iterations=6,
        fleet=fleet,
        recentre=recentre,
    )
    given = days([40, 70, 7, 40, 1, 40, 70, 70, 40, 0, 40, 70])
    found = list(solve_many(iter(given), options))
    assert len(found) == len(given)
    for day, answer in zip(given, found, strict=True):
        assert isinstance(answer, Result)
        assert answer.instance is day
        assert answer.verdict.feasible
        alone = solve(day, options)
        assert answer.solution == alone.solution
        assert answer.verdict.cost == alone.verdict.cost


def test_a_bad_instance_stands_for_itself() -> None:
    """Unknown places, no coordinates and too large a customer are errors in place."""
    good = days([30, 20])
    away = Instance(
        np.array([0, 1, 2]), 10, coords=np.array([[9.0, 9], [8, 8], [7, 7]])
    )
    square = 1.0 - np.eye(3)
    bare = Instance(np.array([0, 1, 2]), 10, matrix=square, metric="matrix")
    heavy = good[0].replace(demands=np.concatenate([[0], [99], [1] * 29]))
    found = list(solve_many([good[0], away, bare, heavy, good[1]], SEARCH_FREE))
    assert [type(answer) for answer in found[1:4]] == [
        InputError,
        InputError,
        InfeasibleError,
    ]
    for day, answer in ((good[0], found[0]), (good[1], found[4])):
        assert isinstance(answer, Result)
        assert answer.solution == solve(day, SEARCH_FREE).solution


def test_other_methods_run_one_by_one() -> None:
    """Whatever polishes or has no network gives the answers of `solve` too."""
    given = days([20, 25])
    options = SolveOptions(iterations=20)
    found = list(clusterfirst.solve_many(given, options))
    for day, answer in zip(given, found, strict=True):
        assert isinstance(answer, Result)
        assert answer.solution == solve(day, options).solution


def test_leaving_early_ends_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller who stops after the first answer waits for no other."""
    monkeypatch.setattr(many, "AHEAD", 1)
    taken: list[int] = []

    def endless():  # type: ignore[no-untyped-def]  # test helper
        for index in range(1000):
            taken.append(index)
            yield days([10])[0]

    answers = solve_many(endless(), SEARCH_FREE)
    assert isinstance(next(answers), Result)
    answers.close()  # type: ignore[attr-defined]  # a generator
    assert len(taken) <= 3


def test_time_limits_are_each_instance_s_own() -> None:
    """With a clock, nobody in a batch waits on somebody else's time."""
    options = SolveOptions("neural", model=MODEL, polish=False, time_limit=20.0)
    given = days([40] * 5)
    for day, answer in zip(given, solve_many(given, options), strict=True):
        assert isinstance(answer, Result)
        assert answer.solution == solve(day, options).solution
        assert {"encode", "scores", "assign", "tours"} <= set(answer.seconds)
