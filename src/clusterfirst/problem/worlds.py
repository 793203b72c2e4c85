"""Named kinds of instances that the mix `world` has few or none of.

Labels of them show the general model what it lacks: routes of 30 to 100 customers, the
law of XML100, and days of real shape, where towns lie along roads.
"""

from __future__ import annotations

import numpy as np

from clusterfirst.problem.instance import FloatArray, Instance, IntArray
from clusterfirst.problem.sampling import (
    generator,
    sample_world,
    some_demands,
    some_depot,
    some_places,
)

# Customers per route of XML100, one range as likely as the other (Queiroga et al.).
XML_ROUTES = ((3, 5), (5, 8), (8, 12), (12, 16), (16, 25), (25, 50))
TOWN_WIDTH = 0.02  # of a town of mean size
ROADSIDE = 0.2  # share of the customers that live along roads, not in towns
ROAD_WIDTH = 0.004


def sample_long(customers: int, *, seed: int, index: int) -> Instance:
    """Any map, depot and demands; 30 to 100 customers per route, log-uniform."""
    rng = generator(seed, index)
    depot = some_depot(rng)
    places = some_places(rng, customers)
    demands = some_demands(rng, places)
    most = min(100.0, max(31.0, customers / 2))
    per_route = np.exp(rng.uniform(np.log(30), np.log(most)))
    name = f"long-n{customers}-s{seed}-{index}"
    return _instance(np.vstack([depot, places]), demands, per_route, name)


def sample_xml(customers: int, *, seed: int, index: int) -> Instance:
    """The law of XML100 on whole numbers 0 to 1000, for any number of customers."""
    rng = generator(seed, index)
    depot = some_depot(rng)
    places = some_places(rng, customers, kinds=3)
    demands = some_demands(rng, places)
    low, high = XML_ROUTES[rng.integers(len(XML_ROUTES))]
    coords = np.round(np.vstack([depot, places]) * 1000)
    name = f"xml-n{customers}-s{seed}-{index}"
    return _instance(coords, demands, rng.uniform(low, high), name)


def sample_towns(customers: int, *, seed: int, index: int) -> Instance:
    """Towns of very different size along a few roads; parcels, some of them large.

    The depot is at the edge of a town or beside a road, as real ones are.
    """
    rng = generator(seed, index)
    roads = _roads(rng)
    sizes = rng.pareto(1.2, int(rng.integers(5, 20))) + 0.1
    centres = _along(rng, roads, len(sizes))
    widths = TOWN_WIDTH * np.sqrt(sizes / sizes.mean())
    places = _along(rng, roads, customers)
    places += rng.normal(0, ROAD_WIDTH, places.shape)
    town = rng.choice(len(sizes), customers, p=sizes / sizes.sum())
    spread = rng.normal(0, 1, places.shape) * widths[town][:, None]
    in_town = rng.random(customers) > ROADSIDE
    places[in_town] = (centres[town] + spread)[in_town]
    depot = _along(rng, roads, 1)[0]
    if rng.random() < 0.5:
        home = rng.integers(len(sizes))
        angle = rng.uniform(0, 2 * np.pi)
        edge = 2 * widths[home] * np.array([np.cos(angle), np.sin(angle)])
        depot = centres[home] + edge
    demands = np.ceil(rng.lognormal(0.7, 0.8, customers)).astype(np.int64)
    per_route = np.exp(rng.uniform(np.log(8), np.log(min(60, max(9, customers / 2)))))
    name = f"towns-n{customers}-s{seed}-{index}"
    return _instance(np.vstack([depot, places]), demands, per_route, name)


def _roads(rng: np.random.Generator) -> FloatArray:
    """(roads, points, 2) wandering lines across the square."""
    count, points = int(rng.integers(2, 6)), 8
    ends = rng.random((count, 2, 2))
    share = np.linspace(0, 1, points)[None, :, None]
    lines = ends[:, :1] * (1 - share) + ends[:, 1:] * share
    bent: FloatArray = lines + rng.normal(0, 0.04, lines.shape)
    return bent


def _along(rng: np.random.Generator, roads: FloatArray, count: int) -> FloatArray:
    """Points on the roads, as many on each piece as it is long."""
    first, last = (part.reshape(-1, 2) for part in (roads[:, :-1], roads[:, 1:]))
    length = np.linalg.norm(last - first, axis=1)
    piece = rng.choice(len(length), count, p=length / length.sum())
    share = rng.random((count, 1))
    points: FloatArray = first[piece] * (1 - share) + last[piece] * share
    return points


def _instance(
    coords: FloatArray, demands: IntArray, per_route: float, name: str
) -> Instance:
    """With vehicles for so many mean customers, and for the largest one."""
    mean = demands.sum() / max(1, len(demands))
    capacity = max(int(np.ceil(per_route * mean)), int(demands.max(initial=1)))
    wanted = np.concatenate([[0], demands])
    return Instance(demands=wanted, capacity=capacity, coords=coords, name=name)


WORLDS = {
    "world": sample_world,
    "long": sample_long,
    "xml": sample_xml,
    "towns": sample_towns,
}
