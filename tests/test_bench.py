"""The comparison: fair plans, rows that survive kills, honest sums."""

from __future__ import annotations

import csv
import importlib.util
import json
import math
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from clusterfirst.bench import compare as bench_module
from clusterfirst.bench import sets as bench_sets
from clusterfirst.bench.compare import BenchOptions, Crew, bench, plan, with_ablation
from clusterfirst.bench.report import Mean, document, make_report, table, write_report
from clusterfirst.bench.rows import Key, Row, RowsFile
from clusterfirst.bench.run import Answer
from clusterfirst.bench.sets import (
    BenchSet,
    Case,
    DataNotHereError,
    SetRequest,
    instance_digest,
    open_set,
    with_references,
)
from clusterfirst.cli import main
from clusterfirst.errors import InputError, Problem
from clusterfirst.experts.hgs import HgsSettings
from clusterfirst.experts.peers import usable_cores
from clusterfirst.files import write_instance, write_instances, write_solution
from clusterfirst.instance import Instance
from clusterfirst.solution import Solution, judge

ALONE = Solution([c] for c in range(1, 6))


def _instance(index: int) -> Instance:
    points = np.random.default_rng(index).random((6, 2))
    return Instance([0, 1, 2, 3, 2, 1], 5, coords=points, name=f"day-{index}")


def _set(count: int = 3, **references: float) -> BenchSet:
    days = [_instance(i) for i in range(count)]
    cases = tuple(Case(day, references.get(day.name.replace("-", ""))) for day in days)
    return BenchSet("days", cases, "somebody" if references else "")


def _row(case: Case, method: str, cost: float | None, **changes: object) -> Row:
    key = Key(case.digest, method, "", 1.0, 0, 1, "pool")
    row = Row(
        set_name="days",
        instance=case.instance.name,
        customers=5,
        **vars(key),
        cost=cost,
        vehicles=None if cost is None else 2,
        seconds=0.9,
        startup=2.0,
        gflops=20.0,
        reason="" if cost is not None else "it found nothing",
        at="2026-11-15T00:00:00+00:00",
        version="0",
    )
    return replace(row, **changes)  # type: ignore[arg-type]


class FakeCrew(Crew):
    """Answers at once, without processes; counts what it is asked."""

    asked: list[Key]

    def __init__(self, options: BenchOptions) -> None:
        super().__init__(options)
        FakeCrew.asked = []

    def run(self, case: Case, key: Key) -> Answer:
        """One customer per route."""
        FakeCrew.asked.append(key)
        if key.method == "neural":
            raise InputError(Problem("E403", "model", rule="no such model"))
        if key.method == "pyvrp":
            return Answer(Solution([[1, 2]]), 0.5, 10.0)
        return Answer(ALONE, 0.5, 10.0)


