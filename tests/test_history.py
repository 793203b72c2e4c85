"""A city remembers its days: each once, whole or not at all, and it may grow."""

from __future__ import annotations

import datetime
import errno
import json
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterfirst.cities.history import FILE, History, PastDay, add_days, read_history
from clusterfirst.files import read_city, write_city
from clusterfirst.files.city_folder import add_locations
from clusterfirst.problem.city import City
from clusterfirst.problem.errors import InputError, InputWarning
from clusterfirst.problem.sampling import sample_city
from commands import Capture, problem_of, run

CITY = sample_city(40, seed=4, name="small").replace(capacity=20)


@pytest.fixture
def city(tmp_path: Path) -> Path:
    """A folder with a city of 40 locations."""
    write_city(tmp_path / "city", CITY)
    return tmp_path / "city"


def table(path: Path, text: str) -> Path:
    """A file of orders."""
    path.write_text(text)
    return path


def monday(folder: Path, name: str = "mon.csv", orders: str = "3,2\n1,4.5\n") -> Path:
    """A day of two orders."""
    return table(folder / name, "id,demand\n" + orders)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_days_come_back_as_they_went_in(data: st.DataObject) -> None:
    """Rows, demands, dates and names survive the file, to the last bit."""
    rows = data.draw(st.lists(st.integers(1, 40), min_size=1, unique=True))
    demands = data.draw(
        st.lists(st.floats(0, 1e6), min_size=len(rows), max_size=len(rows))
    )
    date = data.draw(st.none() | st.dates())
    day = PastDay(np.array(rows), np.array(demands), date, "a name")
    known = json.loads(day.line())
    assert known["rows"] == rows
    assert known["demands"] == demands
    shuffled = np.random.default_rng(0).permutation(len(rows))
    other = PastDay(day.rows[shuffled], day.demands[shuffled])
    assert other.digest == day.digest == known["orders"]


def test_a_day_counts_once(city: Path, tmp_path: Path) -> None:
    """The same orders, of which one side has no date, and the same date, count once."""
    first = monday(tmp_path)
    again = monday(tmp_path, "copy.csv", "1,4.5\n3,2\n")
    history, new = add_days(city, [first])
    assert (len(history), new) == (1, 1)
    with pytest.warns(InputWarning, match="W412"):
        history, new = add_days(city, [first, again])
    assert (len(history), new) == (1, 0)
    dated = table(
        tmp_path / "d.csv", "date,id,demand\n2026-11-16,1,4.5\n2026-11-16,3,2"
    )
    with pytest.warns(InputWarning, match="W412"):
        assert add_days(city, [dated])[1] == 0
    dated = table(
        tmp_path / "e.csv", "date,id,demand\n2026-11-16,1,4.5\n2026-11-16,3,1"
    )
    history, new = add_days(city, [dated])
    assert (len(history), new) == (2, 1)
    assert history.days[1].date == datetime.date(2026, 11, 16)
    assert history.days[1].weekday == 0
    with pytest.warns(InputWarning, match="W412"):
        assert add_days(city, [dated])[1] == 0


def test_two_dated_days_may_be_alike(city: Path, tmp_path: Path) -> None:
    """Equal orders on two dates are two days, of which an undated one is one."""
    rows = [f"2026-11-{day},{i},2" for day in (16, 17) for i in (1, 3)]
    both = table(tmp_path / "both.csv", "\n".join(["date,id,demand", *rows]))
    undated = monday(tmp_path, orders="1,2\n3,2\n")
    assert add_days(city, [undated])[1] == 1
    for new in (1, 0):
        with pytest.warns(InputWarning, match="W412"):
            assert add_days(city, [both])[1] == new
    assert len(read_history(city)) == 2


