"""Where answers go: never outside, never over an input, never half a job."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterfirst.files import write_instance
from clusterfirst.files.outputs import MAX_NAME, Outputs, file_name
from clusterfirst.problem.errors import InputError
from clusterfirst.problem.instance import Instance
from commands import Capture, problem_of, run

FAST = ["--iterations", "1", "--method", "savings", "--no-polish"]
LOCATIONS = "id,lat,lon,note\nhub,48.85,2.35,a\nann,48.86,2.36,b\nbob,48.84,2.33,c\n"


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """Every file below a folder with its bytes, and every folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def write_set(path: Path, names: list[str]) -> Path:
    """Write a set of small instances under these names."""
    count = len(names)
    np.savez(
        path,
        coords=np.random.default_rng(0).random((count, 4, 2)),
        demand=np.tile([0, 1, 2, 3], (count, 1)),
        capacity=np.full(count, 5),
        name=np.array(names),
    )
    return path


@pytest.fixture
def day(tmp_path: Path) -> Path:
    """A small instance in degrees."""
    path = tmp_path / "day.json"
    coords = [[2.35, 48.85], [2.36, 48.86], [2.33, 48.84], [2.3, 48.87]]
    write_instance(path, Instance([0, 1, 2, 3], 5, coords, metric="greatcircle"))
    return path


# --- names ----------------------------------------------------------------------------


@given(st.text(max_size=400))
def test_any_name_becomes_one_plain_file_name(name: str) -> None:
    """No separator, no control character, not hidden, and short enough."""
    safe = file_name(name, ".sol")
    assert Path(safe).name == safe
    assert Path(safe).suffix == ".sol"
    assert safe.isprintable()
    assert not set(safe) & set('/\\<>:"|?*')
    assert safe[0] not in ".-~ "
    assert len(safe.encode()) <= MAX_NAME


def test_common_names_stay_and_long_ones_stay_apart() -> None:
    """What a person calls a day is what the file is called."""
    assert file_name("monday, north 3.2", ".sol") == "monday, north 3.2.sol"
    assert file_name("x" * 300, ".sol") != file_name("x" * 301, ".sol")
    assert file_name("NUL", ".sol") == "_NUL.sol"


def test_names_inside_a_set_never_leave_the_folder(tmp_path: Path) -> None:
    """Relative, absolute and hidden names are files inside of --out (A1)."""
    away = tmp_path / "away"
    names = ["../../X", str(away), "a/b", ".hidden", "y" * 200]
    source = write_set(tmp_path / "t.npz", names)
    out = tmp_path / "o" / "deep" / "in"
    assert run("solve", source, *FAST, "--out", out) == 0
    assert len(list(out.iterdir())) == len(names)
    below = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert below == {source, *out.iterdir()}


@pytest.mark.parametrize("names", [["a", "a"], ["a/b", "a_b"], ["Day", "day"]])
def test_names_that_collide_are_refused_before_anything_is_solved(
    tmp_path: Path, capsys: Capture, names: list[str]
) -> None:
    """No answer is written, and none is thrown away after it was found (A8)."""
    source = write_set(tmp_path / "t.npz", names)
    before = snapshot(tmp_path)
    assert run("solve", source, *FAST, "--out", tmp_path / "o") == 2
    assert "E734" in problem_of(capsys)
    assert snapshot(tmp_path) == before


def test_a_city_s_name_is_no_path(tmp_path: Path) -> None:
    """Days are drawn into --out, whatever the city calls itself."""
    city = tmp_path / "city"
    assert run("city", "sample", "--out", city, "--locations", "9") == 0
    document = json.loads((city / "city.json").read_text())
    document["name"] = "../../up"
    (city / "city.json").write_text(json.dumps(document))
    out = tmp_path / "a" / "b"
    words = ["--customers", "3", "--count", "2", "--out", out]
    assert run("sample", city, *words) == 0
    assert len(list(out.iterdir())) == 2
    assert {path.name for path in tmp_path.iterdir()} == {"a", "city"}


# --- inputs ---------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["itself", "symlink", "hardlink"])
@pytest.mark.parametrize("command", ["solve", "explain", "export"])
def test_an_input_is_never_written_over(
    day: Path, tmp_path: Path, capsys: Capture, how: str, command: str
) -> None:
    """Under its own name and under others, with --overwrite too (A5)."""
    target = day
    if how != "itself":
        target = tmp_path / "other.json"
        (target.symlink_to if how == "symlink" else target.hardlink_to)(day)
    words: list[str | Path] = [command, day, "--out", target]
    if command == "export":
        (tmp_path / "a.sol").write_text("Route #1: 1 2\nRoute #2: 3\n")
        words.insert(2, tmp_path / "a.sol")
    before = snapshot(tmp_path)
    assert run(*words) == 2
    assert "E734" in problem_of(capsys)
    assert snapshot(tmp_path) == before


