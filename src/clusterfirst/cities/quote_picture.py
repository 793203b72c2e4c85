"""A quote as a document, in words and as a picture."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from clusterfirst.cities.quote import NEW_VEHICLE, Expected, Insertion, Quoter
from clusterfirst.files.picture import FAINT, INK, PALETTE, draw_map, route_looks
from clusterfirst.problem.instance import Instance, Metric
from clusterfirst.problem.solution import Solution

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Quote:
    """Everything there is to say about one order."""

    name: str
    row: int
    demand: float
    now: Insertion
    after_repair: float
    expected: Expected | None  # None if it fits in no vehicle

    def document(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        known: dict[str, Any] = {
            "id": self.name,
            "demand": self.demand,
            "fits": self.now.fits,
            "now": None,
            "end_of_day": None,
        }
        if self.now.fits:
            new = self.now.vehicle == NEW_VEHICLE
            known["now"] = {
                "price": self.now.price,
                "after_repair": self.after_repair,
                "route": None if new else self.now.vehicle + 1,
                "stop": self.now.place + 1,
                "opens_a_vehicle": new,
            }
        if self.expected is not None:
            known["end_of_day"] = {
                "completions": len(self.expected.price.values),
                **self.expected.price.document(),
                "vehicles": self.expected.vehicles.document(),
            }
        return known

    def lines(self, unit: str) -> list[str]:
        """Return the quote in a few sentences."""
        unit = f" {unit}" if unit else ""
        rows = ["does not fit into today's plan"]
        if self.now.fits:
            where = f"as stop {self.now.place + 1} of route {self.now.vehicle + 1}"
            if self.now.vehicle == NEW_VEHICLE:
                where = "with a vehicle of its own"
            rows = [f"now        {self.now.price:.5g}{unit} {where}"]
            rows.append(
                f"repaired   {self.after_repair:.5g}{unit} after a short search"
            )
        if self.expected is not None:
            price, more = self.expected.price, self.expected.vehicles
            p10, p50, p90 = price.quantiles
            rows.append(
                f"by tonight {p50:.5g}{unit} ({p10:.5g} to {p90:.5g}; mean "
                f"{price.mean:.5g} +- {price.standard_error:.2g}) "
                f"over {len(price.values)} likely ends of this day"
            )
            low, middle, high = more.quantiles
            rows.append(
                f"vehicles   {middle:+g} ({low:+g} to {high:+g}; mean {more.mean:+.2f} "
                f"+- {more.standard_error:.1g})"
            )
        return rows


def quote(quoter: Quoter, row: int, demand: float) -> Quote:
    """Ask for everything."""
    now = quoter.now(row, demand)
    fits_somewhere = demand <= quoter.today.capacity
    return Quote(
        quoter.city.ids[row],
        row,
        demand,
        now,
        quoter.after_repair(row, demand) if now.fits else math.nan,
        quoter.expected(row, demand) if fits_somewhere else None,
    )


def draw(quoter: Quoter, found: Quote) -> Figure:
    """Return a figure: where the order would go today, and what it costs by tonight."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.4, 5.2), layout="constrained", facecolor="white")
    left, right = figure.subplots(1, 2, width_ratios=[1.2, 1.0])
    _draw_today(left, quoter, found)
    _draw_prices(right, found)
    return figure


def _draw_today(axes: Axes, quoter: Quoter, found: Quote) -> None:
    day = quoter.today
    solution = Solution(quoter.plan.routes)
    assert day.coords is not None
    with_order = np.vstack([day.coords, quoter.city.coords[found.row]])
    demands = np.append(day.demands, 0)
    metric: Metric = "greatcircle" if day.degrees else "euclidean"
    plane = Instance(demands, day.capacity, coords=with_order, metric=metric).plane
    draw_map(axes, plane[:-1], solution, route_looks(plane[:-1], solution))
    axes.plot(*plane[-1], marker="*", color=PALETTE[1], markersize=15, mec=INK)
    axes.set_title(f"{found.name}, demand {found.demand:g}", color=INK, loc="left")


def _draw_prices(axes: Axes, found: Quote) -> None:
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_yticks([])
    if found.expected is None:
        axes.set_title("fits in no vehicle", color=INK, loc="left", size=10)
        return
    axes.hist(found.expected.price.values, bins=30, color=PALETTE[0])
    for value, name in zip(
        found.expected.price.quantiles, ("p10", "p50", "p90"), strict=True
    ):
        axes.axvline(value, color=INK, linewidth=1)
        axes.annotate(name, (value, 1), xycoords=("data", "axes fraction"), size=8)
    if found.now.fits:
        axes.axvline(found.now.price, color=FAINT, linestyle="--", linewidth=1.2)
    title = "added length by the end of the day (dashed: insertion now)"
    axes.set_title(title, color=INK, loc="left", size=10, pad=14)
