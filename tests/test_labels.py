"""Labels: made, resumed, merged, imported, read back and checked."""

from __future__ import annotations

import importlib.util
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clusterfirst.city import City
from clusterfirst.errors import InputError, InputWarning
from clusterfirst.experts.hgs import HgsSettings
from clusterfirst.labels.making import (
    LabelOptions,
    LabelProgress,
    import_labels,
    label,
    label_of,
    merge,
    read_labels,
)
from clusterfirst.labels.records import Record
from clusterfirst.labels.shard_writer import write_shards
from clusterfirst.labels.shards import read_shards, shard_paths
from clusterfirst.labels.sources import Source, city_days, public_set, uniform, world
from clusterfirst.sampling import sample_city
from clusterfirst.solution import Solution, judge

needs_hygese = pytest.mark.skipif(
    importlib.util.find_spec("hygese") is None, reason="the extra `labels` is missing"
)
CITY = sample_city(60, seed=5, name="Testville")
SHARED = Path("/work/shared/data/city")
PATIENCE = 100.0  # seconds; guards against hangs


def _trivial(
    source: Source, n: int, indices: range, *, seed: int = 1, detour: bool = False
) -> list[Record]:
    """Labels without an expert: first-fit routes in the order of the customers."""
    records = []
    for index in indices:
        instance = source.draw(n, index)
        routes: list[list[int]] = [[]]
        load = 0
        for customer in range(1, n + 1):
            demand = int(instance.demand_units[customer])
            if routes[-1] and (load + demand > instance.capacity_units or detour):
                routes.append([])
                load = 0
            routes[-1].append(customer)
            load += demand
        settings = HgsSettings(iterations=1, seed=seed)
        records.append(label_of(instance, Solution(routes), index, "hgs", settings))
    return records


def _save(folder: Path, source: Source, records: list[Record]) -> Path:
    write_shards(folder, source, [record.encode() for record in records])
    return folder


def _bytes(folder: Path) -> dict[str, bytes]:
    files = [*shard_paths(folder), folder / "manifest.json"]
    return {path.name: path.read_bytes() for path in files}


