"""The part of VROOM's JSON that is a CVRP: read, and answered in VROOM's format.

One depot (every vehicle starts and ends there), one capacity, deliveries of one kind or
of none, seconds of service, matrices (the costs, or else the durations, are made least)
or coordinates. The rest is refused with VROOM's code 2 and a sentence, never ignored;
jobs that do not fit are unassigned. Without a matrix lengths are great circles, and
durations those at `SPEED`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from clusterfirst.files.strict_json import Checker
from clusterfirst.problem.constraints import Constraints
from clusterfirst.problem.distances import FloatArray
from clusterfirst.problem.errors import ClusterfirstError, InputError, Problem
from clusterfirst.problem.fleet import Fleet
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge

INTERNAL_ERROR, INPUT_ERROR, TOO_LARGE = 1, 2, 4  # the last is of vroom-express
CODES = {
    "E401": TOO_LARGE,
    "E501": TOO_LARGE,
    "E513": TOO_LARGE,
    "E505": INTERNAL_ERROR,
}
SPEED = 10.0  # metres per second along the great circle
KEYS = {"jobs", "vehicles", "matrices", "options"}
JOB_KEYS = {"id", "description", "location", "location_index", "delivery", "amount"}
JOB_KEYS |= {"service"}
VEHICLE_KEYS = {
    "id",
    "description",
    "profile",
    "start",
    "end",
    "start_index",
    "end_index",
    "capacity",
}
MATRIX_KEYS = {"durations", "distances", "costs"}
OPTION_KEYS = {"l"}  # seconds; of vroom-express's others only what is off:
UNUSED = {"g", "c"}
MOST = 2**32  # VROOM's numbers are unsigned


@dataclass(frozen=True)
class VroomProblem:
    """A request: the instance of what fits, and the words to answer in."""

    instance: Instance
    jobs: tuple[Mapping[str, Any], ...]  # of the customers, in order
    vehicles: tuple[Mapping[str, Any], ...]
    too_large: tuple[Mapping[str, Any], ...]  # jobs that fit into no vehicle
    seconds: float | None  # options.l
    matrices: Mapping[str, FloatArray]  # durations and distances of the instance's rows

    @property
    def relaxed(self) -> Instance:
        """The same where jobs may stay behind: what VROOM always plans."""
        size = float(self.instance.capacity)
        fleet = Fleet.of_one_kind(size, len(self.vehicles))
        asked = Constraints(fleet, allow_unserved=True)
        return self.instance.replace(constraints=asked)


def read_vroom(parsed: Any, most_customers: int) -> VroomProblem:
    """The instance in a request, or an InputError in sentences."""
    check = Checker()
    document = _row(check, parsed, "the body", KEYS)
    jobs = check.items(document.get("jobs"), "jobs")
    vehicles = check.items(document.get("vehicles"), "vehicles")
    if len(jobs) > most_customers:
        rule = f"the limit is {most_customers}"
        check.complain("E401", "jobs", str(len(jobs)), rule)
    check.stop_if_wrong()
    jobs = [_row(check, j, f"jobs[{i}]", JOB_KEYS) for i, j in enumerate(jobs)]
    vehicles = [
        _row(check, v, f"vehicles[{i}]", VEHICLE_KEYS) for i, v in enumerate(vehicles)
    ]
    if not vehicles:
        check.complain("E306", "vehicles", "none", "must be at least one")
    check.stop_if_wrong()
    _check_ids(check, jobs, "jobs")
    _check_ids(check, vehicles, "vehicles")
    goods = any("capacity" in vehicle for vehicle in vehicles)
    capacity = _same(check, vehicles, "capacity", _capacity) if goods else 0.0
    demands = [_amount(check, job, f"jobs[{i}]", goods) for i, job in enumerate(jobs)]
    for i, job in enumerate(jobs):
        named = f"jobs[{i}].service"
        if not 0 <= check.whole(job.get("service", 0), named) < MOST:
            rule = "seconds, 0 to 4294967295, are needed"
            check.complain("E432", named, str(job["service"]), rule)
    check.stop_if_wrong()
    fitting = [i for i, d in enumerate(demands) if d <= capacity]
    kept = [jobs[i] for i in fitting]
    where, matrices = _places(check, document, vehicles, kept)
    limit = _seconds(check, document.get("options", {}))
    check.stop_if_wrong()
    instance = Instance(
        demands=np.array([0.0, *(demands[i] for i in fitting)]),
        capacity=capacity or 1.0,
        vehicles=len(vehicles),
        name="vroom",
        ids=("depot", *(str(i) for i in range(1, len(kept) + 1))),
        **where,
    )
    large = tuple(job for i, job in enumerate(jobs) if i not in set(fitting))
    return VroomProblem(instance, tuple(kept), tuple(vehicles), large, limit, matrices)


def _seconds(check: Checker, given: Any) -> float | None:
    """The limit in the options; those of vroom-express that ask for nothing may be."""
    if isinstance(given, dict):
        given = {k: v for k, v in given.items() if not (k in UNUSED and v is False)}
    options = _row(check, given, "options", OPTION_KEYS)
    seconds = options.get("l")
    return None if seconds is None else check.number(seconds, "options.l")


def _row(check: Checker, given: Any, where: str, keys: set[str]) -> dict[str, Any]:
    """An object; what VROOM knows and a CVRP does not is named."""
    if isinstance(given, dict):
        for key in sorted(set(given) - keys, key=str):
            rule = (
                f"this service plans without it; known here: {', '.join(sorted(keys))}"
            )
            check.complain("E307", where, key, rule)
        given = {key: value for key, value in given.items() if key in keys}
    return check.mapping(given, where, keys)


def _check_ids(check: Checker, rows: list[dict[str, Any]], name: str) -> None:
    seen: set[int] = set()
    for i, row in enumerate(rows):
        number = check.whole(row.get("id"), f"{name}[{i}].id")
        if number in seen:
            check.complain("E308", f"{name}[{i}].id", str(number), "it is used twice")
        seen.add(number)


def _capacity(check: Checker, row: Mapping[str, Any], where: str) -> float:
    values = check.items(row.get("capacity"), f"{where}.capacity")
    return _single(check, values, f"{where}.capacity")


def _amount(check: Checker, row: Mapping[str, Any], where: str, goods: bool) -> float:
    given = row.get("delivery", row.get("amount"))
    if given is None:
        return 0.0
    if not goods:
        rule = "vehicles need a capacity where jobs have goods"
        check.complain("E306", f"{where}.delivery", rule=rule)
        return 0.0
    return _single(check, check.items(given, f"{where}.delivery"), f"{where}.delivery")


def _single(check: Checker, values: list[Any], where: str) -> float:
    if len(values) != 1:
        rule = "one kind of goods is supported: a list of one number"
        check.complain("E306", where, f"{len(values)} numbers", rule)
        return 0.0
    value = float(check.whole(values[0], f"{where}[0]"))
    if value < 0:
        check.complain("E133", where, str(values[0]), "must be at least 0")
    return value


def _same(check: Checker, rows: list[dict[str, Any]], name: str, read: Any) -> float:
    """A figure that all vehicles share."""
    values = {read(check, row, f"vehicles[{i}]") for i, row in enumerate(rows)}
    if len(values) > 1:
        rule = "vehicles of one capacity are supported here"
        check.complain("E404", f"vehicles.{name}", f"{len(values)} kinds", rule)
    return float(max(values, default=0.0))


def _places(
    check: Checker,
    document: Mapping[str, Any],
    vehicles: list[dict[str, Any]],
    jobs: list[dict[str, Any]],
) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    """Matrix or coordinates, as arguments of Instance, and tables to measure by."""
    matrices = document.get("matrices")
    if matrices is not None:
        return _matrix(check, matrices, vehicles, jobs)
    rows = [
        *(
            (v.get(k), f"vehicles[{i}].{k}")
            for i, v in enumerate(vehicles)
            for k in ("start", "end")
        )
    ]
    starts = [_point(check, value, where) for value, where in rows]
    if len(set(starts)) > 1:
        rule = "one depot is supported: start and end of every vehicle"
        check.complain("E404", "vehicles.start", f"{len(set(starts))} places", rule)
    points = [
        _point(check, j.get("location"), f"jobs[{i}].location")
        for i, j in enumerate(jobs)
    ]
    coords = np.array([starts[0], *points]) if starts else np.zeros((1, 2))
    return {"coords": coords, "metric": "greatcircle"}, {}


def _point(check: Checker, value: Any, where: str) -> tuple[float, float]:
    numbers = check.items(value, where)
    if len(numbers) != 2:
        check.complain("E306", where, f"{len(numbers)} numbers", "[lon, lat] is needed")
        return 0.0, 0.0
    return check.number(numbers[0], where), check.number(numbers[1], where)


def _matrix(
    check: Checker,
    matrices: Any,
    vehicles: list[dict[str, Any]],
    jobs: list[dict[str, Any]],
) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    profiles = {str(vehicle.get("profile", "car")) for vehicle in vehicles}
    if len(profiles) > 1:
        rule = "one profile is supported"
        check.complain("E404", "vehicles.profile", f"{len(profiles)} profiles", rule)
    (profile, *_) = sorted(profiles)
    table = matrices.get(profile) if isinstance(matrices, dict) else None
    named = check.mapping(table, f"matrices.{profile}", MATRIX_KEYS)
    tables = {name: check.square(rows, name) for name, rows in named.items()}
    if "durations" not in named:
        check.complain("E306", f"matrices.{profile}", rule="durations are needed")
    sizes = {len(rows) for rows in tables.values()}
    if len(sizes) > 1:
        rule = "matrices of one size are needed"
        check.complain("E113", f"matrices.{profile}", rule=rule)
    check.stop_if_wrong()
    (size,) = sizes
    at = [
        _index(check, v, k, i, size)
        for i, v in enumerate(vehicles)
        for k in ("start_index", "end_index")
    ]
    if len(set(at)) > 1:
        rule = "one depot is supported: start and end of every vehicle"
        check.complain("E404", "vehicles.start_index", f"{len(set(at))} places", rule)
    nodes = at[:1] + [
        _index(check, j, "location_index", i, size, "jobs") for i, j in enumerate(jobs)
    ]
    check.stop_if_wrong()
    own = {
        name: np.array(rows, dtype=np.float64)[np.ix_(nodes, nodes)]
        for name, rows in tables.items()
    }
    least = own.pop("costs", own["durations"])
    return {"matrix": least, "metric": "matrix"}, own


def _index(
    check: Checker,
    row: Mapping[str, Any],
    key: str,
    i: int,
    most: int,
    name: str = "vehicles",
) -> int:
    where = f"{name}[{i}].{key}"
    at = check.whole(row.get(key), where)
    if not 0 <= at < most:
        check.complain("E306", where, str(at), f"an index below {most} is needed")
        return 0
    return at


def vroom_answer(
    problem: VroomProblem, solution: Solution, milliseconds: int
) -> dict[str, Any]:
    """The routes in VROOM's format; the judge has the last word on the cost."""
    instance = problem.relaxed
    verdict = judge(instance, solution)
    if not verdict.feasible:
        raise InputError(verdict.violations)
    routes = [
        _route(problem, route, problem.vehicles[k])
        for k, route in enumerate(solution.routes)
    ]
    total = {
        key: sum(route[key] for route in routes)
        for key in ("cost", "duration", "service", "waiting_time")
    }
    if all("distance" in route for route in routes):
        total["distance"] = sum(route["distance"] for route in routes)
    delivered = int(sum(verdict.loads))
    left = [problem.jobs[row - 1] for row in verdict.unserved]
    unassigned = [
        {"id": job["id"], "type": "job", **_place(job)}
        for job in (*problem.too_large, *left)
    ]
    summary = {
        **total,
        "setup": 0,
        "unassigned": len(unassigned),
        "routes": len(routes),
        "delivery": [delivered],
        "amount": [delivered],
        "pickup": [0],
        "priority": 0,
        "violations": [],
        "computing_times": {"loading": 0, "solving": milliseconds, "routing": 0},
    }
    return {"code": 0, "summary": summary, "unassigned": unassigned, "routes": routes}


