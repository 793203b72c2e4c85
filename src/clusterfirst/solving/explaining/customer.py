"""One order in five sentences: where it is, why, and what other vehicles would cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from clusterfirst.files.solutions import route_names
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.problem.staying import reasons_to_stay
from clusterfirst.solving.alternatives import Alternative, alternatives

MOST_NAMED = 6


@dataclass(frozen=True)
class Reasons:
    """Why an order is where it is."""

    order: str
    sentences: tuple[str, ...]
    others: tuple[Alternative, ...]  # cheapest first
    farther: int = 0  # vehicles that were not looked at

    def as_dict(self) -> dict[str, Any]:
        """Everything for JSON."""
        return {
            "customer": self.order,
            "sentences": list(self.sentences),
            "vehicles": [
                {"vehicle": a.vehicle, "extra": a.extra, "breaks": list(a.broken)}
                for a in self.others
            ],
            "not_looked_at": self.farther,
        }


def why(instance: Instance, solution: Solution, order: str) -> Reasons:
    """Explain where one order is; raises InputError for an id that is none."""
    if order not in instance.ids[1:]:
        rule = "the instance has no order of this id"
        raise InputError(Problem("E813", "--customer", order, rule))
    row = instance.ids.index(order)
    verdict = judge(instance, solution)
    wrong = [p for p in verdict.violations if p.code in ("E803", "E804", "E829")]
    if wrong:
        raise InputError(wrong)
    others, farther = alternatives(instance, solution, row)
    free = [other for other in others if not other.broken]
    if row in verdict.unserved:
        first = _unserved(instance, solution, row, others)
    else:
        first = _where(instance, solution, row)
    sentences = [
        *first,
        _cheapest(instance, others),
        _all(others, farther),
        _binding(free, others),
    ]
    return Reasons(order, tuple(sentences), tuple(others), farther)


def _where(instance: Instance, solution: Solution, row: int) -> list[str]:
    names = route_names(instance, solution)
    k = next(k for k, route in enumerate(solution.routes) if row in route)
    route, ids = solution.routes[k], instance.ids
    at = route.index(row)
    walk = (0, *route, 0)
    a, b = walk[at], walk[at + 2]
    saved = float(
        instance.lengths(a, row) + instance.lengths(row, b) - instance.lengths(a, b)
    )
    verdict = judge(instance, solution)
    unit = f" {instance.unit}" if instance.unit else ""
    name = names[k] if instance.constraints is not None else f"route {names[k]}"
    first = (
        f"Order {ids[row]} (demand {float(instance.demands[row]):.10g}) is stop "
        f"{at + 1} of {len(route)} on {name}, between {ids[a]} and {ids[b]}."
    )
    second = (
        f"It makes that route {saved:.5g}{unit} longer; the route has load "
        f"{verdict.loads[k]:.10g} and {verdict.lengths[k]:.5g}{unit}"
    )
    if verdict.minutes:
        second += f", {verdict.minutes[k]:.0f} minutes"
    return [first, second + "."]


def _unserved(
    instance: Instance, solution: Solution, row: int, others: list[Alternative]
) -> list[str]:
    order = instance.ids[row]
    return [
        f"Order {order} (demand {float(instance.demands[row]):.10g}) is not served: "
        f"{reasons_to_stay(instance, solution)[order]}.",
        f"Of {len(others)} vehicles, {sum(not o.broken for o in others)} could take it "
        "as they are.",
    ]


def _cheapest(instance: Instance, others: list[Alternative]) -> str:
    if not others:
        return "There is no other vehicle."
    best = others[0]
    unit = f" {instance.unit}" if instance.unit else ""
    change = "more" if best.extra >= 0 else "less"
    against = (
        f"but breaks: {', '.join(best.broken)}"
        if best.broken
        else "and breaks no limit"
    )
    return (
        f"The nearest other vehicle is {best.vehicle}: there the plan costs "
        f"{abs(best.extra):.5g}{unit} {change}, {against}."
    )


def _all(others: list[Alternative], farther: int) -> str:
    if len(others) < 2:
        return "No further vehicle comes into question."
    named = "; ".join(other.said for other in others[1 : MOST_NAMED + 1])
    more = len(others) - 1 - MOST_NAMED
    said = f"The others: {named}{f'; and {more} more' if more > 0 else ''}"
    return said + (f"; {farther} farther ones were not looked at." if farther else ".")


def _binding(free: list[Alternative], others: list[Alternative]) -> str:
    gains = [other for other in free if other.extra < 0]
    if gains:
        other = gains[0].vehicle
        return f"It could move to {other} at once, and the plan would be shorter."
    cheaper = [other for other in others if other.broken and other.extra < 0]
    if cheaper:
        limits = dict.fromkeys(word for other in cheaper for word in other.broken)
        return f"What keeps it from a cheaper vehicle: {', '.join(limits)}."
    if free:
        if len(free) == 1:
            return "No limit binds: one other vehicle has room and costs more."
        return f"No limit binds: {len(free)} other vehicles have room and cost more."
    limits = dict.fromkeys(word for other in others for word in other.broken)
    return f"No other vehicle can take it: {', '.join(limits) or 'there is none'}."
