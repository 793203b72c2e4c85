"""Capacitated assignment: against brute force, under bad answers, and in time."""

from __future__ import annotations

import itertools
import math
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.errors import (
    InfeasibleError,
    InputError,
    NotFoundInTimeError,
)
from clusterfirst.problem.instance import IntArray
from clusterfirst.stages.assignment import highs as module
from clusterfirst.stages.assignment.assign import assign
from clusterfirst.stages.assignment.highs import (
    Found,
    worthwhile,
)
from clusterfirst.stages.assignment.mip import (
    BinaryProgram,
    Claim,
    MipAnswer,
    MipSettings,
    solve_binary,
)
from clusterfirst.stages.assignment.packing import pack, packing_bound, repair
from clusterfirst.stages.assignment.problem import (
    Assignment,
    AssignProblem,
    AssignSettings,
    Case,
    Status,
)

NEVER = Deadline.never()
TIGHT = AssignSettings(mip_gap=0.0, seconds=math.inf)


@st.composite
def problems(draw: st.DrawFn) -> AssignProblem:
    """Small problems, often tight, sometimes infeasible."""
    n, vehicles = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    demands = draw(st.lists(st.integers(0, 9), min_size=n, max_size=n))
    fewest = -(-sum(demands) // vehicles)
    capacity = draw(st.integers(max(1, fewest - 1), fewest + 4))
    seed = draw(st.integers(0, 1000))
    cost = np.random.default_rng(seed).random((n, vehicles)).round(2)
    return AssignProblem(cost, np.array(demands), capacity, vehicles)


def brute_force(problem: AssignProblem) -> float:
    """Cost of the best assignment by trying all of them; inf if there is none."""
    best, n = math.inf, len(problem.demands)
    for labels in itertools.product(range(problem.vehicles), repeat=n):
        loads = np.bincount(labels, problem.demands, problem.vehicles)
        if (loads <= problem.capacity).all():
            best = min(best, problem.cost[np.arange(n), labels].sum())
    return best


def check(problem: AssignProblem, answer: Assignment) -> None:
    """An assignment is within capacity and costs what it says."""
    loads = np.bincount(answer.labels, problem.demands, problem.vehicles)
    assert (loads <= problem.capacity).all()
    n = len(problem.demands)
    if problem.candidates is None:
        assert answer.cost == pytest.approx(
            problem.cost[np.arange(n), answer.labels].sum()
        )


def geometric(n: int, vehicles: int, seed: int = 0) -> AssignProblem:
    """Distances to random seeds, at 97 % load."""
    rng = np.random.default_rng(seed)
    points, demands = rng.random((n, 2)), rng.integers(1, 10, n)
    seeds = points[rng.choice(n, vehicles, replace=False)]
    cost = np.linalg.norm(points[:, None] - seeds[None], axis=2)
    capacity = int(demands.sum() / vehicles / 0.97) + 1
    return AssignProblem(cost, demands, capacity, vehicles)


@given(problems())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_exact_equals_brute_force(problem: AssignProblem) -> None:
    """The exact decoding is optimal, and says infeasible exactly when it is."""
    answer = assign(problem, "exact", TIGHT, NEVER)
    best = brute_force(problem)
    assert (answer.status is Status.INFEASIBLE) == math.isinf(best)
    if math.isfinite(best):
        check(problem, answer)
        assert answer.status is Status.OPTIMAL
        assert answer.cost == pytest.approx(best, abs=1e-6)


@given(problems())
@settings(max_examples=25, deadline=None, derandomize=True)
def test_every_decoding_is_valid_and_not_below_exact(problem: AssignProblem) -> None:
    """Sparse and hard give valid assignments that cost at least the optimum."""
    plan = np.random.default_rng(0).dirichlet(
        np.ones(problem.vehicles) * 0.1, len(problem.demands)
    )
    best = brute_force(problem)
    for answer in (
        assign(problem, "sparse", TIGHT, NEVER, plan),
        assign(problem, "hard", TIGHT, NEVER, plan),
    ):
        if answer.status in (Status.OPTIMAL, Status.FEASIBLE):
            check(problem, answer)
            assert answer.cost >= best - 1e-9
        elif answer.status is Status.INFEASIBLE:
            assert math.isinf(best)
    if math.isfinite(best):
        assert math.isfinite(assign(problem, "sparse", TIGHT, NEVER, plan).cost)
        assert math.isfinite(assign(problem, "hard", TIGHT, NEVER, plan).cost)


def test_scaling_demands_changes_nothing() -> None:
    """Demands and capacity times a constant give the same optimum."""
    problem = geometric(30, 4)
    scaled = AssignProblem(
        problem.cost, problem.demands * 1000, problem.capacity * 1000, 4
    )
    first = assign(problem, "exact", TIGHT, NEVER)
    assert assign(scaled, "exact", TIGHT, NEVER).cost == pytest.approx(first.cost)


def test_candidates_equal_dense_when_they_hold_every_vehicle() -> None:
    """A shuffled full candidate list has the same optimum as the dense problem."""
    problem = geometric(25, 3)
    rng = np.random.default_rng(1)
    candidates = rng.permuted(np.tile(np.arange(3), (25, 1)), axis=1)
    padded = np.column_stack([candidates, np.full(25, -1)])
    cost = np.column_stack(
        [np.take_along_axis(problem.cost, candidates, axis=1), np.full(25, np.inf)]
    )
    listed = AssignProblem(cost, problem.demands, problem.capacity, 3, padded)
    dense = assign(problem, "exact", TIGHT, NEVER)
    assert assign(listed, "exact", TIGHT, NEVER).cost == pytest.approx(dense.cost)


def test_hard_fixing_never_overfills(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the plan puts everyone on one vehicle, fixed loads stay within it."""
    problem = geometric(40, 4)
    plan = np.zeros((40, 4))
    plan[:, 2] = 1.0
    seen = []
    original = module._solve_rest  # noqa: SLF001 - spied on, not used

    def spy(case, fixed, *rest):  # type: ignore[no-untyped-def]  # a spy
        held = fixed >= 0
        loads = np.bincount(fixed[held], problem.demands[held], 4)
        seen.append(bool((loads <= problem.capacity).all()))
        return original(case, fixed, *rest)

    monkeypatch.setattr(module, "_solve_rest", spy)
    answer = assign(problem, "hard", AssignSettings(seconds=20), NEVER, plan)
    check(problem, answer)
    assert seen
    assert all(seen)


def test_hard_rounds_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """If every round fails, the loop ends within the proven bound: no answer."""
    failing = Found(None, Claim.STOPPED)
    monkeypatch.setattr(module, "_solve_rest", lambda *_: failing)
    problem = geometric(60, 5)
    plan = np.eye(5)[np.argmin(problem.cost, axis=1)]
    answer = assign(problem, "hard", AssignSettings(seconds=math.inf), NEVER, plan)
    assert answer.status is Status.NOT_FOUND
    assert answer.freed == answer.fixed > 0
    # Of n fixed customers a tenth is freed each time, at least one.
    assert answer.rounds <= 2 + math.log(60) / -math.log(0.9)


def sure_plan(problem: AssignProblem, share: float) -> np.ndarray:
    """Sure of some of the customers, at their cheapest vehicle; else undecided."""
    n, vehicles = problem.cost.shape
    plan = np.full((n, vehicles), 1 / vehicles)
    sure = np.random.default_rng(5).random(n) < share
    plan[sure] = np.eye(vehicles)[np.argmin(problem.cost, axis=1)][sure]
    return plan


@pytest.mark.parametrize("claim", [None, Claim.STOPPED, Claim.FAILED])
@pytest.mark.parametrize("printed", [False, True])
def test_hard_keeps_whom_it_fixed(
    claim: Claim | None, printed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped or not, an answer keeps all whom it fixed, or says how many not (C1)."""
    if claim is not None:
        monkeypatch.setattr(module, "solve_binary", lambda *_: MipAnswer(claim))
    answered = 0
    for seed in range(12):
        problem = geometric(60, 6, seed)
        plan = sure_plan(problem, 0.5)
        settings = replace(TIGHT, printed=printed)
        answer = assign(problem, "hard", settings, NEVER, plan)
        if not math.isfinite(answer.cost):
            assert printed or claim is not None
            continue
        check(problem, answer)
        best = plan.argmax(axis=1)
        kept = (answer.labels == best)[plan.max(axis=1) > 0.99].sum()
        assert kept >= answer.fixed - answer.freed
        answered += answer.freed == 0
    assert answered >= (0 if printed else 9)
    assert answered == 0 or not (printed and claim is not None)


def test_sparse_uses_no_other_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    """A solve that time cuts short answers on the edges of its round or not at all."""
    monkeypatch.setattr(module, "solve_binary", lambda *_: MipAnswer(Claim.STOPPED))
    for seed in range(12):
        problem = geometric(60, 6, seed)
        plan = sure_plan(problem, 0.5)
        answer = assign(problem, "sparse", TIGHT, NEVER, plan)
        check(problem, answer)
        k = 2**answer.rounds
        rank = np.argsort(np.argsort(problem.cost, axis=1), axis=1)
        allowed = (plan >= TIGHT.tau_low) | (rank < k)
        assert allowed[np.arange(60), answer.labels].all()


def test_printed_decodings_equal_brute_force() -> None:
    """From nothing, on the paper's edges: exact, sparse on all, hard with nobody."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        problem = AssignProblem(rng.random((7, 3)), rng.integers(1, 9, 7), 16, 3)
        best, settings = brute_force(problem), replace(TIGHT, printed=True)
        everyone, nobody = np.ones((7, 3)), np.zeros((7, 3))
        for answer in (
            assign(problem, "exact", settings, NEVER),
            assign(problem, "sparse", settings, NEVER, everyone),
            assign(problem, "hard", settings, NEVER, nobody),
        ):
            assert (answer.status is Status.INFEASIBLE) == math.isinf(best)
            if math.isfinite(best):
                assert answer.cost == pytest.approx(best, abs=1e-6)


def test_what_a_vehicle_holds_counts() -> None:
    """Holding some customers leaves the same optimum as keeping them by hand."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        problem = AssignProblem(rng.random((7, 3)), rng.integers(1, 9, 7), 17, 3)
        fixed = np.where(rng.random(7) < 0.4, rng.integers(0, 3, 7), -1)
        best = math.inf
        for labels in itertools.product(range(3), repeat=7):
            loads = np.bincount(labels, problem.demands, 3)
            same = ((fixed < 0) | (fixed == labels)).all()
            if same and (loads <= 17).all():
                best = min(best, problem.cost[np.arange(7), labels].sum())
        case = Case.of(problem)
        found = module._solve_rest(case, fixed, TIGHT, NEVER)  # noqa: SLF001
        assert (found.labels is None) == math.isinf(best)
        if found.labels is not None:
            assert case.total(found.labels) == pytest.approx(best, abs=1e-6)
            assert found.bound == pytest.approx(best, abs=1e-6)


def test_only_edges_that_can_win_are_kept() -> None:
    """What reduced costs rule out is in no assignment as cheap as the best one."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        problem = AssignProblem(rng.random((6, 3)), rng.integers(1, 9, 6), 14, 3)
        best = brute_force(problem)
        start = assign(problem, "fast", AssignSettings(), NEVER)
        if not math.isfinite(best):
            continue
        case = Case.of(problem)
        kept = worthwhile(case, case.candidates >= 0, start.labels, NEVER)
        for labels in itertools.product(range(3), repeat=6):
            loads = np.bincount(labels, problem.demands, 3)
            cost = problem.cost[np.arange(6), labels].sum()
            if (loads <= 14).all() and cost <= start.cost:
                assert kept[np.arange(6), labels].all()


def test_sparse_grows_until_feasible() -> None:
    """Customers that all prefer one vehicle get more edges until they fit."""
    cost = np.tile(np.arange(4.0), (8, 1))
    problem = AssignProblem(cost, np.full(8, 5), 10, 4)
    answer = assign(problem, "sparse", TIGHT, NEVER, None)
    check(problem, answer)
    assert answer.rounds == 3  # 1, 2, 4 vehicles each
    assert answer.cost == pytest.approx(12.0)


@pytest.mark.parametrize(
    "answer",
    [
        MipAnswer(Claim.FAILED),
        MipAnswer(Claim.STOPPED, None),
        MipAnswer(Claim.INFEASIBLE, None),
        MipAnswer(Claim.OPTIMAL, np.ones(60, dtype=bool)),
        MipAnswer(Claim.OPTIMAL, np.zeros(60, dtype=bool)),
        MipAnswer(Claim.OPTIMAL, np.ones(3, dtype=bool)),
    ],
)
def test_bad_solver_answers_end_in_the_fallback(
    answer: MipAnswer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever HiGHS answers, a valid assignment comes out, never called optimal."""
    monkeypatch.setattr(module, "solve_binary", lambda *_: answer)
    problem = geometric(20, 3)
    found = assign(problem, "exact", TIGHT, NEVER)
    check(problem, found)
    assert found.status is Status.FEASIBLE


def test_one_unit_too_much_is_infeasible() -> None:
    """Three customers of 16667 do not fit in 50000, tolerance or not."""
    problem = AssignProblem(np.ones((3, 1)), np.full(3, 16667), 50000, 1)
    assert assign(problem, "exact", TIGHT, NEVER).status is Status.INFEASIBLE


@pytest.mark.parametrize(
    ("cost", "demands"),
    [
        (np.array([[np.nan]]), np.array([1])),
        (np.array([[np.inf]]), np.array([1])),
        (np.array([[1.0]]), np.array([1.5])),
        (np.array([[1.0]]), np.array([-1])),
        (np.array([[1.0, 2.0]]), np.array([1])),
    ],
)
def test_bad_data_is_refused(cost: np.ndarray, demands: np.ndarray) -> None:
    """NaN, inf, fractions, negative demands and wrong shapes never reach HiGHS."""
    with pytest.raises(InputError):
        assign(AssignProblem(cost, demands, 10, 1), "exact", TIGHT, NEVER)


def test_a_deaf_solver_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A solve that ignores every interrupt does not hold the caller."""
    release = threading.Event()
    monkeypatch.setattr(
        "clusterfirst.stages.assignment.mip._run_highs",
        lambda *_: release.wait(30) and MipAnswer(),
    )
    program = BinaryProgram(
        np.ones(1),
        np.ones(1),
        np.ones(1),
        np.array([0, 1]),
        np.zeros(1, int),
        np.ones(1),
    )
    start = time.perf_counter()
    answer = solve_binary(program, MipSettings(), Deadline.after(0.05))
    assert answer.claim is Claim.STOPPED
    assert answer.point is None
    # While it still runs, the next solve gives up at its deadline instead of
    # starting a second HiGHS beside it.
    assert solve_binary(program, MipSettings(), Deadline.after(0.05)).claim is (
        Claim.FAILED
    )
    assert time.perf_counter() - start < 10
    release.set()


def test_a_program_whose_time_is_up_is_no_error() -> None:
    """A deadline that passes just before the solve: no answer, or a very quick one."""
    program = BinaryProgram(
        cost=np.ones(1),
        row_lower=np.ones(1),
        row_upper=np.ones(1),
        starts=np.array([0, 1]),
        rows=np.array([0]),
        values=np.ones(1),
    )
    passed = Deadline(time.perf_counter() - 1.0)
    answer = solve_binary(program, MipSettings(), passed)
    assert answer.claim is not Claim.OPTIMAL or answer.point == [True]


def test_a_large_program_keeps_to_its_deadline() -> None:
    """A program far too hard for the time ends with the heuristic's answer."""
    problem = geometric(600, 60)
    start = time.perf_counter()
    answer = assign(problem, "exact", AssignSettings(), Deadline.after(0.5))
    assert time.perf_counter() - start < 20  # a hang guard, not a timing
    check(problem, answer)


# 44 customers that fill 12 vehicles of 1000 to the last unit (defects.md, A2).
FULL = """32 375 753 114 897 813 267 84 5 187 103 360 466 109 484 247 534 150 258 88 22
147 218 72 217 108 286 747 174 115 231 71 239 414 148 777 342 118 51 404 77 318 299
79"""


def test_a_packing_without_a_clock_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fleet without a unit to spare: found, or given up after a count of nodes."""
    demands = np.array(FULL.split(), dtype=np.int64)
    assert demands.sum() == 12 * 1000
    monkeypatch.setattr("clusterfirst.stages.assignment.packing.NODES", 1)
    try:
        labels = pack(demands, 1000, 12, NEVER)
    except NotFoundInTimeError:
        return
    assert np.bincount(labels, demands, 12).max() <= 1000


@pytest.mark.parametrize("limit", ["UNTIMED_NODES", "UNTIMED_CHECKS"])
def test_no_solve_is_without_a_limit(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a clock HiGHS stops after so many nodes, and after so many checks."""
    monkeypatch.setattr(f"clusterfirst.stages.assignment.mip.{limit}", 1)
    demands = np.array(FULL.split(), dtype=np.int64)
    rng = np.random.default_rng(10)  # not solved at its root
    problem = AssignProblem(rng.random((len(demands), 13)), demands, 1000, 13)
    endless = AssignSettings(mip_gap=0.0, seconds=math.inf)
    assert assign(problem, "exact", endless, NEVER).status is not Status.OPTIMAL


def test_node_limits_are_repeatable() -> None:
    """Without a clock, the same problem gives the same labels twice."""
    problem = geometric(60, 6)
    limits = AssignSettings(seconds=math.inf, max_nodes=5)
    first, second = (assign(problem, "exact", limits, NEVER) for _ in range(2))
    assert np.array_equal(first.labels, second.labels)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=30), st.integers(20, 50))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_repair_always_ends_feasible(demands: list[int], capacity: int) -> None:
    """With enough vehicles allowed, the repair serves everyone within capacity."""
    n = len(demands)
    cost = np.random.default_rng(n).random((n, 2))
    problem = AssignProblem(cost, np.array(demands), capacity, 2)
    labels = repair(problem, n + 2)
    assert labels is not None
    assert (np.bincount(labels, demands) <= capacity).all()