@pytest.fixture
def no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs without child processes."""
    monkeypatch.setattr(bench_module, "Crew", FakeCrew)


# --- the plan -----------------------------------------------------------------------


def test_a_neural_method_brings_its_twin() -> None:
    """The same decoder and polish with Fisher-Jaikumar costs is always there."""
    assert with_ablation(["neural", "hgs"]) == ("neural", "hgs", "fisher-jaikumar")
    both = with_ablation(["neural+polish", "fisher-jaikumar+polish"])
    assert both == ("neural+polish", "fisher-jaikumar+polish")
    assert with_ablation(["hgs"]) == ("hgs",)


def test_every_run_is_planned_once_and_interleaved() -> None:
    """All methods meet an instance before the next one, and each comes first alike."""
    options = BenchOptions(("savings", "sweep", "hgs"), (0.1, 1.0), (0, 1))
    keys = [key for _, key in plan(_set(3), options)]
    assert len(set(keys)) == len(keys) == 3 * 3 * 2 * 2
    groups = [keys[i : i + 3] for i in range(0, len(keys), 3)]
    for group in groups:
        assert {key.method for key in group} == set(options.methods)
        assert len({(key.digest, key.limit, key.seed) for key in group}) == 1
    firsts = Counter(group[0].method for group in groups)
    assert set(firsts.values()) == {4}


@pytest.mark.parametrize(
    "wrong",
    [
        {"methods": ()},
        {"methods": ("no-such-method",)},
        {"methods": ("hgs+polish",)},
        {"seconds": ()},
        {"seconds": (0.001,)},
        {"seconds": (math.nan,)},
        {"seeds": (-1,)},
        {"cores": 3},
        {"engine": "ray", "cores": 2},
    ],
)
def test_wrong_options_are_refused(wrong: dict[str, object]) -> None:
    """One sentence before anything runs."""
    with pytest.raises(InputError, match="E404"):
        BenchOptions(**({"methods": ("savings",)} | wrong))  # type: ignore[arg-type]


# --- rows ---------------------------------------------------------------------------


def test_rows_survive_a_kill_at_every_byte(tmp_path: Path) -> None:
    """A cut line is lost, the rows before it are not, and the next row is whole."""
    case = Case(_instance(0))
    rows = [_row(case, method, 1.0) for method in ("a", "b", "c")]
    whole = RowsFile(tmp_path)
    whole.append(rows[:2])
    assert whole.read() == rows[:2]
    data = whole.path.read_bytes()
    first = data.index(b"\n") + 1
    for cut in range(first, len(data), 7):
        whole.path.write_bytes(data[:cut])
        whole.append(rows[2:])
        kept = rows[:1] if cut < len(data) - 1 else rows[:2]
        assert whole.read() == [*kept, rows[2]]


def test_a_second_run_goes_on(tmp_path: Path, no_processes: None) -> None:
    """What has a row is not run again; a new method runs alone."""
    file, days = RowsFile(tmp_path), _set(2)
    first = bench(days, BenchOptions(("savings",), (0.5,)), file)
    assert len(FakeCrew.asked) == 2
    again = bench(days, BenchOptions(("savings",), (0.5,)), file)
    assert FakeCrew.asked == []
    assert sorted(again.rows, key=str) == sorted(first.rows, key=str)
    bench(days, BenchOptions(("savings", "sweep"), (0.5,)), file)
    assert {key.method for key in FakeCrew.asked} == {"sweep"}


def test_every_answer_is_judged(tmp_path: Path, no_processes: None) -> None:
    """Routes that leave customers out are no answer, whoever sent them."""
    options = BenchOptions(("pyvrp", "savings"), (0.5,))
    rows = bench(_set(1), options, RowsFile(tmp_path)).rows
    bad, good = sorted(rows, key=lambda row: row.method)
    assert bad.cost is None
    assert "no visit" in bad.reason
    assert good.cost == judge(_instance(0), ALONE).cost


def test_a_method_that_cannot_run_is_left_out(
    tmp_path: Path, no_processes: None
) -> None:
    """It is asked once and named in the table; alone it is an error."""
    options = BenchOptions(("neural", "savings"), (0.5,))
    result = bench(_set(3), options, RowsFile(tmp_path))
    assert [key.method for key in FakeCrew.asked].count("neural") == 1
    assert {row.method for row in result.rows} == {"savings"}
    assert "not run: neural: E403" in table(make_report(_set(3), result))
    with pytest.raises(InputError, match="E403"):
        bench(_set(3), BenchOptions(("neural",), (0.5,)), RowsFile(tmp_path))


def test_progress_is_told_by_time(tmp_path: Path, no_processes: None) -> None:
    """The last report has nothing left to do."""
    seen: list[bench_module.BenchProgress] = []
    options = BenchOptions(("savings",), (0.5, 1.0))
    bench(_set(2), options, RowsFile(tmp_path), seen.append)
    assert [progress.done for progress in seen] == [1, 2, 3, 4]
    assert seen[-1].left == 0


# --- sums ---------------------------------------------------------------------------


def test_the_interval_is_students() -> None:
    """Mean and half width agree with a worked example; one value has no interval."""
    mean = Mean.of([1.0, 2.0, 3.0, 4.0])
    assert mean.value == 2.5
    assert mean.half == pytest.approx(3.182446 * math.sqrt(5 / 3) / 2, rel=1e-6)
    assert math.isnan(Mean.of([1.0]).half)
    assert str(Mean.of([])) == "-"


def test_gaps_are_per_instance_and_failures_count() -> None:
    """Seeds are averaged first; an instance without an answer lowers only `solved`."""
    days = _set(2, day0=10.0, day1=20.0)
    a, b = days.cases
    rows = [
        _row(a, "hgs", 11.0),
        _row(a, "hgs", 12.0, seed=1),
        _row(b, "hgs", 20.0),
        _row(b, "hgs", None, seed=1),
    ]
    report = make_report(days, bench_module.BenchResult(rows))
    (line,) = report.lines
    assert line.gap.value == pytest.approx((15.0 + 0.0) / 2)
    assert (line.solved, line.vehicles, line.runs) == (0.75, 2, 4)
    assert "it found nothing" in table(report)


def test_without_references_the_best_answer_is_the_reference() -> None:
    """And the table says so."""
    days = _set(1)
    rows = [_row(days.cases[0], "hgs", 10.0), _row(days.cases[0], "savings", 11.0)]
    report = make_report(days, bench_module.BenchResult(rows))
    assert [line.gap.value for line in report.lines] == [pytest.approx(10.0), 0.0]
    assert "the best answer of this comparison" in table(report)


def test_search_free_and_search_stand_apart() -> None:
    """Two tables, and what took longer than allowed is marked."""
    days = _set(1)
    case = days.cases[0]
    rows = [
        _row(case, "neural", 11.0),
        _row(case, "neural+polish", 10.0),
        _row(case, "hgs", 10.0, seconds=3.0),
    ]
    text = table(make_report(days, bench_module.BenchResult(rows)))
    free, searched = text.split("with local search")
    assert "neural " in free
    assert "neural+polish" not in free
    assert "neural+polish" in searched
    assert "3.00!" in searched


def test_the_networks_share_is_paired_by_instance() -> None:
    """Its gain is the difference to its twin, instance by instance."""
    days = _set(2, day0=10.0, day1=100.0)
    rows = []
    for case, (ours, theirs) in zip(
        days.cases, [(11.0, 12.0), (120.0, 150.0)], strict=True
    ):
        rows += [_row(case, "neural", ours), _row(case, "fisher-jaikumar", theirs)]
    (share,) = make_report(days, bench_module.BenchResult(rows)).shares
    assert share.points.value == pytest.approx((-10 - 30) / 2)


def test_a_report_is_written_whole(tmp_path: Path) -> None:
    """Table, CSV, strict JSON and a picture."""
    days = _set(1)
    rows = [_row(days.cases[0], "hgs", 10.0), _row(days.cases[0], "sweep", None)]
    report = make_report(days, bench_module.BenchResult(rows))
    text, runs, summary, picture = write_report(tmp_path, "x", report)
    assert text.read_text() == table(report)
    assert [row["method"] for row in csv.DictReader(runs.open())] == ["hgs", "sweep"]
    strict = json.loads(summary.read_text(), parse_constant=pytest.fail)
    assert strict == document(report)
    assert picture.read_bytes().startswith(b"\x89PNG")


# --- sets and references ------------------------------------------------------------


def test_a_folder_of_instances_with_solutions(tmp_path: Path) -> None:
    """The .sol beside an instance is its reference, recomputed."""
    for i in (2, 10):
        write_instance(tmp_path / f"day-{i}.vrp", _instance(i))
    write_solution(tmp_path / "day-2.sol", _instance(2), ALONE)
    found = open_set(str(tmp_path), SetRequest())
    assert [case.instance.name for case in found.cases] == ["day-2", "day-10"]
    assert found.cases[0].reference == pytest.approx(judge(_instance(2), ALONE).cost)
    assert found.cases[1].reference is None
    (tmp_path / "day-10.sol").write_text("Route #1: 1\n")
    with pytest.raises(InputError, match="no visit"):
        open_set(str(tmp_path), SetRequest())


def test_a_part_of_a_set_file(tmp_path: Path) -> None:
    """Instances A to B - 1 of an .npz set; an empty part is refused."""
    path = tmp_path / "days.npz"
    write_instances(path, [_instance(i) for i in range(4)])
    found = open_set(str(path), SetRequest(1, 3))
    assert [case.instance.name for case in found.cases] == ["day-1", "day-2"]
    assert found.references == ""
    with pytest.raises(InputError, match="E406"):
        open_set(str(path), SetRequest(9))


def test_named_sets_without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Public ones are drawn anew; the others say that their data is not here."""
    monkeypatch.delenv(bench_sets.DATA_VARIABLE, raising=False)
    drawn = open_set("lehd200", SetRequest(3, 4)).cases[0].instance
    assert (drawn.name, drawn.num_customers) == ("lehd200-3", 200)
    for name in ("X", "city-100", "belem", "leuven1"):
        with pytest.raises(DataNotHereError, match="data not here"):
            open_set(name, SetRequest())
    with pytest.raises(InputError, match="named sets"):
        open_set("no-such-set", SetRequest())


