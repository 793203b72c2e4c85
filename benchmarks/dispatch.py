"""Days with limits: beside PyVRP, beside the plain search, and beside yesterday.

    python benchmarks/dispatch.py wide      # limits that do not bind: ratio of seconds
    python benchmarks/dispatch.py keep [--kind Belem]  # what staying costs
    python benchmarks/dispatch.py warm      # warm starts at equal CPU seconds
    python benchmarks/dispatch.py peer 1 5  # PyVRP, equal CPU seconds of one core

`peer` counts CPU seconds on both sides, so that load does not matter, and adds to
what is there. Each writes benchmarks/results/dispatch-NAME.json, `keep` a picture for
the docs too. All days are drawn here, none is a test set.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.constraints import Constraints
from clusterfirst.problem.fleet import Fleet
from clusterfirst.problem.instance import FloatArray, Instance
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.solving.options import SolveOptions
from clusterfirst.solving.solver import solve
from clusterfirst.stages.search.constrained import search_limited
from clusterfirst.stages.search.polish import polish
from clusterfirst.stages.search.schedule import PolishSettings
from dispatch_keep import KINDS, draw, keep, known_today, two_days
from machine import ROOT, commit, facts

RESULTS = ROOT / "benchmarks" / "results"
SIZES = (100, 200, 300, 500, 1000)  # orders of the days beside PyVRP, four of each
EACH = 4


def _points(rng: np.random.Generator, index: int) -> FloatArray:
    n = SIZES[index // EACH % len(SIZES)]
    centres = rng.random((max(3, n // 40), 2))
    near = centres[rng.integers(0, len(centres), n)] + 0.06 * rng.normal(size=(n, 2))
    points = np.where(rng.random((n, 1)) < 0.5, near, rng.random((n, 2)))
    return np.vstack([rng.random((1, 2)), points])


def peer_points(index: int) -> FloatArray:
    """The map beneath a day, which PyVRP does not ask for and neither do we."""
    return _points(np.random.default_rng([23, index]), index)


def peer_day(index: int) -> Instance:
    """A day with three kinds of vehicles, stops, hours and one-way streets.

    All numbers are whole, so that PyVRP and our judge compute the same.
    """
    rng = np.random.default_rng([23, index])
    n, points = SIZES[index // EACH % len(SIZES)], _points(rng, index)
    straight = np.hypot(*(points[:, None] - points[None]).transpose(2, 0, 1))
    metres = np.rint(10_000 * straight * (1 + 0.3 * rng.random(straight.shape)))
    seconds = np.rint(metres / 8 * (1 + 0.4 * rng.random(straight.shape)))
    demands = np.r_[0, rng.integers(1, 20, n)]
    share = demands.sum() / 150
    fleet = Fleet(
        ("lorry", "van", "bike"),
        np.array([220.0, 140.0, 60.0]),
        np.array([int(share / 2) + 1, int(share) + 2, int(share / 2) + 2]),
        max_stops=np.array([20.0, 16.0, 8.0]),
        max_distance=np.array([np.inf, 60_000.0, 25_000.0]),
        max_duration=np.array([14_000.0, 12_000.0, 8_000.0]),
        fixed_cost=np.array([3000.0, 2000.0, 800.0]),
    )
    service = np.r_[0, rng.integers(60, 300, n)].astype(float)
    asked = Constraints(fleet, durations=seconds, service=service)
    return Instance(demands, 1, matrix=metres, metric="matrix", constraints=asked)


def pyvrp_data(day: Instance) -> Any:
    """The same day for PyVRP; stops are a second kind of load."""
    import pyvrp

    asked = day.constraints
    assert asked is not None
    assert asked.durations is not None
    assert asked.service is not None
    fleet, n = asked.fleet, day.num_customers
    most = np.iinfo(np.int64).max

    def whole(value: float) -> int:
        return int(value) if np.isfinite(value) else most

    kinds = [
        pyvrp.VehicleType(
            int(fleet.counts[k]),
            capacity=[int(fleet.capacities[k]), min(int(fleet.max_stops[k]), n)],
            fixed_cost=int(fleet.fixed_cost[k]),
            shift_duration=whole(fleet.max_duration[k]),
            max_distance=whole(fleet.max_distance[k]),
        )
        for k in range(len(fleet.names))
    ]
    clients = [
        pyvrp.Client(
            row,
            delivery=[int(day.demands[row]), 1],
            service_duration=int(asked.service[row]),
        )
        for row in range(1, n + 1)
    ]
    return pyvrp.ProblemData(
        locations=[pyvrp.Location(0, 0)] * (n + 1),
        clients=clients,
        depots=[pyvrp.Depot(0)],
        vehicle_types=kinds,
        distance_matrices=[day.distances.astype(np.int64)],
        duration_matrices=[np.asarray(asked.durations).astype(np.int64)],
    )


def by_pyvrp(day: Instance, data: Any, seconds: float, seed: int) -> float | None:
    """The cost of PyVRP's answer by our judge, or None where it has none."""
    import pyvrp

    until = time.process_time() + seconds

    def late(_: float) -> bool:
        return time.process_time() >= until

    found = pyvrp.solve(data, late, seed=seed, display=False)
    if not found.is_feasible():
        return None
    asked = day.constraints
    assert asked is not None
    free = {k: np.flatnonzero(asked.fleet.kind == k).tolist() for k in range(3)}
    routes, drives = [], []
    for route in found.best.routes():
        routes.append([v.idx + 1 for v in route if v.is_client()])
        drives.append(free[route.vehicle_type()].pop(0))
    verdict = judge(day, Solution(routes, drives))
    assert verdict.feasible, verdict.violations
    assert abs(verdict.cost - found.cost()) < 1
    return verdict.cost


