"""Phase 2: latent distances between customers and seeds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from clusterfirst.networks.config import VISIBLE_SEEDS
from clusterfirst.networks.nodes import NodeArrays
from clusterfirst.networks.trainable.cluster import (
    SeedBatch,
    _latent_distance,
    all_seeds,
    nearest_seeds,
    seed_lists,
)
from clusterfirst.networks.trainable.inputs import collate
from clusterfirst.networks.trainable.layers import Lists
from clusterfirst.networks.trainable.router import Router
from networks import (
    KINDS,
    MOVES,
    RELATIVE,
    RULE,
    grid,
    moved,
    nodes_of,
    small_day,
    small_router,
    some_seeds,
)

PAIRED = replace(KINDS["xy"], pair_width=4)


def scored(router: Router, days: list[NodeArrays], seeds: SeedBatch) -> torch.Tensor:
    """(B, N, K) costs by seed number; inf where a seed is no candidate."""
    batch = collate(days, RULE)
    candidates = router.candidates(batch, seeds)
    out = router.score(router.encode(batch).hidden, batch, seeds, candidates)
    dense = torch.full((*out.cost.shape[:2], seeds.index.shape[1]), torch.inf)
    place = torch.where(out.valid, out.candidates, 0)
    cost = torch.where(out.valid, out.cost, torch.inf)
    return dense.scatter_reduce(-1, place, cost, "amin")


@pytest.mark.parametrize("kind", ["xy", "psi"])
def test_latent_distance_is_between_0_and_2(kind: str) -> None:
    """Without the pair head Delta is a distance of unit vectors, as in the paper."""
    router = small_router(KINDS[kind])
    seeds = some_seeds([5], [30])
    cost = scored(router, [nodes_of(small_day())], seeds)
    assert cost.shape == (1, 30, 5)
    assert ((cost >= 0) & (cost <= 2)).all()


def test_latent_distance_is_the_norm_of_the_difference() -> None:
    """Delta_ij = |h_i - c_j| of the encoder's normalised outputs."""
    router = small_router()
    batch = collate([nodes_of(small_day())], RULE)
    seeds = some_seeds([4], [30])
    hidden = router.encode(batch).hidden
    kept: list[torch.Tensor] = []
    router.cluster.encoder.register_forward_hook(
        lambda module, args, out: kept.append(out)
    )
    out = router.score(hidden, batch, seeds, router.candidates(batch, seeds))
    unit = torch.nn.functional.normalize(kept[0], dim=-1)
    wanted = torch.cdist(unit[:, 1:31], unit[:, 31:])
    assert torch.allclose(out.cost, wanted, atol=2e-3)  # the root's floor is 1e-3


def test_logits() -> None:
    """s = -softplus(gamma) Delta + beta: it falls with the distance."""
    router = small_router()
    batch, seeds = collate([nodes_of(small_day())], RULE), some_seeds([4], [30])
    hidden = router.encode(batch).hidden
    with torch.no_grad():
        router.cluster.gamma.fill_(-1.5)
        router.cluster.beta.fill_(0.7)
    out = router.score(hidden, batch, seeds, router.candidates(batch, seeds))
    steep = torch.log1p(torch.exp(torch.tensor(-1.5)))
    assert torch.allclose(out.logit, -steep * out.cost + 0.7, atol=1e-6)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_padded_batches_equal_single_runs(kind: str) -> None:
    """Costs do not depend on the other instances of the batch, nor on its order."""
    router = small_router(KINDS[kind])
    sizes, counts = [6, 30, 17], [2, 6, 4]
    days = [nodes_of(small_day(n, index=n)) for n in sizes]
    seeds = some_seeds(counts, sizes)
    together = scored(router, days, seeds)
    back = SeedBatch(seeds.index.flip(0), seeds.real.flip(0))
    turned = scored(router, days[::-1], back)
    for row, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        one = SeedBatch(
            seeds.index[row : row + 1, :count], seeds.real[row : row + 1, :count]
        )
        alone = scored(router, [days[row]], one)[0]
        for batch, place in ((together, row), (turned, 2 - row)):
            assert torch.allclose(alone, batch[place, :size, :count], atol=1e-5)
            assert batch[place, :size, count:].isinf().all()


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_permuting_seeds_permutes_columns(kind: str) -> None:
    """[P2] The order of the seeds changes nothing but the order of the columns."""
    router = small_router(KINDS[kind])
    days, seeds = [nodes_of(small_day())], some_seeds([7], [30])
    turn = torch.randperm(7, generator=torch.Generator().manual_seed(1))
    turned = SeedBatch(seeds.index[:, turn], seeds.real[:, turn])
    before, after = scored(router, days, seeds), scored(router, days, turned)
    assert torch.allclose(before[..., turn], after, atol=1e-5)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_permuting_customers_permutes_rows(kind: str) -> None:
    """[P2] The order of the customers changes nothing but the order of the rows."""
    router = small_router(KINDS[kind])
    day = small_day()
    turn = np.random.default_rng(2).permutation(30)
    rows = np.concatenate([[0], turn + 1])
    nodes = nodes_of(day)
    assert nodes.rows is not None
    other = replace(
        nodes,
        coords=nodes.coords[rows],
        demands=nodes.demands[rows],
        rows=nodes.rows[rows],
    )
    seeds = some_seeds([5], [30])
    place = torch.from_numpy(np.argsort(rows))
    moved = SeedBatch(place[seeds.index], seeds.real)
    before, after = scored(router, [nodes], seeds), scored(router, [other], moved)
    assert torch.allclose(before[:, torch.from_numpy(turn)], after, atol=1e-5)