def test_the_digest_is_of_the_problem_not_of_its_name() -> None:
    """Renaming changes nothing, every fact that a cost depends on does."""
    day = _instance(0)
    assert instance_digest(day.replace(name="other")) == instance_digest(day)
    changes = [{"capacity": 6}, {"rounding": "round"}, {"vehicles": 5}]
    others = [instance_digest(day.replace(**change)) for change in changes]
    assert len({*others, instance_digest(day)}) == 4


def test_references_from_a_table(tmp_path: Path) -> None:
    """instance,cost; one that is missing is named."""
    path = tmp_path / "costs.csv"
    path.write_text("instance,cost\nday-0,1.5\nday-1,2.5\n")
    found = with_references(_set(2), str(path))
    assert [case.reference for case in found.cases] == [1.5, 2.5]
    with pytest.raises(InputError, match="day-2"):
        with_references(_set(3), str(path))
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="E311"):
        with_references(_set(1), str(path))
    with pytest.raises(InputError, match="E404"):
        with_references(_set(1), "hgs:soon")


def test_long_runs_are_cached_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HGS runs once per instance; a damaged or wrong file in the cache is made anew."""
    calls = []

    def expert(instance: Instance, settings: HgsSettings) -> Solution:
        calls.append(settings.seconds)
        return ALONE

    monkeypatch.setattr(bench_sets, "solve_with_hgs", expert)
    monkeypatch.setenv(bench_sets.CACHE_VARIABLE, str(tmp_path))
    first = with_references(_set(2), "hgs:3")
    assert [case.reference for case in first.cases] == [
        pytest.approx(judge(_instance(i), ALONE).cost) for i in range(2)
    ]
    with_references(_set(2), "hgs:3")
    assert calls == [3.0, 3.0]
    files = sorted((tmp_path / "references").iterdir())
    files[0].write_text("{")
    files[1].write_text('{"routes": [[1]]}')
    with_references(_set(2), "hgs:3")
    assert len(calls) == 4


# --- the command --------------------------------------------------------------------


@pytest.mark.skipif(len(usable_cores()) < 2, reason="two cores are needed")
def test_on_two_cores_the_better_of_two_seeds_counts(tmp_path: Path) -> None:
    """A program that fails for even seeds is solved; its process is really run."""
    path = tmp_path / "program.py"
    path.write_text(
        "import sys\n"
        "if int(sys.argv[2]) % 2:\n"
        "    routes = [f'Route #{c}: {c}' for c in range(1, 6)]\n"
        "    open(sys.argv[1], 'w').write('\\n'.join(routes))\n"
    )
    method = f"cmd:{sys.executable} {path} {{solution}} {{seed}} {{instance}}"
    one, two = (
        bench(_set(1), BenchOptions((method,), (5.0,), cores=cores), RowsFile(tmp_path))
        for cores in (1, 2)
    )
    assert one.rows[0].cost is None
    assert "no solution file" in one.rows[0].reason
    assert two.rows[0].cost == pytest.approx(judge(_instance(0), ALONE).cost)
    assert two.rows[0].gflops > 0
    assert two.rows[0].startup > 0


def test_the_command_compares_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From words to a table; the second time nothing is left to run."""
    words = ["bench", "--city", "bundled", "--customers", "15", "--count", "2"]
    words += ["--methods", "savings", "--seconds", "0.1", "--out", str(tmp_path)]
    assert main(words) == 0
    assert "savings" in capsys.readouterr().out
    rows = RowsFile(tmp_path).read()
    assert [row.cost is not None for row in rows] == [True, True]
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["results"][0]["lines"]
    assert RowsFile(tmp_path).read() == rows


