"""A street map in one file: what a PMTiles archive must be before it is shown.

The scripts that draw it are beside Leaflet: pmtiles.js, protomaps-leaflet.js and our
basemap.js, in this order.
"""

from __future__ import annotations

from pathlib import Path

from clusterfirst.problem.errors import InputError, Problem

SCRIPTS = ("pmtiles.js", "protomaps-leaflet.js", "basemap.js")
HEADER_BYTES = 127
MAGIC = b"PMTiles\x03"  # the third version of the format
TILE_TYPE = 99  # where the header says what a tile is
VECTOR = 1


def require_basemap(path: Path) -> Path:
    """Refuse what is not a PMTiles file of vector tiles; return the path."""
    try:
        with path.open("rb") as file:
            header = file.read(HEADER_BYTES)
    except OSError as error:
        rule = f"it cannot be read: {error.strerror or type(error).__name__}"
        raise InputError(Problem("E102", "--basemap", str(path), rule)) from error
    if len(header) < HEADER_BYTES or not header.startswith(MAGIC):
        rule = "a PMTiles file of version 3 is needed"
        raise InputError(Problem("E160", "--basemap", str(path), rule))
    if header[TILE_TYPE] != VECTOR:
        rule = "its tiles are pictures; vector tiles are needed"
        raise InputError(Problem("E160", "--basemap", str(path), rule))
    return path
