"""Every answer is valid: small and odd instances, checked in exact fractions.

python campaign/answers.py [--count 1000] [--seconds 600]
"""

from __future__ import annotations

import math
import random
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from checker import Day, faults
from record import Notes, Promise, main

from clusterfirst import (
    InfeasibleError,
    InputError,
    InputWarning,
    Instance,
    NotFoundInTimeError,
    SolveOptions,
    solve,
)
from clusterfirst.solving.solver import warm_up

# Share of the cases, method, and the assignments it is tried with.
METHODS = [
    (24, "fisher-jaikumar", ("fast", "fast", "exact", "sparse")),
    (22, "savings", (None,)),
    (22, "sweep", (None,)),
    (8, "petal", (None,)),
    (23, "neural", ("fast", "fast", "exact", "sparse", "hard")),
]
# Each needs a process of its own: four cases of so many.
PEERS, PEERS_EVERY = ("hgs", "pyvrp", "ortools", "vroom"), 250
CITY_MODEL = "city-psi-one-layer"
MODELS = ("general", "general", CITY_MODEL)
# What a method that needs coordinates says of a bare matrix.
NEEDS_GEOMETRY = {"E141"}


@dataclass(frozen=True)
class Drawn:
    """An instance as it was written, and a fleet that is known to be enough."""

    day: Day
    enough: int


def draw(rng: random.Random) -> Drawn:
    """Any shape, demands that fill vehicles to the last unit, any metric."""
    n = rng.choice(
        [1, 2, 3, rng.randint(1, 12), rng.randint(1, 30), rng.randint(1, 60)]
    )
    units, capacity, bins = _demands(rng, n)
    digits = rng.choice([0, 0, 0, 1, 3])
    demands = [0, *(_decimal(u, digits) for u in units)]
    vehicles = rng.choice([None, None, bins, bins, bins + 1, n])
    metric = rng.choice(["euclidean"] * 7 + ["greatcircle", "matrix", "matrix"])
    rounding = rng.choice(["none", "none", "none", "round", "trunc", "dimacs", "exact"])
    points = matrix = None
    if metric == "matrix":
        matrix = _matrix(rng, n)
        if rng.random() < 0.5:
            points = _points(rng, n)
    elif metric == "greatcircle":
        points = [(rng.uniform(-180, 180), rng.uniform(-90, 90)) for _ in range(n + 1)]
        if rng.random() < 0.7:
            lon, lat = points[0]
            points = [
                (max(-180, min(180, lon + rng.gauss(0, 0.1))), max(-90, min(90, lat)))
                for _ in points
            ]
    else:
        points = _points(rng, n)
    day = Day(
        demands, _decimal(capacity, digits), points, matrix, metric, rounding, vehicles
    )
    return Drawn(day, bins)


def _decimal(units: int, digits: int) -> float | int:
    """Units with a decimal point: the float whose shortest text is just that."""
    return units if digits == 0 else float(f"{units / 10**digits:.{digits}f}")


