"""The options a client may choose: methods of ours, models by name, no folders."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

from clusterfirst.files.source import plain_number
from clusterfirst.files.strict_json import Checker
from clusterfirst.networks.model_folder import shipped
from clusterfirst.service.settings import ServiceLimits
from clusterfirst.solving.options import METHODS, Kind, SolveOptions

OPTION_KEYS = {
    "method",
    "time_limit",
    "iterations",
    "seed",
    "fleet",
    "polish",
    "model",
    "seed_sets",
}
LEARNED = "city:"  # and the id of a city: the model it has learned


def word_of(text: str) -> Any:
    """A value of a query as JSON has it: numbers, booleans, else text."""
    if text in ("true", "false"):
        return text == "true"
    if plain_number(text) is None:
        return text
    return int(text) if text.removeprefix("-").isdigit() else float(text)


def solve_options(given: Any, limits: ServiceLimits) -> SolveOptions:
    """The options a client may choose; no peers, no programs, no folders."""
    check = Checker()
    found = check.mapping(given, "options", OPTION_KEYS)
    allowed = [name for name, method in METHODS.items() if method.kind is not Kind.PEER]
    method = found.get("method")
    if method is not None and method not in allowed:
        rule = f"one of {', '.join(allowed)}"
        check.complain("E404", "options.method", str(method), rule)
    if found.get("model") is not None:
        _require_named(found["model"], check)
        found = {"method": "neural", **found}
    limit = found.get("time_limit")
    if isinstance(limit, int | float) and limit > limits.seconds:
        rule = f"at most {limits.seconds:g} seconds here"
        check.complain("E513", "options.time_limit", str(limit), rule)
    for key in ("seed", "iterations", "seed_sets"):
        if key in found and found[key] is not None:
            check.whole(found[key], f"options.{key}")
    for key in ("time_limit",):
        if found.get(key) is not None:
            check.number(found[key], f"options.{key}")
    if not isinstance(found.get("polish", True), bool):
        check.complain("E306", "options.polish", rule="true or false is needed")
    if found.get("iterations") is not None and limit is None:
        found = {**found, "time_limit": limits.seconds}
    wrong = {problem.where for problem in check.problems}
    known = {f.name for f in fields(SolveOptions)} & OPTION_KEYS
    known = {name for name in known if f"options.{name}" not in wrong}
    chosen = {k: v for k, v in found.items() if v is not None and k in known}
    options = SolveOptions()
    with check.going_on():
        options = SolveOptions(**{"threads": 1, **chosen})
    check.stop_if_wrong()
    return options


def _require_named(name: Any, check: Checker) -> None:
    """A model by its name; a folder of the machine is nobody's business."""
    own = isinstance(name, str) and re.fullmatch(LEARNED + "[A-Za-z0-9]{1,40}", name)
    if not own and name not in list(shipped()):
        rule = f"known here: {', '.join(shipped())}, and {LEARNED}ID of a city"
        check.complain("E403", "options.model", "another name", rule)
