"""Small seeded networks and instances, shared by the tests of the networks."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch

from clusterfirst.learning.labels.pool import Label
from clusterfirst.learning.training.batches import BatchSettings, TrainBatch, make_batch
from clusterfirst.networks.config import KNOWS_CITY, ModelConfig
from clusterfirst.networks.model_folder import Model
from clusterfirst.networks.network import Network
from clusterfirst.networks.nodes import NeighbourRule, NodeArrays
from clusterfirst.networks.trainable.cluster import SeedBatch
from clusterfirst.networks.trainable.router import Router
from clusterfirst.problem.city import City
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.sampling import sample_city, sample_day

RULE = NeighbourRule(least=6, most=6)
SMALL = ModelConfig(
    input="xy",
    width=16,
    heads=2,
    seed_layers=2,
    cluster_layers=2,
    feedforward=32,
    dropout=0.0,
    neighbours=RULE,
)
PSI = replace(SMALL, input="psi", psi_rows=121, psi_width=8)
RELATIVE = replace(
    SMALL,
    input="relative",
    raw_demand=False,
    pair_width=4,
    pair_head=True,
    candidates=24,
    fill="mean",
    pack_neighbours=True,
)
BOTH = replace(RELATIVE, input="psi+relative", psi_rows=121, psi_width=8)
KINDS = {"xy": SMALL, "psi": PSI, "relative": RELATIVE, "psi+relative": BOTH}


@cache
def small_city() -> City:
    """A city of 120 locations."""
    return sample_city(120, seed=5, name="small")


def small_router(config: ModelConfig = SMALL, seed: int = 0) -> Router:
    """Untrained networks with reproducible weights, every one of them at work."""
    torch.manual_seed(seed)
    psi = torch.randn(config.psi_rows, config.psi_width)
    router = Router(config, psi if config.input in KNOWS_CITY else None)
    with torch.no_grad():
        router.seed.input.depot.normal_()
        if config.input == "psi+relative":
            router.seed.input.known.weight.normal_()
    return router.eval()


def small_network(config: ModelConfig = SMALL, seed: int = 0) -> Network:
    """The same, ready to answer."""
    return Network(config, small_router(config, seed).weights())


def small_model(
    name: str,
    config: ModelConfig,
    provenance: dict[str, Any] | None = None,
    *,
    seed: int = 0,
) -> Model:
    """The same as a model; one that knows a city knows the small one."""
    weights = small_router(config, seed).weights()
    city = small_city() if config.input in KNOWS_CITY else None
    return Model(name, config, weights, provenance or {}, city)


def small_day(customers: int = 30, index: int = 0) -> Instance:
    """A day in the small city, capacity 50."""
    return sample_day(small_city(), customers, seed=3, index=index)


def nodes_of(instance: Instance) -> NodeArrays:
    """What the networks see of a day, its city rows included."""
    return NodeArrays(
        instance.plane,
        instance.demand_units,
        instance.capacity_units,
        instance.city_rows,
    )


def some_seeds(counts: list[int], sizes: list[int], seed: int = 0) -> SeedBatch:
    """Distinct random customers as seeds: `counts` of them among `sizes`."""
    rng = np.random.default_rng(seed)
    index = np.zeros((len(counts), max(counts)), dtype=np.int64)
    real = np.zeros(index.shape, dtype=bool)
    for b, (count, size) in enumerate(zip(counts, sizes, strict=True)):
        index[b, :count] = rng.choice(size, count, replace=False) + 1
        real[b, :count] = True
    return SeedBatch(torch.from_numpy(index), torch.from_numpy(real))


def angular_label(customers: int = 30, index: int = 0) -> Label:
    """A day with the routes of a sweep: neighbours by angle until the load is Q."""
    day = small_day(customers, index)
    away = day.plane[1:] - day.plane[0]
    route = np.zeros(customers, dtype=np.int64)
    number, load = 0, 0
    for i in np.argsort(np.arctan2(away[:, 1], away[:, 0])):
        demand = int(day.demand_units[i + 1])
        if load + demand > day.capacity_units:
            number, load = number + 1, 0
        load += demand
        route[i] = number
    return Label(nodes_of(day), route)


def label_batch(labels: list[Label], seed: int = 0, pool: int = 2) -> TrainBatch:
    """A batch with targets, seeds drawn with this seed."""
    settings = BatchSettings(seed_pool=pool)
    return make_batch(labels, settings, np.random.default_rng(seed), RULE)


def grid(side: int, spread: int = 1) -> NodeArrays:
    """A square grid of customers about a depot in the middle: ties everywhere."""
    axis = np.arange(-side, side + 1) * float(spread)
    points = np.array([(x, y) for x in axis for y in axis if (x, y) != (0, 0)])
    demands = 1 + np.arange(len(points)) % 3
    return NodeArrays(
        np.vstack([[0.0, 0.0], points]), np.concatenate([[0], demands]), 10
    )


MOVES = (
    "rotation",
    "quarter turn",
    "reflection",
    "translation",
    "scaling",
    "demands",
)


def moved(arrays: NodeArrays, kind: str) -> NodeArrays:
    """The same map turned, mirrored, shifted or scaled; or demands with capacity."""
    c, s = np.cos(0.7), np.sin(0.7)
    coords = {
        "rotation": arrays.coords @ np.array([[c, s], [-s, c]]),
        "quarter turn": arrays.coords @ np.array([[0.0, 1.0], [-1.0, 0.0]]),
        "reflection": arrays.coords * [-1.0, 1.0],
        "translation": arrays.coords + np.array([12.0, -7.0]),
        "scaling": arrays.coords * 37.5,
    }.get(kind, arrays.coords)
    factor = 8 if kind == "demands" else 1
    return replace(
        arrays,
        coords=coords,
        demands=arrays.demands * factor,
        capacity=arrays.capacity * factor,
    )
