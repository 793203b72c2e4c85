"""solve: judged answers, exact limits, repeatable counts, and Ctrl-C."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.errors import InfeasibleError, InputError, NotFoundInTimeError
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.solving import decoding, solver
from clusterfirst.solving.decoding import decode
from clusterfirst.solving.options import DecodingSettings
from clusterfirst.solving.solver import (
    Result,
    SolveOptions,
    default_time_limit,
    solve,
    warm_up,
)
from clusterfirst.stages.assignment.problem import Assignment, Status
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.scores import Scores
from clusterfirst.stages.search_state import SearchState

CLASSICAL = ("fisher-jaikumar", "petal", "savings", "sweep")
FEW = SolveOptions(iterations=3)


def town(n: int = 50, **more: object) -> Instance:
    """A day in the unit square."""
    rng = np.random.default_rng(n)
    demands = np.concatenate([[0], rng.integers(1, 10, n)])
    return Instance(demands, 50, coords=rng.random((n + 1, 2)), **more)  # type: ignore[arg-type]  # test helper


def best_cost(instance: Instance) -> float:
    """Optimal cost by trying every partition (n <= 5)."""
    n = instance.num_customers
    best = np.inf
    for order in itertools.permutations(range(1, n + 1)):
        for cuts in itertools.product([0, 1], repeat=n - 1):
            routes = [[order[0]]]
            for c, cut in zip(order[1:], cuts, strict=True):
                routes = [*routes, [c]] if cut else [*routes[:-1], [*routes[-1], c]]
            verdict = judge(instance, Solution(routes))
            if verdict.feasible:
                best = min(best, verdict.cost)
    return best


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 10)),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from(CLASSICAL),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_tiny_instances_are_feasible_and_bounded(
    rows: list[tuple[int, int, int]], method: str
) -> None:
    """Between the optimum and the star, with ties, duplicates and zero demands."""
    table = np.array([(5, 5, 0), *rows])
    instance = Instance(table[:, 2], 10, coords=table[:, :2].astype(float))
    result = solve(instance, SolveOptions(method=method, iterations=3))
    assert result.verdict.feasible
    star = 2 * instance.distances[0].sum()
    assert best_cost(instance) - 1e-9 <= result.verdict.cost <= star + 1e-9


@pytest.mark.parametrize("method", CLASSICAL)
def test_trivial_instances(method: str) -> None:
    """0, 1 and 2 customers, identical points, zero demands and K = N are answered."""
    options = SolveOptions(method=method, iterations=3)
    one = np.array([[0.0, 0.0], [3.0, 4.0]])
    empty = solve(Instance(np.zeros(1), 1, coords=one[:1]), options)
    assert empty.solution.routes == ()
    assert empty.verdict.cost == 0
    assert solve(Instance(np.array([0, 1]), 1, coords=one), options).verdict.cost == 10
    two = Instance(np.array([0, 1, 1]), 1, coords=np.array([*one, (0, 1)]))
    assert solve(two, options).verdict.cost == 12
    same = Instance(np.array([0] + [1] * 6), 2, coords=np.ones((7, 2)))
    assert solve(same, options).verdict.cost == 0
    idle = Instance(np.zeros(9), 5, coords=np.random.default_rng(0).random((9, 2)))
    assert len(solve(idle, options).solution.routes) >= 1
    alone = Instance(np.array([0] + [6] * 8), 10, coords=idle.coords)
    assert len(solve(alone, options).solution.routes) == 8


@pytest.mark.parametrize("method", CLASSICAL)
def test_counts_are_repeatable(method: str) -> None:
    """The same seed and iterations give the same routes and the same JSON."""
    options = SolveOptions(method=method, iterations=4, seed=5)
    first, second = (solve(town(), options).as_dict() for _ in range(2))
    first.pop("seconds"), second.pop("seconds")
    assert json.dumps(first) == json.dumps(second)


@pytest.mark.parametrize("assign", ["exact", "sparse", "fast"])
def test_every_assignment_works_without_a_network(assign: str) -> None:
    """Exact and sparse decodings are repeatable by node counts too."""
    options = SolveOptions(assign=assign, iterations=2)
    first, second = (solve(town(30), options) for _ in range(2))
    assert first.verdict.feasible
    assert first.solution == second.solution


def test_hard_assignment_needs_a_plan() -> None:
    """Fisher-Jaikumar has no transport plan, and says so."""
    with pytest.raises(InputError, match="transport plan"):
        solve(town(10), SolveOptions(assign="hard", iterations=1))


def test_plans_on_candidates_reach_the_hard_assignment() -> None:
    """Scores with a (n, K) plan and candidate lists decode by every assignment."""
    instance = town(30)
    seeds = np.array([1, 8, 15, 22])
    cost = instance.distances[1:, seeds]
    near = np.argsort(cost, axis=1)[:, :3]
    plan = np.exp(-20 * cost)
    plan /= plan.sum(axis=1, keepdims=True)
    scores = Scores(seeds, np.take_along_axis(cost, near, axis=1), near, plan)
    for assign in ("exact", "sparse", "hard", "fast"):
        state = SearchState(instance, Deadline.never(), iterations=1)
        found = decode(state, scores, DecodingSettings(assign))
        assert found is not None
        assert state.best is not None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("time_limit", -1.0),
        ("time_limit", 0.0),
        ("time_limit", float("nan")),
        ("time_limit", 1e9),
        ("iterations", 0),
        ("seed", 2**70),
        ("seed", -1),
        ("method", "magic"),
        ("assign", "guess"),
        ("fleet", "huge"),
    ],
)
def test_bad_options_are_refused(field: str, value: object) -> None:
    """Each wrong option is named with what was found."""
    with pytest.raises(InputError, match=field):
        SolveOptions(**{field: value})  # type: ignore[arg-type]  # wrong on purpose


def test_infeasible_is_proven_in_words() -> None:
    """Too large a customer, too small a fleet, and bin packing have their codes."""
    points = np.random.default_rng(0).random((4, 2))
    with pytest.raises(InfeasibleError, match="E201"):
        solve(Instance(np.array([0, 60, 1, 1]), 50, coords=points))
    with pytest.raises(InfeasibleError, match="E202"):
        solve(Instance(np.array([0, 40, 40, 40]), 50, coords=points, vehicles=2))
    with pytest.raises(InfeasibleError, match="E203"):
        solve(Instance(np.array([0, 26, 26, 26]), 50, coords=points, vehicles=2), FEW)


def test_not_found_is_not_called_infeasible(monkeypatch: pytest.MonkeyPatch) -> None:
    """If neither packing nor method finds routes, the error says not found."""
    warm_up()
    monkeypatch.setattr(solver, "some_packing", lambda *_: None)
    monkeypatch.setattr(solver, "run_method", lambda *_: None)
    rng = np.random.default_rng(0)
    # Next fit by angle needs more than the fewest vehicles here.
    demands = np.array([0, 6, 5, 4, 5, 6, 4])
    instance = Instance(demands, 10, coords=rng.random((7, 2)), vehicles=3)
    with pytest.raises(NotFoundInTimeError, match="E204"):
        solve(instance, SolveOptions(iterations=3, polish=False))


def test_a_failing_assignment_is_repaired_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When no assignment is found, a repair with more vehicles answers instead."""
    warm_up()

    def nothing(problem, *_):  # type: ignore[no-untyped-def]  # injected
        nobody = np.full(len(problem.demands), -1)
        return Assignment(nobody, np.inf, Status.NOT_FOUND, np.inf)

    monkeypatch.setattr(decoding, "assign", nothing)
    result = solve(town(), FEW)
    assert result.verdict.feasible
    assert result.details["fallbacks"] == 3