def _parts() -> ModuleType:
    """The script benchmarks/parts.py as a module."""
    path = Path(__file__).parent.parent / "benchmarks" / "parts.py"
    spec = importlib.util.spec_from_file_location("parts", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["parts"] = module  # where dataclasses look for their annotations
    spec.loader.exec_module(module)
    return module


def test_the_stored_table_of_parts_reads_back_and_names_what_is_slower() -> None:
    """A table in a page equals itself; a part twice as slow is named, no other."""
    parts = _parts()
    seconds = {n: {part: n / 1000 for part in parts.PARTS} for n in (100, 1000)}
    table = parts.Table(seconds, 20.0, "fp32 matmul 20.0 GFLOP/s")
    page = f"text\n{parts.BEGIN}\n{parts.as_markdown(table)}\n{parts.END}\nmore"
    stored = parts.from_markdown(page)
    assert stored == table
    assert parts.compare(table, stored) == []
    assert table.growth("tours") == pytest.approx(1.0)
    slow = {n: times | {"tours": 2 * times["tours"]} for n, times in seconds.items()}
    found = parts.compare(parts.Table(slow, 20.0, ""), stored)
    assert [line.split(":")[1] for line in found] == [
        " tours at N=100",
        " tours at N=1000",
    ]
    # The same seconds while the machine gave half the matmuls: half the work.
    assert parts.compare(parts.Table(slow, 10.0, ""), stored) == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([], "E400"),
        (["lehd200", "--city", "bundled"], "E400"),
        (["lehd200", "--seconds", "soon"], "E404"),
        (["lehd200", "--instances", "a:b"], "E404"),
        (["lehd200", "--rounding", "up"], "E120"),
        (["lehd200", "--methods", "cmd:true"], "E404"),
        (["--city", "bundled", "--count", "0"], "E404"),
    ],
)
def test_wrong_words_are_one_line(
    words: list[str], code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 and a sentence."""
    assert main(["bench", *words, "--out", str(tmp_path)]) == 2
    assert code in capsys.readouterr().err
