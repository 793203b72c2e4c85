"""The paper's own theorems as tests: [L1], [L2], [P1], [P2], [P3] (its Appendix C).

The networks are untrained but seeded: the theorems hold for any weights. That
pre-training too is invariant is tested in test_embed.py.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from random import Random

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterfirst.networks.model_folder import load_model
from clusterfirst.networks.network import Network
from clusterfirst.networks.neural import NeuralScorer
from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.stages.assignment.assign import assign
from clusterfirst.stages.assignment.problem import AssignProblem, AssignSettings
from clusterfirst.stages.tours.routing import tours
from networks import KINDS, PSI, SMALL, small_day, small_network
from strategies import instances, partitions

Floats = npt.NDArray[np.float64]
ISOMETRIES = ("translation", "rotation", "quarter turn", "reflection", "all")


def moved(coords: Floats, kind: str, size: float = 1.0) -> Floats:
    """Coordinates after an isometry of the plane."""
    turn = {"rotation": 0.7, "quarter turn": np.pi / 2, "all": 2.3}.get(kind, 0.0)
    c, s = np.cos(turn), np.sin(turn)
    out = coords @ np.array([[c, s], [-s, c]])
    if kind in ("reflection", "all"):
        out = out * [-1.0, 1.0]
    if kind in ("translation", "all"):
        out = out + np.array([3.0, -5.0]) * size
    return out


def on_the_move(day: Instance, kind: str) -> Instance:
    """The same day after an isometry; its city rows stay."""
    return day.replace(coords=moved(day.plane, kind))


def pipeline(trained: Network, day: Instance) -> Solution:
    """Seeds, costs, exact assignment, tours: Eq. 8 of the paper, K_min vehicles."""
    scores = NeuralScorer(trained, day, day.city_rows)(day.min_vehicles + 1)
    problem = AssignProblem(
        scores.cost,
        day.demand_units[1:],
        day.capacity_units,
        len(scores.seeds),
        scores.candidates,
    )
    exact = AssignSettings(mip_gap=0.0, seconds=math.inf, max_nodes=500)
    labels = assign(problem, "exact", exact, Deadline.never()).labels
    solution = Solution(tours(day, labels)).canonical()
    assert judge(day, solution).feasible
    return solution


# --- [L1] the problem itself -----------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(ISOMETRIES))
def test_l1_cost_and_violations_under_isometries(
    data: st.DataObject, kind: str
) -> None:
    """[L1] Any solution costs the same and violates the same on a moved map."""
    day = data.draw(instances(metrics=("euclidean",), city_rows=False))
    assert day.coords is not None
    # Smaller, so that the moved map is still within what an instance may hold.
    day = day.replace(rounding="none", coords=day.coords / 10)
    assert day.coords is not None
    solution = data.draw(partitions(day.num_customers))
    size = float(np.abs(day.coords).max(initial=1.0))
    away = day.replace(coords=moved(day.coords, kind, size))
    before, after = judge(day, solution), judge(away, solution)
    assert after.cost == pytest.approx(before.cost, rel=1e-9, abs=1e-12 * size * 100)
    assert after.loads == before.loads
    assert [v.code for v in after.violations] == [v.code for v in before.violations]


# --- [L2] solutions as multisets of undirected edges -----------------------------


def from_edges(edges: Counter[tuple[int, int]]) -> Solution:
    """Rebuild routes from the edge multiset of a feasible solution."""
    left = Counter(edges)
    neighbours: dict[int, list[int]] = {}
    for (a, b), times in edges.items():
        for _ in range(times):
            neighbours.setdefault(a, []).append(b)
            neighbours.setdefault(b, []).append(a)
    routes = []
    for start in sorted(neighbours.get(0, [])):
        if not left[0, start]:
            continue  # this route was walked from its other end
        left[0, start] -= 1
        route, here = [start], start
        while True:
            onward = next(
                (
                    b
                    for b in sorted(neighbours[here])
                    if left[min(here, b), max(here, b)]
                ),
                0,
            )
            left[min(here, onward), max(here, onward)] -= 1
            if onward == 0:
                break
            route.append(onward)
            here = onward
        routes.append(route)
    return Solution(routes).canonical()


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 9).flatmap(partitions), st.randoms())
def test_l2_routes_to_edges_and_back(solution: Solution, random: Random) -> None:
    """[L2] A solution is its multiset of undirected edges: nothing is lost or added.

    One-customer routes have their edge twice: as a set they would cost half.
    """
    assert from_edges(solution.edges()) == solution.canonical()
    routes = [r[::-1] if random.random() < 0.5 else r for r in solution.routes]
    random.shuffle(routes)
    assert Solution(routes).edges() == solution.edges()
    assert Solution(routes).canonical() == solution.canonical()


def test_l2_edge_sets_of_routes_are_disjoint() -> None:
    """[L2] Routes share customers with nobody, hence no edge, single ones included."""
    solution = Solution([[1, 2, 3], [4], [5, 6]])
    each = [set(Solution([route]).edges()) for route in solution.routes]
    assert all(not a & b for a, b in pairwise(each))
    assert solution.edges()[0, 4] == 2


# --- [P1] E(2) invariance --------------------------------------------------------


@pytest.mark.parametrize("kind", ISOMETRIES)
@pytest.mark.parametrize("network", ["psi", "relative"])
def test_p1_the_pipeline_is_invariant(kind: str, network: str) -> None:
    """[P1] Moved maps get the same undirected routes, with Psi and with ours."""
    trained = small_network(KINDS[network])
    day = small_day(24)
    away = on_the_move(day, kind)
    assert pipeline(trained, day).edges() == pipeline(trained, away).edges()


def wild_day(where: str, index: int) -> Instance:
    """A day on a random map, or on whole numbers, where many distances are equal."""
    rng = np.random.default_rng([6, index])
    coords = rng.random((25, 2))
    if where == "grid":
        coords = np.array([(x, y) for x in range(5) for y in range(5)], dtype=float)
        coords[[0, 12]] = coords[[12, 0]]  # the depot in the middle
    return Instance(demands=[0, *rng.integers(1, 10, 24)], capacity=40, coords=coords)


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize("where", ["random", "grid"])
def test_p1_the_shipped_model_is_invariant(where: str, index: int) -> None:
    """Turned, mirrored, shifted, scaled or in other units: the same groups, one cost.

    On the grid a group may have several shortest tours, so edges are not compared.
    """
    trained, day = load_model("general").network, wild_day(where, index)
    first = pipeline(trained, day)
    cost, groups = judge(day, first).cost, set(map(frozenset, first.routes))
    others = [(on_the_move(day, kind), 1.0) for kind in ISOMETRIES]
    others += [(day.replace(coords=day.plane * s), s) for s in (1e-3, 37.5)]
    others += [
        (day.replace(demands=day.demands * unit, capacity=day.capacity * unit), 1.0)
        for unit in (7, 1000, 0.25)
    ]
    for other, scale in others:
        found = pipeline(trained, other)
        assert set(map(frozenset, found.routes)) == groups
        assert judge(other, found).cost == pytest.approx(scale * cost, rel=1e-9)
        if where == "random":
            assert found.edges() == first.edges()


def test_p1_raw_coordinates_are_not_invariant() -> None:
    """Where the theorem ends: the (x, y) network sees a turned map as another one."""
    trained = small_network(SMALL)
    day = small_day(24)
    mine, theirs = (
        NeuralScorer(trained, each)(3) for each in (day, on_the_move(day, "rotation"))
    )
    differs = not np.array_equal(mine.seeds, theirs.seeds)
    assert differs or np.abs(mine.cost - theirs.cost).max() > 1e-3
    changed = [
        pipeline(trained, small_day(24, i)).edges()
        != pipeline(trained, on_the_move(small_day(24, i), "rotation")).edges()
        for i in range(3)
    ]
    assert any(changed)


def clock(hour: int = 0) -> Instance:
    """Twelve customers of demand 1 around the depot, capacity 2, turned by hours."""
    angle = 2 * np.pi * (np.arange(12) + hour) / 12
    face = np.column_stack([np.cos(angle), np.sin(angle)])
    return Instance(
        demands=[0] + [1] * 12,
        capacity=2,
        coords=np.vstack([[0.0, 0.0], face]),
        city_rows=np.arange(13),
    )


@pytest.mark.parametrize("hour", [1, 3, 5])
def test_p1_the_clock_face(hour: int) -> None:
    """[P1] On the paper's pathological case a turned clock costs the same."""
    trained = small_network(PSI)
    before, after = (judge(c, pipeline(trained, c)) for c in (clock(), clock(hour)))
    assert after.cost == pytest.approx(before.cost, rel=1e-9)


