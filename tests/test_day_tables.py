"""The tables of a dispatcher's day: read in the dialects people write, and back."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import openpyxl
import pytest

from clusterfirst import files
from clusterfirst.cli import main
from clusterfirst.files.day import Asked
from clusterfirst.files.matrices import read_matrices
from clusterfirst.files.vehicles import parse_fleet, read_fleet
from clusterfirst.problem.city import City
from clusterfirst.problem.errors import InputError, InputWarning
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge
from test_constraints import some_day

# ruff: noqa: E501
LOCATIONS = """id,lat,lon,address
depot,51.05,3.72,Quay 1
a,51.06,3.73,"Street 1, left"
b,51.04,3.71,
c,51.07,3.75,=cmd
"""
ORDERS = """id,demand,vehicle,not_vehicle,priority,service,group,apart,note
a,3,Anna,,2,5,g,,ring
b,4.5,,van,,0:10,g,x,
c,2,,,0.5,,,x,"-1"
"""
VEHICLES = """name,capacity,count,max_stops,max_distance,max_duration,fixed_cost,optional
Anna,8.5,,3,50,1:30,,no
van,6,2,,,,12.5,
"""


def put(folder: Path, name: str, text: str) -> Path:
    """Write a text file."""
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def as_xlsx(folder: Path, name: str, text: str) -> Path:
    """The same table as a workbook, numbers as numbers."""
    import csv

    book = openpyxl.Workbook()
    for at, row in enumerate(csv.reader(text.splitlines()), start=1):
        for column, cell in enumerate(row, start=1):
            try:
                value: object = float(cell) if "." in cell else int(cell)
            except ValueError:
                value = cell or None
            target = book.active.cell(at, column)
            target.value = value
            if isinstance(value, str):
                target.data_type = "s"
    book.save(folder / name)
    return folder / name


def week(folder: Path) -> City:
    """A city folder in `folder`."""
    city = files.read_locations(put(folder, "locations.csv", LOCATIONS), "depot")
    files.write_city(folder / "city", city)
    return files.read_city(folder / "city")


def a_day(folder: Path) -> Instance:
    """The day of the tables above."""
    fleet = read_fleet(put(folder, "vehicles.csv", VEHICLES))
    asked = Asked(fleet, speed=30.0)
    return files.read_orders(put(folder, "day.csv", ORDERS), week(folder), asked=asked)


def test_every_column_arrives(tmp_path: Path) -> None:
    """What the tables say is what the instance has, ours and the user's own."""
    day = a_day(tmp_path)
    asked = day.constraints
    assert asked is not None
    assert asked.fleet.vehicle_names == ("Anna", "van 1", "van 2")
    assert asked.fleet.max_duration.tolist() == [90, np.inf]
    assert asked.fleet.optional.tolist() == [False, True]
    assert day.demands.tolist() == [0, 3, 4.5, 2]
    assert (asked.vehicle, asked.not_vehicle) == (
        ("", "Anna", "", ""),
        ("", "", "van", ""),
    )
    assert asked.priority is not None
    assert asked.priority.tolist() == [0, 2, 1, 0.5]
    assert asked.service is not None
    assert asked.service.tolist() == [0, 5, 10, 0]
    assert (asked.group, asked.apart) == (("", "g", "g", ""), ("", "", "x", "x"))
    assert day.columns["address"] == ("Quay 1", "Street 1, left", "", "=cmd")
    assert day.columns["note"] == ("", "ring", "", "-1")


def test_workbooks_are_tables_too(tmp_path: Path) -> None:
    """The same tables as .xlsx give the same city, fleet and day."""
    day = a_day(tmp_path)
    places = as_xlsx(tmp_path, "l.xlsx", LOCATIONS)
    city = files.read_locations(places, "depot")
    fleet = read_fleet(as_xlsx(tmp_path, "v.xlsx", VEHICLES))
    orders = as_xlsx(tmp_path, "day.xlsx", ORDERS)
    again = files.read_orders(orders, city, asked=Asked(fleet, speed=30.0))
    assert again.same_as(day)


