"""Each format is read as its users write it."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clusterfirst import files
from clusterfirst.files.vrplib import TRIANGLES
from clusterfirst.problem.city import City
from clusterfirst.problem.errors import InputError, InputWarning
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.sampling import sample_public
from clusterfirst.problem.solution import Solution, judge
from strategies import lehd_line, small_day

VRP = """NAME : tiny
TYPE : CVRP
DIMENSION : 4
EDGE_WEIGHT_TYPE : EUC_2D
CAPACITY : 10
NODE_COORD_SECTION
1 0 3.5
2 4 0
3 0 0
4 1 1
DEMAND_SECTION
1 5
2 6
3 0
4 7
DEPOT_SECTION
3
-1
EOF
"""


def read(tmp_path: Path, text: str, name: str = "a.vrp", **how: Any) -> Instance:
    path = tmp_path / name
    path.write_text(text)
    return files.read_instance(path, **how)


def test_depot_need_not_come_first(tmp_path: Path) -> None:
    """Customer k is the k-th node that is not the depot, in file order."""
    instance = read(tmp_path, VRP)
    assert instance.coords is not None
    assert instance.coords.tolist() == [[0, 0], [0, 3.5], [4, 0], [1, 1]]
    assert instance.demands.tolist() == [0, 5, 6, 7]
    (tmp_path / "a.sol").write_text("Route #1: 2\nRoute #2: 1\nRoute #3: 3\nCost: 1\n")
    solution, cost = files.read_solution(tmp_path / "a.sol", instance)
    assert cost == 1
    assert judge(instance, solution).loads == (6, 5, 7)


def test_sections_and_keys_come_in_any_order(tmp_path: Path) -> None:
    """Order, case, CRLF, a byte-order mark, tabs and a missing EOF do not matter."""
    head, rest = VRP.removesuffix("EOF\n").split("NODE_COORD_SECTION\n")
    coords, rest = rest.split("DEMAND_SECTION\n")
    text = f"DEMAND_SECTION\n{rest}{head}NODE_COORD_SECTION\n{coords}"
    text = text.replace("\n", "\t\r\n").replace("NAME : ", "name:")
    (tmp_path / "a.vrp").write_bytes(b"\xef\xbb\xbf" + text.encode())
    again = files.read_instance(tmp_path / "a.vrp")
    assert again.same_as(read(tmp_path, VRP, "b.vrp"))


@pytest.mark.parametrize("layout", ["FULL_MATRIX", *TRIANGLES])
def test_explicit_matrix_layouts(tmp_path: Path, layout: str) -> None:
    """Every layout of one symmetric matrix reads as that matrix."""
    size = 5
    matrix = np.random.default_rng(0).integers(1, 99, (size, size)).astype(float)
    matrix = np.triu(matrix, 1) + np.triu(matrix, 1).T
    rows = []
    for i in range(size):
        start, stop = {
            "FULL_MATRIX": (0, size),
            "LOWER_ROW": (0, i),
            "LOWER_DIAG_ROW": (0, i + 1),
            "UPPER_ROW": (i + 1, size),
            "UPPER_DIAG_ROW": (i, size),
            "UPPER_COL": (0, i),
            "UPPER_DIAG_COL": (0, i + 1),
            "LOWER_COL": (i + 1, size),
            "LOWER_DIAG_COL": (i, size),
        }[layout]
        rows += matrix[i, start:stop].tolist()
    wrapped = "\n".join(" ".join(map(str, rows[i : i + 3])) for i in range(0, 99, 3))
    demands = "\n".join(f"{i + 1} {min(i, 1)}" for i in range(size))
    text = (
        f"NAME : m\nTYPE : CVRP\nDIMENSION : {size}\nCAPACITY : 3\n"
        f"EDGE_WEIGHT_TYPE : EXPLICIT\nEDGE_WEIGHT_FORMAT : {layout}\n"
        f"EDGE_WEIGHT_SECTION\n{wrapped}\nDEMAND_SECTION\n{demands}\n"
        "DEPOT_SECTION\n1\n-1\nEOF\n"
    )
    instance = read(tmp_path, text)
    assert instance.metric == "matrix"
    assert np.array_equal(instance.distances, matrix)


def test_name_of_k_is_no_fleet_limit(tmp_path: Path) -> None:
    """-k14 in a name means nothing; VEHICLES and the argument do."""
    assert read(tmp_path, VRP.replace("tiny", "X-n4-k14")).vehicles is None
    assert read(tmp_path, "VEHICLES : 3\n" + VRP).vehicles == 3
    assert read(tmp_path, "VEHICLES : 3\n" + VRP, vehicles=2).vehicles == 2


def test_whole_coordinates_without_rounding_warn(tmp_path: Path) -> None:
    """A CVRPLIB-like file read unrounded gets a line; a stated rounding gets none."""
    whole = VRP.replace("3.5", "3")
    with pytest.warns(InputWarning, match="W152"):
        assert read(tmp_path, whole).rounding == "none"
    assert read(tmp_path, whole, rounding="none").rounding == "none"
    assert read(tmp_path, whole, rounding="round").rounding == "round"


@pytest.mark.parametrize(
    ("corner", "spread", "degrees"),
    [((-48, -1.4), 0.2, True), ((0.8, 0.9), 0.1, False), ((500, 40), 3, False)],
)
def test_degrees_in_the_plane_warn(
    tmp_path: Path, corner: tuple[float, float], spread: float, degrees: bool
) -> None:
    """A town in degrees is noticed; a corner of the unit square is not one."""
    points = np.array(corner) + spread * np.random.default_rng(0).random((9, 2))
    files.write_instance(
        tmp_path / "a.json",
        Instance(demands=[0, *[1] * 8], capacity=9, coords=points),
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", InputWarning)
        files.read_instance(tmp_path / "a.json")
    assert ["W314" in str(w.message) for w in caught] == [True] * degrees


def test_missing_name_is_the_file_name(tmp_path: Path) -> None:
    """A file without a name is called after itself."""
    assert read(tmp_path, VRP.replace("NAME : tiny\n", ""), "stem.vrp").name == "stem"


@pytest.mark.parametrize(
    "cost", ["Cost 12.5", "Cost: 12.5", "COST : 12.5", "cost:12.5"]
)
def test_costs_of_sol_files(tmp_path: Path, cost: str) -> None:
    """Both ways of stating the cost are read; none is fine too."""
    path = tmp_path / "a.sol"
    path.write_text(f"Route #1: 1 2\n\nRoute #2: 3 4\n{cost}\n")
    solution, stated = files.read_solution(path, small_day())
    assert solution == Solution([[1, 2], [3, 4]])
    assert stated == 12.5
    path.write_text("Route #1: 1 2 3 4\n")
    assert files.read_solution(path, small_day())[1] is None


def test_json_is_read_as_people_write_it(tmp_path: Path) -> None:
    """Only capacity, depot and customers are needed; lat and lon mean km."""
    text = json.dumps(
        {
            "capacity": 5,
            "depot": {"lat": -1.3, "lon": -47.9},
            "customers": [{"id": "shop", "lat": -1.4, "lon": -48.0, "demand": 1.5}],
        }
    )
    instance = read(tmp_path, text, "day.json")
    assert instance.metric == "greatcircle"
    assert instance.ids == ("0", "shop")
    assert instance.name == "day"
    assert instance.distances[0, 1] == pytest.approx(15.7, abs=0.1)


def test_tables_are_read_as_people_write_them(tmp_path: Path) -> None:
    """Columns go by name; further ones, ';', quotes, CRLF and a mark are fine."""
    table = (
        'Note;LON;Lat;ID\r\n"a; b";-48.0;-1.4;7\r\n;-47.9;-1.3;"the ""hub"""\r\n\r\n'
    )
    (tmp_path / "l.csv").write_bytes(b"\xef\xbb\xbf" + table.encode())
    city = files.read_locations(tmp_path / "l.csv", 'the "hub"')
    assert city.ids == ('the "hub"', "7")
    assert city.coords.tolist() == [[-47.9, -1.3], [-48.0, -1.4]]
    assert city.metric == "greatcircle"
    (tmp_path / "o.csv").write_text("demand\tid\n2.5\t7\n")
    day = files.read_orders(tmp_path / "o.csv", city, capacity=4, vehicles=2)
    assert (day.demands.tolist(), day.vehicles) == ([0, 2.5], 2)
    assert day.city_hash == city.hash
    again = files.read_instance(tmp_path / "o.csv", city=city.replace(capacity=4))
    assert again.replace(vehicles=2).same_as(day)


