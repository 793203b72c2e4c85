"""The sums of attention along neighbour lists, compiled, forward and backward.

A token sees 20 to 70 others, so a T x T product computes mostly what the mask of the
paper (Section 2.1) throws away, and gathering keys and values copies each of them L
times. Here every listed row is read where it lies. Shape letters are those of
layers.py; M are the tokens of all instances of a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
import torch
from numba import njit
from torch import Tensor

from clusterfirst.compiled import OPTIONS

# Sums may be taken in any order, which is what lets them use vector instructions; no
# other liberty: empty places of a list are minus infinity.
FREEDOM = {"contract", "reassoc"}
Function = TypeVar("Function", bound=Callable[..., Any])


def summing(function: Function) -> Function:
    """Compile with numba, cached on disk."""
    return cast(Function, njit(fastmath=FREEDOM, **OPTIONS)(function))


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
        spare = weights.new_empty(rows.shape[1])
        mixed, about = (each.contiguous() for each in slopes)
        _send_back(
            *_arrays(qkv, pair, slope, rows, weights, mixed, about, spare, *found)
        )
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
    P, L = pair.shape[1:]
    scale = np.float32(1.0 / np.sqrt(width))
    for t in range(M):
        seen = rows[t]
        for h in range(H):
            query, weight = qkv[t, 0, h], weights[t, h]
            for j in range(L):
                weight[j] = -np.inf
                if seen[j] >= 0:
                    key = qkv[seen[j], 1, h]
                    total = np.float32(0.0)
                    for i in range(width):
                        total += query[i] * key[i]
                    weight[j] = total * scale
            for p in range(P):
                feature, rise = pair[t, p], slope[h, p]
                for j in range(L):
                    weight[j] += rise * feature[j]
            top = weight[0]
            for j in range(L):
                top = max(top, weight[j])
            total = np.float32(0.0)
            for j in range(L):
                weight[j] = np.exp(weight[j] - top)
                total += weight[j]
            for j in range(L):
                weight[j] /= total
            mean = mixed[t, h]
            mean[:] = 0.0
            for j in range(L):
                if seen[j] >= 0:
                    share, value = weight[j], qkv[seen[j], 2, h]
                    for i in range(width):
                        mean[i] += share * value[i]
            for p in range(P):
                feature = pair[t, p]
                total = np.float32(0.0)
                for j in range(L):
                    total += weight[j] * feature[j]
                about[t, h, p] = total


@summing
def _send_back(
    qkv: Any,
    pair: Any,
    slope: Any,
    rows: Any,
    weights: Any,
    mixed: Any,
    about: Any,
    logit: Any,
    to_qkv: Any,
    to_pair: Any,
    to_slope: Any,
) -> None:
    """Add up the gradients; `logit` is room for those of one list."""
    M, _, H, width = qkv.shape
    P, L = pair.shape[1:]
    scale = np.float32(1.0 / np.sqrt(width))
    for t in range(M):
        seen = rows[t]
        for h in range(H):
            weight, mean = weights[t, h], mixed[t, h]
            for j in range(L):
                logit[j] = 0.0
                if seen[j] >= 0:
                    value = qkv[seen[j], 2, h]
                    total = np.float32(0.0)
                    for i in range(width):
                        total += mean[i] * value[i]
                    logit[j] = total
            for j in range(L):
                if seen[j] >= 0:
                    share, to_value = weight[j], to_qkv[seen[j], 2, h]
                    for i in range(width):
                        to_value[i] += share * mean[i]
            for p in range(P):
                feature, rise = pair[t, p], about[t, h, p]
                for j in range(L):
                    logit[j] += rise * feature[j]
            # Softmax: d logit = weight (d weight - sum of weight d weight).
            common = np.float32(0.0)
            for j in range(L):
                common += weight[j] * logit[j]
            for j in range(L):
                logit[j] = weight[j] * (logit[j] - common)
            for p in range(P):
                feature, to_feature = pair[t, p], to_pair[t, p]
                by_mean, by_logit = about[t, h, p], slope[h, p]
                total = np.float32(0.0)
                for j in range(L):
                    total += logit[j] * feature[j]
                    to_feature[j] += weight[j] * by_mean + logit[j] * by_logit
                to_slope[h, p] += total
            query, to_query = qkv[t, 0, h], to_qkv[t, 0, h]
            for j in range(L):
                if seen[j] >= 0:
                    rise, key = logit[j] * scale, qkv[seen[j], 1, h]
                    for i in range(width):
                        to_query[i] += rise * key[i]
            for j in range(L):
                if seen[j] >= 0:
                    rise, to_key = logit[j] * scale, to_qkv[seen[j], 1, h]
                    for i in range(width):
                        to_key[i] += rise * query[i]
