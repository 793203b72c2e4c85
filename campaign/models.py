"""A model with any bit changed is refused: manifest, configuration, weights.

    python campaign/models.py [--count 1000] [--seconds 600]

Every bit of manifest.json, config.json and provenance.json of the smallest shipped
model, then bits of its weights: one of each byte of the first kilobyte, where the
layout stands, the others anywhere. The same code reads all models. The card (README.md)
is for people and not covered.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from record import Notes, Promise, main

from clusterfirst.files.verified_folder import MANIFEST
from clusterfirst.networks.model_folder import read_model, shipped
from clusterfirst.problem.errors import ClusterfirstError

WEIGHTS = 20_000  # bits of them
SMALL = (MANIFEST, "config.json", "provenance.json")  # every bit of these


@cache
def copy() -> Path:
    """A copy of the smallest shipped model, to be damaged in place."""
    models = shipped().values()
    smallest = min(models, key=lambda f: (f / "model.safetensors").stat().st_size)
    place = Path(tempfile.mkdtemp(prefix="campaign-models-")) / smallest.name
    shutil.copytree(smallest, place)
    return place


@cache
def bits() -> tuple[tuple[str, int], ...]:
    """File and bit of each case."""
    every = [
        (name, bit)
        for name in SMALL
        for bit in range(8 * (copy() / name).stat().st_size)
    ]
    size = 8 * (copy() / "model.safetensors").stat().st_size
    rng = random.Random("models")
    header = [("model.safetensors", bit) for bit in range(0, 8 * 1024, 8)]
    rest = WEIGHTS - len(header)
    return (
        *every,
        *header,
        *(("model.safetensors", rng.randrange(size)) for _ in range(rest)),
    )


def one(number: int, notes: Notes) -> None:
    """Flip one bit, read, flip it back."""
    name, bit = bits()[number]
    path = copy() / name
    with path.open("r+b") as file:
        file.seek(bit // 8)
        before = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([before ^ (1 << (bit % 8))]))
    try:
        read_model(copy())
        notes.fail(f"{name}, bit {bit}: not noticed")
    except ClusterfirstError:
        notes.count(f"{name}: noticed")
    finally:
        with path.open("r+b") as file:
            file.seek(bit // 8)
            file.write(bytes([before]))


PROMISE = Promise(
    "models",
    "A model folder (the smallest shipped one) with one wrong bit is refused: every "
    "bit of the manifest, the configuration and the provenance, and 20,000 of the "
    "weights.",
    full=len(bits()),
    case=one,
    unit="flipped bits",
)

if __name__ == "__main__":
    try:
        sys.exit(main(PROMISE))
    finally:
        shutil.rmtree(copy().parent, ignore_errors=True)
