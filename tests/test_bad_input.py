"""Bad input gets one clear line at every door, and nothing is written.

The table is in bad_inputs.py; the last test prints it with its count.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import re
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bad_inputs import (
    ACCEPTED,
    INFEASIBLE,
    LOCATIONS,
    OPTIONS,
    OUTPUTS,
    REFUSED,
    ROWS,
    SOLUTIONS,
    Case,
)
from clusterfirst import files
from clusterfirst.problem.errors import (
    ClusterfirstError,
    InfeasibleError,
    InputError,
    InputWarning,
    NotFoundInTimeError,
)
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge
from strategies import small_day

MAX_LINE = 300
needs_cli = pytest.mark.skipif(
    importlib.util.find_spec("clusterfirst.cli") is None,
    reason="the command line is not written yet",
)
needs_solver = pytest.mark.skipif(
    importlib.util.find_spec("clusterfirst.solving.solver") is None,
    reason="the solver is not written yet",
)


def put(case: Case, folder: Path) -> Path:
    """Put the file of a case into a folder, with a city beside it."""
    (folder / "l.csv").write_text(LOCATIONS)
    files.write_city(folder / "city", files.read_locations(folder / "l.csv", "d"))
    path = folder / case.name
    if callable(case.content):
        case.content(path)
    else:
        path.write_bytes(case.content)
    return path


def read(path: Path) -> object:
    """Read a file by the Python function that is for it."""
    if path.name == "orders.csv":
        city = files.read_city(path.parent / "city")
        return files.read_orders(path, city, capacity=10)
    if path.name == "locations.csv":
        return files.read_locations(path, "d")
    if path.suffix in (".txt", ".npz"):
        return files.read_instances(path)
    return files.read_instance(path)


def command(path: Path, verb: str = "check") -> list[str]:
    """Return the command line that reads the same file."""
    if path.name == "locations.csv":
        out = str(path.parent / "out")
        return ["city", "init", str(path), "--depot", "d", "--out", out]
    words = [verb, str(path)]
    if verb == "check":
        (path.parent / "s.sol").write_text("Route #1: 1\n")
        words.append(str(path.parent / "s.sol"))
    if path.name == "orders.csv":
        words += ["--city", str(path.parent / "city"), "--capacity", "10"]
    return words


def assert_lines(text: str, code: str, shows: str = "") -> None:
    """One line per problem, short, printable, with the code and what it shows."""
    lines = text.splitlines()
    assert "Traceback" not in text
    assert len(lines) <= 21
    assert all(len(line) <= MAX_LINE for line in lines), lines
    assert all(line.isprintable() for line in lines)
    fitting = [line for line in lines if re.search(rf"\b({code})\b", line)]
    assert fitting, text
    assert any(shows in line for line in fitting), text


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_refused_in_python(case: Case, tmp_path: Path) -> None:
    """A bad file raises InputError naming file, place, value and rule."""
    path = put(case, tmp_path)
    with pytest.raises(InputError) as info:
        read(path)
    assert_lines(str(info.value), case.code, case.shows)
    assert info.value.exit_code == 2
    assert info.value.source[:20] in str(path)


@needs_cli
@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_refused_on_the_command_line(
    case: Case, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The same line on stderr, exit code 2, and no file made."""
    from clusterfirst.cli import main

    path = put(case, tmp_path)
    words = command(path)
    before = sorted(tmp_path.rglob("*"))
    assert main(words) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert all(line.startswith("clusterfirst: ") for line in err.splitlines())
    if case.what != "folder":  # a folder is a list of files on the command line
        assert_lines(err, case.code, case.shows)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("case", ACCEPTED, ids=str)
