"""The spatial masked autoencoder and its pre-training."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from clusterfirst.learning.training.checkpoint import load_checkpoint
from clusterfirst.learning.training.pretraining import colours_of, load_psi, pretrain
from clusterfirst.networks.neighbours import nearest
from clusterfirst.networks.trainable import embed
from clusterfirst.networks.trainable.embed import (
    SETTINGS,
    Autoencoder,
    Blocks,
    EmbedSettings,
    city_graph,
    draw_masks,
    masked_losses,
)
from clusterfirst.problem.city import City
from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.errors import InputError
from clusterfirst.problem.sampling import sample_city

TINY = EmbedSettings(
    layers=2,
    heads=2,
    width=16,
    feedforward=32,
    psi_width=8,
    k_attn=6,
    k_target=12,
    maskings=2,
    epochs=40,
    cooldown=20,
    rate=3e-3,
)


def build(city, settings=TINY):
    torch.manual_seed(0)
    return Autoencoder(city_graph(city, settings), settings)


def grid_city(side=9, step=1.0):
    points = np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1)
    return City(step * points.reshape(-1, 2).astype(float))


@pytest.mark.parametrize("points", ["floats", "grid", "few"])
def test_block_attention_is_dense_attention_with_the_neighbour_mask(points):
    """Blocks are a layout: output and gradient equal those of an N x N mask."""
    rng = np.random.default_rng(0)
    cloud = {
        "floats": rng.random((150, 2)),
        "grid": rng.integers(0, 12, (130, 2)).astype(float),
        "few": rng.random((3, 2)),
    }[points]
    m, heads, width = len(cloud), 2, 8
    lists = nearest(cloud, 7, include_self=True)
    blocks = Blocks.of(cloud, lists)
    allowed = torch.zeros(m, m, dtype=torch.bool)
    for i, row in enumerate(lists):
        allowed[i, row[row >= 0]] = True
    qkv = torch.randn(m, 3, 3 * width, requires_grad=True)
    ours = blocks.attend(qkv[blocks.order], heads)[blocks.place]
    parts = qkv.view(m, 3, 3, heads, width // heads).permute(2, 1, 3, 0, 4)
    dense = F.scaled_dot_product_attention(*parts, attn_mask=allowed)
    dense = dense.permute(2, 0, 1, 3).reshape(m, 3, width)
    assert torch.allclose(ours, dense, atol=1e-5)
    weight = torch.randn_like(ours)
    (one,) = torch.autograd.grad((ours * weight).sum(), qkv)
    (two,) = torch.autograd.grad((dense * weight).sum(), qkv)
    assert torch.allclose(one, two, atol=1e-5)


def test_masks_are_patches_of_the_right_share():
    """15 to 30 % are hidden, next to each other, as a function of (seed, index)."""
    settings = replace(TINY, maskings=20)
    graph = city_graph(sample_city(300, seed=1), settings)
    masks = draw_masks(graph, settings, 7)
    shares = masks.float().mean(dim=1)
    assert (shares >= 0.149).all()
    assert (shares <= 0.301).all()
    assert shares.std() > 0.01
    assert torch.equal(masks, draw_masks(graph, settings, 7))
    assert not torch.equal(masks, draw_masks(graph, settings, 8))
    # Nearest neighbours of the hidden are hidden far more often than by chance.
    closest = torch.from_numpy(graph.patches[:, 0])
    together = (masks[:, closest] & masks).sum() / masks.sum()
    assert together > 0.6


def test_heads_read_psi_and_losses_are_the_printed_ones():
    """L1 to all distances and BCE to the k_target links, means over hidden nodes."""
    model = build(sample_city(40, seed=2))
    graph = model.graph
    masks = draw_masks(graph, TINY, 0)
    rows = masks.nonzero(as_tuple=True)[1]
    psi = model.encode(masks, masks)
    assert psi.shape == (int(masks.sum()), TINY.psi_width)
    links = torch.zeros(graph.size, graph.size + 1)
    links.scatter_(1, graph.linked, 1.0)
    links = links[:, :-1]
    assert (links.sum(dim=1) >= TINY.k_target).all()
    found = masked_losses(model, masks, learn=False)
    away = (model.distance(psi) - graph.distances[rows]).abs().mean()
    bce = F.binary_cross_entropy_with_logits(model.linked(psi), links[rows])
    assert found.distance == pytest.approx(away.item(), rel=1e-5)
    assert found.linked == pytest.approx(bce.item(), rel=1e-5)


def test_maskings_in_turns_give_the_same_gradient(monkeypatch):
    """Splitting a step to bound memory does not change it."""
    model = build(sample_city(60, seed=3))
    masks = draw_masks(model.graph, replace(TINY, maskings=5), 0)
    gradients = []
    for tokens, entries in ((10_000, 10_000), (150, 500)):
        monkeypatch.setattr(embed, "TOKENS_AT_ONCE", tokens)
        monkeypatch.setattr(embed, "ENTRIES_AT_ONCE", entries)
        model.zero_grad()
        masked_losses(model, masks, learn=True)
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    assert gradients[0].abs().sum() > 0
    assert torch.allclose(*gradients, atol=1e-6)


def test_a_hidden_location_does_not_see_its_own_vector():
    """Changing the vectors of hidden locations changes nothing."""
    model = build(sample_city(60, seed=4))
    masks = draw_masks(model.graph, replace(TINY, maskings=1), 0)
    before = model.encode(masks, masks)
    with torch.no_grad():
        model.table[masks[0]] += 5.0
    assert torch.equal(before, model.encode(masks, masks))
    with torch.no_grad():
        model.table[~masks[0]] += 5.0 * torch.randn(1, TINY.width)
    assert not torch.allclose(before, model.encode(masks, masks), atol=1e-3)


def few_steps(city, steps=3):
    model = build(city)
    adam = torch.optim.Adam(model.parameters(), lr=TINY.rate)
    for epoch in range(steps):
        adam.zero_grad()
        masked_losses(model, draw_masks(model.graph, TINY, epoch), learn=True)
        adam.step()
    return model.table_psi()


@pytest.mark.parametrize("kind", ["floats", "grid"])
@pytest.mark.parametrize("mirror", [False, True])
def test_pretraining_is_invariant_under_isometries_and_scaling(kind, mirror):
    """P1: rotated, reflected, shifted, scaled cities get the same Psi to 1e-4."""
    city = sample_city(120, seed=5) if kind == "floats" else grid_city()
    c, s = np.cos(0.7), np.sin(0.7)
    turn = np.array([[c, -s], [s, c]]) @ np.diag([1.0, -1.0 if mirror else 1.0])
    moved = City(250.0 * (city.coords @ turn.T) + [3.0, -7.0])
    assert torch.allclose(few_steps(city), few_steps(moved), atol=1e-4)


@pytest.mark.parametrize(
    "city",
    [
        City(np.array([[0.0, 0.0], [1.0, 0.0]])),
        City(np.array([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])),
        City(np.repeat(np.random.default_rng(0).random((6, 2)), 20, axis=0)),
        City(
            np.array([[13.0, 52.0], [13.4, 52.5], [13.5, 52.4]]), metric="greatcircle"
        ),
    ],
    ids=["one location", "one place", "towers", "degrees"],
)
def test_odd_cities_give_finite_tables(city):
    """One location, all at one place, many at few places, longitude and latitude."""
    psi = few_steps(city)
    assert psi.shape == (len(city.coords), TINY.psi_width)
    assert torch.isfinite(psi).all()
    colours = colours_of(psi)
    assert colours.shape == (len(psi), 3)
    assert ((colours >= 0) & (colours <= 1)).all()


def test_a_city_without_locations_is_refused():
    """A sentence, not a traceback."""
    with pytest.raises(InputError, match="1 to 30000 locations"):
        city_graph(City(np.zeros((1, 2))), TINY)


def test_the_paper_is_a_named_setting():
    """Appendix B, number by number, and wrong settings are refused."""
    paper = SETTINGS["paper"]
    assert (paper.layers, paper.heads, paper.width) == (6, 4, 128)
    assert (paper.feedforward, paper.psi_width) == (512, 64)
    assert (paper.k_attn, paper.k_target) == (20, 40)
    assert (paper.hidden_share, paper.patch) == ((0.15, 0.30), (5, 10))
    assert (paper.maskings, paper.epochs, paper.rate) == (8, 10_000, 1e-3)
    assert (paper.cooldown, paper.patience) == (10_000, 0)
    with pytest.raises(InputError, match="k_target"):
        EmbedSettings(k_attn=40)
    with pytest.raises(InputError, match="heads"):
        EmbedSettings(heads=3)


# --- the loop -------------------------------------------------------------------


def weights(folder):
    found = load_checkpoint(folder / "checkpoints")
    assert found is not None
    return found.tensors, (folder / "psi.safetensors").read_bytes()


def same(one, two):
    return one[1] == two[1] and all(
        torch.equal(value, two[0][group][name])
        for group, tensors in one[0].items()
        for name, value in tensors.items()
    )


def test_pretraining_learns_and_leaves_a_whole_folder(tmp_path):
    """The held-out error falls; table, facts, curve and pictures are there."""
    city = sample_city(80, seed=6)
    seen = []
    settings = replace(TINY, epochs=100, cooldown=50)
    made = pretrain(city, settings, tmp_path, on_progress=seen.append)
    assert [p.epoch for p in seen] == list(range(1, 101))
    curve = np.genfromtxt(tmp_path / "curve.csv", delimiter=",", names=True)
    assert curve["held_out_distance"][-1] < 0.8 * curve["held_out_distance"][0]
    assert made.facts["finished"]
    assert made.facts["reason"] == "all epochs done"
    assert torch.equal(load_psi(tmp_path, city).psi, made.psi)
    for name in ("error.png", "embedding.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


KILLED = """
import os, signal, sys
from clusterfirst.networks.trainable.embed import EmbedSettings
from clusterfirst.learning.training.pretraining import pretrain
from clusterfirst.problem.sampling import sample_city
import torch
torch.set_num_threads(1)
def stop(progress):
    if progress.epoch == 37:
        os.kill(os.getpid(), signal.SIGKILL)
