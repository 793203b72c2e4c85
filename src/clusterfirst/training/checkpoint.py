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

from clusterfirst.errors import InputError, InputWarning, Problem
from clusterfirst.files.atomic import make_folder, write_bytes

KEEP = 2  # checkpoints kept beside the newest
MANIFEST = "manifest.json"
STATE = "state.json"


@dataclass(frozen=True)
class Checkpoint:
    """Named groups of tensors, and plain values."""

    tensors: dict[str, dict[str, Tensor]]
    state: dict[str, Any]


def write_folder(
    folder: Path, files: dict[str, bytes], *, unlisted: dict[str, bytes] | None = None
) -> None:
    """Write files and their manifest to a new folder in one step.

    `unlisted` files may be changed later: the manifest does not name them.
    One that was written before moves aside first and goes last, so that at every
    moment one of the two is whole; anything else that is there is not ours to remove.
    """
    make_folder(folder.parent)
    _refuse_foreign(folder, {*files, *(unlisted or {}), MANIFEST})
    beside = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    for place in (beside, old):
        shutil.rmtree(place, ignore_errors=True)
    manifest = {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in files.items()
    }
    listed = json.dumps(manifest, indent=1, sort_keys=True).encode()
    make_folder(beside)
    try:
        for name, data in {**files, **(unlisted or {}), MANIFEST: listed}.items():
            write_bytes(beside / name, data)
        if folder.exists():
            os.rename(folder, old)
        os.rename(beside, folder)
        _sync(folder.parent)
    except OSError as error:
        rule = f"cannot write: {error.strerror}"
        raise InputError(Problem("E731", "output", str(folder), rule)) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)


def _refuse_foreign(folder: Path, ours: set[str]) -> None:
    """E731 if the place is taken by something that `write_folder` has not made."""
    if not os.path.lexists(folder):
        return
    found = set(os.listdir(folder)) if folder.is_dir() else {folder.name}
    if found and (MANIFEST not in found or not found <= ours):
        rule = "something else is there; remove it or name another folder"
        raise InputError(Problem("E731", "output", str(folder), rule))


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
                f"W721 {folder}: a damaged checkpoint is passed over ({error})",
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
