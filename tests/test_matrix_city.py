"""A city whose distances are those of a matrix: its days have slices of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from clusterfirst.cities.day_law import fit
from clusterfirst.cities.history import History, PastDay, add_days, read_history
from clusterfirst.cities.quote import Quoter, QuoteSettings
from clusterfirst.cities.territories import TerritorySettings, find_territories
from clusterfirst.files import read_city, write_city
from clusterfirst.files.city_folder import add_locations
from clusterfirst.problem.city import City
from clusterfirst.problem.errors import InputError
from clusterfirst.problem.sampling import sample_city
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.solving.solver import SolveOptions, solve
from commands import Capture, problem_of, run

PLAIN = sample_city(40, seed=4, name="streets").replace(capacity=20)


def streets() -> City:
    """Blocks: every way is along the axes, and a river doubles ways across it."""
    gap = np.abs(PLAIN.coords[:, None] - PLAIN.coords[None])
    side = PLAIN.coords[:, 0] > 0.6
    return PLAIN.replace(matrix=gap.sum(axis=2) * (1 + (side[:, None] != side)))


CITY = streets()


def past(count: int) -> History:
    """Days of 12 orders."""
    rng = np.random.default_rng(1)
    days = [
        PastDay(rng.choice(40, 12, replace=False) + 1, rng.integers(1, 9, 12) / 1)
        for _ in range(count)
    ]
    return History(CITY, tuple(days))


def by_hand(rows: list[int]) -> float:
    """The way through some rows, from the depot and back, in the matrix."""
    assert CITY.matrix is not None
    return float(sum(CITY.matrix[a, b] for a, b in zip([0, *rows], [*rows, 0])))  # noqa: B905


def test_days_have_slices_of_the_matrix(tmp_path: Path) -> None:
    """A city comes back with its matrix, and every route costs what the matrix says."""
    write_city(tmp_path / "c", CITY)
    city = read_city(tmp_path / "c")
    assert city.matrix is not None
    assert np.array_equal(city.matrix, CITY.matrix)
    assert city.hash == PLAIN.hash  # the places: models may know them without streets
    assert city.matrix_hash == CITY.matrix_hash != PLAIN.matrix_hash
    day = city.day(np.array([7, 3, 21]), np.array([5, 6, 7]))
    assert judge(day, Solution([[1, 2, 3]])).cost == by_hand([7, 3, 21])
    for method in ("savings", "neural"):
        options = SolveOptions(method, iterations=1, threads=1)
        found = solve(past(1).instance(0), options)
        rows = past(1).days[0].rows
        ways = [by_hand([int(rows[c - 1]) for c in r]) for r in found.solution.routes]
        assert found.verdict.cost == pytest.approx(sum(ways))


def test_everything_built_on_a_city_goes_by_its_matrix() -> None:
    """Quotes and territories ask the matrix, the one as brute force does."""
    history = past(8)
    today = CITY.day(np.arange(1, 9), np.full(8, 4.0))
    quoter = Quoter(fit(history), today, settings=QuoteSettings(3, threads=1))
    price, routes = quoter.now(30, 3).price, quoter.plan.routes
    found = [by_hand([30])]
    for route in routes:
        if len(route) * 4 + 3 <= 20:
            for at in range(len(route) + 1):
                more = [*route[:at], 30, *route[at:]]
                found.append(by_hand(more) - by_hand(list(route)))
    assert price == pytest.approx(min(found))
    assert quoter.expected(30, 3).price.mean >= 0
    areas = find_territories(history, TerritorySettings(3, days=4))
    free, kept = areas.price.free[:, 0], areas.price.kept[:, 0]
    assert (kept >= free * 0.99).all()
    day = history.instance(7)
    routes = [[c] for c in range(1, 13)]
    assert judge(day, Solution(routes)).cost == pytest.approx(
        sum(by_hand([int(row)]) for row in history.days[7].rows)
    )


def table(path: Path, matrix: np.ndarray, ids: list[str] | None = None) -> Path:
    """A matrix as CSV."""
    rows = [",".join(map(repr, row)) for row in matrix.tolist()]
    if ids is not None:
        lines = zip(ids, rows, strict=False)
        rows = [",".join(["", *ids]), *(f"{name},{row}" for name, row in lines)]
    path.write_text("\n".join(rows))
    return path


def test_the_command(tmp_path: Path, capsys: Capture) -> None:
    """`city init --matrix` takes rows by id, in any order; what is wrong is said."""
    assert CITY.matrix is not None
    places = "".join(
        f"{i},{x!r},{y!r}\n" for i, (x, y) in enumerate(CITY.coords.tolist())
    )
    (tmp_path / "places.csv").write_text("id,x,y\n" + places)
    words = ["city", "init", tmp_path / "places.csv", "--depot", "0", "--out"]
    turned = np.random.default_rng(0).permutation(41)
    ids = [str(i) for i in turned.tolist()]
    mixed = table(tmp_path / "m.csv", CITY.matrix[np.ix_(turned, turned)], ids)
    assert run(*words, tmp_path / "c", "--matrix", mixed) == 0
    capsys.readouterr()
    assert np.array_equal(read_city(tmp_path / "c").matrix, CITY.matrix)  # type: ignore[arg-type]
    assert run("city", "show", tmp_path / "c", "--json") == 0
    assert json.loads(capsys.readouterr().out)["metric"] == "matrix"
    one_way = CITY.matrix.copy()
    one_way[3, 5] += 1
    for wrong, said in (
        (CITY.matrix[:40, :40], "E113"),
        (one_way, "E142 from 3 to 5"),
        (CITY.matrix - 1, "E131"),
    ):
        bad = table(tmp_path / "bad.csv", wrong)
        assert run(*words, tmp_path / "d", "--matrix", bad) == 2
        assert said in capsys.readouterr().err
    strange = table(tmp_path / "bad.csv", CITY.matrix, [f"x{i}" for i in range(41)])
    assert run(*words, tmp_path / "d", "--matrix", strange) == 2
    assert "E113" in capsys.readouterr().err
    assert run(*words, tmp_path / "d", "--matrix-ids", mixed) == 2
    assert "--matrix-ids" in problem_of(capsys)
    assert not (tmp_path / "d").exists()


def test_what_a_matrix_forbids_and_damage_are_said(tmp_path: Path) -> None:
    """New locations have no distances, and edited distances are another city's."""
    folder = tmp_path / "c"
    write_city(folder, CITY)
    (tmp_path / "mon.csv").write_text("id,demand\n3,2\n")
    assert add_days(folder, [tmp_path / "mon.csv"])[1] == 1
    (tmp_path / "new.csv").write_text("id,x,y\nnew,0.5,0.6\n")
    with pytest.raises(InputError, match="E409"):
        add_locations(folder, tmp_path / "new.csv")
    assert len(read_history(folder)) == 1
    data = (folder / "distances.npy").read_bytes()
    for damaged in (data[:-1], data[:-3] + b"abc", b"PK\x03\x04"):
        (folder / "distances.npy").write_bytes(damaged)
        with pytest.raises(InputError, match="E408 matrix"):
            read_city(folder)
    (folder / "distances.npy").unlink()
    with pytest.raises(InputError):
        read_city(folder)
