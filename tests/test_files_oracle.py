"""On public files our readers agree with vrplib and with the stated costs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import vrplib

from clusterfirst import files
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.sampling import sample_public
from clusterfirst.problem.solution import judge
from strategies import SHARED

INSTANCES = sorted(Path(SHARED, "X").glob("*.vrp"))
pytestmark = pytest.mark.filterwarnings(
    "ignore::clusterfirst.problem.errors.InputWarning"
)
needs_shared = pytest.mark.skipif(
    not INSTANCES, reason="shared data is not on this machine"
)


@needs_shared
def test_every_x_instance_reads_as_vrplib_reads_it() -> None:
    """Name, coordinates, demands, capacity and depot are vrplib's."""
    for path in INSTANCES:
        ours = files.read_instance(path)
        theirs = vrplib.read_instance(path, compute_edge_weights=False)
        assert ours.name == theirs["name"]
        assert np.array_equal(ours.coords, theirs["node_coord"])
        assert np.array_equal(ours.demands, theirs["demand"])
        assert ours.capacity == theirs["capacity"]
        assert theirs["depot"].tolist() == [0]


@needs_shared
def test_every_x_solution_costs_what_it_states() -> None:
    """All best known solutions are feasible and re-cost to the listed value."""
    for path in INSTANCES:
        instance = files.read_instance(path, rounding="round")
        solution, stated = files.read_solution(path.with_suffix(".sol"), instance)
        theirs = vrplib.read_solution(path.with_suffix(".sol"))
        verdict = judge(instance, solution, stated_cost=stated)
        assert [list(route) for route in solution.routes] == theirs["routes"]
        assert stated == theirs["cost"] == verdict.cost
        assert verdict.feasible


@pytest.mark.parametrize("size", [200, 500])
def test_lehd_sets_are_the_ones_we_draw(size: int) -> None:
    """The public LEHD files hold what `sample_public` draws, feasibly solved."""
    path = Path(SHARED, "lehd", f"lehd_vrp{size}.npz")
    if not path.exists():
        pytest.skip("shared data is not on this machine")
    for i, entry in enumerate(files.read_instances(path, first=20)):
        drawn = sample_public(f"lehd{size}", i)
        assert entry.instance.replace(name=drawn.name).same_as(drawn)
        assert entry.solution is not None
        assert judge(drawn, entry.solution, stated_cost=entry.cost).feasible


def test_vrplib_reads_what_we_write(tmp_path: Path) -> None:
    """The matrix and the plane we write are understood by vrplib."""
    day = Instance(
        demands=[0, 1, 2], capacity=4, coords=[[0, 0], [0.1, 1e-9], [7, 1e9 / 3]]
    )
    for instance in (day, day.replace(metric="matrix", matrix=day.distances)):
        files.write_instance(tmp_path / "a.vrp", instance)
        theirs = vrplib.read_instance(tmp_path / "a.vrp", compute_edge_weights=False)
        assert np.array_equal(theirs["node_coord"], day.coords)
        assert np.array_equal(theirs["demand"], day.demands)
        if instance.metric == "matrix":
            assert np.array_equal(theirs["edge_weight"], day.distances)
