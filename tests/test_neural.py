"""From instances to scores: batches, fleets, plans, repeatability."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from clusterfirst.networks import encoder, neural
from clusterfirst.networks import network as networks
from clusterfirst.networks.neural import NeuralScorer
from clusterfirst.networks.nodes import describe
from clusterfirst.networks.plan import transport_plan
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.sampling import sample_world
from clusterfirst.solving import neural as asking
from clusterfirst.solving.neural import requests
from clusterfirst.solving.options import DecodingSettings, NeuralSettings
from clusterfirst.stages.scores import Decoded, Scores
from networks import KINDS, RELATIVE, nodes_of, small_day, small_network


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_scores_have_the_shape_of_the_problem(kind: str) -> None:
    """Distinct seeds, never the depot, and finite costs of at least 0."""
    day = small_day(30)
    scores = NeuralScorer(small_network(KINDS[kind]), day, day.city_rows)(
        day.min_vehicles
    )
    assert len(set(scores.seeds.tolist())) == len(scores.seeds) <= day.min_vehicles
    assert ((scores.seeds >= 1) & (scores.seeds <= 30)).all()
    assert scores.candidates is not None
    assert scores.cost.shape == scores.candidates.shape
    assert (scores.cost[scores.candidates >= 0] >= 0).all()
    assert np.isfinite(scores.cost[scores.candidates >= 0]).all()


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_detours_are_part_of_costs_that_know_geometry(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the weight adds is the insertion cost; the paper's costs stay as printed."""
    day = small_day(30)
    network = small_network(KINDS[kind])
    seeds = np.array([3, 11, 27, 8])
    costs = []
    for weight in (0.0, 0.01, 0.03):
        monkeypatch.setattr(neural, "DETOUR_WEIGHT", weight)
        found = NeuralScorer(network, day, day.city_rows).at(seeds)
        assert found.candidates is not None
        order = np.argsort(found.candidates, axis=1)
        costs.append(np.take_along_axis(found.cost, order, axis=1))
    plain, some, more = costs
    if not network.config.pair_head:
        assert np.array_equal(plain, more)
        return
    d = day.distances
    detour = d[1:, [0]] + d[1:, seeds] - d[0, seeds]
    added = (some - plain) / 0.01
    assert np.allclose(more - plain, 3 * (some - plain), atol=1e-5)
    unit = (detour * added).sum() / (added**2).sum()  # length of the spacing
    assert 0 < unit < d.max()
    assert np.allclose(added * unit, detour, atol=1e-3 * d.max())


def test_the_same_twice() -> None:
    """Two runs give the same bytes; noise depends on its seed alone."""
    scorer = NeuralScorer(small_network(RELATIVE), small_day(40))
    once, twice = (scorer(6) for _ in range(2))
    assert np.array_equal(once.cost, twice.cost)
    noisy = [scorer(6, noise=2.0, seed=s) for s in (1, 1, 2)]
    assert np.array_equal(noisy[0].seeds, noisy[1].seeds)
    assert not np.array_equal(noisy[0].seeds, noisy[2].seeds)


@pytest.mark.parametrize("fill", ["capacity", "mean"])
def test_an_extra_vehicle(fill: str) -> None:
    """With the mean fill K_min + 1 seeds are real; filled to Q they may be fewer."""
    network = small_network(replace(KINDS["xy"], fill=fill))
    for index in range(5):
        day = small_day(40, index)
        seeds = NeuralScorer(network, day)(day.min_vehicles + 1).seeds
        if fill == "mean":
            assert len(seeds) == day.min_vehicles + 1
        else:
            assert day.min_vehicles <= len(seeds) <= day.min_vehicles + 1


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("customers", [0, 1, 2])
def test_tiny_days(kind: str, customers: int) -> None:
    """No customer, one and two: no crash, no NaN."""
    day = small_day(customers)
    scores = NeuralScorer(small_network(KINDS[kind]), day, day.city_rows)(
        max(1, day.min_vehicles)
    )
    assert scores.cost.shape[0] == customers
    assert not np.isnan(scores.cost).any()


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_plan_rows_sum_to_one(kind: str) -> None:
    """Each customer's shares add up to 1 and no vehicle carries far above Q."""
    day = small_day(40)
    scores = NeuralScorer(small_network(KINDS[kind]), day, day.city_rows)(
        day.min_vehicles + 1
    )
    plan = transport_plan(day, scores)
    assert plan.shape == (40, len(scores.seeds))
    assert np.allclose(plan.sum(axis=1), 1.0, atol=1e-6)
    loads = (day.demand_units[1:, None] * plan).sum(axis=0) / day.capacity_units
    assert loads.max() < 1.05


