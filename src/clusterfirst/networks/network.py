"""The networks as they answer, on numpy and compiled kernels: phases 1 and 2.

Shape letters: T tokens (depot first, then customers), L length of a neighbour list,
E entries of all lists, H heads, D width, K seeds, N customers, C candidate seeds of a
customer, P pair features. float32 throughout. `trainable/` is the same in torch; both
are held together by tests/test_parity.py.

What depends on the instance alone is computed once (`Encoded`): the encoder, the lists
and both networks' view of the geometry between nodes; what also depends on the number
of seeds, once for each. A set of seeds adds its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from clusterfirst.networks.config import (
    GEOMETRY,
    KNOWS_CITY,
    PAIR_FEATURES,
    SHARED,
    VISIBLE_SEEDS,
    ModelConfig,
)
from clusterfirst.networks.encoder import (
    ALONE,
    Encoder,
    Limits,
    Lists,
    rows_to_read,
)
from clusterfirst.networks.geometry import (
    nearest_seeds,
    pair_geometry,
    seeds_in_sight,
)
from clusterfirst.networks.kernels import (
    BLOCK,
    join_lists,
    latent_distances,
    pair_costs,
    shared_products,
)
from clusterfirst.networks.matrices import Linear, Perceptron, padded, whole
from clusterfirst.networks.nodes import Float32, Nodes
from clusterfirst.networks.vectors import ROWS
from clusterfirst.problem.instance import IntArray

PAIRS = 4096  # of customers and seeds whose features are in the cache at a time


@dataclass(frozen=True)
class Encoded:
    """An instance after phase 1."""

    nodes: Nodes
    hidden: Float32  # (T, D), the H of the paper
    logit: Float32  # (T,) seed logits, p = sigmoid
    contrast: Float32  # (T, D/2) unit vectors, the Z of the paper
    lists: Lists  # of the nodes, as the Clustering Transformer sees them
    begun: dict[int, Float32]  # its first products of the nodes, by number of seeds


@dataclass(frozen=True)
class Delta:
    """Costs of customers at their candidate seeds."""

    cost: Float32  # (N, C) latent distance, >= 0
    candidates: IntArray  # (N, C) seed numbers 0..K-1


class Network:
    """Seed Transformer and Clustering Transformer with trained weights."""

    def __init__(self, config: ModelConfig, weights: Mapping[str, Any]) -> None:
        self.config = config
        self._weights = weights
        self._seed = Encoder(config, weights, "seed", config.seed_layers)
        self._cluster = Encoder(config, weights, "cluster", config.cluster_layers)
        self._packed: dict[str, Any] = {}

    def encode(self, nodes: Nodes, limits: Limits = ALONE) -> Encoded:
        """Phase 1 up to its two heads (the paper, Section 2.2); or TimeUpError."""
        limits.deadline.look()
        start, index, owner = _flat(nodes.lists)
        geometry, pairs = self._geometry(nodes, owner, index), len(index)
        lists = Lists(start, index, self._seed.about(geometry, pairs))
        hidden = self._seed.run(self._input(nodes), lists, limits)
        contrast = self._perceptron("seed.contrast_head")(hidden)
        contrast /= np.maximum(np.linalg.norm(contrast, axis=1, keepdims=True), 1e-12)
        logit = self._perceptron("seed.seed_head")(hidden)[:, 0]
        view = Lists(start, index, self._cluster.about(geometry, pairs))
        return Encoded(nodes, hidden, logit, contrast, view, {})

    def score(
        self,
        encoded: Encoded,
        seeds: IntArray,
        *,
        dense: bool = False,
        limits: Limits = ALONE,
    ) -> Delta:
        """Phase 2: costs of customers at candidate seeds (Section 2.3), or at all."""
        config, nodes, K = self.config, encoded.nodes, len(seeds)
        T = len(encoded.hidden)
        if not K:
            return Delta(
                np.empty((T - 1, 0), np.float32), np.empty((T - 1, 0), np.int64)
            )
        few = 0 if dense else config.candidates
        near = nearest_seeds(nodes.position, seeds, max(few, VISIBLE_SEEDS))
        every = np.broadcast_to(np.arange(K), (T - 1, K))  # the paper's dense Delta
        candidates = np.ascontiguousarray(near[1:, :few] if few else every)
        if config.pair_width:
            sight = seeds_in_sight(near, seeds, VISIBLE_SEEDS)
            start = np.arange(T + K + 1) * sight.shape[1]
            about = self._sight(nodes, seeds, sight)
            seen = Lists(start, sight.ravel() + T, about)
        else:
            seen = _seeds_of_listed(encoded.lists, seeds)
        owner = np.concatenate([np.arange(T), seeds])
        tokens = self._tokens(encoded, seeds)
        if (
            K not in encoded.begun
        ):  # another set of as many seeds changes the seeds only
            begun = self._cluster.handed_on(T, 0)
            self._cluster.begin(tokens, (0, T), begun)
            encoded.begun[K] = begun
        joined = _joined(encoded, owner, seen)
        x = self._cluster.run(tokens, joined, limits, encoded.begun[K])
        unit = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
        cost = np.empty(candidates.shape, dtype=np.float32)
        latent_distances(unit, unit[T:], candidates, cost)
        if config.pair_head and cost.size:
            self._add_pair_cost(x, nodes, seeds, (candidates, cost))
        return Delta(cost, candidates)

    # --- inputs ---------------------------------------------------------------------

    def _input(self, nodes: Nodes) -> Float32:
        """(T, D) where a node is, beside what it wants (Eq. 2)."""
        config, weights, arrays = self.config, self._weights, nodes.arrays
        city = None
        if config.input in KNOWS_CITY:
            rows = np.zeros(len(nodes.demand), np.int64)
            city = weights["seed.input.psi"][
                rows if arrays.rows is None else arrays.rows
            ]
        if "relative" in config.input:
            x = self._perceptron("seed.input.node")(nodes.features)
            if city is not None:
                x += self._linear("seed.input.known")(city)
        else:
            if city is None:
                place = self._linear("seed.input.place")(arrays.coords)
            elif "seed.input.adapt.weight" in weights:
                place = self._linear("seed.input.adapt")(city)
            else:
                place = city
            wanted = arrays.demands if config.raw_demand else nodes.demand
            demand = self._linear("seed.input.demand")(wanted[:, None])
            x = np.concatenate([place, demand], axis=1)
        x[0] += weights["seed.input.depot"]
        return x

    def _tokens(self, encoded: Encoded, seeds: IntArray) -> Float32:
        """Depot, customers and seeds in one sequence, with their type embeddings."""
        hidden, weights = encoded.hidden, self._weights
        T, K = len(hidden), len(seeds)
        role = weights["cluster.role.weight"]
        if self.config.pair_width:
            count, customers = max(K, 1), max(encoded.nodes.customers, 1)
            fleet = [encoded.nodes.load / count, np.log(customers / count) / 3]
            role = role + self._linear("cluster.fleet")(np.array([fleet]))
        x = padded(T + K, hidden.shape[1])
        np.add(hidden, role[1], out=x[:T])
        np.add(hidden[0], role[0], out=x[0])
        np.add(hidden[seeds], role[2], out=x[T:])
        return x

    # --- geometry -------------------------------------------------------------------

    def _geometry(self, nodes: Nodes, owner: IntArray, index: IntArray) -> Float32:
        """(PAIR_FEATURES, E) of nodes and those in their lists, and padding."""
        if not self.config.pair_width:
            return np.empty((PAIR_FEATURES, 0), dtype=np.float32)
        E = len(index)
        out = _columns(PAIR_FEATURES, E)
        pair_geometry(nodes.position, owner, index, out)
        out[GEOMETRY, :E] = nodes.demand[index] * np.float32(4)
        out[GEOMETRY + 1, :E] = index == 0
        out[GEOMETRY + 2] = 0.0
        return out

    def _sight(self, nodes: Nodes, seeds: IntArray, sight: IntArray) -> Float32:
        """(E, P + layers H) of tokens and the seeds they see."""
        tokens = np.concatenate([np.arange(len(nodes.demand)), seeds])
        others = seeds[sight.ravel()]
        E = len(others)
        out = _columns(PAIR_FEATURES, E)
        mine = np.repeat(tokens, sight.shape[1])
        pair_geometry(nodes.position, mine, others, out)
        out[GEOMETRY, :E] = nodes.demand[others] * np.float32(4)
        out[GEOMETRY + 1] = 0.0
        out[GEOMETRY + 2] = 1.0
        return self._cluster.about(out, E)

    def _add_pair_cost(
        self, x: Float32, nodes: Nodes, seeds: IntArray, found: tuple[IntArray, Float32]
    ) -> None:
        """Add the non-negative cost from the geometry of customer and seed."""
        candidates, cost = found
        T, C = len(nodes.demand), candidates.shape[1]
        left = self._linear("cluster.customer_side")(x[:T])
        right = self._linear("cluster.seed_side")(x[T:])
        head = self._perceptron("cluster.pair_head")
        outer = np.ascontiguousarray(head.outer.panels[0, :, 0]), head.outer.bias
        others, flat = candidates.ravel(), cost.ravel()
        mine = np.repeat(np.arange(1, T), C)
        some = _columns(GEOMETRY + SHARED + 2, PAIRS)
        room = padded(BLOCK, head.inner.wide)
        for first in range(0, len(flat), PAIRS):
            block = slice(first, first + PAIRS)
            who, seed, into = mine[block], others[block], flat[block]
            pair_geometry(nodes.position, who, seeds[seed], some)
            shared_products(left, right, who, seed, some[GEOMETRY:])
            some[-2, : len(who)], some[-1, : len(who)] = into, nodes.demand[who]
            pair_costs(some, len(who), head.inner.arrays, outer, room, into)

    # --- layers ---------------------------------------------------------------------

    def _linear(self, name: str) -> Linear:
        """One matrix of that name, packed once."""
        if name not in self._packed:
            weight = self._weights[f"{name}.weight"]
            bias = self._weights.get(f"{name}.bias", np.zeros(len(weight), np.float32))
            self._packed[name] = Linear(weight, bias)
        found: Linear = self._packed[name]
        return found

    def _perceptron(self, name: str) -> Perceptron:
        """Two of them, the paper's form of every head."""
        return Perceptron(self._linear(f"{name}.inner"), self._linear(f"{name}.outer"))


