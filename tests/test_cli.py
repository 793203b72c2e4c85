"""The command line: exit codes, streams, and one line per problem."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from clusterfirst.cli import main
from clusterfirst.commands import options
from clusterfirst.files import (
    Limits,
    bundled_city,
    read_instance,
    read_solution,
    write_instance,
)
from clusterfirst.problem.instance import MAX_CUSTOMERS, ROUNDINGS
from clusterfirst.problem.sampling import PUBLIC_SETS, sample_city, sample_day
from clusterfirst.problem.solution import judge
from clusterfirst.solving.options import ASSIGNMENTS, FLEETS, METHODS
from commands import Capture, problem_of, run

CLI = [sys.executable, "-m", "clusterfirst"]
LOCATIONS = "id,lat,lon\nhub,48.85,2.35\nann,48.86,2.36\nbob,48.84,2.33\ncy,48.87,2.3\n"
CLASSICAL = ("fisher-jaikumar", "sweep", "petal", "savings")  # need no weights
ORDERS = "id,demand\nann,2\nbob,3\ncy,4\n"


@pytest.fixture
def day(tmp_path: Path) -> Path:
    """A day of twenty customers as day.vrp."""
    instance = sample_day(sample_city(60, seed=1), 20, seed=2, index=0)
    write_instance(tmp_path / "day.vrp", instance)
    return tmp_path / "day.vrp"


@pytest.fixture
def paris(tmp_path: Path) -> Path:
    """A city folder without a capacity, and orders.csv beside it."""
    (tmp_path / "locations.csv").write_text(LOCATIONS)
    (tmp_path / "orders.csv").write_text(ORDERS)
    city = tmp_path / "paris"
    table = str(tmp_path / "locations.csv")
    assert main(["city", "init", table, "--depot", "hub", "--out", str(city)]) == 0
    return city


# --- usage ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["slove"], "No such command 'slove'. Did you mean"),
        (["city"], "Missing command"),
        (["check", "a.vrp"], "Missing argument 'SOLUTION'"),
        (["solve", "a.vrp", "--timelimit", "3"], "--time-limit"),
        (["solve", "a.vrp", "--time-limit", "10s"], "--time-limit: found 10s"),
        (["solve", "a.vrp", "--time-limit=10s"], "--time-limit: found 10s"),
        (["solve", "a.vrp", "--seed", "x\ny"], r"--seed: found x\ny"),
        (["solve", "a.vrp", "--rounding", "nearest"], "one of none, round"),
        (["solve", "a.vrp", "--vehicles", "0"], "vehicles: found 0"),
        (["solve", "a.vrp", "--capacity", "nan"], "capacity: found nan"),
        (["solve", "a.vrp", "--max-bytes", "0"], "--max-bytes: found 0"),
        (["solve", "a.vrp", "--out", "a.doc"], "--out: found a.doc"),
        (["solve", "a.vrp", "b.vrp", "--out", "a.sol"], "several instances"),
        (["solve", "a.vrp", "--method", "magic"], "method: found magic"),
        (["solve", "a.vrp", "--time-limit", "-1"], "time_limit: found -1"),
        (["solve", "no-such-folder"], "found no-such-folder"),
        (["sample", "nowhere", "--out", "o"], "nowhere"),
        (["sample", "bundled", "--out", "o", "--count", "-1"], "--count: found -1"),
        (["sample", "bundled", "--out", "o", "--format", "x"], "--format: found x"),
        (["sample", "bundled", "--out", "o", "--customers", "9999"], "found 9999"),
        (["sample", "cvrp100", "--out", "o", "--seed", "1"], "--seed: found 1"),
        (["sample", "bundled", "--out", "o", "--verify"], "--verify"),
        (["sample", "cvrp100", "--out", "o", "--first", "10000"], "0 to 9999"),
        (["city", "sample", "--out", "c", "--layout", "x"], "--layout: found x"),
        (["city", "sample", "--out", "c", "--locations", "0"], "--locations: found 0"),
        (["city", "show", "nowhere"], "nowhere"),
        (["solve", "x" * 5000 + ".vrp"], "File name too long"),
        (["solve", "a\0b.vrp"], "embedded null byte"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value)[:40],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    words: list[str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    """Each mistake is named in one line without box art, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert expected in problem_of(capsys)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_json_errors_are_documents(capsys: Capture) -> None:
    """Under --json the same problem is on stdout, for usage errors too."""
    for words in (["check", "no.vrp", "no.sol"], ["solve", "no.vrp", "--seed", "x"]):
        assert main([*words, "--json"]) == 2
        out, err = capsys.readouterr()
        error = json.loads(out)["error"]
        assert set(error) == {"code", "where", "got", "rule", "message"}
        assert error["message"] in err


def test_no_words_print_the_help(capsys: Capture) -> None:
    """`clusterfirst` alone lists the commands on stdout."""
    assert main([]) == 0
    out, err = capsys.readouterr()
    assert "Commands:" in out
    assert err == ""