def listed(lists: Lists, token: int) -> set[int]:
    """The tokens that a token sees."""
    return set(lists.index[0, token][lists.valid[0, token]].tolist())


def test_seeds_inherit_the_mask_of_their_customer() -> None:
    """Rows and columns of the k-NN mask, copied: a seed sees and is seen alike."""
    batch, seeds = collate([nodes_of(small_day(12))], RULE), some_seeds([3], [12])
    lists = seed_lists(batch, seeds, paired=False)
    who = [*range(13), *seeds.index[0].tolist()]  # the node each token stands for
    for token in range(16):
        wanted = {t for t in range(16) if who[t] in listed(batch.lists, who[token])}
        assert listed(lists, token) == wanted


def test_paired_tokens_see_the_nearest_seeds() -> None:
    """With pair features a seed also sees its customer's list, itself, and others."""
    batch, seeds = collate([nodes_of(small_day(30))], RULE), some_seeds([11], [30])
    lists = seed_lists(batch, seeds, paired=True)
    for number, customer in enumerate(seeds.index[0].tolist()):
        seen = listed(lists, 31 + number)
        assert {t for t in seen if t < 31} == listed(batch.lists, customer)
        assert 31 + number in seen
        assert len([t for t in seen if t >= 31]) == VISIBLE_SEEDS


def test_the_depot_sees_its_nearest_seeds() -> None:
    """No seed is a detour from the depot; the nearest are seen, in any order."""
    batch, seeds = collate([nodes_of(small_day(30))], RULE), some_seeds([12], [30])
    seen = []
    for turn in (torch.arange(12), torch.arange(12).flip(0)):
        turned = SeedBatch(seeds.index[:, turn], seeds.real[:, turn])
        lists = seed_lists(batch, turned, paired=True)
        chosen = [t - 31 for t in listed(lists, 0) if t >= 31]
        seen.append(set(turned.index[0, chosen].tolist()))
    radius = torch.linalg.vector_norm(batch.position, dim=-1)[0, seeds.index[0]]
    nearest = seeds.index[0, radius.argsort()[:VISIBLE_SEEDS]]
    assert seen[0] == seen[1] == set(nearest.tolist())


def test_no_token_is_listed_twice() -> None:
    """A token counted twice would weigh twice in the softmax."""
    batch = collate([nodes_of(small_day(n, index=n)) for n in (9, 25)], RULE)
    seeds = some_seeds([2, 5], [9, 25])
    for paired in (False, True):
        lists = seed_lists(batch, seeds, paired=paired)
        for b in range(2):
            for row, valid in zip(lists.index[b], lists.valid[b], strict=True):
                seen = row[valid].tolist()
                assert len(seen) == len(set(seen))


def test_padded_seeds_are_seen_by_nobody() -> None:
    """Seed tokens that pad a batch change nothing for the real ones."""
    router = small_router()
    day, seeds = [nodes_of(small_day())], some_seeds([4], [30])
    wide = SeedBatch(
        torch.cat([seeds.index, torch.zeros(1, 3, dtype=torch.int64)], 1),
        torch.cat([seeds.real, torch.zeros(1, 3, dtype=torch.bool)], 1),
    )
    before, after = scored(router, day, seeds), scored(router, day, wide)
    assert torch.allclose(before, after[..., :4], atol=1e-6)
    assert after[..., 4:].isinf().all()


