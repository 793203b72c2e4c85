"""Phase 1: the Seed Transformer's outputs, and capacity-aware greedy decoding."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterfirst.networks.seed_decoding import (
    Limits,
    PackingRule,
    decode_seeds,
)
from clusterfirst.networks.trainable.inputs import collate
from clusterfirst.networks.trainable.seeds import node_roles
from networks import KINDS, RULE, nodes_of, small_day, small_router

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
EVERYONE = np.empty((0, 0), dtype=np.int64)


def algorithm_1(
    score: Floats, vectors: Floats, demands: Ints, seeds: int, fill: int
) -> tuple[list[int], list[int]]:
    """Algorithm 1 as printed, with the full matrix G: seeds and simulated loads."""
    with np.errstate(invalid="ignore"):
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    similarity = np.nan_to_num(unit) @ np.nan_to_num(unit).T
    pool = list(range(len(score)))
    chosen: list[int] = []
    loads: list[int] = []
    for _ in range(seeds):
        if not pool:
            break
        seed = max(pool, key=lambda i: score[i])
        chosen.append(seed)
        pool.remove(seed)
        load = int(demands[seed])
        for j in sorted(pool, key=lambda j: -similarity[seed, j]):
            if load + demands[j] <= fill:
                load += int(demands[j])
                pool.remove(j)
        loads.append(load)
    return chosen, loads


def unit_vectors(count: int, seed: int) -> Floats:
    """Random directions in five dimensions."""
    vectors = np.random.default_rng(seed).normal(size=(count, 5)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Floats, Floats, Ints, int, int]:
    """Scores, vectors, demands, K and fill of a small decoding."""
    n = draw(st.integers(0, 14))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    score = rng.normal(size=n).astype(np.float32)
    demands = rng.integers(1, draw(st.sampled_from([2, 5, 10])), n)
    seeds = draw(st.integers(0, 8))
    return score, unit_vectors(n, n), demands, seeds, draw(st.integers(9, 30))


@settings(max_examples=150, deadline=None)
@given(cases())
def test_decoding_is_algorithm_1(case: tuple[Floats, Floats, Ints, int, int]) -> None:
    """One row of similarities at a time gives the seeds of the full N x N matrix."""
    score, vectors, demands, seeds, fill = case
    limits = Limits(seeds, fill, reserve=False)
    found = decode_seeds(score, vectors, demands, limits, EVERYONE)
    chosen, loads = algorithm_1(score, vectors, demands, seeds, fill)
    assert found[found >= 0].tolist() == chosen
    assert found.shape == (seeds,)
    assert (found[len(chosen) :] == -1).all()  # early stop, padded at the end
    assert max(loads, default=0) <= fill


@settings(max_examples=100, deadline=None)
@given(cases(), st.booleans())
def test_seeds_are_distinct_customers(
    case: tuple[Floats, Floats, Ints, int, int], reserve: bool
) -> None:
    """At most K distinct seeds among the customers, whatever the rule."""
    score, vectors, demands, seeds, fill = case
    limits = Limits(seeds, fill, reserve=reserve)
    found = decode_seeds(score, vectors, demands, limits, EVERYONE)
    real = found[found >= 0]
    assert len(set(real.tolist())) == len(real) <= seeds
    assert (real < len(score)).all()
    if reserve:
        assert len(real) == min(seeds, len(score))


def test_a_customer_that_does_not_fit_is_skipped() -> None:
    """The most similar customer is too big; the next one is packed all the same."""
    vectors = np.array([[1, 0], [0.99, 0.1], [0.9, 0.4], [0, 1]], dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    score = np.array([4, 3, 2, 1], dtype=np.float32)
    demands = np.array([5, 9, 5, 1])
    limits = Limits(3, 10, reserve=False)
    found = decode_seeds(score, vectors, demands, limits, EVERYONE)
    # Seed 0 skips customer 1 (5 + 9 > 10) and packs 2; then 1 packs 3; none is left.
    assert found.tolist() == [0, 1, -1]


def test_all_scores_equal() -> None:
    """Equal scores still give distinct seeds, the same ones each time."""
    vectors = unit_vectors(12, 0)
    found = [
        decode_seeds(
            np.zeros(12, dtype=np.float32),
            vectors,
            np.full(12, 3),
            Limits(4, 9, reserve=False),
            EVERYONE,
        ).tolist()
        for _ in range(2)
    ]
    assert found[0] == found[1]
    assert len(set(found[0])) == 4


def test_zero_vectors() -> None:
    """A network that says nothing (all vectors zero) still gives seeds."""
    zero = np.zeros((9, 4), dtype=np.float32)
    score = np.arange(9, dtype=np.float32)
    found = decode_seeds(
        score, zero, np.full(9, 2), Limits(3, 6, reserve=False), EVERYONE
    )
    chosen, _ = algorithm_1(score, zero, np.full(9, 2), 3, 6)
    assert found.tolist() == chosen


def test_packing_among_neighbours_only() -> None:
    """With the switch on, a far look-alike is not packed and may become a seed."""
    vectors = np.tile(np.array([[1.0, 0.0]], dtype=np.float32), (4, 1))
    score = np.array([4, 3, 2, 1], dtype=np.float32)
    demands = np.full(4, 1)
    limits = Limits(2, 10, reserve=False)
    near = np.array([[2, -1], [3, -1], [0, -1], [1, -1]])
    assert decode_seeds(score, vectors, demands, limits, EVERYONE).tolist() == [0, -1]
    assert decode_seeds(score, vectors, demands, limits, near).tolist() == [0, 1]


@pytest.mark.parametrize(("demand", "capacity"), [(1, 2), (5, 50), (9, 10)])
def test_mean_fill_makes_the_extra_vehicle_real(demand: int, capacity: int) -> None:
    """Filled to the mean load, seed K_min + 1 is drawn; filled to Q it often is not."""
    n = 40
    demands = np.full(n, demand)
    least = -(-int(demands.sum()) // capacity)
    score = np.random.default_rng(0).normal(size=n).astype(np.float32)
    drawn = {
        rule: decode_seeds(
            score,
            unit_vectors(n, 1),
            demands,
            PackingRule(fill=rule).limits(demands, capacity, least + 1),
            EVERYONE,
        )
        for rule in ("capacity", "mean")
    }
    assert (drawn["mean"] >= 0).sum() == min(n, least + 1)
    assert (drawn["capacity"] >= 0).sum() <= least + 1
    if (demand, capacity) == (1, 2):
        assert (drawn["capacity"] >= 0).sum() == least  # the paper pads here


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=20),
    st.integers(1, 8),
    st.integers(1, 1000),
)
def test_the_mean_load_does_not_depend_on_the_unit(
    demands: list[int], vehicles: int, unit: int
) -> None:
    """Grams or kilograms: vehicles are filled alike, to no more than one unit above."""
    rule, kilos = PackingRule(fill="mean"), np.array(demands)
    mean = rule.limits(kilos, 50, vehicles).fill
    assert rule.limits(unit * kilos, 50 * unit, vehicles).fill == unit * mean
    assert 0 <= vehicles * mean - kilos.sum() < vehicles * max(1, np.gcd.reduce(kilos))


def test_big_customers_leave_room_for_every_seed() -> None:
    """A seed above the mean load does not cost another vehicle its seed."""
    demands = np.array([10, 1, 1])
    limits = PackingRule(fill="mean").limits(demands, 10, 3)
    found = decode_seeds(
        np.array([3, 2, 1], dtype=np.float32),
        unit_vectors(3, 0),
        demands,
        limits,
        EVERYONE,
    )
    assert sorted(found.tolist()) == [0, 1, 2]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_outputs(kind: str) -> None:
    """One logit and one unit vector per token, for every kind of input."""
    router = small_router(KINDS[kind])
    out = router.encode(collate([nodes_of(small_day(20))], RULE))
    assert out.hidden.shape == (1, 21, 16)
    assert out.logit.shape == (1, 21)
    assert torch.allclose(out.contrast.norm(dim=-1), torch.ones(1, 21), atol=1e-5)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_padded_batches_equal_single_runs(kind: str) -> None:
    """What the network says of an instance does not depend on the batch around it."""
    router = small_router(KINDS[kind])
    days = [nodes_of(small_day(n, index=n)) for n in (5, 31, 18)]
    together = router.encode(collate(days, RULE))
    turned = router.encode(collate(days[::-1], RULE))
    for row, day in enumerate(days):
        alone = router.encode(collate([day], RULE))
        size = len(day.demands)
        for name in ("hidden", "logit", "contrast"):
            mine = getattr(alone, name)[0]
            for batch, place in ((together, row), (turned, 2 - row)):
                theirs = getattr(batch, name)[place, :size]
                assert torch.allclose(mine, theirs, atol=1e-5), name


def test_roles() -> None:
    """Token 0 is the depot, the others are customers."""
    assert node_roles(collate([nodes_of(small_day(3))], RULE)).tolist() == [
        [0, 1, 1, 1]
    ]
