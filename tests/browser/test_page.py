"""A dispatcher's walk through the page, in a real browser."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from acts import (
    AT,
    DROP,
    drag_to,
    picture,
    plan_of,
    small_plan,
    start_plan,
    table,
    until,
    wait_done,
    wait_for,
)
from playwright.sync_api import Browser, Page, Route, expect

from basemaps import write_basemap
from services import Service

# Whether tiles are drawn, and the colour of the ground in the middle of one.
TILES = "() => document.querySelectorAll('.leaflet-tile-loaded').length > 3"
GROUND = """() => { const tile = document.querySelector("canvas.leaflet-tile-loaded");
  return tile && [...tile.getContext("2d").getImageData(200, 40, 1, 1).data]; }"""


def test_problems_are_listed_with_their_lines(page: Page) -> None:
    """A wrong table: every problem with its line, and no way to plan."""
    text = "id,lat,lon,demand\ndepot,51,3.7,0\na,51.01,3.7,x\nb,51.02,3.7,-2\n"
    page.evaluate(DROP, ["wrong.csv", text])
    page.get_by_label("Capacity").fill("10")
    problems = page.get_by_role("list", name="Problems")
    expect(problems).to_contain_text("line 3 demand")
    expect(problems).to_contain_text("line 4 demand")
    expect(page.get_by_role("button", name="Plan", exact=True)).to_be_hidden()


def test_the_walk(page: Page, service: Service) -> None:
    """Drop, plan, watch, stop, drag, undo, quote, compare, export, restart."""
    start_plan(page, seconds="30")
    expect(page.locator(".vehicle").first).to_be_visible()
    until(page, "() => clusterfirst.state.plan.history?.length >= 3")
    picture(page, "service-planning")
    page.get_by_role("button", name="Stop", exact=True).click()
    plan = wait_done(page)
    assert plan["status"] == "stopped"
    costs = [point["cost"] for point in plan["history"]]
    assert costs == sorted(costs, reverse=True)
    drag_on_the_map(page)
    undo_and_redo(page)
    drag_in_the_list(page)
    look_at_a_stop(page)
    quote_an_order(page)
    compare_plans(page)
    export_files(page)
    after_a_restart(page, service)


def move_that_fits(page: Page, fits: bool = True) -> tuple[str, int]:
    """A stop and another route that has room for it, or has not."""
    plan = plan_of(page)
    room = [plan["capacity"] - load for load in plan["loads"]]
    demand = page.evaluate("Object.fromEntries(clusterfirst.state.demand)")
    return next(
        (stop, r)
        for r in range(len(room))
        for other, route in enumerate(plan["routes"])
        for stop in route
        if other != r and (demand[stop] <= room[r]) == fits and len(route) > 1
    )


def drag_on_the_map(page: Page) -> None:
    before = plan_of(page)
    stop, route = move_that_fits(page)
    other = before["routes"][route][0]
    drag_to(page, stop, other)
    there = page.evaluate(AT, other)
    chip = page.locator("#chip")
    expect(chip).to_contain_text(f"Vehicle {route + 1}")  # the price, before the drop
    expect(chip).not_to_contain_text("…")
    page.mouse.move(there[0] + 1, there[1])
    picture(page, "service-drag")
    page.mouse.up()
    until(page, "v => clusterfirst.state.plan.version > v", before["version"])
    after = plan_of(page)
    assert stop in after["routes"][route] or len(after["routes"]) < len(
        before["routes"]
    )
    assert after["parent"] == before["id"]


def undo_and_redo(page: Page) -> None:
    moved = plan_of(page)
    page.locator("#view").focus()
    page.keyboard.press("Control+z")
    until(page, "id => clusterfirst.state.plan.id === id", moved["parent"])
    page.keyboard.press("Control+Shift+z")
    until(page, "id => clusterfirst.state.plan.id === id", moved["id"])


def drag_in_the_list(page: Page) -> None:
    """A dispatcher's drag with the mouse; the price is there before the drop."""
    before = plan_of(page)
    stop, route = move_that_fits(page)
    own = next(r for r, stops in enumerate(before["routes"]) if stop in stops)
    page.get_by_role("tab", name="Vehicles").click()
    page.locator(f".vehicle[data-route='{own}'] > button").click()
    row = page.locator(f".stop-row[data-id='{stop}']")
    there = page.locator(f".vehicle[data-route='{route}'] > button")
    row.hover()
    page.mouse.down()
    there.hover()
    there.hover()
    expect(page.locator("#chip")).to_contain_text(f"Vehicle {route + 1}")
    page.mouse.up()
    until(page, "v => clusterfirst.state.plan.version > v", before["version"])