def test_a_table_of_locations_keeps_its_further_columns(
    tmp_path: Path, capsys: Capture
) -> None:
    """city init into the folder of its own table would lose them (A5)."""
    table = tmp_path / "cc" / "locations.csv"
    table.parent.mkdir()
    table.write_text(LOCATIONS)
    words = ["city", "init", table, "--depot", "hub", "--out", table.parent]
    for more in ([], ["--overwrite"]):
        assert run(*words, *more) == 2
        assert "E734" in problem_of(capsys)
    assert snapshot(table.parent) == {"locations.csv": LOCATIONS.encode()}


def test_files_of_the_city_are_inputs(tmp_path: Path, capsys: Capture) -> None:
    """The stops of a day do not replace the table of its city."""
    (tmp_path / "l.csv").write_text(LOCATIONS)
    city = tmp_path / "city"
    assert run("city", "init", tmp_path / "l.csv", "--depot", "hub", "--out", city) == 0
    orders = tmp_path / "orders.csv"
    orders.write_text("id,demand\nann,1\n")
    capsys.readouterr()
    words = ["--city", city, "--capacity", "5", "--out", city / "locations.csv"]
    assert run("solve", orders, *words) == 2
    assert "E734" in problem_of(capsys)


# --- folders --------------------------------------------------------------------------


def test_a_folder_is_filled_but_nothing_in_it_is_replaced(
    day: Path, tmp_path: Path, capsys: Capture
) -> None:
    """The refusal names the file; --overwrite allows it (A5)."""
    reference = tmp_path / "day.sol"
    reference.write_text("Route #1: 1\n")
    assert run("solve", tmp_path, *FAST, "--out", tmp_path) == 2
    assert "day.sol" in problem_of(capsys)
    assert reference.read_text() == "Route #1: 1\n"
    assert run("solve", tmp_path, *FAST, "--out", tmp_path, "--overwrite") == 0
    assert "Cost" in reference.read_text()


@pytest.mark.parametrize("command", ["init", "sample", "days"])
def test_cities_and_days_replace_nothing_unasked(
    tmp_path: Path, capsys: Capture, command: str
) -> None:
    """The second time the same command is refused, with --overwrite it is not (A5)."""
    (tmp_path / "l.csv").write_text(LOCATIONS)
    out: list[str | Path] = ["--out", tmp_path / "o"]
    words: list[str | Path] = {
        "init": ["city", "init", tmp_path / "l.csv", "--depot", "hub"],
        "sample": ["city", "sample", "--locations", "5"],
        "days": ["sample", "bundled", "--customers", "60"],
    }[command]
    assert run(*words, *out) == 0
    before = snapshot(tmp_path)
    capsys.readouterr()
    assert run(*words, *out) == 2
    assert "--overwrite" in problem_of(capsys)
    assert snapshot(tmp_path) == before
    assert run(*words, *out, "--overwrite") == 0


def test_a_link_in_the_folder_is_not_followed_out_of_it(
    day: Path, tmp_path: Path, capsys: Capture
) -> None:
    """--overwrite replaces what is inside, not what a link points to."""
    out, victim = tmp_path / "o", tmp_path / "victim"
    out.mkdir()
    victim.write_text("mine")
    (out / "day.sol").symlink_to(victim)
    assert run("solve", day, *FAST, "--out", out, "--overwrite") == 2
    assert "outside" in problem_of(capsys)
    assert victim.read_text() == "mine"


# --- several outputs, and failing ones ------------------------------------------------


def test_one_run_writes_the_same_plan_to_every_file(day: Path, tmp_path: Path) -> None:
    """Files and a folder at once; the routes are the same in all of them (B3)."""
    names = ["a.sol", "b.json", "c.csv", "d.geojson", "e.svg", "folder"]
    outs = [word for name in names for word in ("--out", tmp_path / name)]
    assert run("solve", day, *FAST, *outs) == 0
    assert (tmp_path / "folder" / "day.sol").read_bytes() == (
        tmp_path / "a.sol"
    ).read_bytes()
    assert all((tmp_path / name).exists() for name in names)


