"""The comparison: fair plans, rows that survive kills, judged answers."""

from __future__ import annotations

import math
import time
from collections import Counter
from pathlib import Path

import pytest

from benches import ALONE, made_row, small_day, small_set
from clusterfirst.evidence.bench import compare as bench_module
from clusterfirst.evidence.bench.compare import (
    BenchOptions,
    WarmProcesses,
    bench,
    plan,
    weights_key,
    with_ablation,
)
from clusterfirst.evidence.bench.report import make_report, table
from clusterfirst.evidence.bench.rows import Key, RowsFile
from clusterfirst.evidence.bench.run import Answer, Method, Run, answer
from clusterfirst.evidence.bench.sets import Case
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.machine import usable_cores
from clusterfirst.problem.sampling import sample_city, sample_day
from clusterfirst.problem.solution import Solution, judge


class FakeProcesses(WarmProcesses):
    """Answers at once, without processes; counts what it is asked."""

    asked: list[Key]

    def __init__(self, options: BenchOptions) -> None:
        super().__init__(options)
        FakeProcesses.asked = []

    def run(self, case: Case, key: Key) -> Answer:
        """One customer per route."""
        FakeProcesses.asked.append(key)
        if key.method == "neural":
            raise InputError(Problem("E403", "model", rule="no such model"))
        if key.method == "pyvrp":
            return Answer(Solution([[1, 2]]), 0.5, 10.0)
        return Answer(ALONE, 0.5, 10.0)


@pytest.fixture
def no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs without child processes."""
    monkeypatch.setattr(bench_module, "WarmProcesses", FakeProcesses)


# --- the plan ------------------------------------------------------------------------


def test_a_neural_method_brings_its_twins() -> None:
    """The same decoder and polish with Fisher-Jaikumar costs is always there."""
    twins = ("fisher-jaikumar", "fisher-jaikumar:once")
    assert with_ablation(["neural", "hgs"]) == ("neural", "hgs", *twins)
    assert with_ablation(["neural:a", "neural:b"]) == ("neural:a", "neural:b", *twins)
    both = with_ablation(["neural:a+polish", "fisher-jaikumar+polish"])
    assert both == ("neural:a+polish", "fisher-jaikumar+polish")
    once = ("neural", "fisher-jaikumar:once")
    assert with_ablation(once) == once
    assert with_ablation(["hgs"]) == ("hgs",)


def test_a_method_is_taken_apart() -> None:
    """A name, weights, polish; a command is one name, whatever it holds."""
    assert Method.of("neural:general+polish") == Method("neural", "general", True)
    assert Method.of("neural:a").weights("b") == "a"
    assert Method.of("neural").weights("b") == "b"
    assert Method.of("savings").weights("b") is None
    command = "cmd:solver:x {instance} {solution}"
    assert Method.of(command) == Method(command)
    assert [Method.of(m).searches for m in ("hgs", "sweep", "sweep+polish")] == [
        True,
        False,
        True,
    ]


def test_other_weights_are_other_runs(tmp_path: Path) -> None:
    """A model that was trained again under its name has no rows yet."""
    folder = tmp_path / "mine"
    folder.mkdir()
    keys = set()
    for manifest in ("{}", "{ }"):
        (folder / "manifest.json").write_text(manifest)
        keys.add(weights_key(f"neural:{folder}", None))
    assert len(keys) == 2
    assert all(key.startswith(f"{folder}@") for key in keys)
    assert weights_key("neural:no-such-model", None) == "no-such-model"
    assert weights_key("savings", "mine") == ""


def test_once_decodes_as_often_as_the_network() -> None:
    """Fisher-Jaikumar in two decodings does not use up its time."""
    day = sample_day(sample_city(60, seed=1), 40, seed=1, index=0)
    start = time.perf_counter()
    found = answer(Run(day, "fisher-jaikumar:once", 60.0, 0))
    assert found.routes is not None
    assert judge(day, found.routes).feasible
    assert time.perf_counter() - start < 50  # with the minute it would be 54


def test_every_run_is_planned_once_and_interleaved() -> None:
    """All methods meet an instance before the next one, and each comes first alike."""
    options = BenchOptions(("savings", "sweep", "hgs"), (0.1, 1.0), (0, 1))
    keys = [key for _, key in plan(small_set(3), options)]
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
        {"methods": ("savings:once",)},
        {"methods": ("fisher-jaikumar:twice",)},
        {"seconds": ()},
        {"seconds": (0.001,)},
        {"seconds": (math.nan,)},
        {"seeds": (-1,)},
        {"cores": 0},
        {"cores": len(usable_cores()) + 1},
        {"engine": "ray", "cores": 2},
    ],
)
def test_wrong_options_are_refused(wrong: dict[str, object]) -> None:
    """One sentence before anything runs."""
    with pytest.raises(InputError, match="E404"):
        BenchOptions(**({"methods": ("savings",)} | wrong))  # type: ignore[arg-type]


# --- rows ----------------------------------------------------------------------------


def test_rows_survive_a_kill_at_every_byte(tmp_path: Path) -> None:
    """A cut line is lost, the rows before it are not, and the next row is whole."""
    case = Case(small_day(0))
    rows = [made_row(case, method, 1.0) for method in ("a", "b", "c")]
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
    file, days = RowsFile(tmp_path), small_set(2)
    first = bench(days, BenchOptions(("savings",), (0.5,)), file)
    assert len(FakeProcesses.asked) == 2
    again = bench(days, BenchOptions(("savings",), (0.5,)), file)
    assert FakeProcesses.asked == []
    assert sorted(again.rows, key=str) == sorted(first.rows, key=str)
    bench(days, BenchOptions(("savings", "sweep"), (0.5,)), file)
    assert {key.method for key in FakeProcesses.asked} == {"sweep"}


def test_every_answer_is_judged(tmp_path: Path, no_processes: None) -> None:
    """Routes that leave customers out are no answer, whoever sent them."""
    options = BenchOptions(("pyvrp", "savings"), (0.5,))
    rows = bench(small_set(1), options, RowsFile(tmp_path)).rows
    bad, good = sorted(rows, key=lambda row: row.method)
    assert bad.cost is None
    assert "no visit" in bad.reason
    assert good.cost == judge(small_day(0), ALONE).cost


def test_a_method_that_cannot_run_is_left_out(
    tmp_path: Path, no_processes: None
) -> None:
    """It is asked once and named in the table; alone it is an error."""
    options = BenchOptions(("neural", "savings"), (0.5,))
    result = bench(small_set(3), options, RowsFile(tmp_path))
    assert [key.method for key in FakeProcesses.asked].count("neural") == 1
    assert {row.method for row in result.rows} == {"savings"}
    assert "not run: neural: E403" in table(make_report(small_set(3), result))
    with pytest.raises(InputError, match="E403"):
        bench(small_set(3), BenchOptions(("neural",), (0.5,)), RowsFile(tmp_path))


def test_progress_is_told_by_time(tmp_path: Path, no_processes: None) -> None:
    """The last report has nothing left to do."""
    seen: list[bench_module.BenchProgress] = []
    options = BenchOptions(("savings",), (0.5, 1.0))
    bench(small_set(2), options, RowsFile(tmp_path), seen.append)
    assert [progress.done for progress in seen] == [1, 2, 3, 4]
    assert seen[-1].left == 0