def test_types_tell_a_seed_from_its_customer() -> None:
    """Without type embeddings seed and customer start equal; with them they differ."""
    router = small_router()
    batch, seeds = collate([nodes_of(small_day())], RULE), some_seeds([3], [30])
    hidden = router.encode(batch).hidden
    _, x = router.cluster._tokens(hidden, batch, seeds)  # noqa: SLF001  # the sequence is the claim
    own = x[0, seeds.index[0]]
    gap = router.cluster.role.weight[2] - router.cluster.role.weight[1]
    assert torch.allclose(x[0, 31:] - own, gap.expand(3, -1), atol=1e-6)
    assert torch.allclose(x[0, 0] - hidden[0, 0], router.cluster.role.weight[0])


def test_all_seeds_are_candidates_or_the_nearest() -> None:
    """Dense: every real seed. Otherwise: those with the least insertion cost."""
    arrays = nodes_of(small_day())
    batch, seeds = collate([arrays], RULE), some_seeds([6], [30])
    assert all_seeds(batch, seeds)[0].tolist() == [list(range(6))] * 30
    near = nearest_seeds(batch, seeds, 3)[0].numpy()
    away = np.linalg.norm(arrays.coords[:, None] - arrays.coords, axis=-1)
    rows = seeds.index[0].numpy()
    detour = away[1:, :1] + away[1:, rows] - away[0, rows]
    wanted = np.sort(np.take_along_axis(detour, near, 1), 1)
    assert np.allclose(wanted, np.sort(detour, 1)[:, :3], atol=1e-6)


@pytest.mark.parametrize("kind", MOVES)
@pytest.mark.parametrize("where", ["random", "grid"])
def test_relative_costs_are_invariant(kind: str, where: str) -> None:
    """Rotation, reflection, translation, scaling, demands with capacity: no change."""
    router = small_router(RELATIVE)
    arrays = nodes_of(small_day(40)) if where == "random" else grid(3)
    seeds = some_seeds([7], [40])
    before, after = (scored(router, [a], seeds) for a in (arrays, moved(arrays, kind)))
    assert torch.allclose(before, after, atol=1e-4)


def twins(far: float = 40.0) -> NodeArrays:
    """A neighbourhood and its exact copy on the other side of the depot."""
    rng = np.random.default_rng(0)
    group = rng.normal(size=(8, 2)) + np.array([far / 2, 0.0])
    demands = rng.integers(1, 9, 8)
    return NodeArrays(
        np.vstack([[0.0, 0.0], group, -group]),
        np.concatenate([[0], demands, demands]),
        50,
    )


def test_a_far_copy_is_not_confused_with_the_near_one() -> None:
    """The pair head tells two seeds apart whose surroundings are exactly alike."""
    seeds = SeedBatch(torch.tensor([[1, 9]]), torch.ones(1, 2, dtype=torch.bool))
    blind = small_router(replace(RELATIVE, pair_head=False))
    cost = scored(blind, [twins()], seeds)[0]
    assert torch.allclose(cost[:, 0], cost[:, 1], atol=1e-4)  # hence the pair head
    cost = scored(small_router(RELATIVE), [twins()], seeds)[0]
    assert (cost[:, 0] - cost[:, 1]).abs().min() > 1e-3
    # What is near for one copy is near for the other.
    assert torch.allclose(cost[:8], cost[8:].flip(1), atol=1e-4)


def test_a_far_copy_is_no_candidate() -> None:
    """With fewer candidates than seeds, those of the far copy are left out."""
    router = small_router(replace(RELATIVE, candidates=2))
    seeds = SeedBatch(torch.tensor([[1, 2, 9, 10]]), torch.ones(1, 4, dtype=torch.bool))
    batch = collate([twins()], RULE)
    near = router.candidates(batch, seeds)[0]
    assert (near[:8] < 2).all()
    assert (near[8:] >= 2).all()


def test_opposite_vectors_are_at_most_2_apart() -> None:
    """Rounding does not carry Delta beyond 2, nor a gradient beyond all bounds."""
    torch.manual_seed(0)
    h = torch.randn(1, 200, 128, requires_grad=True)
    for c in (-h, h):
        delta = _latent_distance(h, c, torch.arange(200).expand(1, 200, 200))
        assert delta.max() <= 2
        assert delta.min() >= 0
        grad = torch.autograd.grad(delta.sum(), h, retain_graph=True)[0]
        assert grad.isfinite().all()
