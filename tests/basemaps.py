"""A basemap small enough for a test: one vector tile that repeats everywhere."""

from __future__ import annotations

import struct
from pathlib import Path

MOST_ZOOM = 14
WORLD = (-180.0, -85.0, 180.0, 85.0)


def _varint(value: int) -> bytes:
    out = bytearray()
    while True:
        value, low = value >> 7, value & 127
        out.append(low | 128 if value else low)
        if not value:
            return bytes(out)


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _shape(kind: int, points: list[tuple[int, int]]) -> bytes:
    """A feature whose tag is key 0, value 0; 2 is a line, 3 a polygon."""
    numbers, here = [], (0, 0)
    for at, point in enumerate(points):
        if at < 2:
            numbers.append(1 << 3 | 1 if at == 0 else (len(points) - 1) << 3 | 2)
        for old, new in zip(here, point, strict=True):
            numbers.append((new - old) << 1 ^ (new - old) >> 31)  # zigzag
        here = point
    numbers += [15] if kind == 3 else []
    packed = b"".join(_varint(n & 0xFFFFFFFF) for n in numbers)
    return _field(2, b"\0\0") + _varint(3 << 3) + _varint(kind) + _field(4, packed)


def _layer(name: str, kind: int, points: list[tuple[int, int]], value: str) -> bytes:
    layer = _varint(15 << 3) + _varint(2) + _field(1, name.encode())
    layer += _field(2, _shape(kind, points)) + _field(3, b"kind")
    layer += _field(4, _field(1, value.encode()))
    return _field(3, layer + _varint(5 << 3) + _varint(4096))


def vector_tile() -> bytes:
    """Land, a lake in its corner and a road through the middle."""
    land = [(0, 0), (4096, 0), (4096, 4096), (0, 4096)]
    lake = [(0, 0), (1600, 0), (1600, 1600), (0, 1600)]
    road = [(0, 2048), (4096, 2300)]
    return (
        _layer("earth", 3, land, "earth")
        + _layer("water", 3, lake, "lake")
        + _layer("roads", 2, road, "highway")
    )


def write_basemap(path: Path, tile_type: int = 1) -> Path:
    """A PMTiles file, version 3, not packed, of one tile for all places and zooms."""
    tile, metadata = vector_tile(), b"{}"
    many = (4 ** (MOST_ZOOM + 1) - 1) // 3
    directory = b"".join(map(_varint, (1, 0, many, len(tile), 1)))
    begin = 127
    parts = [directory, metadata, b"", tile]
    places = []
    for part in parts:
        places += [begin, len(part)]
        begin += len(part)
    west, south, east, north = (round(1e7 * degrees) for degrees in WORLD)
    header = b"PMTiles\x03" + struct.pack("<8Q", *places)
    header += struct.pack("<3Q", many, 1, 1)
    header += bytes([1, 1, 1, tile_type, 0, MOST_ZOOM])
    header += struct.pack("<4iB2i", west, south, east, north, 10, 0, 0)
    assert len(header) == 127
    path.write_bytes(header + b"".join(parts))
    return path
