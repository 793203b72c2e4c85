"""Configurations of training: by name, or from a file with the same fields.

Named are the paper's as printed, and ours. What the paper leaves open (the contrastive
temperature, m, the schedule of the rate) is listed in docs/reading-the-paper.md.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from clusterfirst.files.source import MEGABYTE, Limits, named, read_text
from clusterfirst.learning.training.batches import BatchSettings
from clusterfirst.learning.training.loop import TrainConfig
from clusterfirst.learning.training.losses import LossSettings
from clusterfirst.networks.config import CONFIGS
from clusterfirst.problem.errors import InputError, Problem

PAPER_INSTANCES = 1_000_000  # of N = 100 (Section 3)
PAPER_BATCH = 256
PAPER_EPOCHS = 30

# Appendix E. A constant rate: the text argues for a sustained high one and names no
# schedule. Whole instances only, and no augmentation.
_PAPER = TrainConfig(
    model=CONFIGS["paper"],
    steps=PAPER_EPOCHS * -(-PAPER_INSTANCES // PAPER_BATCH),
    losses=LossSettings(transport="unrolled", contrast_weight=0.05 * 100),
    batches=BatchSettings(tokens=PAPER_BATCH * 101, part_share=0.0, seed_pool=2),
    learning_rate=0.006,
    warm_up=0.0,
    decay=0.0,
    average="swa",
    epoch=-(-PAPER_INSTANCES // PAPER_BATCH),
)
# Steps are a default for two cores; `clusterfirst train` takes another number.
_OURS = TrainConfig(model=CONFIGS["city-one-layer"], steps=20_000)
# A quarter of the batches comes from large labels, so that routes far from each other
# are seen together. Muon needs 0.7 of AdamW's steps (log/).
_RELATIVE = replace(
    _OURS,
    model=CONFIGS["general"],
    batches=BatchSettings(
        tokens=3232,
        part_share=0.3,
        large_share=0.25,
        own_seeds=0.2,
        centre_seeds=0.5,
    ),
    decay=0.4,
    optimiser="muon",
)

TRAINING: dict[str, TrainConfig] = {
    "paper": _PAPER,
    "paper-standard": replace(_PAPER, model=CONFIGS["paper-standard"]),
    "paper-one-layer": replace(_PAPER, model=CONFIGS["paper-one-layer"]),
    "city": replace(_RELATIVE, model=CONFIGS["city"]),
    "city-one-layer": _OURS,
    "general": _RELATIVE,
}


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
    return config_of_run(values, source)


def config_of_run(values: dict[str, Any], source: str = "") -> TrainConfig:
    """Build the configuration of a run; settings that have gone since are passed by."""
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
