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

from clusterfirst.networks.config import ModelConfig
from clusterfirst.networks.trainable.list_attention import attend


@dataclass(frozen=True)
class Lists:
    """Which tokens each token sees."""

    index: Tensor  # (B, T, L) int64, any token where not valid
    valid: Tensor  # (B, T, L) bool; at least one per token (itself)

    @cached_property
    def rows(self) -> Tensor:
        """(B T, L) the listed tokens among those of all instances; -1: none."""
        B, T, L = self.index.shape
        first = T * torch.arange(B)[:, None, None]
        return (self.index + first).masked_fill(~self.valid, -1).view(B * T, L)

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
            # Its constants cancel in the softmax; published weights have them.
            self.bias = nn.Linear(pair_width, heads)
            self.message = nn.Linear(heads * pair_width, width, bias=False)

    def forward(self, x: Tensor, lists: Lists, pair: Tensor | None) -> Tensor:
        """(B, T, D) -> (B, T, D); pair is (B T, P, L) or None."""
        B, T, D = x.shape
        qkv = self.qkv(x).view(B * T, 3, self.heads, D // self.heads)
        if pair is None:
            none = x.new_empty(B * T, 0, lists.rows.shape[1])
            mixed, _ = attend(qkv, none, x.new_empty(self.heads, 0), lists.rows)
            plain: Tensor = self.out(mixed.view(B, T, D))
            return plain
        mixed, about = attend(qkv, pair, self.bias.weight, lists.rows)
        out: Tensor = self.out(mixed.view(B, T, D)) + self.message(about.view(B, T, -1))
        return out


class EncoderLayer(nn.Module):
    """Attention and feed-forward, each normalised before and added to its input."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width = config.width
        self.attention = Attention(width, config.heads, config.pair_width)
        self.norm_attention = nn.LayerNorm(width)
        self.norm_feedforward = nn.LayerNorm(width)
        self.feedforward = MLP(width, config.feedforward, width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, lists: Lists, pair: Tensor | None) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        x = x + self.dropout(self.attention(self.norm_attention(x), lists, pair))
        out: Tensor = x + self.dropout(self.feedforward(self.norm_feedforward(x)))
        return out


class Encoder(nn.Module):
    """A stack of layers with a final norm."""

    def __init__(self, config: ModelConfig, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(layers))
        self.norm = nn.LayerNorm(config.width)

    def forward(self, x: Tensor, lists: Lists, pair: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D); pair is (B, T, L, P) or None."""
        if pair is not None:  # along lists, which are longer
            pair = pair.flatten(0, 1).transpose(1, 2).contiguous()
        for layer in self.layers:
            x = layer(x, lists, pair)
        out: Tensor = self.norm(x)
        return out
