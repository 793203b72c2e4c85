"""Customers on other routes: the routes that would be, judged like any others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from clusterfirst.files.plan import plan_of
from clusterfirst.files.strict_json import Checker
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution
from clusterfirst.service.problems import Refusal
from clusterfirst.solving.alternatives import alternatives


def moved_to(
    instance: Instance, solution: Solution, customer: str, route: int | None
) -> Solution:
    """The routes with a customer at the cheapest place of another route."""
    c = row_of(instance, customer)
    routes = [[r for r in stops if r != c] for stops in solution.routes]
    vehicles = None if solution.vehicles is None else list(solution.vehicles)
    if route is None:
        routes.append([c])
        if vehicles is not None:
            vehicles.append(_idle(vehicles))
    elif not 1 <= route <= len(routes):
        rule = f"1 to {len(routes)}, or null for a route of its own"
        raise InputError(Problem("E404", "route", str(route), rule))
    else:
        stops = routes[route - 1]
        path, onward = np.array([0, *stops]), np.array([*stops, 0])
        extra = (
            instance.lengths(path, c)
            + instance.lengths(c, onward)
            - instance.lengths(path, onward)
        )
        stops.insert(int(extra.argmin()), c)
    left = [k for k, stops in enumerate(routes) if stops]
    drives = None if vehicles is None else [vehicles[k] for k in left]
    return Solution([routes[k] for k in left], drives)


def read_move(document: Mapping[str, Any]) -> tuple[int | None, bool]:
    """The route of a body, None for one of its own, and whether to go there."""
    check = Checker()
    route, apply = document.get("route"), document.get("apply", False)
    number = None if route is None else check.whole(route, "route")
    if not isinstance(apply, bool):
        check.complain("E306", "apply", rule="true or false is needed")
    check.stop_if_wrong()
    return number, apply


def _idle(vehicles: Sequence[int]) -> int:
    """The first vehicle that stays at home; the judge knows whether there is one."""
    return next(v for v in range(len(vehicles) + 1) if v not in vehicles)


def row_of(instance: Instance, customer: str) -> int:
    """The row of a customer's id."""
    try:
        row = instance.ids.index(customer)
    except ValueError:
        row = 0
    if row == 0:
        rule = "the plan has no such customer"
        raise Refusal(Problem("E813", "customer", customer, rule))
    return row


def offers(instance: Instance, solution: Solution, c: int) -> list[dict[str, Any]]:
    """What a customer would cost on each other route; those that fit come first."""
    found = [
        {
            "route": None if other.route is None else other.route + 1,
            "price": other.extra,
            "fits": not other.broken,
        }
        for other in alternatives(instance, solution, c)[0]
    ]
    return sorted(found, key=lambda offer: (not offer["fits"], offer["price"]))


def alone(instance: Instance, solution: Solution) -> Solution:
    """The routes, and the last customer on one of its own."""
    drives = solution.vehicles
    return Solution(
        (*solution.routes, (instance.num_customers,)),
        None if drives is None else (*drives, _idle(drives)),
    )


def unused_name(ids: Sequence[str]) -> str:
    """A name that no customer has."""
    name = "new order"
    while name in ids:
        name += "'"
    return name


def figures(instance: Instance, solution: Solution) -> dict[str, Any]:
    """What a dispatcher asks of each route: length, room and, where known, minutes."""
    plan = plan_of(instance, solution)
    found: dict[str, Any] = {
        "lengths": list(plan.verdict.lengths),
        "capacities": [route.capacity for route in plan.routes],
        "customers": instance.num_customers,
    }
    if plan.timed:
        found["minutes"] = list(plan.verdict.minutes)
    return found