def _route(
    problem: VroomProblem, route: tuple[int, ...], vehicle: Mapping[str, Any]
) -> dict[str, Any]:
    instance = problem.instance
    stops = (0, *route, 0)
    legs = instance.lengths(stops[:-1], stops[1:])
    if instance.metric == "greatcircle":
        metres: FloatArray | None = legs * 1000
        cost = seconds = legs * 1000 / SPEED
    else:
        legs_of = {
            name: table[stops[:-1], stops[1:]]
            for name, table in problem.matrices.items()
        }
        cost, seconds, metres = legs, legs_of["durations"], legs_of.get("distances")
    clock = np.concatenate([[0.0], np.cumsum(seconds)])
    jobs = [problem.jobs[row - 1] if row else None for row in stops]
    works = [int(job.get("service", 0)) if job else 0 for job in jobs]
    worked = np.concatenate([[0], np.cumsum(works)[:-1]])
    way = None if metres is None else np.concatenate([[0.0], np.cumsum(metres)])
    load = int(instance.demands[list(route)].sum())
    steps = []
    for at, (row, job) in enumerate(zip(stops, jobs, strict=True)):
        kind = "job" if job else ("start" if at == 0 else "end")
        load -= int(instance.demands[row])
        step: dict[str, Any] = {
            "type": kind,
            "load": [load],
            "arrival": round(clock[at] + worked[at]),
        }
        step |= {
            "duration": round(clock[at]),
            "service": works[at],
            "setup": 0,
            "waiting_time": 0,
        }
        step |= {"violations": []}
        if way is not None:
            step["distance"] = round(way[at])
        if job:
            step |= {"id": job["id"], "job": job["id"], **_place(job)}
        else:
            step |= _place(vehicle, kind)
        steps.append(step)
    delivered = int(instance.demands[list(route)].sum())
    found = {
        "vehicle": vehicle["id"],
        "cost": round(float(cost.sum())),
        "duration": round(clock[-1]),
        "service": sum(works),
        "setup": 0,
        "waiting_time": 0,
        "priority": 0,
        "delivery": [delivered],
        "amount": [delivered],
        "pickup": [0],
        "violations": [],
        "steps": steps,
    }
    return found if way is None else {**found, "distance": round(way[-1])}


def _place(row: Mapping[str, Any], kind: str = "") -> dict[str, Any]:
    """Where a step is, in the words of the request."""
    found = {}
    for key in ("location", "location_index"):
        given = key if not kind else kind + ("_index" if key.endswith("index") else "")
        if given in row:
            found[key] = row[given]
    return found | (
        {"description": row["description"]} if not kind and "description" in row else {}
    )


def vroom_error(error: ClusterfirstError) -> dict[str, Any]:
    """An error as vroom-express gives it."""
    first: Problem = error.problems[0]
    code = CODES.get(first.code, INPUT_ERROR)
    return {"code": code, "error": str(first)}
