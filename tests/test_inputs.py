"""What the networks see: padding, neighbour lists, invariant features."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from clusterfirst.learning.training.loop import TrainConfig, Trainer, learned
from clusterfirst.learning.training.processes import trained
from clusterfirst.networks.config import PAIR_FEATURES
from clusterfirst.networks.geometry import CENTRE, SPREAD
from clusterfirst.networks.nodes import (
    NODE_FEATURES,
    NeighbourRule,
    NodeArrays,
    neighbour_lists,
)
from clusterfirst.networks.trainable.inputs import (
    NodeBatch,
    Tokens,
    collate,
    geometry,
    pair_features,
)
from networks import (
    KINDS,
    MOVES,
    RULE,
    grid,
    moved,
    nodes_of,
    small_day,
    small_model,
    small_router,
)


def sets(lists: np.ndarray) -> list[set[int]]:
    """Each list without its padding and without order."""
    return [set(row[row >= 0].tolist()) for row in lists]


def test_lists_hold_the_token_and_the_depot() -> None:
    """Every list starts with its own token; the depot is in every list."""
    lists = neighbour_lists(nodes_of(small_day()), RULE)
    assert np.array_equal(lists[:, 0], np.arange(31))
    assert (lists[1:, 1] == 0).all()
    assert lists[0, 1] == -1  # the depot already holds itself
    assert all(len(members) == RULE.least + 2 for members in sets(lists)[1:])


def test_lists_hold_the_nearest() -> None:
    """Without ties the other places are the k nearest customers, and so the depot's."""
    arrays = nodes_of(small_day())
    lists = neighbour_lists(arrays, RULE)
    apart = np.linalg.norm(arrays.coords[:, None] - arrays.coords, axis=-1)
    for i in range(31):
        order = [j for j in np.argsort(apart[i]).tolist() if j not in (0, i)]
        assert set(lists[i, 2:].tolist()) - {-1} == set(order[: RULE.least])


@pytest.mark.parametrize("demand", [1, 3])
@pytest.mark.parametrize("rule", [RULE, NeighbourRule(least=5, most=5)])
def test_lists_do_not_depend_on_the_order_of_customers(
    rule: NeighbourRule, demand: int
) -> None:
    """On a grid with ties a permutation permutes the lists: no index decides."""
    arrays = grid(3)
    arrays = replace(arrays, demands=np.minimum(arrays.demands, demand))
    turn = np.random.default_rng(0).permutation(48) + 1
    turn = np.concatenate([[0], turn])
    shuffled = replace(arrays, coords=arrays.coords[turn], demands=arrays.demands[turn])
    place = np.argsort(turn)
    mine = sets(neighbour_lists(arrays, rule))
    theirs = sets(neighbour_lists(shuffled, rule))
    for i in range(49):
        assert {int(place[j]) for j in mine[i]} == theirs[place[i]]


def test_the_depot_sees_its_nearest_customers() -> None:
    """Nobody in the depot's list is farther than somebody who is not."""
    lists = neighbour_lists(grid(2), RULE)
    radius = np.linalg.norm(grid(2).coords, axis=1)
    seen = lists[0, 2:][lists[0, 2:] > 0]
    unseen = set(range(1, 25)) - set(seen.tolist())
    assert len(seen) >= RULE.least
    assert radius[seen].max() <= min((radius[j] for j in unseen), default=np.inf)


@pytest.mark.parametrize("seen", [0, 1, 5])
def test_no_index_decides_what_the_depot_sees(seen: int) -> None:
    """Of a ring of equal customers the depot sees all or none, or those of one demand.

    The ring is longer than a list may be; the few customers with less demand than
    the rest are told apart, the others are not.
    """
    angle = 2 * np.pi * np.arange(48) / 48
    ring = np.column_stack([np.cos(angle), np.sin(angle)])
    demand = np.full(48, 2)
    demand[[7, 9, 20, 31, 47][:seen]] = 1
    arrays = NodeArrays(np.vstack([[0.0, 0.0], ring]), np.concatenate([[0], demand]), 9)
    depot = sets(neighbour_lists(arrays, RULE))[0]
    assert depot == {0, *(np.flatnonzero(demand == 1) + 1).tolist()}


