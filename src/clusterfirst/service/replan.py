"""New orders on top of a plan: the changed instance, and its routes to start from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from clusterfirst.files import instance_document
from clusterfirst.files.json_files import instance_of
from clusterfirst.files.strict_json import Checker
from clusterfirst.problem.errors import Problem
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution
from clusterfirst.service.choices import solve_options
from clusterfirst.service.inputs import Body, Wish, document_of
from clusterfirst.service.problems import Refusal
from clusterfirst.service.settings import ServiceLimits

KEYS = {"add", "remove", "options"}


@dataclass(frozen=True)
class Changes:
    """What to plan now."""

    wish: Wish

    def routes(self, old: Instance, solution: Solution) -> list[list[int]]:
        """The old routes in rows of the new instance; who is gone is left out."""
        at = {name: row for row, name in enumerate(self.wish.instance.ids)}
        return [
            [at[old.ids[c]] for c in route if old.ids[c] in at]
            for route in solution.routes
        ]


def read_changes(body: Body, old: Instance, limits: ServiceLimits) -> Changes:
    """The instance with orders added (or given anew, by id) and removed."""
    document = document_of(body, KEYS)
    check = Checker()
    gone = {
        check.text(name, f"remove[{i}]")
        for i, name in enumerate(check.items(document.get("remove", []), "remove"))
    }
    added = check.items(document.get("add", []), "add")
    gone |= {_id_of(check, place, i) for i, place in enumerate(added)} & set(old.ids)
    for name in sorted(gone - set(old.ids[1:])):
        check.complain("E813", "remove", name, "the plan has no such customer")
    check.stop_if_wrong()
    options = document.get("options", {})
    instance = with_changes(old, added, gone, limits)
    return Changes(Wish(instance, solve_options(options, limits), options))


def with_changes(
    old: Instance, added: list[Any], gone: set[str], limits: ServiceLimits
) -> Instance:
    """An instance with customers added and others left out."""
    if old.metric == "matrix":
        rule = "new orders need distances; send a new plan with the whole matrix"
        raise Refusal(Problem("E511", "plan", "a matrix", rule))
    whole: dict[str, Any] = instance_document(old)
    whole.pop("city", None)  # its rows are no longer those of the city's day
    stays = [i for i, name in enumerate(old.ids) if name not in gone]
    whole["customers"] = [whole["customers"][i - 1] for i in stays[1:]] + added
    for name, cells in whole.get("columns", {}).items():
        whole["columns"][name] = [cells[i] for i in stays] + [""] * len(added)
    return instance_of(whole, limits.of_files)


def _id_of(check: Checker, place: Any, i: int) -> str:
    if not isinstance(place, dict):
        check.complain("E306", f"add[{i}]", rule="an object { } is needed")
        return ""
    return check.text(place.get("id"), f"add[{i}].id")
