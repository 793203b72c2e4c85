"""The one builder of neighbour lists: the same customers by every kind of distance."""

from __future__ import annotations

import numpy as np
import pytest

from clusterfirst import Instance
from clusterfirst.problem.clock import Deadline, TimeUpError
from clusterfirst.stages.neighbours import nearest_customers


def towns(count: int, degrees: bool) -> Instance:
    """Customers with several at one place."""
    rng = np.random.default_rng(3)
    points = rng.uniform(-60, 60, (count + 1, 2))
    points[count // 2 :: 7] = points[1]
    metric = "greatcircle" if degrees else "euclidean"
    return Instance(demands=[0, *[1] * count], capacity=9, coords=points, metric=metric)


@pytest.mark.parametrize("degrees", [False, True])
def test_lists_are_those_of_brute_force(degrees: bool) -> None:
    """By tree, on the globe too, and by matrix: the k least distances, never itself."""
    town = towns(60, degrees)
    whole = town.distances[1:, 1:].copy()
    np.fill_diagonal(whole, np.inf)
    wanted = np.sort(whole, axis=1)[:, :8]
    for instance in (town, town.replace(metric="matrix", matrix=town.distances)):
        near = nearest_customers(instance, 8)
        rows = np.arange(1, 61)[:, None]
        assert (near != rows).all()
        assert (near >= 1).all()
        np.testing.assert_allclose(town.distances[rows, near], wanted, atol=1e-6)


def test_few_customers_and_no_time() -> None:
    """Lists never hold more than the others; a passed deadline raises."""
    assert nearest_customers(towns(1, False), 5).shape == (1, 0)
    assert nearest_customers(towns(3, False), 5).shape == (3, 2)
    with pytest.raises(TimeUpError):
        nearest_customers(towns(9, False), 5, Deadline.after(0.0))