def test_limits_and_names_in_the_help_are_the_real_ones(capsys: Capture) -> None:
    """What options.py repeats, to stay light, equals what the package does."""
    assert options.MAX_CUSTOMERS == MAX_CUSTOMERS == Limits().max_customers
    assert Limits().max_bytes == options.MAX_BYTES
    assert set(CLASSICAL) <= set(METHODS)
    assert main(["sample", "--help"]) == 0
    assert main(["solve", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for name in (*ROUNDINGS, *PUBLIC_SETS, *CLASSICAL, *ASSIGNMENTS, *FLEETS):
        assert name in text


def test_versions_are_all_a_bug_report_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """What is installed and what is not, the machine, models and our variables."""
    monkeypatch.setenv("CLUSTERFIRST_DATA", "/data")
    monkeypatch.setenv("SOMEBODYS_SECRET", "hush")
    assert main(["versions", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    packages = {"clusterfirst", "python", "numpy", "numba", "highspy", "torch"}
    machine = {"platform", "processor", "cores", "memory", "encoding"}
    assert packages | machine <= set(found)
    assert "general@" in found["models"]
    assert found["CLUSTERFIRST_DATA"] == "/data"
    assert "hush" not in found.values()
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("clusterfirst ")


def test_a_bug_is_one_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """An exception nobody expected is named as a bug, without a traceback."""

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("clusterfirst.commands.cities.open_history", broken)
    assert main(["city", "show", "x"]) == 2
    assert "E999 RuntimeError: found boom; this is a bug" in problem_of(capsys)


# --- solving ----------------------------------------------------------------------

FAST = ["--iterations", "1"]


def test_one_instance_prints_its_routes_as_sol(day: Path, capsys: Capture) -> None:
    """`solve day.vrp > day.sol` works: routes on stdout, the summary on stderr."""
    assert run("solve", day, *FAST) == 0
    out, err = capsys.readouterr()
    assert "method fisher-jaikumar" in err
    (day.parent / "a.sol").write_text(out)
    instance = read_instance(day)
    solution, stated = read_solution(day.parent / "a.sol", instance)
    assert judge(instance, solution, stated_cost=stated).feasible


@pytest.mark.parametrize("method", CLASSICAL)
def test_the_method_used_is_always_printed(
    day: Path, method: str, capsys: Capture
) -> None:
    """Nobody has to guess what made the routes."""
    words = ["--time-limit", "0.3", "--method", method, "--json"]
    assert run("solve", day, *words) == 0
    out, err = capsys.readouterr()
    assert f"method {method}+polish" in err
    assert json.loads(out)["method"] == f"{method}+polish"
    assert run("solve", day, *words, "--no-polish") == 0
    assert json.loads(capsys.readouterr().out)["method"] == method


@pytest.mark.parametrize("suffix", ["sol", "json", "csv", "png", "svg"])
def test_the_suffix_of_out_chooses_the_format(
    day: Path, suffix: str, capsys: Capture
) -> None:
    """One file of the right kind, and nothing on stdout."""
    out = day.parent / f"answer.{suffix}"
    assert run("solve", day, *FAST, "--out", out) == 0
    assert capsys.readouterr().out == ""
    starts = {"sol": b"Route #1:", "json": b"{", "csv": b"route,stop,id"}
    starts |= {"png": b"\x89PNG", "svg": b"<?xml"}
    assert out.read_bytes().startswith(starts[suffix])
    if suffix in ("sol", "json"):
        assert run("check", day, out) == 0


def test_the_same_seed_gives_the_same_files(day: Path) -> None:
    """Byte for byte in .sol, when counts end the work and not the clock."""
    for name in ("a.sol", "b.sol"):
        words = ["--iterations", "3", "--seed", "4", "--out", day.parent / name]
        assert run("solve", day, *words) == 0
    first, second = (day.parent / name for name in ("a.sol", "b.sol"))
    assert first.read_bytes() == second.read_bytes()


def test_a_bad_file_does_not_stop_the_others(day: Path, capsys: Capture) -> None:
    """It is named, the exit code is 2, and every other file has its answer."""
    folder = day.parent
    (folder / "bad.vrp").write_text("NAME : bad\n")
    (folder / "other.vrp").write_bytes(day.read_bytes())
    out = folder / "answers"
    assert run("solve", folder, *FAST, "--out", out) == 2
    stdout, err = capsys.readouterr()
    assert "bad.vrp: E111" in err
    assert len(stdout.splitlines()) == 2
    assert sorted(path.name for path in out.iterdir()) == ["day.sol", "other.sol"]
    assert run("solve", folder, *FAST, "--json") == 2
    results = json.loads(capsys.readouterr().out)["results"]
    assert [("error" in result) for result in results] == [True, False, False]


def test_progress_on_a_terminal_leaves_stdout_alone(day: Path) -> None:
    """With a bar on stderr and stdout in a pipe, the pipe gets the data only."""
    (day.parent / "other.vrp").write_bytes(day.read_bytes())
    screen, terminal = pty.openpty()
    try:
        words = [*CLI, "solve", str(day.parent), *FAST]
        pipe = subprocess.PIPE
        done = subprocess.run(words, stdout=pipe, stderr=terminal, check=True)
    finally:
        os.close(terminal)
        os.close(screen)
    assert len(done.stdout.splitlines()) == 2
    assert b"\x1b" not in done.stdout


def test_two_answers_never_share_a_file(day: Path, capsys: Capture) -> None:
    """Two inputs of one name, or the input itself, are not written over."""
    other = day.parent / "more" / "day.vrp"
    other.parent.mkdir()
    other.write_bytes(day.read_bytes())
    assert run("solve", day, other, *FAST, "--out", day.parent / "out") == 2
    assert "two answers would go there" in capsys.readouterr().err
    instance = day.with_suffix(".json")
    write_instance(instance, read_instance(day))
    before = instance.read_bytes()
    assert run("solve", instance, *FAST, "--out", instance) == 2
    assert instance.read_bytes() == before


def test_a_day_of_orders_needs_its_city_and_a_capacity(
    paris: Path, capsys: Capture
) -> None:
    """The refusal names the flag to add; with both, stops come under their ids."""
    orders = paris.parent / "orders.csv"
    capsys.readouterr()
    assert run("solve", orders) == 2
    assert "--city FOLDER" in problem_of(capsys)
    assert run("solve", orders, "--city", paris) == 2
    assert "--capacity Q" in problem_of(capsys)
    words = ["--city", paris, "--capacity", "5", *FAST]
    assert run("solve", orders, *words) == 0
    out, err = capsys.readouterr()
    assert out.startswith("route,stop,id,demand,load,distance,lat,lon\n")
    assert {"ann", "bob", "cy", "hub"} <= {line.split(",")[2] for line in out.split()}
    assert " km, 2 routes" in err
    geo = paris.parent / "a.geojson"
    assert run("solve", orders, *words, "--out", geo) == 0
    assert json.loads(geo.read_text())["type"] == "FeatureCollection"


def test_no_feasible_solution_ends_with_1(paris: Path, capsys: Capture) -> None:
    """Proven infeasibility is said in words, on stderr and in the document."""
    orders = paris.parent / "orders.csv"
    capsys.readouterr()
    words = ["--city", paris, "--capacity", "5", "--vehicles", "1"]
    assert run("solve", orders, *words) == 1
    assert "E202" in problem_of(capsys)
    assert run("solve", orders, *words, "--json") == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "E202"
    assert "infeasible" in error["message"]


def test_a_set_is_solved_instance_by_instance(tmp_path: Path, capsys: Capture) -> None:
    """An .npz of two instances gives two lines, and two files in a folder."""
    rng = np.random.default_rng(0)
    arrays = {
        "coords": rng.random((2, 9, 2)),
        "demand": np.column_stack([np.zeros((2, 1)), rng.integers(1, 9, (2, 8))]),
        "capacity": np.array([20, 20]),
    }
    np.savez(tmp_path / "two.npz", **arrays)
    out = tmp_path / "out"
    assert run("solve", tmp_path / "two.npz", *FAST, "--out", out) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert len(list(out.iterdir())) == 2
    assert run("solve", tmp_path / "two.npz", *FAST, "--out", tmp_path / "a.sol") == 2
    assert "several instances need a folder" in capsys.readouterr().err


def test_demo_solves_the_bundled_day(tmp_path: Path, capsys: Capture) -> None:
    """The first thing a newcomer sees: a summary and a picture."""
    out = tmp_path / "pictures" / "demo.png"
    assert run("demo", "--out", out) == 0
    assert "200 customers" in capsys.readouterr().out
    assert out.read_bytes().startswith(b"\x89PNG")


# --- the outside world ------------------------------------------------------------


def test_a_broken_pipe_is_quiet(tmp_path: Path) -> None:
    """`clusterfirst ... | head` ends without a word on stderr."""
    program = "import sys; from clusterfirst.cli import main; sys.exit(main())"
    words = [sys.executable, "-c", program, "city", "show", "bundled"]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            words, stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False
        )
    finally:
        os.close(writer)
    assert done.stderr == b""
    assert done.returncode == 141


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_with_the_best_answer_so_far(tmp_path: Path, number: int) -> None:
    """An interrupted solve hands over what it has, says so, and ends with 130."""
    instance = tmp_path / "day.json"
    write_instance(instance, sample_day(bundled_city(), 300, seed=0, index=0))
    solve = subprocess.Popen(
        [*CLI, "solve", str(instance), "--time-limit", "60", "--json-lines"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert solve.stdout is not None
    solve.stdout.readline()  # the search has an answer
    solve.send_signal(number)
    out, err = solve.communicate(timeout=30)
    assert solve.returncode == 130
    assert "Traceback" not in err
    assert "interrupted" in err
    result = json.loads(out.splitlines()[-1])
    assert result["status"].startswith("interrupted")
    assert sorted(c for route in result["routes"] for c in map(int, route)) == sorted(
        int(name) for name in read_instance(instance).ids[1:]
    )
