"""Territories: usual areas for a city's drivers, and the price of keeping to them.

Past and drawn days are planned as they come; `partition.py` cuts the city so that as
many of their stops as possible are in the area of who drives there. The price is
measured on days that shaped nothing: the newest past ones, or other drawn ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from clusterfirst.cities.areas import (
    Areas,
    familiarity,
    map_points,
    members,
    usual_drivers,
)
from clusterfirst.cities.day_law import Wish, fit, warn_of_paper_law
from clusterfirst.cities.history import History
from clusterfirst.cities.partition import Ground, partition
from clusterfirst.cities.quick_plan import Plan, quick_plan
from clusterfirst.files.picture import FAINT, INK, PALETTE
from clusterfirst.files.tables import format_table
from clusterfirst.problem.errors import InfeasibleError, Problem, require_whole
from clusterfirst.problem.instance import FloatArray, Instance, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HELD_BACK, HELD_SHARE = 30, 0.2  # past days to measure on: so many, or this share
JUDGED = 16  # drawn days to measure on, where there are no past ones
EFFORT = 8  # times the iterations of a quick plan, where lengths are compared
MOST_DAYS = 10_000
GRID = 400  # points across the picture of an area's ground


@dataclass(frozen=True)
class TerritorySettings:
    """How many areas, found from how many days."""

    vehicles: int
    days: int = 200  # drawn ones, beside the past
    capacity: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        require_whole("--vehicles", self.vehicles, 1, MOST_DAYS)
        require_whole("--days", self.days, 1, MOST_DAYS)


@dataclass(frozen=True, eq=False)
class Price:
    """What keeping to the areas costs on days that did not shape them."""

    free: FloatArray  # (days, 3) length, vehicles, familiarity of free plans
    kept: FloatArray  # (days, 2) length and vehicles with every area by itself
    real: bool  # past days held back, not drawn ones

    @property
    def longer(self) -> FloatArray:
        """How much longer each day is, as a share."""
        shares: FloatArray = self.kept[:, 0] / self.free[:, 0] - 1
        return shares


@dataclass(frozen=True, eq=False)
class Territories:
    """Areas, the load of each on a mean day, and what keeping to them costs."""

    areas: Areas
    load: FloatArray  # (areas,)
    planned: int  # days that shaped them
    price: Price
    unit: str = ""

    def facts(self) -> dict[str, Any]:
        """Return plain values for JSON and for the folder."""
        free, kept = self.price.free.mean(axis=0), self.price.kept.mean(axis=0)
        longer = self.price.longer
        error = (
            float(longer.std(ddof=1) / len(longer) ** 0.5) if len(longer) > 1 else None
        )
        return {
            "vehicles": len(self.load),
            "days_planned": self.planned,
            "load_of_a_mean_day": [round(float(x), 4) for x in self.load],
            "measured_on": {
                "days": len(longer),
                "past_days_held_back": self.price.real,
            },
            "free": {
                "length": float(free[0]),
                "vehicles": float(free[1]),
                "familiar": float(free[2]),
            },
            "kept": {"length": float(kept[0]), "vehicles": float(kept[1])},
            "longer_when_kept": float(longer.mean()),
            "standard_error": error,
            "unit": self.unit,
        }


def find_territories(
    history: History,
    settings: TerritorySettings,
    on_progress: Callable[[int, int], None] | None = None,
) -> Territories:
    """Find areas for a city's drivers, and what keeping to them costs."""
    city = history.city.replace(vehicles=None)
    history = history.in_city(city)
    require_whole("--vehicles", settings.vehicles, 1, city.num_locations)
    days, judged, real = _days(history, settings)
    total, served = len(days) + len(judged), []
    for number, day in enumerate(days):
        assert day.city_rows is not None
        routes = _planned(day, number).routes
        served.append([day.city_rows[np.array(route)] for route in routes])
        if on_progress is not None:
            on_progress(number + 1, total)
    ground = Ground(map_points(city), _mean_loads(days, city.num_locations))
    of_row = partition(ground, served, settings.vehicles)
    areas = Areas(history.city, of_row)
    free, kept = [], []
    for number, day in enumerate(judged):
        area = areas.of_day(day)
        plan, parts = _planned(day, number, EFFORT), _apart(day, area)
        drivers = usual_drivers(plan.routes, area).tolist()
        share = familiarity(plan.routes, area, drivers)
        free.append((plan.cost, len(plan.routes), share))
        kept.append((sum(p.cost for p in parts), sum(len(p.routes) for p in parts)))
        if on_progress is not None:
            on_progress(len(days) + number + 1, total)
    load = np.bincount(of_row[1:], ground.weights[1:], settings.vehicles)
    price = Price(np.array(free), np.array(kept, dtype=np.float64), real)
    found = Territories(areas, load.astype(np.float64), len(days), price, days[0].unit)
    return replace(found, areas=Areas(history.city, of_row, found.facts()))


def _days(
    history: History, settings: TerritorySettings
) -> tuple[list[Instance], list[Instance], bool]:
    """Days that shape the areas, days to measure on, and whether those are real."""
    held = min(HELD_BACK, int(HELD_SHARE * len(history)))
    known, capacity = history.part(0, len(history) - held), settings.capacity
    law, wish = fit(known), Wish(capacity=capacity)
    warn_of_paper_law(law, wish)
    days = [known.instance(i, capacity=capacity) for i in range(len(known))]
    days += [law.draw(settings.seed, i, wish) for i in range(settings.days)]
    last = range(len(known), len(history))
    if held:
        return days, [history.instance(i, capacity=capacity) for i in last], True
    later = range(settings.days, settings.days + JUDGED)
    return days, [law.draw(settings.seed, i, wish) for i in later], False