def test_plan_without_slack() -> None:
    """Demand that is an exact multiple of Q leaves no slack and gives no NaN."""
    day = Instance(
        demands=[0, 5, 5, 5, 5],
        capacity=10,
        coords=[[0, 0], [1, 0], [1, 0.1], [-1, 0], [-1, 0.1]],
    )
    scores = NeuralScorer(small_network(RELATIVE), day)(2)
    plan = transport_plan(day, scores)
    assert np.isfinite(plan).all()
    assert np.allclose(plan.sum(axis=0), 2.0, atol=0.02)


def test_demand_units_not_demands() -> None:
    """Fractional demands reach the networks as exact units: the scores agree."""
    whole = small_day(20)
    split = whole.replace(demands=whole.demands / 10, capacity=whole.capacity / 10)
    network = small_network(RELATIVE)
    mine, theirs = (NeuralScorer(network, day)(3) for day in (whole, split))
    assert np.array_equal(mine.seeds, theirs.seeds)
    assert np.allclose(mine.cost, theirs.cost, atol=1e-5)
    assert nodes_of(split).demands.dtype == np.int64


def test_blocks_of_customers_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scoring a few pairs at a time gives the seeds and costs of all at once."""
    day = small_day(60)
    scorer = NeuralScorer(small_network(RELATIVE), day)
    whole = scorer(day.min_vehicles)
    monkeypatch.setattr(networks, "PAIRS", 7)
    blocks = scorer(day.min_vehicles)
    assert np.array_equal(blocks.seeds, whole.seeds)
    assert np.array_equal(blocks.candidates, whole.candidates)  # type: ignore[arg-type]  # limited here
    assert np.allclose(blocks.cost, whole.cost, atol=1e-5)


def test_too_many_cells_leave_the_best_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large day keeps its cheapest seeds; a smaller one keeps all."""
    network, days = small_network(), [small_day(60), small_day(40, index=1)]
    scorers = [NeuralScorer(network, day, day.city_rows) for day in days]
    fleets = [day.min_vehicles for day in days]
    whole = [scorer(fleet) for scorer, fleet in zip(scorers, fleets, strict=True)]
    monkeypatch.setattr(neural, "MOST_CELLS", 60 * fleets[0] - 1)
    monkeypatch.setattr(neural, "BEST_SEEDS", 3)
    few, all_of_them = (s(fleet) for s, fleet in zip(scorers, fleets, strict=True))
    assert np.array_equal(np.sort(few.cost), np.sort(whole[0].cost, axis=1)[:, :3])
    assert few.candidates is not None
    found = np.take_along_axis(whole[0].cost, few.candidates, axis=1)
    assert np.array_equal(found, few.cost)
    assert np.array_equal(all_of_them.cost, whole[1].cost)


@pytest.mark.parametrize("customers", [1, 2, 3, 10, 100, 1000, 10_000])
def test_any_number_of_customers_is_scored(customers: int) -> None:
    """From 1 to 10,000 customers: every one has a finite cost at some vehicle."""
    day = sample_world(customers, seed=4, index=0)
    scores = NeuralScorer(small_network(RELATIVE), day)(day.min_vehicles)
    assert scores.candidates is not None
    assert np.isfinite(scores.cost).any(axis=1).all()
    assert len(np.unique(scores.seeds)) == len(scores.seeds) <= day.min_vehicles


