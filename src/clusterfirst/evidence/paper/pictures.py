"""The best and the worst instances with their transport plans, sorted by cause.

The paper looks at the ten largest gaps and finds two causes: the reference has another
K, or it has short routes near the depot. Reference, our routes and the plan stand side
by side, as in its figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from clusterfirst.evidence.bench.sets import Case
from clusterfirst.evidence.paper.histograms import reference_fleet, tasks
from clusterfirst.evidence.paper.method_runs import allowed, decode
from clusterfirst.evidence.paper.page import Page, Section, conditions, number
from clusterfirst.evidence.paper.runs import Measured, Runs
from clusterfirst.evidence.paper.variants import Weights
from clusterfirst.files.atomic import make_folder
from clusterfirst.files.outputs import Outputs, file_name
from clusterfirst.files.picture import INK, draw_map, route_looks, write_figure
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.solving.explaining.explain import explain
from clusterfirst.solving.explaining.picture import draw_plan
from clusterfirst.stages.tours.routing import tours

if TYPE_CHECKING:  # matplotlib takes half a second to import: only when drawing
    from matplotlib.figure import Figure

WORST = 10  # of each set are looked at, as in the paper
EACH = 2  # pictures of each cause
FEW_STOPS = 4  # the paper shows short routes of one and of four stops
NEAR = 0.5  # of the median reach of the routes
BEST, OTHER_K, SHORT, NEITHER = "best", "other K", "short routes near depot", "neither"


@dataclass(frozen=True, eq=False)
class Scene:
    """An instance to draw, and why."""

    case: Case
    gap: float
    vehicles: int
    cause: str


def pictures(runs: Runs) -> Page:
    """Draw the extremes of each histogram."""
    page = Page("pictures", "The best and the worst instances, by cause")
    rows: list[tuple[str, ...]] = []
    results = runs.results(tasks(runs))
    for name, result in results.items():
        if isinstance(result, str):
            rows.append((name, "-", "-", "-", "-", result))
            page.records.append({"set": name, "status": result})
            continue
        weights = runs.models.find(result.task.recipe.model)
        assert weights is not None
        drawn: dict[str, int] = {}
        for scene in scenes(result):
            drawn[scene.cause] = drawn.get(scene.cause, 0) + 1
            path = ""
            if drawn[scene.cause] <= EACH and not runs.interrupted:
                path = _draw(runs, scene, weights, result)
                page.pictures += [runs.folder / path] if path else []
            known = reference_fleet(scene.case)
            theirs = "-" if known is None else str(known)
            fleets = f"{scene.vehicles} / {theirs}"
            who = scene.case.instance.name
            rows.append((name, scene.cause, who, f"{scene.gap:.2f}", fleets, path))
            page.records.append(
                {
                    "set": name,
                    "status": "run here",
                    "cause": scene.cause,
                    "instance": who,
                    "gap": number(scene.gap),
                    "vehicles": scene.vehicles,
                    "reference_vehicles": known,
                    "picture": path,
                }
            )
    head = ("set", "cause", "instance", "gap %", "K ours / reference", "picture")
    page.sections = [Section(head, rows)]
    page.notes = [
        f"the {EACH} best and the {WORST} worst of each set, at most {EACH} pictures "
        f"of a cause; a short route near the depot has at most {FEW_STOPS} stops, none "
        f"farther than {NEAR:g} of the routes' median reach",
        *conditions(runs, results.values()),
    ]
    return page


def scenes(result: Measured) -> list[Scene]:
    """The best, then the worst by cause, the largest gap of each first."""
    gaps = result.gaps
    ranked = sorted(gaps, key=lambda place: gaps[place])
    best = ranked[:EACH]
    worst = [p for p in reversed(ranked) if p not in best][:WORST]
    found = [_scene(result, place, BEST) for place in best]
    bad = [_scene(result, place, "") for place in worst]
    order = (OTHER_K, SHORT, NEITHER)
    return found + sorted(bad, key=lambda scene: order.index(scene.cause))


def _scene(result: Measured, place: int, cause: str) -> Scene:
    case, run = result.pairs[place]
    assert run.vehicles is not None
    why = cause or cause_of(case, run.vehicles)
    return Scene(case, result.gaps[place], run.vehicles, why)


def cause_of(case: Case, vehicles: int) -> str:
    """Why an answer is far from its reference: one of the paper's two causes."""
    if case.labels is None:
        return NEITHER
    if reference_fleet(case) != vehicles:
        return OTHER_K
    away = case.instance.lengths(
        np.zeros(len(case.labels), dtype=np.int64), np.arange(1, len(case.labels) + 1)
    )
    routes = [away[case.labels == label] for label in np.unique(case.labels)]
    reach = [float(stops.max()) for stops in routes]
    near = NEAR * float(np.median(reach))
    short = (
        len(stops) <= FEW_STOPS and far <= near
        for stops, far in zip(routes, reach, strict=True)
    )
    return SHORT if any(short) else NEITHER


def _draw(runs: Runs, scene: Scene, weights: Weights, result: Measured) -> str:
    """Decode again, draw, and return the path below the folder of the results."""
    recipe = result.task.recipe
    limit = allowed(recipe, runs.scale.seconds[result.task.size])
    decoded = decode(scene.case.instance, recipe, weights, limit)
    if decoded is None:
        return ""
    kind = scene.cause.replace(" ", "-").lower()
    who = f"{result.task.kind}-{kind}-{scene.case.instance.name}"
    folder, name = make_folder(runs.folder / "pictures"), file_name(who, ".png")
    Outputs().resumed(folder, [name], ours=True)  # the folder is claimed already
    ours = decoded.solution
    write_figure(folder / name, lambda: _figure(scene, ours, weights))
    return f"pictures/{name}"


def _figure(scene: Scene, ours: Solution, weights: Weights) -> Figure:
    """Reference, our routes, and the plan behind them."""
    from matplotlib.figure import Figure

    instance, labels = scene.case.instance, scene.case.labels
    explanation = explain(instance, ours, weights.folder)
    figure = Figure(figsize=(16, 5.8), layout="constrained", facecolor="white")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1, 1, 0.7])
    if labels is not None:
        theirs = Solution(tours(instance, labels))
        draw_map(left, instance.plane, theirs, route_looks(instance.plane, theirs))
        words = f"{len(theirs.routes)} routes, cost {scene.case.reference:.6g}"
        left.set_title(f"reference: {words}", size=10, color=INK, loc="left")
    looks = route_looks(instance.plane, explanation.solution)
    draw_map(middle, instance.plane, explanation.solution, looks)
    cost = judge(instance, ours).cost
    gap = 100 * (cost / scene.case.reference - 1) if scene.case.reference else np.nan
    words = f"{len(ours.routes)} routes, cost {cost:.6g}, gap {gap:.2f} %"
    middle.set_title(f"{weights.name}: {words}", size=10, color=INK, loc="left")
    shares = draw_plan(right, explanation, looks)
    figure.colorbar(shares, ax=right, location="bottom", shrink=0.85, aspect=28)
    figure.suptitle(f"{instance.name}: {scene.cause}", size=11, color=INK)
    return figure
