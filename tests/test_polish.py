"""Polishing, recombining and repairing: feasible, never worse, repeatable."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.errors import InfeasibleError, InputError, NotFoundInTimeError
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.stages.compiled import Flat, distance
from clusterfirst.stages.search.local_search import descend, notes_for
from clusterfirst.stages.search.polish import PolishSettings, polish
from clusterfirst.stages.search.pool import recombine
from clusterfirst.stages.search.regions import (
    MAX_MATRIX_ROWS,
    halves,
    make_region,
    whole_ground,
)
from clusterfirst.stages.search.repair import repair_routes
from clusterfirst.stages.search.ruin_recreate import anneal
from clusterfirst.stages.search.swap_star import exchange_routes, exchanges_for

NEVER = Deadline.never()


def make_instance(seed: int, n: int, **changes) -> Instance:
    """The paper's law with some coordinates on a grid, so that ties and twins occur."""
    rng = np.random.default_rng(seed)
    coords = rng.random((n + 1, 2)) * 100
    coords[::3] = np.round(coords[::3], -1)
    fields = {
        "demands": np.concatenate([[0], rng.integers(0, 10, n)]),
        "capacity": 50,
        "coords": coords,
    }
    return Instance(**{**fields, **changes})


def in_order(instance: Instance) -> list[list[int]]:
    """Routes filled in the order of the rows: feasible, and bad."""
    routes: list[list[int]] = [[]]
    load = 0
    for c in range(1, instance.num_customers + 1):
        load += int(instance.demand_units[c])
        if load > instance.capacity_units:
            routes.append([])
            load = int(instance.demand_units[c])
        routes[-1].append(c)
    return routes


def cost_of(instance: Instance, routes) -> float:
    """Assert that the routes are feasible; return their cost."""
    verdict = judge(instance, Solution(routes))
    assert verdict.feasible, verdict.violations[:3]
    return verdict.cost


SPACES = {
    "euclidean": {},
    "round": {"rounding": "round"},
    "trunc": {"rounding": "trunc"},
    "dimacs": {"rounding": "dimacs"},
    "exact": {"rounding": "exact"},
    "greatcircle": {"metric": "greatcircle"},
    "greatcircle rounded": {"metric": "greatcircle", "rounding": "round"},
}


def in_space(space: str, seed: int, n: int) -> Instance:
    if space == "matrix":
        flat = make_instance(seed, n)
        return flat.replace(metric="matrix", matrix=flat.distances, coords=None)
    instance = make_instance(seed, n)
    assert instance.coords is not None
    coords = instance.coords * (0.5 if "great" in space else 1.0)
    return instance.replace(coords=coords, **SPACES[space])


@pytest.mark.parametrize("space", [*SPACES, "matrix"])
def test_kernel_distances(space: str) -> None:
    """Every metric and rounding gives the kernels the instance's own distances."""
    instance = in_space(space, 1, 12)
    ground = whole_ground(instance, 5)
    rows = range(1, 13)
    in_python = distance.py_func  # type: ignore[attr-defined]  # of numba
    found = [[in_python(ground, a, b) for b in rows] for a in rows]
    wanted = instance.lengths(np.arange(1, 13)[:, None], np.arange(1, 13)[None])
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("space", [*SPACES, "matrix"])
def test_never_worse_in_any_space(space: str) -> None:
    """Polished routes are feasible, no worse than the start, at the stated cost."""
    instance = in_space(space, 2, 70)
    start = in_order(instance)
    answer = polish(instance, start, PolishSettings(iterations=1500), NEVER)
    assert cost_of(instance, answer.routes) == pytest.approx(answer.cost)
    assert answer.cost < 0.9 * cost_of(instance, start)
    assert answer.history[-1][1] == answer.cost
    again = polish(instance, answer.routes, PolishSettings(iterations=1), NEVER)
    assert again.cost <= answer.cost


def best_exchange(instance: Instance, routes: list[list[int]]) -> float:
    """Cost after the best exchange of two customers, each put anywhere: brute force."""
    best = cost_of(instance, routes)
    for r, s in itertools.combinations(range(len(routes)), 2):
        for u, v in itertools.product(routes[r], routes[s]):
            for at_v in range(len(routes[r])):
                for at_u in range(len(routes[s])):
                    one = [c for c in routes[r] if c != u]
                    two = [c for c in routes[s] if c != v]
                    one.insert(at_v, v)
                    two.insert(at_u, u)
                    others = [x for i, x in enumerate(routes) if i not in (r, s)]
                    verdict = judge(instance, Solution([*others, one, two]))
                    if verdict.feasible:
                        best = min(best, verdict.cost)
    return best


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(4, 9))
def test_exchanges_equal_brute_force(seed: int, n: int) -> None:
    """SWAP* between two routes finds the best exchange there is, at its true cost."""
    instance = make_instance(seed, n)
    half = n // 2
    start = [list(range(1, half + 1)), list(range(half + 1, n + 1))]
    units, limit = instance.demand_units, instance.capacity_units
    if any(units[route].sum() > limit for route in start):
        start = in_order(instance)
    assume(len(start) == 2)
    region = make_region(whole_ground(instance, 10), Flat.of(start), 2, seed)
    notes = notes_for(region.ground, region.tours)
    memory = exchanges_for(region.ground, region.tours)
    change = exchange_routes(region.ground, region.tours, notes, memory, 0)[1]
    found = cost_of(instance, region.routes(best=False).lists())
    assert found == pytest.approx(cost_of(instance, start) + change)
    assert found == pytest.approx(best_exchange(instance, start))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(2, 40), st.booleans())
