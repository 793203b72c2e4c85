"""The genetic search of small maps: crossover, split, descent, colony, whole runs."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.sampling import sample_uniform
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.search.genetic import colony as colonies
from clusterfirst.stages.search.genetic import evolution
from clusterfirst.stages.search.genetic.breeding import Breeding
from clusterfirst.stages.search.genetic.colony import ABOVE, FITTING, MOST, colony_for
from clusterfirst.stages.search.polish import PolishSettings, polish
from clusterfirst.stages.search.regions import whole_data
from clusterfirst.stages.search.schedule import Schedule

NEVER = Deadline.never()
Lists = list[list[int]]


@njit
def split(data: Any, state: Any) -> None:
    """A door for Python, which inner kernels have not."""
    evolution.split(data, state.tours, state.descent, state.nursery)


@njit
def cross(state: Any) -> None:
    """A door for Python."""
    evolution.cross(state.descent, state.colony, state.nursery)


@njit
def join_colony(state: Any) -> None:
    """A door for Python, for routes that fit."""
    tours, descent, _, colony, nursery = state
    evolution.join_colony(tours, descent, colony, nursery, 0)


@njit
def descend(data: Any, state: Any) -> None:
    """A door for Python."""
    evolution.descend(data, state.tours, state.descent, state.exchanges)


@njit
def welcome(colony: Any, slot: int, price: float) -> None:
    """A door for Python."""
    colonies.welcome(colony, slot, price)


@njit
def judge_members(colony: Any, part: int) -> None:
    """A door for Python."""
    colonies.judge_members(colony, part)


@njit
def sort_again(colony: Any, price: float) -> None:
    """A door for Python."""
    colonies.sort_again(colony, price)


def corner_map(seed: int, n: int = 14, capacity: int = 20) -> Instance:
    """Customers seen from a depot in the corner, so that no sector goes round."""
    rng = np.random.default_rng(seed)
    coords = np.vstack([[-1.0, -1.0], rng.random((n, 2)) * 10])
    demands = np.concatenate([[0], rng.integers(1, 10, n)])
    return Instance(demands=demands, capacity=capacity, coords=coords)


def breeding(instance: Instance, routes: Lists, seed: int = 0) -> Breeding:
    """A colony whose lists of neighbours are complete."""
    n = instance.num_customers
    data, start = whole_data(instance, n), Routes.of(routes)
    return Breeding(instance, data, start, PolishSettings(seed), 0)


def linked(found: Breeding) -> Lists:
    """The routes that stand in the tours of a colony, in rows of the instance."""
    tours, n = found.state.tours, len(found.rows) - 1
    routes = []
    for depot in range(n + 1, n + 1 + len(tours.load)):
        route, node = [], int(tours.after[depot])
        while node != depot:
            route.append(int(found.rows[node]))
            node = int(tours.after[node])
        routes.append(route)
    return routes


def penalised(instance: Instance, routes: Lists, price: float) -> float:
    """Length and the price of loads above the capacity."""
    total = 0.0
    for route in routes:
        path = np.array([0, *route, 0])
        load = int(instance.demand_units[route].sum()) if route else 0
        total += float(instance.lengths(path[:-1], path[1:]).sum())
        total += price * max(0, load - instance.capacity_units)
    return total


def moves_of_nodes(routes: Lists) -> list[Lists]:
    """Every relocation of one or two customers, swap, 2-opt and 2-opt*."""
    found = []
    for a, b in itertools.product(range(len(routes)), repeat=2):
        for i, j in itertools.product(range(len(routes[a])), range(len(routes[b]) + 1)):
            for size, turn in ((1, False), (2, False), (2, True)):
                taken = routes[a][i : i + size]
                if len(taken) < size:
                    continue
                rest = [route.copy() for route in routes]
                del rest[a][i : i + size]
                at = min(j, len(rest[b]))
                rest[b][at:at] = taken[::-1] if turn else taken
                found.append(rest)
            swaps = [(1, 1), (2, 1), (2, 2)]
            for mine, theirs in swaps if a != b else []:
                one, two = routes[a][i : i + mine], routes[b][j : j + theirs]
                if len(one) == mine and len(two) == theirs:
                    rest = [route.copy() for route in routes]
                    rest[a][i : i + mine], rest[b][j : j + theirs] = two, one
                    found.append(rest)
        for i, j in itertools.product(
            range(len(routes[a]) + 1), range(len(routes[b]) + 1)
        ):
            rest = [route.copy() for route in routes]
            if a == b:
                rest[a][i:j] = rest[a][i:j][::-1]
            else:
                rest[a] = routes[a][:i] + routes[b][j:]
                rest[b] = routes[b][:j] + routes[a][i:]
            found.append(rest)
    return found


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_no_move_pays_after_a_descent(seed: int, wide: bool) -> None:
    """Brute force over all moves of nodes finds no cheaper neighbour."""
    instance = corner_map(seed, capacity=45 if wide else 20)
    found = breeding(instance, [[c] for c in range(1, 15)], seed)
    found.breed(1)
    price = float(found.state.descent.price[0])
    descend(found.data, found.state)
    routes = linked(found)
    assert sorted(itertools.chain(*routes)) == list(range(1, 15))
    now = penalised(instance, routes, price)
    least = min(penalised(instance, other, price) for other in moves_of_nodes(routes))
    assert least >= now - 1e-6


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_no_exchange_pays_after_a_descent(seed: int) -> None:
    """No two customers of routes that overlap gain by changing routes (SWAP*)."""
    instance = corner_map(seed)
    found = breeding(instance, [[c] for c in range(1, 15)], seed)
    found.breed(2)
    price = float(found.state.descent.price[0])
    descend(found.data, found.state)
    routes = [route for route in linked(found) if route]
    now = penalised(instance, routes, price)
    for one, two in itertools.combinations(range(len(routes)), 2):
        if not overlap(instance, routes[one], routes[two]):
            continue
        for u, v in itertools.product(routes[one], routes[two]):
            first = [c for c in routes[one] if c != u]
            second = [c for c in routes[two] if c != v]
            rest = [r for k, r in enumerate(routes) if k not in (one, two)]
            ways = itertools.product(inserted(first, v), inserted(second, u))
            assert all(
                penalised(instance, [*rest, a, b], price) >= now - 1e-6 for a, b in ways
            )


def inserted(route: list[int], customer: int) -> Lists:
    """The customer at every place of the route."""
    return [[*route[:i], customer, *route[i:]] for i in range(len(route) + 1)]


def overlap(instance: Instance, one: list[int], two: list[int]) -> bool:
    """Whether the sectors of two routes do, seen from a depot in the corner."""
    x, y = (instance.plane - instance.plane[0]).T
    angles = np.arctan2(y, x)
    a, b = angles[one], angles[two]
    return bool(a.min() < b.max() - 1e-3 and b.min() < a.max() - 1e-3)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("most", [9, 3])
def test_split_is_the_best_cut(seed: int, most: int) -> None:
    """No other cut is cheaper, loads above the capacity at a price; nor one of few."""
    instance = corner_map(seed, n=9, capacity=90).replace(vehicles=most)
    found = breeding(instance, [list(range(1, 10))])
    found.data = found.data._replace(capacity=17)
    instance = instance.replace(capacity=17, vehicles=9)
    price = 0.05
    found.state.descent.price[0] = price
    found.state.nursery.order[:] = np.random.default_rng(seed).permutation(9) + 1
    split(found.data, found.state)
    order = found.rows[found.state.nursery.order].tolist()
    assert list(itertools.chain(*linked(found))) == order
    cuts = [
        [order[a:b] for a, b in itertools.pairwise([0, *inner, 9])]
        for count in range(9)
        for inner in itertools.combinations(range(1, 9), count)
    ]
    usual = [each for each in cuts if not any(heavy(instance, r) for r in each)]
    best = min(usual, key=lambda routes: penalised(instance, routes, price))
    if len(best) > len(found.state.tours.load):  # then few, however heavy
        few = [each for each in cuts if len(each) <= len(found.state.tours.load)]
        best = min(few, key=lambda routes: penalised(instance, routes, price))
    assert penalised(instance, linked(found), price) == pytest.approx(
        penalised(instance, best, price)
    )


def heavy(instance: Instance, route: list[int]) -> bool:
    """Whether several customers load more than split usually lets them."""
    load = int(instance.demand_units[route].sum())
    return len(route) > 1 and load > evolution.SPLIT_LOAD * instance.capacity_units


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 20))
def test_children_take_after_two_members(seed: int, n: int) -> None:
    """A child is everybody once: a part as in one member, the rest as in another."""
    instance = sample_uniform(n, seed=seed, index=0)
    found = breeding(instance, [[c] for c in range(1, n + 1)], seed)
    found.breed(12)
    cross(found.state)
    child = found.state.nursery.order.tolist()
    assert sorted(child) == list(range(1, n + 1))
    colony = found.state.colony
    slots = [
        int(s) for part in (0, 1) for s in colony.members[part, : colony.sizes[part]]
    ]
    tours = [colony.tours[slot].tolist() for slot in slots]
    assert any(
        is_child(child, a, b, start, size)
        for a, b in itertools.product(tours, repeat=2)
        for start in range(n)
        for size in range(1, n + 1)
    )


def is_child(
    child: list[int], a: list[int], b: list[int], start: int, size: int
) -> bool:
    """Whether order crossover of a and b at this place gives the child."""
    n = len(child)
    kept = [a[(start + i) % n] for i in range(size)]
    if [child[(start + i) % n] for i in range(size)] != kept:
        return False
    end = start + size
    others = [b[(end + i) % n] for i in range(n)]
    rest = [child[(end + i) % n] for i in range(n - size)]
    return rest == [c for c in others if c not in kept]


def member(colony: Any, slot: int, routes: Lists, length: float, excess: int) -> None:
    """Write an individual into a slot."""
    colony.tours[slot] = list(itertools.chain(*routes))
    for route in routes:
        for a, b in itertools.pairwise([0, *route, 0]):
            if a:
                colony.onward[slot, a] = b
            if b:
                colony.back[slot, b] = a
    colony.length[slot], colony.excess[slot] = length, excess


def test_a_colony_keeps_the_cheap_and_different() -> None:
    """Sorted by cost; too many are reduced, twins first, never the cheapest."""
    rng = np.random.default_rng(3)
    colony = colony_for(12)
    for slot in range(MOST):
        order = rng.permutation(12) + 1
        if slot % 3 == 1:  # a twin of the one before
            order = colony.tours[slot - 1].astype(int)
        routes = [order[:5].tolist(), order[5:].tolist()]
        member(colony, slot, routes, float(100 + slot), 0)
        welcome(colony, slot, 1.0)
        kept = colony.members[FITTING, : colony.sizes[FITTING]].tolist()
        assert kept == sorted(kept)
    assert len(kept) == colonies.LEAST
    assert kept[0] == 0
    differ = colony.differ[np.ix_(kept, kept)]
    assert (differ == differ.T).all()
    apart = differ[~np.eye(len(kept), dtype=bool)]
    assert apart.min() > 0.0
    assert colony.sizes[ABOVE] == 0
    judge_members(colony, FITTING)
    fitness = colony.fitness[kept]
    assert fitness[0] < fitness.mean()
    assert colony.free.sum() == len(colony.free) - len(kept)


def test_the_price_sorts_those_above_the_capacity() -> None:
    """A heavier one comes behind when load is dear."""
    colony = colony_for(4)
    member(colony, 0, [[1, 2, 3, 4]], 10.0, 5)
    member(colony, 1, [[1, 2], [3, 4]], 12.0, 1)
    for slot in (0, 1):
        welcome(colony, slot, 0.1)
    assert colony.members[ABOVE, :2].tolist() == [0, 1]
    sort_again(colony, 1.0)
    assert colony.members[ABOVE, :2].tolist() == [1, 0]


def test_routes_of_neighbours_follow_each_other() -> None:
    """The tour of a member goes round the depot, and through each route as it is."""
    coords = np.array([[0, 0], [1, 1], [-1, -1], [1, -1], [2, 2], [-1, 1.0]])
    instance = Instance(demands=np.array([0, 1, 1, 1, 1, 1]), capacity=2, coords=coords)
    found = breeding(instance, [[5], [4, 1], [3], [2]])
    join_colony(found.state)
    tour = found.rows[found.state.colony.tours[0]].tolist()
    assert tour == [2, 3, 4, 1, 5]
    lists = found.best.lists()
    assert sorted(map(tuple, lists)) == [(2,), (3,), (4, 1), (5,)]
    assert found.length == pytest.approx(penalised(instance, lists, 0.0))


@pytest.mark.parametrize("n", [1, 2, 3, 7, 60, 150])
def test_the_best_is_feasible_and_never_lost(n: int) -> None:
    """Whatever was bred, the best routes are feasible and as long as is said."""
    instance = sample_uniform(n, seed=4, index=0)
    found = breeding(instance, [[c] for c in range(1, n + 1)])
    before = math.inf
    for _ in range(5):
        found.breed(40)
        assert found.length <= before
        before = found.length
    verdict = judge(instance, Solution(found.best.lists()))
    assert verdict.feasible
    assert verdict.cost == pytest.approx(found.length)


def test_no_child_needs_more_vehicles_than_there_are() -> None:
    """The fewest vehicles are enough for the whole search."""
    instance = sample_uniform(30, seed=4, index=0)
    fewest = instance.min_vehicles
    limited = instance.replace(vehicles=fewest)
    answer = polish(limited, packed(limited), PolishSettings(iterations=12_000), NEVER)
    assert len(answer.routes) <= fewest
    assert judge(limited, Solution(answer.routes)).feasible


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 9))
def test_a_start_is_kept_where_no_child_is_feasible(seed: int, n: int) -> None:
    """Tiny days with tight loads and fleets never lose the routes they had."""
    rng = np.random.default_rng(seed)
    instance = Instance(
        demands=np.concatenate([[0], rng.integers(90_000, 190_000, n)]),
        capacity=300_000,
        coords=rng.random((n + 1, 2)),
    )
    start = [[c] for c in range(1, n + 1)]
    limited = instance.replace(vehicles=n)
    answer = polish(limited, start, PolishSettings(0, 280, threads=1), NEVER)
    verdict = judge(limited, Solution(answer.routes))
    assert verdict.feasible
    assert verdict.cost == pytest.approx(answer.cost)
    assert verdict.cost <= judge(limited, Solution(start)).cost + 1e-9


def packed(instance: Instance) -> Lists:
    """Routes that use the fewest vehicles: largest demands first, where they fit."""
    routes: Lists = [[] for _ in range(instance.min_vehicles)]
    loads = np.zeros(len(routes))
    for c in np.argsort(-instance.demand_units[1:]) + 1:
        fullest = np.where(
            loads + instance.demand_units[c] <= instance.capacity_units, loads, -1
        )
        r = int(np.argmax(fullest))
        routes[r].append(int(c))
        loads[r] += instance.demand_units[c]
    return routes


@pytest.mark.parametrize("threads", [1, 3])
def test_bred_answers_are_repeatable(threads: int) -> None:
    """The same seed and count give the same routes, another seed others."""
    instance = sample_uniform(60, seed=6, index=0)
    start = [[c] for c in range(1, 61)]
    first, second, other = (
        polish(instance, start, PolishSettings(seed, 6000, threads), NEVER)
        for seed in (1, 1, 2)
    )
    assert first.routes == second.routes
    assert first.history[1:] != other.history[1:]


def test_schedule_of_children() -> None:
    """Falls, then the genetic search; small maps with much time alone."""
    small, large = (sample_uniform(n, seed=7, index=0) for n in (80, 1000))
    for iterations in (8_000, 40_000, 400_000):
        chosen = PolishSettings(0, iterations)
        plan = Schedule.of(small, chosen, NEVER, breeds=True)
        assert 0 < plan.bred < plan.rounds
        first = plan.rounds - plan.bred
        assert first == plan.falls * plan.per_fall
        assert first / plan.rounds <= chosen.annealed + 0.1
        assert [plan.breeds(step) for step in (first - 1, first)] == [False, True]
        assert Schedule.of(small, chosen, NEVER).bred == 0
        assert Schedule.of(large, chosen, NEVER, breeds=True).bred == 0
    few = Schedule.of(small, PolishSettings(0, 2_000), NEVER, breeds=True)
    assert few.bred == 0