def _demands(rng: random.Random, n: int) -> tuple[list[int], int, int]:
    """Whole units, the capacity, and a number of vehicles that is enough."""
    kind = rng.choice(["law", "full", "full", "halves", "zeros", "one", "large"])
    if kind == "full" and n >= 2:  # cut full vehicles into customers: no unit to spare
        bins = rng.randint(1, max(1, n // 2))
        capacity = rng.choice([10, 50, 97, 1000, 10**6])
        cuts = sorted(rng.sample(range(1, n), bins - 1)) if bins > 1 else []
        sizes = [b - a for a, b in zip([0, *cuts], [*cuts, n], strict=True)]
        if max(sizes) <= capacity:
            units = [u for size in sizes for u in _cut(rng, capacity, size)]
            rng.shuffle(units)
            return units, capacity, bins
    if kind == "halves":  # every customer alone
        return [rng.randint(6, 10) for _ in range(n)], 10, n
    if kind == "zeros":
        units = [rng.choice([0, 0, 1, 5]) for _ in range(n)]
        return units, 5, n
    if kind == "one":
        return [7] * n, 7, n
    if kind == "large":
        return [rng.randint(1, 2**40) for _ in range(n)], 2**40, n
    return [rng.randint(1, 9) for _ in range(n)], rng.choice([9, 20, 50, 250]), n


def _cut(rng: random.Random, total: int, parts: int) -> list[int]:
    cuts = sorted(rng.sample(range(1, total), parts - 1)) if parts > 1 else []
    return [b - a for a, b in zip([0, *cuts], [*cuts, total], strict=True)]


def _points(rng: random.Random, n: int) -> list[tuple[float, float]]:
    kind = rng.choice(
        ["square", "grid", "same", "line", "circle", "tiny", "huge", "two"]
    )
    if kind == "grid":
        return [(rng.randint(0, 4), rng.randint(0, 4)) for _ in range(n + 1)]
    if kind == "same":
        return [(3.5, -2.0)] * (n + 1)
    if kind == "line":
        return [(rng.random(), 0.25) for _ in range(n + 1)]
    if kind == "circle":
        turn = 2 * math.pi / max(1, n)
        ring = [(math.cos(i * turn), math.sin(i * turn)) for i in range(n)]
        return [(0.0, 0.0), *ring]
    if kind == "two":
        return [
            (rng.gauss(0, 0.01) + rng.choice([0, 5]), rng.gauss(0, 0.01))
            for _ in range(n + 1)
        ]
    scale = {"tiny": 1e-6, "huge": 1e8}.get(kind, 1.0)
    return [(scale * rng.random(), scale * rng.random()) for _ in range(n + 1)]


def _matrix(rng: random.Random, n: int) -> list[list[float]]:
    """Symmetric, any numbers: triangles need not close, distances may be 0."""
    kind = rng.choice(["whole", "any", "zero"])
    rows = [[0.0] * (n + 1) for _ in range(n + 1)]
    for i in range(n + 1):
        for j in range(i):
            d = {"whole": rng.randint(0, 99), "any": rng.random(), "zero": 0}[kind]
            rows[i][j] = rows[j][i] = float(d)
    return rows


def options_for(rng: random.Random, number: int) -> SolveOptions:
    """Any method in any of its ways, a few rounds of it."""
    weights = [share for share, _, _ in METHODS]
    _, method, assigns = rng.choices(METHODS, weights)[0]
    peer = number % PEERS_EVERY < len(PEERS)
    if peer:
        method, assigns = PEERS[number % PEERS_EVERY], (None,)
    neural = method == "neural"
    assign = rng.choice(assigns)
    # HiGHS counts nodes where no clock runs, and full vehicles take all of them.
    clock = 0.3 if assign not in (None, "fast") else None
    return SolveOptions(
        method=method,
        iterations=None if peer else rng.randint(1, 2),
        time_limit=0.05 if peer else clock,
        seed=rng.randint(0, 2**62),
        assign=assign,
        fleet=rng.choice(["kmin", "best"]),
        polish=rng.random() < 0.2,
        threads=rng.choice([1, 1, 1, 2]),
        model=rng.choice(MODELS) if neural else None,
        seed_sets=rng.choice([1, 1, 1, 2]) if neural else 1,
        recentre=rng.choice([0, 1, 2]),
        new_locations="nearest",
    )


def one(number: int, notes: Notes) -> None:
    """Draw an instance and options, solve, and check with the other checker."""
    rng = random.Random(f"answers {number}")
    drawn, options = draw(rng), options_for(rng, number)
    day = drawn.day
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        instance = Instance(
            day.demands,
            day.capacity,
            coords=day.points,
            matrix=day.matrix,
            metric=day.metric,
            rounding=day.rounding,
            vehicles=day.vehicles,
        )
        try:
            result = solve(instance, options)
        except (InfeasibleError, NotFoundInTimeError, InputError) as error:
            _judge_refusal(error, drawn, options, notes)
            return
    for fault in faults(day, result.solution.routes, result.verdict.cost):
        notes.fail(f"{options.method} {options.assign}: {fault}")
    notes.count("answers")
    notes.count(f"{options.method} {options.assign or ''}".strip())
    notes.count("polished" if options.polishes else "not polished")


def _judge_refusal(
    error: InputError | InfeasibleError | NotFoundInTimeError,
    drawn: Drawn,
    options: SolveOptions,
    notes: Notes,
) -> None:
    """A fleet that is enough by construction must not be called too small."""
    day, code = drawn.day, error.problems[0].code
    enough = day.vehicles is None or day.vehicles >= drawn.enough
    if isinstance(error, NotFoundInTimeError):
        notes.count("no packing found")
        return
    if isinstance(error, InfeasibleError):
        if enough:
            notes.fail(f"called infeasible, and is not: {error}")
        notes.count("infeasible")
        return
    if day.points is None and code in NEEDS_GEOMETRY:
        notes.count("refused: the method needs coordinates")
        return
    if options.model == CITY_MODEL and code == "E405" and day.metric != "euclidean":
        notes.count("refused: the model knows its own city only")
        return
    notes.fail(f"{options.method}: refused: {error}")


def prepare() -> None:
    """Compile what the cases call: the first ones must not look like hangs."""
    for method in ("fisher-jaikumar", "savings", "sweep", "petal"):
        warm_up(method)
    for model in set(MODELS):
        warm_up("neural", model)
    for number in range(40):
        one(number, Notes())


PROMISE = Promise(
    "answers",
    "Every answer is valid, of every method but `cmd:` (which is in the tests): each "
    "customer once, loads and fleet within their limits, the stated cost is the length "
    "of the routes.",
    full=1_000_000,
    case=one,
    unit="small and odd instances",
    prepare=prepare,
)

if __name__ == "__main__":
    sys.exit(main(PROMISE))
