"""Two thousand stops: no act of a dispatcher blocks the page for long."""

from __future__ import annotations

import time

from acts import DROP, LONGEST, drag_to, longest_task, plan_of, table, until, wait_done
from playwright.sync_api import Browser, Page, expect

from services import Service

# A stop and one of a route with room for it; both in view, with nothing beside them.
APART = """() => { const { map, state } = clusterfirst, { plan } = state;
  map.fit();
  const at = map.points.map((p) => map.map.layerPointToContainerPoint(p));
  const alone = at.map((p, i) => i).filter((i) => i && at[i].x > 80 && at[i].x < 700
    && at[i].y > 80 && at[i].y < 500
    && at.every((p, k) => k === i || p.distanceTo(at[i]) > 4));
  for (const a of alone) for (const b of alone) {
    const [r] = map.owner.get(a), [s] = map.owner.get(b);
    if (r !== s && plan.loads[s] + map.places[a].demand <= plan.capacity)
      return [map.places[a].id, map.places[b].id];
  } }"""


def longest_of_acts(browser: Browser, page: Page, service: Service) -> dict[str, float]:
    """The longest task, in milliseconds, of each thing a dispatcher does."""
    yesterday = service.client.post(
        "/v1/plans?capacity=120&time_limit=0.5",
        content=table(2000),
        headers={"Content-Type": "text/csv", "Prefer": "wait=60"},
    ).json()["id"]

    def read() -> None:
        page.evaluate(DROP, ["big.csv", table(2000)])
        page.get_by_label("Capacity").fill("120")
        page.wait_for_selector("#checked :text('2,000 orders')")

    def plan() -> None:
        page.get_by_label("Seconds to plan").select_option("3")
        page.get_by_role("button", name="Plan", exact=True).click()
        wait_done(page)

    def look() -> None:
        page.get_by_role("tab", name="Stops").click()
        page.get_by_label("Search a stop").press_sequentially("S12")
        page.locator("#view table button.link").nth(2).click()
        page.wait_for_selector("#offers")
        page.get_by_role("tab", name="Vehicles").click()
        page.mouse.move(400, 400)
        page.mouse.wheel(0, -600)
        page.wait_for_timeout(500)

    def move() -> None:
        version = plan_of(page)["version"]
        page.get_by_role("tab", name="Stops").click()
        page.locator("#view table button.link").nth(2).click()
        page.locator("#offers button:text('Move')").first.click()
        until(page, "v => clusterfirst.state.plan.version > v", version)
        page.keyboard.press("Control+z")
        until(page, "v => clusterfirst.state.plan.version === v", version)

    def drag() -> None:
        drag_to(page, *page.evaluate(APART))
        expect(page.locator("#chip")).to_contain_text("Vehicle")
        page.mouse.up()
        until(page, "() => clusterfirst.state.plan.origin === 'moved'")

    def compare() -> None:
        page.get_by_role("tab", name="Compare").click()
        page.get_by_label("Compare with").select_option(value=yesterday)
        expect(page.locator("#view")).to_contain_text("stops changed vehicle")
        page.get_by_role("tab", name="Vehicles").click()
        page.locator(".vehicle > button").nth(3).click()

    def export() -> None:
        page.get_by_role("tab", name="Export").click()
        for name in ("csv", "html", "json"):
            with page.expect_download():
                page.locator(f"[data-format='{name}']").click()
        page.get_by_role("tab", name="curl").click()
        expect(page.locator("pre").first).to_contain_text("curl -X GET")

    acts = (read, plan, look, move, drag, compare, export)
    return {act.__name__: longest_task(browser, page, act) for act in acts}


def test_nothing_blocks(browser: Browser, page: Page, service: Service) -> None:
    """Files, planning, lists, a stop, a zoom, moves, a comparison, exports."""
    found = longest_of_acts(browser, page, service)
    assert max(found.values()) < LONGEST, found


def test_a_task_that_blocks_is_seen(browser: Browser, page: Page) -> None:
    """The clock of the test above counts what the page's own thread works."""
    work = """() => new Promise((done) => setTimeout(() => {
      for (let i = 0; i < 1e9; i++) Math.sqrt(i);
      setTimeout(done); }))"""
    assert longest_task(browser, page, lambda: page.evaluate(work)) > LONGEST


def test_the_list_grows_as_it_is_scrolled(page: Page) -> None:
    """Every stop can be reached, though few are there at first."""
    page.evaluate(DROP, ["big.csv", table(300)])
    page.get_by_label("Capacity").fill("120")
    page.wait_for_selector("#checked :text('300 orders')")
    page.get_by_role("tab", name="Stops").click()
    rows = page.locator("#view tbody tr")
    assert 0 < rows.count() < 300
    page.mouse.move(1100, 500)
    end = time.monotonic() + 30
    while rows.count() < 300:
        assert time.monotonic() < end, f"{rows.count()} rows"
        page.mouse.wheel(0, 3000)
        page.wait_for_timeout(30)