def test_incremental_cost_is_the_cost(seed: int, n: int, limited: bool) -> None:
    """After descent and annealing the kernels' own sums equal a fresh count."""
    instance = make_instance(seed, n)
    start = in_order(instance)
    slots = len(start) + (0 if limited else 3)
    region = make_region(whole_ground(instance, 10), Flat.of(start), slots, seed)
    notes = notes_for(region.ground, region.tours)
    change = descend(region.ground, region.tours, notes, 10**6, False)
    expected = cost_of(instance, start) + change
    found = region.routes(best=False)
    assert cost_of(instance, found.lists()) == pytest.approx(expected)
    region = make_region(whole_ground(instance, 10), found, slots, seed)
    state = (region.tours, region.best, region.memory)
    anneal(region.ground, state, region.rng, 300, 5.0)
    now, best = region.memory.cost
    assert cost_of(instance, region.routes(best=False).lists()) == pytest.approx(now)
    assert cost_of(instance, region.routes(best=True).lists()) == pytest.approx(best)
    assert best <= expected + 1e-6
    assert len(region.routes(best=True).sizes) <= slots


def test_optimal_on_tiny_instances() -> None:
    """On six customers the polished cost equals brute force over all orders."""
    for seed in range(5):
        instance = make_instance(seed, 6, capacity=18)
        best = min(
            judge(instance, Solution(_cut(instance, order))).cost
            for order in itertools.permutations(range(1, 7))
        )
        answer = polish(
            instance, in_order(instance), PolishSettings(iterations=2000), NEVER
        )
        assert answer.cost == pytest.approx(best)


def _cut(instance: Instance, order: tuple[int, ...]) -> list[list[int]]:
    """The best way to cut a giant tour into routes (Prins' split)."""
    n = len(order)
    best: list[tuple[float, list[list[int]]]] = [(0.0, [])] + [(np.inf, [])] * n
    for i in range(n):
        for j in range(i + 1, n + 1):
            route = list(order[i:j])
            if int(instance.demand_units[route].sum()) > instance.capacity_units:
                break
            path = np.array([0, *route, 0])
            length = best[i][0] + float(instance.lengths(path[:-1], path[1:]).sum())
            if length < best[j][0]:
                best[j] = (length, [*best[i][1], route])
    return best[n][1]


@pytest.mark.parametrize("n", [60, 400])
def test_repeatable_by_iterations(n: int) -> None:
    """Equal seeds and iterations give equal routes, with two threads, at both sizes."""
    instance = make_instance(7, n)
    start = in_order(instance)
    runs = [
        polish(instance, start, PolishSettings(seed, 1000), NEVER).routes
        for seed in (3, 3, 2**62)
    ]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_fleet_limit_holds() -> None:
    """No more routes than vehicles, at the smallest fleet and with one spare."""
    instance = make_instance(9, 350)
    start = in_order(instance)
    for spare in (0, 1):
        limited = instance.replace(vehicles=len(start) + spare)
        answer = polish(limited, start, PolishSettings(iterations=1000), NEVER)
        cost_of(limited, answer.routes)


def test_deadline_and_callback() -> None:
    """A run by the clock ends, reports falling costs, and starts from the start."""
    instance = make_instance(11, 400)
    seen: list[float] = []
    begin = time.perf_counter()
    answer = polish(
        instance,
        in_order(instance),
        PolishSettings(),
        Deadline.after(0.5),
        lambda routes, cost, seconds: seen.append(cost),
    )
    assert time.perf_counter() - begin < 10.0
    assert seen == sorted(seen, reverse=True)
    assert seen[-1] == answer.cost
    late = polish(instance, in_order(instance), PolishSettings(), Deadline.after(0.0))
    assert late.routes == in_order(instance)


