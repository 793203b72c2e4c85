"""The instance as a PyVRP model: the same distances, demands and costs."""

from __future__ import annotations

import numpy as np
import pytest

from clusterfirst.learning.experts.pyvrp_expert import pyvrp_scale, to_pyvrp
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.sampling import sample_city, sample_day
from clusterfirst.problem.solution import Solution, judge

pyvrp = pytest.importorskip("pyvrp", reason="the extra `bench` is missing")


def matrix() -> Instance:
    """Four customers by a bare matrix of whole distances, two vehicles."""
    table = np.random.default_rng(3).integers(1, 50, (5, 5)).astype(float)
    table = np.triu(table, 1) + np.triu(table, 1).T
    demands = np.array([0, 2, 3, 2, 3])
    return Instance(demands, 5, matrix=table, metric="matrix", vehicles=2)


@pytest.mark.parametrize("kind", ["day", "rounded", "matrix", "nobody"])
def test_costs_agree(kind: str) -> None:
    """What PyVRP finds is feasible for our judge, at its cost divided by the scale."""
    day = sample_day(sample_city(60, seed=1), 20, seed=2, index=0)
    coords = np.random.default_rng(0).integers(0, 100, (21, 2)).astype(float)
    instance = {
        "day": day,
        "rounded": Instance(day.demands, 50, coords=coords, rounding="round"),
        "matrix": matrix(),
        "nobody": Instance(np.zeros(1), 5, coords=np.zeros((1, 2))),
    }[kind]
    model = to_pyvrp(instance)
    data = model.data()
    scale = pyvrp_scale(instance)
    assert data.num_clients == instance.num_customers
    assert [client.name for client in data.clients()] == list(instance.ids[1:])
    table = data.distance_matrix(0)
    assert np.array_equal(table, np.rint(instance.distances * scale))
    if kind == "nobody":
        return
    assert (scale == 1.0) == (kind != "day")
    found = model.solve(pyvrp.stop.MaxIterations(300), seed=1, display=False)
    routes = [
        [visit.idx + 1 for visit in route if visit.is_client()]
        for route in found.best.routes()
    ]
    verdict = judge(instance, Solution(routes))
    assert verdict.feasible
    assert found.cost() / scale == pytest.approx(verdict.cost, rel=1e-3)
