"""What the past days of a city look like: facts, a table of days, a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from clusterfirst.cities.areas import map_points
from clusterfirst.cities.history import NO_WEEKDAY, WEEKDAYS, History
from clusterfirst.files.picture import FAINT, INK, PALETTE
from clusterfirst.files.tables import format_table
from clusterfirst.problem.instance import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def facts(history: History) -> dict[str, Any]:
    """Return what `city show` tells about the past days; plain values only."""
    count = len(history)
    if not count:
        return {"days": 0}
    dates = sorted(day.date for day in history.days if day.date is not None)
    seen = int((history.times_ordered > 0).sum())
    known: dict[str, Any] = {
        "days": count,
        "dates": [str(dates[0]), str(dates[-1])] if dates else None,
        "weekdays": {
            name: int((history.weekdays == i).sum()) for i, name in enumerate(WEEKDAYS)
        }
        if dates
        else None,
        "orders_per_day": _spread(history.orders),
        "demand_per_order": _spread(history.demands),
        "vehicle_equivalents": None,  # what the load fills, at the least
        "locations_seen": seen / max(1, history.city.num_locations),
    }
    if history.city.capacity is not None:
        known["vehicle_equivalents"] = _spread(vehicle_equivalents(history))
    return known


def vehicle_equivalents(history: History) -> FloatArray:
    """Load of each day in full vehicles; the city has a capacity."""
    assert history.city.capacity is not None
    return history.loads / history.city.capacity


def _spread(values: Any) -> dict[str, float]:
    low, middle, high = np.quantile(values, [0.1, 0.5, 0.9]).tolist()
    return {
        "mean": round(float(np.mean(values)), 4),
        "p10": round(low, 4),
        "p50": round(middle, 4),
        "p90": round(high, 4),
        "most": round(float(np.max(values)), 4),
    }


def lines(known: dict[str, Any]) -> dict[str, str]:
    """Return the facts in words, a few characters each."""
    if not known["days"]:
        return {"days": "none yet; `clusterfirst city add-days` adds them"}
    dates, weekdays = known["dates"], known["weekdays"]
    shown = {"days": str(known["days"])}
    if dates:
        shown["days"] += f", {dates[0]} to {dates[1]}"
        shown["weekdays"] = ", ".join(f"{day} {n}" for day, n in weekdays.items() if n)
    shown["orders"] = f"{_words(known['orders_per_day'])} a day"
    shown["demand"] = f"{_words(known['demand_per_order'])} per order"
    if known["vehicle_equivalents"]:
        shown["load"] = f"{_words(known['vehicle_equivalents'])} full vehicles a day"
    shown["seen"] = f"{known['locations_seen']:.0%} of the locations had an order"
    return shown


def _words(spread: dict[str, float]) -> str:
    return (
        f"{spread['mean']:.4g} ({spread['p10']:.4g} to {spread['p90']:.4g}, "
        f"at most {spread['most']:.4g})"
    )


def table(history: History) -> str:
    """Return CSV with a row for each past day."""
    capacity = history.city.capacity
    rows = []
    for day, orders, load in zip(
        history.days, history.orders.tolist(), history.loads.tolist(), strict=True
    ):
        weekday = "" if day.weekday == NO_WEEKDAY else WEEKDAYS[day.weekday]
        vehicles = "" if capacity is None else f"{load / capacity:.3f}"
        rows.append(
            [day.date or "", weekday, day.name, orders, f"{load:.12g}", vehicles]
        )
    header = ("date", "weekday", "name", "orders", "load", "vehicle_equivalents")
    return format_table(header, rows)


def draw(history: History) -> Figure:
    """Return a figure: where orders come from, how many a day, how large."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 6.4), layout="constrained", facecolor="white")
    grid = figure.add_gridspec(3, 2, width_ratios=[1.35, 1.0])
    _draw_map(figure.add_subplot(grid[:, 0]), history)
    top, middle, bottom = (figure.add_subplot(grid[row, 1]) for row in range(3))
    _draw_bars(top, history.orders, "orders a day")
    _draw_bars(middle, history.demands, "demand per order")
    if history.city.capacity is not None:
        _draw_bars(bottom, vehicle_equivalents(history), "full vehicles a day")
    else:
        _draw_bars(bottom, history.loads, "load a day")
    return figure


def _draw_map(axes: Axes, history: History) -> None:
    city = history.city
    points = map_points(city)
    times = history.times_ordered[1:]
    never = times == 0
    x, y = points[1:].T
    axes.scatter(x[never], y[never], s=2, color=FAINT, linewidths=0)
    order = np.argsort(times[~never])  # what orders most lies on top
    shown = axes.scatter(
        x[~never][order],
        y[~never][order],
        s=6,
        c=times[~never][order],
        cmap="viridis_r",
        linewidths=0,
    )
    axes.figure.colorbar(shown, ax=axes, shrink=0.6, label="days with an order")
    axes.plot(*points[0], marker="s", color=INK, markersize=7)
    axes.set_aspect("equal")
    axes.set_axis_off()
    name = city.name or "city"
    title = f"{name}: {len(history)} days, {len(history.rows):,} orders"
    axes.set_title(title, color=INK, loc="left", size=12)


def _draw_bars(axes: Axes, values: Any, title: str) -> None:
    low, high = float(np.min(values)), float(np.max(values))
    step = max((high - low) / 30, 1e-9)
    if (values == np.floor(values)).all():  # bars as wide as whole numbers
        step = float(np.ceil(step))
        low -= 0.5
    edges = np.arange(low, high + 1.5 * step, step).tolist()
    axes.hist(values, bins=edges, color=PALETTE[0])
    axes.set_title(title, color=INK, loc="left", size=10)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_yticks([])
