"""What is different between two plans of the same or of neighbouring days."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clusterfirst.problem.instance import IntArray

Routes = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Changes:
    """Customers of today that another plan had elsewhere, or not at all.

    `moved` maps a row to what its route was called there ("" for new ones).
    """

    moved: dict[int, str]
    new: int  # of them not in the other plan
    both: int  # customers in both plans
    pairs_kept: float  # share of the pairs of common customers that stay together

    def __str__(self) -> str:
        gone = len(self.moved) - self.new
        return (
            f"{gone} of {self.both} changed vehicle, {self.new} are new; "
            f"{100 * self.pairs_kept:.0f} % of same-route pairs kept"
        )


def changes_between(before: Routes, after: Routes, names: Sequence[str]) -> Changes:
    """Compare two plans; `names` are those of the routes of `before`.

    Routes of the two plans belong together one to one, by as many common customers as
    possible.
    """
    was = {c: k for k, route in enumerate(before) for c in route}
    twin = matching(before, after)
    moved: dict[int, str] = {}
    new = both = 0
    for k, route in enumerate(after):
        for c in route:
            if c not in was:
                new += 1
                moved[c] = ""
                continue
            both += 1
            if was[c] != twin[k]:
                moved[c] = names[was[c]]
    return Changes(moved, new, both, pairs_kept(before, after))


def matching(before: Routes, after: Routes) -> IntArray:
    """(R,) for each route of `after` the one of `before` it continues, or -1."""
    from scipy.optimize import linear_sum_assignment

    was = {c: k for k, route in enumerate(before) for c in route}
    common = np.zeros((len(after), len(before)))
    for k, route in enumerate(after):
        for c in route:
            if c in was:
                common[k, was[c]] += 1
    twin = np.full(len(after), -1, dtype=np.int64)
    rows, columns = linear_sum_assignment(common, maximize=True)
    shared = common[rows, columns] > 0
    twin[rows[shared]] = columns[shared]
    return twin


def pairs_kept(before: Routes, after: Routes) -> float:
    """Share of the pairs on one route before, of customers in both, still together."""
    now = {c: k for k, route in enumerate(after) for c in route}
    pairs = kept = 0
    for route in before:
        there = [now[c] for c in route if c in now]
        pairs += len(there) * (len(there) - 1) // 2
        kept += sum(m * (m - 1) // 2 for m in Counter(there).values())
    return kept / pairs if pairs else 1.0
