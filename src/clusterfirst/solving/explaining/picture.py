"""An explanation as a picture: the map with what is debatable, and two tables.

On the map seeds are stars, and a customer that might as well be elsewhere wears a
ring in the colour of its next best vehicle. Beside it stand the transport plan and
the latent distances; without a network, the prices and the cheapest moves.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from clusterfirst.files.picture import INK, Look, draw_map, route_looks, write_figure
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import FloatArray, IntArray
from clusterfirst.solving.explaining.explain import Explanation

if TYPE_CHECKING:  # matplotlib takes half a second to import: only when drawing
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOVES = 16  # cheapest moves listed
MAX_LABELLED = 40  # vehicles with a number under their column
RINGS = 0.15  # without a network: this share of the customers wears a ring


def write_explanation(path: str | os.PathLike[str], explanation: Explanation) -> None:
    """Draw an explanation to a .png or .svg file."""
    write_figure(path, lambda: draw_explanation(explanation))


def draw_explanation(explanation: Explanation) -> Figure:
    """Return a matplotlib figure: the map on the left, two tables on the right."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    instance, solution = explanation.instance, explanation.solution
    if instance.coords is None:
        rule = "a picture needs coordinates and the instance has only a matrix"
        raise InputError(Problem("E141", "coords", rule=rule))
    points = instance.plane
    looks = route_looks(points, solution)
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12)
    figure = Figure(figsize=(13.2, 7.6), layout=layout, facecolor="white")
    parts: Any = figure.subfigures(1, 2, width_ratios=[1.0, 0.82])
    on_map = parts[0].subplots()
    draw_map(on_map, points, solution, looks)
    _draw_seeds(on_map, explanation, looks)
    _draw_rings(on_map, explanation, looks)
    on_map.set_title(_title(explanation), color=INK, loc="left", size=11)
    if len(solution.routes):
        _draw_tables(parts[1], explanation, looks)
    return figure


def _title(explanation: Explanation) -> str:
    instance = explanation.instance
    unit = f" {instance.unit}" if instance.unit else ""
    name = instance.name[:40].replace("$", r"\$")
    first = [name] if name else []
    first.append(f"cost {explanation.verdict.cost:.6g}{unit}")
    network = explanation.network
    if network is None:
        return "   ·   ".join([*first, "no model: geometry and prices only"])
    first.append(f"model {network.model[:30]}")
    unsure = int((~network.confident).sum())
    apart = int((network.favourite != explanation.vehicle).sum())
    words = f"{unsure} customers ambiguous, {apart} not where the model prefers"
    return "   ·   ".join(first) + "\n" + f"{words} (ringed); stars are seeds"


def _draw_seeds(axes: Axes, explanation: Explanation, looks: list[Look]) -> None:
    if explanation.network is None:
        return
    points = explanation.instance.plane
    size = 230.0 * min(1.0, 25 / len(looks)) ** 0.5 if looks else 0.0
    for seed, (colour, _) in zip(explanation.network.seeds, looks, strict=True):
        if seed:
            x, y = points[seed]
            axes.scatter(x, y, size, marker="*", color=colour, ec=INK, lw=0.9, zorder=6)


def _draw_rings(axes: Axes, explanation: Explanation, looks: list[Look]) -> None:
    """Ring who might be elsewhere; without a network, who is cheapest to move."""
    there, network = explanation.next_vehicle, explanation.network
    if network is not None:
        apart = network.favourite != explanation.vehicle
        chosen = np.flatnonzero(~network.confident | apart)
        there = _second_choice(explanation)
    else:
        count = int(RINGS * len(there))
        chosen = np.argsort(explanation.next_price, kind="stable")[:count]
    chosen = chosen[there[chosen] >= 0]
    points = explanation.instance.plane[1:][chosen]
    size = 34.0 * min(1.0, (120 / max(len(there), 1)) ** 0.6) + 2.0
    edges = [looks[v][0] for v in there[chosen]]
    axes.scatter(
        points[:, 0],
        points[:, 1],
        3.2 * size,
        facecolor="none",
        ec=edges,
        lw=1.1 + 0.5 * min(1.0, 100 / max(len(there), 1)),
        zorder=5,
    )


def _second_choice(explanation: Explanation) -> IntArray:
    """(n,) the vehicle with the largest share of the plan beside the one it got."""
    assert explanation.network is not None
    plan = explanation.network.plan.copy()
    if plan.shape[1] < 2:
        return explanation.next_vehicle
    plan[np.arange(len(plan)), explanation.vehicle] = -1.0
    second: IntArray = plan.argmax(axis=1)
    return second


