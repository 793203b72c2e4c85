"""Labels: merged, imported, read back and checked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clusterfirst.cities.day_law import fit
from clusterfirst.cities.history import History, PastDay
from clusterfirst.learning.experts.expert import ExpertSettings
from clusterfirst.learning.labels.importing import import_labels
from clusterfirst.learning.labels.labelset import read_labels
from clusterfirst.learning.labels.making import LabelOptions, label, label_of, merge
from clusterfirst.learning.labels.records import Record, decode_alike, heads, identities
from clusterfirst.learning.labels.shard_writer import write_shards
from clusterfirst.learning.labels.shards import shard_paths
from clusterfirst.learning.labels.sources import (
    Source,
    city_days,
    law_days,
    public_set,
    uniform,
    world,
)
from clusterfirst.problem.city import City
from clusterfirst.problem.errors import InputError, InputWarning
from clusterfirst.problem.sampling import sample_city
from clusterfirst.problem.solution import Solution, judge

CITY = sample_city(60, seed=5, name="Testville")
SHARED = Path("/work/shared/data/city")


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
        settings = ExpertSettings(iterations=1, seed=seed)
        records.append(label_of(instance, Solution(routes), index, "hgs", settings))
    return records


def _save(folder: Path, source: Source, records: list[Record]) -> Path:
    write_shards(folder, source, [record.encode() for record in records])
    return folder


def bytes_of(folder: Path) -> dict[str, bytes]:
    """All that a folder of labels is, by file."""
    files = [*shard_paths(folder), folder / "manifest.json"]
    return {path.name: path.read_bytes() for path in files}


SOURCES = {
    "world": world(seed=3),
    "uniform": uniform(seed=3),
    "uniform-15": uniform(seed=3, capacity=15),
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
    for _ in range(2):
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
    failed = Record(7, 2, "pyvrp", ExpertSettings(seconds=0.7, seed=3), failure="why")
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
    bodies = [record.encode() for record in (drawn, failed, stored)]
    assert identities(bodies) == [drawn.identity, failed.identity, stored.identity]
    assert heads(bodies)["cost"].tolist() == [drawn.cost, 0.0, 1.5]
    assert heads(bodies)["seconds"].tolist() == [0.0, 0.7, 0.0]
    assert bodies[1].endswith(b"why")
    for record, body in ((drawn, bodies[0]), (stored, bodies[2])):
        (columns,) = decode_alike([body])
        for name in columns.dtype.names[1:]:
            np.testing.assert_array_equal(columns[name], getattr(record, name))


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


FAULTS = {"cost": "E806", "capacity": "E801", "empty": "E805", "tours": "not whole"}


@pytest.mark.parametrize("fault", FAULTS)
def test_wrong_labels_are_left_out(tmp_path: Path, fault: str) -> None:
    """A label with a valid checksum but a wrong content is named and not used."""
    source = world(seed=3)
    records = _trivial(source, 30, range(4))
    records[2] = _tampered(records[2], fault)
    _save(tmp_path, source, records)
    with pytest.warns(InputWarning, match=f"W715 1 of 4 .*world 2: .*{FAULTS[fault]}"):
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
    lost = Record(20, 4, "hgs", ExpertSettings(iterations=1), failure="hung")
    a = _save(tmp_path / "a", source, [*poor[::-1], lost])
    b = _save(tmp_path / "b", source, good)
    c = _save(tmp_path / "c", city, _trivial(city, 20, range(3)))
    assert merge([a, b, c], tmp_path / "abc") == 12
    assert merge([c, b, a, b], tmp_path / "cbab") == 12
    whole = bytes_of(tmp_path / "abc")
    assert bytes_of(tmp_path / "cbab") == whole
    assert merge([tmp_path / "abc"], tmp_path / "again") == 12
    assert bytes_of(tmp_path / "again") == whole
    merge([tmp_path / "abc", a], tmp_path / "absorbed")
    assert bytes_of(tmp_path / "absorbed") == whole
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


def test_labels_of_past_days_are_drawn_again(tmp_path: Path) -> None:
    """Real days first, then days of their law, in sizes of their own, from disk."""
    rng = np.random.default_rng(1)
    days = tuple(
        PastDay(rng.choice(12, 4 + i % 3, replace=False) + 1, rng.random(4 + i % 3))
        for i in range(6)
    )
    days = tuple(replace(day, demands=np.round(day.demands + 1, 2)) for day in days)
    city = City(rng.random((13, 2)), capacity=7.5, vehicles=1)
    source = law_days(fit(History(city, days)), seed=4)
    options = LabelOptions(customers=0, count=8, iterations=5, teacher="polish")
    label(source, tmp_path, options)
    again = label(source, tmp_path, options)
    assert (again.found, again.made) == (8, 0)
    found = read_labels(tmp_path)
    assert len(found) == 8
    assert found.dropped == 0
    seen = {(i.num_customers, i.demands.sum()) for i in map(found.instance, range(8))}
    drawn = [source.draw(0, index) for index in range(8)]
    assert seen == {(i.num_customers, i.demands.sum()) for i in drawn}
    for index, day in enumerate(days):
        assert drawn[index].demands[1:].tolist() == day.demands.tolist()
        assert drawn[index].vehicles is None
    assert found.sources[0].description == source.description
    with pytest.raises(InputError, match="E423"):
        label(city_days(city, seed=1), tmp_path / "other", options)