@pytest.mark.parametrize("damage", [slice(0, 200), slice(0, -300)])
def test_damaged_workbooks_get_a_sentence(tmp_path: Path, damage: slice) -> None:
    """A cut or shifted .xlsx is refused by name; so is text with that suffix."""
    whole = as_xlsx(tmp_path, "v.xlsx", VEHICLES).read_bytes()
    for data in (whole[damage], VEHICLES.encode()):
        (tmp_path / "v.xlsx").write_bytes(data)
        with pytest.raises(InputError, match="E105"):
            read_fleet(tmp_path / "v.xlsx")


@pytest.mark.parametrize(
    "text",
    [
        "customer;quantity\na;3\nb;4,5\n",
        "NAME\tQty\na\t3\nb\t4,5\n",
        "Name,weight\na,3\nb,4.5\n",
        "id,name,demand,qty\na,x,3,9\nb,y,4.5,9\n",
    ],
)
def test_other_names_and_decimal_commas(tmp_path: Path, text: str) -> None:
    """Common headers and the commas of half of Europe need no editing (B13)."""
    day = files.read_orders(put(tmp_path, "o.csv", text), week(tmp_path), capacity=9)
    assert day.ids == ("depot", "a", "b")
    assert day.demands.tolist() == [0, 3, 4.5]


def test_two_names_for_one_thing_are_asked_about(tmp_path: Path) -> None:
    """Quantity and weight may both be the demand: neither is taken by chance."""
    path = put(tmp_path, "o.csv", "id,quantity,weight\na,1,2\n")
    with pytest.raises(InputError, match="which of them is the demand"):
        files.read_orders(path, week(tmp_path), capacity=9)


def test_latitude_longitude(tmp_path: Path) -> None:
    """Long names and lng are degrees as lat and lon are (B13)."""
    text = "id;Latitude;lng\ndepot;51,05;3,72\na;51,06;3,73\n"
    city = files.read_locations(put(tmp_path, "l.csv", text), "depot")
    assert city.metric == "greatcircle"
    assert city.coords.tolist() == [[3.72, 51.05], [3.73, 51.06]]


def test_orders_without_a_row_are_warned_of(tmp_path: Path) -> None:
    """A header alone is a day without work, which is rarely meant (B13)."""
    with pytest.warns(InputWarning, match="W136"):
        files.read_orders(put(tmp_path, "o.csv", "id,demand\n"), week(tmp_path), 9)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("E311", "name\nx\n"),
        ("E431", "name,capacity\n"),
        ("E313", "name,capacity\nx,much\n"),
        ("E313", "name,capacity,max_duration\nx,5,-2\n"),
        ("E313", "name,capacity,max_duration\nx,5,8h\n"),
        ("E313", "name,capacity,optional\nx,5,maybe\n"),
        ("E313", "name,capacity,count\nx,5,two\n"),
        ("E431", "name,capacity,count\nx,5,1.5\n"),
        ("E431", "name,capacity,max_stops\nx,5,0\n"),
        ("E431", "name,capacity\nx,5\nx,6\n"),
        ("E431", "name,capacity\nx,0\n"),
        ("E137", "name,capacity\nx,90071992547409930\n"),
    ],
)
def test_wrong_tables_of_vehicles(code: str, text: str) -> None:
    """Each wrong cell is named, with its line."""
    with pytest.raises(InputError) as caught:
        parse_fleet(text)
    assert code in {problem.code for problem in caught.value.problems}


