"""The judge finds every fault; solutions are sets of undirected cycles."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, costs_agree, judge
from strategies import instances, partitions, small_day

FAST = settings(max_examples=60, deadline=None)


@st.composite
def solved(draw: st.DrawFn) -> tuple[Instance, Solution]:
    """An instance large enough in capacity, and any partition of it."""
    instance = draw(instances(min_customers=1))
    capacity = max(1.0, float(np.ceil(instance.demands.sum())))
    instance = instance.replace(capacity=capacity, vehicles=None)
    return instance, draw(partitions(instance.num_customers))


@FAST
@given(solved(), st.data())
def test_writing_does_not_matter(
    pair: tuple[Instance, Solution], data: st.DataObject
) -> None:
    """Turning and reordering routes changes neither cost nor canonical form."""
    instance, solution = pair
    routes = [r[::-1] if data.draw(st.booleans()) else r for r in solution.routes]
    other = Solution(data.draw(st.permutations(routes)))
    assert other.canonical() == solution.canonical()
    assert other.edges() == solution.edges()
    cost = judge(instance, solution).cost
    assert costs_agree(judge(instance, other).cost, cost)


@FAST
@given(solved())
def test_edges_hold_the_solution(pair: tuple[Instance, Solution]) -> None:
    """Every customer has two edges, and every route two at the depot."""
    instance, solution = pair
    edges = solution.edges()
    n, k = instance.num_customers, len(solution.routes)
    assert edges.total() == n + k
    degree = np.zeros(n + 1)
    for (a, b), times in edges.items():
        degree[a] += times
        degree[b] += times
    assert degree[0] == 2 * k
    assert (degree[1:] == 2).all()


def test_one_customer_costs_the_way_twice() -> None:
    """A one-customer route has its depot edge twice (the paper, Lemma 2)."""
    day = small_day()
    alone = Solution([[1], [2], [3], [4]])
    assert alone.edges()[0, 1] == 2
    assert judge(day, alone).cost == pytest.approx(2 * day.distances[0, 1:].sum())


@FAST
@given(solved())
def test_cost_is_the_sum_of_edges(pair: tuple[Instance, Solution]) -> None:
    """Walking the routes and adding up the edge multiset give one cost."""
    instance, solution = pair
    table = instance.distances
    total = sum(table[a, b] * times for (a, b), times in solution.edges().items())
    verdict = judge(instance, solution)
    assert verdict.feasible
    assert costs_agree(verdict.cost, total)
    assert sum(verdict.loads) == pytest.approx(instance.demands.sum())


@FAST
@given(solved(), st.data())
def test_every_broken_solution_is_rejected(
    pair: tuple[Instance, Solution], data: st.DataObject
) -> None:
    """Leaving out, doubling, inventing, overloading or lying is found by code."""
    instance, solution = pair
    routes = [list(route) for route in solution.routes]
    r = data.draw(st.integers(0, len(routes) - 1))
    fault = data.draw(
        st.sampled_from(["E801", "E802", "E803", "E804", "E805", "E806", "E807"])
    )
    stated = None
    if fault == "E801":
        whole = np.maximum(instance.demand_units, 1)
        whole[0] = 0
        load = int(whole[routes[r]].sum())
        if load == whole[routes[r]].max():
            return  # one customer cannot overload by sharing
        instance = instance.replace(demands=whole, capacity=load - 1)
    elif fault == "E802":
        routes[r].pop()
    elif fault == "E803":
        routes[r].append(routes[0][0])
    elif fault == "E804":
        wrong = data.draw(st.sampled_from([0, -1, instance.num_customers + 1]))
        routes[r].append(wrong)
    elif fault == "E805":
        routes.append([])
    elif fault == "E806":
        stated = judge(instance, solution).cost * 1.001 + 0.01
    else:
        routes.append([])
        instance = instance.replace(vehicles=len(solution.routes))
    verdict = judge(instance, Solution(routes), stated_cost=stated)
    assert fault in {problem.code for problem in verdict.violations}
    assert not verdict.feasible


def test_overload_by_one_unit_is_seen() -> None:
    """Loads are compared in exact units, however small the last decimal."""
    day = small_day().replace(demands=[0, 2.5, 2.5, 2.5, 0.000001], capacity=7.5)
    assert judge(day, Solution([[1, 2, 3], [4]])).feasible
    verdict = judge(day, Solution([[1, 2, 3, 4]]))
    assert [problem.code for problem in verdict.violations] == ["E801"]


def test_no_customers_no_routes() -> None:
    """Nothing to do costs nothing and is feasible."""
    empty = Instance(demands=[0], capacity=1, coords=[[0, 0]])
    verdict = judge(empty, Solution([]))
    assert verdict.feasible
    assert verdict.cost == 0


@FAST
@given(
    instances(min_customers=0, max_customers=6),
    st.lists(st.lists(st.integers(-2, 9) | st.just(10**30), max_size=6), max_size=5),
)
def test_the_judge_counts_as_one_would_by_hand(
    instance: Instance, routes: list[list[int]]
) -> None:
    """Any lists of numbers: loads, cost and visits equal a walk stop by stop."""
    n = instance.num_customers
    known = [[c for c in route if 1 <= c <= n] for route in routes]
    walks = [[0, *route, 0] if route else [] for route in known]
    cost = sum(
        float(instance.distances[a, b]) for walk in walks for a, b in pairwise(walk)
    )
    verdict = judge(instance, Solution(routes))
    assert costs_agree(verdict.cost, cost)
    loads = [sum(float(instance.demands[c]) for c in route) for route in known]
    assert verdict.loads == pytest.approx(loads)
    found = Counter(problem.code for problem in verdict.violations)
    visits = Counter(c for route in known for c in route)
    strangers = sum(not 1 <= c <= n for route in routes for c in route)
    assert found["E804"] == strangers
    assert found["E805"] == sum(not route for route in known)
    assert found["E802"] == sum(not visits[c] for c in range(1, n + 1))
    assert found["E803"] == sum(times > 1 for times in visits.values())