SOURCES = {
    "world": world(seed=3),
    "uniform": uniform(seed=3),
    "city": city_days(CITY, seed=3, capacity=12.5, demand=(0, 7)),
    "degrees": city_days(
        City(CITY.coords * 0.3 + [13, 52], metric="greatcircle"), seed=4
    ),
    "public": public_set("cvrp100"),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_labels_come_back_with_their_instances(tmp_path: Path, kind: str) -> None:
    """Instance arrays, tours and cost read back equal what was written, twice."""
    source = SOURCES[kind]
    n = 100 if kind == "public" else 17
    _save(tmp_path, source, _trivial(source, n, range(5)))
    for _ in range(2):  # drawn, then from the cache
        labels = read_labels(tmp_path)
        assert len(labels) == 5
        assert (labels.failures, labels.dropped) == (0, 0)
        for i, view in enumerate(labels):
            instance, solution = labels.instance(i), labels.solution(i)
            assert instance.same_as(source.draw(n, i).replace(ids=instance.ids))
            assert solution is not None
            assert judge(instance, solution, stated_cost=view.cost).feasible
            np.testing.assert_allclose(view.coords, instance.plane, atol=1e-9)
            np.testing.assert_array_equal(view.demands, instance.demand_units)
            assert view.capacity == instance.capacity_units
            if instance.city_rows is not None:
                np.testing.assert_array_equal(view.rows, instance.city_rows)
            for number, stops in enumerate(solution.routes):
                assert set(view.route[np.array(stops) - 1]) == {number}


def test_a_record_survives_its_encoding() -> None:
    """Every field of labels, failures and stored instances comes back."""
    (drawn,) = _trivial(world(seed=1), 300, range(9, 10), detour=True)
    failed = Record(7, 2, "pyvrp", HgsSettings(seconds=0.7, seed=3), failure="why")
    stored = Record(
        3,
        5,
        "imported",
        None,
        cost=1.5,
        route=np.array([0, 1, 0]),
        rows=np.array([70_000, 2, 3]),
        demands=np.array([1, 2, 300]),
    )
    for record in (drawn, failed, stored):
        again = Record.decode(record.encode())
        assert again.identity == record.identity
        assert again.settings == record.settings
        assert (again.cost, again.failure) == (record.cost, record.failure)
        for name in ("route", "place", "rows", "demands"):
            np.testing.assert_array_equal(getattr(again, name), getattr(record, name))
        assert again.encode() == record.encode()


def _tampered(record: Record, fault: str) -> Record:
    fields: dict[str, Any] = dict(vars(record))
    route, place = fields["route"].copy(), fields["place"].copy()
    if fault == "cost":
        fields["cost"] *= 1.001
    elif fault == "capacity":
        route[:], place[:] = 0, np.arange(len(route))
    elif fault == "empty":
        route += 1
    else:
        place[route == 0] = 0
    return Record(**(fields | {"route": route, "place": place}))


@pytest.mark.parametrize("fault", ["cost", "capacity", "empty", "tours"])
def test_wrong_labels_are_left_out(tmp_path: Path, fault: str) -> None:
    """A label with a valid checksum but a wrong content is named and not used."""
    source = world(seed=3)
    records = _trivial(source, 30, range(4))
    records[2] = _tampered(records[2], fault)
    _save(tmp_path, source, records)
    with pytest.warns(InputWarning, match=f"W715 1 of 4 .*world 2: .*{fault}"):
        labels = read_labels(tmp_path)
    assert labels.groups[30].index.tolist() == [0, 1, 3]
    assert labels.dropped == 1


def test_one_source_has_one_key_however_it_is_written() -> None:
    """50 and 50.0, and the defaults of the city, do not make another source."""
    whole = city_days(CITY.replace(capacity=50, vehicles=3), seed=1)
    assert whole.key == city_days(CITY, seed=1, capacity=50.0).key
    assert whole.key != city_days(CITY, seed=2).key
    assert whole.key != city_days(CITY, seed=1, capacity=51).key


def test_labels_of_another_generator_are_refused(tmp_path: Path) -> None:
    """A shard header this program does not understand is said, not guessed."""
    strange = world(seed=3)
    strange.description["generator"] = 99
    _save(tmp_path, strange, [])
    with pytest.raises(InputError, match="E713"):
        read_labels(tmp_path)


def test_merging_is_commutative_and_idempotent(tmp_path: Path) -> None:
    """Any order, any repetition, the same bytes; the cheapest of rivals stays."""
    source, city = world(seed=3), city_days(CITY, seed=1)
    poor = _trivial(source, 20, range(6), detour=True)
    good = _trivial(source, 20, range(3, 9))
    lost = Record(20, 4, "hgs", HgsSettings(iterations=1), failure="hung")
    a = _save(tmp_path / "a", source, [*poor[::-1], lost])
    b = _save(tmp_path / "b", source, good)
    c = _save(tmp_path / "c", city, _trivial(city, 20, range(3)))
    assert merge([a, b, c], tmp_path / "abc") == 12
    assert merge([c, b, a, b], tmp_path / "cbab") == 12
    whole = _bytes(tmp_path / "abc")
    assert _bytes(tmp_path / "cbab") == whole
    assert merge([tmp_path / "abc"], tmp_path / "again") == 12
    assert _bytes(tmp_path / "again") == whole
    merge([tmp_path / "abc", a], tmp_path / "absorbed")
    assert _bytes(tmp_path / "absorbed") == whole
    labels = read_labels(tmp_path / "abc")
    together = read_labels(c, b, a)
    assert [v.cost for v in labels] == [v.cost for v in together]
    with pytest.raises(InputError, match="E711"):
        merge([a], tmp_path / "b")


def _foreign(days: int, n: int) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    idx = np.stack([rng.permutation(60)[:n] for _ in range(days)])
    return {
        "idx": idx.astype(np.int16),
        "demand": np.full((days, n), 5, dtype=np.uint8),
        "route": np.tile(np.arange(n) // 10, (days, 1)).astype(np.uint8),
        "cost": np.linspace(3, 4, days).astype(np.float32),
    }


def test_foreign_sets_are_imported_once(tmp_path: Path) -> None:
    """Locations counted from 0 become rows from 1; a second import adds nothing."""
    arrays = _foreign(7, 25)
    np.savez(tmp_path / "foreign.npz", **arrays)
    out = tmp_path / "out"
    assert import_labels(tmp_path / "foreign.npz", CITY, out) == 7
    assert import_labels(tmp_path / "foreign.npz", CITY, out) == 0
    labels = read_labels(out)
    assert len(labels) == 7
    view, instance = labels[3], labels.instance(3)
    np.testing.assert_array_equal(view.rows[1:], arrays["idx"][3] + 1)
    np.testing.assert_array_equal(view.route, arrays["route"][3])
    np.testing.assert_array_equal(view.coords, instance.coords)
    assert instance.capacity == view.capacity == 50
    assert labels.solution(3) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("idx", 60), ("route", 0), ("demand", 60), ("cost", np.nan), ("idx", -1)],
)
def test_foreign_sets_that_break_a_rule_are_refused(
    tmp_path: Path, name: str, value: float
) -> None:
    """Unknown places, overloads and nonsense refuse the whole file."""
    arrays = _foreign(7, 25)
    arrays[name] = arrays[name].astype(float)
    arrays[name][4] = value
    np.savez(tmp_path / "foreign.npz", **arrays)
    with pytest.raises(InputError, match="E711"):
        import_labels(tmp_path / "foreign.npz", CITY, tmp_path / "out")
    del arrays["route"]
    np.savez(tmp_path / "foreign.npz", **arrays)
    with pytest.raises(InputError, match="E711"):
        import_labels(tmp_path / "foreign.npz", CITY, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not SHARED.exists(), reason="the shared label files are not here")