def test_days_with_constraints_read_back_from_json(tmp_path: Path) -> None:
    """Everything a day asks for survives our JSON, and the orders survive CSV."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        day = some_day(rng)
        files.write_instance(tmp_path / "d.json", day)
        assert files.read_instance(tmp_path / "d.json").same_as(day)
    day = a_day(tmp_path)
    files.write_instance(tmp_path / "day.json", day)
    assert files.read_instance(tmp_path / "day.json").same_as(day)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        files.write_instance(tmp_path / "day.csv", day)
    assert day.constraints is not None
    asked = Asked(day.constraints.fleet, speed=30.0)
    again = files.read_orders(tmp_path / "day.csv", week(tmp_path), asked=asked)
    assert again.constraints is not None
    assert again.constraints.same_as(day.constraints)
    assert set(again.columns) == set(day.columns)


# --- street matrices ---------------------------------------------------------------


def test_matrices_by_id_by_order_and_from_osrm(tmp_path: Path) -> None:
    """CSV, NPZ and OSRM's JSON say the same, whatever the order of their rows."""
    city = week(tmp_path)
    day = files.read_orders(put(tmp_path, "o.csv", "id,demand\nc,1\na,2\n"), city, 9)
    rng = np.random.default_rng(0)
    km = rng.integers(1, 99, (4, 4)) / 8.0
    np.fill_diagonal(km, 0)
    wanted = km[np.ix_([0, 3, 1], [0, 3, 1])]
    names = list(city.ids)
    bare = "\n".join(",".join(map(str, row)) for row in km.tolist())
    turned = [2, 0, 3, 1]
    head = "," + ",".join(names[k] for k in turned)
    rows = [",".join([names[k], *map(str, km[k, turned].tolist())]) for k in turned]
    np.savez(tmp_path / "m.npz", distances=km, durations=2 * km, ids=names)
    osrm = {
        "code": "Ok",
        "distances": (1000 * km).tolist(),
        "durations": (60 * km).tolist(),
    }
    put(tmp_path, "osrm.json", json.dumps(osrm))
    put(tmp_path, "ids.txt", "\n".join(names))
    sources = [
        read_matrices(put(tmp_path, "bare.csv", bare)),
        read_matrices(put(tmp_path, "named.csv", "\n".join([head, *rows]))),
        read_matrices(tmp_path / "m.npz"),
        read_matrices(tmp_path / "osrm.json", tmp_path / "ids.txt"),
    ]
    for found in sources:
        distances, durations = found.of_day(day, city)
        assert distances is not None
        assert distances == pytest.approx(wanted)
        if durations is not None:
            factor = 2 if found is sources[2] else 1
            assert durations == pytest.approx(factor * wanted)
    street = Asked(matrix=sources[3]).of(day, city=city)
    assert street.degrees
    assert not street.symmetric
    there, back = (judge(street, Solution([r])).cost for r in ([1, 2], [2, 1]))
    assert there != back


@pytest.mark.parametrize(
    ("name", "data", "code"),
    [
        ("m.csv", b"0,1\n1\n", "E113"),
        ("m.csv", b"0,x\n1,0\n", "E313"),
        ("m.csv", b",a,b\na,0,1\nc,1,0\n", "E113"),
        ("m.csv", b"", "E101"),
        ("m.csv", b";\n\n", "E113"),
        ("m.csv", b'0,"' + b"1" * 200_000, "E311"),
        ("m.npz", b"PK\x03\x04 no archive", "E321"),
        ("m.json", b"[1]", "E322"),
        ("m.json", b'{"code": "NoTable"}', "E322"),
        ("m.json", b'{"code": "Ok"}', "E322"),
        ("m.json", b'{"code": "Ok", "distances": [[0, null], [1, 0]]}', "E131"),
        ("m.json", b'{"code": "Ok", "distances": [[0, "1"], [1, 0]]}', "E306"),
        ("m.json", b'{"code": "Ok", "distances": [[0, 1]]}', "E113"),
        ("m.json", b'{"code": "Ok", "distances": [[1' + b"0" * 400 + b"]]}", "E306"),
        ("m.txt", b"0", "E106"),
    ],
)
def test_wrong_matrices(tmp_path: Path, name: str, data: bytes, code: str) -> None:
    """Wrong sizes, words, damaged files and pairs without a way get a sentence."""
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError) as caught:
        read_matrices(tmp_path / name)
    assert {problem.code for problem in caught.value.problems} == {code}


