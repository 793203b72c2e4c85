"""Label folders with right checksums and wrong contents end in sentences."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import socket
import struct
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clusterfirst.learning.labels.importing import import_labels
from clusterfirst.learning.labels.labelset import read_labels
from clusterfirst.learning.labels.making import merge
from clusterfirst.learning.labels.records import HEAD, HEAD_DTYPE
from clusterfirst.learning.labels.shard_writer import ShardWriter
from clusterfirst.learning.labels.shards import MAGIC, encode_frame, shard_paths
from clusterfirst.problem.errors import ClusterfirstError, InputWarning
from commands import Capture, in_time, problem_of, run
from test_labels import CITY, SOURCES, _save, _trivial

ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    2**70,
    1e308,
    float("inf"),
    float("nan"),
    "",
    "../x",
    "a" * 64,
    [],
    [1],
    ["a", None],
    [9, 1],
    {},
    {"a": 1},
]


def _variants(document: Any) -> Iterator[Any]:
    """Every way to put an odd value in one place of a document, or take it away."""
    yield from ODD
    if not isinstance(document, dict):
        return
    for key, value in document.items():
        for odd in _variants(value):
            changed = copy.copy(document)
            changed[key] = odd
            yield changed
        yield {k: v for k, v in document.items() if k != key}
    yield document | {"more": 1}


def _framed(header: bytes, bodies: list[bytes]) -> bytes:
    size, check = struct.pack("<I", len(header)), struct.pack("<I", zlib.crc32(header))
    return MAGIC + size + header + check + b"".join(map(encode_frame, bodies))


def _in_words(act: Callable[[], object]) -> None:
    """Whatever is done ends well or in a sentence of our own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        with contextlib.suppress(ClusterfirstError):
            act()


def _use(folder: Path, count: int) -> None:
    """Read, merge and write to a folder of labels."""
    _in_words(lambda: read_labels(folder))
    _in_words(lambda: merge([folder], folder.parent / f"merged-{count}"))
    _in_words(lambda: ShardWriter(folder, SOURCES["world"]).close())


@pytest.mark.parametrize("kind", ["world", "city", "public"])
def test_odd_headers_end_in_words(tmp_path: Path, kind: str) -> None:
    """Each field of a header replaced by each odd value, under a right checksum.

    Row A7 of the list of defects.
    """
    n = 100 if kind == "public" else 5
    good = _save(tmp_path / "good", SOURCES[kind], _trivial(SOURCES[kind], n, range(2)))
    (path,) = shard_paths(good)
    data = path.read_bytes()
    size = struct.unpack_from("<I", data, len(MAGIC))[0]
    start = len(MAGIC) + 4
    header, rest = json.loads(data[start : start + size]), data[start + size + 4 :]
    texts = [json.dumps(odd).encode() for odd in _variants(header)]
    texts += [b"", b"\xff", b"{", b"[" * 60_000]
    for count, text in enumerate(texts):
        path.write_bytes(_framed(text, []) + rest)
        _use(good, count)
        for found in shard_paths(good):
            found.unlink()


@pytest.mark.parametrize("kind", ["world", "city", "stored"])
def test_odd_bodies_end_in_words(tmp_path: Path, kind: str) -> None:
    """Each field of a record at its extremes, and each length, framed rightly (A7)."""
    if kind == "stored":
        arrays = {"idx": [[3, 1, 2]], "demand": [[1, 2, 3]], "route": [[0, 1, 0]]}
        np.savez(tmp_path / "set.npz", **arrays, cost=[1.5])
        good = tmp_path / "good"
        import_labels(tmp_path / "set.npz", CITY, good)
    else:
        source = SOURCES[kind]
        good = _save(tmp_path / "good", source, _trivial(source, 3, range(1)))
    (path,) = shard_paths(good)
    data = path.read_bytes()
    header = data[: len(MAGIC) + 8 + struct.unpack_from("<I", data, len(MAGIC))[0]]
    body = data[len(header) + 8 : -4]
    bodies = [body[:length] for length in range(len(body))]
    bodies += [body + bytes(extra) for extra in (1, 2, 3, 100)]
    for name in HEAD_DTYPE.names or ():
        field, offset = HEAD_DTYPE.fields[name]  # type: ignore[index]
        for odd in (b"\0", b"\1", b"\2", b"\3", b"\x7f", b"\xff"):
            width = field.itemsize
            for value in (odd * width, odd + bytes(width - 1)):
                bodies.append(body[:offset] + value + body[offset + width :])
    for width in (1, 2, 4):  # numbers of routes and rows that fit nothing
        head = bytearray(body[: HEAD.size])
        widths = [width if head[i] else 0 for i in range(2, 6)]
        head[2:6] = bytes(widths)
        bodies.append(bytes(head) + b"\xff" * (3 * sum(widths)))
    for odd in bodies:
        path.write_bytes(header + encode_frame(odd) + encode_frame(body))
        _in_words(lambda: read_labels(good))
    path.write_bytes(header + b"".join(map(encode_frame, [*bodies, body])))
    _use(good, 0)
    short = [odd for odd in bodies if len(odd) < len(body)]
    path.write_bytes(header + b"".join(map(encode_frame, [*short, body])))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        labels = read_labels(good)
    assert (len(labels), labels.dropped) == (1, len(short))


def test_odd_manifests_cost_a_warning(tmp_path: Path) -> None:
    """Whatever the manifest says, the shards are read."""
    source = SOURCES["world"]
    good = _save(tmp_path / "good", source, _trivial(source, 4, range(3)))
    manifest = good / "manifest.json"
    document = json.loads(manifest.read_text())
    texts = [json.dumps(odd) for odd in _variants(document)]
    for text in [*texts, "", "{", "[" * 100_000, '{"a":' * 100_000]:
        manifest.write_text(text)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            assert len(read_labels(good)) == 3
    manifest.write_text("[" * 100_000)
    with pytest.warns(InputWarning, match="W714"):
        read_labels(good)


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    here = os.open(".", os.O_RDONLY)
    os.chdir(path.parent)  # names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.fchdir(here)
        os.close(here)


KINDS: dict[str, Callable[[Path], None]] = {
    "fifo": _fifo,
    "socket": _socket,
    "folder": Path.mkdir,
    "device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["shard", "manifest.json"])
def test_only_regular_files_are_read(
    tmp_path: Path, capsys: Capture, kind: str, place: str
) -> None:
    """A pipe, socket, folder or device gets a sentence at once (A6)."""
    source = SOURCES["world"]
    good = _save(tmp_path / "good", source, _trivial(source, 4, range(3)))
    read_labels(good)
    path = shard_paths(good)[0] if place == "shard" else good / place
    path.unlink()
    KINDS[kind](path)
    with in_time(20):
        code = run("labels", "show", good)
        if place == "shard":
            assert code == 2
            assert str(tmp_path)[:20] in problem_of(capsys)  # long paths are cut
        else:
            assert code == 0
            assert "W714" in capsys.readouterr().err
        _use(good, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_only_regular_files_are_imported(
    tmp_path: Path, capsys: Capture, kind: str
) -> None:
    """So does the file of an import; a text file gets our words, not numpy's (A6)."""
    KINDS[kind](tmp_path / "set.npz")
    (tmp_path / "words.npz").write_text("these are no arrays")
    for name in ("set.npz", "words.npz"):
        with in_time(20):
            out = ("--city", "bundled", "--out", tmp_path / "out")
            assert run("labels", "import", tmp_path / name, *out) == 2
        assert "pickle" not in problem_of(capsys)
        assert not (tmp_path / "out").exists()
