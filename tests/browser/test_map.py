"""The map of a plan in a real browser: it opens, pans, searches and hides routes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from acts import LONGEST, longest_task
from playwright.sync_api import Browser, Page

from basemaps import write_basemap
from clusterfirst.files import write_solution
from clusterfirst.files.by_suffix import Extras
from clusterfirst.problem.changes import changes_between
from clusterfirst.problem.constraints import Constraints
from clusterfirst.problem.fleet import Fleet
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution

STOPS = 2000


def a_plan() -> tuple[Instance, Solution, Solution]:
    """A large day by angle, with names that would break a careless page."""
    rng = np.random.default_rng(0)
    points = np.array([3.72, 51.05]) + rng.normal(0, [0.06, 0.035], (STOPS + 1, 2))
    away = points[1:] - points[0]
    order = np.argsort(np.arctan2(away[:, 1], away[:, 0])) + 1
    routes = [order[k : k + 40].tolist() for k in range(0, STOPS - 5, 40)]
    routes[-1] = routes[-1][:35]
    count = len(routes)
    fleet = Fleet(("van <b>",), np.array([400.0]), np.array([count]))
    asked = Constraints(fleet, speed=25.0, allow_unserved=True)
    day = Instance(
        np.r_[0, rng.integers(1, 10, STOPS)],
        1,
        coords=points,
        metric="greatcircle",
        name="</script><script>alert(1)</script>",
        constraints=asked,
        columns={"address": tuple(f'Quay {k} </script> "&' for k in range(STOPS + 1))},
    )
    before = Solution([*routes[1:], routes[0][:-3]], range(count))
    return day, Solution(routes, range(count)), before


@pytest.fixture
def map_page(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    """The map, opened from a file; whatever it says or loads is a failure."""
    day, plan, before = a_plan()
    path = tmp_path / "map.html"
    names = [str(k + 1) for k in range(len(before.routes))]
    extras = Extras(changes_between(before.routes, plan.routes, names))
    write_solution(path, day, plan, extras=extras)
    assert path.stat().st_size < 2_000_000
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda r: said.append(r.url) if "map.html" not in r.url else 0)
    page.goto(path.as_uri())
    yield page
    context.close()
    assert said == []


def test_the_map_shows_everything(map_page: Page) -> None:
    """All stops, routes, unserved orders; search, popup, routes on and off."""
    map_page.wait_for_selector("body[data-ready='2000']")
    assert map_page.locator(".route").count() == 50
    assert map_page.locator(".over").inner_text().startswith("5 orders are not served")
    assert "are new" in map_page.locator("aside p").inner_text()
    map_page.fill("#search", "1234")
    map_page.locator("#found li").first.click()
    popup = map_page.locator(".leaflet-popup-content")
    popup.wait_for()
    assert 'Quay 1234 </script> "&' in popup.inner_text()
    map_page.locator(".route input").first.uncheck()
    map_page.locator("#hide").click()
    assert map_page.locator(".route input:checked").count() == 0
    map_page.locator("#show").click()
    assert map_page.locator(".route input:checked").count() == 50


# What is drawn while the map is painted afresh: numbers, and arrows by their colour.
DRAWN = """() => {
  const numbers = new Set(), arrows = new Set();
  const { fillText, fill } = CanvasRenderingContext2D.prototype;
  Object.assign(CanvasRenderingContext2D.prototype, {
    fillText(text, ...rest) { numbers.add(text); fillText.call(this, text, ...rest); },
    fill(...a) { if (!a.length) arrows.add(this.fillStyle); fill.apply(this, a); }
  });
  window.drawn = () => [[...numbers], [...arrows]];
}"""


def test_numbers_arrows_and_changed_stops_are_drawn(
    browser: Browser, map_page: Page
) -> None:
    """Near enough, stops have their numbers and legs arrows; who moved has a rim."""
    map_page.wait_for_selector("body[data-ready='2000']")
    map_page.evaluate(DRAWN)
    facts = map_page.locator(".route .facts").first
    facts.click()  # the map goes to this route
    for _ in range(3):
        map_page.mouse.move(700, 400)
        map_page.mouse.wheel(0, -400)
        map_page.wait_for_timeout(600)
    numbers, arrows = map_page.evaluate("drawn()")
    assert {str(number) for number in range(1, 6)} & set(numbers)
    assert all(text.isdecimal() and 1 <= int(text) <= 40 for text in numbers if text)
    assert arrows
    plan = map_page.evaluate("JSON.parse(document.getElementById('plan').textContent)")
    stops = [stop for route in plan["routes"] for stop in route["stops"]]
    assert {stop["number"] for stop in plan["routes"][0]["stops"]} == set(range(1, 41))
    assert 0 < sum(stop["moved"] for stop in stops) < len(stops)


def test_the_map_pans_fluently(browser: Browser, map_page: Page) -> None:
    """While the mouse drags the map, nothing keeps its thread busy for long."""
    map_page.wait_for_selector("body[data-ready='2000']")

    def pan() -> None:
        map_page.mouse.move(800, 400)
        map_page.mouse.down()
        for step in range(30):
            map_page.mouse.move(800 - 8 * step, 400 + 4 * step)
        map_page.mouse.up()

    assert longest_task(browser, map_page, pan) < LONGEST


def test_streets_lie_behind_the_routes(browser: Browser, tmp_path: Path) -> None:
    """A street map inside the page is drawn without a request."""
    day, plan, _ = a_plan()
    path = tmp_path / "map.html"
    streets = write_basemap(tmp_path / "town.pmtiles")
    write_solution(path, day, plan, extras=Extras(basemap=streets))
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda r: said.append(r.url) if "map.html" not in r.url else 0)
    page.goto(path.as_uri())
    page.wait_for_function(
        "() => document.querySelectorAll('.leaflet-tile-pane canvas').length > 0"
    )
    assert "OpenStreetMap" in page.inner_text(".leaflet-control-attribution")
    context.close()
    assert said == []
