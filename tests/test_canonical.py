"""Answers do not depend on how an instance was written down."""

from __future__ import annotations

import numpy as np
import pytest

from clusterfirst import (
    Instance,
    SolveOptions,
    bundled_city,
    judge,
    sample_day,
    sample_world,
    solve,
)
from clusterfirst.problem.instance import IntArray
from clusterfirst.solving.canonical import canonical

OPTIONS = {
    "network": SolveOptions("neural", iterations=1000, polish=False),
    "network exact": SolveOptions(
        "neural",
        iterations=1000,
        assign="exact",
        fleet="kmin",
        recentre=0,
        polish=False,
    ),
    "default": SolveOptions(iterations=200),
}


def days() -> list[Instance]:
    """Days large enough for the assignment to have a choice."""
    city = bundled_city()
    drawn = [sample_world(100, seed=11, index=i) for i in range(2)]
    return [*drawn, *(sample_day(city, 100, seed=11, index=i) for i in range(2))]


def partition(day: Instance, options: SolveOptions, names: IntArray) -> object:
    """Who shares a route, by name."""
    routes = solve(day, options).solution.routes
    return {frozenset(names[list(route)].tolist()) for route in routes}


@pytest.mark.parametrize("how", OPTIONS)
def test_neither_numbers_nor_units_matter(how: str) -> None:
    """Renumbered customers, demands in sevenths: the same partition (C2)."""
    for number, day in enumerate(days()):
        assert day.coords is not None
        as_given = np.arange(101)
        expected = partition(day, OPTIONS[how], as_given)
        others = np.random.default_rng(number).permutation(100) + 1
        order = np.concatenate([[0], others])
        renumbered = Instance(
            day.demands[order], day.capacity, coords=day.coords[order]
        )
        assert partition(renumbered, OPTIONS[how], order) == expected
        units = Instance(7 * day.demands, 7 * day.capacity + 3, coords=day.coords)
        assert partition(units, OPTIONS[how], as_given) == expected


@pytest.mark.parametrize("how", ["network", "network exact"])
def test_neither_scale_nor_side_matters(how: str) -> None:
    """A map twice as large, or mirrored, where no digit changes: equal groups (C2).

    Turned maps differ in the last digits: campaign/symmetries.py counts how often
    that decides.
    """
    for day in days()[1:3]:
        assert day.coords is not None
        as_given = np.arange(101)
        expected = partition(day, OPTIONS[how], as_given)
        for factor in ([2.0, 2.0], [-1.0, 1.0]):
            moved = Instance(day.demands, day.capacity, coords=day.coords * factor)
            assert partition(moved, OPTIONS[how], as_given) == expected


def test_rows_are_mapped_both_ways() -> None:
    """Routes, scores and labels come back in the rows of the given instance."""
    day = sample_world(60, seed=3, index=1)
    form = canonical(day)
    routes = [list(range(1, 31)), list(range(31, 61))]
    there = form.from_given(routes)
    assert form.to_given(there).lists() == routes
    assert form.instance.distances[1, 0] == day.distances[form.order[1], 0]
    result = solve(day, OPTIONS["network"])
    scores, labels = result.details["scores"], result.details["labels"]
    for route in result.solution.routes:
        assert len({int(labels[row - 1]) for row in route}) == 1
    for number, seed in enumerate(scores.seeds.tolist()):
        assert 1 <= seed <= 60
        assert 0 <= number < len(scores.seeds)


def test_improvements_are_told_in_the_rows_of_the_given_instance() -> None:
    """The last improvement is the answer, judged on the day that was handed over."""
    day, seen = sample_world(80, seed=4, index=0), []
    result = solve(
        day,
        SolveOptions(iterations=200),
        on_improvement=lambda cost, routes: seen.append((cost, routes)),
    )
    cost, routes = seen[-1]
    verdict = judge(day, type(result.solution)(r.tolist() for r in routes))
    assert verdict.feasible
    assert verdict.cost == pytest.approx(cost) == pytest.approx(result.verdict.cost)
    again = solve(day, SolveOptions(iterations=1), start=result.solution.routes)
    assert again.verdict.cost <= result.verdict.cost * (1 + 1e-9)