def test_a_wrong_answer_never_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a method breaks the rules, a safe answer and a note come out."""

    def forgetful(state: SearchState, *_: object) -> None:
        state.best, state.best_cost = Routes.of([[1, 2]]), 0.0

    warm_up()
    monkeypatch.setattr(solver, "run_method", forgetful)
    result = solve(town(), FEW)
    assert result.verdict.feasible
    assert any("please report" in note for note in result.notes)


def test_interrupt_returns_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C after a first answer returns it, marked; before one it is passed on."""
    warm_up()
    calls = []

    def stop(cost: float, routes: object) -> None:
        calls.append(cost)
        raise KeyboardInterrupt

    result = solve(town(), FEW, on_improvement=stop)
    assert result.interrupted
    assert result.verdict.feasible
    assert result.verdict.cost == pytest.approx(calls[0])
    assert "interrupted" in result.status

    def at_once(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(solver, "run_method", at_once)
    with pytest.raises(KeyboardInterrupt):
        solve(town(), FEW)


def test_improvements_are_reported_in_order() -> None:
    """The callback sees falling costs that end at the answer's."""
    seen: list[float] = []
    result = solve(
        town(), SolveOptions(iterations=10), on_improvement=lambda c, _: seen.append(c)
    )
    assert seen == sorted(seen, reverse=True)
    assert seen[-1] == pytest.approx(result.verdict.cost)


def test_savings_are_told_before_a_method_that_takes_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Somebody may look at them; what is told falls, and Ctrl-C gives no less."""
    day, run_method = town(300), solver.run_method
    costs: list[float] = []

    def worse(state: SearchState, method: str, options: object = None) -> None:
        if method == "savings":
            run_method(state, method)
            return
        assert len(costs) == 1
        state.offer(Routes.of([[c] for c in range(1, 301)]))
        raise KeyboardInterrupt

    monkeypatch.setattr(solver, "run_method", worse)
    result = solve(day, FEW, on_improvement=lambda cost, _: costs.append(cost))
    assert result.interrupted
    assert len(costs) == 1
    assert result.verdict.cost == pytest.approx(costs[0])


def test_the_result_says_everything() -> None:
    """The JSON document holds routes by id, loads, cost, status and versions."""
    names = ("hub", *(f"c{i}" for i in range(1, 51)))
    result: Result = solve(town(ids=names), FEW)
    document = json.loads(json.dumps(result.as_dict()))
    assert sorted(c for route in document["routes"] for c in route) == sorted(names[1:])
    assert document["cost"] == result.verdict.cost
    assert len(document["loads"]) == len(document["routes"])
    assert document["method"] == "fisher-jaikumar+polish"
    assert {"start-up", "judge", "assign", "tours"} <= set(document["seconds"])
    assert {"python", "numpy"} <= set(document["versions"])


def test_default_time_limits() -> None:
    """One second, and a millisecond per customer above 1000."""
    assert default_time_limit(10) == 1.0
    assert default_time_limit(5000) == 5.0
    assert solve(town(20), SolveOptions(time_limit=0.2)).verdict.feasible


def test_great_circle_instances_are_solved() -> None:
    """Degrees work like any other map."""
    rng = np.random.default_rng(1)
    places = np.array([-48.5, -1.45]) + 0.1 * rng.random((31, 2))
    demands = np.concatenate([[0], rng.integers(1, 10, 30)])
    instance = Instance(demands, 50, coords=places, metric="greatcircle")
    for method in CLASSICAL:
        assert solve(
            instance, SolveOptions(method=method, iterations=2)
        ).verdict.feasible


SIGNATURES = """
import sys
import numpy as np
from numba.core.dispatcher import Dispatcher
from clusterfirst.problem.instance import Instance
from clusterfirst.solving.solver import SolveOptions, solve, warm_up

def compiled():
    return {
        (name, key, str(signature))
        for name, module in list(sys.modules.items()) if name.startswith("clusterfirst")
        for key, value in vars(module).items() if isinstance(value, Dispatcher)
        for signature in value.signatures
    }

warm_up()
before = compiled()
rng = np.random.default_rng(0)
for n, fleet in ((20, None), (200, 0), (400, 1), (1200, None)):
    demands = np.concatenate([[0], rng.integers(1, 10, n)])
    vehicles = None if fleet is None else -(-int(demands.sum()) // 50) + fleet
    town = Instance(demands, 50, coords=rng.random((n + 1, 2)), vehicles=vehicles)
    for assign in ("fast", "exact"):
        solve(town, SolveOptions(time_limit=0.3, assign=assign))
print(sorted(compiled() - before))
"""


def test_the_start_up_compiles_everything() -> None:
    """No kernel is compiled inside the time limit, whatever path a solve takes."""
    command = [sys.executable, "-c", SIGNATURES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("seed", range(6))
def test_few_customers_are_solved_exactly_and_at_once(seed: int) -> None:
    """Up to 8 customers the answer is brute force's, said in the status."""
    rng = np.random.default_rng(seed)
    n = 2 + seed % 4
    demands = np.concatenate([[0], rng.integers(0, 11, n)])
    tiny = Instance(demands, 12, coords=rng.random((n + 1, 2)))
    result = solve(tiny, SolveOptions(time_limit=60.0))
    assert result.verdict.cost == pytest.approx(best_cost(tiny))
    assert result.status == "optimal: every split was tried"
    assert "polish" not in result.seconds
    least = len(result.solution.routes)
    limited = solve(tiny.replace(vehicles=least), SolveOptions(time_limit=60.0))
    assert limited.verdict.cost == pytest.approx(result.verdict.cost)


def test_proofs_beyond_few_customers() -> None:
    """One vehicle for all, and one customer each, end at once; rounding does not."""
    rng = np.random.default_rng(1)
    coords = rng.random((13, 2)) * 100
    alone = Instance(np.array([0] + [6] * 12), 10, coords=coords)
    result = solve(alone, SolveOptions(time_limit=60.0))
    assert result.status.startswith("optimal: no two customers")
    assert len(result.solution.routes) == 12
    one = Instance(np.array([0] + [1] * 12), 12, coords=coords)
    result = solve(one, SolveOptions(time_limit=60.0))
    assert result.status.startswith("optimal: one vehicle")
    searched = solve(one, SolveOptions(iterations=500, polish=False))
    assert result.verdict.cost <= searched.verdict.cost + 1e-9
    assert searched.status.startswith("feasible")
    rounded = solve(one.replace(rounding="round"), SolveOptions(iterations=500))
    assert rounded.status.startswith("feasible")


@pytest.mark.parametrize(
    ("units", "vehicles", "options", "expected"),
    [
        (200, None, SolveOptions(), [4, 5, 6]),  # full vehicles
        (198, None, SolveOptions(), [4, 5, 6]),
        (196, None, SolveOptions(), [4, 5]),  # 98 % full
        (200, None, SolveOptions(fleet="kmin"), [4]),
        (200, None, SolveOptions(assign="exact"), [4, 5]),  # as the paper has it
        (200, 5, SolveOptions(), [4, 5]),
        (200, 4, SolveOptions(), [4]),
        (9950, None, SolveOptions(), [199, 200, 201]),
        (10_000, None, SolveOptions(), [200]),  # one more makes no difference
        (10_000, None, SolveOptions(assign="exact"), [200, 201]),
        (2460, None, SolveOptions(), [50, 51]),  # 98.4 % full
    ],
)
def test_fleet_sizes(
    units: int, vehicles: int | None, options: SolveOptions, expected: list[int]
) -> None:
    """K_min, for "best" one more, and two more where vehicles are nearly full."""
    demands = np.concatenate([[0], np.ones(units)])
    coords = np.random.default_rng(0).random((units + 1, 2))
    day = Instance(demands, 50, coords=coords, vehicles=vehicles)
    assert decoding.fleets(day, options.decoding) == expected


def test_iterations_tell_how_far_they_are() -> None:
    """Each stage counts up to all of its iterations, and `solve` ends (B9)."""
    seen: dict[str, list[float]] = {}
    day = town(60)
    solve(
        day,
        SolveOptions("fisher-jaikumar", iterations=300),
        on_progress=lambda stage, done: seen.setdefault(stage, []).append(done),
    )
    for stage in ("method", "polish"):
        assert seen[stage] == sorted(seen[stage])
        assert seen[stage][-1] == 1.0


@pytest.mark.parametrize(
    ("iterations", "polish", "rounds"),
    [(4, True, 4), (2000, True, 10), (30, False, 30)],
)
def test_by_counts_the_polish_gets_them_and_the_method_a_few_rounds(
    iterations: int, polish: bool, rounds: int
) -> None:
    """A round of Fisher-Jaikumar costs as much as thousands of iterations after it."""
    done: list[tuple[str, float]] = []
    solve(
        town(30),
        SolveOptions("fisher-jaikumar", iterations=iterations, polish=polish),
        on_progress=lambda stage, share: done.append((stage, share)),
    )
    assert [stage for stage, _ in done].count("method") == rounds
    assert done[-1] == ("polish" if polish else "method", 1.0)