def nearly_assigned(seed: int) -> tuple[AssignProblem, IntArray]:
    """Ten vehicles, four of them near each customer, and labels that overload some."""
    rng = np.random.default_rng(seed)
    demands = rng.integers(1, 10, 60)
    near = np.stack([rng.permutation(10)[:4] for _ in demands])
    problem = AssignProblem(rng.random(near.shape), demands, 35, 10, near)
    return problem, near[:, 0].copy()


@pytest.mark.parametrize("seed", range(20))
def test_repair_keeps_what_fits(seed: int) -> None:
    """Who is not in the way stays; the others go near, or share new vehicles."""
    problem, nearly = nearly_assigned(seed)
    assert problem.candidates is not None
    demands, loads = problem.demands, np.bincount(nearly, problem.demands, 10)
    labels = repair(problem, 60, nearly)
    assert labels is not None
    after = np.bincount(labels, demands)
    assert (after <= 35).all()
    calm = loads[nearly] <= 35
    assert (labels[calm] == nearly[calm]).all()
    for vehicle in np.flatnonzero(loads > 35):
        left = (nearly == vehicle) & (labels != vehicle)
        # Without any one of those who left it would still be too full.
        assert demands[left].sum() - demands[left].min() < loads[vehicle] - 35
    moved = labels != nearly
    own = (labels[:, None] == problem.candidates).any(axis=1)
    for i in np.flatnonzero(moved & ~own):
        assert labels[i] >= 10  # a new vehicle, never a far one
        assert (after[problem.candidates[i]] + demands[i] > 35).all()


