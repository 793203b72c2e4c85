"""What `learn` says at the end: the city's model beside the one it began with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from clusterfirst.learning.training.validation import SolvedGap, Validation
from clusterfirst.networks.model_folder import Model, save_model
from clusterfirst.solving.solver import SolveOptions, solve

POLISH_SECONDS = 0.3  # of which the card tells


def words(days: Validation, which: str, gaps: Sequence[float], after: str) -> str:
    """The card's sentence in the user's words: the city's model, then the general.

    `after` is what `polished_words` says.
    """
    first, *second = (f"{100 * gap:.1f} %" for gap in gaps)
    other = f" (general: {second[0]})" if second else ""
    chose = " These days also chose between the two." if second else ""
    than = f"HGS of {days.seconds:g} s"
    return (
        f"On {len(days.instances)} {which}: {first} above {than} without "
        f"search{other}; after {POLISH_SECONDS:g} s of polish {after}.{chose}"
    )


def polished_words(days: Validation, models: Sequence[Model], most: int) -> str:
    """The gaps after a short polish of the first `most` days, in the same order."""
    some = Validation(days.instances[:most], days.costs[:most], days.seconds)
    first, *second = (f"{100 * _polished_gap(some, each):.1f} %" for each in models)
    fewer = len(some.instances) < len(days.instances)
    other = f" ({second[0]})" if second else ""
    return first + other + (f" on {len(some.instances)} of them" if fewer else "")


def _polished_gap(days: Validation, model: Model) -> float:
    with TemporaryDirectory() as folder:
        save_model(Path(folder) / "model", model, "")
        options = SolveOptions(
            "neural", POLISH_SECONDS, model=str(Path(folder) / "model")
        )
        costs = [solve(day, options).verdict.cost for day in days.instances]
    return float(np.mean(np.array(costs) / days.costs - 1))


def failures(name: str, gap: SolvedGap) -> str:
    """One sentence about the worst days of a size."""
    worst = np.nanmax(gap.each) if gap.unsolved < 1 else math.nan
    return (
        f"{name}: {100 * gap.unsolved:.0f} % of the days have no feasible answer "
        f"without search; the worst solved day is {100 * worst:.1f} % above HGS."
    )


def keep(start: Model, out: Path, more: dict[str, Any]) -> Model:
    """Write the weights it began with, in place of those that are no better."""
    more = more | {"kept": start.name}
    sentence = f"{more['words']} The city's own model was no better and is not used."
    card = f"# {start.name}, kept\n\n{sentence}\n"
    model = replace(start, provenance=start.provenance | more)
    save_model(out, model, card)
    return model
