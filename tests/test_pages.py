"""Maps and driver sheets are whole files that load nothing and quote everything."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from clusterfirst.files import write_solution
from clusterfirst.files.by_suffix import Extras
from clusterfirst.problem.changes import changes_between, matching, pairs_kept
from clusterfirst.problem.constraints import Constraints
from clusterfirst.problem.errors import InputError
from clusterfirst.problem.fleet import Fleet
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution

NASTY = "</script><b>@js@ & \"'"


def nasty_day(**changes: object) -> Instance:
    """Names that would break a page, a table or a formula."""
    fields: dict[str, object] = {
        "demands": [0, 1, 2, 3],
        "capacity": 9,
        "coords": [[3.7, 51.0], [3.71, 51.0], [3.7, 51.02], [3.72, 51.03]],
        "metric": "greatcircle",
        "ids": ("depot", NASTY, "=1+1", "c"),
        "name": NASTY,
        "columns": {"note": ("", NASTY, "", "x"), "=cmd": ("", "", "", "@y")},
        "constraints": Constraints(
            Fleet((NASTY.replace("|", ""),), np.array([9.0]), np.array([2])),
            speed=30.0,
            allow_unserved=True,
        ),
    }
    return Instance(**(fields | changes))  # type: ignore[arg-type]


class Tags(HTMLParser):
    """Collects the tags and texts of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag and what it would load."""
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        """Note a text."""
        self.text += data


@pytest.mark.parametrize("name", ["a.html", "a.sheets.html"])
def test_pages_load_nothing_and_run_nothing_of_the_users(
    tmp_path: Path, name: str
) -> None:
    """No link, no script but ours, and every name as it is written."""
    write_solution(tmp_path / name, nasty_day(), Solution([[1, 2]], [1]))
    page = (tmp_path / name).read_text()
    tags = Tags()
    tags.feed(page)
    assert tags.links == []
    assert tags.tags.count("script") == (3 if name == "a.html" else 0)
    assert tags.tags.count("b") == 0
    assert "default-src 'none'" in page
    if name != "a.html":
        assert tags.tags.count("section") == 2  # a route, and who is not served
        assert NASTY in tags.text
    assert not re.search(r"@(js|css|plan|title)@(?! &)", page)


def test_sheets_show_times_of_day(tmp_path: Path) -> None:
    """A start makes arrivals: 30 km/h, so two minutes per km."""
    path = tmp_path / "a.sheets.html"
    write_solution(
        path, nasty_day(), Solution([[1, 2]], [1]), extras=Extras(start=8 * 60 - 1)
    )
    tags = Tags()
    tags.feed(path.read_text())
    assert "arrival" in tags.text
    assert "07:59" in tags.text
    assert "08:00" in tags.text


def test_sheets_show_the_load_so_far(tmp_path: Path) -> None:
    """Each stop adds its demand; the last one stands at the load of the route."""
    day, plan = nasty_day(), Solution([[1, 2]], [1])
    write_solution(tmp_path / "a.sheets.html", day, plan)
    page = (tmp_path / "a.sheets.html").read_text()
    at = re.findall(r"<th[^>]*>([^<]*)</th>", page).index("so far")
    cells = [
        re.findall(r"<td[^>]*>(.*?)</td>", row)
        for row in re.findall(r"<tr>(<td.*?)</tr>", page)[:2]
    ]
    loads = np.cumsum([float(day.demands[c]) for c in (1, 2)])
    assert [float(row[at]) for row in cells] == pytest.approx(loads.tolist())


def test_gpx_is_xml(tmp_path: Path) -> None:
    """Every stop is a point of a route that XML readers understand."""
    write_solution(tmp_path / "a.gpx", nasty_day(), Solution([[1, 2], [3]], [0, 1]))
    root = ElementTree.parse(tmp_path / "a.gpx").getroot()
    space = "{http://www.topografix.com/GPX/1/1}"
    assert len(root.findall(f"{space}rte")) == 2
    assert len(root.findall(f".//{space}rtept")) == 7
    plane = nasty_day(metric="euclidean")
    with pytest.raises(InputError, match="E153"):
        write_solution(tmp_path / "b.gpx", plane, Solution([[1, 2, 3]], [0]))


def test_plane_maps_fit_a_square(tmp_path: Path) -> None:
    """Coordinates of any size are drawn; a day with a matrix alone has no map."""
    for scale in (1e-9, 1.0, 1e8):
        day = nasty_day(
            metric="euclidean",
            coords=scale * np.array([[0, 0], [1, 0], [0, 2], [3, 1]]),
        )
        write_solution(tmp_path / "a.html", day, Solution([[1, 2, 3]], [0]))
        assert '"at":[333.333333,1000.0]' in (tmp_path / "a.html").read_text()
    bare = nasty_day(coords=None, matrix=np.ones((4, 4)) - np.eye(4), metric="matrix")
    with pytest.raises(InputError, match="E141"):
        write_solution(tmp_path / "b.html", bare, Solution([[1, 2, 3]], [0]))
    write_solution(tmp_path / "b.sheets.html", bare, Solution([[1, 2, 3]], [0]))


def test_changes_between_plans() -> None:
    """Routes are matched by common customers; who moved, who is new, pairs kept."""
    before, after = [[1, 2, 3], [4, 5]], [[4, 5, 3], [1, 2, 6]]
    assert matching(before, after).tolist() == [1, 0]
    found = changes_between(before, after, ["x", "y"])
    assert found.moved == {3: "x", 6: ""}
    assert (found.new, found.both) == (1, 5)
    assert pairs_kept(before, after) == pytest.approx(2 / 4)
    assert pairs_kept(before, [r[::-1] for r in before]) == 1.0
