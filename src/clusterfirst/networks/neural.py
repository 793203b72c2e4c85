"""From instances to scores with a trained model: numpy outside, torch inside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace

import numpy as np
import torch

from clusterfirst.networks.cluster import SeedBatch, all_seeds, detours_at
from clusterfirst.networks.inputs import NodeArrays, NodeBatch, collate
from clusterfirst.networks.layers import Lists
from clusterfirst.networks.model import Router
from clusterfirst.networks.seeds import PackingRule, SeedOutput, decode_seeds
from clusterfirst.networks.transport import (
    INFERENCE,
    SinkhornSettings,
    TransportProblem,
    sinkhorn,
)
from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import FloatArray, Instance, IntArray
from clusterfirst.stages.scores import Scores

DEFAULT_MODEL = "general"
TURN_CELLS = 20_000_000  # customers x vehicles x iterations between looks
THREADS_FROM = 2000  # customers from which the networks use more than one thread
FAR = 1e3  # cost, for the plan, of a seed that is no candidate
# A model without the pair head scores every customer at every seed. Above so many cells
# (N = 6,000 at ten customers a route) only the best seeds of each customer go on to the
# assignment, in a fifth of the time and half the memory. Routes are as short, but where
# many customers look alike to the network (LOG.md).
MOST_CELLS = 4_000_000
BEST_SEEDS = 96
# Of a detour, in units of the spacing, in the cost of a customer at a seed. Imitation
# says which vehicle is likely, not how much a mistake costs: where several are about as
# likely, as in long routes, the shortest detour should decide (LOG.md). Only at
# decoding: the pair head sees detours and could learn to take them back (not tried).
DETOUR_WEIGHT = 0.01


@dataclass(frozen=True)
class Scoring:
    """Which seeds are picked, and what a customer costs at which of them."""

    every_seed: bool = False  # the paper's dense Delta, not the model's candidates
    printed: bool = False  # seeds by Algorithm 1 and latent distances alone


OURS = Scoring()


@dataclass(frozen=True)
class Encoded:
    """A batch after phase 1; phase 2 may then run for several fleet sizes."""

    instances: Sequence[Instance]
    nodes: NodeBatch
    output: SeedOutput

    def only(self, which: Sequence[int]) -> Encoded:
        """Return some instances of the batch."""
        if list(which) == list(range(len(self.instances))):
            return self
        index = torch.as_tensor(which)
        lists = Lists(self.nodes.lists.index[index], self.nodes.lists.valid[index])
        kept = {
            field.name: getattr(self.nodes, field.name)[index]
            for field in fields(self.nodes)
            if field.name != "lists"
        }
        output = SeedOutput(
            self.output.hidden[index],
            self.output.logit[index],
            self.output.contrast[index],
        )
        chosen = [self.instances[i] for i in which]
        return Encoded(chosen, NodeBatch(lists=lists, **kept), output)


def node_arrays(instance: Instance, rows: IntArray | None = None) -> NodeArrays:
    """Return what the networks may see of an instance."""
    return NodeArrays(
        instance.plane, instance.demand_units, instance.capacity_units, rows
    )


class NeuralScorer:
    """Scores of one instance at any fleet size; the encoder runs once."""

    def __init__(
        self,
        router: Router,
        instance: Instance,
        rows: IntArray | None = None,
        threads: int | None = None,
        scoring: Scoring = OURS,
    ) -> None:
        self.router, self.instance, self.scoring = router, instance, scoring
        small = threads is not None and instance.num_customers < THREADS_FROM
        self.threads = 1 if small else threads
        with _on_threads(self.threads):
            self.encoded = encode(router, [instance], [rows])

    def __call__(self, vehicles: int, noise: float = 0.0, seed: int = 0) -> Scores:
        """Return seeds and costs for this fleet; with noise, of another seed set."""
        with _on_threads(self.threads):
            known = (self.router, self.encoded)
            picked = _pick(*known, [vehicles], noise, seed, self.scoring)
            return score_at(*known, picked, self.scoring)[0]

    def at(self, seeds: IntArray) -> Scores:
        """Return the costs at seeds (customer rows) somebody else picked."""
        with _on_threads(self.threads):
            return score_at(self.router, self.encoded, [seeds], self.scoring)[0]


@contextmanager
def _on_threads(count: int | None) -> Iterator[None]:
    """Let torch use so many threads inside; None leaves it alone.

    A thread too many waits at every product for a core that others are using: with one
    of two cores busy, N = 100 took 2.2 s on two threads and 0.15 s on one (LOG.md).
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@torch.inference_mode()
def encode(
    router: Router,
    instances: Sequence[Instance],
    rows: Sequence[IntArray | None],
) -> Encoded:
    """Phase 1 for a batch of instances (with their city rows, for psi)."""
    router.eval()
    arrays = [node_arrays(i, r) for i, r in zip(instances, rows, strict=True)]
    nodes = collate(arrays, router.config.neighbours)
    return Encoded(instances, nodes, router.encode(nodes))