def test_no_stop_moves_before_its_price_is_shown(page: Page) -> None:
    """On a slow link a drop waits for the price; a full vehicle is not asked for."""
    start_plan(page, customers=60)
    before = wait_done(page)
    held: list[Route] = []
    page.route("**/explain/**", lambda one: held.append(one))
    stop, route = move_that_fits(page)
    drag_to(page, stop, before["routes"][route][0])
    expect(page.locator("#chip")).to_have_text("…")
    page.mouse.up()
    expect(page.locator("#toast")).to_contain_text("price")
    wait_for(page, held, 2)  # of the drag, and of the prices to choose among
    for one in held:
        one.continue_()
    expect(page.locator("#offers")).to_contain_text("A new vehicle")
    drag_to(page, stop, before["routes"][route][0])
    wait_for(page, held, 3)
    held[2].continue_()  # the mouse rests: the price comes to it
    expect(page.locator("#chip")).to_contain_text(f"Vehicle {route + 1}")
    page.keyboard.press("Escape")
    page.mouse.up()
    page.unroute("**/explain/**")
    stop, route = move_that_fits(page, fits=False)
    drag_to(page, stop, before["routes"][route][0])
    expect(page.locator("#chip")).to_contain_text("is full")
    page.mouse.up()
    expect(page.locator("#toast")).to_contain_text("no room")
    assert plan_of(page)["id"] == before["id"]


def look_at_a_stop(page: Page) -> None:
    page.get_by_role("tab", name="Stops").click()
    page.get_by_label("Search a stop").fill("S17")
    page.get_by_role("button", name="S17", exact=True).click()
    expect(page.locator("#view")).to_contain_text("Stop S17")
    expect(page.locator("#offers")).to_contain_text("A new vehicle")
    picture(page, "service-why")
    page.get_by_label("Price a new order at").fill("S20")  # a place by its name
    page.keyboard.press("Enter")
    expect(page.locator("#view")).to_contain_text("A new order at")


def quote_an_order(page: Page) -> None:
    before = plan_of(page)
    empty = page.evaluate(
        """() => { const { map } = clusterfirst;
        for (let x = 300; x < 800; x += 23) for (let y = 120; y < 600; y += 23) {
          const near = map.points.some((p) => map.map.layerPointToContainerPoint(p)
            .distanceTo(L.point(x, y)) < 30);
          if (!near) { const box = map.element.getBoundingClientRect();
            return [x + box.left, y + box.top]; } } }"""
    )
    page.mouse.click(*empty)
    until(page, "() => clusterfirst.state.quote?.offers")
    offer = page.evaluate("clusterfirst.state.quote.offers.find((o) => o.fits)")
    page.locator("#offers").get_by_text("Take").first.click()
    until(page, "v => clusterfirst.state.plan.version > v", before["version"])
    after = wait_done(page)
    assert after["customers"] == before["customers"] + 1
    assert after["cost"] == pytest.approx(before["cost"] + offer["price"])
    page.get_by_role("tab", name="Why").click()  # and without a mouse
    page.get_by_label("Price a new order at").fill("51.05, 3.72")
    page.keyboard.press("Enter")
    expect(page.locator("#offers")).to_contain_text("Take")


def compare_plans(page: Page) -> None:
    page.get_by_role("tab", name="Compare").click()
    page.get_by_label("Compare with").select_option(index=1)
    expect(page.locator("#view")).to_contain_text("stops changed vehicle")
    expect(page.locator("#view")).to_contain_text("New: new 121")


def export_files(page: Page) -> None:
    page.get_by_role("tab", name="Export").click()
    formats = page.locator("[data-format]").evaluate_all(
        "all => all.map(one => one.dataset.format)"
    )
    assert {"csv", "geojson", "html", "json", "sol", "png", "xlsx"} <= set(formats)
    for name in formats:
        with page.expect_download(timeout=30_000) as download:
            page.locator(f"[data-format='{name}']").click()
        assert download.value.suggested_filename == f"plan.{name}"
        assert download.value.path().stat().st_size > 50
    page.get_by_role("tab", name="curl").click()
    expect(page.locator("pre").first).to_contain_text("curl -X GET")


def after_a_restart(page: Page, service: Service) -> None:
    plan = plan_of(page)
    service.kill()
    again = Service(service.data, port=service.port).wait()
    service.process, service.client = again.process, again.client
    page.reload()
    until(page, "id => clusterfirst.state.plan?.id === id", plan["id"])
    assert plan_of(page)["routes"] == plan["routes"]


