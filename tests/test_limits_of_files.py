"""Limits on what is read, and numbers that are read exactly."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from clusterfirst.files import bundled_city, read_city, read_instances, write_city
from clusterfirst.files.strict_json import MAX_DEPTH, parse_json
from clusterfirst.files.verified_folder import read_folder, write_folder
from clusterfirst.problem.city import City
from clusterfirst.problem.errors import InputError
from clusterfirst.problem.instance import Instance
from commands import Capture, problem_of, run

LINE = "depot,0,0,customer,1,1,2,2,capacity,{},demand,0,{},1"


def test_the_number_of_instances_has_a_limit(tmp_path: Path) -> None:
    """A billion days without customers are 354 bytes, and no hang (A3)."""
    path = tmp_path / "many.npz"
    nothing = np.empty((10**9, 0), dtype=np.int64)
    np.savez(path, idx=nothing, demand=nothing)
    with pytest.raises(InputError, match="E401 instances"):
        read_instances(path, city=bundled_city())
    city = bundled_city().replace(capacity=5)
    assert len(read_instances(path, city=city, first=3)) == 3


@pytest.mark.parametrize(
    ("capacity", "demand"),
    [
        ("9007199254740992", "9007199254740993"),
        ("9", "8999999999.000001"),
        ("1", "0.5000000000000000000001"),
        ("5", "1e-400"),
    ],
)
def test_no_number_is_rounded_on_the_way_in(
    tmp_path: Path, capsys: Capture, capacity: str, demand: str
) -> None:
    """In JSON, sets, tables and on the command line (A10)."""
    document = (
        f'{{"capacity": {capacity}, "depot": {{"x": 0, "y": 0}}, '
        f'"customers": [{{"x": 1, "y": 1, "demand": {demand}}}]}}'
    )
    city = tmp_path / "city"
    write_city(city, City([[0, 0], [1, 1]], ids=("d", "a"), capacity=5))
    texts = {
        "a.json": document,
        "a.txt": LINE.format(capacity, demand),
        "a.csv": f"id,demand\na,{demand}\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        assert run("solve", tmp_path / name, "--city", city) == 2
        assert problem_of(capsys).partition(": ")[2][:4] in ("E136", "E137")
    assert run("solve", tmp_path / "a.csv", "--city", city, "--capacity", demand) == 2
    assert "exact" in problem_of(capsys)


def test_whole_numbers_that_no_float_holds_are_refused_in_python() -> None:
    """As a list, an array and a capacity."""
    large = 2**53 + 1
    points = [[0, 0], [1, 1]]
    for demands in ([0, large], np.array([0, large])):
        with pytest.raises(InputError, match="E137"):
            Instance(demands, 2**53, points)
    with pytest.raises(InputError, match="E137"):
        Instance([0, 1], large, points)


def test_units_are_right_to_the_last_digit() -> None:
    """Near 2**53 a product of floats is off by one."""
    instance = Instance([0, 0.000001], 8589934591.999999, [[0, 0], [1, 1]])
    assert instance.capacity_units == 8589934591999999


@pytest.mark.parametrize("depth", [MAX_DEPTH, MAX_DEPTH + 1, 100_000])
def test_nesting_has_a_limit(depth: int) -> None:
    """Brackets in strings do not count (A7)."""
    fits = depth <= MAX_DEPTH
    text = "[" * depth + '"]]]\\"[[[["' + "]" * depth
    if fits:
        parse_json(text)
        parse_json(json.dumps("[" * 1000))
    else:
        with pytest.raises(InputError, match="E303"):
            parse_json(text)


def test_every_flipped_bit_of_a_manifest_is_found(tmp_path: Path) -> None:
    """Sizes count as much as hashes (A9)."""
    folder = tmp_path / "run"
    write_folder(folder, {"a.bin": b"data", "b.bin": b"more"})
    manifest = folder / "manifest.json"
    whole = manifest.read_bytes()
    for bit in range(8 * len(whole)):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        manifest.write_bytes(data)
        with pytest.raises((OSError, ValueError)):
            read_folder(folder)


def test_no_cell_is_a_formula_and_all_ids_come_back(tmp_path: Path) -> None:
    """An id may look like one; a number may be negative (A11)."""
    ids = ("d", "=cmd|a", "+1+1", "-2", "@x", "'=y", "'plain", "-a")
    city = City(np.arange(16.0).reshape(8, 2) - 4, ids=ids, capacity=5)
    write_city(tmp_path / "c", city)
    cells = [
        line.split(",")[0].strip('"')
        for line in (tmp_path / "c" / "locations.csv").read_text().splitlines()
    ]
    assert [cell for cell in cells if cell[0] in "=+-@"] == ["-2"]
    assert read_city(tmp_path / "c").ids == ids
