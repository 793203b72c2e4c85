"""Polishing, recombining and repairing: feasible, never worse, repeatable."""

from __future__ import annotations

import itertools
import pickle
import time
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.errors import InfeasibleError, InputError, NotFoundInTimeError
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.problem.worlds import sample_xml
from clusterfirst.solving.options import SolveOptions
from clusterfirst.stages.kernel_cache import CacheIndex
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.search.annealing import anneal, make_plan
from clusterfirst.stages.search.linked import distance
from clusterfirst.stages.search.polish import PolishSettings, polish, useful_threads
from clusterfirst.stages.search.pool import recombine
from clusterfirst.stages.search.regions import Region, make_region, parts, whole_data
from clusterfirst.stages.search.repair import repair_routes
from clusterfirst.stages.search.schedule import Schedule

in_python = distance.py_func  # type: ignore[attr-defined]  # of numba
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
    data = whole_data(instance, 5)
    rows = range(1, 13)
    found = [[in_python(data, a, b) for b in rows] for a in rows]
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


ONLY = {
    "string": {"strings": 1.0},
    "swap": {"swaps": 1.0},
    "cross": {"crossings": 1.0},
    "exchange": {"exchanges": 1.0},
    "open": {"crossings": 0.5},
    "ruin": {"ruins": 1.0, "strings": 0.1},
}
NONE = {"strings": 0.0, "swaps": 0.0, "crossings": 0.0, "exchanges": 0.0, "ruins": 0.0}


def check_links(region: Region) -> None:
    """Assert that links, gaps, labels, loads and sizes describe the same routes."""
    data, tours = region.data, region.tours
    n, seen = len(data.demands) - 1, 0
    for r in range(len(tours.load)):
        node = n + 1 + r
        load = size = 0
        while True:
            onward = int(tours.after[node])
            assert int(tours.before[onward]) == node
            assert int(tours.route[node]) == r
            assert tours.gap[node] == pytest.approx(in_python(data, node, onward))
            node = onward
            if node > n:
                break
            load, size = load + int(data.demands[node]), size + 1
        assert node == n + 1 + r
        assert load == tours.load[r] <= data.capacity
        assert size == tours.size[r]
        seen += size
    assert seen == n


@pytest.mark.parametrize("kind", ONLY)
@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(2, 40), st.booleans())
def test_incremental_cost_is_the_cost(
    kind: str, seed: int, n: int, limited: bool
) -> None:
    """Each kind of step alone, hot and cold, keeps links and costs right."""
    instance = make_instance(seed, n)
    start = in_order(instance)
    slots = len(start) + (0 if limited else 3)
    region = make_region(whole_data(instance, 10), Routes.of(start), slots, seed)
    plan = make_plan(PolishSettings(**{**NONE, **ONLY[kind]}), region)
    for temperature in (20.0, 1.0, 0.0):
        anneal(region.data, region.state, plan, 20, temperature)
        check_links(region)
        now, best = region.memory.cost
        assert cost_of(instance, region.routes(best=False).lists()) == (
            pytest.approx(now)
        )
        found = region.routes(best=True)
        assert cost_of(instance, found.lists()) == pytest.approx(best)
        assert best <= cost_of(instance, start) + 1e-6
        assert len(found) <= slots


@pytest.mark.parametrize("kind", ONLY)
def test_every_kind_of_step_is_made(kind: str) -> None:
    """From routes in the order of the rows, each kind alone finds shorter ones."""
    instance = make_instance(4, 60)
    start = in_order(instance)
    region = make_region(whole_data(instance, 10), Routes.of(start), len(start) + 3, 1)
    plan = make_plan(PolishSettings(**{**NONE, **ONLY[kind]}), region)
    anneal(region.data, region.state, plan, 100, 0.0)
    assert region.memory.cost[1] < 0.98 * cost_of(instance, start)


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


@pytest.mark.parametrize(("n", "threads"), [(60, 1), (60, 3), (400, 2), (400, 5)])
def test_repeatable_by_iterations(n: int, threads: int) -> None:
    """Equal seeds, threads and iterations give equal routes: parts, copies and both."""
    instance = make_instance(7, n)
    start = in_order(instance)
    runs = [
        polish(instance, start, PolishSettings(seed, 1000, threads), NEVER).routes
        for seed in (3, 3, 2**62)
    ]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_tight_loads_find_the_fewest_routes() -> None:
    """Where annealing alone is left with a vehicle too many, breeding is not."""
    instance = sample_xml(100, seed=7400, index=43)
    alone = [[c] for c in range(1, 101)]
    found = polish(instance, alone, PolishSettings(iterations=25_000), NEVER)
    assert judge(instance, Solution(found.routes)).feasible
    assert len(found.routes) == instance.min_vehicles


