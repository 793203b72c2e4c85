"""Label shards: append-only files of checksummed records, and how to read them.

A folder holds `KEY-0000.labels`, `KEY-0001.labels`, ... for each source (KEY is its
hash), the cities they refer to and `manifest.json`. A shard is

    magic | header | record | record | ...

with header = length u32 | JSON | crc32 and record = length u32 | ~length u32 | body |
crc32 of the body. `shard_writer.py` says what a killed writer leaves behind.
"""

from __future__ import annotations

import json
import struct
import warnings
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from clusterfirst.cities.history import History, read_history
from clusterfirst.files.city_folder import read_city
from clusterfirst.files.source import MEGABYTE, named, read_bytes
from clusterfirst.learning.labels.sources import Source, from_description
from clusterfirst.problem.errors import InputError, InputWarning, Problem

MAGIC = b"CFLABEL1"
SUFFIX = ".labels"
MAX_BODY = 64 * 2**20
MAX_HEADER = 2**16
MAX_SHARD = 128 * MEGABYTE  # a writer ends one at 80
WORD = struct.Struct("<I")
FRAME = struct.Struct("<II")


@dataclass(frozen=True)
class Scan:
    """What a shard holds: bodies of the good records, and what is wrong after them.

    `torn` means that the file ends inside its last record, as a kill leaves it.
    """

    description: dict[str, Any]
    name: str
    bodies: list[bytes]
    good_bytes: int
    damage: str = ""
    torn: bool = False


def encode_header(source: Source) -> bytes:
    """Return magic and header of a shard of this source."""
    header = {"name": source.name, "source": source.description}
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    return MAGIC + WORD.pack(len(text)) + text + WORD.pack(zlib.crc32(text))


def encode_frame(body: bytes) -> bytes:
    """Return the record of a body as it stands in a shard."""
    size = len(body)
    return FRAME.pack(size, size ^ 0xFFFFFFFF) + body + WORD.pack(zlib.crc32(body))


def scan(data: bytes) -> Scan:
    """Check every byte of a shard up to the first damage."""
    header = _scan_header(data)
    if header is None:
        return Scan({}, "", [], 0, damage="header: wrong")
    description, name, position = header
    bodies: list[bytes] = []
    while position < len(data):
        left = len(data) - position
        if left < FRAME.size:
            return Scan(description, name, bodies, position, "end", torn=True)
        size, check = FRAME.unpack_from(data, position)
        number = len(bodies) + 1
        if size ^ check != 0xFFFFFFFF or size > MAX_BODY:
            damage = f"record {number}: length wrong"
            return Scan(description, name, bodies, position, damage)
        end = position + FRAME.size + size + WORD.size
        if end > len(data):
            return Scan(description, name, bodies, position, "end", torn=True)
        body = data[position + FRAME.size : end - WORD.size]
        if WORD.unpack_from(data, end - WORD.size)[0] != zlib.crc32(body):
            damage = f"record {number}: checksum wrong"
            return Scan(description, name, bodies, position, damage)
        bodies.append(body)
        position = end
    return Scan(description, name, bodies, position)


def _scan_header(data: bytes) -> tuple[dict[str, Any], str, int] | None:
    start = len(MAGIC) + WORD.size
    if len(data) < start or data[: len(MAGIC)] != MAGIC:
        return None
    size = WORD.unpack_from(data, len(MAGIC))[0]
    end = start + size + WORD.size
    if size > MAX_HEADER or end > len(data):
        return None
    text = data[start : end - WORD.size]
    if WORD.unpack_from(data, end - WORD.size)[0] != zlib.crc32(text):
        return None
    try:
        header = json.loads(text)
        description, name = header["source"], header["name"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not (isinstance(description, dict) and description and isinstance(name, str)):
        return None
    return description, name, end


# --- reading ------------------------------------------------------------------


def read_shards(folder: Path) -> Iterator[tuple[Source, list[bytes]]]:
    """Yield source and record bodies of every shard in a folder.

    Damage costs the records behind it and is said in a warning; an unfinished last
    record is normal, because a writer may be at work.
    """
    folder = Path(folder)
    if not folder.is_dir():
        rule = "a folder of label shards is needed"
        raise InputError(Problem("E711", "labels", str(folder), rule))
    find_days = cache(partial(_load_days, folder))
    manifest = read_manifest(folder)
    for path in shard_paths(folder):
        data = read_shard(path)
        found = scan(data)
        if found.damage and not found.torn:
            warn(f"E712 {path.name} {found.damage}; the records before it are used")
        warn_if_short(path, len(data), found, manifest)
        if not found.description:
            continue
        with named(path):
            source = from_description(found.description, found.name, find_days)
        yield source, found.bodies


def shard_paths(folder: Path) -> list[Path]:
    """Return the shards of a folder in the order of their names."""
    return sorted(folder.glob(f"*{SUFFIX}"))


def read_shard(path: Path) -> bytes:
    """Return the bytes of a shard, which may be empty after a crash."""
    with named(path):
        empty = path.is_file() and not path.stat().st_size
        return b"" if empty else read_bytes(path, MAX_SHARD, growing=True)


def read_manifest(folder: Path) -> dict[str, tuple[int, int]]:
    """Return (records, bytes) of each shard that the manifest lists."""
    path = folder / "manifest.json"
    if not path.exists():
        return {}
    try:
        listed = json.loads(read_bytes(path))["shards"].items()
        found = {name: (shard["records"], shard["bytes"]) for name, shard in listed}
        if all(type(number) is int for pair in found.values() for number in pair):
            return found
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        pass  # InputError is a ValueError
    warn("W714 manifest.json cannot be used; the shards are read without it")
    return {}


def warn_if_short(
    path: Path, size: int, found: Scan, manifest: Mapping[str, tuple[int, int]]
) -> None:
    """Compare a shard with what the manifest says of it."""
    records, least = manifest.get(path.name, (0, 0))
    if size < least:
        missing = records - len(found.bodies)
        warn(f"W714 {path.name} is cut short: {missing} of its records are missing")


def city_folder(folder: Path, city_hash: str, days: str = "") -> Path:
    """Return where the city of a shard, with its past days, is kept."""
    return folder / f"city-{city_hash[:16]}{days and '-'}{days[:8]}"


def _load_days(folder: Path, city_hash: str, days: str) -> History:
    place = city_folder(folder, city_hash, days)
    city = read_city(place)
    history = read_history(place, city) if days else History(city)
    if city.hash != city_hash or (days and history.digest != days):
        rule = "it is not the city these labels were made for"
        raise InputError(Problem("E713", "city", city.hash[:16], rule))
    return history


def warn(text: str) -> None:
    """Say what was found in a shard, and go on."""
    warnings.warn(text, InputWarning, stacklevel=3)