def sent(
    sizes: list[int], found: Callable[[int], Decoded], sets: int = 1, **more: Any
) -> list[Any]:
    """Fleets and moved seeds asked for if a fleet of K comes out as `found(K)`."""
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(asking, "fleets", lambda *_: sizes)
    asked = requests(small_day(), NeuralSettings(**more), range(sets))
    wanted, seen = next(asked), []
    while wanted is not None:
        moved = wanted.seeds is not None
        seen.append(wanted.seeds if moved else wanted.vehicles)
        K = 0 if moved else wanted.vehicles
        seeds = np.arange(1, K + 1)
        wanted = asked.send((wanted, Scores(seeds, np.zeros((30, K))), found(K)))
    monkeypatch.undo()
    return seen


def decoded(cost: float, forced: int = 0) -> Decoded:
    """An answer without routes, so that its seeds have nowhere to go."""
    return Decoded(np.zeros(30, dtype=np.int64), [], cost, forced)


def test_the_fleet_grows_until_an_assignment_exists() -> None:
    """Larger fleets are asked for only while all before needed force."""
    grown = sent([4, 5], lambda K: decoded(1.0, forced=int(K < 7)), moves=0)
    assert grown == [4, 5, 6, 7]
    assert sent([4, 5], lambda K: decoded(1.0, forced=int(K < 5)), moves=0) == [4, 5]
    endless = sent([4, 5], lambda K: decoded(1.0, forced=1), moves=0)
    assert len(endless) == 2 + NeuralSettings().more_fleets
    few = sent(
        [4],
        lambda K: decoded(1.0, forced=1),
        moves=0,
        decoding=DecodingSettings(fleet="kmin"),
    )
    assert few == [4]  # who wants few vehicles is not given more


def test_other_seed_sets_are_for_the_smallest_fleet_that_fits() -> None:
    """The first set is tried at every size, the others where nobody was forced."""
    seen = sent([4, 5], lambda K: decoded(1.0), sets=3, moves=0)
    assert seen == [4, 5, 4, 4]
    tight = sent([4, 5], lambda K: decoded(1.0, forced=int(K < 5)), sets=3, moves=0)
    assert tight == [4, 5, 5, 5]
    never = sent([4], lambda K: decoded(1.0, forced=1), sets=2, moves=0)
    assert never[-1] == never[-2]  # the largest that was tried


def test_of_all_seed_sets_only_the_best_are_moved() -> None:
    """Four answers as good as each other: two of them move, twice."""
    seen = sent([4], lambda K: decoded(1.0), sets=4, moves=2)
    assert [one for one in seen if isinstance(one, int)] == [4] * 4
    assert sum(isinstance(one, np.ndarray) for one in seen) >= 2
    once = sent([4], lambda K: decoded(1.0), sets=4, moves=1)
    assert sum(isinstance(one, np.ndarray) for one in once) == 2


def test_hopeless_fleets_are_not_moved() -> None:
    """Seeds move for the shortest routes only."""
    costs = {4: 1.0, 5: 1.005, 6: 1.2}
    seen = sent([4, 5, 6], lambda K: decoded(costs.get(K, 2.0)), moves=1)
    assert sum(isinstance(one, np.ndarray) for one in seen) == 2


@pytest.mark.parametrize(("customers", "used"), [(40, 1), (neural.THREADS_FROM, 2)])
def test_only_large_days_use_threads(customers: int, used: int) -> None:
    """Sharing the rows of a small day would take longer than they do."""
    day = sample_world(customers, seed=1, index=0)
    assert NeuralScorer(small_network(), day, threads=2).limits.threads == used


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_threads_change_nothing(kind: str) -> None:
    """Rows are added up in one way, whichever thread has them, to the last bit."""
    network, day = small_network(KINDS[kind]), small_day(100)
    nodes = describe(nodes_of(day), network.config.neighbours)
    alone = network.encode(nodes)
    shared = network.encode(nodes, encoder.Limits(threads=3))
    assert np.array_equal(alone.hidden, shared.hidden)
    three, seeds = encoder.Limits(threads=3), np.arange(1, 8)
    cost = network.score(alone, seeds).cost
    assert np.array_equal(cost, network.score(shared, seeds, limits=three).cost)
