"""Two thousand stops: no act of a dispatcher blocks the page for long."""

from __future__ import annotations

import time

from playwright.sync_api import Browser, Page
from test_page import DROP, table, until

from conftest import LONGEST, longest_task


def test_nothing_blocks(browser: Browser, page: Page) -> None:
    """Reading, planning, the lists, a search, a stop, a zoom, a comparison."""

    def read() -> None:
        page.evaluate(DROP, ["big.csv", table(2000)])
        page.get_by_label("Capacity").fill("120")
        page.wait_for_selector("#checked :text('2000 orders')")

    def plan() -> None:
        page.get_by_label("Seconds to plan").select_option("3")
        page.get_by_role("button", name="Plan", exact=True).click()
        until(page, "() => clusterfirst.state.plan?.status === 'done'")
        until(page, "() => !clusterfirst.state.running")

    def look() -> None:
        page.get_by_role("tab", name="Stops").click()
        page.get_by_label("Search a stop").press_sequentially("S12")
        page.locator("#view table button.link").nth(2).click()
        page.wait_for_selector("#offers")
        page.get_by_role("tab", name="Vehicles").click()
        page.mouse.move(400, 400)
        page.mouse.wheel(0, -600)
        page.wait_for_timeout(500)

    for act in (read, plan, look):
        assert longest_task(browser, page, act) < LONGEST, act.__name__


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
