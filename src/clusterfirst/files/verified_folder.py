"""Folders written in one step and verified when read.

Everything is written beside and renamed into place, with a manifest of sizes and
SHA-256 sums: models and checkpoints survive `kill -9` at any moment.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

from clusterfirst.files.atomic import make_folder, sync_folder, write_bytes
from clusterfirst.files.source import read_bytes
from clusterfirst.files.strict_json import parse_json
from clusterfirst.problem.errors import InputError, Problem

MANIFEST = "manifest.json"
MAX_MANIFEST = 1_000_000  # bytes; it lists a few files
MAX_FILE = 8_000_000_000  # bytes of a checkpoint


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
        sync_folder(folder.parent)
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
    manifest = parse_json(read_bytes(folder / MANIFEST, MAX_MANIFEST).decode())
    if not isinstance(manifest, dict):
        raise ValueError(f"{MANIFEST} is no JSON object")
    files = {}
    for name, expected in manifest.items():
        if Path(name).name != name:
            raise ValueError(f"{name} is no plain file name")
        files[name] = read_listed(folder, name, expected)
    return files


def manifest_hash(folder: Path) -> str:
    """What a folder is known by: the SHA-256 of its manifest, which lists all files."""
    return hashlib.sha256(read_bytes(folder / MANIFEST)).hexdigest()


def read_listed(folder: Path, name: str, expected: Any, most: int = MAX_FILE) -> bytes:
    """Read a file that is as its manifest says, to the last byte."""
    data = read_bytes(folder / name, most)
    found = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    if expected != found:
        raise ValueError(f"{name} does not match its size and SHA-256 in {MANIFEST}")
    return data