def test_accepted_in_python(case: Case, tmp_path: Path) -> None:
    """Odd input is read, with its warning if it has one, and costs are finite."""
    path = put(case, tmp_path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", InputWarning)
        instance = read(path)
    assert isinstance(instance, Instance)
    said = "\n".join(str(warning.message) for warning in caught)
    if case.code:
        assert_lines(said, case.code, case.shows)
    alone = Solution([[c] for c in range(1, instance.num_customers + 1)])
    verdict = judge(instance, alone)
    assert verdict.feasible
    assert verdict.cost == pytest.approx(2 * instance.distances[0].sum())


@needs_cli
@needs_solver
@pytest.mark.parametrize("case", ACCEPTED, ids=str)
def test_accepted_on_the_command_line(
    case: Case, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Odd input is solved: exit code 0, and the warning is a line on stderr."""
    from clusterfirst.cli import main

    words = command(put(case, tmp_path), "solve")
    assert main([*words, "--time-limit", "0.2"]) == 0
    if case.code:
        lines = capfd.readouterr().err.splitlines()
        said = [line for line in lines if case.code in line]
        assert_lines("\n".join(said), case.code, case.shows)


def infeasible(capacity: float, demands: list[float], fleet: int | None) -> Instance:
    return Instance(
        demands=[0, *demands],
        capacity=capacity,
        coords=[[0.5, i] for i in range(len(demands) + 1)],
        vehicles=fleet,
    )


@pytest.mark.parametrize("row", INFEASIBLE, ids=lambda row: f"row{row[0]}-{row[1]}")
def test_infeasible_in_python(row: Any) -> None:
    """What cannot be solved is named without search, where that is possible."""
    _, _, code, capacity, demands, fleet = row
    instance = infeasible(capacity, demands, fleet)
    if code in {"E201", "E202"}:
        with pytest.raises(InfeasibleError) as info:
            instance.require_feasible()
    else:
        solver = pytest.importorskip("clusterfirst.solving.solver")
        with pytest.raises((InfeasibleError, NotFoundInTimeError)) as info:
            solver.solve(instance)
    assert_lines(str(info.value), code)
    assert info.value.exit_code == 1


@needs_cli
@needs_solver
@pytest.mark.parametrize("row", INFEASIBLE, ids=lambda row: f"row{row[0]}-{row[1]}")
def test_infeasible_on_the_command_line(
    row: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """No feasible solution is exit code 1, in words, and no file."""
    from clusterfirst.cli import main

    _, _, code, capacity, demands, fleet = row
    path, out = tmp_path / "a.vrp", tmp_path / "a.sol"
    files.write_instance(path, infeasible(capacity, demands, fleet))
    assert main(["solve", str(path), "--out", str(out)]) == 1
    assert_lines(capfd.readouterr().err, code)
    assert not out.exists()


@needs_solver
@pytest.mark.parametrize(
    "row", OPTIONS, ids=lambda row: f"row{row[0]}-{row[1]}-{row[2]}"
)
def test_options_in_python(row: Any) -> None:
    """A wrong option is refused when it is given, not when it is used."""
    from clusterfirst.solving.solver import SolveOptions

    _, name, value, _ = row
    with pytest.raises(InputError) as info:
        SolveOptions(**{name: value})
    assert_lines(str(info.value), "E40[0-9]", name)


@needs_cli
@needs_solver
@pytest.mark.parametrize(
    "row", OPTIONS, ids=lambda row: f"row{row[0]}-{row[1]}-{row[2]}"
)
def test_options_on_the_command_line(
    row: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A wrong option is exit code 2 with the option's name."""
    from clusterfirst.cli import main

    _, name, _, words = row
    files.write_instance(tmp_path / "a.json", small_day())
    assert main(["solve", str(tmp_path / "a.json"), *words]) == 2
    pattern = name.replace("_", "[-_]")
    err = capfd.readouterr().err
    assert_lines(err, "E40[0-9]")
    assert re.search(pattern, err)


@pytest.mark.parametrize("row", SOLUTIONS, ids=lambda row: f"row{row[0]}-{row[1]}")
def test_solutions_in_python(row: Any, tmp_path: Path) -> None:
    """A wrong solution is either unreadable or judged, by its own code."""
    _, _, code, text, exit_code = row
    day = small_day()
    (tmp_path / "a.sol").write_text(text)
    if exit_code == 2:
        with pytest.raises(InputError) as info:
            files.read_solution(tmp_path / "a.sol", day)
        assert_lines(str(info.value), code)
    else:
        solution, stated = files.read_solution(tmp_path / "a.sol", day)
        found = judge(day, solution, stated_cost=stated).violations
        assert_lines("\n".join(map(str, found)), code)


@needs_cli
@pytest.mark.parametrize("row", SOLUTIONS, ids=lambda row: f"row{row[0]}-{row[1]}")
def test_solutions_on_the_command_line(
    row: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """`check` ends with 1 for a solution that is not feasible, 2 for no solution."""
    from clusterfirst.cli import main

    _, _, code, text, exit_code = row
    (tmp_path / "a.sol").write_text(text)
    files.write_instance(tmp_path / "a.json", small_day())
    words = ["check", str(tmp_path / "a.json"), str(tmp_path / "a.sol")]
    assert main(words) == exit_code
    assert_lines("\n".join(capfd.readouterr()), code)


def block(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the places of OUTPUTS; root may write anywhere, so errors are played."""
    (folder / "taken").write_text("")
    (folder / "folder.sol").mkdir()
    (folder / "readonly").mkdir()
    real = Path.open

    def opened(self: Path, mode: str = "r", *rest: Any, **more: Any) -> Any:
        if "w" in mode and self.parent.name == "readonly":
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        if "w" in mode and "full.sol" in self.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(self, mode, *rest, **more)

    monkeypatch.setattr(Path, "open", opened)


@pytest.mark.parametrize("row", OUTPUTS, ids=lambda row: f"row{row[0]}-{row[1]}")
def test_outputs_in_python(
    row: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A place that cannot be written gets a sentence and stays as it was."""
    _, _, code, place = row
    block(tmp_path, monkeypatch)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError) as info:
        files.write_solution(
            tmp_path / place, small_day(), Solution([[1, 2], [3], [4]])
        )
    assert_lines(str(info.value), code)
    assert sorted(tmp_path.rglob("*")) == before


@needs_cli
@needs_solver
@pytest.mark.parametrize(
    "row",
    [row for row in OUTPUTS if row[1] != "a folder"],  # that is where files go
    ids=lambda row: f"row{row[0]}-{row[1]}",
)
def test_outputs_on_the_command_line(
    row: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The same on the command line, with exit code 2."""
    from clusterfirst.cli import main

    _, _, code, place = row
    files.write_instance(tmp_path / "a.json", small_day())
    block(tmp_path, monkeypatch)
    before = sorted(tmp_path.rglob("*"))
    words = ["solve", str(tmp_path / "a.json"), "--out", str(tmp_path / place)]
    assert main([*words, "--time-limit", "0.2"]) == 2
    assert_lines(capfd.readouterr().err, code)
    assert sorted(tmp_path.rglob("*")) == before


def test_limits_can_be_set(tmp_path: Path) -> None:
    """Row 4 and 45: the limits are the caller's to move."""
    path = tmp_path / "a.json"
    files.write_instance(path, small_day())
    with pytest.raises(InputError, match=r"E104.*100 bytes"):
        files.read_instance(path, limits=files.Limits(max_bytes=100))
    with pytest.raises(InputError, match=r"E401.*found 4; the limit is 3"):
        files.read_instance(path, limits=files.Limits(max_customers=3))
    many = {"demands": [0.0] * 100_002, "capacity": 1, "coords": [[0.0, 0.0]] * 100_002}
    with pytest.raises(InputError, match="E401"):
        Instance(**many)
    assert Instance(**many, max_customers=100_001).num_customers == 100_001


def test_at_most_twenty_lines(tmp_path: Path) -> None:
    """Thirty wrong orders are twenty lines and a count."""
    (tmp_path / "l.csv").write_text(LOCATIONS)
    city = files.read_locations(tmp_path / "l.csv", "d")
    rows = "".join(f"u{i},1\n" for i in range(30))
    (tmp_path / "o.csv").write_text("id,demand\n" + rows)
    with pytest.raises(ClusterfirstError) as info:
        files.read_orders(tmp_path / "o.csv", city, capacity=1)
    lines = str(info.value).splitlines()
    assert len(lines) == 21
    assert lines[-1].endswith("... and 10 more")


def test_every_row_has_its_cases(capsys: pytest.CaptureFixture[str]) -> None:
    """The table covers rows 1-46, 48, 59 and 60; its count is printed."""
    count: Counter[int] = Counter(case.row for case in [*REFUSED, *ACCEPTED])
    count.update(row[0] for row in [*INFEASIBLE, *OPTIONS, *SOLUTIONS, *OUTPUTS])
    assert set(count) == ROWS
    for row in sorted(count):
        print(f"row {row:2d}: {count[row]} inputs")
    with capsys.disabled():
        doors = "Python and the command line"
        print(f"\nbad input: {count.total()} inputs in {len(count)} rows, {doors}")
