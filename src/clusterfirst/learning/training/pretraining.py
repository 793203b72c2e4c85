"""Pre-training a city: the loop around `embed.py`, resumable, and its pictures.

Everything drawn is a function of (seed, epoch), so a run that was killed goes on
from its last checkpoint and ends with the same bytes as one that was not (same
machine, same number of threads). The folder holds, newest always whole:

    psi.safetensors, psi.json   the table, and what it was made of
    curve.csv                   losses by epoch
    error.png, embedding.png    pictures, once finished
    checkpoints/                where a run goes on
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor

from clusterfirst.files.atomic import make_folder, write_bytes, write_text
from clusterfirst.files.lock import locked
from clusterfirst.files.outputs import Outputs
from clusterfirst.files.picture import write_figure
from clusterfirst.files.source import MEGABYTE, read_bytes
from clusterfirst.files.strict_json import write_json
from clusterfirst.learning.training.checkpoint import (
    UNREADABLE,
    Checkpoint,
    has_begun,
    load_checkpoint,
    save_checkpoint,
)
from clusterfirst.networks.trainable.embed import (
    Autoencoder,
    EmbedSettings,
    Graph,
    Losses,
    city_graph,
    draw_masks,
    masked_losses,
    table_errors,
)
from clusterfirst.problem.city import City
from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import FloatArray

CHECKPOINTS = "checkpoints"  # where a run goes on
CHECK_EVERY = 25  # epochs between checkpoints and held-out checks
HELD_OUT = 2**62  # index of the held-out maskings; no epoch gets there
HELD_OUT_MASKINGS = 2
PROGRESS = 0.01  # relative: less is called flat
MAX_TABLE = 1024 * MEGABYTE
CURVE = "epoch,distance,linked,held_out_distance,held_out_linked,seconds"


@dataclass(frozen=True)
class Progress:
    """Where a run stands, for a progress line."""

    epoch: int
    end: int  # epoch at which it ends as things stand
    losses: Losses
    held_out: float  # distance error, share of the mean distance; nan at first


@dataclass(frozen=True, eq=False)
class Pretrained:
    """The table of a city and the facts in its psi.json."""

    psi: Tensor  # (|X| + 1, psi_width) float32
    facts: dict[str, Any]


@dataclass
class _State:
    """What a checkpoint remembers beside the tensors."""

    epoch: int
    end: int
    best: float = math.inf
    best_epoch: int = 0
    seconds: float = 0.0
    reason: str = "all epochs done"
    curve: tuple[tuple[float, ...], ...] = ()


def pretrain(
    city: City,
    settings: EmbedSettings,
    folder: str | os.PathLike[str],
    *,
    on_progress: Callable[[Progress], None] | None = None,
    deadline: Deadline | None = None,
) -> Pretrained:
    """Pre-train `city` into `folder`, or go on where an earlier run stopped.

    When `deadline` passes, the run checkpoints and returns what it has; calling
    again goes on. The number of threads is the caller's affair.
    """
    with locked(folder) as place:
        _claim(place)
        run = _Run(city, settings, place)
        deadline = deadline or Deadline.never()
        while run.state.epoch < run.state.end and not deadline.passed():
            losses = run.step()
            if run.state.epoch % CHECK_EVERY == 0 or run.state.epoch == run.state.end:
                run.check(losses)
            if on_progress is not None:
                curve = run.state.curve
                held_out = curve[-1][3] if curve else math.nan
                on_progress(Progress(run.state.epoch, run.state.end, losses, held_out))
        if 0 < run.state.epoch < run.state.end:
            run.save()  # without a check: a pause leaves no trace in the curve
        result = run.write_table()
        if run.state.epoch == run.state.end:
            _draw(city, run, place)
        return result


def _claim(folder: Path) -> None:
    """Take the folder; `train` leaves checkpoints too, but a configuration beside."""
    root, files = folder / CHECKPOINTS, ("psi.safetensors", "psi.json", "curve.csv")
    names = [*files, "error.png", "embedding.png", f"{CHECKPOINTS}/"]
    ours = has_begun(root) and not (folder / "config.json").exists()
    Outputs().resumed(folder, names, ours=ours)
    make_folder(root)


def load_psi(folder: str | os.PathLike[str], city: City) -> Pretrained:
    """Read the table of `city` from a folder; refuse any other city's."""
    place = Path(folder)
    try:
        facts = json.loads(read_bytes(place / "psi.json"))
        psi = load(read_bytes(place / "psi.safetensors", MAX_TABLE))["psi"]
        known = str(facts["city_hash"])
    except UNREADABLE as error:
        rule = f"no table Psi could be read ({error}); clusterfirst pretrain makes one"
        raise InputError(Problem("E701", "psi", str(place), rule)) from error
    if known != city.hash:
        rule = f"it was made for another city ({known[:12]}, not {city.hash[:12]})"
        raise InputError(Problem("E405", "psi", str(place), rule))
    if len(psi) != len(city.coords) or not bool(torch.isfinite(psi).all()):
        rule = f"a table of {len(city.coords)} rows of finite numbers is needed"
        raise InputError(Problem("E701", "psi", f"shape {tuple(psi.shape)}", rule))
    return Pretrained(psi, facts)