def test_refuses_what_it_cannot_do() -> None:
    """An infeasible start and a missing limit are errors, a huge matrix is a note."""
    instance = make_instance(1, 5)
    with pytest.raises(InputError, match="E802"):
        polish(instance, [[1, 2]], PolishSettings(iterations=1), NEVER)
    with pytest.raises(InputError, match="time limit"):
        polish(instance, in_order(instance), PolishSettings(), NEVER)
    n = MAX_MATRIX_ROWS
    coords = np.random.default_rng(0).random((n + 1, 2))
    large = Instance(
        demands=np.append(0, np.ones(n)),
        capacity=10,
        coords=coords,
        metric="greatcircle",
        rounding="round",
    )
    answer = polish(large, in_order(large), PolishSettings(iterations=1), NEVER)
    assert "not polished" in answer.note
    assert answer.routes == in_order(large)


def test_odd_sizes() -> None:
    """No, one and two customers, one place for all, and all demands 0 work."""
    for n in range(3):
        instance = make_instance(3, n, demands=np.append(0, np.ones(n)))
        start = [[c] for c in range(1, n + 1)]
        answer = polish(instance, start, PolishSettings(iterations=10), NEVER)
        assert answer.cost <= cost_of(instance, start)
    same = make_instance(3, 40, coords=np.ones((41, 2)))
    polish(same, in_order(same), PolishSettings(iterations=500), NEVER)
    free = make_instance(3, 40, demands=np.zeros(41))
    answer = polish(free, in_order(free), PolishSettings(iterations=500), NEVER)
    assert len(answer.routes) == 1


def test_halves_are_a_partition() -> None:
    """A cut gives every route to one side, about half of the customers each."""
    instance = make_instance(5, 300)
    start = in_order(instance)
    left, right = (half.lists() for half in halves(instance.plane, Flat.of(start), 0.7))
    assert sorted([*left, *right]) == sorted(start)
    assert abs(sum(map(len, left)) - sum(map(len, right))) < 60


def test_recombine_takes_the_best_of_all() -> None:
    """The pool is never worse than its best solution, and mixes halves of two."""
    instance = make_instance(13, 60)
    runs = [
        polish(instance, in_order(instance), PolishSettings(seed, 500), NEVER).routes
        for seed in range(4)
    ]
    costs = [cost_of(instance, routes) for routes in runs]
    together = recombine(instance, runs, NEVER)
    assert cost_of(instance, together) <= min(costs) + 1e-9
    left = [[1, 2], [3], [4]]
    right = [[1], [2], [3, 4]]
    square = Instance(
        demands=np.array([0, 1, 1, 1, 1]),
        capacity=2,
        coords=np.array([[0, 0], [9, 1], [9, 2], [-9, 1], [-9, 2]], dtype=float),
    )
    mixed = recombine(square, [left, right], NEVER)
    assert sorted(map(sorted, mixed)) == [[1, 2], [3, 4]]


def test_recombine_by_region() -> None:
    """Above 500 customers regions are improved one by one, within the fleet limit."""
    instance = make_instance(17, 620)
    start = in_order(instance)
    runs = [
        polish(instance, start, PolishSettings(seed, 1000), NEVER).routes
        for seed in range(2)
    ]
    limited = instance.replace(vehicles=max(map(len, runs)))
    together = recombine(limited, runs, Deadline.after(4.0))
    best = min(cost_of(limited, routes) for routes in runs)
    assert cost_of(limited, together) <= best + 1e-9


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(1, 30))
def test_repair_any_routes(seed: int, n: int) -> None:
    """Routes with unknown, repeated, missing and too many customers become feasible."""
    rng = np.random.default_rng(seed)
    instance = make_instance(seed, n)
    routes = [
        rng.integers(-1, n + 3, rng.integers(0, 25)).tolist()
        for _ in range(rng.integers(0, 5))
    ]
    repaired, report = repair_routes(instance, routes)
    cost_of(instance, repaired)
    flat = [c for route in routes for c in route]
    known = {c for c in flat if 1 <= c <= n}
    assert report.added == n - len(known)
    assert report.unknown == sum(not 1 <= c <= n for c in flat)
    assert report.unknown + report.repeated + len(known) == len(flat)


def test_repair_keeps_what_is_right() -> None:
    """Feasible routes come back as they are; limits are kept or said to be missed."""
    instance = make_instance(3, 30)
    start = in_order(instance)
    repaired, report = repair_routes(instance, start)
    assert repaired == start
    assert report.clean
    few = instance.replace(vehicles=len(start))
    repaired, report = repair_routes(few, [[c] for c in range(1, 31)])
    cost_of(few, repaired)
    assert report.moved > 0
    tight = Instance(
        demands=np.array([0, 2, 2, 2]),
        capacity=3,
        coords=np.zeros((4, 2)),
        vehicles=2,
    )
    with pytest.raises(NotFoundInTimeError, match="fits into none"):
        repair_routes(tight, [[1], [2]])
    with pytest.raises(InfeasibleError):
        repair_routes(tight.replace(vehicles=1), [])
