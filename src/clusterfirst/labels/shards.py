"""Label shards: append-only files of checksummed records, and how to read them.

A folder holds `KEY-0000.labels`, `KEY-0001.labels`, ... for each source (KEY is its
hash), the cities they refer to, `manifest.json` and `job.lock`. A shard is

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
from pathlib import Path
from typing import Any

from clusterfirst.city import City
from clusterfirst.errors import InputError, InputWarning, Problem
from clusterfirst.files.city_folder import read_city
from clusterfirst.labels.sources import Source, from_description

MAGIC = b"CFLABEL1"
SUFFIX = ".labels"
MAX_BODY = 64 * 2**20
MAX_HEADER = 2**16
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
        return Scan({}, "", [], 0, damage="header: checksum wrong")
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
    header = json.loads(text)
    return header["source"], header["name"], end


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
    cities: dict[str, City] = {}
    manifest = read_manifest(folder)
    for path in shard_paths(folder):
        data = path.read_bytes()
        found = scan(data)
        if found.damage and not found.torn:
            warn(f"E712 {path.name} {found.damage}; the records before it are used")
        warn_if_short(path, len(data), found, manifest)
        if not found.description:
            continue
        wanted = found.description.get("city")
        if wanted is not None and wanted not in cities:
            cities[wanted] = _load_city(folder, found.description)
        yield (
            from_description(found.description, found.name, cities),
            found.bodies,
        )


def shard_paths(folder: Path) -> list[Path]:
    """Return the shards of a folder in the order of their names."""
    return sorted(folder.glob(f"*{SUFFIX}"))


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the shards of the manifest by file name; {} if there is none."""
    try:
        listed = json.loads((folder / "manifest.json").read_text())["shards"]
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError):
        warn("W714 manifest.json is damaged; the shards are read without it")
        return {}
    return dict(listed) if isinstance(listed, dict) else {}


def warn_if_short(
    path: Path, size: int, found: Scan, manifest: Mapping[str, Any]
) -> None:
    """Compare a shard with what the manifest says of it."""
    listed = manifest.get(path.name, {})
    if size < listed.get("bytes", 0):
        missing = listed["records"] - len(found.bodies)
        warn(f"W714 {path.name} is cut short: {missing} of its records are missing")


def city_folder(folder: Path, city_hash: str) -> Path:
    """Return where the city of a shard is kept."""
    return folder / f"city-{city_hash[:16]}"


def _load_city(folder: Path, description: Mapping[str, Any]) -> City:
    city = read_city(city_folder(folder, description["city"]))
    if city.hash != description["city"] or city.metric != description["metric"]:
        rule = "it is not the city these labels were made for"
        raise InputError(Problem("E713", "city", city.hash[:16], rule))
    return city


def warn(text: str) -> None:
    """Say what was found in a shard, and go on."""
    warnings.warn(text, InputWarning, stacklevel=3)
