"""The experts: whatever goes in, a judged solution or one sentence comes out."""

from __future__ import annotations

import importlib.util
import os
import signal
from collections.abc import Callable

import numpy as np
import pytest

from clusterfirst.learning.experts import expert as asking
from clusterfirst.learning.experts.expert import ExpertSettings
from clusterfirst.learning.experts.hgs import HGS
from clusterfirst.learning.experts.pyvrp_expert import PYVRP
from clusterfirst.problem.errors import InfeasibleError, InputError, NotFoundInTimeError
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.machine import usable_cores
from clusterfirst.problem.sampling import sample_world
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.solving.child import guarded_call

needs_hygese = pytest.mark.skipif(
    importlib.util.find_spec("hygese") is None, reason="the extra `labels` is missing"
)
EXPERTS = [
    pytest.param(HGS.solve, marks=needs_hygese),
    pytest.param(
        PYVRP.solve,
        marks=pytest.mark.skipif(
            importlib.util.find_spec("pyvrp") is None,
            reason="the extra `bench` is missing",
        ),
    ),
]
Expert = Callable[[Instance, ExpertSettings], Solution]
QUICK = ExpertSettings(iterations=300)  # experts need some to meet the capacity


def _instance(n: int, **changes: object) -> Instance:
    rng = np.random.default_rng(n)
    demands = np.concatenate([[0], rng.integers(1, 10, n)])
    whole: dict[str, object] = {
        "demands": demands,
        "capacity": 20,
        "coords": rng.random((n + 1, 2)),
    }
    return Instance(**(whole | changes))  # type: ignore[arg-type]


def _odd_instances() -> dict[str, Instance]:
    same = np.zeros((9, 2))
    coords = np.random.default_rng(1).random((9, 2))
    matrix = _instance(8).distances.copy()
    big = np.array([0, *[75] * 8])
    return {
        "no customer": _instance(0),
        "one customer": _instance(1),
        "two customers": _instance(2),
        "two that do not fit": _instance(2, demands=[0, 12, 12]),
        "all in one place": _instance(8, coords=same),
        "far below zero": _instance(8, coords=coords * 1e9 - 5e8),
        "tiny": _instance(8, coords=coords * 1e-7),
        "no demand at all": _instance(8, demands=np.zeros(9)),
        "bulky demands": _instance(8, demands=big, capacity=100),
        "huge demands": _instance(8, demands=big * 10**9, capacity=150 * 10**9),
        "decimals": _instance(8, demands=[0, *[0.000001] * 8], capacity=0.000003),
        "a matrix": _instance(8, coords=None, matrix=matrix, metric="matrix"),
        "degrees": _instance(8, coords=coords * 0.1 + [13, 52], metric="greatcircle"),
        "a huge vehicle": _instance(8, capacity=10**15),
        "rounded": _instance(8, coords=coords * 1000, rounding="round"),
        "a tight fleet": _instance(8, demands=[0, *[5] * 8], vehicles=2),
    }


@pytest.mark.parametrize("expert", EXPERTS)
@pytest.mark.parametrize("kind", _odd_instances())
def test_odd_instances_are_solved(expert: Expert, kind: str) -> None:
    """Instances that make hygese hang, crash or lie get a feasible solution."""
    instance = _odd_instances()[kind]
    solution = expert(instance, QUICK)
    assert judge(instance, solution).feasible
    assert solution == solution.canonical()


@pytest.mark.parametrize("expert", EXPERTS)
def test_impossible_instances_are_named(expert: Expert) -> None:
    """A demand above the capacity is infeasible; a packing not found is said so."""
    with pytest.raises(InfeasibleError, match="E201"):
        expert(_instance(5, demands=[0, 1, 2, 3, 4, 21]), QUICK)
    thirds = _instance(5, demands=[0, *[12] * 5], vehicles=4)
    with pytest.raises(NotFoundInTimeError, match="no feasible solution"):
        expert(thirds, QUICK)


@needs_hygese
def test_iterations_give_the_same_answer_in_any_unit() -> None:
    """Same seed and iterations, same routes; also after scaling by 2**k."""
    instance = sample_world(40, seed=3, index=1)
    assert instance.coords is not None
    first = HGS.solve(instance, QUICK)
    assert HGS.solve(instance, QUICK) == first
    larger = instance.replace(coords=instance.coords * 1024)
    assert HGS.solve(larger, QUICK) == first


def _crash(_: object) -> list[list[int]]:
    os.kill(os.getpid(), signal.SIGSEGV)
    return []


def _lie(_: object) -> list[list[int]]:
    return [[1, 2, 3]]


@needs_hygese
@pytest.mark.parametrize(
    ("run", "reason"), [(_crash, "SIGSEGV"), (_lie, "no valid solution")]
)
def test_a_crash_or_a_lie_is_a_reason(
    monkeypatch: pytest.MonkeyPatch, run: Callable[..., object], reason: str
) -> None:
    """Crashes and invalid answers, tried twice, end in a sentence."""
    tries: list[object] = []

    def counted(function: object, argument: object, patience: float) -> object:
        tries.append(function)
        return guarded_call(run, argument, patience)

    monkeypatch.setattr(asking, "guarded_call", counted)
    with pytest.raises(NotFoundInTimeError, match=reason):
        HGS.solve(_instance(9), QUICK)
    assert len(tries) == 2


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"seconds": 1, "iterations": 1},
        {"seconds": 0},
        {"seconds": float("nan")},
        {"iterations": -5},
        {"seconds": 1, "seed": -1},
    ],
)
def test_wrong_settings_are_named(options: dict[str, float]) -> None:
    """Exactly one positive budget and a C-sized seed are needed."""
    with pytest.raises(InputError, match="E423"):
        ExpertSettings(**options)  # type: ignore[arg-type]


def test_a_busy_machine_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock runs on while others have the cores; idle ones change nothing."""
    settings, cores = ExpertSettings(seconds=0.2), len(usable_cores())
    waits = []
    for load in (0.0, cores, 10 * cores):
        monkeypatch.setattr(
            "os.getloadavg", lambda load=load: (load, 0.0, 0.0), raising=False
        )
        waits.append(settings.patience(100))
    assert waits == [32.0, 32.0, 320.0]
    monkeypatch.delattr("os.getloadavg")
    assert settings.patience(100) == 32.0


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without hygese or PyVRP the sentence says what to install."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"clusterfirst\[labels\]"):
        HGS.solve(_instance(3), QUICK)
    with pytest.raises(InputError, match=r"clusterfirst\[bench\]"):
        PYVRP.solve(_instance(3), QUICK)
