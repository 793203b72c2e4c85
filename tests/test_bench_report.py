"""Sums of a comparison: honest intervals, shares, files."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest

from benches import made_row, small_set
from clusterfirst.evidence.bench import compare as bench_module
from clusterfirst.evidence.bench.lines import Mean
from clusterfirst.evidence.bench.report import (
    document,
    gap_against_seconds,
    make_report,
    report_names,
    table,
    write_report,
)
from clusterfirst.evidence.bench.rows import read_published
from clusterfirst.problem.errors import InputError


def test_the_interval_is_students() -> None:
    """Mean and half width agree with a worked example; one value has no interval."""
    mean = Mean.of([1.0, 2.0, 3.0, 4.0])
    assert mean.value == 2.5
    assert mean.half == pytest.approx(3.182446 * math.sqrt(5 / 3) / 2, rel=1e-6)
    assert math.isnan(Mean.of([1.0]).half)
    assert str(Mean.of([])) == "-"


def test_gaps_are_per_instance_and_failures_count() -> None:
    """Seeds are averaged first; an instance without an answer lowers only `solved`."""
    days = small_set(2, day0=10.0, day1=20.0)
    a, b = days.cases
    rows = [
        made_row(a, "hgs", 11.0),
        made_row(a, "hgs", 12.0, seed=1),
        made_row(b, "hgs", 20.0),
        made_row(b, "hgs", None, seed=1),
    ]
    report = make_report(days, bench_module.BenchResult(rows))
    (line,) = report.lines
    assert line.gap.value == pytest.approx((15.0 + 0.0) / 2)
    assert (line.solved, line.vehicles, line.runs) == (0.75, 2, 4)
    assert "it found nothing" in table(report)


def test_without_references_the_best_answer_is_the_reference() -> None:
    """And the table says so."""
    days = small_set(1)
    rows = [
        made_row(days.cases[0], "hgs", 10.0),
        made_row(days.cases[0], "savings", 11.0),
    ]
    report = make_report(days, bench_module.BenchResult(rows))
    assert [line.gap.value for line in report.lines] == [pytest.approx(10.0), 0.0]
    assert "the best answer of this comparison" in table(report)


def test_search_free_and_search_stand_apart() -> None:
    """Two tables, and what took longer than allowed is marked."""
    days = small_set(1)
    case = days.cases[0]
    rows = [
        made_row(case, "neural", 11.0),
        made_row(case, "neural+polish", 10.0),
        made_row(case, "hgs", 10.0, seconds=3.0),
    ]
    text = table(make_report(days, bench_module.BenchResult(rows)))
    free, searched = text.split("with local search")
    assert "neural " in free
    assert "neural+polish" not in free
    assert "neural+polish" in searched
    assert "3.00!" in searched


def test_the_networks_share_is_paired_by_instance() -> None:
    """Its gain is the difference to its twin, instance by instance."""
    days = small_set(2, day0=10.0, day1=100.0)
    rows = []
    for case, (ours, theirs) in zip(
        days.cases, [(11.0, 12.0), (120.0, 150.0)], strict=True
    ):
        rows += [
            made_row(case, "neural", ours),
            made_row(case, "fisher-jaikumar", theirs),
        ]
    (share,) = make_report(days, bench_module.BenchResult(rows)).shares
    assert share.points.value == pytest.approx((-10 - 30) / 2)


def test_a_report_is_written_whole(tmp_path: Path) -> None:
    """Table, CSV, strict JSON and a picture."""
    days = small_set(1)
    rows = [
        made_row(days.cases[0], "hgs", 10.0),
        made_row(days.cases[0], "sweep", None),
    ]
    report = make_report(days, bench_module.BenchResult(rows))
    text, runs, summary, picture = write_report(tmp_path, report_names("x", 1), report)
    assert text.read_text() == table(report)
    assert [row["method"] for row in csv.DictReader(runs.open())] == ["hgs", "sweep"]
    strict = json.loads(summary.read_text(), parse_constant=pytest.fail)
    assert strict == document(report)
    assert picture.read_bytes().startswith(b"\x89PNG")


PEERS = """method,seconds,instance,cost,measured
savant,1.0,day-0,9.0,0.8
savant,1.0,day-1,21.0,0.8
savant,1.0,elsewhere,5,0.8
search-free pointer,1,day-0,12,
"""


def test_what_others_measured_stands_beside_ours(tmp_path: Path) -> None:
    """Marked, under the heading its first word says, never mixed with runs of ours."""
    days = small_set(2, day0=10.0, day1=20.0)
    path = tmp_path / "peers.csv"
    path.write_text(PEERS)
    rows = read_published(path, days)
    assert [(row.instance, row.cost, row.seconds) for row in rows] == [
        ("day-0", 9.0, 0.8),
        ("day-1", 21.0, 0.8),
        ("day-0", 12.0, 1.0),
    ]
    ours = made_row(days.cases[0], "savant", 11.0)
    report = make_report(days, bench_module.BenchResult([*rows, ours]))
    gaps = {(line.name, line.search): line.gap.value for line in report.lines}
    assert gaps == {
        ("search-free pointer (published)", False): pytest.approx(20.0),
        ("savant (published)", True): pytest.approx(-2.5),
        ("savant", False): pytest.approx(10.0),
    }
    text = table(report)
    assert "somebody else measured" in text
    assert "nan" not in text


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("savant,1.0,day-0,8", "second cost"),
        ("savant,1.0,day-1,nan", "above 0"),
        ("savant,soon,day-1,8", "above 0"),
        (",1,day-1,8", "empty"),
        ("savant,1", "4 are needed"),
    ],
)
def test_wrong_tables_of_others_get_a_sentence(
    tmp_path: Path, line: str, rule: str
) -> None:
    """With the line; so do a table without columns and one of another set."""
    path = tmp_path / "peers.csv"
    path.write_text(f"method,seconds,instance,cost\nsavant,1.0,day-0,9\n{line}\n")
    with pytest.raises(InputError, match=rule) as refused:
        read_published(path, small_set(2))
    assert "line 3" in str(refused.value)
    path.write_text("method,cost\na,1\n")
    with pytest.raises(InputError, match="columns"):
        read_published(path, small_set(2))
    path.write_text("method,seconds,instance,cost\na,1,elsewhere,9\n")
    with pytest.raises(InputError, match="none of its instances"):
        read_published(path, small_set(2))


def test_one_outlier_does_not_flatten_a_plot() -> None:
    """The axis ends above most lines; the outlier keeps its figure as an arrow."""
    days = small_set(1, day0=100.0)
    costs = {"hgs": 101.0, "pyvrp": 102.0, "vroom": 103.0, "ortools": 150.0}
    rows = [made_row(days.cases[0], name, cost) for name, cost in costs.items()]
    report = make_report(days, bench_module.BenchResult(rows))
    (axes,) = gap_against_seconds("set", "somebody", report.lines).axes
    assert 3.0 < axes.get_ylim()[1] < 10.0
    assert [text.get_text() for text in axes.texts] == ["50 %"]
    few = [line for line in report.lines if line.method != "ortools"]
    (axes,) = gap_against_seconds("set", "somebody", few).axes
    assert not axes.texts
