"""The sums of attention along neighbour lists, compiled, forward and backward.

A token sees 20 to 70 others, so a T x T product computes mostly what the mask of the
paper (Section 2.1) throws away, and gathering keys and values copies each of them L
times. Here every listed row is read where it lies. Shape letters are those of
layers.py; M are the tokens of all instances of a batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from clusterfirst.networks.elementary import inner_summing, summing

BLOCK = 64  # tokens


class ListAttention(torch.autograd.Function):
    """What each token gathers from those it sees.

    Takes queries, keys and values (M, 3, H, D/H), pair features (M, P, L), the slopes
    (H, P) with which they enter the logits, and rows (M, L), -1 where a list is empty.
    Returns the mean value (M, H, D/H) and the mean pair features (M, H, P), both under
    the attention weights.
    """

    @staticmethod
    def forward(ctx: Any, *given: Tensor) -> tuple[Tensor, Tensor]:
        """Sum, and keep the attention weights for the way back."""
        qkv, pair, slope, rows = given
        M, _, H, width = qkv.shape
        weights = qkv.new_empty(M, H, rows.shape[1])
        mixed, about = qkv.new_empty(M, H, width), qkv.new_empty(M, H, pair.shape[1])
        _sum_up(*_arrays(qkv, pair, slope, rows, weights, mixed, about))
        ctx.save_for_backward(qkv, pair, slope, rows, weights)
        return mixed, about

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of all inputs but the rows."""
        qkv, pair, slope, rows, weights = ctx.saved_tensors
        found = [torch.zeros_like(each) for each in (qkv, pair, slope)]
        logits = torch.empty_like(weights)
        mixed, about = (each.contiguous() for each in slopes)
        given = tuple(_arrays(qkv, pair, slope, mixed, about))
        _send_back(given, *_arrays(rows, weights, logits, *found))
        return *found, None


def attend(
    qkv: Tensor, pair: Tensor, slope: Tensor, rows: Tensor
) -> tuple[Tensor, Tensor]:
    """See ListAttention."""
    apply: Any = ListAttention.apply  # torch has no types for it
    mixed, about = apply(qkv, pair, slope, rows)
    return mixed, about


def _arrays(*tensors: Tensor) -> list[Any]:
    return [tensor.detach().numpy() for tensor in tensors]


@summing
def _sum_up(
    qkv: Any,
    pair: Any,
    slope: Any,
    rows: Any,
    weights: Any,
    mixed: Any,
    about: Any,
) -> None:
    M, _, H, width = qkv.shape
    scale = np.float32(1.0 / np.sqrt(width))
    for first in range(0, M, BLOCK):
        block = (first, min(M, first + BLOCK))
        _dots(block, rows, (qkv, 0), (qkv, 1), weights)
        _scale(block, weights, scale)
        _add_features(block, pair, slope.reshape(1, H, -1), weights)
        _softmax(block, rows, weights)
        _mix(block, rows, weights, (qkv, 2), (mixed.reshape(M, 1, H, width), 0))
        _mean_features(block, pair, weights, about)


@summing
def _send_back(
    given: Any,
    rows: Any,
    weights: Any,
    logits: Any,
    to_qkv: Any,
    to_pair: Any,
    to_slope: Any,
) -> None:
    """Add up the gradients; `logits` is room for those of the logits.

    `given` are the inputs, and the gradients of the two outputs.
    """
    qkv, pair, slope, mixed, about = given
    M, _, H, width = qkv.shape
    scale = np.float32(1.0 / np.sqrt(width))
    means = (mixed.reshape(M, 1, H, width), 0)
    for first in range(0, M, BLOCK):
        block = (first, min(M, first + BLOCK))
        _dots(block, rows, means, (qkv, 2), logits)
        _scatter(block, rows, weights, means, (to_qkv, 2))
        _add_features(block, pair, about, logits)
        _softmax_back(block, weights, logits)
        _features_back(
            block, (pair, slope, about), (weights, logits), (to_pair, to_slope)
        )
        _scale(block, logits, scale)
        _mix(block, rows, logits, (qkv, 1), (to_qkv, 0))
        _scatter(block, rows, logits, (qkv, 0), (to_qkv, 1))


# One simple loop per stage and block of tokens: faster than all of it in one loop,
# above all on the way back (log/). What is given as (array, k) are the rows
# array[:, k].