def _planned(day: Instance, seed: int, effort: int = 1) -> Plan:
    if problems := day.infeasibility():
        rule = f"a day has a demand above the capacity of {day.capacity:g}"
        raise InfeasibleError(Problem("E201", "capacity", str(problems[0]), rule))
    return quick_plan(day, seed, effort)


def _apart(day: Instance, area: IntArray) -> list[Plan]:
    """Every area planned by itself."""
    found = []
    for customers in members(area):
        if not customers:
            continue
        part = day.part(np.array([0, *customers]))
        found.append(quick_plan(part, 0, EFFORT))
    return found


def _mean_loads(days: Sequence[Instance], locations: int) -> FloatArray:
    """(|X| + 1,) demand of each row on a mean day; a little where none was seen."""
    loads = np.zeros(locations + 1)
    for day in days:
        assert day.city_rows is not None
        loads[day.city_rows[1:]] += day.demands[1:] / len(days)
    loads[1:] += 1e-3 * max(loads.sum() / locations, 1e-9)
    return loads


# --- what a person sees -----------------------------------------------------------


def lines(found: Territories) -> list[str]:
    """Return the areas and their price in a few sentences."""
    facts, loads = found.facts(), found.load
    where = "past days held back" if found.price.real else "drawn days held back"
    unit = f" {found.unit}" if found.unit else ""
    free, kept = facts["free"], facts["kept"]
    error = facts["standard_error"]
    about = "" if error is None else f" (+- {2 * error:.1%})"
    return [
        f"{len(loads)} areas by {found.planned} days, each connected; load of a mean "
        f"day {loads.min():.4g} to {loads.max():.4g}",
        f"on {len(found.price.longer)} {where}:",
        f"free       {free['length']:.5g}{unit}, {free['vehicles']:.3g} vehicles, "
        f"{free['familiar']:.0%} of the stops in their driver's area",
        f"kept       {kept['length']:.5g}{unit}, {kept['vehicles']:.3g} vehicles, all "
        f"of them: {facts['longer_when_kept']:+.1%}{about}",
        "in between `solve --familiar` chooses, day by day",
    ]


def table(found: Territories) -> str:
    """Return CSV with the area of each location."""
    ids, of_row = found.areas.city.ids, found.areas.of_row.tolist()
    rows = [(name, k + 1) for name, k in zip(ids[1:], of_row[1:], strict=True)]
    return format_table(("id", "area"), rows)


def draw(areas: Areas) -> Figure:
    """Return a map of the areas: the whole city, and where most of it is."""
    from matplotlib.figure import Figure

    points = map_points(areas.city)
    figure = Figure(figsize=(12, 6.2), layout="constrained", facecolor="white")
    left, right = figure.subplots(1, 2)
    _draw_map(left, points, areas.of_row, (points.min(axis=0), points.max(axis=0)))
    middle = np.median(points, axis=0)
    reach = 3 * np.median(np.abs(points - middle), axis=0).max()
    _draw_map(right, points, areas.of_row, (middle - reach, middle + reach))
    name = areas.city.name or "city"
    words = f"{name}: {areas.count} territories"
    if areas.facts:
        share = areas.facts["free"]["familiar"]
        words += f", {share:.0%} of the stops at home when planned freely"
    left.set_title(words, color=INK, loc="left", size=11)
    right.set_title("the middle of it", color=INK, loc="left", size=11)
    return figure


def _draw_map(
    axes: Axes,
    points: FloatArray,
    of_row: IntArray,
    box: tuple[FloatArray, FloatArray],
) -> None:
    """Locations on the ground of their areas."""
    from matplotlib.colors import to_rgb
    from scipy.spatial import cKDTree

    low, high = box
    pad = 0.03 * max(float((high - low).max()), 1e-12)
    low, high = low - pad, high + pad
    colours = np.array([to_rgb(colour) for colour in PALETTE])
    x, y = (np.linspace(low[i], high[i], GRID) for i in (0, 1))
    spots = np.stack(np.meshgrid(x, y), axis=-1)
    apart, nearest = cKDTree(points[1:]).query(spots)
    ground = np.ones((GRID, GRID, 4))
    ground[..., :3] = colours[of_row[1 + nearest] % len(colours)]
    ground[..., 3] = np.where(apart <= 2 * pad, 0.25, 0.0)
    axes.imshow(ground, origin="lower", extent=(low[0], high[0], low[1], high[1]))
    inside = np.all((points >= low) & (points <= high), axis=1) & (of_row >= 0)
    shown = colours[of_row[inside] % len(colours)]
    size = 1 + 8 * min(1.0, 1000 / max(1, int(inside.sum())))
    axes.scatter(points[inside, 0], points[inside, 1], s=size, c=shown, linewidths=0)
    for k in np.unique(of_row[inside]).tolist():
        at = np.median(points[inside & (of_row == k)], axis=0)
        axes.annotate(
            str(k + 1), (float(at[0]), float(at[1])), color=INK, size=10, ha="center",
            va="center", bbox={"boxstyle": "round,pad=0.2", "fc": "white", "ec": FAINT},
        )  # fmt: skip
    axes.plot(*points[0], marker="s", color=INK, markersize=7)
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    axes.set_axis_off()