def test_the_demo_and_the_stages(page: Page) -> None:
    """The demo city in two clicks; what the network sees, step by step."""
    page.get_by_role("button", name="Open the demo city").click()
    expect(page.locator("#checked")).to_contain_text("200 orders")
    page.get_by_label("Seconds to plan").select_option("1")
    page.get_by_role("button", name="Plan", exact=True).click()
    expect(page.locator(".vehicle").first).to_be_visible()
    wait_done(page)
    page.get_by_role("button", name="look inside").click()
    for name in ("Clusters", "Transport plan", "Tours", "Seeds"):
        page.locator("#stages").get_by_text(name).click(timeout=60_000)
        expect(page.locator("#stages [aria-pressed=true]")).to_have_text(name)
    page.locator("#stages").get_by_text("Transport plan").click()
    picture(page, "service-stages")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_everything(
    browser: Browser, service: Service, scheme: Any
) -> None:
    """Nothing is cut off at the right, and the lists scroll by themselves."""
    small_plan(service)
    small = {"width": 390, "height": 844}
    context = browser.new_context(viewport=small, color_scheme=scheme, has_touch=True)
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{service.port}/")
    page.locator("td .link").first.click()
    expect(page.locator(".vehicle").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    cut = "document.querySelector('.vehicle').getBoundingClientRect().right > 390"
    assert not page.evaluate(cut)
    under = """() => { const { map } = clusterfirst, side = map.element;
      const box = document.getElementById("figures").getBoundingClientRect();
      const origin = side.getBoundingClientRect();
      return map.places.filter((place) => {
        const at = map.map.latLngToContainerPoint(place.at);
        return at.x + origin.left < box.right && at.y + origin.top > box.top;
      }).length; }"""
    assert page.evaluate(under) == 0  # the figures hide no stop
    if scheme == "dark":
        picture(page, "service-phone")
    context.close()


def test_a_file_falls_anywhere(page: Page) -> None:
    """Beside the field for it, too: the browser must not leave the page for it."""
    onto_the_map = DROP.replace('".drop"', '"#map-side"')
    page.evaluate(onto_the_map, ["today.csv", table(20)])
    page.get_by_label("Capacity").fill("40")
    expect(page.locator("#checked")).to_contain_text("20 orders")
    expect(page.locator("#welcome")).to_be_hidden()


def test_a_spreadsheet_is_dropped(page: Page, service: Service) -> None:
    """XLSX as Excel writes it, through the same field."""
    plan = small_plan(service)
    book = service.client.get(f"/v1/plans/{plan}/export.xlsx").content
    page.locator("#file").set_input_files(
        {"name": "orders.xlsx", "mimeType": "", "buffer": sheet_of(book)}
    )
    page.get_by_label("Capacity").fill("1000")
    expect(page.locator("#checked")).to_contain_text("2 orders")


def sheet_of(book: bytes) -> bytes:
    """Two orders in the first sheet of a workbook that we wrote."""
    openpyxl = pytest.importorskip("openpyxl")
    found = openpyxl.load_workbook(io.BytesIO(book))
    sheet = found.create_sheet("orders", 0)
    for row in (
        ("id", "lat", "lon", "demand"),
        ("depot", 51.05, 3.72, 0),
        ("a", 51.06, 3.73, 2),
        ("b", 51.01, 3.73, 3),
    ):
        sheet.append(row)
    out = io.BytesIO()
    found.save(out)
    return out.getvalue()


def test_nothing_else_comes_while_one_is_planned(page: Page, service: Service) -> None:
    """Files, fields, the demo and other plans wait; pressed twice it is one plan."""
    small_plan(service)
    page.reload()
    page.evaluate(DROP, ["first.csv", table(20)])
    page.get_by_label("Capacity").fill("40")
    expect(page.locator("#checked")).to_contain_text("20 orders")
    page.get_by_label("Seconds to plan").select_option("30")
    posted: list[str] = []
    page.on("request", lambda r: posted.append(r.url) if r.method == "POST" else posted)
    page.evaluate(
        """() => { const plan = document.getElementById("plan");
        plan.click(); plan.click(); }"""
    )
    expect(page.locator(".vehicle").first).to_be_visible()
    page.evaluate(DROP.replace(".drop", "#map-side"), ["other.csv", table(7)])
    expect(page.locator("#toast")).to_contain_text("Stop the planning first")
    page.get_by_role("tab", name="Orders").click()
    page.evaluate(DROP, ["other.csv", table(7)])
    for name in ("#demo", "#file", "[name=capacity]", "td .link"):
        assert page.locator(name).first.is_disabled(), name
    page.get_by_role("button", name="Stop", exact=True).click()
    plan = wait_done(page)
    assert plan["customers"] == 20
    assert len(page.evaluate("clusterfirst.map.places")) == 21
    assert [url.rsplit("/", 1)[1] for url in posted] == ["plans"]


def test_a_file_is_read_once_and_the_last_answer_counts(page: Page) -> None:
    """Dropped on the field for it: one request; a late answer of an older one: none."""
    held: list[Route] = []
    page.route("**/validate*", lambda one: held.append(one))
    page.evaluate(DROP, ["first.csv", table(20)])
    wait_for(page, held, 1)
    page.evaluate(DROP, ["second.csv", table(30)])
    wait_for(page, held, 2)
    held[1].continue_()
    expect(page.locator("#checked")).to_contain_text("capacity")
    held[0].continue_()
    page.unroute("**/validate*")
    page.get_by_label("Capacity").fill("40")
    expect(page.locator("#checked")).to_contain_text("30 orders")
    assert len(held) == 2


def test_colours_and_focus_stay(page: Page) -> None:
    """Stops keep their colour when routes get other numbers; lists keep the focus."""
    start_plan(page)
    expect(page.locator(".vehicle").first).to_be_visible()
    plan = wait_done(page)
    dot = "document.querySelector('.vehicle').style.getPropertyValue('--route')"
    before = page.evaluate(dot)
    turned = {**plan, "routes": plan["routes"][1:] + plan["routes"][:1]}
    page.evaluate("plan => clusterfirst.map.setRoutes(plan.routes)", turned)
    page.get_by_role("tab", name="Stops").click()
    page.get_by_role("tab", name="Vehicles").click()
    assert page.evaluate(dot) != before
    page.evaluate("plan => clusterfirst.map.setRoutes(plan.routes)", plan)
    page.get_by_role("tab", name="Stops").click()
    page.get_by_role("tab", name="Vehicles").click()
    assert page.evaluate(dot) == before
    expect(page.locator(".vehicle").first).to_contain_text("min")
    card = page.locator(".vehicle > button").nth(1)
    card.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".vehicle > button").nth(1)).to_be_focused()


