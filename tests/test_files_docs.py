"""docs/formats.md and docs/errors.md say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from clusterfirst import files
from clusterfirst.files.vehicles import read_fleet
from clusterfirst.problem.solution import Solution, judge

ROOT = Path(__file__).parent.parent
EXAMPLES = dict(
    re.findall(
        r"<!-- file: (\S+) -->\n```\w*\n(.*?)```",
        (ROOT / "docs" / "formats.md").read_text(),
        re.DOTALL,
    )
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The examples of the page as files."""
    for name, text in EXAMPLES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_example_instances_are_read(folder: Path) -> None:
    """The .vrp, .json and .txt examples are instances of two customers."""
    tiny = files.read_instance(folder / "tiny.vrp")
    day = files.read_instance(folder / "day.json")
    (entry,) = files.read_instances(folder / "set.txt")
    assert [i.num_customers for i in (tiny, day, entry.instance)] == [2, 2, 2]
    assert entry.solution == Solution([[2, 1]])
    solution, stated = files.read_solution(folder / "tiny.sol", tiny)
    verdict = judge(tiny, solution)
    assert verdict.feasible
    assert stated == pytest.approx(verdict.cost, abs=0.005)


def test_example_city_and_orders_are_read(folder: Path) -> None:
    """The tables give the same day as the JSON example."""
    city = files.read_locations(folder / "locations.csv", "hub")
    orders = files.read_orders(folder / "orders.csv", city, capacity=12.5)
    assert orders.ids == ("hub", "school", "bakery")
    assert orders.demands.tolist() == [0, 4, 2.5]


def test_example_vehicles_are_read(folder: Path) -> None:
    """The table of vehicles means what the page says."""
    fleet = read_fleet(folder / "vehicles.csv")
    assert fleet.vehicle_names == ("Anna", "van 1", "van 2", "van 3")
    assert fleet.max_duration.tolist() == [450, 480]
    assert fleet.optional.tolist() == [False, True]


def test_every_code_is_explained() -> None:
    """Each code in the source has its row in docs/errors.md, and no other has."""
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    used = set(re.findall(r"[\"'`]([EW]\d{3})\b", source))
    explained = set(
        re.findall(r"\b[EW]\d{3}\b", (ROOT / "docs" / "errors.md").read_text())
    )
    assert used - explained == set()
    assert explained - used == set()
