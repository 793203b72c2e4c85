"""Commands that fill a folder over several runs replace nothing of anybody else's."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from clusterfirst.files import write_city, write_instance
from clusterfirst.files.lock import locked
from clusterfirst.problem.errors import InputError
from commands import Capture, problem_of, run
from networks import small_city, small_day
from test_outputs import snapshot
from train_tiny import CONFIG

pytest.importorskip("torch", reason="the extra `train` is missing")
pytest.importorskip("hygese", reason="labels come from HGS (extra: labels)")

BENCH = "bench --city bundled --customers 8 --count 1 --methods sweep --seconds 0.1"
IMPORT = "labels import labels.npz --city town --capacity 9"
COMMANDS = {
    "bench": BENCH,
    "paper": "paper histogram --instances 1",
    "label": "label world --customers 8 --count 1 --iterations 5",
    "import": IMPORT,
    "merge": "labels merge labels",
    "pretrain": "pretrain town --minutes 0",
    "train": "train --labels labels --config config.json --steps 1 --threads 1",
    "validate": "train --labels labels --config config.json --steps 1 --validate 1",
    "learn": "learn town --hours 0.001 --threads 1",
}
# What each writes, and finds as somebody else's file or as a link that leads out.
FILES = {
    "bench": ["bundled-8-1.txt", "bundled-8-1.png", "rows.jsonl"],
    "paper": ["histogram.csv", "histogram.png", "runs.jsonl"],
    "label": ["manifest.json"],
    "import": ["manifest.json"],
    "merge": ["manifest.json"],
    "pretrain": ["psi.safetensors", "curve.csv", "embedding.png"],
    "train": ["config.json", "curve.csv", "validation.csv", "city/city.json"],
    "learn": [".lock"],  # its stages are commands themselves
}
PLACES = [(command, name) for command, names in FILES.items() for name in names]
FOLDERS = [("paper", "pictures"), ("pretrain", "checkpoints"), ("train", "checkpoints")]
FOLDERS += [("validate", "validation")]
FOLDERS += [("learn", name) for name in ("psi", "labels", "validation", "model")]


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A city, labels of it and a configuration: what the commands read."""
    place = tmp_path_factory.mktemp("given")
    write_city(place / "town", small_city())
    arrays = {name: np.array([[0, 1, 2]]) for name in ("idx", "demand", "route")}
    town = small_city().coords[:4]
    tour = sum(np.hypot(*(town[a] - town[b])) for a, b in ((0, 1), (0, 2), (0, 3)))
    arrays |= {"demand": np.array([[1, 2, 3]]), "cost": np.array([2 * tour])}
    np.savez(place / "labels.npz", **arrays)
    (place / "config.json").write_text(json.dumps(CONFIG.as_dict()))
    assert told(place, IMPORT, place / "labels") == 0
    return place


def told(given: Path, command: str, out: Path) -> int:
    """Run a command whose inputs lie in a folder."""
    words = [str(given / w) if (given / w).exists() else w for w in command.split()]
    words[0] = Path(words[0]).name  # `labels` is a command, too
    return run(*words, "--out", out)


@pytest.mark.parametrize(("command", "name"), PLACES)
def test_somebody_else_s_file_stays(
    given: Path,
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    name: str,
) -> None:
    """The refusal names the file, and nothing in the folder has changed."""
    monkeypatch.chdir(tmp_path)  # messages cut long paths
    out = Path("out")
    (out / name).parent.mkdir(parents=True)
    (out / name).write_text("mine\n")
    before = snapshot(tmp_path)
    assert told(given, COMMANDS[command], out) == 2
    if command != "merge":  # that needs an empty folder
        last = capsys.readouterr().err.splitlines()[-1]
        assert "E734 --out" in last
        assert f"out/{name}" in last
    kept = snapshot(tmp_path)
    assert {key: kept[key] for key in before} == before


