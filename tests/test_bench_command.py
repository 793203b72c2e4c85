"""From words to tables: `clusterfirst bench` and the scripts around it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benches import ALONE, small_day, small_set
from clusterfirst.bench.compare import BenchOptions, bench
from clusterfirst.bench.rows import RowsFile
from clusterfirst.cli import main
from clusterfirst.experts.peers import usable_cores
from clusterfirst.solution import judge


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
