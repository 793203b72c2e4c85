"""Batches: functions of (seed, step), made of valid partitions, with little padding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterfirst.learning.labels.columns import LabelGroup
from clusterfirst.learning.labels.labelset import LabelSet
from clusterfirst.learning.labels.pool import Label, LabelPool
from clusterfirst.learning.training.batches import (
    BatchSettings,
    TrainBatch,
    central_customers,
    distal_customers,
    draw_batch,
    keep_routes,
    some_routes,
    turned,
)
from clusterfirst.learning.training.losses import with_own_seeds
from clusterfirst.networks.nodes import neighbour_lists
from clusterfirst.problem.errors import InputError
from networks import KINDS, RULE, angular_label, label_batch, small_router

POOL = LabelPool.of_labels([angular_label(20 + i % 30, i) for i in range(60)])
MIXED = BatchSettings(
    tokens=400, least_customers=8, turn=True, own_seeds=0.5, centre_seeds=0.5
)


def batch_at(seed: int, step: int, how: BatchSettings = MIXED) -> TrainBatch:
    """A batch of the shared pool."""
    return draw_batch(POOL, how, RULE, seed=seed, step=step)


def tensors(batch: TrainBatch) -> list[torch.Tensor]:
    """Everything in a batch that is a tensor."""
    nodes = [v for v in vars(batch.nodes).values() if isinstance(v, torch.Tensor)]
    lists = [batch.nodes.lists.index, batch.nodes.lists.valid]
    own = [batch.route, batch.seeds.index, batch.seeds.real, batch.is_seed, batch.slack]
    return [*nodes, *lists, *own]


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 10**9))
def test_a_batch_is_a_function_of_seed_and_step(seed: int, step: int) -> None:
    """The same seed and step give the same bytes, whatever was drawn between."""
    first = batch_at(seed, step)
    batch_at(seed, step + 1)
    again = batch_at(seed, step)
    for a, b in zip(tensors(first), tensors(again), strict=True):
        assert torch.equal(a, b)
    other = batch_at(seed, step + 1)
    assert first.route.shape != other.route.shape or not torch.equal(
        first.nodes.coords, other.nodes.coords
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 59), st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_some_routes_are_a_valid_partition(index: int, size: int, seed: int) -> None:
    """A subset's label has every customer in one route, none empty, within capacity."""
    whole = angular_label(20 + index % 30, index)
    part = some_routes(whole, size, np.random.default_rng(seed))
    n = len(part.route)
    sizes = np.bincount(part.route)
    assert len(part.nodes.demands) == len(part.nodes.coords) == n + 1
    assert (sizes > 0).all()
    loads = np.bincount(part.route, part.nodes.demands[1:])
    assert (loads <= part.nodes.capacity).all()
    assert n <= max(size, np.bincount(whole.route).max())
    # Its routes are routes of the whole, customer by customer.
    assert part.nodes.rows is not None
    assert whole.nodes.rows is not None
    rows = whole.nodes.rows
    theirs = {frozenset(rows[1:][whole.route == r]) for r in set(whole.route)}
    ours = {frozenset(part.nodes.rows[1:][part.route == r]) for r in set(part.route)}
    assert ours <= theirs


def test_keeping_all_routes_keeps_everything() -> None:
    """The subset of all routes in their order is the label itself."""
    label = angular_label(30, 3)
    same = keep_routes(label, np.arange(label.route.max() + 1))
    assert np.array_equal(same.route, label.route)
    assert np.array_equal(same.nodes.coords, label.nodes.coords)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_turning_keeps_distances(seed: int) -> None:
    """Rotation and reflection change coordinates but no distance."""
    label = angular_label(25, 1)
    other = turned(label, np.random.default_rng(seed))
    a, b = label.nodes.coords, other.nodes.coords
    apart_a = np.linalg.norm(a[:, None] - a[None], axis=2)
    apart_b = np.linalg.norm(b[:, None] - b[None], axis=2)
    assert np.allclose(apart_a, apart_b, atol=1e-12)
    assert not np.allclose(a, b)


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_all_processes_together_use_the_tokens(processes: int) -> None:
    """One process takes every example that fits, several lose less than one each."""
    pool = LabelPool.of_labels([angular_label(100, i) for i in range(4)])
    whole = BatchSettings(tokens=32 * 101, part_share=0.0)
    shares = [
        draw_batch(pool, whole, RULE, seed=3, step=0, share=(i, processes))
        for i in range(processes)
    ]
    assert 32 - processes < sum(len(share.route) for share in shares) <= 32