@inner_summing
def _dots(block: Any, rows: Any, left: Any, right: Any, out: Any) -> None:
    """Product of a token's row with each listed one; 0 at empty places."""
    (mine, at), (others, which) = left, right
    for t in range(block[0], block[1]):
        for h in range(out.shape[1]):
            row, found = mine[t, at, h], out[t, h]
            for j in range(rows.shape[1]):
                total = np.float32(0.0)
                if rows[t, j] >= 0:
                    other = others[rows[t, j], which, h]
                    for i in range(len(row)):
                        total += row[i] * other[i]
                found[j] = total


@inner_summing
def _scale(block: Any, values: Any, scale: Any) -> None:
    for t in range(block[0], block[1]):
        for h in range(values.shape[1]):
            row = values[t, h]
            for j in range(len(row)):
                row[j] *= scale


@inner_summing
def _add_features(block: Any, pair: Any, slopes: Any, out: Any) -> None:
    """Add pair features times slopes, of each token or (1, H, P) common ones."""
    for t in range(block[0], block[1]):
        rises = slopes[min(t, len(slopes) - 1)]
        for h in range(out.shape[1]):
            row = out[t, h]
            for p in range(pair.shape[1]):
                feature, rise = pair[t, p], rises[h, p]
                for j in range(len(row)):
                    row[j] += rise * feature[j]


@inner_summing
def _softmax(block: Any, rows: Any, weights: Any) -> None:
    """Logits become weights; empty places get none."""
    for t in range(block[0], block[1]):
        for h in range(weights.shape[1]):
            weight = weights[t, h]
            top = np.float32(-np.inf)
            for j in range(len(weight)):
                if rows[t, j] < 0:
                    weight[j] = -np.inf
                top = max(top, weight[j])
            total = np.float32(0.0)
            for j in range(len(weight)):
                weight[j] = np.exp(weight[j] - top)
                total += weight[j]
            share = np.float32(1.0) / total
            for j in range(len(weight)):
                weight[j] *= share


@inner_summing
def _mix(block: Any, rows: Any, weights: Any, right: Any, out: Any) -> None:
    """Sum of the listed rows under the weights."""
    (others, which), (sums, at) = right, out
    for t in range(block[0], block[1]):
        for h in range(weights.shape[1]):
            weight, total = weights[t, h], sums[t, at, h]
            total[:] = 0.0
            for j in range(len(weight)):
                if rows[t, j] >= 0:
                    share, other = weight[j], others[rows[t, j], which, h]
                    for i in range(len(total)):
                        total[i] += share * other[i]


@inner_summing
def _scatter(block: Any, rows: Any, weights: Any, left: Any, out: Any) -> None:
    """Add a token's row, weighted, to each listed one."""
    (mine, at), (sums, which) = left, out
    for t in range(block[0], block[1]):
        for h in range(weights.shape[1]):
            weight, row = weights[t, h], mine[t, at, h]
            for j in range(len(weight)):
                if rows[t, j] >= 0:
                    share, total = weight[j], sums[rows[t, j], which, h]
                    for i in range(len(row)):
                        total[i] += share * row[i]


@inner_summing
def _mean_features(block: Any, pair: Any, weights: Any, about: Any) -> None:
    for t in range(block[0], block[1]):
        for h in range(weights.shape[1]):
            weight = weights[t, h]
            for p in range(pair.shape[1]):
                feature = pair[t, p]
                total = np.float32(0.0)
                for j in range(len(weight)):
                    total += weight[j] * feature[j]
                about[t, h, p] = total


@inner_summing
def _softmax_back(block: Any, weights: Any, slopes: Any) -> None:
    """Gradients of weights become those of logits: w (g - sum of w g)."""
    for t in range(block[0], block[1]):
        for h in range(weights.shape[1]):
            weight, slope = weights[t, h], slopes[t, h]
            common = np.float32(0.0)
            for j in range(len(weight)):
                common += weight[j] * slope[j]
            for j in range(len(weight)):
                slope[j] = weight[j] * (slope[j] - common)


@inner_summing
def _features_back(block: Any, given: Any, sums: Any, out: Any) -> None:
    """Add the gradients of pair features and of the slopes of the logits."""
    (pair, slope, about), (weights, logits), (to_pair, to_slope) = given, sums, out
    for t in range(block[0], block[1]):
        for h in range(weights.shape[1]):
            weight, logit = weights[t, h], logits[t, h]
            for p in range(pair.shape[1]):
                feature, to_feature = pair[t, p], to_pair[t, p]
                by_mean, by_logit = about[t, h, p], slope[h, p]
                total = np.float32(0.0)
                for j in range(len(weight)):
                    total += logit[j] * feature[j]
                for j in range(len(weight)):
                    to_feature[j] += weight[j] * by_mean + logit[j] * by_logit
                to_slope[h, p] += total