def test_longer_routes_get_longer_lists() -> None:
    """The rule's k grows with customers per route, between its bounds."""
    rule = NeighbourRule(least=4, most=9, per_route=1.5)
    day = nodes_of(small_day(30))
    total = int(day.demands.sum())
    sizes = [
        rule.size(replace(day, capacity=capacity))
        for capacity in (total // 30, total // 6, total)
    ]
    assert sizes[0] == 4
    assert 4 < sizes[1] < 9
    assert sizes[2] == 9
    assert rule.size(replace(day, demands=np.zeros(31, dtype=np.int64))) == 9


@pytest.mark.parametrize("customers", [0, 1, 2, 5])
def test_tiny_instances_are_finite(customers: int) -> None:
    """No customer, one, or fewer than k give finite features and whole lists."""
    batch = collate([nodes_of(small_day(customers))], RULE)
    assert batch.features.shape == (1, customers + 1, NODE_FEATURES)
    assert batch.features.isfinite().all()
    assert batch.lists.valid.any(-1).all()


def test_coinciding_points_are_finite() -> None:
    """Everyone at the depot, and everyone at one other place, give finite features."""
    for place in (0.0, 3.0):
        coords = np.vstack([[0.0, 0.0], np.full((9, 2), place)])
        arrays = NodeArrays(coords, np.array([0] + [1] * 9), 5)
        batch = collate([arrays], RULE)
        assert batch.features.isfinite().all()
        assert batch.position.isfinite().all()


def alike(one: NodeBatch, other: NodeBatch, row: int) -> None:
    """Instance `row` of a padded batch equals the batch of one."""
    size = one.real.shape[1]
    for name in ("position", "demand", "raw_demand", "rows", "features", "coords"):
        mine, theirs = getattr(one, name)[0], getattr(other, name)[row, :size]
        assert torch.allclose(mine, theirs, atol=1e-6), name
    mine, theirs = one.lists, other.lists
    length = mine.index.shape[2]
    assert torch.equal(mine.index[0], theirs.index[row, :size, :length])
    assert torch.equal(mine.valid[0], theirs.valid[row, :size, :length])
    assert not theirs.valid[row, :size, length:].any()


def test_padding_changes_nothing() -> None:
    """What an instance looks like does not depend on its neighbours in the batch."""
    days = [nodes_of(small_day(n, index=n)) for n in (4, 30, 17)]
    together = collate(days, RULE)
    for row, day in enumerate(days):
        alike(collate([day], RULE), together, row)
    padding = ~together.real
    assert together.lists.valid[padding].sum(-1).eq(1).all()
    assert not together.features[padding].any()


@pytest.mark.parametrize("kind", MOVES)
@pytest.mark.parametrize("where", ["random", "grid"])
def test_relative_features_are_invariant(kind: str, where: str) -> None:
    """Rotation, reflection, translation, scaling, demands with capacity: no change."""
    arrays = nodes_of(small_day(40)) if where == "random" else grid(3)
    before, after = (collate([a], RULE) for a in (arrays, moved(arrays, kind)))
    assert torch.allclose(before.features, after.features, atol=2e-5)
    assert torch.allclose(before.demand, after.demand)
    mine, theirs = (sets(b.lists.index[0].numpy()) for b in (before, after))
    assert mine == theirs


@pytest.mark.parametrize("kind", MOVES)
@pytest.mark.parametrize("where", ["random", "grid"])
def test_relative_network_is_invariant(kind: str, where: str) -> None:
    """The Seed Transformer with relative inputs says the same of the moved map."""
    router = small_router(KINDS["relative"])
    arrays = nodes_of(small_day(40)) if where == "random" else grid(3)
    before = router.encode(collate([arrays], RULE))
    after = router.encode(collate([moved(arrays, kind)], RULE))
    assert torch.allclose(before.logit, after.logit, atol=1e-4)
    assert torch.allclose(before.hidden, after.hidden, atol=1e-4)
    assert torch.allclose(before.contrast, after.contrast, atol=1e-4)


def test_pair_features_by_hand() -> None:
    """Depot, (3, 0) and (0, 4): distance, angle, detour as on paper."""
    position = torch.tensor([[[3.0, 0.0], [0.0, 4.0]]])
    found = geometry(position, torch.tensor([[0]]), torch.tensor([[[1]]]))[0, 0, 0]
    apart, cosine, off_a, off_b, reach, saving, detour = found * torch.from_numpy(
        SPREAD
    ) + torch.from_numpy(CENTRE)
    assert torch.isclose(apart, torch.log1p(torch.tensor(5.0)))
    assert torch.isclose(cosine, torch.tensor(0.0), atol=1e-6)
    assert torch.isclose(off_a, torch.log1p(torch.tensor(4.0)))
    assert torch.isclose(off_b, torch.log1p(torch.tensor(3.0)))
    assert torch.isclose(reach, torch.asinh(torch.tensor(-1.0)) / 2)
    assert torch.isclose(saving, torch.log1p(torch.tensor(3 + 4 - 5.0)))
    assert torch.isclose(detour, torch.log1p(torch.tensor(3 + 5 - 4.0)))


def test_pair_features_at_the_depot_are_finite() -> None:
    """Tokens at the depot have no direction and still finite features."""
    tokens = Tokens(torch.zeros(1, 3, 2), torch.ones(1, 3), torch.tensor([[0, 1, 2]]))
    found = pair_features(tokens, torch.tensor([[[0, 1, 2]] * 3]))
    assert found.shape == (1, 3, 3, PAIR_FEATURES)
    assert found.isfinite().all()


def test_halves_of_the_input() -> None:
    """Psi (or x, y) fills the first half of a node's vector, demand the second."""
    batch = collate([nodes_of(small_day())], RULE)
    for kind in ("xy", "psi"):
        node_input = small_router(KINDS[kind]).seed.input
        x = node_input(batch)
        more = replace(batch, raw_demand=batch.raw_demand + 1)
        half = x.shape[-1] // 2
        changed = (node_input(more) - x)[0, 1:]
        assert changed[:, :half].abs().max() == 0
        assert changed[:, half:].abs().max() > 0
    psi = small_router(KINDS["psi"]).seed.input
    assert torch.equal(psi(batch)[0, 1:, :8], psi.psi[batch.rows[0, 1:]])


def test_psi_of_another_width_is_adapted() -> None:
    """A linear map adapts a table that is not d/2 wide (the paper, Appendix B)."""
    router = small_router(replace(KINDS["psi"], psi_width=5))
    out = router.encode(collate([nodes_of(small_day())], RULE))
    assert router.seed.input.adapt.weight.shape == (8, 5)
    assert out.hidden.isfinite().all()


def test_a_city_begins_as_the_general_model() -> None:
    """With the weights of a `relative` model the table changes nothing at first."""
    general = small_router(KINDS["relative"])
    config = TrainConfig(model=KINDS["psi+relative"], steps=1)
    trainer = Trainer(config, torch.randn(121, 8))
    trainer.start_from(learned(general))
    batch = collate([nodes_of(small_day())], RULE)
    city = trainer.router.eval()
    assert torch.equal(city.encode(batch).hidden, general.encode(batch).hidden)
    torch.nn.init.normal_(city.seed.input.known.weight)
    assert not torch.equal(city.encode(batch).hidden, general.encode(batch).hidden)


def test_psi_is_frozen_and_not_counted() -> None:
    """The table takes no gradient and does not count as parameters."""
    router = small_router(KINDS["psi"])
    assert not router.seed.input.psi.requires_grad
    some, more = (
        small_model("small", replace(KINDS["psi"], psi_rows=rows)).num_parameters()
        for rows in (100, 500)
    )
    assert some == more == sum(p.numel() for p in trained(router))


def test_raw_or_normalised_demand() -> None:
    """Our input is demand / Q and knows no unit; the paper's raw demand does."""
    arrays = nodes_of(small_day())
    scaled = moved(arrays, "demands")
    for raw in (True, False):
        router = small_router(replace(KINDS["xy"], raw_demand=raw))
        before, after = (router.encode(collate([a], RULE)) for a in (arrays, scaled))
        assert torch.allclose(before.logit, after.logit, atol=1e-5) is not raw


def test_the_depot_has_a_vector_of_its_own() -> None:
    """The depot's learned vector is added to token 0 and to nothing else."""
    router = small_router()
    batch = collate([nodes_of(small_day())], RULE)
    before = router.seed.input(batch)
    with torch.no_grad():
        router.seed.input.depot += 1.0
    changed = router.seed.input(batch) - before
    assert torch.allclose(changed[0, 0], torch.ones(16))
    assert not changed[0, 1:].any()
