"""Routes as a picture: PNG or SVG, readable with 3 routes and with 300.

Routes that lie next to each other never share a colour and line style. Legs to and
from the depot are drawn faintly, because near the depot they only hide the rest;
beside the map stands one bar per route with its load.
"""

from __future__ import annotations

import io
import math
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from clusterfirst.files.atomic import write_bytes
from clusterfirst.files.plan import Plan, plan_of
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import FloatArray, Instance
from clusterfirst.problem.solution import Solution, Verdict, judge

if TYPE_CHECKING:  # matplotlib takes half a second to import: only when drawing
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg")
# Twenty-four colours with a distance of at least 0.14 in OKLab between any two.
PALETTE = (
    "#1f6fb5",
    "#e4572e",
    "#138a4e",
    "#f5a800",
    "#8e5bd6",
    "#00a9b0",
    "#d8006c",
    "#7a3b12",
    "#8fce4a",
    "#f78fd0",
    "#4b1270",
    "#86c3fb",
    "#0000f8",
    "#f800f8",
    "#003820",
    "#907078",
    "#901090",
    "#0000a0",
    "#a88800",
    "#00e8d0",
    "#6800d8",
    "#580820",
    "#004878",
    "#5890f8",
)
LINE_STYLES = ("solid", (0, (4, 1.5)), (0, (1.2, 1.2)))
INK = "#22262e"
FAINT = "#9aa3ad"
NEAREST = 30  # points looked at around each point to find neighbouring routes
POINTS_PER_LEG = 5
MAX_LABELLED = 40  # routes with a number on the map and at their bar
MAX_NUMBERED = 160  # stops with their place in the route inside the dot
MAX_ARROWS = 600  # stops up to which legs show their direction
LONG_LEG = 0.03  # of the map: shorter legs have no room for an arrow


def write_picture(
    path: str | os.PathLike[str], instance: Instance, solution: Solution
) -> None:
    """Draw `solution` to a .png or .svg file, written beside and renamed into place."""
    write_figure(path, lambda: draw(instance, solution))


def write_figure(path: str | os.PathLike[str], make: Callable[[], Figure]) -> None:
    """Write the figure that `make` draws; a wrong suffix is refused before drawing."""
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        rule = f"a picture ends in {' or '.join(SUFFIXES)}"
        raise InputError(Problem("E106", "picture", path.name, rule))
    import matplotlib

    # A fixed salt and no date: the same routes give the same bytes.
    with matplotlib.rc_context({"svg.hashsalt": "clusterfirst"}):
        figure = make()
        buffer = io.BytesIO()
        kind = path.suffix.lower()[1:]
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(buffer, format=kind, dpi=160, metadata=metadata)
    write_bytes(path, buffer.getvalue())


