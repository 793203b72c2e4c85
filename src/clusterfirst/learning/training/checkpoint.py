"""Checkpoints that survive `kill -9` at any moment.

One folder per checkpoint, written beside and renamed into place, with a manifest of
sizes and SHA-256 sums; the newest one that verifies is the one that counts. Tensors
are safetensors, everything else JSON: nothing is ever unpickled.
"""

from __future__ import annotations

import json
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from clusterfirst.files.verified_folder import read_folder, write_folder
from clusterfirst.problem.errors import InputWarning

KEEP = 2  # checkpoints kept beside the newest
STATE = "state.json"
UNREADABLE = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
    SafetensorError,
)


@dataclass(frozen=True)
class Checkpoint:
    """Named groups of tensors, and plain values."""

    tensors: dict[str, dict[str, Tensor]]
    state: dict[str, Any]


def save_checkpoint(root: Path, step: int, checkpoint: Checkpoint) -> None:
    """Write `root/step-N` and drop all but the newest few.

    One process at a time may write to `root`: leftovers of killed ones are removed.
    """
    files = {
        f"{name}.safetensors": save({k: v.contiguous() for k, v in group.items()})
        for name, group in checkpoint.tensors.items()
    }
    state = {"step": step, **checkpoint.state}
    files[STATE] = json.dumps(state, indent=1, sort_keys=True).encode()
    write_folder(root / f"step-{step:09d}", files)
    leftovers = [*root.glob(".step-*.tmp"), *root.glob(".step-*.old")]
    for old in [*sorted(root.glob("step-*"))[: -(KEEP + 1)], *leftovers]:
        shutil.rmtree(old, ignore_errors=True)


def has_begun(root: Path) -> bool:
    """Whether the folder is there and holds checkpoints alone, or nothing yet.

    A run makes it before anything else: it is the mark of the folder around it.
    """
    return root.is_dir() and all("step-" in path.name for path in root.iterdir())


def load_checkpoint(root: Path) -> Checkpoint | None:
    """Return the newest checkpoint that verifies, or None."""
    for folder in sorted(root.glob("step-*"), reverse=True):
        try:
            files = read_folder(folder)
            state = json.loads(files.pop(STATE))
            tensors = {
                name.removesuffix(".safetensors"): load(data)
                for name, data in files.items()
            }
        except UNREADABLE as error:
            warnings.warn(
                f"W721 {folder}: a damaged checkpoint is passed over ({error})",
                InputWarning,
                stacklevel=2,
            )
            continue
        return Checkpoint(tensors, state)
    return None