def test_edited_city_is_refused(tmp_path: Path) -> None:
    """A table that no longer has the stored hash is another city."""
    files.write_city(tmp_path, City(np.array([[0.0, 0.0], [1.0, 2.0]])))
    table = tmp_path / "locations.csv"
    table.write_text(table.read_text().replace("1,1,2", "1,1,3"))
    with pytest.raises(InputError, match="E408"):
        files.read_city(tmp_path)


def test_lehd_lines(tmp_path: Path) -> None:
    """A LEHD line gives instance, cost and routes, with or without the depot's 0."""
    path = tmp_path / "set.txt"
    line = lehd_line()
    path.write_text(f"{line}\n{line.replace('demand,0,', 'demand,')},\n")
    first, second = files.read_instances(path)
    assert first.instance.demands.tolist() == [0, 3, 4]
    assert first.instance.capacity == 50
    assert (first.cost, first.solution) == (1.25, Solution([[2, 1]]))
    assert second.instance.replace(name="set-0").same_as(first.instance)
    assert len(files.read_instances(path, first=1)) == 1


def test_rl4co_set(tmp_path: Path) -> None:
    """RL4CO's arrays give the public set they were drawn from."""
    days = [sample_public("lehd200", i) for i in range(2)]
    np.savez(
        tmp_path / "a.npz",
        depot=np.array([day.coords[0] for day in days]),
        locs=np.array([day.coords[1:] for day in days]),
        demand=np.array([day.demands[1:] for day in days], dtype=np.float32),
        capacity=np.array([day.capacity for day in days], dtype=np.float32),
    )
    entries = files.read_instances(tmp_path / "a.npz")
    for entry, day in zip(entries, days, strict=True):
        assert entry.instance.replace(name=day.name).same_as(day)


