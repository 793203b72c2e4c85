"""The four losses against the printed formulas, and what they must not depend on."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from clusterfirst.learning.labels.pool import Label
from clusterfirst.learning.training.batches import TrainBatch, distal_customers
from clusterfirst.learning.training.losses import (
    Losses,
    LossSettings,
    contrastive_loss,
    training_losses,
    transport_loss,
    with_true_seed,
)
from clusterfirst.networks.trainable import cluster
from clusterfirst.networks.trainable.router import Router
from clusterfirst.networks.trainable.seeds import SeedOutput
from networks import KINDS, angular_label, label_batch, small_router

PAPER = LossSettings(transport="unrolled")
OURS = LossSettings()
TERMS = ("total", "seed", "contrast", "bce", "transport", "accuracy")


def losses_of(router: Router, batch: TrainBatch, settings: LossSettings) -> Losses:
    """All losses without building a graph."""
    with torch.no_grad():
        return training_losses(router, batch, settings)


def slow_contrast(z: torch.Tensor, route: torch.Tensor, tau: float) -> float:
    """The printed formula in loops, averaged over the anchors that have a positive."""
    terms = []
    n = len(route)
    for i in range(n):
        positives = [p for p in range(n) if p != i and route[p] == route[i]]
        if not positives:
            continue
        similar = [
            math.exp(torch.cosine_similarity(z[i], z[a], dim=0).item() / tau)
            for a in range(n)
        ]
        others = sum(similar[a] for a in range(n) if a != i)
        terms.append(
            -sum(math.log(similar[p] / others) for p in positives) / len(positives)
        )
    return sum(terms) / len(terms)


@pytest.mark.parametrize("tau", [0.1, 0.5])
def test_contrastive_loss_is_the_printed_one(tau: float) -> None:
    """Mean over positives outside the log; anchors without a positive left out."""
    label = angular_label(14)
    route = label.route.copy()
    route[3] = route.max() + 1  # a route of its own: no positive
    batch = label_batch([Label(label.nodes, route), angular_label(9, index=1)])
    z = torch.nn.functional.normalize(torch.randn(2, 15, 6), dim=-1)
    encoded = SeedOutput(z, z[..., 0], z)
    settings = replace(OURS, contrast_temperature=tau)
    found = contrastive_loss(encoded, batch, settings, listed=False)
    each = [
        slow_contrast(z[b, 1 : 1 + n], batch.route[b, :n], tau)
        for b, n in enumerate((14, 9))
    ]
    anchors = [13, 9 - lonely(batch.route[1, :9])]
    wanted = np.average(each, weights=anchors)
    assert found.item() == pytest.approx(wanted, rel=1e-4)


def lonely(route: torch.Tensor) -> int:
    """How many customers have a route of their own."""
    return int((torch.bincount(route) == 1).sum())


def test_contrastive_loss_over_lists_is_the_printed_one_among_neighbours() -> None:
    """With lists that hold everybody, the listed form is the dense one."""
    label = angular_label(7)  # six neighbours: all the others
    batch = label_batch([label])
    z = torch.nn.functional.normalize(torch.randn(1, 8, 6), dim=-1)
    encoded = SeedOutput(z, z[..., 0], z)
    dense, listed = (
        contrastive_loss(encoded, batch, OURS, listed=listed)
        for listed in (False, True)
    )
    assert torch.allclose(dense, listed, atol=1e-5)


def test_no_positive_at_all_gives_zero() -> None:
    """When every route has one customer there is no contrast, and no NaN."""
    label = angular_label(5)
    batch = label_batch([Label(label.nodes, np.arange(5))])
    z = torch.nn.functional.normalize(torch.randn(1, 6, 4), dim=-1)
    z.requires_grad_()
    for listed in (False, True):
        loss = contrastive_loss(SeedOutput(z, z[..., 0], z), batch, OURS, listed=listed)
        assert loss == 0
        assert torch.autograd.grad(loss, z)[0].isfinite().all()


@pytest.mark.parametrize("pool", [1, 2, 3])
def test_seed_targets_are_the_most_distal(pool: int) -> None:
    """The m customers of each route farthest from the depot, fewer in short routes."""
    label = angular_label(30)
    reach = np.linalg.norm(label.nodes.coords[1:] - label.nodes.coords[0], axis=1)
    batch = label_batch([label], pool=pool)
    for number in range(label.route.max() + 1):
        members = np.flatnonzero(label.route == number)
        wanted = set(members[np.argsort(-reach[members])][:pool].tolist())
        row = distal_customers(label, pool)[number]
        assert set(row[row >= 0].tolist()) == wanted
        marked = np.flatnonzero(batch.is_seed[0].numpy())
        assert {i for i in marked.tolist() if label.route[i] == number} == wanted


def test_teacher_forced_seeds_are_distinct_and_drawn_from_the_targets() -> None:
    """Seed j is one of the m targets of route j; over draws, each of them."""
    label = angular_label(30)
    drawn: dict[int, set[int]] = {}
    for seed in range(20):
        batch = label_batch([label], seed=seed)
        rows = (batch.seeds.index[0] - 1).tolist()
        assert batch.seeds.real.all()
        for number, customer in enumerate(rows):
            assert label.route[customer] == number
            assert batch.is_seed[0, customer] == 1
            drawn.setdefault(number, set()).add(customer)
    assert all(len(found) == 2 for found in drawn.values())


def test_slack_is_what_the_fleet_has_left() -> None:
    """Unused vehicles: K minus total demand over Q."""
    label = angular_label(30)
    slack = label_batch([label]).slack.item()
    routes = label.route.max() + 1
    total = label.nodes.demands.sum() / label.nodes.capacity
    assert slack == pytest.approx(routes - total, abs=1e-5)


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("settings", [PAPER, OURS], ids=["paper", "ours"])
def test_losses_are_finite_and_add_up(kind: str, settings: LossSettings) -> None:
    """L = L_seed + w L_con + L_BCE + L_OT, with gradients that are finite."""
    router = small_router(KINDS[kind]).train()
    batch = label_batch([angular_label(30), angular_label(12, index=1)])
    losses = training_losses(router, batch, settings)
    whole = (
        losses.seed
        + LossSettings().contrast_weight * losses.contrast
        + losses.bce
        + losses.transport
    )
    assert torch.isclose(losses.total, whole, rtol=1e-5)
    losses.total.backward()
    for name, parameter in router.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is None or parameter.grad.isfinite().all(), name


def test_assignment_loss_is_a_switch() -> None:
    """Without L_BCE the total leaves it out, and gamma and beta get no gradient."""
    router = small_router()
    batch = label_batch([angular_label(20)])
    losses = training_losses(router, batch, replace(OURS, bce=False))
    whole = (
        losses.seed
        + LossSettings().contrast_weight * losses.contrast
        + losses.transport
    )
    assert torch.isclose(losses.total, whole, rtol=1e-5)
    losses.total.backward()
    for parameter in (router.cluster.gamma, router.cluster.beta):
        assert parameter.grad is None or parameter.grad == 0


def clustering_gradient(router: Router, batch: TrainBatch, way: str) -> float:
    """Gradient of L_BCE + L_OT in the Seed Transformer, by one way or both."""
    encoded = router.encode(batch.nodes)
    hidden = encoded.hidden
    cut = hidden.detach()
    gather = cluster.gather_rows

    def gather_seeds(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        if x is nodes and way != "both":
            return gather(hidden if way == "C" else cut, index)
        return gather(x, index)

    nodes = cut if way == "C" else hidden
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster, "gather_rows", gather_seeds)
        candidates = router.candidates(batch.nodes, batch.seeds)
        scored = router.score(nodes, batch.nodes, batch.seeds, candidates)
    target = (scored.candidates == batch.route[..., None]).float()
    loss = torch.nn.functional.binary_cross_entropy_with_logits(scored.logit, target)
    loss = loss + transport_loss(scored, batch, OURS)
    weights = [p for p in router.seed.encoder.parameters() if p.requires_grad]
    found = torch.autograd.grad(loss, weights, allow_unused=True)
    return sum(float(g.abs().sum()) for g in found if g is not None)


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("way", ["both", "H", "C"])
def test_clustering_losses_reach_the_seed_transformer(kind: str, way: str) -> None:
    """With seed and contrastive loss off, gradients flow through H and through C."""
    router = small_router(KINDS[kind])
    assert clustering_gradient(router, label_batch([angular_label(25)]), way) > 1e-4


def test_true_seed_is_always_a_candidate() -> None:
    """Where the nearest seeds leave the expert's out, it takes the last place."""
    candidates = torch.tensor([[[0, 1], [2, 0], [1, 2]]])
    route = torch.tensor([[3, 2, -1]])
    fixed = with_true_seed(candidates, route)
    assert fixed.tolist() == [[[0, 3], [2, 0], [1, 2]]]


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("settings", [PAPER, OURS], ids=["paper", "ours"])
def test_losses_ignore_names_of_routes(kind: str, settings: LossSettings) -> None:
    """[P2] Renumbering the expert's routes changes no loss.

    With one target per route the teacher-forced seed is the same for any numbering.
    A route is a set of customers here: no loss knows an order or a direction [P3].
    """
    router = small_router(KINDS[kind])
    label = angular_label(30)
    turn = np.random.default_rng(4).permutation(label.route.max() + 1)
    before = losses_of(router, label_batch([label], pool=1), settings)
    renamed = Label(label.nodes, turn[label.route])
    after = losses_of(router, label_batch([renamed], pool=1), settings)
    for term in TERMS:
        assert torch.isclose(
            getattr(before, term), getattr(after, term), rtol=1e-3, atol=1e-5
        ), term


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_losses_ignore_the_order_of_customers(kind: str) -> None:
    """[P2] Permuting the customers with their labels changes no loss."""
    router = small_router(KINDS[kind])
    label = angular_label(30)
    rows = np.concatenate([[0], np.random.default_rng(5).permutation(30) + 1])
    nodes = label.nodes
    assert nodes.rows is not None
    shuffled = Label(
        replace(
            nodes,
            coords=nodes.coords[rows],
            demands=nodes.demands[rows],
            rows=nodes.rows[rows],
        ),
        label.route[rows[1:] - 1],
    )
    before, after = (
        losses_of(router, label_batch([each], pool=1), OURS)
        for each in (label, shuffled)
    )
    for term in TERMS:
        assert torch.isclose(
            getattr(before, term), getattr(after, term), rtol=1e-3, atol=1e-5
        ), term


def test_losses_fall_when_trained_on_one_batch() -> None:
    """Fifteen steps on one batch: every customer's seed is learned better."""
    torch.manual_seed(0)
    router = small_router(KINDS["relative"]).train()
    batch = label_batch([angular_label(30)])
    first = losses_of(router, batch, OURS)
    adam = torch.optim.AdamW(router.parameters(), lr=5e-3)
    for _ in range(15):
        adam.zero_grad()
        training_losses(router, batch, OURS).total.backward()
        adam.step()
    last = losses_of(router, batch, OURS)
    assert last.total < 0.8 * first.total
    assert last.accuracy > first.accuracy
