"""The sets of the paper at the size that fits: drawn, read, and their references.

constant: days of the city with Q = 50. standard: the same days with the capacities of
the public benchmarks. public: those benchmarks themselves, depots anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from clusterfirst.evidence.bench.sets import (
    CITY_CAPACITY,
    BenchSet,
    DataNotHereError,
    SetRequest,
    city_set,
    open_set,
    with_references,
)
from clusterfirst.evidence.paper.printed import PAPER_COUNTS, SIZES
from clusterfirst.files import bundled_city
from clusterfirst.problem.errors import require_one_of, require_whole

STANDARD_CAPACITY = {100: 50, 200: 80, 500: 100, 1000: 250}
PUBLIC = {100: "cvrp100", 200: "lehd200", 500: "lehd500", 1000: "cvrp1000"}
DAYS_SEED = 77  # of days that are drawn because no data is here


@dataclass(frozen=True)
class Scale:
    """How many instances of each size, and how long each may take."""

    name: str
    counts: dict[int, int]
    seconds: dict[int, float]  # per instance; an assignment gets 0.4 of what is left
    hgs: dict[int, float]  # seconds of a reference run where the set has none


SMALL = Scale(
    "small",
    counts={100: 16, 200: 6, 500: 2, 1000: 2},
    seconds={100: 20.0, 200: 30.0, 500: 100.0, 1000: 250.0},  # HiGHS from nothing
    hgs={100: 2.0, 200: 4.0, 500: 12.0, 1000: 24.0},
)
# 250 s leave an assignment the 100 s of the paper's appendix on testing; references
# run for 240 s per 100 customers (Section 3).
FULL = Scale(
    "full",
    counts=PAPER_COUNTS,
    seconds=dict.fromkeys(SIZES, 250.0),
    hgs={size: 2.4 * size for size in SIZES},
)
SCALES = {scale.name: scale for scale in (SMALL, FULL)}


def scale_of(name: str, instances: int | None) -> Scale:
    """The scale of this name, with at most so many instances of each set."""
    require_one_of("--scale", name, SCALES)
    scale = SCALES[name]
    if instances is None:
        return scale
    require_whole("--instances", instances, 1, PAPER_COUNTS[100])
    counts = {size: min(instances, count) for size, count in scale.counts.items()}
    return replace(scale, counts=counts)


class Sets:
    """The sets of one scale, each opened once."""

    def __init__(
        self,
        scale: Scale,
        data: Path | None,
        say: Callable[[str], None],
        show: Callable[[str], None],
    ) -> None:
        self.scale, self._data, self._say, self.show = scale, data, say, show
        self._open: dict[tuple[str, int], BenchSet] = {}

    def get(self, kind: str, size: int) -> BenchSet:
        """The set; without references unless it has its own or `referenced` ran."""
        if (kind, size) not in self._open:
            self._open[kind, size] = self._opened(kind, size)
        return self._open[kind, size]

    def missing(self, kind: str, size: int) -> float:
        """Seconds of HGS, at most, until every case has its reference."""
        found = self.get(kind, size)
        return 0.0 if found.references else len(found.cases) * self.scale.hgs[size]

    def referenced(self, kind: str, size: int) -> BenchSet:
        """The set with references: its own, or those of HGS runs that are cached."""
        found = self.get(kind, size)
        if not found.references:
            seconds = self.scale.hgs[size]
            words = f"{found.name}: HGS references, {seconds:g} s each unless cached"

            def tell(done: int, total: int) -> None:
                self.show(f"{words}, {done} of {total}")

            found = with_references(found, f"hgs:{seconds:g}", tell)
            self._open[kind, size] = found
        return found

    def _opened(self, kind: str, size: int) -> BenchSet:
        count = self.scale.counts[size]
        if kind == "public":
            return open_set(PUBLIC[size], SetRequest(0, count, self._data))
        if kind == "standard":
            return self._standard(size)
        # The days that come with data are fewer than the paper's: full draws its own.
        if self.scale.name != FULL.name:
            try:
                return open_set(f"city-{size}", SetRequest(0, count, self._data))
            except DataNotHereError:
                self._say(f"city-{size}: data not here, days are drawn anew")
        drawn = city_set(
            bundled_city(), size, count, seed=DAYS_SEED, capacity=CITY_CAPACITY
        )
        return replace(drawn, name=f"city-{size}, drawn")

    def _standard(self, size: int) -> BenchSet:
        """Days of the city with another capacity, and so with other references."""
        days, capacity = self.get("constant", size), STANDARD_CAPACITY[size]
        if capacity == CITY_CAPACITY:
            return days
        cases = tuple(
            replace(
                case,
                instance=case.instance.replace(capacity=capacity),
                reference=None,
                labels=None,
            )
            for case in days.cases
        )
        return BenchSet(f"{days.name}, Q = {capacity}", cases)