def test_the_clock_face_has_two_best_solutions() -> None:
    """Shifting all pairs by one hour gives other routes of the same cost."""
    pairs = Solution([[h, h + 1] for h in range(1, 12, 2)])
    shifted = Solution([[h, h % 12 + 1] for h in range(2, 13, 2)])
    assert pairs.canonical() != shifted.canonical()
    costs = [judge(clock(), s).cost for s in (pairs, shifted)]
    assert costs[0] == pytest.approx(costs[1], rel=1e-12)
    assert costs[0] == pytest.approx(6 * (2 + 2 * np.sin(np.pi / 12)))


# --- [P2] permutations -----------------------------------------------------------


@pytest.mark.parametrize("network", sorted(KINDS))
def test_p2_order_of_customers(network: str) -> None:
    """[P2] The order in which customers are listed does not change the routes."""
    trained = small_network(KINDS[network])
    day = small_day(24)
    rows = np.concatenate([[0], np.random.default_rng(1).permutation(24) + 1])
    assert day.coords is not None
    assert day.city_rows is not None
    shuffled = day.replace(
        coords=day.coords[rows],
        demands=day.demands[rows],
        city_rows=day.city_rows[rows],
        ids=tuple(day.ids[r] for r in rows),
    )
    back = Solution(
        [int(rows[c]) for c in route] for route in pipeline(trained, shuffled).routes
    )
    assert back.edges() == pipeline(trained, day).edges()


def test_p2_names_of_vehicles() -> None:
    """[P2] Renumbering the vehicles of an assignment does not change the tours."""
    day = small_day(24)
    labels = np.arange(24) % 4
    turn = np.array([2, 0, 3, 1])
    assert tours(day, labels) == tours(day, turn[labels])


# --- [P3] direction --------------------------------------------------------------


def test_p3_direction_of_travel() -> None:
    """[P3] A tour depends on the set of its stops, not on order or direction."""
    day = small_day(24)
    groups = [list(range(1, 9)), list(range(9, 17)), list(range(17, 25))]
    mixed = [np.random.default_rng(0).permutation(g).tolist() for g in groups]
    found = tours(day, groups)
    assert found == tours(day, mixed) == tours(day, [g[::-1] for g in groups])
    reverse = Solution(route[::-1] for route in found)
    assert reverse.edges() == Solution(found).edges()
    assert judge(day, reverse).cost == pytest.approx(judge(day, Solution(found)).cost)


def test_the_same_answer_twice() -> None:
    """The whole pipeline is a function: no randomness, no clock."""
    trained, day = small_network(PSI), small_day(24)
    assert pipeline(trained, day) == pipeline(trained, day)