def _draw_tables(figure: Any, explanation: Explanation, looks: list[Look]) -> None:
    network = explanation.network
    if network is not None:
        left, right = figure.subplots(1, 2)
        order = _by_vehicle(explanation, -network.plan)
        shares = draw_plan(left, explanation, looks)
        figure.colorbar(shares, ax=left, location="bottom", shrink=0.85, aspect=28)
        apart = _heat(right, explanation, network.delta, order, looks, "viridis_r")
        right.set_title("latent distance Δ", size=10, color=INK, loc="left")
        right.set_facecolor("#eceff2")  # not a candidate
        figure.colorbar(apart, ax=right, location="bottom", shrink=0.85, aspect=28)
        right.set_ylabel("")
        return
    left, right = figure.subplots(1, 2, width_ratios=[1.0, 0.9])
    order = _by_vehicle(explanation, explanation.price)
    price = explanation.price.copy()
    price[np.arange(len(price)), explanation.vehicle] = np.nan
    heat = _heat(left, explanation, price, order, looks, "YlGnBu_r")
    low = float(explanation.price.min(initial=0.0))
    heat.set_clim(low, max(float(np.quantile(explanation.price, 0.8)), 1e-9))
    left.set_title("price of moving", size=10, color=INK, loc="left")
    figure.colorbar(
        heat, ax=left, location="bottom", shrink=0.85, aspect=28, extend="max"
    )
    _draw_moves(right, explanation, looks)


def draw_plan(axes: Axes, explanation: Explanation, looks: list[Look]) -> Any:
    """The transport plan, customers down and vehicles across; the model's needed."""
    assert explanation.network is not None
    plan = explanation.network.plan
    order = _by_vehicle(explanation, -plan)
    shares = _heat(axes, explanation, plan, order, looks, cmap="Purples")
    shares.set_clim(0, 1)
    axes.set_title("transport plan Y", size=10, color=INK, loc="left")
    return shares


def _by_vehicle(explanation: Explanation, key: FloatArray) -> IntArray:
    """Customers by vehicle, and on it by their key at their next choice."""
    own = np.arange(len(explanation.vehicle))
    rest = key.copy()
    rest[own, explanation.vehicle] = np.inf
    return np.lexsort((-rest.min(axis=1, initial=np.inf), explanation.vehicle))


def _heat(
    axes: Axes,
    explanation: Explanation,
    table: FloatArray,
    order: IntArray,
    looks: list[Look],
    cmap: str,
) -> Any:
    """A table with customers down and vehicles across, each block in its colour."""
    count = table.shape[1]
    image = axes.imshow(table[order], aspect="auto", cmap=cmap, interpolation="nearest")
    ends = np.cumsum(np.bincount(explanation.vehicle, minlength=count))
    starts = np.concatenate([[0], ends[:-1]])
    for number, (first, last) in enumerate(zip(starts, ends, strict=True)):
        axes.plot(
            [number - 0.5, number + 0.5, number + 0.5, number - 0.5, number - 0.5],
            [first - 0.5, first - 0.5, last - 0.5, last - 0.5, first - 0.5],
            color=looks[number][0],
            lw=max(0.5, min(1.4, 30 / count)),
            clip_on=False,
        )
    axes.set(xticks=[], yticks=[])
    if count <= MAX_LABELLED:
        size = min(8.0, 160 / count)
        axes.set_xticks(range(count), [str(v + 1) for v in range(count)], size=size)
        for label, (colour, _) in zip(axes.get_xticklabels(), looks, strict=True):
            label.set_color(colour)
            label.set_fontweight("bold")
    axes.set_xlabel("vehicle", size=8.5, color=INK)
    axes.set_ylabel("customers, by vehicle", size=8.5, color=INK)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return image


def _draw_moves(axes: Axes, explanation: Explanation, looks: list[Look]) -> None:
    """The cheapest moves as bars, hollow where the customer does not fit."""
    there, price = explanation.next_vehicle, explanation.next_price
    order = np.argsort(np.nan_to_num(price, nan=np.inf), kind="stable")[:MOVES]
    order = order[there[order] >= 0]
    axes.set_title("cheapest moves", size=10, color=INK, loc="left")
    axes.spines[:].set_visible(False)
    axes.set(xticks=[], yticks=[])
    if not len(order):
        return
    widest = max(float(np.abs(price[order]).max()), 1e-12)
    lowest, highest = (f(0.0, *(price[order] / widest)) for f in (min, max))
    for row, i in enumerate(order.tolist()):
        colour, to = looks[explanation.vehicle[i]][0], looks[there[i]][0]
        fits = bool(explanation.fits[i, there[i]])
        axes.barh(
            row,
            price[i] / widest,
            height=0.62,
            color=to if fits else "white",
            ec=to,
            lw=1.2,
        )
        name = explanation.instance.ids[i + 1][:12].replace("$", r"\$")
        words = f"{name}: {explanation.vehicle[i] + 1} → {there[i] + 1}"
        axes.text(
            lowest - 0.05, row, words, ha="right", va="center", size=8, color=colour
        )
        tail = "" if fits else "  full"
        whole = abs(price[i]) >= 1000  # metres, say: not 1e+03
        axes.text(
            highest + 0.05,
            row,
            f"{price[i]:+.0f}{tail}" if whole else f"{price[i]:+.3g}{tail}",
            va="center",
            size=8,
            color=INK,
        )
    axes.set_ylim(max(MOVES, len(order)) - 0.4, -0.6)
    axes.axvline(0, color=INK, lw=0.8)
    axes.set_xlim(lowest - 0.75, highest + 0.75)