def test_one_table_holds_many_days(city: Path, tmp_path: Path) -> None:
    """A column date cuts a table into days, and a file name may be the date."""
    text = "demand,date,id\n1,2026-11-16,1\n2,2026-11-17,1\n3,2026-11-16,2\n"
    many = table(tmp_path / "many.csv", text)
    named = monday(tmp_path, "2026-11-18.csv")
    history, new = add_days(city, [many, named])
    assert new == 3
    assert history.orders.tolist() == [2, 1, 2]
    assert history.loads.tolist() == [4, 2, 6.5]
    assert history.weekdays.tolist() == [0, 1, 2]
    back = read_history(city)
    assert [day.line() for day in back.days] == [day.line() for day in history.days]
    assert back.times_ordered[[1, 2, 3, 4]].tolist() == [3, 1, 1, 0]
    day = back.instance(0)
    assert day.demands.tolist() == [0, 1, 3]
    assert day.capacity == 20


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("a.csv", "id,demand\nnobody,1\n", "E407"),
        ("a.csv", "id,demand\n0,1\n", "E407"),
        ("a.csv", "id,demand\n1,21\n", "E201"),
        ("a.csv", "id,demand\n1,-1\n", "E133"),
        ("a.csv", "id,demand\n1,1\n1,2\n", "E308"),
        ("a.csv", "id,demand\n", "E101"),
        ("a.csv", "id,demand,date\n1,1,18.11.2026\n", "E412"),
        ("a.csv", "id,demand,date\n1,1,\n", "E412"),
        ("2026-11-16.csv", "id,demand\n1,3\n", "E412"),
    ],
)
def test_wrong_days_are_refused_and_nothing_is_added(
    city: Path, tmp_path: Path, name: str, text: str, code: str
) -> None:
    """One bad table keeps all others out, and the days stay as they were."""
    add_days(city, [monday(tmp_path, "2026-11-16.csv")])
    before = (city / FILE).read_bytes()
    good = monday(tmp_path, "good.csv", "5,1\n")
    with pytest.raises(InputError, match=code):
        add_days(city, [good, table(tmp_path / name, text)])
    assert (city / FILE).read_bytes() == before
    assert sorted(p.name for p in city.iterdir()) == [
        "city.json",
        FILE,
        "locations.csv",
    ]


class Died(BaseException):
    """Stands for a kill between two system calls."""


@pytest.mark.parametrize("error", [Died(), OSError(errno.ENOSPC, "full")])
@pytest.mark.parametrize("what", ["days", "locations"])
def test_a_kill_leaves_the_city_as_it_was(
    city: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    error: BaseException,
) -> None:
    """Wherever adding ends, city and days can be read, and adding again adds all."""
    add_days(city, [monday(tmp_path)])
    other = monday(tmp_path, "tue.csv", "7,1\n")
    places = table(tmp_path / "new.csv", "id,x,y\nn1,0.5,0.25\nn2,0.5,0.75\n")
    real = os.replace
    for survive in range(4):
        left = survive

        def failing(*args: str) -> None:
            nonlocal left
            if left == 0:
                raise error
            left -= 1
            real(*args)

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", failing)
            try:
                if what == "days":
                    add_days(city, [other])
                else:
                    add_locations(city, places)
            except (Died, InputError):
                pass
            else:
                break
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            history = read_history(city)
        assert bool(told) == (what == "locations" and survive == 2)
        assert len(history) == 1
        assert history.city.num_locations == 40
    if what == "days":
        assert len(read_history(city)) == 2
    else:
        assert read_city(city).ids[-2:] == ("n1", "n2")


def test_a_city_grows_and_stays_the_same_city(city: Path, tmp_path: Path) -> None:
    """Added locations come last; hash, rows, past days and defaults stay."""
    add_days(city, [monday(tmp_path)])
    places = table(
        tmp_path / "new.csv",
        "id,x,y\nn1,0.5,0.25\n7,{},{}\n".format(*map(repr, CITY.coords[7].tolist())),
    )
    grown, new = add_locations(city, places)
    assert new == 1
    again = read_city(city)
    assert again.hash == grown.hash == CITY.hash
    assert again.hash_of() != CITY.hash
    assert again.ids == (*CITY.ids, "n1")
    assert np.array_equal(again.coords[:-1], CITY.coords)
    assert (again.capacity, again.name) == (20, "small")
    history, new = add_days(city, [monday(tmp_path, "n.csv", "n1,2\n")])
    assert history.days[1].rows.tolist() == [41]
    add_locations(city, table(tmp_path / "more.csv", "id,x,y\nn2,0,0\n"))
    assert read_city(city).founded == 41
    assert read_history(city).digest != history.digest


