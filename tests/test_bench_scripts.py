"""The scripts that make docs/benchmarks.md: nothing invented, nothing lost."""

from __future__ import annotations

import csv
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script benchmarks/parts.py as a module."""
    return _script("parts", monkeypatch)


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script benchmarks/tables.py as a module."""
    return _script("tables", monkeypatch)


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script benchmarks/tables_page.py as a module."""
    return _script("tables_page", monkeypatch)


def _script(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module(name)


# --- speed of the parts -------------------------------------------------------------


def test_the_stored_parts_read_back_and_name_what_is_slower(
    parts: ModuleType, tmp_path: Path
) -> None:
    """A stored table equals itself; a part twice as slow is named, no other."""
    seconds = {n: {part: n / 1000 for part in parts.PARTS} for n in (100, 1000)}
    table = parts.Table("general", seconds, 20.0, "2026")
    assert parts.Table.read(tmp_path / "parts.json") is None
    table.write(tmp_path / "parts.json")
    stored = parts.Table.read(tmp_path / "parts.json")
    assert stored == table
    assert parts.compare(table, stored) == []
    assert table.growth("tours") == pytest.approx(1.0)
    assert table.share(100, "tours") == pytest.approx(1 / 4)
    slow = {n: times | {"tours": 2 * times["tours"]} for n, times in seconds.items()}
    found = parts.compare(parts.Table("general", slow, 20.0, ""), stored)
    assert [line.split(":")[1] for line in found] == [
        " tours at N=100",
        " tours at N=1000",
    ]
    # The same seconds while the machine gave half the matmuls: half the work.
    assert parts.compare(parts.Table("general", slow, 10.0, ""), stored) == []


@pytest.mark.parametrize("model", ["random", "city-psi-one-layer"])
def test_every_part_is_measured_with_any_model(parts: ModuleType, model: str) -> None:
    """Random weights and a model of another city: all parts take some time."""
    table = parts.measure_all([30, 60], 1, model)
    for size in (30, 60):
        assert set(table.seconds[size]) == set(parts.PARTS)
        assert all(spent > 0 for spent in table.seconds[size].values())
    assert "| sinkhorn |" in parts.as_markdown(table)


# --- tables -------------------------------------------------------------------------


def test_models_of_one_city_run_only_there(tables: ModuleType) -> None:
    """Shipped models are found by name, and none where it would refuse."""
    known = {table.name: table for table in tables.TABLES}
    assert "city-psi-one-layer" in tables.models(known["city-100"])
    assert "city-psi-one-layer" not in tables.models(known["X"])
    for table in tables.TABLES:
        free, search = (tables.methods(table, kind) for kind in ("free", "search"))
        assert "fisher-jaikumar:once" in free
        assert "fisher-jaikumar+polish" in search
        assert not set(free) & set(search)


def test_every_command_is_understood(tables: ModuleType, tmp_path: Path) -> None:
    """The words of each table are options of `clusterfirst bench`, and are priced."""
    from typer.main import get_command

    from clusterfirst.cli import app

    bench = get_command(app).commands["bench"]  # type: ignore[attr-defined]
    for table in tables.TABLES:
        for kind in ("free", "search"):
            words = tables.words(table, kind, tmp_path)
            assert words[:2] == ["clusterfirst", "bench"]
            bench.make_context("bench", words[2:])
            assert tables.minutes(table, kind) > 0


def _line(method: str, gap: float | None, half: float, limit: float = 1.0) -> Any:
    return {
        "method": method,
        "limit": limit,
        "gap": {"value": gap, "half": half, "count": 0 if gap is None else 8},
        "solved": 1.0,
        "vehicles": 10.5,
        "seconds": 0.9,
    }


def _stored(kind: str, lines: list[Any]) -> Any:
    return {
        "name": "set",
        "title": "A set",
        "kind": kind,
        "command": "clusterfirst bench set --out x",
        "date": "2026-11-16",
        "commit": "abc",
        "processor": "some CPU",
        "cores": 2,
        "load": 0.1,
        "result": {
            "title": "set, 8 instances, 2 cores",
            "references": "somebody",
            "lines": lines,
            "network_share": [],
            "not_run": {"ortools": "E422"},
            "no_answer": [],
            "gflops": {"least": 80.0, "median": 90.0, "most": 95.0},
        },
    }


def test_kept_references_cover_their_tables(tables: ModuleType) -> None:
    """Costs in the repository spare the long runs, and every instance has one."""
    out = Path("out")
    for table in tables.TABLES:
        if not table.references:
            continue
        path = tables.kept_references(table)
        words = tables.words(table, "alone", out)
        assert words[words.index("--references") + 1] == str(path.relative_to(ROOT))
        assert tables.reference_minutes(table, "alone") == 0
        with path.open(encoding="utf-8") as file:
            costs = {
                row["instance"]: float(row["cost"]) for row in csv.DictReader(file)
            }
        assert len(costs) >= table.part("alone").count
        assert min(costs.values()) > 0


def test_the_page_says_where_we_lose(page: ModuleType) -> None:
    """Beyond both intervals a difference counts, below it does not."""
    lines = [
        _line("neural:general+polish", 1.0, 0.1),
        _line("hgs", 0.5, 0.1),
        _line("pyvrp", None, 0.0),
        _line("neural:general+polish", 0.5, 0.1, 3.0),
        _line("hgs", 0.6, 0.1, 3.0),
    ]
    first, second = page.duels(_stored("search", lines))
    assert "**we lose**" in first
    assert "no difference" in second
    text = "\n".join(page.page([_stored("search", lines)], []))
    assert "| `pyvrp` | - |" in text
    assert "not run: ortools" in text
    assert "Busy machine" not in text
    slow = _stored("search", lines)
    slow["result"]["gflops"]["median"] = 9.5
    assert "**Busy machine**" in page.conditions(slow)
    assert "nothing was yet" in "".join(page.verdicts([slow]))


def test_published_rows_are_marked_and_sourced(page: ModuleType) -> None:
    """What others printed never looks like something that was run here."""
    rows = page.read_published()
    for row in rows:
        assert set(row) == {"table", "method", "gap", "against", "search", "source"}
    lines = [_line("fisher-jaikumar", 4.0, 0.1), _line("savings", 5.0, 0.1)]
    others = [dict(rows[0], table="set", search=False)]
    text = "\n".join(page.page([_stored("free", lines)], others))
    (named,) = [line for line in text.splitlines() if rows[0]["method"] in line]
    assert "published" in named
    assert rows[0]["source"] in text


def test_the_page_in_the_docs_is_that_of_the_stored_results(
    page: ModuleType, tables: ModuleType
) -> None:
    """Nobody edits a measured number by hand: `tables.py page` changes nothing."""
    text = page.PAGE.read_text(encoding="utf-8")
    body = text.partition(page.BEGIN)[2].partition(page.END)[0].strip()
    stored = page.read_results([table.name for table in tables.TABLES])
    assert body == "\n\n".join(page.page(stored, page.read_published()))


FAKE = """#!/usr/bin/env python3
import sys
words = dict(zip(sys.argv[1:-1], sys.argv[2:]))
{body}
"""
ANSWERS = {  # what each program writes of the routes 1 2 and 3, in its own format
    "savant": 'open(words["--sol"], "w")'
    '.write("#CWSOL 1\\ninst 0 i 3 9 7.5 2\\n1 2\\n3\\n")',
    "filo2": 'open(words["--outpath"] + "i_seed-0.vrp.sol", "w")'
    '.write("Route #1: 1 2\\nRoute #2: 3\\nCost 7\\n")',
    "lkh": 'par = dict(l.split(" = ") for l in open(sys.argv[1]))\n'
    'open(par["MTSP_SOLUTION_FILE"].strip(), "w").write("i, Cost: 0_7\\n'
    "The tours traveled by the 3 salesmen are:\\n1 2 3 1 (#2)  Cost: 5\\n"
    '1 4 1 (#1)  Cost: 2\\n1 1 (#0)  Cost: 0\\n")',
}


@pytest.mark.parametrize("name", ANSWERS)
def test_the_arena_reads_what_each_program_writes(name: str, tmp_path: Path) -> None:
    """Routes come out as .sol, whatever the format and numbering was."""
    program, found = tmp_path / name, tmp_path / "out.sol"
    program.write_text(FAKE.format(body=ANSWERS[name]))
    program.chmod(0o755)
    arena = ROOT / "examples" / "arena.py"
    words = [sys.executable, str(arena), name, str(program), str(tmp_path / "i.vrp")]
    subprocess.run([*words, str(found), "0.1", "0"], check=True)
    assert found.read_text() == "Route #1: 1 2\nRoute #2: 3\n"