def accepted_by_pyvrp(day: Instance, data: Any, solution: Solution) -> bool:
    """Whether PyVRP finds our routes feasible, at our cost."""
    import pyvrp

    asked = day.constraints
    assert asked is not None
    assert solution.vehicles is not None
    routes = [
        pyvrp.Route(data, [c - 1 for c in route], vehicle_type=int(asked.fleet.kind[v]))
        for route, v in zip(solution.routes, solution.vehicles, strict=True)
    ]
    theirs = pyvrp.Solution(data, routes)
    cost = theirs.distance() + theirs.fixed_vehicle_cost()
    return bool(theirs.is_feasible()) and abs(cost - judge(day, solution).cost) < 1


def peer(seconds: list[float], only: range) -> None:
    """Both solvers in turn on the same core."""
    rows = _read("peer")
    wall, time.perf_counter = time.perf_counter, time.process_time
    for index in only:
        day = peer_day(index)
        data = pyvrp_data(day)
        for limit in seconds:
            ours = solve(day, SolveOptions(time_limit=limit, threads=1))
            assert accepted_by_pyvrp(day, data, ours.solution)
            row = {
                "day": index,
                "orders": day.num_customers,
                "seconds": limit,
                "clusterfirst": ours.verdict.cost,
                "spent": sum(ours.seconds.values()),
                "PyVRP": by_pyvrp(day, data, limit, 0),
                "commit": commit(),
            }
            rows = [r for r in rows if (r["day"], r["seconds"]) != (index, limit)]
            rows.append(row)
            print(json.dumps(row), flush=True)
            _write("peer", rows)
    time.perf_counter = wall


def wide_day(seed: int) -> tuple[Instance, Instance, list[list[int]]]:
    """1,000 orders without limits, with all of them and none binding, and a start.

    Two kinds of vehicles, stops, lengths and hours by a matrix, service, priorities;
    a fifth of the orders may take any vehicle by name, a fifth may not take a spare
    one; neighbours on every third route of the start are a group, and the first stops
    of five routes each must not meet. A good plain answer keeps all of that too.
    """
    from clusterfirst.solving.options import run_method
    from clusterfirst.stages.search_state import SearchState

    rng, n = np.random.default_rng([24, seed]), 1000
    demands = np.r_[0, rng.integers(1, 10, n)]
    plain = Instance(demands, 50, coords=rng.random((n + 1, 2)))
    state = SearchState(plain, Deadline.never(), 0, 1)
    run_method(state, "savings")
    assert state.best is not None
    start = state.best.lists()
    half = plain.min_vehicles // 2 + 10
    fleet = Fleet(
        ("a", "b"),
        np.array([50.0, 50.0]),
        np.array([half, half]),
        max_stops=np.array([90.0, 95.0]),
        max_distance=np.array([99.0, 98.0]),
        max_duration=np.array([9999.0, 9998.0]),
    )
    good = polish(plain, start, PolishSettings(99, 100_000, 1), Deadline.never())
    ride = {c: k for k, route in enumerate(good.routes) for c in route}
    group, apart = [""] * (n + 1), [""] * (n + 1)
    for route in start[::3]:
        together = [k for k in range(len(route) - 1) if _meet(ride, route[k : k + 2])]
        for k in together[:1]:
            group[route[k]] = group[route[k + 1]] = f"g{route[k]}"
    for number in range(20):
        firsts = [start[k][0] for k in rng.choice(len(start), 5, replace=False)]
        if len({ride[c] for c in firsts}) == len(firsts):
            for c in firsts:
                apart[c] = f"x{number}"
    asked = Constraints(
        fleet,
        durations=plain.distances * 60,
        service=np.r_[0, np.ones(n)],
        vehicle=("", *np.where(rng.random(n) < 0.2, "a|b", "")),
        not_vehicle=("", *np.where(rng.random(n) < 0.2, f"b {half}", "")),
        priority=np.r_[0, rng.integers(1, 5, n)],
        group=tuple(group),
        apart=tuple(apart),
    )
    return plain, plain.replace(constraints=asked), start


