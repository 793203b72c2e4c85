"""Several seed sets of the network: all their routes, and the best set of them."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from clusterfirst.networks.model_folder import save_model
from clusterfirst.networks.neural import NeuralScorer
from clusterfirst.problem.errors import InputError
from clusterfirst.solving.neural import sets_for
from clusterfirst.solving.options import NeuralSettings
from clusterfirst.solving.solver import SolveOptions, solve
from clusterfirst.stages.moved_seeds import centres
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.scores import Decoded
from networks import RELATIVE, small_day, small_model, small_network

DAY = small_day(60)


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder with seeded weights that nobody trained."""
    folder = tmp_path_factory.mktemp("models") / "untrained"
    save_model(folder, small_model("untrained", RELATIVE), "# untrained")
    return folder


def options(model: Path, **more: object) -> SolveOptions:
    """The neural method without polish, by counts unless a limit is given."""
    given = {"method": "neural", "model": str(model), "polish": False, "recentre": 0}
    given |= more
    return SolveOptions(**given)  # type: ignore[arg-type]  # test helper


def test_seed_sets_are_never_worse_than_one(untrained: Path) -> None:
    """The first one is the plain one, each is noted, and the pool beats them all."""
    plain = solve(DAY, options(untrained, iterations=100, seed_sets=1))
    many = solve(DAY, options(untrained, iterations=100, seed_sets=8))
    *seed_sets, pool = many.notes
    # Three, three and two sets, the first of each at both sizes; the best again.
    assert len(seed_sets) == 4 + 4 + 3 + 1
    costs = [float(re.findall(r"cost ([\d.e+-]+),", note)[0]) for note in seed_sets]
    assert len(set(costs)) > 2  # noise draws other seed sets
    assert "from 12 answers" in pool
    assert many.verdict.feasible
    assert many.verdict.cost <= min(costs) * (1 + 1e-7)
    assert many.verdict.cost <= plain.verdict.cost * (1 + 1e-12)
    assert "pool" in many.seconds


def test_seed_sets_are_repeatable(untrained: Path) -> None:
    """The same seed gives the same routes and notes."""
    first, second = (
        solve(DAY, options(untrained, iterations=20, seed_sets=7, seed=7))
        for _ in range(2)
    )
    assert first.solution == second.solution
    assert first.notes == second.notes


def test_moving_the_seeds_never_makes_it_worse(untrained: Path) -> None:
    """More moves give the same or a shorter answer, and sometimes a shorter one."""
    costs = []
    for number in range(4):
        day = small_day(60, index=number)
        few, many = (
            solve(day, options(untrained, iterations=100, recentre=moves))
            for moves in (0, 3)
        )
        assert many.verdict.cost <= few.verdict.cost * (1 + 1e-12)
        costs.append(many.verdict.cost < few.verdict.cost)
    assert any(costs)


def test_the_centre_of_a_route_has_the_shortest_star() -> None:
    """One row per route that is not empty, the best of its members by brute force."""
    routes = Routes.of([range(1, 21), range(21, 61), []])
    found = centres(DAY, Decoded(np.zeros(60, dtype=np.int64), routes, 0.0))
    d = DAY.distances

    def star(s: int, route: list[int]) -> float:
        return float(2 * d[0, s] + sum(d[0, i] + d[i, s] - d[0, s] for i in route))

    assert len(found) == 2
    for seed, route in zip(found.tolist(), routes, strict=True):
        mates = route.tolist()
        assert seed in mates
        assert star(seed, mates) <= min(star(s, mates) for s in mates) * (1 + 1e-12)


def test_noise_draws_other_seeds() -> None:
    """Seeds differ with the noise's seed and are the plain ones without noise."""
    scorer = NeuralScorer(small_network(RELATIVE), DAY)
    vehicles = 8
    plain = scorer(vehicles).seeds.tolist()
    assert scorer(vehicles, 0.0, 3).seeds.tolist() == plain
    noise = NeuralSettings().seed_noise
    drawn = {tuple(scorer(vehicles, noise, s).seeds.tolist()) for s in range(4)}
    assert len(drawn) > 1


def test_seed_sets_stop_in_time_and_are_polished(untrained: Path) -> None:
    """With a clock and polish the answer is feasible and at least the pool's."""
    chosen = options(untrained, time_limit=0.5, seed_sets=1000, polish=True)
    result = solve(DAY, chosen)
    assert result.verdict.feasible
    assert sum(result.seconds.values()) < 5.0  # a guard; measured: 0.5 s
    assert len(result.notes) <= 21


def test_three_seed_sets_are_tried_where_no_search_follows(untrained: Path) -> None:
    """They are the default for few vehicles, need no pool, and beat a single one."""
    said, found, one = (
        solve(DAY, options(untrained, iterations=100, seed_sets=count))
        for count in (3, None, 1)
    )
    assert found.solution == said.solution
    assert "pool" not in found.seconds
    assert found.verdict.cost <= one.verdict.cost * (1 + 1e-12)


def test_the_number_of_seed_sets_follows_fleet_and_search(untrained: Path) -> None:
    """Many vehicles, a search or a slow assignment: one, unless somebody said more."""
    chosen = options(untrained).neural
    few = chosen.few_vehicles
    day: Any = SimpleNamespace(min_vehicles=few)
    large: Any = SimpleNamespace(min_vehicles=few + 1)
    assert sets_for(day, chosen) == chosen.together
    assert sets_for(large, chosen) == 1
    assert sets_for(large, options(untrained, seed_sets=7).neural) == 7
    for other in ({"polish": True}, {"assign": "exact"}):
        assert sets_for(day, options(untrained, **other).neural) == 1


def test_seed_sets_are_for_the_network_only() -> None:
    """Other methods refuse more than one seed set, and none is no answer."""
    with pytest.raises(InputError, match="seed_sets"):
        SolveOptions(method="sweep", seed_sets=2)
    with pytest.raises(InputError, match="seed_sets"):
        SolveOptions(method="neural", seed_sets=0)
