"""Configurations by name or from a file (JSON or TOML) with the same fields."""

from __future__ import annotations

import json
import tomllib
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from clusterfirst.files.source import MEGABYTE, Limits, named, read_text
from clusterfirst.learning.training.configs import TRAINING
from clusterfirst.learning.training.loop import TrainConfig
from clusterfirst.problem.errors import InputError, Problem

BASE = "base"  # key of a file that names the configuration it changes


def read_config(name: str) -> TrainConfig:
    """Return the configuration with this name, or the one in this file.

    A file holds the fields of `TrainConfig`; those it leaves out are the defaults,
    or with `base = "city"` those of a named configuration.
    """
    if name in TRAINING:
        return TRAINING[name]
    path = Path(name)
    if path.suffix not in (".json", ".toml"):
        known = ", ".join(TRAINING)
        rule = f"a name ({known}) or a .json or .toml file is needed"
        raise InputError(Problem("E704", "--config", name, rule))
    with named(path):
        text = read_text(path, Limits(max_bytes=MEGABYTE))
    try:
        values = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        rule = f"it cannot be read: {reason}"
        raise InputError(Problem("E704", "--config", name, rule)) from error
    if not isinstance(values, dict):
        rule = "an object with the fields of a configuration is needed"
        raise InputError(Problem("E704", "--config", name, rule), source=name)
    return config_of(values, source=name)


def config_of(values: dict[str, Any], source: str = "") -> TrainConfig:
    """Build a configuration from plain values; every unknown key is named."""
    values = dict(values)
    base = values.pop(BASE, None)
    if base is not None:
        if not isinstance(base, str) or base not in TRAINING:
            rule = f"known configurations: {', '.join(TRAINING)}"
            raise InputError(Problem("E704", BASE, str(base), rule), source=source)
        values = _merged(TRAINING[base].as_dict(), values)
    problems = _unknown(values, TrainConfig, "")
    if problems:
        raise InputError(problems, source=source)
    try:
        config: TrainConfig = TypeAdapter(TrainConfig).validate_python(values)
    except ValidationError as error:
        raise InputError(_problems(error), source=source) from error
    return config


def _problems(error: ValidationError) -> list[Problem]:
    """What pydantic found, and what the configuration itself refused, as problems."""
    problems: list[Problem] = []
    for each in error.errors():
        refusal = each.get("ctx", {}).get("error")
        if isinstance(refusal, InputError):
            problems.extend(refusal.problems)
            continue
        where = ".".join(str(part) for part in each["loc"]) or "config"
        got = "" if each["type"] == "missing" else str(each["input"])
        problems.append(Problem("E704", where, got, each["msg"]))
    return problems


def _merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """`old` with the leaves of `new` put over it."""
    both = dict(old)
    for key, value in new.items():
        inner = old.get(key)
        if isinstance(value, dict) and isinstance(inner, dict):
            value = _merged(inner, value)
        both[key] = value
    return both


def _unknown(values: dict[str, Any], kind: Any, prefix: str) -> list[Problem]:
    """One problem for each key that is no field, at every depth."""
    hints = get_type_hints(kind)
    known = [each.name for each in fields(kind)]
    problems = []
    for key, value in values.items():
        if key not in known:
            rule = f"no such field; there are {', '.join(known)}"
            problems.append(Problem("E704", prefix + key, rule=rule))
        elif isinstance(value, dict) and is_dataclass(hints[key]):
            problems += _unknown(value, hints[key], f"{prefix}{key}.")
    return problems
