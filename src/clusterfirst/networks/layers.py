"""Transformer layers whose attention looks along neighbour lists.

Shape letters used in every network file: B instances of a batch, T tokens, L length
of a neighbour list, H heads, D width, K seeds, N customers, C candidate seeds of a
customer, P pair features.

The mask of the paper (Section 2.1) lets each token see its k nearest others. Here the
mask is a list per token, so that the cost grows with T L, not T T, and so that
relative geometry between a token and each one it sees can enter twice: as a bias on
the attention logits and as part of the message.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

# Below this many tokens two T x T products are faster than gathering T L rows
# (benchmarks/attention.py); both give the same numbers.
DENSE_TOKENS = 600
GATHER_BLOCK = 64  # tokens whose keys and values are gathered at a time


@dataclass(frozen=True)
class Lists:
    """Which tokens each token sees."""

    index: Tensor  # (B, T, L) int64, any token where not valid
    valid: Tensor  # (B, T, L) bool; at least one per token (itself)

    @cached_property
    def mask(self) -> Tensor:
        """(B, 1, T, T) the lists as the paper's mask: 0 where seen, else -inf."""
        B, T, _ = self.index.shape
        seen = torch.zeros(B, T, T, device=self.index.device)
        return seen.scatter_add_(-1, self.index, self.valid.float()).log_()[:, None]

    def cat(self, other: Lists) -> Lists:
        """Both lists, one after the other."""
        return Lists(
            torch.cat([self.index, other.index], dim=-1),
            torch.cat([self.valid, other.valid], dim=-1),
        )


def gather_rows(x: Tensor, index: Tensor) -> Tensor:
    """Rows of x (B, T, ...) at index (B, ...): the batched x[index]."""
    batch, *shape = index.shape
    flat = index.reshape(batch, -1)
    offsets = torch.arange(batch, device=x.device)[:, None] * x.shape[1]
    picked = x.reshape(-1, *x.shape[2:]).index_select(0, (flat + offsets).reshape(-1))
    return picked.view(batch, *shape, *x.shape[2:])


class MLP(nn.Module):
    """Two-layer perceptron, the paper's form of every head."""

    def __init__(self, width_in: int, hidden: int, width_out: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width_in, hidden)
        self.outer = nn.Linear(hidden, width_out)

    def forward(self, x: Tensor) -> Tensor:
        """(..., width_in) -> (..., width_out)."""
        out: Tensor = self.outer(nn.functional.gelu(self.inner(x)))
        return out


