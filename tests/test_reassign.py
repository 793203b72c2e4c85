"""The assignment again: exact insertion costs, feasible, never longer, repeatable."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterfirst.clock import Deadline
from clusterfirst.compiled import Flat
from clusterfirst.errors import InputError
from clusterfirst.instance import Instance
from clusterfirst.search.local_search import descend, notes_for
from clusterfirst.search.reassign import (
    ReassignSettings,
    insertion_costs,
    problem_of,
    reassign,
    reassign_once,
    take,
)
from clusterfirst.search.regions import Region, make_region, whole_ground
from clusterfirst.solution import Solution, judge
from clusterfirst.solver import SolveOptions, solve

NEVER = Deadline.never()


def make_instance(seed: int, n: int, rounding: str = "none") -> Instance:
    """Some places on a grid, so that ties and twins occur; some demands of zero."""
    rng = np.random.default_rng(seed)
    coords = rng.random((n + 1, 2)) * 100
    coords[::3] = np.round(coords[::3], -1)
    demands = np.concatenate([[0], rng.integers(0, 10, n)])
    return Instance(demands, capacity=25, coords=coords, rounding=rounding)


def in_order(instance: Instance) -> list[list[int]]:
    """Fill one vehicle after the other in the order of the customers."""
    routes: list[list[int]] = [[]]
    load = 0
    for c in range(1, instance.num_customers + 1):
        units = int(instance.demand_units[c])
        if load + units > instance.capacity_units:
            routes.append([])
            load = 0
        routes[-1].append(c)
        load += units
    return routes


def cost_of(instance: Instance, routes: list[list[int]]) -> float:
    verdict = judge(instance, Solution(routes))
    assert verdict.feasible, verdict.violations
    return verdict.cost


def region_of(instance: Instance, seed: int) -> Region:
    routes = Flat.of(in_order(instance))
    return make_region(whole_ground(instance, 10), routes, len(routes.sizes), seed)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    st.integers(0, 10**6),
    st.integers(2, 60),
    st.integers(0, 6),
    st.sampled_from(["none", "round", "exact"]),
)
def test_feasible_and_never_longer(
    seed: int, n: int, rounds: int, rounding: str
) -> None:
    """Whatever the start, the judge accepts the routes and they are not longer."""
    instance = make_instance(seed, n, rounding)
    start = in_order(instance)
    found = reassign(instance, start, ReassignSettings(rounds, seed), NEVER)
    assert cost_of(instance, found) <= cost_of(instance, start) * (1 + 1e-12)
    assert len(found) <= len(start)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(2, 40))
def test_change_reported_is_the_change(seed: int, n: int) -> None:
    """Each round's own sum equals a fresh count, group by group undone or kept."""
    instance = make_instance(seed, n)
    region = region_of(instance, seed)
    cost = cost_of(instance, in_order(instance))
    for _ in range(3):
        change = reassign_once(region, NEVER)
        assert change <= 0.0
        cost += change
        assert cost_of(instance, region.routes(best=False).lists()) == pytest.approx(
            cost
        )


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(2, 30))
def test_insertion_costs_equal_brute_force(seed: int, n: int) -> None:
    """Each cost is the least over all places left; of two neighbours one stays."""
    instance = make_instance(seed, n)
    region = region_of(instance, seed)
    rows = region.members
    out = take(region)
    left = set(rows[out].tolist())
    rests = [[c for c in route if c not in left] for route in in_order(instance)]
    for route in in_order(instance):
        for one, other in pairwise(route):
            assert not {one, other} <= left
    vehicle, cost = insertion_costs(region, out)
    for i, c in enumerate(rows[out].tolist()):
        assert c in in_order(instance)[vehicle[i, 0]]
        for r, added in zip(vehicle[i], cost[i], strict=True):
            if r < 0:
                assert added == np.inf
                continue
            stops = [0, *rests[r], 0]
            least = min(
                instance.lengths(a, c) + instance.lengths(c, b) - instance.lengths(a, b)
                for a, b in pairwise(stops)
            )
            assert added == pytest.approx(float(least), abs=1e-9)


def test_problem_holds_everyone() -> None:
    """Those who left and what stayed are all the demand; what stayed is bound."""
    instance = make_instance(5, 40)
    region = region_of(instance, 5)
    out = take(region)
    problem = problem_of(region, out)
    assert problem.demands.sum() == instance.demand_units.sum()
    assert problem.candidates is not None
    bound = problem.candidates[len(out) :]
    assert (bound[:, 0] >= 0).all()
    assert (bound[:, 1:] == -1).all()


def test_finds_a_crossed_pair() -> None:
    """Two full routes that serve each other's customers are put right."""
    left = [[-10.0, y] for y in (1.0, 2.0, 3.0, 4.0)]
    right = [[10.0, y] for y in (1.0, 2.0, 3.0, 4.0)]
    coords = np.array([[0.0, 0.0], *left, *right])
    instance = Instance(np.array([0] + [1] * 8), capacity=4, coords=coords)
    start = [[1, 2, 7, 4], [5, 6, 3, 8]]
    found = reassign(instance, start, ReassignSettings(20), NEVER)
    assert sorted(map(sorted, found)) == [[1, 2, 3, 4], [5, 6, 7, 8]]


def test_same_seed_same_routes() -> None:
    """Equal seeds give equal routes; no clock is looked at."""
    instance = make_instance(3, 120)
    start = in_order(instance)
    one, two = (
        reassign(instance, start, ReassignSettings(6, seed=9), NEVER) for _ in range(2)
    )
    assert one == two


def test_a_passed_deadline_returns_the_start() -> None:
    """Without time the start comes back as it was."""
    instance = make_instance(4, 30)
    start = in_order(instance)
    assert reassign(instance, start, ReassignSettings(), Deadline.after(0.0)) == start


def test_descent_inside_keeps_everyone_in_their_route() -> None:
    """The descent that puts routes in order moves nobody between them."""
    region = region_of(make_instance(8, 60), 0)
    before = region.tours.route.copy()
    notes = notes_for(region.ground, region.tours)
    assert descend(region.ground, region.tours, notes, 10**6, True) < 0.0
    assert (region.tours.route == before).all()


def test_option_of_solve() -> None:
    """`reassign` never makes the answer without polish longer, and says what it did."""
    instance = make_instance(6, 150)
    plain = SolveOptions("sweep", polish=False, iterations=1)
    again = SolveOptions("sweep", polish=False, iterations=1, reassign=5)
    found = solve(instance, again)
    assert found.verdict.cost < solve(instance, plain).verdict.cost
    assert any(note.startswith("reassign: cost") for note in found.notes)


@pytest.mark.parametrize("given", [{"reassign": -1}, {"reassign": 1, "method": "hgs"}])
def test_refused_values(given: dict[str, object]) -> None:
    """Negative counts, and peers (they run as they are), are refused in a sentence."""
    with pytest.raises(InputError, match="reassign"):
        SolveOptions(**given)  # type: ignore[arg-type]  # a wrong value on purpose
