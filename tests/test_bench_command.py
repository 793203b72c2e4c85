"""From words to tables: `clusterfirst bench` and the scripts around it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from benches import ALONE, small_day, small_set
from clusterfirst.cli import main
from clusterfirst.evidence.bench import compare as bench_module
from clusterfirst.evidence.bench.compare import BenchOptions, bench
from clusterfirst.evidence.bench.report import make_report, table
from clusterfirst.evidence.bench.rows import RowsFile
from clusterfirst.evidence.bench.run import Answer, Run
from clusterfirst.files.lock import locked
from clusterfirst.problem.machine import usable_cores
from clusterfirst.problem.solution import judge
from clusterfirst.solving.cluster import Outcome


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
        bench(
            small_set(1),
            BenchOptions((method,), (5.0,), cores=cores),
            RowsFile(tmp_path),
        )
        for cores in (1, 2)
    )
    assert one.rows[0].cost is None
    assert "no solution file" in one.rows[0].reason
    assert two.rows[0].cost == pytest.approx(judge(small_day(0), ALONE).cost)
    assert two.rows[0].gflops > 0
    assert two.rows[0].startup > 0


def test_two_comparisons_do_not_share_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second is refused by name (E723), and nothing is run twice."""
    words = ["bench", "--city", "bundled", "--customers", "15", "--count", "1"]
    words += ["--methods", "savings", "--seconds", "0.1", "--out", str(tmp_path)]
    with locked(tmp_path):
        assert main(words) != 0
        assert main(["paper", "main-a", "--out", str(tmp_path)]) != 0
    assert capsys.readouterr().err.count("E723") == 2
    assert not (tmp_path / "rows.jsonl").exists()


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


def test_sets_that_are_not_here_are_rows_too(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The others run; a name without data says so in the table and in JSON."""
    monkeypatch.delenv("CLUSTERFIRST_DATA", raising=False)
    words = ["bench", "X", "lehd200", "--instances", "0", "--methods", "sweep"]
    words += ["--seconds", "0.1", "--out", str(tmp_path)]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "lehd200, 1 instance" in out
    assert "X: data not here" in out
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data_not_here"] == ["X"]


def test_a_cluster_is_for_quality_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs spread by Ray land in the rows of their instance, and the table says so."""
    asked = []

    def cluster(
        function: Callable[[tuple[int, Run]], Answer],
        tasks: Iterable[tuple[int, Run]],
        *,
        workers: int,
        engine: str,
    ) -> Iterator[Outcome[tuple[int, Run], Answer]]:
        asked.append((workers, engine))
        for task in reversed(list(tasks)):  # the last one comes first
            yield Outcome(task, function(task))

    monkeypatch.setattr(bench_module, "map_tasks", cluster)
    options = BenchOptions(("savings",), (0.1,), engine="ray", workers=7)
    result = bench(small_set(3), options, RowsFile(tmp_path))
    assert asked == [(7, "ray")]
    assert {row.instance for row in result.rows} == {"day-0", "day-1", "day-2"}
    assert "quality only" in table(make_report(small_set(3), result))


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([], "E400"),
        (["lehd200", "--city", "bundled"], "E406"),
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