def _columns(features: int, pairs: int) -> Float32:
    """Room for features of so many pairs, in columns that kernels may read beyond."""
    return np.zeros((features, whole(pairs, ROWS)), dtype=np.float32)


def _flat(lists: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Lists without their padding: where they start, whom they name, whose they are."""
    owner, place = np.nonzero(lists >= 0)
    owner = np.ascontiguousarray(owner)  # another layout is compiled again
    start = np.searchsorted(owner, np.arange(len(lists) + 1))
    return start, lists[owner, place], owner


def _seeds_of_listed(lists: Lists, seeds: IntArray) -> Lists:
    """The seeds that tokens see in the paper's setting: those of listed customers.

    A seed inherits the column of its customer too, so it sees itself.
    """
    T, K = len(lists.start) - 1, len(seeds)
    token = np.full(T, -1)
    token[seeds] = T + np.arange(K)
    length = np.diff(lists.start)
    owner = np.concatenate([np.arange(T), seeds])
    listed = np.repeat(lists.start[:-1][owner], length[owner]) + _ranges(length[owner])
    found = token[lists.index[listed]]
    whose = np.repeat(np.arange(T + K), length[owner])[found >= 0]
    start = np.searchsorted(whose, np.arange(T + K + 1))
    index = found[found >= 0]
    return Lists(start, index, np.empty((len(index), 0), dtype=np.float32))


def _ranges(lengths: IntArray) -> IntArray:
    """0 1 2 .. of each length, one after the other."""
    ends = np.cumsum(lengths)
    return np.arange(int(ends[-1])) - np.repeat(ends - lengths, lengths)


def _joined(encoded: Encoded, owner: IntArray, seeds: Lists) -> Lists:
    """The lists of nodes and seeds: a seed inherits the nodes of its customer."""
    nodes = encoded.lists
    count = int(np.diff(nodes.start)[owner].sum()) + len(seeds.index)
    joined = Lists(
        np.empty(len(owner) + 1, dtype=np.int64),
        np.empty(count, dtype=np.int64),
        rows_to_read(count, nodes.about.shape[1]),
    )
    join_lists(nodes.arrays, owner, seeds.arrays, joined.arrays)
    return joined
