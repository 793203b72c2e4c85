"""Attention along neighbour lists is the textbook's with a mask."""

from __future__ import annotations

import math

import pytest
import torch

from clusterfirst.networks.config import ModelConfig
from clusterfirst.networks.trainable.layers import (
    MLP,
    Attention,
    Encoder,
    Lists,
    gather_rows,
)


def random_lists(batch: int, tokens: int, length: int) -> Lists:
    """Lists of distinct tokens, the token itself first, some places empty."""
    index = torch.stack(
        [
            torch.cat([torch.tensor([t]), others[others != t][: length - 1]])
            for _ in range(batch)
            for t in range(tokens)
            for others in [torch.randperm(tokens)]
        ]
    ).view(batch, tokens, length)
    valid = torch.rand(index.shape) < 0.8
    valid[..., 0] = True
    return Lists(index, valid)


def masked_attention(
    attention: Attention, x: torch.Tensor, lists: Lists, pair: torch.Tensor | None
) -> torch.Tensor:
    """The textbook: softmax over all tokens with -inf outside the list."""
    batch, tokens, width = x.shape
    heads = attention.heads
    q, k, v = attention.qkv(x).view(batch, tokens, 3, heads, -1).unbind(2)
    logits = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(width // heads)
    mask = torch.zeros(batch, tokens, tokens, dtype=torch.bool)
    between = x.new_zeros(batch, tokens, tokens, 0 if pair is None else pair.shape[-1])
    for b in range(batch):
        for t in range(tokens):
            listed = lists.index[b, t][lists.valid[b, t]]
            mask[b, t, listed] = True
            if pair is not None:
                between[b, t, listed] = pair[b, t][lists.valid[b, t]]
    if pair is not None:
        logits = logits + attention.bias(between).permute(0, 3, 1, 2)
    weights = logits.masked_fill(~mask[:, None], -math.inf).softmax(-1)
    mixed = torch.einsum("bhts,bshd->bthd", weights, v).reshape(batch, tokens, width)
    out: torch.Tensor = attention.out(mixed)
    if pair is not None:
        about = torch.einsum("bhts,btsp->bthp", weights, between)
        out = out + attention.message(about.reshape(batch, tokens, -1))
    return out


def along_lists(pair: torch.Tensor | None) -> torch.Tensor | None:
    """Pair features as a layer wants them: (B T, P, L)."""
    return None if pair is None else pair.flatten(0, 1).transpose(1, 2).contiguous()


@pytest.mark.parametrize("pair_width", [0, 1, 3, 8])
@pytest.mark.parametrize(("tokens", "length"), [(1, 1), (2, 2), (9, 4), (40, 33)])
def test_attention_is_masked_softmax_attention(
    pair_width: int, tokens: int, length: int
) -> None:
    """The lists are the paper's k-NN mask, nothing else, and so are all gradients."""
    torch.manual_seed(1)
    attention = Attention(16, 4, pair_width)
    lists = random_lists(3, tokens, length)
    x = torch.randn(3, tokens, 16, requires_grad=True)
    pair = None
    if pair_width:
        pair = torch.randn(3, tokens, length, pair_width, requires_grad=True)
    wanted = masked_attention(attention, x, lists, pair)
    found = attention(x, lists, along_lists(pair))
    assert torch.allclose(found, wanted, atol=1e-5)
    inputs = [x, *attention.parameters()] + ([] if pair is None else [pair])
    ours, theirs = (
        torch.autograd.grad(out.square().sum(), inputs, materialize_grads=True)
        for out in (found, wanted)
    )
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.allclose(mine, other, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("pair_width", [0, 3])
def test_order_of_a_list_does_not_matter(pair_width: int) -> None:
    """A neighbour list is a set: shuffled with its pair features it says the same."""
    torch.manual_seed(2)
    attention = Attention(16, 4, pair_width)
    x, lists = torch.randn(2, 10, 16), random_lists(2, 10, 6)
    pair = torch.randn(2, 10, 6, pair_width) if pair_width else None
    turn = torch.randperm(6)
    shuffled = Lists(lists.index[..., turn], lists.valid[..., turn])
    turned = None if pair is None else pair[:, :, turn]
    assert torch.allclose(
        attention(x, lists, along_lists(pair)),
        attention(x, shuffled, along_lists(turned)),
        atol=1e-6,
    )


@pytest.mark.parametrize("pair_width", [0, 3])
def test_what_is_not_in_the_list_is_not_seen(pair_width: int) -> None:
    """Changing a token changes only those that list it, and padding never counts."""
    torch.manual_seed(3)
    attention = Attention(16, 4, pair_width)
    x, lists = torch.randn(1, 12, 16), random_lists(1, 12, 4)
    pair = torch.randn(1, 12, 4, pair_width) if pair_width else None
    before = attention(x, lists, along_lists(pair))
    other = x.clone()
    other[0, 7] += 1.0
    index = torch.where(lists.valid, lists.index, 3)  # padding may point anywhere
    after = attention(other, Lists(index, lists.valid), along_lists(pair))
    sees = ((lists.index == 7) & lists.valid).any(-1)[0]
    changed = (before - after).abs().amax(-1)[0] > 1e-6
    assert torch.equal(changed, sees)


def test_a_token_that_sees_only_itself_is_finite() -> None:
    """Padding tokens, which list only themselves, stay finite through the layers."""
    config = ModelConfig(width=8, heads=2, feedforward=16, dropout=0.0)
    encoder = Encoder(config, 2)
    alone = Lists(torch.arange(4)[None, :, None], torch.ones(1, 4, 1, dtype=torch.bool))
    assert encoder(torch.zeros(1, 4, 8), alone).isfinite().all()


def test_gather_rows_is_batched_indexing() -> None:
    """gather_rows(x, i)[b] is x[b][i[b]] for any shape of rows and indices."""
    x = torch.randn(3, 5, 2, 4)
    index = torch.randint(5, (3, 6, 2))
    rows = gather_rows(x, index)
    assert rows.shape == (3, 6, 2, 2, 4)
    for b in range(3):
        assert torch.equal(rows[b], x[b][index[b]])


def test_lists_join() -> None:
    """Joined lists hold the places of both."""
    both = random_lists(1, 5, 3).cat(random_lists(1, 5, 2))
    assert both.index.shape == both.valid.shape == (1, 5, 5)


def test_heads_have_two_layers() -> None:
    """Every head is a two-layer perceptron, as the paper says."""
    sizes = [tuple(p.shape) for p in MLP(4, 7, 2).parameters()]
    assert sizes == [(7, 4), (7,), (2, 7), (2,)]
