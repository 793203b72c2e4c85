"""No file crashes, hangs or harms: mutations of every format, by Python and CLI.

    python campaign/files.py [--count 1000] [--seconds 600]

A mutation knows the structure: numbers, words, lines, cells, keys, bits, lengths and
checksums that were made right again afterwards. Most cases read through Python; every
hundredth file and every tenth folder goes through the command line in a process of its
own, whose folder is looked at afterwards.
"""

from __future__ import annotations

import atexit
import hashlib
import io
import json
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from record import Notes, Promise, main

from clusterfirst import InputWarning, read_city, write_city
from clusterfirst.cities.history import add_days, read_history
from clusterfirst.files import write_instance
from clusterfirst.files.verified_folder import MANIFEST
from clusterfirst.learning.labels.labelset import read_labels
from clusterfirst.learning.labels.making import LabelOptions, label
from clusterfirst.learning.labels.shards import MAGIC, SUFFIX, encode_frame
from clusterfirst.learning.labels.sources import city_days
from clusterfirst.networks.model_folder import read_model, shipped
from clusterfirst.problem.errors import ClusterfirstError
from networks import small_city, small_day
from strategies import FLEET, NASTY, corpus, small_town, verdict_on

SLOW = 10.0  # seconds of one read, on a machine as busy as it may be
EVERY_COMMAND = 100  # cases
EVERY_FOLDER = 50  # cases; of these every tenth by the command line
LARGEST = 1_000_000  # bytes, so that changes of changes stay small
NUMBER = re.compile(rb"-?\d+(\.\d+)?([eE][+-]?\d+)?")
STEPS = ["--iterations", "1"]
LIMITED = ["solve", "day.vrp", "--vehicles", "vehicles.csv"]
COMMANDS = {
    ".vrp": ["solve", "{file}", "--iterations", "1", "--out", "out.sol"],
    ".json": ["solve", "{file}", "--iterations", "1", "--out", "out.json"],
    ".npz": ["solve", "{file}", "--iterations", "1", "--out", "outs"],
    ".txt": ["solve", "{file}", "--iterations", "1", "--out", "outs"],
    ".sol": ["check", "day.vrp", "{file}"],
    ".solution.json": ["plot", "day.vrp", "{file}", "--out", "out.geojson"],
    ".csv": ["solve", "{file}", "--city", "town", *STEPS, "--out", "out.csv"],
    ".orders.xlsx": ["city", "add-days", "town", "{file}"],
    ".locations.csv": ["city", "init", "{file}", "--depot", "depot", "--out", "new"],
    ".routes.csv": ["check", "day.vrp", "{file}"],
    ".routes.xlsx": ["export", "day.vrp", "{file}", "--out", "out.json"],
    ".vehicles.csv": ["solve", "day.vrp", "--vehicles", "{file}", *STEPS],
    **{
        f".{what}{suffix}": [*LIMITED, f"--{what}", "{file}", *STEPS]
        for what in ("matrix", "durations")
        for suffix in (".csv", ".npz", ".json")
    },
}
FOLDER_COMMANDS = {
    "city": [
        ["city", "show", "{file}"],
        ["sample", "{file}", "--customers", "3", "--out", "new"],
        ["territories", "{file}", "--vehicles", "2"],
    ],
    "model": [["solve", "day.vrp", "--model", "{file}", "--no-polish", *STEPS]],
    "labels": [
        ["labels", "show", "{file}"],
        ["labels", "merge", "{file}", "--out", "new"],
    ],
}
HALF = (".tmp", ".new", ".part", ".lock")  # what only an unfinished command leaves
CODES = {0, 1, 2}  # documented: done, no feasible solution, wrong input


def mutated(data: bytes, rng: random.Random) -> bytes:
    """A few changes of one kind or another."""
    for _ in range(rng.choice([1, 1, 1, 2, 3, 5])):
        data = rng.choice(CHANGES)(data, rng)[:LARGEST]
    return data


def _number(data: bytes, rng: random.Random) -> bytes:
    """Another number in the place of one."""
    found = list(NUMBER.finditer(data))
    if not found:
        return data
    place = rng.choice(found)
    odd = [b"nan", b"inf", b"-1", b"0", b"1e999", b"9" * 30, b"0.1234567891", b"1e-320"]
    odd += [b"2147483648", b"9007199254740993", b"-0", b"1_0", b"0x1f", b"", b"1,5"]
    return data[: place.start()] + rng.choice(odd) + data[place.end() :]


def _word(data: bytes, rng: random.Random) -> bytes:
    a = rng.randint(0, len(data))
    b = min(len(data), a + rng.choice([0, 1, 8, 60]))
    return data[:a] + rng.choice(NASTY) + data[b:]


def _bits(data: bytes, rng: random.Random) -> bytes:
    if not data:
        return data
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 8])):
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _cut(data: bytes, rng: random.Random) -> bytes:
    a, b = sorted(rng.randint(0, len(data)) for _ in range(2))
    return rng.choice([data[:a], data[b:], data[:a] + data[b:], data + data[a:b]])