def test_a_matrix_of_another_size_is_refused(tmp_path: Path) -> None:
    """Neither the day's size nor the city's: nobody guesses."""
    city = week(tmp_path)
    day = files.read_orders(put(tmp_path, "o.csv", "id,demand\nc,1\n"), city, 9)
    found = read_matrices(put(tmp_path, "m.csv", "0,1,2\n1,0,3\n2,3,0\n"))
    with pytest.raises(InputError, match="E113"):
        found.of_day(day, city)


# --- our own tables read back ---------------------------------------------------------

PLAN = Solution([[1, 2], [3]], [0, 2])


@pytest.mark.parametrize("suffix", [".csv", ".xlsx", ".json"])
def test_plans_read_back(tmp_path: Path, suffix: str) -> None:
    """Routes, order and vehicles survive every table of ours."""
    day = a_day(tmp_path)
    files.write_solution(tmp_path / f"p{suffix}", day, PLAN)
    again, _ = files.read_solution(tmp_path / f"p{suffix}", day)
    assert again == PLAN


def test_edits_of_a_dispatcher_are_read(tmp_path: Path) -> None:
    """A stop moved to another vehicle, between two stops, is where it was put."""
    day = a_day(tmp_path)
    files.write_solution(tmp_path / "p.csv", day, PLAN)
    text = (tmp_path / "p.csv").read_text()
    assert "2,van 2,1,c," in text
    put(tmp_path, "p.csv", text.replace("2,van 2,1,c,", "2,Anna,1.5,c,"))
    again, _ = files.read_solution(tmp_path / "p.csv", day)
    assert again.canonical() == Solution([[1, 3, 2]], [0])
    put(tmp_path, "p.csv", text.replace("2,van 2,1,c,", "2,Berta,1.5,c,"))
    with pytest.raises(InputError, match="E829"):
        files.read_solution(tmp_path / "p.csv", day)
    put(tmp_path, "p.csv", text.replace(",c,", ",q,"))
    with pytest.raises(InputError, match="E813"):
        files.read_solution(tmp_path / "p.csv", day)


def test_check_and_export_read_the_tables(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """From tables to a verdict and to every format, on the command line."""
    day = a_day(tmp_path)
    files.write_solution(tmp_path / "p.xlsx", day, PLAN)
    words = [str(tmp_path / "day.csv"), str(tmp_path / "p.xlsx")]
    words += ["--city", str(tmp_path / "city"), "--speed", "30"]
    words += ["--vehicles", str(tmp_path / "vehicles.csv")]
    assert main(["check", *words]) == 0
    outs = ["m.html", "s.sheets.html", "p.csv", "p.json", "p.geojson", "p.gpx", "p.png"]
    targets = [word for out in outs for word in ("--out", str(tmp_path / out))]
    assert main(["export", *words, *targets]) == 0
    assert all((tmp_path / out).stat().st_size for out in outs)
    picture = ["--out", str(tmp_path / "q.png")]
    assert main(["plot", *words, *picture]) == 0  # what people type for a picture
    assert (tmp_path / "q.png").read_bytes() == (tmp_path / "p.png").read_bytes()
    assert "no times are known" not in capfd.readouterr().err
    untimed = [word for word in words if word not in ("--speed", "30")]
    sheets = ["--out", str(tmp_path / "t.sheets.html"), "--start", "7:30"]
    if "max_duration" not in (tmp_path / "vehicles.csv").read_text():
        assert main(["export", *untimed, *sheets]) == 0
        assert "no times are known; give --speed" in capfd.readouterr().err
    assert main(["check", *words, "--vehicles", str(tmp_path / "p.png")]) == 2
    assert "E404 --vehicles" in capfd.readouterr().err
    assert main(["check", *words, "--capacity", "3"]) == 2
    assert "E404 --capacity" in capfd.readouterr().err