def draw(instance: Instance, solution: Solution) -> Figure:
    """Return a matplotlib figure: the map on the left, the loads on the right."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    if instance.coords is None:
        rule = "a picture needs coordinates and the instance has only a matrix"
        raise InputError(Problem("E141", "coords", rule=rule))
    n = instance.num_customers
    known = Solution(
        [c for c in route if 1 <= c <= n] for route in solution.routes
    )  # an infeasible solution is drawn too, as far as it goes
    verdict = judge(instance, solution)
    points = instance.plane
    looks = route_looks(points, known)
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12)
    figure = Figure(figsize=(9.6, 7.2), layout=layout, facecolor="white")
    if known.routes:
        left, right = figure.subplots(1, 2, width_ratios=[1.0, 0.13])
        _draw_loads(right, plan_of(instance, solution), looks)
    else:
        left = figure.subplots()
    draw_map(left, points, known, looks)
    if len(points) <= MAX_ARROWS:
        _draw_arrows(left, points, known, looks)
    if len(points) <= MAX_NUMBERED:
        _number_stops(left, points, known, looks)
    left.set_title(_title(instance, solution, verdict), color=INK, loc="left", size=12)
    if instance.degrees:
        _draw_scale(left, points)
    return figure


# --- which route gets which colour ------------------------------------------------

Look = tuple[str, object]  # colour, line style


def route_looks(points: FloatArray, solution: Solution) -> list[Look]:
    """Colour and line style per route; neighbouring routes never share both.

    Greedy colouring, the route with most coloured neighbours first (DSATUR). Among
    the colours free of neighbours the least used one is taken; a twenty-fifth mutual
    neighbour gets a dashed line instead.
    """
    neighbours = neighbouring_routes(points, solution)
    looks = [(colour, style) for style in LINE_STYLES for colour in PALETTE]
    chosen: dict[int, int] = {}
    used: Counter[int] = Counter()
    left = set(range(len(solution.routes)))
    taken: list[set[int]] = [set() for _ in solution.routes]
    while left:
        route = min(left, key=lambda r: (-len(taken[r]), -len(neighbours[r]), r))
        left.remove(route)
        ranked = sorted(
            range(len(looks)),
            key=lambda k: (k in taken[route], k // len(PALETTE), used[k], k),
        )
        chosen[route] = ranked[0]
        used[ranked[0]] += 1
        for other in neighbours[route]:
            taken[other].add(ranked[0])
    return [looks[chosen[r]] for r in range(len(solution.routes))]


def neighbouring_routes(points: FloatArray, solution: Solution) -> list[set[int]]:
    """For each route the routes that lie next to it or cross it.

    Two routes are neighbours if a point on one is among the nearest points of a
    point on the other; points are taken along all legs between customers.
    """
    from scipy.spatial import cKDTree

    samples: list[FloatArray] = []
    owners: list[int] = []
    for number, route in enumerate(solution.routes):
        stops = points[list(route)]
        along = stops[:1]
        if len(stops) > 1:
            share = np.linspace(0, 1, POINTS_PER_LEG, endpoint=False)[None, :, None]
            legs = stops[:-1, None] * (1 - share) + stops[1:, None] * share
            along = np.vstack([legs.reshape(-1, 2), stops[-1:]])
        samples.append(along)
        owners.extend([number] * len(along))
    neighbours: list[set[int]] = [set() for _ in solution.routes]
    if len(owners) < 2:
        return neighbours
    owner = np.array(owners)
    every = np.vstack(samples)
    _, near = cKDTree(every).query(every, k=min(NEAREST, len(every)))
    pairs = np.column_stack([np.repeat(owner, near.shape[1]), owner[near.ravel()]])
    for a, b in np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0).tolist():
        neighbours[a].add(b)
        neighbours[b].add(a)
    return neighbours


# --- the parts of the picture -----------------------------------------------------


def draw_map(
    axes: Axes, points: FloatArray, solution: Solution, looks: Sequence[Look]
) -> None:
    """Routes, stops and depot; with few routes, their numbers too."""
    size = 34.0 * min(1.0, (120 / max(len(points), 1)) ** 0.6) + 1.0
    width = 0.9 + 1.1 * min(1.0, 150 / max(len(points), 1))
    rim = 0.4 if len(points) <= 2000 else 0.0  # white rims would hide small dots
    fade = 0.35 * min(1.0, 40 / max(len(solution.routes), 1)) ** 0.75
    served = np.zeros(len(points), dtype=bool)
    for route, (colour, style) in zip(solution.routes, looks, strict=True):
        if not route:
            continue
        stops = points[list(route)]
        served[list(route)] = True
        for end in (stops[0], stops[-1]):
            to_depot = np.vstack([points[0], end])
            axes.plot(*to_depot.T, color=colour, lw=0.6, alpha=fade, zorder=1)
        axes.plot(*stops.T, color=colour, ls=style, lw=width, zorder=2)
        axes.scatter(
            stops[:, 0], stops[:, 1], size, color=colour, ec="white", lw=rim, zorder=3
        )
    missed = points[1:][~served[1:]]
    axes.scatter(
        missed[:, 0], missed[:, 1], size, facecolor="white", ec=FAINT, lw=0.8, zorder=3
    )
    x, y = points[0]
    axes.scatter(x, y, 120, marker="s", color=INK, ec="white", lw=1.6, zorder=4)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.03)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_color("#d5dae0")
    if len(solution.routes) <= MAX_LABELLED:
        _name_routes(axes, points, solution, looks)


def _draw_arrows(
    axes: Axes, points: FloatArray, solution: Solution, looks: Sequence[Look]
) -> None:
    """A small arrow in the middle of every leg that has room for one."""
    extent = float(np.ptp(points, axis=0).max())
    for route, (colour, _) in zip(solution.routes, looks, strict=True):
        walk = points[[0, *route, 0]]
        ways = np.diff(walk, axis=0)
        long = np.hypot(*ways.T) > LONG_LEG * extent
        middle = (walk[:-1] + walk[1:])[long] / 2
        for (x, y), (dx, dy) in zip(middle, ways[long], strict=True):
            axes.annotate(
                "",
                xy=(x + 1e-3 * dx, y + 1e-3 * dy),
                xytext=(x, y),
                arrowprops={
                    "arrowstyle": "-|>",
                    "color": colour,
                    "lw": 0,
                    "mutation_scale": 13,
                },
                zorder=2,
            )


def _number_stops(
    axes: Axes, points: FloatArray, solution: Solution, looks: Sequence[Look]
) -> None:
    """The place of each stop in its route, inside its dot."""
    from matplotlib.colors import to_rgb

    for route, (colour, _) in zip(solution.routes, looks, strict=True):
        red, green, blue = to_rgb(colour)
        dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.59
        stops = points[list(route)]
        axes.scatter(
            stops[:, 0], stops[:, 1], 62.0, color=colour, ec="white", lw=0.4, zorder=3
        )
        for number, (x, y) in enumerate(stops.tolist(), start=1):
            ink = "white" if dark else INK
            text = axes.text(x, y, str(number), size=4.6, color=ink, zorder=4)
            text.set(ha="center", va="center_baseline")


def _name_routes(
    axes: Axes, points: FloatArray, solution: Solution, looks: Sequence[Look]
) -> None:
    """The number of each route just beyond its stop farthest from the depot."""
    from matplotlib.patheffects import withStroke

    halo = [withStroke(linewidth=2.5, foreground="white")]
    for number, (route, (colour, _)) in enumerate(
        zip(solution.routes, looks, strict=True), start=1
    ):
        if not route:
            continue
        ways = points[list(route)] - points[0]
        far = ways[np.hypot(*ways.T).argmax()]
        outward = far / max(float(np.hypot(*far)), 1e-12)
        axes.annotate(
            str(number),
            xy=tuple(points[0] + far),
            xytext=tuple(9 * outward),
            textcoords="offset points",
            ha="center",
            va="center",
            size=8.5,
            weight="bold",
            color=colour,
            path_effects=halo,
            zorder=5,
        )


def _draw_loads(axes: Axes, plan: Plan, looks: Sequence[Look]) -> None:
    """One bar per route, in its colour, against the capacity of its vehicle."""
    instance, loads = plan.instance, np.array(plan.verdict.loads)
    rows = np.arange(len(loads))
    few = len(loads) <= MAX_LABELLED
    height = 0.7 if few else 0.9
    capacity = float(instance.capacity)
    size = min(8.0, 300 / (len(loads) + 10))
    full = np.array([route.capacity for route in plan.routes])
    axes.barh(rows, full, height=height, color="#eceff2")
    axes.barh(rows, loads, height=height, color=[colour for colour, _ in looks])
    # A mark at the capacity, so that an overloaded bar is seen to pass it.
    axes.vlines(full, rows - height / 2, rows + height / 2, color=INK, lw=0.8)
    axes.set(xticks=[], yticks=[])
    if few:
        own = [f"{route.number} {route.name}" for route in plan.routes]
        plain = instance.constraints is None
        names = [f"{k + 1}" if plain else own[k][:14] for k in rows.tolist()]
        names = [name.replace("$", r"\$") for name in names]
        axes.set_yticks(rows, names, size=size, color=INK)
        for row, load in enumerate(plan.verdict.loads):
            right = max(load, capacity) * 1.06
            axes.text(right, row, f"{load:.6g}", va="center", size=size, color=INK)
    axes.set_ylim(max(len(loads), 24) - 0.4, -0.6)  # few bars need not fill the page
    axes.set_xlim(0, 1.5 * max(capacity, float(loads.max(initial=0))))
    said = f"load (of {instance.capacity})" if len(set(full)) < 2 else "load"
    axes.set_title(said, size=8.5, color=INK, loc="left")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _title(instance: Instance, solution: Solution, verdict: Verdict) -> str:
    unit = f" {instance.unit}" if instance.unit else ""
    name = instance.name if len(instance.name) <= 40 else instance.name[:37] + "..."
    name = name.replace("$", r"\$")  # matplotlib would read it as mathematics
    parts = [name] if name else []
    parts.append(f"{instance.num_customers} customers")
    parts.append(f"{len(solution.routes)} routes")
    parts.append(f"cost {verdict.cost:.6g}{unit}")
    if not verdict.feasible:
        parts.append("not feasible")
    return "   ·   ".join(parts)


def _draw_scale(axes: Axes, points: FloatArray) -> None:
    """A bar of 1, 2 or 5 times a power of ten km in the lower left corner."""
    extent = float(np.ptp(points[:, 0]))
    if extent <= 0:
        return
    power = 10 ** math.floor(math.log10(extent / 4))
    length = max(step * power for step in (1, 2, 5) if step * power <= extent / 4)
    x, y = points[:, 0].min(), points[:, 1].min() - 0.04 * float(np.ptp(points))
    axes.plot([x, x + length], [y, y], color=INK, lw=2, solid_capstyle="butt")
    label = f"{length:g} km"
    axes.text(x + length / 2, y, label, ha="center", va="bottom", size=8, color=INK)