def test_repair_within_a_limit_goes_anywhere() -> None:
    """Where no vehicle may be opened a far one with room is better than none."""
    cost, near = np.zeros((4, 1)), np.array([[0], [0], [0], [1]])
    problem = AssignProblem(cost, np.array([2, 2, 2, 1]), 4, 2, near)
    nearly = np.array([0, 0, 0, 1])
    assert repair(problem, 2, nearly) is not None
    opened = repair(problem, 3, nearly)
    assert opened is not None
    assert opened.max() == 2
    full = AssignProblem(cost, np.array([2, 2, 2, 3]), 4, 2, near)
    assert repair(full, 2, nearly) is None


@given(st.lists(st.integers(1, 10), min_size=1, max_size=8), st.integers(1, 4))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_packing_is_found_or_proven_impossible(demands: list[int], limit: int) -> None:
    """Bin packing agrees with brute force, and impossible is said only when it is."""
    units, possible = np.array(demands), False
    for labels in itertools.product(range(limit), repeat=len(demands)):
        if (np.bincount(labels, units) <= 10).all():
            possible = True
            break
    if not possible:
        with pytest.raises(InfeasibleError, match="E203"):
            pack(units, 10, limit, NEVER)
        return
    packed = pack(units, 10, limit, NEVER)
    assert (np.bincount(packed, units) <= 10).all()
    assert packed.max() < limit
    assert packing_bound(units, 10) <= limit


@given(st.lists(st.integers(1, 30), min_size=1, max_size=30), st.integers(30, 61))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_packing_bound_is_the_best_of_all_thresholds(
    demands: list[int], capacity: int
) -> None:
    """All thresholds at once, by sums up to each demand, equal one after the other."""
    best = -(-sum(demands) // capacity)
    for low in range(capacity // 2 + 1):
        alone = [d for d in demands if d > capacity - low]
        half = [d for d in demands if d <= capacity - low and 2 * d > capacity]
        rest = [d for d in demands if 2 * d <= capacity and d >= low]
        more = sum(rest) - (len(half) * capacity - sum(half))
        best = max(best, len(alone) + len(half) + max(0, -(-more // capacity)))
    assert packing_bound(np.array(demands), capacity) == best


def test_a_packing_beyond_memory_is_given_up() -> None:
    """Ten billion cells are not built; infeasibility is not claimed."""
    units = np.full(100_000, 34)
    with pytest.raises((NotFoundInTimeError, InfeasibleError)):
        pack(np.append(units, np.full(50_000, 33)), 100, 50_000, Deadline.after(0.0))
