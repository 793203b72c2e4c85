"""The network on days with limits: it keeps all of them, or says why it is not used."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clusterfirst.files import bundled_city
from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.constraints import Constraints
from clusterfirst.problem.fleet import Fleet
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.sampling import sample_day
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.solving.canonical import canonical
from clusterfirst.solving.limited_network import beginning, network_starts
from clusterfirst.solving.limited_start import first_routing
from clusterfirst.solving.options import ASSIGNMENTS, SolveOptions
from clusterfirst.solving.solver import solve
from clusterfirst.stages.search.limits import bank_prices
from test_constraints import random_day
from test_limited import optimum, town

NEURAL = SolveOptions("neural", threads=1)


def wished(rng: np.random.Generator) -> Instance:
    """A day with all limits at once: pins, groups and aparts among them."""
    pins = rng.choice(["", "", "large", "small", "small 2"], 40).tolist()
    return town(
        rng,
        vehicle=("", *pins, *[""] * 20),
        group=("", *[""] * 40, *[f"g{k // 2}" for k in range(10)], *[""] * 10),
        apart=("", *[""] * 50, *[f"x{k % 2}" for k in range(10)]),
        allow_unserved=True,
    )


@pytest.mark.parametrize("assign", ASSIGNMENTS)
def test_its_routes_keep_every_limit(assign: str) -> None:
    """Before any search: whoever rides rides where the judge allows it, most do."""
    rng = np.random.default_rng(4)
    for _ in range(2):
        day = canonical(wished(rng)).instance
        options = replace(NEURAL, assign=assign, seed_sets=2)
        starts = network_starts(day, first_routing(day), options, Deadline.never())
        assert len(starts) >= 2
        for start in starts:
            plan = Solution(start.values(), start.keys())
            codes = {p.code for p in judge(day, plan).violations}
            assert not codes - {"E825"}, codes  # groups are put together later
            assert sum(map(len, start.values())) > 25


def test_tiny_days_are_solved_to_the_optimum() -> None:
    """All constraints at once, beginning with the network, against every plan."""
    rng = np.random.default_rng(17)
    solved = 0
    while solved < 6:
        try:
            day = random_day(rng, orders=4)
        except ValueError:
            continue  # it contradicts itself
        assert day.constraints is not None
        asked = day.constraints.replace(allow_unserved=True)
        day = day.replace(constraints=asked, coords=rng.random((5, 2)))
        best = optimum(day)
        if not np.isfinite(best) or day.infeasibility():
            continue
        solved += 1
        result = solve(day, replace(NEURAL, iterations=3000))
        assert result.verdict.feasible
        price = sum(bank_prices(day)[c] for c in result.verdict.unserved)
        assert price + result.verdict.cost == pytest.approx(best)


def test_named_vehicles_keep_the_network() -> None:
    """A table of names and capacities asks nothing that the network does not know."""
    plain = sample_day(bundled_city(), 100, seed=8, index=100)
    names = tuple(f"driver {k}" for k in range(plain.min_vehicles + 3))
    fleet = Fleet(names, np.full(len(names), float(plain.capacity)))
    day = canonical(plain.replace(constraints=Constraints(fleet))).instance
    options = SolveOptions(time_limit=5.0, threads=1)
    begun = beginning(day, options, Deadline.after(5.0))
    assert begun.by == "neural"
    assert not begun.notes
    assert sum(map(len, begun.routing.values())) == 100
    named = plain.replace(constraints=Constraints(fleet))
    result = solve(named, replace(options, time_limit=1.0))
    assert result.method == "neural+limits"
    assert not any("W436" in note for note in result.notes)


def test_one_way_streets_with_coordinates_keep_the_network() -> None:
    """The network sees the map; ways and limits are those of the matrix."""
    rng = np.random.default_rng(2)
    plain = sample_day(bundled_city(), 100, seed=8, index=100)
    matrix = plain.distances * (1 + 0.2 * rng.random((101, 101)))
    day = plain.replace(matrix=matrix, metric="matrix")
    result = solve(day, SolveOptions("neural", iterations=200))
    assert result.verdict.feasible
    assert result.method == "neural+limits"
    assert not any("W436" in note for note in result.notes)


def test_it_says_when_the_network_could_not_be_used() -> None:
    """Without coordinates, asked for by name and by default; and other methods."""
    rng = np.random.default_rng(1)
    matrix = rng.random((41, 41))
    np.fill_diagonal(matrix, 0.0)
    bare = Instance(np.r_[0, np.ones(40)], 7, matrix=matrix, metric="matrix")
    for options in (NEURAL, SolveOptions()):
        result = solve(bare, replace(options, time_limit=1.0))
        assert result.method == "savings+limits"
        assert any("W436" in n and "coordinates" in n for n in result.notes)
    result = solve(bare, SolveOptions("sweep", iterations=10))
    assert any(note.startswith("W436 sweep knows no limits") for note in result.notes)
