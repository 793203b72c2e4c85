"""From a run to what others use: a model folder, or its averaged weights alone.

Works at any moment of a run: the newest good checkpoint counts.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from clusterfirst.files.city_folder import read_city
from clusterfirst.files.source import read_bytes
from clusterfirst.files.verified_folder import MANIFEST, read_folder, write_folder
from clusterfirst.learning.training.batches import LARGEST
from clusterfirst.learning.training.checkpoint import UNREADABLE, load_checkpoint
from clusterfirst.learning.training.config_files import config_of_run
from clusterfirst.learning.training.curves import read_curve
from clusterfirst.learning.training.loop import TrainConfig, learned, load_learned
from clusterfirst.learning.training.pretraining import MAX_TABLE
from clusterfirst.learning.training.run import CHECKPOINTS, Start
from clusterfirst.networks.config import KNOWS_CITY
from clusterfirst.networks.model_folder import (
    Model,
    all_training,
    load_model,
    save_model,
    shipped,
)
from clusterfirst.networks.trainable.router import Router, router_of
from clusterfirst.problem.errors import InputError, Problem

WEIGHTS = "average.safetensors"
FACTS = "facts.json"


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """The averaged weights of a run and what is known about them."""

    config: TrainConfig
    weights: dict[str, Tensor]
    facts: dict[str, Any]  # passes, seconds, steps, labels, validation


def read_run(run: Path) -> FinishedRun:
    """Read the newest checkpoint of a run folder."""
    found = load_checkpoint(run / CHECKPOINTS)
    if found is None:
        rule = "no checkpoint of a training run is there"
        raise InputError(Problem("E403", "run", str(run), rule))
    state = found.state
    config = config_of_run(state["config"])
    group = "average" if state["averaged"] else "model"
    facts = {
        "passes": state["passes"],
        "training_seconds": round(state["seconds"], 1),
        "steps": f"{state['step']} of {config.steps}",
        "averaged_over": f"{state['averaged']} steps, {config.average}",
        "labels": state["labels"],
        "reach": _reach(state["labels"], config),
        "before": state.get("before"),  # training of the weights it began with
    }
    gaps = run / "validation.csv"
    if gaps.exists() and read_curve(gaps)["gap"]:
        last = {name: values[-1] for name, values in read_curve(gaps).items()}
        facts["validation_gap"] = last["gap"]
        facts["validation_unsolved"] = last["unsolved"]
        facts["validation_at_step"] = int(last["step"])
    return FinishedRun(config, found.tensors[group], facts)


def _reach(labels: list[dict[str, Any]], config: TrainConfig) -> dict[str, Any]:
    """Least and most of everything the run has seen, parts of labels included."""
    known = [fact["reach"] for fact in labels if "reach" in fact]
    if not known:
        return {}
    reach = {
        name: [min(r[name][0] for r in known), max(r[name][1] for r in known)]
        for name in known[0]
    }
    if config.batches.part_share > 0:
        least = config.batches.least_customers
        reach["customers"][0] = min(reach["customers"][0], least)
    reach["customers"][1] = min(reach["customers"][1], LARGEST)  # more are always cut
    return reach


def export_model(
    run: Path, out: Path, *, command: str = "", more: dict[str, Any] | None = None
) -> Model:
    """Write a model folder with card and provenance; `more` are further facts."""
    done = read_run(run)
    psi = city = None
    if done.config.model.input in KNOWS_CITY:
        psi = load(read_bytes(run / "psi.safetensors", MAX_TABLE))["psi"]
        city = read_city(run / "city")
    router = Router(done.config.model, psi)
    load_learned(router, done.weights)
    provenance = {
        "command": command,
        **done.facts,
        **(more or {}),
        "config": done.config.as_dict(),
        "commit": _commit(),
        "torch": torch.__version__,
    }
    weights = router.weights()
    model = Model(out.name, done.config.model, weights, provenance, city)
    save_model(out, model, model_card(model))
    return model


def export_weights(run: Path, out: Path) -> None:
    """Write the averaged weights alone: what `--init` needs to go on from here."""
    done = read_run(run)
    facts = {**done.facts, "config": done.config.as_dict()}
    write_folder(
        out,
        {
            WEIGHTS: save({k: v.contiguous() for k, v in done.weights.items()}),
            FACTS: json.dumps(facts, indent=1).encode(),
        },
    )


def read_start(name: str) -> Start:
    """Weights to begin with: a shipped model, a model folder or exported weights."""
    folder = Path(name)
    if name in shipped() or not (folder / WEIGHTS).is_file():
        model = load_model(name)
        return Start(
            learned(router_of(model.config, model.weights)),
            *all_training(model.provenance),
        )
    try:
        files = read_folder(folder)
        return Start(load(files[WEIGHTS]), *all_training(json.loads(files[FACTS])))
    except UNREADABLE as error:
        rule = f"{MANIFEST} does not fit the folder; export the weights again"
        raise InputError(Problem("E701", "--init", str(error), rule)) from error


def start_of_run(run: Path) -> Start:
    """The averaged weights of a run, to begin another one with."""
    done = read_run(run)
    return Start(done.weights, *all_training(done.facts))


def model_card(model: Model) -> str:
    """A model card with every figure that is known, as Markdown."""
    known = model.provenance
    config = model.config
    passes, seconds = all_training(known)
    layers = f"{config.seed_layers}+{config.cluster_layers} layers of {config.width}"
    place = f", for the city {model.city.name or '(unnamed)'}" if model.city else ""
    labels = ", ".join(f"{fact['count']:,}" for fact in known["labels"])
    gaps = known.get("gaps", {})
    if not gaps and "validation_gap" in known:
        gaps = {"validation": known["validation_gap"]}
    rows = [f"| {name} | {100 * gap:.2f} % |" for name, gap in gaps.items()]
    table = ["| instances | mean gap to HGS, search-free |", "|---|---|", *rows]
    fails = known.get("fails") or "Not measured yet."
    words = known.get("words")
    own_days = ["## On days of your city", "", words, ""] if words else []
    return "\n".join(
        [
            f"# {model.name}",
            "",
            f"Input `{config.input}`, {layers}, "
            f"{model.num_parameters():,} parameters{place}.",
            "",
            f"- passes: {passes:,}, {known['passes']:,} of them in this run "
            f"({known['steps']} steps)",
            f"- hours of training: {seconds / 3600:.2f}",
            f"- labels: {labels}",
            f"- command: `{known['command']}`",
            "",
            *own_days,
            "## Gaps",
            "",
            *(table if rows else ["Not measured yet."]),
            "",
            "## Where it fails",
            "",
            fails,
            "",
        ]
    )


def _commit() -> str:
    """Commit of the source tree, or nothing where there is none."""
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip()