class _Run:
    """Model, optimiser and state of one run in its folder."""

    def __init__(self, city: City, settings: EmbedSettings, place: Path) -> None:
        self.city, self.settings, self.place = city, settings, place
        self.graph: Graph = city_graph(city, settings)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            self.model = Autoencoder(self.graph, settings)
        self.adam = torch.optim.Adam(self.model.parameters(), lr=settings.rate)
        held = replace(settings, maskings=HELD_OUT_MASKINGS)
        self.held_out = draw_masks(self.graph, held, HELD_OUT)
        self.state = _State(epoch=0, end=settings.epochs)
        self._resume()

    def step(self) -> Losses:
        """One optimiser step over the epoch's maskings."""
        began = time.perf_counter()
        state, settings = self.state, self.settings
        rate = settings.rate * min(1.0, (state.end - state.epoch) / settings.cooldown)
        for group in self.adam.param_groups:
            group["lr"] = rate
        self.adam.zero_grad()
        masks = draw_masks(self.graph, settings, state.epoch)
        losses = masked_losses(self.model, masks, learn=True)
        if not math.isfinite(losses.distance + losses.linked):
            rule = "the losses are no longer finite; a smaller rate may help"
            raise InputError(Problem("E722", "pretrain", f"epoch {state.epoch}", rule))
        self.adam.step()
        state.epoch += 1
        state.seconds += time.perf_counter() - began
        return losses

    def check(self, losses: Losses) -> None:
        """Measure the held-out error, decide whether to cool down, checkpoint."""
        state, settings = self.state, self.settings
        held = masked_losses(self.model, self.held_out, learn=False)
        now = (*asdict(losses).values(), *asdict(held).values())
        row = (state.epoch, *(round(v, 6) for v in now), round(state.seconds, 1))
        state.curve = (*state.curve, row)
        error = held.distance + held.linked
        if error < state.best * (1 - PROGRESS):
            state.best, state.best_epoch = error, state.epoch
        flat = 0 < settings.patience <= state.epoch - state.best_epoch
        if flat and state.epoch + settings.cooldown < state.end:
            state.end = state.epoch + settings.cooldown
            state.reason = f"held-out error flat since epoch {state.best_epoch}"
        self.save()
        self.write_table()

    def save(self) -> None:
        """Write a checkpoint from which a run goes on bit for bit."""
        moments: dict[str, Tensor] = {}
        for name, parameter in self.model.named_parameters():
            for key, value in self.adam.state[parameter].items():
                moments[f"{key}/{name}"] = value
        tensors = {"model": self.model.state_dict(), "adam": moments}
        facts = {**self._identity(), **asdict(self.state)}
        checkpoint = Checkpoint(tensors, facts)
        save_checkpoint(self.place / CHECKPOINTS, self.state.epoch, checkpoint)

    def _resume(self) -> None:
        found = load_checkpoint(self.place / CHECKPOINTS)
        if found is None:
            return
        if {key: found.state.get(key) for key in self._identity()} != self._identity():
            rule = (
                "the folder holds a run of another city or with other settings; "
                "choose another folder or remove it"
            )
            raise InputError(Problem("E721", "pretrain", str(self.place), rule))
        names = _State.__dataclass_fields__
        self.state = _State(**{key: found.state[key] for key in names})
        self.state.curve = tuple(tuple(row) for row in found.state["curve"])
        self.model.load_state_dict(found.tensors["model"])
        for name, parameter in self.model.named_parameters():
            self.adam.state[parameter] = {
                key: found.tensors["adam"][f"{key}/{name}"]
                for key in ("step", "exp_avg", "exp_avg_sq")
            }

    def _identity(self) -> dict[str, Any]:
        """What must agree for a run to go on, as JSON gives it back."""
        settings: dict[str, Any] = json.loads(json.dumps(asdict(self.settings)))
        return {"city_hash": self.city.hash, "settings": settings}

    def write_table(self) -> Pretrained:
        """Write psi, its facts and the curve; each file is replaced whole."""
        psi = self.model.table_psi()
        errors = table_errors(self.model, psi)
        state = self.state
        facts = {
            **self._identity(),
            "locations": self.city.num_locations,
            "epochs": state.epoch,
            "finished": state.epoch == state.end,
            "reason": state.reason if state.epoch == state.end else "still running",
            "mean_distance": self.graph.scale,
            "held_out": dict(zip(CURVE.split(","), state.curve[-1], strict=True))
            if state.curve
            else {},
            "table_distance_error": float(errors.mean()),
            "epochs_per_second": round(state.epoch / max(state.seconds, 1e-9), 4),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
        }
        lines = [",".join(f"{value:g}" for value in row) for row in state.curve]
        write_text(self.place / "curve.csv", "\n".join([CURVE, *lines, ""]))
        write_bytes(self.place / "psi.safetensors", save({"psi": psi.contiguous()}))
        write_json(self.place / "psi.json", facts)
        return Pretrained(psi, facts)


