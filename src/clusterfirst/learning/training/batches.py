"""Training batches: a function of (seed, step), so that a resumed run goes on as if
never stopped.

A label is an instance with the route number of each customer. One label gives many
training examples: any subset of an expert's routes is an optimal solution for its
own customers if the whole was, and coordinates may be turned and mirrored. An
instance may have several good partitions; each draw takes one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clusterfirst.learning.labels.pool import Label, LabelPool
from clusterfirst.networks.nodes import NeighbourRule, NodeArrays
from clusterfirst.networks.trainable.cluster import SeedBatch
from clusterfirst.networks.trainable.inputs import NodeBatch, collate
from clusterfirst.problem.instance import FloatArray, IntArray
from clusterfirst.problem.sampling import generator

LARGE = 150  # customers; above that labels are drawn with a share of their own
# Customers; larger labels are always cut into parts of at most this. With 400 the
# general model got worse at N = 1000 with 50 customers per route, though it saw parts
# of such days (log/).
LARGEST = 1000
TRIES = 4  # draws of which the one most like the first is taken
# The first process also takes the step of the optimiser, while its helpers wait: with
# equal shares they idle for a fifth of the time.
FIRST_SHARE = 0.85  # of what each helper gets
ALIKE = 0.2  # whole labels of a batch differ in size by at most this share


@dataclass(frozen=True)
class BatchSettings:
    """How batches are drawn from labels."""

    tokens: int = 6464  # customers and depots per batch: 64 instances of N = 100
    part_share: float = 0.5  # share of batches made of subsets of routes
    least_customers: int = 30
    large_share: float = 0.0  # share of batches from labels above N = 150
    seed_pool: int = 2  # the m most distal customers of a route are seed targets
    turn: bool = False  # rotate and mirror coordinates (for the xy input)
    own_seeds: float = 0.0  # share of batches with seeds the model itself decodes
    centre_seeds: float = 0.0  # share of examples scored at the middles of routes


@dataclass(frozen=True)
class TrainBatch:
    """Nodes, and what the expert did with them."""

    nodes: NodeBatch
    route: Tensor  # (B, N) route number of each customer, -1 where padded
    seeds: SeedBatch  # (B, K) one teacher-forced seed per route: seed j is in route j
    is_seed: Tensor  # (B, N) 1 for the m most distal customers of each route
    slack: Tensor  # (B,) unused vehicles: K - total demand / Q
    capacity: IntArray  # (B,) in the units of the demands
    own_seeds: bool = False  # score at the model's own seeds (losses.py)


def draw_batch(
    pool: LabelPool,
    settings: BatchSettings,
    rule: NeighbourRule,
    *,
    seed: int,
    step: int,
    share: tuple[int, int] = (0, 1),
) -> TrainBatch:
    """Return batch `step` of the run with this seed, or share (i, of) of it.

    Every example of a batch has about the same size, so that little is padded, and
    all shares of a batch have that size, so that they end at about the same time.
    """
    rng = generator(seed, step)
    small, large = pool.between(0, LARGE), pool.between(LARGE + 1)
    use_large = len(large) and (not len(small) or rng.random() < settings.large_share)
    group = large if use_large else small
    size = pool.size_of(group[int(rng.integers(len(group)))])
    part = rng.random() < settings.part_share or size > LARGEST
    if part:
        most = min(size, LARGEST)
        least = min(settings.least_customers, most)
        size = int(rng.integers(least, most + 1))
        near = range(pool.between(size).start, group.stop)
    else:
        low, high = (1 - ALIKE) * size, (1 + ALIKE) * size
        alike = pool.between(int(np.ceil(low)), int(high))
        near = range(max(alike.start, group.start), min(alike.stop, group.stop))
    own = rng.random() < settings.own_seeds
    streams: Any = rng.bit_generator  # Philox can jump to streams that never meet
    rng = np.random.Generator(streams.jumped(share[0])) if share[0] else rng
    examples: list[Label] = []
    mine = FIRST_SHARE if share[0] == 0 else 1.0
    tokens = round(settings.tokens * mine / (FIRST_SHARE + share[1] - 1))
    count = tokens // (size + 1)
    for number in _alike(pool, near, rule, count, rng):
        if part:
            label = some_routes(pool.draw(number, rng), size, rng)
        else:
            label = pool.draw(number, rng, rule)
        examples.append(turned(label, rng) if settings.turn else label)
    return make_batch(examples, settings, rng, rule, own_seeds=own)


def _alike(
    pool: LabelPool,
    near: range,
    rule: NeighbourRule,
    count: int,
    rng: np.random.Generator,
) -> list[int]:
    """Draw instances whose neighbour lists are about as long as the first one's.

    Lists are padded to the longest of a batch; without this the world's batches have
    twice the entries they need. The first is drawn from all, so none is left out.
    """
    draws = rng.integers(len(near), size=(max(1, count), TRIES))
    if rule.least == rule.most:
        return [near[at] for at in draws[:, 0].tolist()]
    numbers = [[near[at] for at in row] for row in draws.tolist()]
    wanted = pool.list_size(numbers[0][0], rule)
    closest = [
        min(row, key=lambda number: abs(pool.list_size(number, rule) - wanted))
        for row in numbers[1:]
    ]
    return [numbers[0][0], *closest]


def some_routes(label: Label, size: int, rng: np.random.Generator) -> Label:
    """Keep about `size` customers: routes next to each other, or any routes."""
    count = int(label.route.max()) + 1
    if rng.random() < 0.7:
        position = label.nodes.coords[1:] - label.nodes.coords[0]
        turn = rng.uniform(-np.pi, np.pi)
        middle = np.zeros((count, 2))
        np.add.at(middle, label.route, position)
        angle = (np.arctan2(middle[:, 1], middle[:, 0]) - turn) % (2 * np.pi)
        order = np.argsort(angle)
    else:
        order = rng.permutation(count)
    sizes = np.bincount(label.route, minlength=count)[order]
    kept = order[: max(1, int(np.searchsorted(np.cumsum(sizes), size, side="right")))]
    return keep_routes(label, kept)


def keep_routes(label: Label, kept: IntArray) -> Label:
    """Return the label of the customers in the routes `kept`, renumbered."""
    number = np.full(int(label.route.max()) + 1, -1)
    number[kept] = np.arange(len(kept))
    stay = np.flatnonzero(number[label.route] >= 0)
    rows = np.concatenate([[0], stay + 1])
    nodes = label.nodes
    return Label(
        NodeArrays(
            coords=nodes.coords[rows],
            demands=nodes.demands[rows],
            capacity=nodes.capacity,
            rows=None if nodes.rows is None else nodes.rows[rows],
        ),
        number[label.route[stay]],
    )


def turned(label: Label, rng: np.random.Generator) -> Label:
    """Rotate about the middle of the map and mirror half of the time."""
    angle = rng.uniform(0, 2 * np.pi)
    c, s = np.cos(angle), np.sin(angle)
    turn: FloatArray = np.array([[c, -s], [s, c]])
    if rng.random() < 0.5:
        turn = turn @ np.diag([1.0, -1.0])
    nodes = label.nodes
    middle = (nodes.coords.min(axis=0) + nodes.coords.max(axis=0)) / 2
    coords = (nodes.coords - middle) @ turn.T + middle
    return replace(label, nodes=replace(nodes, coords=coords))


def make_batch(
    examples: Sequence[Label],
    settings: BatchSettings,
    rng: np.random.Generator,
    rule: NeighbourRule,
    *,
    own_seeds: bool = False,
) -> TrainBatch:
    """Pad examples and derive the targets of both transformers."""
    nodes = collate([example.nodes for example in examples], rule)
    B, T = nodes.real.shape
    K = max(int(example.route.max()) + 1 for example in examples)
    route = np.full((B, T - 1), -1)
    is_seed = np.zeros((B, T - 1), dtype=np.float32)
    seeds = np.zeros((B, K), dtype=np.int64)
    real = np.zeros((B, K), dtype=bool)
    slack = np.zeros(B)
    for b, example in enumerate(examples):
        n, count = len(example.route), int(example.route.max()) + 1
        route[b, :n] = example.route
        pool = distal_customers(example, settings.seed_pool)  # (count, m), -1 padded
        is_seed[b, pool[pool >= 0]] = 1.0
        if rng.random() < settings.centre_seeds:
            pool = central_customers(example, settings.seed_pool)
        pick = rng.integers(1 << 30, size=count) % (pool >= 0).sum(axis=1)
        seeds[b, :count] = pool[np.arange(count), pick] + 1
        real[b, :count] = True
        total = int(example.nodes.demands.sum())
        slack[b] = (count * example.nodes.capacity - total) / example.nodes.capacity
    return TrainBatch(
        nodes=nodes,
        route=torch.from_numpy(route),
        seeds=SeedBatch(torch.from_numpy(seeds), torch.from_numpy(real)),
        is_seed=torch.from_numpy(is_seed),
        slack=torch.from_numpy(slack).float(),
        capacity=np.array([example.nodes.capacity for example in examples]),
        own_seeds=own_seeds,
    )


def distal_customers(label: Label, count: int) -> IntArray:
    """(K, m) customers (0-based) of each route farthest from the depot, -1 padded."""
    members = _members(label)
    reach = np.linalg.norm(label.nodes.coords[1:] - label.nodes.coords[0], axis=1)
    return _first(members, np.where(members >= 0, -reach[members], np.inf), count)


def central_customers(label: Label, count: int) -> IntArray:
    """(K, m) customers of each route whose stars are shortest, -1 padded.

    Seeds are moved there when a day is solved (`moved_seeds.centres`).
    """
    members = _members(label)
    real = members >= 0
    away = label.nodes.coords[1:][members] - label.nodes.coords[0]  # (K, L, 2)
    apart = np.linalg.norm(away[:, :, None] - away[:, None], axis=3)
    star = (apart * real[:, None]).sum(axis=2)
    star -= (real.sum(axis=1, keepdims=True) - 2) * np.linalg.norm(away, axis=2)
    return _first(members, np.where(real, star, np.inf), count)


def _members(label: Label) -> IntArray:
    """(K, L) the customers of each route, -1 padded."""
    order = np.argsort(label.route, kind="stable")
    sizes = np.bincount(label.route)
    place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    members = np.full((len(sizes), int(sizes.max())), -1)
    members[label.route[order], place] = order
    return members


def _first(members: IntArray, key: FloatArray, count: int) -> IntArray:
    """(K, m) the members of each route with the least keys, -1 padded."""
    order = np.argsort(key, axis=1, kind="stable")[:, :count]
    chosen = np.take_along_axis(members, order, axis=1)
    missing = ((0, 0), (0, count - chosen.shape[1]))
    return np.pad(chosen, missing, constant_values=-1)