@pytest.mark.parametrize(
    ("text", "code"),
    [("id,x,y\n7,9,9\n", "E409"), ("id,lat,lon\nn,1,2\n", "E409"), ("id\n7\n", "E311")],
)
def test_places_that_contradict_the_city_are_refused(
    city: Path, tmp_path: Path, text: str, code: str
) -> None:
    """A known id elsewhere, or degrees in a plane, change nothing."""
    with pytest.raises(InputError, match=code):
        add_locations(city, table(tmp_path / "new.csv", text))
    assert read_city(city).num_locations == 40


def test_an_edited_table_is_another_city(city: Path, tmp_path: Path) -> None:
    """Moving any row of a grown city is found; rows after the last are left out."""
    add_locations(city, table(tmp_path / "new.csv", "id,x,y\nn1,0.5,0.25\n"))
    text = (city / "locations.csv").read_text()
    (city / "locations.csv").write_text(text + "by hand,0.1,0.1\n")
    with pytest.warns(InputWarning, match="W408"):
        assert read_city(city).num_locations == 41
    (city / "locations.csv").write_text(text.replace("n1,0.5", "n1,0.6"))
    with pytest.raises(InputError, match="E408"):
        read_city(city)


@pytest.mark.parametrize("at", [0.02, 0.3, 0.6, 0.98])
def test_damage_is_named_by_its_line(city: Path, tmp_path: Path, at: float) -> None:
    """A changed or lost byte of the days is found and its line named."""
    add_days(city, [monday(tmp_path), monday(tmp_path, "b.csv", "9,1\n8,2\n")])
    data = (city / FILE).read_bytes()
    place = int(at * len(data))
    for bad in (data[:place] + b"\x07" + data[place + 1 :], data[:place]):
        (city / FILE).write_bytes(bad)
        with pytest.raises(InputError, match=r"E413 line \d"):
            read_history(city)


def test_days_of_another_city_are_refused(city: Path, tmp_path: Path) -> None:
    """A file of days that was copied from elsewhere does not pass for ours."""
    add_days(city, [monday(tmp_path)])
    write_city(tmp_path / "other", sample_city(50, seed=1))
    (tmp_path / "other" / FILE).write_bytes((city / FILE).read_bytes())
    with pytest.raises(InputError, match="E413"):
        read_history(tmp_path / "other")


def test_commands_add_and_show(city: Path, tmp_path: Path, capsys: Capture) -> None:
    """add-days takes files and folders; show tells, draws and lists what is there."""
    days = tmp_path / "days"
    days.mkdir()
    for number in range(3):
        monday(days, f"2026-11-{16 + number}.csv", f"{number + 1},5\n{number + 9},10\n")
    assert run("city", "add-days", city, days) == 0
    assert "3, 2026-11-16 to 2026-11-18" in capsys.readouterr().out
    files = [tmp_path / "a.png", tmp_path / "a.csv"]
    assert run("city", "show", city, "--out", files[0], "--out", files[1]) == 0
    shown = capsys.readouterr().out
    assert "0.75 (0.75 to 0.75, at most 0.75) full vehicles" in shown
    assert "15% of the locations" in shown
    assert (
        files[1].read_text().splitlines()[1] == "2026-11-16,mon,2026-11-16,2,15,0.750"
    )
    assert files[0].read_bytes()[:4] == b"\x89PNG"
    assert run("city", "show", city, "--json") == 0
    assert json.loads(capsys.readouterr().out)["history"]["weekdays"]["tue"] == 1


def test_commands_name_what_is_wrong(
    city: Path, tmp_path: Path, capsys: Capture
) -> None:
    """The bundled city cannot grow, an empty folder has no days, show needs days."""
    empty = tmp_path / "empty"
    empty.mkdir()
    assert run("city", "add-days", "bundled", empty) == 2
    assert "E102" in problem_of(capsys)
    assert run("city", "add-days", city, empty) == 2
    assert "no file in this folder ends in .csv" in problem_of(capsys)
    assert run("city", "show", city, "--out", tmp_path / "a.png") == 2
    assert "no past days" in problem_of(capsys)
    assert run("city", "show", city, "--out", tmp_path / "a.txt") == 2
    assert "E106" in problem_of(capsys)


def test_history_of_a_city_without_days_is_empty() -> None:
    """No days, no orders, no load; nothing divides by zero."""
    history = History(City(np.zeros((3, 2))))
    assert len(history) == len(history.orders) == len(history.rows) == 0
