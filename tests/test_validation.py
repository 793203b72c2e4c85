"""The solved gap: against references of its own, without touching the training."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clusterfirst.learning.experts.expert import ExpertSettings
from clusterfirst.learning.experts.hgs import HGS
from clusterfirst.learning.labels.sources import (
    Source,
    city_days,
    public_set,
    world,
)
from clusterfirst.learning.training import validation
from clusterfirst.learning.training.curves import read_curve
from clusterfirst.learning.training.run import Ending, Report, TrainData, train
from clusterfirst.learning.training.validation import (
    SEED,
    SolvedGap,
    Validation,
    ValidationPlan,
    first_source,
    make_validation,
    solved_gap,
    validation_source,
)
from clusterfirst.networks.network import Network
from clusterfirst.problem.errors import InputError
from clusterfirst.problem.instance import Instance
from networks import KINDS, small_city, small_day, small_network, small_router
from train_tiny import CONFIG, tiny_pool

pytest.importorskip("hygese", reason="references come from HGS (extra: labels)")


def cheap(day: Instance) -> float:
    """Cost of a quick reference."""
    solution = HGS.solve(day, ExpertSettings(iterations=50))
    rows = [[0, *route, 0] for route in solution.routes]
    return sum(float(day.lengths(r[:-1], r[1:]).sum()) for r in rows)


@pytest.fixture(scope="module")
def days() -> Validation:
    """Three days with references."""
    instances = [small_day(15, index) for index in range(3)]
    return Validation(instances, np.array([cheap(day) for day in instances]))


@pytest.mark.parametrize("kind", KINDS)
def test_gaps_are_real(kind: str, days: Validation) -> None:
    """An untrained model solves every day, never below a good reference."""
    gap = solved_gap(small_network(KINDS[kind]), days)
    assert gap.unsolved == 0
    assert gap.mean >= -1e-9
    assert gap.each.shape == (3,)


def test_validating_changes_nothing(days: Validation) -> None:
    """Weights that go on learning and random numbers are untouched, and it repeats."""
    router = small_router()
    before = {k: v.clone() for k, v in router.state_dict().items()}
    torch.manual_seed(9)
    state = torch.get_rng_state()
    network = Network(router.config, router.weights())
    first, again = solved_gap(network, days), solved_gap(network, days)
    assert np.array_equal(first.each, again.each)
    assert torch.equal(torch.get_rng_state(), state)
    for name, value in router.state_dict().items():
        assert torch.equal(value, before[name])


def test_unsolved_days_are_counted() -> None:
    """Days without an answer are left out of the mean and told."""
    gap = SolvedGap(np.array([0.1, np.nan, 0.3]))
    assert gap.mean == pytest.approx(0.2)
    assert gap.unsolved == pytest.approx(1 / 3)
    assert np.isnan(SolvedGap(np.array([np.nan])).mean)


def test_references_are_made_once(tmp_path: Path) -> None:
    """The second time the references are read, and they are the same."""
    source = city_days(small_city(), seed=0)
    plan = ValidationPlan(customers=12, count=2, seconds=0.02)
    first = make_validation(source, plan, tmp_path)
    made = []
    again = make_validation(source, plan, tmp_path, made.append)
    assert made[-1].found == 2
    assert made[-1].made == 0
    assert np.array_equal(first.costs, again.costs)
    for a, b in zip(first.instances, again.instances, strict=True):
        assert a.same_as(b)
        assert a.city_rows is not None


def test_a_busy_machine_gets_longer_for_its_references(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No reference in the planned seconds ended `learn`: HGS gets more; it is said."""
    source = city_days(small_city(), seed=0)
    plan = ValidationPlan(customers=12, count=2, seconds=0.02)
    make = validation._references  # noqa: SLF001
    given: list[float] = []

    def busy(own: Source, plan: ValidationPlan, *more: Any) -> Validation:
        given.append(plan.seconds)
        if len(given) < 3:
            return Validation([], np.array([]))
        return make(own, plan, *more)

    monkeypatch.setattr(validation, "_references", busy)
    found = make_validation(source, plan, tmp_path)
    assert given == [0.02, 0.08, 0.32]
    assert (len(found.instances), found.seconds) == (2, 0.32)
    given[:] = []
    monkeypatch.setattr(
        validation, "_references", lambda *_: Validation([], np.array([]))
    )
    with pytest.raises(InputError, match="E711"):
        make_validation(source, plan, tmp_path)


def test_validation_has_a_seed_of_its_own() -> None:
    """Days to validate on are drawn like those to learn from, from another seed."""
    learned = city_days(small_city(), seed=0, capacity=30)
    other = validation_source(learned)
    assert other.seed == SEED
    assert other.capacity == 30
    assert validation_source(world(seed=3)).kind == "world"
    with pytest.raises(InputError, match="never for choosing"):
        first_source([public_set("cvrp100")])


def test_an_interrupted_run_ends_without_measuring(
    tmp_path: Path, days: Validation
) -> None:
    """Whoever presses Ctrl-C does not wait for a hundred solved days."""
    data = TrainData(tiny_pool(), validation=days)

    seen: list[Report] = []

    def interrupt(now: Report) -> None:
        if not seen:  # a second signal would end the tests
            os.kill(os.getpid(), signal.SIGTERM)
        seen.append(now)

    assert train(CONFIG, data, tmp_path, on_report=interrupt) is Ending.INTERRUPTED
    assert not (tmp_path / "validation.csv").exists()
    assert train(CONFIG, data, tmp_path) is Ending.FINISHED
    assert read_curve(tmp_path / "validation.csv")["step"] == [CONFIG.steps]
