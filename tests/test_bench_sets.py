"""Sets to compare on, and what their costs are measured against."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from benches import ALONE, small_day, small_set
from clusterfirst.evidence.bench import sets as bench_sets
from clusterfirst.evidence.bench.sets import (
    DataNotHereError,
    SetRequest,
    instance_digest,
    open_set,
    with_references,
)
from clusterfirst.files import write_instance, write_instances, write_solution
from clusterfirst.learning.experts.expert import ExpertSettings
from clusterfirst.problem.errors import InputError
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import judge
from clusterfirst.solving.cluster import Outcome


def test_a_folder_of_instances_with_solutions(tmp_path: Path) -> None:
    """The .sol beside an instance is its reference, recomputed."""
    for i in (2, 10):
        write_instance(tmp_path / f"day-{i}.vrp", small_day(i))
    write_solution(tmp_path / "day-2.sol", small_day(2), ALONE)
    found = open_set(str(tmp_path), SetRequest())
    assert [case.instance.name for case in found.cases] == ["day-2", "day-10"]
    assert found.cases[0].reference == pytest.approx(judge(small_day(2), ALONE).cost)
    assert found.cases[1].reference is None
    (tmp_path / "day-10.sol").write_text("Route #1: 1\n")
    with pytest.raises(InputError, match="no visit"):
        open_set(str(tmp_path), SetRequest())


def test_a_part_of_a_set_file(tmp_path: Path) -> None:
    """Instances A to B - 1 of an .npz set; an empty part is refused."""
    path = tmp_path / "days.npz"
    write_instances(path, [small_day(i) for i in range(4)])
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
    day = small_day(0)
    assert instance_digest(day.replace(name="other")) == instance_digest(day)
    changes = [{"capacity": 6}, {"rounding": "round"}, {"vehicles": 5}]
    others = [instance_digest(day.replace(**change)) for change in changes]
    assert len({*others, instance_digest(day)}) == 4


def test_references_from_a_table(tmp_path: Path) -> None:
    """instance,cost; one that is missing is named."""
    path = tmp_path / "costs.csv"
    path.write_text("instance,cost\nday-0,1.5\nday-1,2.5\n")
    found = with_references(small_set(2), str(path))
    assert [case.reference for case in found.cases] == [1.5, 2.5]
    with pytest.raises(InputError, match="day-2"):
        with_references(small_set(3), str(path))
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="E311"):
        with_references(small_set(1), str(path))
    with pytest.raises(InputError, match="E404"):
        with_references(small_set(1), "hgs:soon")


def test_long_runs_are_cached_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HGS runs once per instance; a damaged or wrong file in the cache is made anew."""
    calls, told = [], []

    def experts(
        function: object,
        tasks: Iterable[tuple[int, Instance, ExpertSettings]],
        **_: int,
    ) -> Iterator[Outcome[object, object]]:
        for task in tasks:
            calls.append(task[2].seconds)
            yield Outcome(task, (task[0], ALONE))

    monkeypatch.setattr(bench_sets, "map_tasks", experts)
    monkeypatch.setenv(bench_sets.CACHE_VARIABLE, str(tmp_path))
    first = with_references(small_set(2), "hgs:3", lambda *p: told.append(p))
    assert told == [(1, 2), (2, 2)]
    assert [case.reference for case in first.cases] == [
        pytest.approx(judge(small_day(i), ALONE).cost) for i in range(2)
    ]
    with_references(small_set(2), "hgs:3")
    assert calls == [3.0, 3.0]
    files = sorted((tmp_path / "references").iterdir())
    files[0].write_text("{")
    files[1].write_text('{"routes": [[1]]}')
    with_references(small_set(2), "hgs:3")
    assert len(calls) == 4


@pytest.mark.skipif(
    importlib.util.find_spec("hygese") is None, reason="the extra `labels` is missing"
)
def test_a_real_long_run_is_no_worse_than_routes_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The processes that make references answer in the order of the set."""
    monkeypatch.setenv(bench_sets.CACHE_VARIABLE, str(tmp_path))
    days = with_references(small_set(3), "hgs:0.05")
    assert "0.05 s" in days.references
    for i, case in enumerate(days.cases):
        assert case.instance.name == f"day-{i}"
        assert case.reference is not None
        assert case.reference <= judge(case.instance, ALONE).cost