def test_city_days_count_from_zero(tmp_path: Path) -> None:
    """idx k of a city set is the city's customer k + 1, and needs the city."""
    city = files.bundled_city()
    np.savez(
        tmp_path / "a.npz",
        idx=np.array([[0, 2999]], dtype=np.int16),
        demand=np.array([[3, 4]], dtype=np.uint8),
        route=np.array([[1, 0]], dtype=np.uint8),
        cost=np.array([1.5]),
    )
    (entry,) = files.read_instances(tmp_path / "a.npz", city=city)
    assert entry.instance.ids == ("depot", "1", "3000")
    assert entry.labels is not None
    assert entry.labels.tolist() == [1, 0]
    with pytest.raises(InputError, match="E143"):
        files.read_instances(tmp_path / "a.npz")


def test_reference_routes_of_our_sets(tmp_path: Path) -> None:
    """Flat routes "0 a b 0 c 0" come back as routes."""
    np.savez(
        tmp_path / "a.npz",
        coords=np.full((1, 4, 2), 0.5),
        demand=np.array([[0, 1, 1, 1]]),
        capacity=np.array(2),
        ref_cost=np.array([0.0]),
        ref_routes=np.array([0, 3, 1, 0, 2, 0]),
        ref_off=np.array([0, 6]),
    )
    (entry,) = files.read_instances(tmp_path / "a.npz")
    assert entry.solution == Solution([[3, 1], [2]])


def test_stops_and_geojson(tmp_path: Path) -> None:
    """The per-stop table adds up to loads and cost; GeoJSON has lon before lat."""
    day = small_day().replace(metric="greatcircle")
    solution = Solution([[1, 2], [3], [4]])
    files.write_solution(tmp_path / "a.csv", day, solution)
    rows = [row.split(",") for row in (tmp_path / "a.csv").read_text().splitlines()[1:]]
    verdict = judge(day, solution)
    ends = [row for row in rows if row[2] == "0" and row[1] != "0"]
    assert tuple(float(row[4]) for row in ends) == verdict.loads
    assert sum(float(row[5]) for row in ends) == pytest.approx(verdict.cost, abs=0.02)
    files.write_solution(tmp_path / "a.geojson", day, solution)
    features = json.loads((tmp_path / "a.geojson").read_text())["features"]
    assert len(features) == 1 + 3 + 4
    line = next(f for f in features if f["geometry"]["type"] == "LineString")
    assert line["geometry"]["coordinates"][1:3] == day.coords[1:3].tolist()
    with pytest.raises(InputError, match="E153"):
        files.write_solution(tmp_path / "b.geojson", small_day(), solution)