# --- pictures -----------------------------------------------------------------------


def colours_of(psi: Tensor) -> FloatArray:
    """(m, 3) red, green, blue in 0..1: the three main directions of the table."""
    centred = psi.double() - psi.double().mean(dim=0)
    main = torch.linalg.svd(centred, full_matrices=False).Vh[:3]
    along = (centred @ main.T).numpy()
    low, high = np.quantile(along, [0.02, 0.98], axis=0)
    scaled = (along - low) / np.where(high > low, high - low, 1.0)
    colours: FloatArray = np.clip(scaled, 0.0, 1.0)
    if colours.shape[1] < 3:  # two locations have one direction only
        colours = np.pad(colours, ((0, 0), (0, 3 - colours.shape[1])))
    return colours


def _draw(city: City, run: _Run, place: Path) -> None:
    """Write error.png (curve, and error by location) and embedding.png."""
    from matplotlib.figure import Figure

    psi = run.model.table_psi()
    errors = 100 * table_errors(run.model, psi).numpy()
    curve = np.array(run.state.curve)
    points = city.day(
        np.arange(1, len(city.coords)), np.zeros(city.num_locations), capacity=1
    ).plane
    size = 12 * math.sqrt(1000 / max(1000, len(points)))

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for column, label in ((1, "distance"), (2, "links"), (3, "distance, held out")):
        left.plot(curve[:, 0], curve[:, column], label=label)
    left.plot(curve[:, 0], curve[:, 4], label="links, held out")
    left.set(yscale="log", xlabel="epoch", ylabel="loss", title="Reconstruction")
    left.legend(frameon=False)
    shown = right.scatter(
        points[:, 0], points[:, 1], c=errors, s=size, vmin=0, cmap="viridis"
    )
    figure.colorbar(shown, ax=right, label="% of the mean distance")
    right.set(title="Distance error of each location", aspect="equal")
    write_figure(place / "error.png", lambda: figure)

    colours = Figure(figsize=(5.6, 5.6), layout="constrained")
    axes = colours.subplots()
    axes.scatter(points[:, 0], points[:, 1], c=colours_of(psi), s=size)
    axes.plot(*points[0], marker="s", markersize=7, color="black")
    axes.set(title="Psi: three main directions as colours", aspect="equal")
    write_figure(place / "embedding.png", lambda: colours)
