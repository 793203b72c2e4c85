"""Both forwards, numpy's and torch's, on instances of all kinds and every model.

    python benchmarks/parity.py [--count 1000] [--store]

Prints for each shipped model and kind of instance how many seed sets differ and the
largest difference of Delta at the same seeds; --store keeps that in benchmarks/results.
Where torch's own seeds change when its scores do by their rounding, other seeds are a
tie and counted apart.
tests/test_parity.py runs a few of them. A model of one city borrows its rows elsewhere.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from clusterfirst.files import bundled_city
from clusterfirst.networks.model_folder import Model, load_model, shipped
from clusterfirst.networks.neural import NeuralScorer
from clusterfirst.networks.nodes import NodeArrays
from clusterfirst.networks.seed_decoding import decode_seeds
from clusterfirst.networks.trainable.cluster import SeedBatch
from clusterfirst.networks.trainable.inputs import collate
from clusterfirst.networks.trainable.router import Router, router_of
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.sampling import generator, sample_day, sample_world
from machine import ROOT, facts

SEED = 20261118
KINDS = ("city", "world", "grid", "coinciding")
ROUNDING = 5e-6, 2e-7  # of logits and of the contrast, in a model of one layer
DRAWS = 50  # of that, to see whether seeds are a tie


def instance_of(kind: str, index: int) -> Instance:
    """A day of the bundled city or of another world, or one with many ties."""
    rng = generator(SEED, index)
    n = int(np.exp(rng.uniform(np.log(1), np.log(400))))
    if kind == "city":
        return sample_day(bundled_city(), n, seed=SEED, index=index)
    if kind == "world":
        return sample_world(max(n, 5), seed=SEED, index=index)
    side = 12 if kind == "grid" else 3  # so small that customers share places
    coords = rng.integers(-side, side + 1, (n + 1, 2)).astype(float)
    return Instance([0, *rng.integers(1, 10, n)], 50, coords=coords)


@dataclass(frozen=True)
class Difference:
    """What the two forwards disagree on."""

    seeds: bool  # beyond a tie
    delta: float  # largest
    tie: bool = False


def compare(model: Model, router: Router, instance: Instance) -> Difference:
    """Encode, pick and score twice; Delta at the seeds of numpy."""
    rows, config = model.rows_of(instance, borrow=True), model.config
    scorer = NeuralScorer(model.network, instance, rows, threads=1)
    vehicles = max(1, instance.min_vehicles)
    seeds = scorer.pick(vehicles)
    found = model.network.score(scorer.encoded, seeds)
    with torch.inference_mode():
        batch = collate([NodeArrays.of(instance, rows)], config.neighbours)
        encoded = router.encode(batch)
        index = torch.from_numpy(seeds)[None]
        given = SeedBatch(index, torch.ones_like(index, dtype=torch.bool))
        out = router.score(
            encoded.hidden, batch, given, router.candidates(batch, given)
        )

    def look(customer: int) -> tuple[float, ...]:
        """Customers at one place (one row of Psi) with one demand look the same."""
        place = instance.plane[customer]
        if config.input == "psi" and rows is not None:
            place = rows[[customer]]
        return (*place, float(instance.demands[customer]))

    demands = instance.demand_units[1:]
    near = scorer.encoded.nodes.lists[1:, 2:] if config.pack_neighbours else None
    around = np.empty((len(demands), 0), dtype=np.int64)
    if near is not None:
        around = np.where(near >= 0, near - 1, -1)
    limits = config.packing.limits(demands, instance.capacity_units, vehicles)
    logit, contrast = (
        each[0, 1:].numpy() for each in (encoded.logit, encoded.contrast)
    )

    def decoded(rng: np.random.Generator | None = None) -> list[tuple[float, ...]]:
        noisy = [logit, contrast]
        if rng is not None:
            noisy = [
                each + np.float32(size) * rng.uniform(-1, 1, each.shape).astype("f")
                for each, size in zip(noisy, ROUNDING, strict=True)
            ]
        found = decode_seeds(*noisy, demands, limits, around)
        return sorted(map(look, found[found >= 0] + 1))

    assert np.array_equal(out.candidates[0].numpy(), found.candidates)
    gap = np.abs(out.cost[0].numpy() - found.cost).max(initial=0.0)
    theirs = decoded()
    if sorted(map(look, seeds)) == theirs:
        return Difference(False, float(gap))
    rngs = (generator(SEED, draw) for draw in range(DRAWS))
    tie = any(decoded(rng) != theirs for rng in rngs)
    return Difference(not tie, float(gap), tie)


def each(model: Model, kind: str, count: int) -> Iterator[Difference]:
    """Compare on so many instances of a kind."""
    router = router_of(model.config, model.weights)
    for index in range(count):
        yield compare(model, router, instance_of(kind, index))


def main() -> None:
    """Print a line per model and kind."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--store", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name in shipped():
        for kind in KINDS:
            found = list(each(load_model(name), kind, given.count // len(KINDS)))
            row = {
                "model": name,
                "kind": kind,
                "instances": len(found),
                "other_seeds": sum(one.seeds for one in found),
                "ties": sum(one.tie for one in found),
                "delta": float(f"{max(one.delta for one in found):.1e}"),
            }
            print(row, flush=True)
            rows.append(row)
    if given.store:
        path = ROOT / "benchmarks" / "results" / "parity.json"
        path.write_text(json.dumps({**facts(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
