"""Customers on other routes: the routes that would be, judged like any others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from clusterfirst.files.plan import plan_of
from clusterfirst.files.strict_json import Checker
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.service.problems import Refusal
from clusterfirst.solving.explaining.explain import prices


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


def saved_without(instance: Instance, solution: Solution, c: int) -> float:
    """What a route gets shorter without a customer."""
    route = next(route for route in solution.routes if c in route)
    stops = (0, *route, 0)
    at = stops.index(c)
    a, b = stops[at - 1], stops[at + 1]
    return float(
        instance.lengths(a, c) + instance.lengths(c, b) - instance.lengths(a, b)
    )


def other_routes(
    instance: Instance, solution: Solution, c: int, own: int
) -> list[dict[str, Any]]:
    """What a customer would cost on every other route; those that fit come first."""
    found = []
    for k, price in enumerate(prices(instance, solution, np.array([c]))[0].tolist()):
        if k != own:
            fits = _fits(instance, solution, c, k)
            found.append({"route": k + 1, "price": price, "fits": fits})
    return sorted(found, key=lambda offer: (not offer["fits"], offer["price"]))


def _fits(instance: Instance, solution: Solution, c: int, route: int) -> bool:
    """Whether a route has room; with limits of other kinds the judge is asked."""
    if instance.constraints is None:
        load = int(instance.demand_units[[*solution.routes[route], c]].sum())
        return load <= instance.capacity_units
    moved = moved_to(instance, solution, instance.ids[c], route + 1)
    return judge(instance, moved).feasible


def offers(instance: Instance, solution: Solution) -> list[dict[str, Any]]:
    """What the last customer, who is on no route yet, would cost on each of them."""
    begun, new = alone(instance, solution), instance.ids[-1]
    found: list[dict[str, Any]] = []
    for route in [None, *range(1, len(solution.routes) + 1)]:
        verdict = judge(instance, moved_to(instance, begun, new, route))
        found.append({"route": route, "price": verdict.cost, "fits": verdict.feasible})
    before = judge(instance, solution).cost
    for offer in found:
        offer["price"] -= before
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
