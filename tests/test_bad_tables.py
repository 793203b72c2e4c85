"""Bad tables of a day with vehicles, hours and streets: a sentence each.

More rows of the table in bad_inputs.py, all through `solve`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bad_inputs import LOCATIONS, ORDERS
from clusterfirst.cli import main

TABLES = {
    "locations.csv": LOCATIONS,
    "orders.csv": ORDERS,
    "vehicles.csv": "name,capacity\nAnna,10\nBen,10\n",
}
File = tuple[str, str]
SPEED = "--speed 30"
MATRIX = "--matrix m.csv"
DURATIONS = "--durations m.csv"
KEEP = "--keep p.csv"


def vehicles(column: str, cell: object) -> File:
    """Two vehicles, of which Anna has this cell."""
    return "vehicles.csv", f"name,capacity,{column}\nAnna,10,{cell}\nBen,10,\n"


def fleet(*rows: str) -> File:
    """A table of vehicles with these rows."""
    return "vehicles.csv", "\n".join((*rows, ""))


def orders(columns: str, a: object, b: object = "") -> File:
    """Two orders with these cells."""
    return "orders.csv", f"id,demand,{columns}\na,3,{a}\nb,4,{b}\n"


def matrix(*rows: str) -> File:
    """A street matrix."""
    return "m.csv", "\n".join((*rows, ""))


def plan(*rows: str) -> File:
    """Yesterday's routes."""
    return "p.csv", "\n".join((*rows, ""))


FAR = "Anna,10,1"
GOOD = plan("vehicle,id", "Anna,a", "Ben,b")
NULL = '{"code": "Ok", "distances": [[0,1,1],[1,0,null],[1,1,0]]}'
# What is wrong, its code, the file that is different, and more words.
REFUSED: list[tuple[str, str, File, str]] = [
    ("negative hours", "E313", vehicles("max_duration", -8), SPEED),
    ("hours in words", "E313", vehicles("max_duration", "eight"), SPEED),
    ("hours without times", "E435", vehicles("max_duration", 60), ""),
    (
        "ways above the hours",
        "E206",
        fleet("name,capacity,max_duration", "A,9,1"),
        SPEED,
    ),
    ("negative capacity", "E431", fleet("name,capacity", "Anna,-1"), ""),
    ("no capacity", "E311", fleet("name", "Anna"), ""),
    ("no vehicle", "E431", fleet("name,capacity"), ""),
    ("half a van", "E431", vehicles("count", 1.5), ""),
    ("half a stop", "E431", vehicles("max_stops", 2.5), ""),
    ("negative distance", "E313", vehicles("max_distance", -1), ""),
    ("negative cost", "E313", vehicles("fixed_cost", -1), ""),
    ("neither yes nor no", "E313", vehicles("optional", "?"), ""),
    ("two Annas", "E431", fleet("name,capacity", "Anna,9", "Anna,9"), ""),
    ("too little room", "E202", fleet("name,capacity", "Anna,4", "Ben,2"), ""),
    ("too few stops", "E207", fleet("name,capacity,max_stops", "A,9,1"), ""),
    ("unknown vehicle", "E433", orders("vehicle", "Dora"), ""),
    ("unknown, forbidden", "E433", orders("not_vehicle", "Dora"), ""),
    ("pinned and forbidden", "E434", orders("vehicle,not_vehicle", "Ben,Ben", ","), ""),
    ("together and apart", "E434", orders("group,apart", "g,x", "g,x"), ""),
    ("group pinned to two", "E434", orders("group,vehicle", "g,Anna", "g,Ben"), ""),
    ("group too large", "E206", ("orders.csv", "id,demand,group\na,6,g\nb,6,g\n"), ""),
    ("negative service", "E313", orders("service", -5, 0), SPEED),
    ("service in words", "E313", orders("service", "long", 0), SPEED),
    ("negative priority", "E313", orders("priority", -1, 1), ""),
    ("no speed at all", "E432", GOOD, "--speed 0"),
    ("matrix too small", "E113", matrix("0,1", "1,0"), MATRIX),
    ("matrix with a gap", "E313", matrix("0,1,2", "1,0,", "2,3,0"), MATRIX),
    ("unreachable pair", "E313", matrix("0,1,2", "1,0,inf", "2,3,0"), MATRIX),
    ("negative way", "E131", matrix("0,1,2", "1,0,-3", "2,3,0"), MATRIX),
    ("unreachable in OSRM", "E131", ("m.json", NULL), "--matrix m.json"),
    (
        "matrix of others",
        "E113",
        matrix(",d,z", "d,0,1", "z,1,0"),
        MATRIX,
    ),
    ("durations too small", "E113", matrix("0,1", "1,0"), DURATIONS),
    ("negative durations", "E131", matrix("0,1,2", "1,0,-3", "2,3,0"), DURATIONS),
    ("no matrix there", "E102", GOOD, MATRIX),
    ("unknown and frozen", "E433", GOOD, f"{KEEP} --frozen Dora"),
    ("share above all", "E404", GOOD, f"{KEEP} --keep-share 2"),
    ("negative price", "E404", GOOD, f"{KEEP} --move-price -1"),
    ("plan without columns", "E311", plan("who,what", "Anna,a"), KEEP),
    ("unknown measure", "E404", GOOD, "--balance beauty"),
]


@pytest.mark.parametrize(("what", "code", "file", "words"), REFUSED)
def test_tables_of_a_day_are_refused(
    what: str,
    code: str,
    file: tuple[str, str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Vehicles, hours, pins, streets and plans to keep: a sentence, and no file."""
    for name, text in {**TABLES, file[0]: file[1]}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    assert main(["city", "init", "locations.csv", "--depot", "d", "--out", "city"]) == 0
    capfd.readouterr()
    day = "solve orders.csv --city city --vehicles vehicles.csv --iterations 9"
    assert main([*day.split(), "--out", "plan.csv", *words.split()]) == 1 + (
        code[1] != "2"
    )
    out, err = capfd.readouterr()
    assert out == ""
    assert code in err, f"{what}: {err}"
    lines = err.splitlines()
    assert all(line.startswith("clusterfirst: ") for line in lines)
    assert all(len(line) <= 300 for line in lines)
    assert not (tmp_path / "plan.csv").exists()
