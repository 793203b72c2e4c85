"""Draw docs/pictures/planning.svg: one day being planned, as five scenes that repeat.

    python docs/animate.py

Orders, seeds, clusters, tours, polish: what the default does with a bundled day. The
animation is CSS inside the SVG, so that it moves wherever a picture may stand.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import clusterfirst as cf
from clusterfirst.files.picture import route_looks

PICTURE = Path(__file__).parent / "pictures" / "planning.svg"
SIZE, MARGIN, HEAD = 640, 16, 44
SECONDS = 2.4  # per scene
SCENES = 5
INK, FAINT = "#22262e", "#9aa3ad"
CUSTOMERS, DAY = 150, 3


def main() -> None:
    """Solve the day without and with polish, and write the picture."""
    day = cf.sample_day(cf.bundled_city(), CUSTOMERS, seed=7, index=DAY)
    first = cf.solve(day, cf.SolveOptions(method="neural", polish=False, iterations=50))
    last = cf.solve(
        day,
        cf.SolveOptions(method="neural", time_limit=2.0),
        start=first.solution.routes,
    )
    PICTURE.write_text(svg(day, first, last), encoding="utf-8")


def svg(day: cf.Instance, first: cf.Result, last: cf.Result) -> str:
    """All scenes in one document."""
    points = day.plane
    low, high = points.min(axis=0), points.max(axis=0)
    scale = (SIZE - 2 * MARGIN) / (high - low).max()
    at = (points - low) * scale + MARGIN
    at[:, 1] = SIZE - at[:, 1]
    seeds, labels = first.details["scores"].seeds, first.details["labels"]
    groups = [np.flatnonzero(labels == k) + 1 for k in range(len(seeds))]
    colours = [look[0] for look in route_looks(points, cf.Solution(map(list, groups)))]
    colour_of = np.array([INK, *(colours[k] for k in labels)])
    dots = "".join(_dot(at[c], FAINT, 3) for c in range(1, len(at)))
    depot = _dot(at[0], INK, 7)
    scenes = [
        ("orders", f"{day.num_customers} orders", dots),
        (
            "seeds",
            "the network picks a seed for each vehicle",
            dots + _rings(at, seeds),
        ),
        (
            "clusters",
            "every order joins a seed; no vehicle is too full",
            _spokes(at, groups, seeds, colours),
        ),
        (
            "tours",
            f"each group becomes a tour: {first.verdict.cost:.2f}",
            _tours(at, first, colour_of),
        ),
        (
            "polish",
            f"local search until the deadline: {last.verdict.cost:.2f}",
            _tours(at, last, colour_of),
        ),
    ]
    whole = SECONDS * SCENES
    share = 100 / SCENES
    body = "".join(
        f'<g class="scene" style="animation-delay:{number * SECONDS - whole}s">'
        f'<text x="{MARGIN}" y="28">{number + 1}. {words}</text>'
        f'<g transform="translate(0 {HEAD - MARGIN})">{drawing}{depot}</g></g>'
        for number, (_, words, drawing) in enumerate(scenes)
    )
    style = (
        f".scene{{opacity:0;animation:show {whole}s linear infinite}}"
        f"@keyframes show{{0%{{opacity:0}}2%{{opacity:1}}{share - 1}%{{opacity:1}}"
        f"{share + 1}%{{opacity:0}}100%{{opacity:0}}}}"
        f"text{{font:16px system-ui,sans-serif;fill:{INK}}}"
        "polyline{fill:none;stroke-width:2;stroke-linejoin:round}"
        "@media (prefers-reduced-motion:reduce){.scene{animation:none}"
        ".scene:last-of-type{opacity:1}}"
    )
    height = SIZE + HEAD - MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE} {height}" '
        f'width="{SIZE}" role="img"><title>One day being planned: orders, seeds, '
        f"clusters, tours, polish</title><style>{style}</style>"
        f'<rect width="{SIZE}" height="{height}" rx="8" fill="white"/>{body}</svg>\n'
    )


def _dot(point: np.ndarray, colour: str, radius: float) -> str:
    x, y = point
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}"/>'


def _rings(at: np.ndarray, seeds: np.ndarray) -> str:
    return "".join(_dot(at[c], "#e4572e", 6) for c in seeds)


def _line(points: np.ndarray, colour: str, faint: bool = False) -> str:
    way = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dim = ' stroke-opacity="0.25"' if faint else ""
    return f'<polyline points="{way}" stroke="{colour}"{dim}/>'


def _spokes(
    at: np.ndarray, groups: list[np.ndarray], seeds: np.ndarray, colours: list[str]
) -> str:
    found = []
    for group, seed, colour in zip(groups, seeds, colours, strict=True):
        found += [_line(at[[c, seed]], colour, faint=True) for c in group]
        found += [_dot(at[c], colour, 4) for c in group] + [_dot(at[seed], colour, 7)]
    return "".join(found)


def _tours(at: np.ndarray, result: cf.Result, colour_of: np.ndarray) -> str:
    """Tours in the colour of most of their orders, the legs at the depot faintly."""
    found = []
    for route in result.solution.routes:
        names, counts = np.unique(colour_of[list(route)], return_counts=True)
        colour = str(names[counts.argmax()])
        found.append(_line(at[[0, route[0]]], colour, faint=True))
        found.append(_line(at[[0, route[-1]]], colour, faint=True))
        found.append(_line(at[list(route)], colour))
        found += [_dot(at[c], colour, 3.5) for c in route]
    return "".join(found)


if __name__ == "__main__":
    main()