def test_useful_threads() -> None:
    """All cores on a large map, a few of many on a small one, never none."""
    large, small = make_instance(1, 1500), make_instance(1, 3)
    assert useful_threads(large, 16) == 16
    assert 1 <= useful_threads(small, 16) < 16
    assert useful_threads(small, 1) == 1


def test_fleet_limit_holds() -> None:
    """No more routes than vehicles, at the smallest fleet and with one spare."""
    instance = make_instance(9, 350)
    start = in_order(instance)
    for spare, threads in itertools.product((0, 1), (1, 2, 5)):
        limited = instance.replace(vehicles=len(start) + spare)
        settings = PolishSettings(iterations=500, threads=threads)
        cost_of(limited, polish(limited, start, settings, NEVER).routes)


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
    """An infeasible start and a missing limit are errors."""
    instance = make_instance(1, 5)
    with pytest.raises(InputError, match="E802"):
        polish(instance, [[1, 2]], PolishSettings(iterations=1), NEVER)
    with pytest.raises(InputError, match="time limit"):
        polish(instance, in_order(instance), PolishSettings(), NEVER)


def test_rounded_great_circles_of_any_size() -> None:
    """Rounded distances on the earth need no matrix: 6000 customers get shorter."""
    n = 6000
    large = Instance(
        demands=np.append(0, np.ones(n)),
        capacity=10,
        coords=np.random.default_rng(0).random((n + 1, 2)),
        metric="greatcircle",
        rounding="round",
    )
    start = in_order(large)
    answer = polish(large, start, PolishSettings(iterations=1000), NEVER)
    assert cost_of(large, answer.routes) < 0.95 * cost_of(large, start)
    assert "distances" not in vars(large)


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


@pytest.mark.parametrize("count", [1, 2, 3, 7, 16])
def test_parts_are_a_partition(count: int) -> None:
    """A cut gives every route to one part, with about as many customers in each."""
    instance = make_instance(5, 900)
    start = in_order(instance)
    cut = parts(instance.plane, Routes.of(start), count, 0.7)
    assert len(cut) == count
    assert sorted(route for part in cut for route in part.lists()) == sorted(start)
    sizes = [len(part.stops) for part in cut]
    assert max(sizes) - min(sizes) < 60


def test_parts_of_few_routes() -> None:
    """No part is empty where one route has nearly everybody."""
    instance = make_instance(5, 60, capacity=1000)
    routes = Routes.of([list(range(1, 58)), [58], [59], [60]])
    cut = parts(instance.plane, routes, 4, 0.3)
    assert [len(part.sizes) for part in cut] == [1, 1, 1, 1]


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


def test_caches_of_another_version_count_as_empty(tmp_path: Path) -> None:
    """A list of cached kernels that names a class we no longer have is no error."""
    index = CacheIndex(str(tmp_path), "kernel", "stamp")
    stale = b"cclusterfirst.stages.compiled\nNoSuchClass\n."
    (tmp_path / "kernel.nbi").write_bytes(pickle.dumps(numba.__version__) + stale)
    assert index.load("key") is None


def test_temperature_falls() -> None:
    """Once with little time per customer, several times with much, always to cold."""
    few = Schedule.of(make_instance(1, 500), PolishSettings(0, 1000), NEVER)
    many = Schedule.of(make_instance(1, 10), PolishSettings(0, 10_000), NEVER)
    cold = PolishSettings().cold
    for schedule, falls in ((few, 1), (many, 10)):
        assert schedule.falls == falls
        ends = np.arange(falls + 1) / falls
        for low, high in itertools.pairwise(ends.tolist()):
            heat = [
                schedule.temperature(x) for x in np.linspace(low + 1e-9, high, 9)[:8]
            ]
            assert heat == sorted(heat, reverse=True)
            assert schedule.temperature(high - 1e-9) == pytest.approx(cold, rel=1e-4)
        assert sum(map(schedule.ends_fall, range(schedule.rounds))) == falls
    assert many.temperature(0.0) == PolishSettings().hot
    assert many.temperature(0.1 + 1e-9) == pytest.approx(PolishSettings().hot_again)


@pytest.mark.parametrize("threads", [0, -1, 257, 1.5, True])
def test_threads_out_of_range_are_refused(threads: object) -> None:
    """1 to 256 threads, whole numbers; anything else is one sentence with a code."""
    with pytest.raises(InputError, match=r"E404 threads: .*1 to 256"):
        SolveOptions(threads=threads)  # type: ignore[arg-type]