@torch.inference_mode()
def score(
    router: Router,
    encoded: Encoded,
    vehicles: Sequence[int],
    *,
    noise: float = 0.0,
    seed: int = 0,
) -> list[Scores]:
    """Phase 2: pick seeds and score each customer at its candidates.

    `noise` perturbs the seed scores (Gumbel) to draw other seed sets.
    """
    return score_at(router, encoded, _pick(router, encoded, vehicles, noise, seed))


@torch.inference_mode()
def score_at(
    router: Router,
    encoded: Encoded,
    picked: Sequence[IntArray],
    scoring: Scoring = OURS,
) -> list[Scores]:
    """Score each customer at its candidates among given seeds (customer rows)."""
    K = max(1, max(len(seeds) for seeds in picked))
    index = np.zeros((len(picked), K), dtype=np.int64)
    real = np.zeros((len(picked), K), dtype=bool)
    for b, seeds in enumerate(picked):
        index[b, : len(seeds)] = seeds
        real[b, : len(seeds)] = True
    batch = SeedBatch(torch.from_numpy(index), torch.from_numpy(real))
    near = all_seeds if scoring.every_seed else router.candidates
    candidates = near(encoded.nodes, batch)
    out = router.score(encoded.output.hidden, encoded.nodes, batch, candidates)
    price = out.cost
    if router.config.pair_head and not scoring.printed:
        price = price + DETOUR_WEIGHT * detours_at(encoded.nodes, batch, out.candidates)
    price = torch.where(out.valid, price, torch.inf)
    results = []
    for b, instance in enumerate(encoded.instances):
        n, width = instance.num_customers, min(len(picked[b]), price.shape[2])
        cost, number = price[b, :n, :width], out.candidates[b, :n, :width]
        if n * width > MOST_CELLS and width > BEST_SEEDS:
            cost, order = cost.topk(BEST_SEEDS, largest=False)
            number = number.gather(1, order)
        found = torch.where(cost.isfinite(), number, -1)
        results.append(Scores(picked[b], cost.double().numpy(), found.numpy()))
    return results


def _pick(
    router: Router,
    encoded: Encoded,
    vehicles: Sequence[int],
    noise: float,
    seed: int,
    scoring: Scoring = OURS,
) -> list[IntArray]:
    """Seed tokens (customer rows) of each instance, padding dropped."""
    packing = PackingRule() if scoring.printed else router.config.packing
    logit = encoded.output.logit.numpy()
    contrast = encoded.output.contrast.numpy()
    lists = encoded.nodes.lists
    picked = []
    for b, instance in enumerate(encoded.instances):
        n = instance.num_customers
        scores = logit[b, 1 : n + 1]
        if noise:
            rng = np.random.default_rng([seed, b])
            scores = scores + noise * rng.gumbel(size=n).astype(np.float32)
        demands = instance.demand_units[1:]
        around = np.empty((n, 0), dtype=np.int64)
        if packing.neighbours_only:
            near = lists.index[b, 1 : n + 1, 2:].numpy() - 1
            around = np.where(lists.valid[b, 1 : n + 1, 2:].numpy(), near, -1)
        limits = packing.limits(demands, instance.capacity_units, vehicles[b])
        seeds = decode_seeds(scores, contrast[b, 1 : n + 1], demands, limits, around)
        picked.append(seeds[seeds >= 0] + 1)
    return picked


@torch.inference_mode()
def transport_plan(
    instance: Instance,
    scores: Scores,
    settings: SinkhornSettings = INFERENCE,
    deadline: Deadline | None = None,
) -> FloatArray:
    """(n, K) shares Y of each customer over the vehicles (the paper, 2.3).

    The iterations come in turns, each from the prices of the one before, so that a
    deadline ends them early: at N = 5000 all of them would take minutes.
    """
    n, K = instance.num_customers, len(scores.seeds)
    cost = np.full((n, K), FAR)
    if scores.candidates is None:
        cost = scores.cost
    else:
        rows, slots = np.nonzero(scores.candidates >= 0)
        cost[rows, scores.candidates[rows, slots]] = scores.cost[rows, slots]
    total = int(instance.demand_units.sum())
    slack = max(0, K * instance.capacity_units - total) / instance.capacity_units
    problem = TransportProblem(
        torch.from_numpy(cost)[None],
        torch.from_numpy(instance.demand_units[1:] / instance.capacity_units)[None],
        torch.tensor([slack], dtype=torch.float64),
        torch.ones(1, K, dtype=torch.bool),
        torch.ones(1, n, dtype=torch.bool),
    )
    turn = int(np.clip(TURN_CELLS // max(1, n * K), 1, settings.iterations))
    found = sinkhorn(problem, replace(settings, iterations=turn))
    left = settings.iterations - turn
    while left > 0 and not (deadline is not None and deadline.passed()):
        if settings.tolerance and bool(found.converged.all()):
            break
        some = replace(settings, iterations=min(turn, left))
        found, left = sinkhorn(problem, some, found.prices), left - turn
    plan: FloatArray = found.y[0].numpy()
    return plan