def test_plot_turns_a_solution_into_other_formats(day: Path, tmp_path: Path) -> None:
    """From .sol to a map and a table in one go (B3)."""
    (tmp_path / "a.sol").write_text("Route #1: 1 2\nRoute #2: 3\n")
    words = ["--out", tmp_path / "a.geojson", "--out", tmp_path / "a.json"]
    assert run("export", day, tmp_path / "a.sol", *words) == 0
    routes = json.loads((tmp_path / "a.json").read_text())["routes"]
    assert routes == [["1", "2"], ["3"]]
    assert "LineString" in (tmp_path / "a.geojson").read_text()


def test_an_output_that_cannot_be_written_is_named_before_the_work(
    day: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing folder, a file as folder, a full disk: nothing is solved (B6)."""

    def never(*args: object, **more: object) -> None:
        raise AssertionError("solved")

    monkeypatch.setattr("clusterfirst.solving.solver.solve", never)
    (tmp_path / "file").write_text("")
    for place in ("nowhere/a.sol", "file/a.sol", "file/folder"):
        assert run("solve", day, "--out", tmp_path / place) == 2
        assert "E731" in problem_of(capsys)
    full = shutil.disk_usage(tmp_path)._replace(free=0)
    monkeypatch.setattr("clusterfirst.files.outputs.shutil.disk_usage", lambda _: full)
    assert run("solve", day, "--out", tmp_path / "a.sol") == 2
    assert "E732" in problem_of(capsys)


def test_a_pipe_behind_a_name_is_called_one() -> None:
    """`--out /dev/stdout | cat` said that the disk was full."""
    ear, mouth = os.pipe()
    try:
        for place in (f"/dev/fd/{mouth}", "/dev/null"):
            with pytest.raises(InputError, match=r"E731.*not a regular file"):
                Outputs().file(Path(place))
        with pytest.raises(InputError, match="no folder"):
            Outputs().inside(Path("/dev/null"), "day.sol")
    finally:
        os.close(ear)
        os.close(mouth)


def test_a_format_that_cannot_hold_the_routes_is_named_before_the_work(
    tmp_path: Path, capsys: Capture
) -> None:
    """GeoJSON of a plane."""
    path = tmp_path / "plane.json"
    write_instance(path, Instance([0, 1], 5, [[0, 0], [1, 1]]))
    words = ["--out", tmp_path / "a.sol", "--out", tmp_path / "a.geojson"]
    assert run("solve", path, *FAST, *words) == 2
    assert "E153" in problem_of(capsys)
    assert not (tmp_path / "a.sol").exists()


def test_one_failed_output_ends_nothing(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other answers are written, all are in the JSON, and the code is 2 (A8)."""
    source = write_set(tmp_path / "t.npz", ["a", "b", "c"])
    replace = os.replace

    def broken(old: Path, new: Path) -> None:
        if new.name == "b.sol":
            raise PermissionError(13, "Permission denied")
        replace(old, new)

    monkeypatch.setattr("clusterfirst.files.atomic.os.replace", broken)
    assert run("solve", source, *FAST, "--out", tmp_path / "o", "--json") == 2
    text, words = capsys.readouterr()
    results = json.loads(text)["results"]
    assert [bool(result["routes"]) for result in results] == [True] * 3
    assert ["not_written" in result for result in results] == [False, True, False]
    assert "b.sol" in words
    assert {path.name for path in (tmp_path / "o").iterdir()} == {"a.sol", "c.sol"}


@pytest.mark.parametrize("words", [["--out", ""], ["--out="]])
def test_an_empty_output_is_refused(
    day: Path, capsys: Capture, words: list[str]
) -> None:
    """It would be the current folder (A11)."""
    assert run("solve", day, *FAST, *words) == 2
    assert "E404 --out" in problem_of(capsys)


def test_closed_streams_end_in_a_sentence(day: Path) -> None:
    """Without stdout nothing is begun; without stderr stdout stays clean (A7)."""
    command = f"{sys.executable} -m clusterfirst solve {day} --json"
    command += " --iterations 1 --method savings --no-polish"
    done = subprocess.run(
        f"{command} >&-", shell=True, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "standard output" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    done = subprocess.run(
        f"{command} 2>&-", shell=True, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["routes"]


def test_a_claim_holds_for_one_answer() -> None:
    """The same file twice in one command is refused."""
    outputs = Outputs()
    outputs.file(Path("a.sol"))
    with pytest.raises(InputError):
        outputs.file(Path("./a.sol"))