def test_little_is_padded() -> None:
    """Examples of a batch are alike in size: under a fifth of the tokens are wasted."""
    wasted = [
        1 - float(batch_at(7, step).nodes.real.float().mean()) for step in range(40)
    ]
    print(f"padding {np.mean(wasted):.1%}")
    assert np.mean(wasted) < 0.2


def test_seed_j_is_in_route_j() -> None:
    """Teacher-forced seeds are distal customers of their own routes."""
    batch = batch_at(1, 2, replace(MIXED, centre_seeds=0.0))
    for b in range(len(batch.route)):
        count = int(batch.seeds.real[b].sum())
        seeds = batch.seeds.index[b, :count] - 1
        assert batch.route[b, seeds].tolist() == list(range(count))
        assert (batch.is_seed[b, seeds] == 1).all()


@pytest.mark.parametrize("count", [1, 2, 40])
def test_distal_and_central_customers(count: int) -> None:
    """The farthest members of each route, and those with the shortest stars."""
    label = angular_label(30, 2)
    points = label.nodes.coords
    d = np.linalg.norm(points[:, None] - points[None], axis=2)
    distal, central = distal_customers(label, count), central_customers(label, count)
    for number in range(int(label.route.max()) + 1):
        route = np.flatnonzero(label.route == number)
        stars = {
            s: 2 * d[0, s] + sum(d[0, i] + d[i, s] - d[0, s] for i in route + 1)
            for s in (route + 1).tolist()
        }
        far = sorted(route.tolist(), key=lambda i: -d[0, i + 1])
        middle = sorted(route.tolist(), key=lambda i: stars[i + 1])
        padding = [-1] * max(0, count - len(route))
        assert distal[number].tolist() == far[:count] + padding
        assert central[number].tolist() == middle[:count] + padding


def test_centre_seeds_change_the_seeds_alone() -> None:
    """They stand in the middles of the same routes; what is to be learned stays."""
    far, middle = (
        batch_at(5, 1, replace(MIXED, centre_seeds=share)) for share in (0.0, 1.0)
    )
    assert torch.equal(far.route, middle.route)
    assert torch.equal(far.is_seed, middle.is_seed)
    assert torch.equal(far.seeds.real, middle.seeds.real)
    assert not torch.equal(far.seeds.index, middle.seeds.index)
    for b in range(len(middle.route)):
        count = int(middle.seeds.real[b].sum())
        seeds = middle.seeds.index[b, :count] - 1
        assert middle.route[b, seeds].tolist() == list(range(count))


@pytest.mark.parametrize("kind", ["xy", "relative"])
def test_own_seeds_stay_in_their_routes(kind: str) -> None:
    """Decoded seeds replace the teacher's where a route has one, and only there."""
    router = small_router(KINDS[kind])
    batch = label_batch([angular_label(30, i) for i in range(6)])
    with torch.no_grad():
        encoded = router.encode(batch.nodes)
    own = with_own_seeds(batch, encoded, router.config.packing)
    assert torch.equal(own.seeds.real, batch.seeds.real)
    changed = 0
    for b in range(len(batch.route)):
        count = int(batch.seeds.real[b].sum())
        seeds = own.seeds.index[b, :count]
        assert batch.route[b, seeds - 1].tolist() == list(range(count))
        changed += int((seeds != batch.seeds.index[b, :count]).sum())
    assert changed > 0


def label_set(partitions: int) -> LabelSet:
    """Twelve instances with several partitions each, as columns."""
    labels = [angular_label(20, i) for i in range(12) for _ in range(partitions)]
    count = len(labels)
    rows = [label.nodes.rows for label in labels if label.nodes.rows is not None]
    group = LabelGroup(
        coords=np.stack([label.nodes.coords for label in labels]),
        demands=np.stack([label.nodes.demands for label in labels]),
        capacity=np.full(count, 50),
        rows=np.stack(rows),
        route=np.stack([label.route for label in labels]),
        place=np.full((count, 20), -1),
        cost=np.ones(count),
        index=np.repeat(np.arange(12), partitions),
        seed=np.tile(np.arange(partitions), 12),
        teacher=np.zeros(count, dtype=np.int64),
        source=np.zeros(count, dtype=np.int64),
    )
    return LabelSet({20: group}, [], 0, 0)


