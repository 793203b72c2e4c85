"""The command line on files: cities, samples, and the judging of solutions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from clusterfirst.files import read_instance, write_instance
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.sampling import PUBLIC_SETS
from commands import Capture, problem_of, run

LOCATIONS = "id,lat,lon\nhub,48.85,2.35\nann,48.86,2.36\nbob,48.84,2.33\ncy,48.87,2.3\n"


# --- cities and samples -----------------------------------------------------------


def test_a_city_folder_remembers_what_it_was_told(
    tmp_path: Path, capsys: Capture
) -> None:
    """init stores depot, capacity and fleet; show prints them."""
    (tmp_path / "locations.csv").write_text(LOCATIONS)
    out = tmp_path / "paris"
    words = ["--depot", "hub", "--out", out, "--capacity", "9", "--vehicles", "2"]
    assert run("city", "init", tmp_path / "locations.csv", *words) == 0
    capsys.readouterr()
    assert run("city", "show", out, "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["name"] == "paris"
    assert (facts["depot"], facts["metric"]) == ("hub", "greatcircle")
    assert (facts["capacity"], facts["vehicles"]) == (9, 2)
    assert run("city", "show", out) == 0
    assert "locations  3" in capsys.readouterr().out


@pytest.mark.parametrize("layout", ["uniform", "clustered"])
def test_a_sampled_city_is_a_function_of_its_seed(
    tmp_path: Path, layout: str, capsys: Capture
) -> None:
    """Two draws with one seed have one hash; another seed has another."""
    hashes = []
    for number, seed in enumerate([7, 7, 8]):
        out = tmp_path / str(number)
        words = ["--locations", "50", "--layout", layout, "--seed", seed]
        assert run("city", "sample", "--out", out, *map(str, words)) == 0
        assert run("city", "show", out, "--json") == 0
        hashes.append(json.loads(capsys.readouterr().out)["hash"])
    assert hashes[0] == hashes[1] != hashes[2]


def test_any_part_of_a_sample_can_be_drawn_again(tmp_path: Path) -> None:
    """Day 3 of a seed is the same file, whichever days are drawn beside it."""
    words = ["sample", "bundled", "--customers", "12", "--seed", "5"]
    assert run(*words, "--count", "5", "--out", tmp_path / "all") == 0
    assert run(*words, "--first", "3", "--out", tmp_path / "one") == 0
    (one,) = (tmp_path / "one").iterdir()
    assert one.read_bytes() == (tmp_path / "all" / one.name).read_bytes()
    assert len(list((tmp_path / "all").iterdir())) == 5
    instance = read_instance(one)
    assert instance.num_customers == 12
    assert instance.city_rows is not None


def test_public_sets_are_drawn_and_verified(tmp_path: Path, capsys: Capture) -> None:
    """lehd200 comes out with its capacity, after a look at its SHA-256."""
    words = ["--count", "2", "--out", tmp_path, "--format", "vrp", "--verify"]
    assert run("sample", "lehd200", *words) == 0
    assert PUBLIC_SETS["lehd200"].sha256 in capsys.readouterr().err
    instance = read_instance(tmp_path / "lehd200-1.vrp")
    assert (instance.num_customers, instance.capacity) == (200, 80)


# --- judging ----------------------------------------------------------------------


@pytest.fixture
def square(tmp_path: Path) -> Path:
    """Four customers on whole coordinates, capacity 2; folder with sq.vrp."""
    instance = Instance(
        demands=np.array([0, 1, 1, 1, 1]),
        capacity=2,
        coords=np.array([[0, 0], [2, 2], [2, 3], [-2, 2], [-2, 3]], dtype=float),
        name="sq",
    )
    write_instance(tmp_path / "sq.vrp", instance)
    return tmp_path


@pytest.mark.parametrize(
    ("solution", "code", "expected"),
    [
        ("Route #1: 1 2\nRoute #2: 3 4\nCost 14.867956\n", 0, "feasible: cost"),
        ("Route #1: 1 2\nRoute #2: 3 4\n", 0, "feasible: cost 14.86795"),
        ("Route #1: 1 2 3\nRoute #2: 4\n", 1, "E801 route 1: found load 3"),
        ("Route #1: 1 2\nRoute #2: 3\n", 1, "E802 customer 4"),
        ("Route #1: 1 2\nRoute #2: 3 4\nRoute #3: 4\n", 1, "E803 customer 4"),
        ("Route #1: 1 2\nRoute #2: 3 9 4\n", 1, "E804 route 2: found customer 9"),
        ("Route #1: 1 2\nRoute #2: 3 4\nRoute #3:\n", 1, "E805 route 3"),
        ("Route #1: 1 2\nRoute #2: 3 4\nCost 16\n", 1, "E806 cost: found 16"),
    ],
)
def test_check_judges_any_solution(
    square: Path, solution: str, code: int, expected: str, capsys: Capture
) -> None:
    """0 feasible, 1 not; each violation is a line on stdout."""
    (square / "a.sol").write_text(solution)
    assert run("check", square / "sq.vrp", square / "a.sol") == code
    assert expected in capsys.readouterr().out


def test_check_names_the_rounding_that_fits_a_stated_cost(
    square: Path, capsys: Capture
) -> None:
    """A CVRPLIB cost judged without rounding is refused, with the flag to add."""
    (square / "a.sol").write_text("Route #1: 1 2\nRoute #2: 3 4\nCost 16\n")
    words = ["check", square / "sq.vrp", square / "a.sol"]
    assert run(*words) == 1
    assert "right with --rounding round" in capsys.readouterr().err
    assert run(*words, "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert document["stated_cost_fits_rounding"] == ["round"]
    assert document["violations"][0]["code"] == "E806"
    assert run(*words, "--rounding", "round") == 0


def test_check_ends_with_2_when_a_file_cannot_be_read(
    square: Path, capsys: Capture
) -> None:
    """Unreadable is another answer than infeasible."""
    (square / "a.sol").write_text("Tour 1 2\n")
    words = ["--rounding", "none"]
    assert run("check", square / "sq.vrp", square / "a.sol", *words) == 2
    assert "E811" in problem_of(capsys)
    assert run("check", square / "sq.vrp", square / "none.sol", *words) == 2
    assert "E102" in problem_of(capsys)


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_plot_draws_feasible_or_not(square: Path, suffix: str) -> None:
    """A wrong solution is worth looking at, too."""
    (square / "a.sol").write_text("Route #1: 1 2 3\n")
    picture = square / f"a.{suffix}"
    assert run("export", square / "sq.vrp", square / "a.sol", "--out", picture) == 0
    assert picture.stat().st_size > 1000