def _meet(ride: dict[int, int], stops: list[int]) -> bool:
    """Whether all of these ride together."""
    return len({ride[c] for c in stops}) == 1


def wide(rounds: int = 3, iterations: int = 100_000, turns: int = 6) -> None:
    """1,000 orders, every limit on and none binding: cost and CPU seconds."""
    rows: list[dict[str, Any]] = []
    for seed in range(rounds):
        plain, limited, start = wide_day(seed)
        settings = PolishSettings(seed, iterations, 1)
        row: dict[str, Any] = {"seed": seed, "plain_cpu": [], "limited_cpu": []}
        for turn in range(turns):  # the first one loads the kernels
            begin = time.process_time()
            free = polish(plain, start, settings, Deadline.never())
            middle = time.process_time()
            kept = search_limited(
                limited, dict(enumerate(start)), settings, Deadline.never()
            )
            end = time.process_time()
            if turn:
                row["plain_cpu"].append(middle - begin)
                row["limited_cpu"].append(end - middle)
        verdict = judge(limited, Solution(kept.values(), kept.keys()))
        assert verdict.feasible
        row |= {"plain": free.cost, "limited": verdict.cost}
        row["ratio"] = float(np.median(np.divide(row["limited_cpu"], row["plain_cpu"])))
        rows.append(row)
        print(json.dumps(row), flush=True)
    _write("wide", rows)


def warm(days: int = 24, seconds: float = 1.0) -> None:
    """A warm start from yesterday beside a fresh run, at equal CPU seconds."""
    rows: list[dict[str, Any]] = []
    wall, time.perf_counter = time.perf_counter, time.process_time
    for index in range(days):
        before, today, rename = two_days(100 + index)
        effort = SolveOptions(time_limit=seconds, threads=1)
        plan = known_today(solve(before, effort).solution, rename)
        fresh = solve(today, effort).verdict.cost
        started = solve(today, effort, start=plan.routes).verdict.cost
        rows.append({"day": index, "fresh": fresh, "warm": started})
        print(json.dumps(rows[-1]), started / fresh - 1, flush=True)
    time.perf_counter = wall
    _write("warm", rows)


def _read(name: str) -> list[dict[str, Any]]:
    path = RESULTS / f"dispatch-{name}.json"
    if not path.exists():
        return []
    rows: list[dict[str, Any]] = json.loads(path.read_text())["rows"]
    return rows


def _write(name: str, rows: list[dict[str, Any]]) -> None:
    document = {**facts(), "rows": rows}
    path = RESULTS / f"dispatch-{name}.json"
    path.write_text(json.dumps(document, indent=1) + "\n")


def main() -> None:
    """Run one of the measurements."""
    name, *rest = sys.argv[1:]
    if name == "peer":
        days = range(EACH * len(SIZES))
        if rest and ":" in rest[-1]:
            low, high = map(int, rest.pop().split(":"))
            days = range(low, high)
        peer([float(word) for word in rest], days)
        return
    if name == "keep":
        kinds = rest[1:] if rest[:1] == ["--kind"] else list(KINDS)
        rows = [r for r in _read("keep") if r.get("kind") in KINDS.keys() - set(kinds)]
        rows += keep(kinds)
        _write("keep", rows)
        draw(rows)
        return
    {"wide": wide, "warm": warm}[name]()


if __name__ == "__main__":
    main()
