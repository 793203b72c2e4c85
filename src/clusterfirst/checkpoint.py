"""Checkpoints that survive `kill -9` at any moment.

One folder per checkpoint, written beside and renamed into place, with a manifest of
sizes and SHA-256 sums; the newest one that verifies is the one that counts. Tensors
are safetensors, everything else JSON: nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from clusterfirst.errors import InputWarning

KEEP = 2  # checkpoints kept beside the newest
MANIFEST = "manifest.json"
STATE = "state.json"


@dataclass(frozen=True)
class Checkpoint:
    """Named groups of tensors, and plain values."""

    tensors: dict[str, dict[str, Tensor]]
    state: dict[str, Any]


def write_folder(folder: Path, files: dict[str, bytes]) -> None:
    """Write files and their manifest to a new folder in one step."""
    parent = folder.parent
    parent.mkdir(parents=True, exist_ok=True)
    beside = parent / f".{folder.name}.{os.getpid()}.tmp"
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    manifest = {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in files.items()
    }
    listed = json.dumps(manifest, indent=1, sort_keys=True).encode()
    for name, data in {**files, MANIFEST: listed}.items():
        with open(beside / name, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    if folder.exists():
        shutil.rmtree(folder)
    os.rename(beside, folder)
    _sync(parent)


def read_folder(folder: Path) -> dict[str, bytes]:
    """Read the files of a manifest; OSError or ValueError if anything is off."""
    manifest = json.loads((folder / MANIFEST).read_bytes())
    files = {}
    for name, expected in manifest.items():
        if Path(name).name != name:
            raise ValueError(f"{name} is no plain file name")
        data = (folder / name).read_bytes()
        if hashlib.sha256(data).hexdigest() != expected["sha256"]:
            raise ValueError(f"{name} does not match its manifest")
        files[name] = data
    return files


def save_checkpoint(root: Path, step: int, checkpoint: Checkpoint) -> None:
    """Write `root/step-N` and drop all but the newest few."""
    files = {
        f"{name}.safetensors": save({k: v.contiguous() for k, v in group.items()})
        for name, group in checkpoint.tensors.items()
    }
    state = {"step": step, **checkpoint.state}
    files[STATE] = json.dumps(state, indent=1, sort_keys=True).encode()
    write_folder(root / f"step-{step:09d}", files)
    for old in sorted(root.glob("step-*"))[: -(KEEP + 1)]:
        shutil.rmtree(old)


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
        except (OSError, ValueError, KeyError, SafetensorError) as error:
            warnings.warn(
                f"{folder}: damaged checkpoint passed over ({error})",
                InputWarning,
                stacklevel=2,
            )
            continue
        return Checkpoint(tensors, state)
    return None


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