@pytest.mark.parametrize(("command", "name"), [*PLACES, *FOLDERS])
def test_no_link_leads_out_of_the_folder(
    given: Path, tmp_path: Path, capsys: Capture, command: str, name: str
) -> None:
    """Files behind links, and folders behind links, are not written."""
    out, away = tmp_path / "out", tmp_path / "away"
    (out / name).parent.mkdir(parents=True)
    if (command, name) in FOLDERS:
        away.mkdir()
        (away / "mine").write_text("mine\n")
    else:
        away.write_text("mine\n")
    (out / name).symlink_to(away)
    before = snapshot(tmp_path)
    assert told(given, COMMANDS[command], out) == 2
    capsys.readouterr()
    kept = snapshot(tmp_path)
    assert {key: kept[key] for key in before} == before


def test_a_folder_of_its_own_goes_on(given: Path, tmp_path: Path) -> None:
    """The second time each command takes up what the first has left."""
    for command in ("bench", "import"):  # the others: where their kills are tested
        for _ in range(2):
            assert told(given, COMMANDS[command], tmp_path / command) == 0


def test_what_a_city_calls_itself_is_no_path_of_a_report(tmp_path: Path) -> None:
    """`bench` writes its table into --out, whatever the name in city.json (A1)."""
    write_city(tmp_path / "town", small_city())
    document = json.loads((tmp_path / "town" / "city.json").read_text())
    document["name"] = "../../up"
    (tmp_path / "town" / "city.json").write_text(json.dumps(document))
    words = BENCH.replace("bundled", str(tmp_path / "town")).split()
    assert run(*words, "--out", tmp_path / "a" / "b") == 0
    assert {path.name for path in tmp_path.iterdir()} == {"town", "a"}
    assert {path.name for path in (tmp_path / "a").iterdir()} == {"b"}


@pytest.mark.parametrize("name", ["days.jsonl", "locations.csv"])
def test_a_city_is_not_written_through_links(
    tmp_path: Path, capsys: Capture, name: str
) -> None:
    """Past days and locations of a city lie in its folder and nowhere else."""
    town, day = tmp_path / "town", tmp_path / "2026-01-05.csv"
    write_city(town, small_city())
    write_instance(day, small_day())
    words: dict[str, list[str | Path]] = {
        "days.jsonl": ["city", "add-days", town, day],
        "locations.csv": ["city", "add-locations", town, tmp_path / "more.csv"],
    }
    (tmp_path / "more.csv").write_text("id,x,y\nnew,0.5,0.5\n")
    if (town / name).exists():
        (town / name).rename(tmp_path / name)
    (town / name).symlink_to(tmp_path / name)
    before = snapshot(tmp_path)
    assert run(*words[name]) == 2
    assert "outside of the folder" in problem_of(capsys)
    assert snapshot(tmp_path) == before


def test_two_sets_of_one_name_are_refused_before_any_is_run(
    tmp_path: Path, capsys: Capture
) -> None:
    """Their tables would be the same file."""
    for parent in ("a", "b"):
        (tmp_path / parent / "days").mkdir(parents=True)
        write_instance(tmp_path / parent / "days" / "day.vrp", small_day())
    capsys.readouterr()
    words = ["--methods", "sweep", "--seconds", "0.1", "--out", tmp_path / "o"]
    sets = [tmp_path / "a" / "days", tmp_path / "b" / "days"]
    assert run("bench", *sets, *words) == 2
    assert "two answers would go there" in problem_of(capsys)
    assert not (tmp_path / "o").exists()


def test_a_file_that_is_no_lock_of_ours_stays(tmp_path: Path) -> None:
    """A lock is made, held and removed; what somebody wrote is not."""
    (tmp_path / ".lock").write_text("mine\n")
    with pytest.raises(InputError, match="E734"), locked(tmp_path):
        pass
    assert (tmp_path / ".lock").read_text() == "mine\n"