def _lines(data: bytes, rng: random.Random) -> bytes:
    """Lines removed, doubled, swapped, or a cell more or fewer in one."""
    lines = data.split(b"\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.choice(["swap", "drop", "double", "cell", "long"])
    if kind == "swap":
        lines[i], lines[j] = lines[j], lines[i]
    elif kind == "drop":
        del lines[i]
    elif kind == "double":
        lines.insert(j, lines[i])
    elif kind == "cell":
        cells = lines[i].split(b",")
        del cells[rng.randrange(len(cells))]
        lines[i] = b",".join(cells)
    else:
        lines[i] = lines[i] * rng.choice([2, 100, 5000])
    return b"\n".join(lines)


def _keys(data: bytes, rng: random.Random) -> bytes:
    """A JSON document with a value of another type, or a key lost or doubled."""
    try:
        document = json.loads(data)
    except ValueError:
        return _word(data, rng)
    places: list[tuple[object, object]] = []

    def walk(value: object) -> None:
        items = value.items() if isinstance(value, dict) else ()
        items = enumerate(value) if isinstance(value, list) else items
        for key, inner in list(items):
            places.append((value, key))
            walk(inner)

    walk(document)
    if not places:
        return data
    holder, key = rng.choice(places)
    odd = [
        None,
        True,
        [],
        {},
        "",
        "x" * 300,
        -1,
        1e308,
        float("nan"),
        2**70,
        [[[]]],
        "\0",
    ]
    if rng.random() < 0.2:
        del holder[key]  # type: ignore[attr-defined]  # a dict or a list
    else:
        holder[key] = rng.choice(odd)  # type: ignore[index]
    return json.dumps(document).encode()


def _zip(data: bytes, rng: random.Random) -> bytes:
    """One member of an archive changed, and the archive's checksums right again."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
    except Exception:  # damaged before, and no archive any more
        return _bits(data, rng)
    if members:
        name = rng.choice(sorted(members))
        members[name] = rng.choice([_bits, _cut, _word])(members[name], rng)
        if rng.random() < 0.1:
            members["../evil.npy"] = members.pop(name)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


CHANGES: list[Callable[[bytes, random.Random], bytes]] = [
    _number,
    _number,
    _word,
    _bits,
    _cut,
    _lines,
    _keys,
    _zip,
]


@cache
def valid_files() -> dict[str, list[bytes]]:
    """Right files by kind, to begin with."""
    return corpus()


@cache
def kept() -> dict[str, Path]:
    """Folders to damage copies of: a city, a model, a set of labels."""
    place = Path(tempfile.mkdtemp(prefix="campaign-files-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    write_city(place / "city", small_city())
    tables = [place / f"2026-01-0{day}.csv" for day in (5, 6, 7)]
    for index, path in enumerate(tables):
        write_instance(path, small_day(6, index))
    add_days(place / "city", tables)
    shutil.copytree(shipped()["city-psi-one-layer"], place / "model")
    few = LabelOptions(customers=8, count=3, iterations=10)
    label(city_days(small_city(), seed=2), place / "labels", few)
    return {kind: place / kind for kind in ("city", "model", "labels")}


def read_folder(kind: str, folder: Path) -> None:
    """Read all of it."""
    if kind == "city":
        read_history(folder, read_city(folder))
    elif kind == "model":
        read_model(folder)
    else:
        labels = read_labels(folder)
        for number in range(len(labels)):
            labels.solution(number)


def damaged_folder(kind: str, rng: random.Random, notes: Notes) -> None:
    """One file of a folder changed; where it has checksums, mostly right again."""
    with tempfile.TemporaryDirectory(prefix="campaign-") as name:
        folder = Path(name) / kind
        damage(kind, folder, rng)
        try:
            read_folder(kind, folder)
            notes.count(f"{kind}: read")
        except ClusterfirstError as error:
            _fit(error)
            notes.count(f"{kind}: refused")


def damage(kind: str, folder: Path, rng: random.Random) -> None:
    """Copy a folder and change one of its files."""
    shutil.copytree(kept()[kind], folder)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    path = rng.choice([p for p in files if p.stat().st_size < 200_000] or files)
    data = path.read_bytes()
    shard = path.suffix == SUFFIX and rng.random() < 0.7
    path.write_bytes(_changed_shard(data, rng) if shard else mutated(data, rng))
    if kind == "model" and rng.random() < 0.7:
        _right_manifest(folder)


def _changed_shard(data: bytes, rng: random.Random) -> bytes:
    """Header or a record changed, and its length and CRC right again."""
    size = struct.unpack_from("<I", data, len(MAGIC))[0]
    at = len(MAGIC) + 4
    header, rest = data[at : at + size], data[at + size + 4 :]
    bodies = []
    while rest:
        length = struct.unpack_from("<I", rest)[0]
        bodies.append(rest[8 : 8 + length])
        rest = rest[8 + length + 4 :]
    place = rng.randrange(-1, len(bodies))
    if place < 0:
        header = mutated(header, rng)
    else:
        bodies[place] = mutated(bodies[place], rng)
    front = MAGIC + struct.pack("<I", len(header)) + header
    front += struct.pack("<I", zlib.crc32(header))
    return front + b"".join(map(encode_frame, bodies))


def _right_manifest(folder: Path) -> None:
    """The manifest made to match the damaged files."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_bytes())
        for name, facts in manifest.items():
            content = (folder / name).read_bytes()
            facts["sha256"] = hashlib.sha256(content).hexdigest()
            facts["bytes"] = len(content)
        path.write_text(json.dumps(manifest), encoding="utf-8")
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        return  # the manifest itself is what was damaged


def _fit(error: ClusterfirstError) -> None:
    """A refusal is a few printable lines with a code."""
    for line in str(error).splitlines():
        assert len(line) <= 400, line
        assert line.isprintable(), line


def file_by_command(kind: str, data: bytes, notes: Notes) -> None:
    """The same file through the command line; nothing but the answer is new."""
    with tempfile.TemporaryDirectory(prefix="campaign-") as name:
        inside = _workplace(Path(name))
        file = f"file{Path(f'x{kind}').suffix}"
        (inside / file).write_bytes(data)
        _command(COMMANDS[kind], file, Path(name), notes)


def folder_by_command(kind: str, rng: random.Random, notes: Notes) -> None:
    """A damaged folder through the command line."""
    with tempfile.TemporaryDirectory(prefix="campaign-") as name:
        damage(kind, _workplace(Path(name)) / "file", rng)
        _command(rng.choice(FOLDER_COMMANDS[kind]), "file", Path(name), notes)


def _workplace(home: Path) -> Path:
    """A folder with what a command may need beside a damaged file, and one outside."""
    inside = home / "work"
    inside.mkdir()
    (home / "outside").write_text("mine", encoding="utf-8")
    (inside / "day.vrp").write_bytes(valid_files()[".vrp"][0])
    (inside / "vehicles.csv").write_text(FLEET, encoding="utf-8")
    write_city(inside / "town", small_town())
    return inside


def _command(words: list[str], file: str, home: Path, notes: Notes) -> None:
    """Run it beside the files; look at exit code, words and what is there now."""
    words = [word.replace("{file}", file) for word in words]
    before = _seen(home)
    command = [sys.executable, "-m", "clusterfirst", *words]
    asked = {"capture_output": True, "cwd": home / "work", "timeout": 110}
    ended = subprocess.run(command, check=False, **asked)  # type: ignore[call-overload]
    said = ended.stderr.decode(errors="replace")
    notes.count(f"command: exit {ended.returncode}")
    if ended.returncode not in CODES or "E999" in said or "Traceback" in said:
        notes.fail(f"{' '.join(words)}: exit {ended.returncode}: {said[-300:]}")
    after = _seen(home)
    own = {"add-days": "work/town/days.jsonl", "territories": "work/file/areas.json"}
    mine = [own[word] for word in words if word in own]
    changed = [path for path, held in before.items() if after.get(path) != held]
    new = set(after) - set(before)
    outside = [path for path in new if not path.startswith("work/")]
    half = [path for path in new if path.endswith(HALF)]
    changed = [path for path in changed if path not in mine]
    if changed or outside or half:
        notes.fail(f"{' '.join(words)}: changed {changed}, new {outside + half}")


def _seen(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, and what it holds."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def one(number: int, notes: Notes) -> None:
    """One mutation of one file or folder."""
    rng = random.Random(f"files {number}")
    if number % EVERY_FOLDER == 7:
        kind = rng.choice(["city", "model", "labels"])
        by_command = number % (10 * EVERY_FOLDER) == 7
        (folder_by_command if by_command else damaged_folder)(kind, rng, notes)
        return
    kinds = valid_files()
    kind = rng.choice(sorted(kinds))
    data = mutated(rng.choice(kinds[kind]), rng)
    if number % EVERY_COMMAND == 3:
        file_by_command(kind, data, notes)
        return
    with tempfile.TemporaryDirectory(prefix="campaign-") as name:
        folder = Path(name)
        start = time.perf_counter()
        notes.count(f"{kind}: {verdict_on(kind, data, folder)}")
        seconds = time.perf_counter() - start
        if seconds > SLOW:
            notes.fail(f"{kind}: {seconds:.1f} s to read")
        left = {path.name for path in folder.iterdir()} - {f"fuzz{kind}"}
        if left:
            notes.fail(f"{kind}: reading left {left}")


PROMISE = Promise(
    "files",
    "Whatever a file holds, the answer is a result or a sentence: no crash, no hang, "
    "no half-written file, nothing outside the folder that was named.",
    full=200_000,
    case=one,
    unit="mutations of files and folders",
)

if __name__ == "__main__":
    warnings.simplefilter("ignore", InputWarning)
    sys.exit(main(PROMISE))
