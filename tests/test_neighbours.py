"""Neighbour lists are right, and the same in every frame and order."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterfirst.networks.neighbours import nearest


def sets(lists):
    return [frozenset(row[row >= 0].tolist()) for row in lists]


def brute(points, k, keys=()):
    """The rule in words, by the full distance matrix and exact key tuples."""
    found = []
    for i in range(len(points)):
        apart = np.hypot(*(points - points[i]).T)
        others = [j for j in range(len(points)) if j != i]
        kth = sorted(apart[others])[min(k, len(others)) - 1] if others else 0.0
        inside = [j for j in others if apart[j] < kth - 1e-9]
        shell = [j for j in others if abs(apart[j] - kth) <= 1e-9]
        if len(inside) + len(shell) > 2 * k:
            groups = {}
            for j in shell:
                groups.setdefault(
                    tuple(round(float(key[j]), 7) for key in keys), []
                ).append(j)
            shell = []
            for key in sorted(groups):
                if len(inside) + len(shell) + len(groups[key]) > 2 * k:
                    break
                shell += groups[key]
        found.append(frozenset(inside + shell))
    return found


def clouds():
    """Random floats, whole-number grids and heavily duplicated points."""
    return st.builds(
        lambda seed, m, kind: _cloud(np.random.default_rng(seed), m, kind),
        st.integers(0, 2**32),
        st.integers(1, 60),
        st.sampled_from(["floats", "grid", "duplicates"]),
    )


def _cloud(rng, m, kind):
    if kind == "floats":
        return rng.random((m, 2))
    side = 12 if kind == "grid" else 2
    return rng.integers(0, side, (m, 2)).astype(float)


@settings(max_examples=60, deadline=None)
@given(clouds(), st.integers(1, 12), st.integers(0, 99))
def test_lists_follow_the_rule_by_brute_force(points, k, seed):
    """Inside the k-th distance all; at it all, or whole key groups up to 2k."""
    demand = np.random.default_rng(seed).integers(1, 4, len(points))
    keys = (demand, np.hypot(*(points - points[0]).T))
    assert sets(nearest(points, k, keys=keys)) == brute(points, k, keys)


@settings(max_examples=60, deadline=None)
@given(
    clouds(),
    st.integers(1, 12),
    st.floats(0, 6.3),
    st.booleans(),
    st.sampled_from([1e-3, 1.0, 7.7, 1e5]),
    st.integers(0, 99),
)
def test_sets_do_not_depend_on_the_frame(points, k, angle, mirror, scale, seed):
    """Rotation, reflection, scaling and shift leave every set as it is."""
    rng = np.random.default_rng(seed)
    demand = rng.integers(1, 4, len(points))
    c, s = np.cos(angle), np.sin(angle)
    turn = np.array([[c, -s], [s, c]]) @ np.diag([1, -1 if mirror else 1])
    moved = scale * (points @ turn.T + rng.normal(size=2) * 10)
    before = nearest(points, k, keys=(demand, np.hypot(*(points - points[0]).T)))
    after = nearest(moved, k, keys=(demand, np.hypot(*(moved - moved[0]).T)))
    assert sets(before) == sets(after)


@settings(max_examples=60, deadline=None)
@given(clouds(), st.integers(1, 12), st.integers(0, 99))
def test_sets_do_not_depend_on_the_order(points, k, seed):
    """Permuting the rows permutes the sets, whatever the ties."""
    rng = np.random.default_rng(seed)
    demand = rng.integers(1, 3, len(points))
    order = rng.permutation(len(points))
    before = sets(nearest(points, k, keys=(demand,)))
    after = sets(nearest(points[order], k, keys=(demand[order],)))
    assert [frozenset(order[list(s)].tolist()) for s in after] == [
        before[i] for i in order
    ]


def test_whole_number_grid_really_has_ties():
    """The integer-grid case above is not vacuous: lists grow beyond k there."""
    points = np.random.default_rng(1).integers(0, 1000, (500, 2)).astype(float)
    lists = nearest(points, 20)
    assert ((lists >= 0).sum(axis=1) > 20).any()
    assert lists.shape[1] <= 40


@pytest.mark.parametrize("include_self", [False, True])
def test_few_points_and_large_k(include_self):
    """With k >= m - 1 everybody sees everybody; one point alone sees nobody."""
    points = np.random.default_rng(0).random((5, 2))
    for k in (4, 5, 100):
        for i, found in enumerate(sets(nearest(points, k, include_self=include_self))):
            assert found == set(range(5)) - (set() if include_self else {i})
    alone = nearest(points[:1], 3, include_self=include_self)
    assert sets(alone) == [frozenset({0} if include_self else set())]
    assert len(nearest(np.empty((0, 2)), 3, include_self=include_self)) == 0


def test_identical_points_are_told_apart_by_keys_only():
    """3000 rows at one place: keys pick 2k of them; without keys nobody is picked."""
    points = np.ones((3000, 2))
    start = time.perf_counter()
    lists = nearest(points, 10, keys=(np.arange(3000)[::-1],), include_self=True)
    plain = nearest(points, 10, include_self=True)
    assert time.perf_counter() - start < 30  # a hang guard, not a timing
    assert sets(lists)[0] == {0, *range(2980, 3000)}
    assert sets(lists)[2999] == {*range(2979, 3000)}
    assert sets(plain) == [frozenset({i}) for i in range(3000)]


def test_lists_are_ordered_and_padded_behind():
    """Nearest first, -1 only at the end, and the point itself in front on request."""
    points = np.random.default_rng(3).integers(0, 9, (80, 2)).astype(float)
    lists = nearest(points, 6, include_self=True)
    assert (lists[:, 0] == np.arange(80)).all()
    for i, row in enumerate(lists):
        held = row[row >= 0]
        assert (row[len(held) :] == -1).all()
        apart = np.hypot(*(points[held] - points[i]).T)
        assert (np.diff(apart) >= -1e-9).all()