class Attention(nn.Module):
    """Multi-head attention along neighbour lists, with optional pair features."""

    def __init__(self, width: int, heads: int, pair_width: int = 0) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        if pair_width:
            self.bias = nn.Linear(pair_width, heads)
            self.message = nn.Linear(heads * pair_width, width, bias=False)

    def forward(self, x: Tensor, lists: Lists, pair: Tensor | None) -> Tensor:
        """(B, T, D) -> (B, T, D); pair is (B, T, L, P) or None."""
        B, T, D = x.shape
        q, k, v = (
            self.qkv(x)
            .view(B, T, 3, self.heads, D // self.heads)
            .permute(2, 0, 3, 1, 4)
        )  # each (B, H, T, D/H)
        dense = T <= DENSE_TOKENS
        if dense and pair is None:
            # One fused kernel; a quarter less time than the products one by one.
            seen = nn.functional.scaled_dot_product_attention(
                q, k, v, attn_mask=lists.mask
            )
            plain: Tensor = self.out(seen.transpose(1, 2).reshape(B, T, D))
            return plain
        q = q * (D // self.heads) ** -0.5
        bias = None if pair is None else self.bias(pair)  # (B, T, L, H)
        attend = _attend_dense if dense else _attend_gathered
        mixed, about = attend((q, k, v), lists, bias, pair)
        out: Tensor = self.out(mixed.reshape(B, T, D))
        if about is not None:
            out = out + self.message(about.reshape(B, T, -1))
        return out


Triple = tuple[Tensor, Tensor, Tensor]  # queries, keys, values, each (B, H, T, D/H)
Mixed = tuple[Tensor, Tensor | None]  # (B, T, H, D/H), and (B, T, H, P) with pairs


def _attend_dense(
    heads: Triple, lists: Lists, bias: Tensor | None, pair: Tensor | None
) -> Mixed:
    """All T x T products, of which the listed ones count."""
    q, k, v = heads
    B, H, T, _ = q.shape
    index = lists.index[:, None].expand(-1, H, -1, -1)  # (B, H, T, L)
    logits = (q @ k.transpose(-1, -2)).gather(-1, index)  # (B, H, T, L)
    if bias is not None:
        logits = logits + bias.permute(0, 3, 1, 2)
    logits = logits.masked_fill(~lists.valid[:, None], float("-inf"))
    weights = logits.softmax(dim=-1)
    spread = torch.zeros(B, H, T, T, dtype=q.dtype, device=q.device)
    mixed = (spread.scatter_add(-1, index, weights) @ v).transpose(1, 2)
    if pair is None:
        return mixed, None
    return mixed, torch.einsum("bhtl,btlp->bthp", weights, pair)


def _attend_gathered(
    heads: Triple, lists: Lists, bias: Tensor | None, pair: Tensor | None
) -> Mixed:
    """The listed products only, some tokens at a time, which stay in the cache.

    All at once the gathered keys of 10,000 tokens are 170 MB, copied several times.
    """
    B, H, T, width = heads[0].shape
    q, k, v = (x.transpose(1, 2).reshape(B * T, H, width) for x in heads)
    offsets = torch.arange(B, device=q.device)[:, None, None] * T
    index = (lists.index + offsets).view(B * T, -1)
    hidden = ~lists.valid.view(B * T, -1, 1)
    mixed, about = [], []
    for start in range(0, B * T, GATHER_BLOCK):
        block = slice(start, start + GATHER_BLOCK)
        at = index[block]
        keys = k.index_select(0, at.reshape(-1)).view(*at.shape, H, width)
        logits = (q[block, None] * keys).sum(dim=-1)  # (block, L, H)
        if bias is not None:
            logits = logits + bias.view(B * T, -1, H)[block]
        weights = logits.masked_fill(hidden[block], float("-inf")).softmax(dim=1)
        values = v.index_select(0, at.reshape(-1)).view(*at.shape, H, width)
        mixed.append((weights[..., None] * values).sum(dim=1))  # (block, H, D/H)
        if pair is not None:
            near = pair.view(B * T, *pair.shape[2:])[block]
            about.append(weights.transpose(1, 2) @ near)  # (block, H, P)
    together = torch.cat(mixed).view(B, T, H, width)
    return together, torch.cat(about).view(B, T, H, -1) if about else None


class EncoderLayer(nn.Module):
    """Attention and feed-forward, each normalised before and added to its input."""

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        self.attention = Attention(shape.width, shape.heads, shape.pair_width)
        self.norm_attention = nn.LayerNorm(shape.width)
        self.norm_feedforward = nn.LayerNorm(shape.width)
        self.feedforward = MLP(shape.width, shape.feedforward, shape.width)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x: Tensor, lists: Lists, pair: Tensor | None) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        x = x + self.dropout(self.attention(self.norm_attention(x), lists, pair))
        out: Tensor = x + self.dropout(self.feedforward(self.norm_feedforward(x)))
        return out


@dataclass(frozen=True)
class EncoderShape:
    """Sizes of one transformer encoder."""

    layers: int
    width: int
    heads: int
    feedforward: int
    dropout: float
    pair_width: int = 0  # 0: plain attention, as in the paper


class Encoder(nn.Module):
    """A stack of layers with a final norm."""

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)

    def forward(self, x: Tensor, lists: Lists, pair: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        for layer in self.layers:
            x = layer(x, lists, pair)
        out: Tensor = self.norm(x)
        return out