def test_the_keyboard_is_enough(page: Page, service: Service) -> None:
    """Tabs by arrow keys, a stop moved by a button; every control has a name."""
    small_plan(service)
    page.reload()
    page.locator("td .link").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".vehicle").first).to_be_visible()
    page.get_by_role("tab", name="Vehicles").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Stops")).to_be_focused()
    page.locator("td .link").first.focus()
    page.keyboard.press("Enter")
    move = page.get_by_role("button", name="Move to a new vehicle")
    before = plan_of(page)
    move.focus()
    page.keyboard.press("Enter")
    until(page, "v => clusterfirst.state.plan.version > v", before["version"])
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select")].filter((e) =>
        e.checkVisibility() && !(e.textContent.trim() || e.ariaLabel || e.labels?.length
        || e.title)).length"""
    )
    assert nameless == 0


def test_streets_lie_behind_the_routes(browser: Browser, tmp_path: Path) -> None:
    """A PMTiles file of the service is drawn, below the stops, in both schemes."""
    file = write_basemap(tmp_path / "town.pmtiles")
    service = Service(tmp_path / "data", "--basemap", str(file))
    try:
        service.wait()
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        tab = context.new_page()
        said: list[str] = []
        tab.on("console", lambda message: said.append(message.text))
        tab.goto(f"http://127.0.0.1:{service.port}/")
        tab.evaluate(DROP, ["today.csv", table(30)])
        tab.get_by_label("Capacity").fill("40")
        until(tab, TILES)
        light = tab.evaluate(GROUND)
        tab.emulate_media(color_scheme="dark")
        until(tab, f"() => JSON.stringify(({GROUND})()) !== '{json.dumps(light)}'")
        assert not said
        picture(tab, "service-basemap")
        context.close()
    finally:
        service.close()


def test_a_late_answer_is_dropped(page: Page) -> None:
    """Prices of a new order that come when another stop is open change nothing."""
    start_plan(page, customers=30)
    wait_done(page)
    asked: list[Route] = []
    page.route("**/quote", lambda one: asked.append(one))  # answered when we say so
    page.get_by_role("tab", name="Why").click()
    page.get_by_label("Price a new order at").fill("51.05, 3.72")
    page.keyboard.press("Enter")
    wait_for(page, asked, 1)
    page.get_by_role("tab", name="Stops").click()
    page.get_by_role("button", name="S17", exact=True).click()
    expect(page.locator("#view")).to_contain_text("Stop S17")
    with page.expect_response("**/quote"):
        asked[0].continue_()
    page.wait_for_timeout(100)  # for the page to drop it
    expect(page.locator("#view")).to_contain_text("Stop S17")
    assert page.evaluate("clusterfirst.state.quote") is None
