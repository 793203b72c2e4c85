"""How many vehicles, how far and how much: a distribution over likely days.

Days are drawn from the city's law and planned in milliseconds each, on all cores or on
a cluster; day i is the same whatever the order and the engine, and for every capacity
asked about. A few of them are planned at length too, to say by how much the quick plans
are too long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from clusterfirst.cities.day_law import DayLaw, Wish
from clusterfirst.cities.quick_plan import quick_plan
from clusterfirst.files.picture import FAINT, INK, PALETTE
from clusterfirst.files.tables import format_table
from clusterfirst.problem.errors import (
    InfeasibleError,
    InputError,
    Problem,
    require_whole,
)
from clusterfirst.problem.instance import FloatArray
from clusterfirst.solving.cluster import Engine, map_tasks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ENOUGH = 0.95  # of the days, for the fleet that suffices
CHUNKS = 8  # pieces of work for each worker
EFFORT = 4  # times that of a quick plan: half of the bias for twice the time (log/)
LONG = 40
MOST_DAYS = 1_000_000
MEASURES = ("orders", "load", "vehicles", "least vehicles", "length")


@dataclass(frozen=True)
class ForecastSettings:
    """How many days of which kind, and who plans them."""

    days: int = 1000
    seed: int = 0
    wish: Wish = field(default_factory=Wish)
    long_days: int = 16  # planned at length too
    workers: int = 2
    engine: Engine = "pool"

    def __post_init__(self) -> None:
        require_whole("--days", self.days, 1, MOST_DAYS)
        require_whole("--workers", self.workers, 1, 1024)
        if not 0 < self.wish.growth <= 100:
            rule = "a number above 0, at most 100"
            raise InputError(Problem("E404", "--growth", f"{self.wish.growth}", rule))


@dataclass(frozen=True, eq=False)
class Forecast:
    """What likely days need: a row per day, in the order of MEASURES."""

    capacity: float
    table: FloatArray  # (days, measures)
    excess: FloatArray  # of the length of some days, over a long search
    unit: str = ""

    def of(self, measure: str) -> FloatArray:
        """One measure of all days."""
        column: FloatArray = self.table[:, MEASURES.index(measure)]
        return column

    @cached_property
    def fleet(self) -> int:
        """Vehicles that suffice on 95 % of the days, as they are planned."""
        return int(np.quantile(self.of("vehicles"), ENOUGH, method="inverted_cdf"))

    @cached_property
    def least_fleet(self) -> int:
        """Vehicles that the load of 95 % of the days fills, whatever the plan."""
        return int(
            np.quantile(self.of("least vehicles"), ENOUGH, method="inverted_cdf")
        )

    @property
    def bias(self) -> tuple[float, float]:
        """Mean excess of the lengths over a long search, and its standard error."""
        count = len(self.excess)
        if not count:
            return 0.0, math.inf
        spread = float(self.excess.std(ddof=1)) if count > 1 else math.inf
        return float(self.excess.mean()), spread / math.sqrt(count)

    def summary(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        mean, error = self.bias
        spreads = {}
        for name in MEASURES:
            values = self.of(name)
            p10, p50, p90, p95 = np.quantile(values, [0.1, 0.5, 0.9, 0.95]).tolist()
            spreads[name.replace(" ", "_")] = {
                "mean": float(values.mean()),
                "p10": p10,
                "p50": p50,
                "p90": p90,
                "p95": p95,
                "most": float(values.max()),
            }
        return {
            "capacity": self.capacity,
            "days": len(self.table),
            "fleet_for_95_percent": self.fleet,
            "fleet_by_load_for_95_percent": self.least_fleet,
            "unit": self.unit,
            **spreads,
            "length_above_a_long_search": {
                "mean": mean,
                "standard_error": error if math.isfinite(error) else None,
                "days": len(self.excess),
            },
        }


@dataclass(frozen=True, eq=False)
class _Chunk:
    """Some days to be drawn and planned, in a worker process."""

    law: DayLaw
    wish: Wish
    seed: int
    first: int
    last: int
    long: bool = False


def forecast(
    law: DayLaw,
    settings: ForecastSettings,
    on_progress: Callable[[int, int], None] | None = None,
) -> Forecast:
    """Draw and plan the days; InfeasibleError if a demand is above the capacity."""
    law = replace(
        law, history=replace(law.history, city=law.city.replace(vehicles=None))
    )
    first = law.draw(settings.seed, 0, settings.wish)
    size = max(1, -(-settings.days // (CHUNKS * settings.workers)))
    chunks = _chunks(law, settings, size, settings.days)
    long = min(settings.long_days, settings.days)
    chunks += _chunks(law, settings, max(1, long // settings.workers), long, long=True)
    found: dict[tuple[bool, int], FloatArray] = {}
    done = 0
    for outcome in map_tasks(
        plan_days, chunks, workers=settings.workers, engine=settings.engine
    ):
        chunk = outcome.task
        if outcome.value is None:
            rule = f"days {chunk.first} to {chunk.last - 1} could not be planned"
            raise InputError(Problem("E421", "forecast", outcome.failure, rule))
        if isinstance(outcome.value, str):
            raise InfeasibleError(_too_large(outcome.value, first.capacity))
        found[chunk.long, chunk.first] = outcome.value
        done += chunk.last - chunk.first
        if on_progress is not None:
            on_progress(done, settings.days + long)
    table = _in_order(found, long=False)
    lengths = table[:long, MEASURES.index("length")]
    excess = lengths / np.maximum(_in_order(found, long=True), 1e-12) - 1
    return Forecast(float(first.capacity), table, excess, first.unit)


def _chunks(
    law: DayLaw, settings: ForecastSettings, size: int, count: int, long: bool = False
) -> list[_Chunk]:
    return [
        _Chunk(law, settings.wish, settings.seed, at, min(at + size, count), long)
        for at in range(0, count, size)
    ]


def _in_order(found: dict[tuple[bool, int], FloatArray], *, long: bool) -> FloatArray:
    parts = [found[key] for key in sorted(found) if key[0] == long]
    return np.concatenate(parts) if parts else np.empty(0)


def _too_large(words: str, capacity: float) -> Problem:
    rule = f"a drawn day has a demand above the capacity of {capacity:g}"
    return Problem("E201", "capacity", words, rule)


def plan_days(chunk: _Chunk) -> FloatArray | str:
    """Rows of MEASURES, or lengths alone after a long search; in a worker process.

    A demand that fits in no vehicle is returned in words.
    """
    rows = []
    for index in range(chunk.first, chunk.last):
        day = chunk.law.draw(chunk.seed, index, chunk.wish)
        if day.infeasibility():
            return str(day.infeasibility()[0])
        plan = quick_plan(day, index, LONG if chunk.long else EFFORT)
        load = float(day.demands.sum())
        rows.append(
            [day.num_customers, load, len(plan.routes), day.min_vehicles, plan.cost]
        )
    table = np.array(rows, dtype=np.float64)
    return table[:, MEASURES.index("length")] if chunk.long else table


# --- what a person sees -----------------------------------------------------------


def lines(found: Forecast) -> list[str]:
    """Return the forecast in a few sentences."""
    mean, error = found.bias
    rows = [
        f"capacity {found.capacity:g}, {len(found.table)} days: {found.fleet} vehicles "
        f"suffice on {ENOUGH:.0%} of them (the load alone fills {found.least_fleet})"
    ]
    for name in ("orders", "load", "vehicles", "length"):
        values = found.of(name)
        low, middle, high = np.quantile(values, [0.1, 0.5, 0.9]).tolist()
        unit = f" {found.unit}" if name == "length" and found.unit else ""
        rows.append(f"{name:<10}{middle:.5g}{unit} ({low:.5g} to {high:.5g})")
    if len(found.excess) > 1:
        rows.append(
            f"lengths are {mean:.1%} (+- {2 * error:.1%}) above those of a long search"
        )
    return rows


def table(found: Sequence[Forecast]) -> str:
    """Return CSV with a row for each day and capacity."""
    rows = [
        [f"{one.capacity:.12g}", day, *(f"{value:.12g}" for value in values)]
        for one in found
        for day, values in enumerate(one.table.tolist())
    ]
    header = ("capacity", "day", *(name.replace(" ", "_") for name in MEASURES))
    return format_table(header, rows)


def draw(found: Sequence[Forecast]) -> Figure:
    """Return a figure: vehicles and length of likely days, a row per capacity."""
    from matplotlib.figure import Figure

    height = 1 + 2.6 * len(found)
    figure = Figure(figsize=(9.6, height), layout="constrained", facecolor="white")
    axes = figure.subplots(len(found), 2, squeeze=False)
    for (left, right), one in zip(axes, found, strict=True):
        values = one.of("vehicles")
        edges = np.arange(values.min() - 0.5, values.max() + 1).tolist()
        _bars(left, values, edges, f"vehicles a day, capacity {one.capacity:g}")
        left.axvline(one.fleet, color=PALETTE[1], linewidth=1.5)
        words = f"{one.fleet} suffice\non {ENOUGH:.0%}"
        left.annotate(
            words, (one.fleet, 0.98), xycoords=("data", "axes fraction"), va="top",
            xytext=(4, 0), textcoords="offset points", color=PALETTE[1], size=9,
        )  # fmt: skip
        _bars(right, one.of("length"), 30, f"length a day {one.unit}".rstrip())
        right.axvline(float(np.median(one.of("length"))), color=INK, linewidth=1.2)
    return figure


def _bars(axes: Axes, values: FloatArray, bins: Any, title: str) -> None:
    axes.hist(values, bins=bins, color=PALETTE[0], edgecolor="white", linewidth=0.4)
    axes.set_title(title, color=INK, loc="left", size=10)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)
    axes.set_yticks([])