pretrain(sample_city(80, seed=6), EmbedSettings(**eval(sys.argv[1])), sys.argv[2],
         on_progress=stop)
"""


def test_killed_and_resumed_equals_uninterrupted(tmp_path):
    """kill -9 between checkpoints, run again: the same bytes, Adam included."""
    torch.set_num_threads(1)
    city = sample_city(80, seed=6)
    pretrain(city, TINY, tmp_path / "whole")
    fields = repr({k: getattr(TINY, k) for k in TINY.__dataclass_fields__})
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, fields, str(tmp_path / "killed")],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=120,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL
    assert load_checkpoint(tmp_path / "killed" / "checkpoints").state["epoch"] == 25
    pretrain(city, TINY, tmp_path / "killed")
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "killed"))


def test_a_deadline_pauses_the_run(tmp_path):
    """A passed deadline returns what there is; going on ends as if never paused."""
    city = sample_city(80, seed=6)
    pretrain(city, TINY, tmp_path / "whole")
    late = Deadline.after(0)
    assert pretrain(city, TINY, tmp_path / "paused", deadline=late).facts["epochs"] == 0
    looks = iter([False, False, True])  # time is up at the third look
    soon = SimpleNamespace(passed=lambda: next(looks))
    paused = pretrain(city, TINY, tmp_path / "paused", deadline=soon)
    assert paused.facts["epochs"] == 2
    assert not paused.facts["finished"]
    assert pretrain(city, TINY, tmp_path / "paused").facts["finished"]
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "paused"))


def test_a_flat_error_starts_the_cool_down_and_says_so(tmp_path):
    """Without progress for `patience` epochs the run ends early."""
    settings = replace(TINY, rate=1e-9, epochs=500, cooldown=10, patience=25)
    made = pretrain(sample_city(40, seed=7), settings, tmp_path)
    assert made.facts["epochs"] == 60
    assert made.facts["reason"] == "held-out error flat since epoch 25"


def test_other_cities_settings_and_damage_are_refused(tmp_path):
    """A folder is only resumed, and a table only used, for what it was made for."""
    city, other = sample_city(30, seed=8), sample_city(30, seed=9)
    settings = replace(TINY, epochs=2, cooldown=1)
    pretrain(city, settings, tmp_path)
    with pytest.raises(InputError, match="another city or with other settings"):
        pretrain(other, settings, tmp_path)
    with pytest.raises(InputError, match="another city or with other settings"):
        pretrain(city, replace(settings, rate=0.5), tmp_path)
    with pytest.raises(InputError, match="made for another city"):
        load_psi(tmp_path, other)
    (tmp_path / "psi.safetensors").write_bytes(b"\x00" * 40)
    with pytest.raises(InputError, match="no table Psi could be read"):
        load_psi(tmp_path, city)