def test_the_shared_labels_are_valid(tmp_path: Path) -> None:
    """Every day of the shared N = 400 labels passes the check."""
    from clusterfirst.files.city_folder import bundled_city

    path = SHARED / "labels_n400_a.npz"
    assert import_labels(path, bundled_city(), tmp_path) == 605
    assert len(read_labels(tmp_path)) == 605


# --- with the expert ------------------------------------------------------------


@needs_hygese
def test_labelling_again_continues(tmp_path: Path) -> None:
    """What is there is not made again; more, or a larger budget, adds to it."""
    source, seen = city_days(CITY, seed=2), list[LabelProgress]()
    few = LabelOptions(customers=8, count=3, iterations=10)
    assert label(source, tmp_path, few, seen.append).made == 3
    assert [p.made for p in seen] == [0, 1, 2, 3]
    again = label(source, tmp_path, few)
    assert (again.found, again.made) == (3, 0)
    more = LabelOptions(customers=8, count=5, iterations=10)
    assert label(source, tmp_path, more).made == 2
    longer = LabelOptions(customers=8, count=1, iterations=20)
    assert label(source, tmp_path, longer).made == 1
    assert len(read_labels(tmp_path)) == 5


@needs_hygese
def test_two_teachers_share_a_folder(tmp_path: Path) -> None:
    """HGS and PyVRP label the same instance side by side."""
    if importlib.util.find_spec("pyvrp") is None:
        pytest.skip("the extra `bench` is missing")
    source = world(seed=8)
    for teacher in ("hgs", "pyvrp"):
        options = LabelOptions(8, 2, iterations=200, teacher=teacher)  # type: ignore[arg-type]
        assert label(source, tmp_path, options).made == 2
    assert read_labels(tmp_path).groups[8].teacher.tolist() == [1, 2, 1, 2]


CODE = """
import sys
from clusterfirst.labels.making import LabelOptions, label
from clusterfirst.labels.sources import world
kind, budget, out = sys.argv[1:]
options = LabelOptions(customers=12, count=10, workers=2, seeds_per_instance=2,
                       **{kind: float(budget) if kind == "seconds" else int(budget)})
label(world(seed=6), out, options)
"""