def test_partitions_of_an_instance_share_its_weight() -> None:
    """Several partitions make an instance no likelier, and each of them is drawn."""
    found = label_set(partitions=3)
    routes = found.groups[20].route.copy()
    routes[1::3] = routes[1::3].max() - routes[1::3]  # tell the partitions apart
    group = replace(found.groups[20], route=routes)
    pool = LabelPool.of_set(replace(found, groups={20: group}))
    assert len(pool) == 36
    assert pool.between(0) == range(12)
    rng = np.random.default_rng(0)
    drawn = {pool.draw(4, rng).route.tobytes() for _ in range(40)}
    assert drawn == {row.tobytes() for row in routes[12:15]}


def test_a_packed_label_is_the_label() -> None:
    """Packing into small numbers and unpacking changes nothing."""
    labels = [angular_label(20 + i, i) for i in range(5)]
    pool = LabelPool.of_labels(labels)
    for i, label in enumerate(labels):
        again = pool.draw(i, np.random.default_rng(0))
        assert np.array_equal(again.nodes.coords, label.nodes.coords)
        assert np.array_equal(again.nodes.demands, label.nodes.demands)
        assert again.nodes.rows is not None
        assert again.nodes.rows.tolist() == label.nodes.rows.tolist()  # type: ignore[union-attr]  # days know their rows
        assert again.route.dtype == np.int64
        assert np.array_equal(again.route, label.route)


def test_kept_lists_are_the_lists() -> None:
    """Neighbour lists from memory equal fresh ones, for every partition."""
    pool = LabelPool.of_set(label_set(partitions=2))
    rng = np.random.default_rng(0)
    for instance in (3, 7, 3, 3):
        label = pool.draw(instance, rng, RULE)
        fresh = neighbour_lists(replace(label.nodes, lists=None), RULE)
        assert label.nodes.lists is not None
        assert np.array_equal(label.nodes.lists, fresh)


def test_the_pool_is_small() -> None:
    """A label of N = 100 takes under 5 kB: 100,000 of them fit well in 1 GB."""
    pool = LabelPool.of_labels([angular_label(100, i) for i in range(10)])
    columns = [a for pack in pool._packs for a in vars(pack).values()]  # noqa: SLF001
    taken = sum(array.nbytes for array in columns if array is not None)
    assert taken / len(pool) < 5_000


def test_the_digest_tells_pools_apart() -> None:
    """Any change of a label changes the digest."""
    label = angular_label(20, 0)
    other = Label(label.nodes, np.roll(label.route, 1))
    digests = {LabelPool.of_labels([each]).digest for each in (label, other, label)}
    assert len(digests) == 2


def test_no_labels_is_said() -> None:
    """A pool of nothing is refused in words."""
    with pytest.raises(InputError, match="at least one label"):
        LabelPool.of_labels([])


@pytest.mark.parametrize("size", [1, 2, 170, 520])
def test_any_size_gives_batches(size: int) -> None:
    """One customer, a large label and one that is always cut all work."""
    rng = np.random.default_rng(size)
    nodes = angular_label(20, 0).nodes
    coords = rng.random((size + 1, 2))
    demands = np.concatenate([[0], rng.integers(1, 10, size)])
    arrays = replace(nodes, coords=coords, demands=demands, rows=None)
    label = Label(arrays, np.arange(size) // 5)
    pool = LabelPool.of_labels([label])
    for step in range(3):
        batch = draw_batch(pool, MIXED, RULE, seed=0, step=step)
        assert (batch.route >= 0).any(dim=1).all()


def test_a_set_named_twice_is_drawn_twice_as_often() -> None:
    """Of two sets, one named twice, that one has two thirds of the instances."""
    one, other = label_set(partitions=1), label_set(partitions=2)
    pool = LabelPool.of_sets([one, other, other])
    assert pool.between(0) == range(36)
    assert len(pool) == 12 + 24 + 24
    rng = np.random.default_rng(0)
    again = [pool.draw(at + 12, rng, RULE).nodes.coords for at in range(12)]
    first = [pool.draw(at + 24, rng, RULE).nodes.coords for at in range(12)]
    assert all(np.array_equal(a, b) for a, b in zip(again, first, strict=True))


def test_the_reach_of_a_pool_covers_every_label() -> None:
    """Each label's size, customers per route and largest demand share lie within."""
    labels = [angular_label(20 + 7 * i, i) for i in range(4)]
    reach = LabelPool.of_labels(labels).reach
    assert reach["customers"] == (20, 41)
    share = [label.nodes.demands / label.nodes.capacity for label in labels]
    per_route = [min(len(s) - 1, (len(s) - 1) / s.sum()) for s in share]
    assert reach["per_route"] == pytest.approx((min(per_route), max(per_route)))
    largest = [s.max() for s in share]
    assert reach["largest_share"] == pytest.approx((min(largest), max(largest)))
