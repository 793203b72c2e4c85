"""From an instance to scores with a trained network."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clusterfirst.networks.encoder import Limits
from clusterfirst.networks.network import Encoded, Network
from clusterfirst.networks.nodes import Float32, NodeArrays, describe
from clusterfirst.networks.seed_decoding import PackingRule, decode_seeds
from clusterfirst.problem.clock import NEVER, Deadline
from clusterfirst.problem.instance import Instance, IntArray
from clusterfirst.stages.scores import Scores

DEFAULT_MODEL = "general"
THREADS_FROM = 2000  # customers from which threads share the rows
# A model without the pair head scores every customer at every seed. Above so many cells
# (N = 6,000 at ten customers a route) only the best seeds of each customer go on to the
# assignment, in a fifth of the time and half the memory. Routes are as short, but where
# many customers look alike to the network (log/).
MOST_CELLS = 4_000_000
BEST_SEEDS = 96
# Of a detour, in units of the spacing, in the cost of a customer at a seed. Imitation
# says which vehicle is likely, not how much a mistake costs: where several are about as
# likely, as in long routes, the shortest detour should decide (log/). Only at
# decoding: the pair head sees detours and could learn to take them back (not tried).
DETOUR_WEIGHT = 0.01


@dataclass(frozen=True)
class Scoring:
    """Which seeds are picked, and what a customer costs at which of them."""

    every_seed: bool = False  # the paper's dense Delta, not the model's candidates
    printed: bool = False  # seeds by Algorithm 1 and latent distances alone
    deadline: Deadline = NEVER  # TimeUpError when it passes


OURS = Scoring()


class NeuralScorer:
    """Scores of one instance at any fleet size; the encoder runs once."""

    def __init__(
        self,
        network: Network,
        instance: Instance,
        rows: IntArray | None = None,
        threads: int = 1,
        scoring: Scoring = OURS,
    ) -> None:
        self.network, self.instance, self.scoring = network, instance, scoring
        small = instance.num_customers < THREADS_FROM
        self.limits = Limits(scoring.deadline, 1 if small else threads)
        nodes = describe(NodeArrays.of(instance, rows), network.config.neighbours)
        self.encoded: Encoded = network.encode(nodes, self.limits)

    def __call__(self, vehicles: int, noise: float = 0.0, seed: int = 0) -> Scores:
        """Return seeds and costs for this fleet; with noise, of another seed set.

        `noise` perturbs the seed scores (Gumbel).
        """
        return self.at(self.pick(vehicles, noise, seed))

    def pick(self, vehicles: int, noise: float = 0.0, seed: int = 0) -> IntArray:
        """Seeds (customer rows) for a fleet, by Algorithm 1."""
        encoded, printed = self.encoded, self.scoring.printed
        packing = PackingRule() if printed else self.network.config.packing
        logit = encoded.logit[1:]
        if noise:
            rng = np.random.default_rng([seed, 0])
            logit = logit + noise * rng.gumbel(size=len(logit)).astype(np.float32)
        demands = self.instance.demand_units[1:]
        around = np.empty((len(demands), 0), dtype=np.int64)
        if packing.neighbours_only:
            near = encoded.nodes.lists[1:, 2:]
            around = np.where(near >= 0, near - 1, -1)
        limits = packing.limits(demands, self.instance.capacity_units, vehicles)
        seeds = decode_seeds(logit, encoded.contrast[1:], demands, limits, around)
        return seeds[seeds >= 0] + 1

    def at(self, seeds: IntArray) -> Scores:
        """Return the costs at these seeds, whoever picked them."""
        every = self.scoring.every_seed
        found = self.network.score(self.encoded, seeds, dense=every, limits=self.limits)
        cost, candidates = found.cost, found.candidates
        if self.network.config.pair_head and not self.scoring.printed:
            cost = cost + DETOUR_WEIGHT * self._detours(seeds, candidates)
        if cost.size > MOST_CELLS and cost.shape[1] > BEST_SEEDS:
            best = np.argpartition(cost, BEST_SEEDS, axis=1)[:, :BEST_SEEDS]
            cost = np.take_along_axis(cost, best, axis=1)
            candidates = np.take_along_axis(candidates, best, axis=1)
        return Scores(seeds, cost.astype(np.float64), candidates)

    def _detours(self, seeds: IntArray, candidates: IntArray) -> Float32:
        """(n, C) cost of inserting a customer into the round trip to each seed."""
        position = self.encoded.nodes.position
        radius = np.linalg.norm(position, axis=1)
        there = seeds[candidates]
        apart = position[1:, None] - position[there]
        length = np.sqrt(apart[..., 0] ** 2 + apart[..., 1] ** 2)
        detour: Float32 = radius[1:, None] + length - radius[there]
        return detour