def _label_and_kill(kind: str, budget: str, out: Path, after: int) -> None:
    """Kill the labelling process once it has written about `after` bytes."""
    command = [sys.executable, "-W", "ignore", "-c", CODE, kind, budget, str(out)]
    process = subprocess.Popen(command)
    end = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < end:
        if sum(os.path.getsize(path) for path in shard_paths(out)) > after:
            break
        time.sleep(0.002)
    process.kill()
    process.wait()


@needs_hygese
@pytest.mark.parametrize(
    ("kind", "budget"), [("iterations", "40"), ("seconds", "0.02")]
)
def test_kill_and_resume(tmp_path: Path, kind: str, budget: str) -> None:
    """Killed at random and run again: the same set, to the byte with iterations."""
    out, source = tmp_path / "killed", world(seed=6)
    random.seed(kind)
    had: set[bytes] = set()
    for _ in range(3):
        _label_and_kill(kind, budget, out, after=random.randrange(0, 1800))
        now = {body for _, bodies in read_shards(out) for body in bodies}
        assert had <= now
        had = now
    value = float(budget) if kind == "seconds" else int(budget)
    options = LabelOptions(12, 10, workers=2, seeds_per_instance=2, **{kind: value})  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)  # a torn tail may be cut
        end = label(source, out, options)
    assert end.found + end.made == end.total == 20
    labels = read_labels(out)
    assert len(labels) == 20
    assert labels.dropped == 0
    if kind == "iterations":
        label(source, tmp_path / "whole", options)
        merge([out], tmp_path / "a")
        merge([tmp_path / "whole"], tmp_path / "b")
        assert _bytes(tmp_path / "a") == _bytes(tmp_path / "b")


@needs_hygese
def test_ctrl_c_ends_cleanly(tmp_path: Path) -> None:
    """As from a terminal, to all processes: exit code 130, no traceback, resumable."""
    command = "label world --customers 12 --count 100000 --iterations 40 --workers 2"
    process = subprocess.Popen(
        [sys.executable, "-m", "clusterfirst", *command.split(), "--out", tmp_path],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    end = time.monotonic() + PATIENCE
    while sum(map(os.path.getsize, shard_paths(tmp_path))) < 1000:
        assert time.monotonic() < end
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, words = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Traceback" not in words
    made = len(read_labels(tmp_path))
    assert made > 2
    few = LabelOptions(12, made, iterations=40)
    assert label(world(seed=0), tmp_path, few).found >= made - 1


@pytest.mark.parametrize(
    "options",
    [
        {"customers": 0},
        {"count": -1},
        {"seconds": 1},
        {"iterations": None},
        {"teacher": "oracle"},
        {"seeds_per_instance": 0},
    ],
)
def test_wrong_options_are_named(options: dict[str, Any]) -> None:
    """Options that make no sense get one sentence."""
    with pytest.raises(InputError, match="E423"):
        LabelOptions(**({"customers": 5, "count": 1, "iterations": 1} | options))


@needs_hygese
def test_sizes_a_source_does_not_have_are_named_before_work(tmp_path: Path) -> None:
    """More customers than locations, or than the public set has, is one sentence."""
    for source, code in (
        (city_days(CITY, seed=1), "E401"),
        (SOURCES["public"], "E406"),
    ):
        with pytest.raises(InputError, match=code):
            label(source, tmp_path / "out", LabelOptions(61, 1, iterations=1))
    assert not (tmp_path / "out").exists()


def test_our_own_polish_teaches(tmp_path: Path) -> None:
    """Its labels pass the check and repeat; more seconds do not cost more."""
    source = world(seed=3)
    costs = []
    for seconds in (0.01, 0.05):
        options = LabelOptions(30, 3, seconds=seconds, teacher="polish")
        for again in ("a", "b"):
            label(source, tmp_path / f"{seconds}{again}", options)
        found, twin = (read_labels(tmp_path / f"{seconds}{x}") for x in "ab")
        assert len(found) == 3
        assert np.array_equal(found.groups[30].route, twin.groups[30].route)
        costs.append(found.groups[30].cost.sum())
    assert costs[1] <= costs[0] * 1.02
