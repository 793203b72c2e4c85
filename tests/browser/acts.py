"""What the browser tests do with the page, and how they wait for it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Page, Route, expect

from services import Service, random_day

LONGEST = 100.0  # milliseconds of its own CPU time, whatever else the machine does
# Puts a file onto the page as the mouse would.
DROP = """([name, text]) => {
  const data = new DataTransfer();
  data.items.add(new File([text], name, { type: "text/csv" }));
  document.querySelector(".drop").dispatchEvent(
    new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
}"""
# Where a stop is on the screen.
AT = """(id) => {
  const { map } = clusterfirst;
  const p = map.map.latLngToContainerPoint(map.places[map.index.get(id)].at);
  const box = map.element.getBoundingClientRect();
  return [p.x + box.left, p.y + box.top];
}"""


def table(customers: int, seed: int = 0) -> str:
    """Orders around Ghent, in clusters."""
    draw = np.random.default_rng(seed)
    middles = draw.normal(0, 0.05, (8, 2))
    lines = ["id,lat,lon,demand", "depot,51.05,3.72,0"]
    for i in range(customers):
        north, east = middles[i % 8] + draw.normal(0, 0.012, 2)
        lines.append(
            f"S{i + 1},{51.05 + north:.5f},{3.72 + 1.6 * east:.5f},{1 + i % 7}"
        )
    return "\n".join(lines) + "\n"


def until(page: Page, condition: str, argument: Any = None) -> None:
    """Wait for a condition; Playwright's own way is eval, which the page forbids."""
    end = time.monotonic() + 30
    while not page.evaluate(condition, argument):
        assert time.monotonic() < end, condition
        page.wait_for_timeout(30)


def plan_of(page: Page) -> dict[str, Any]:
    """The plan on the page."""
    return page.evaluate("clusterfirst.state.plan")


def start_plan(page: Page, customers: int = 120, seconds: str = "1") -> None:
    page.evaluate(DROP, ["today.csv", table(customers)])
    page.get_by_label("Capacity").fill("40")
    expect(page.locator("#checked")).to_contain_text(f"{customers} orders")
    page.get_by_label("Seconds to plan").select_option(seconds)
    page.get_by_role("button", name="Plan", exact=True).click()


def wait_done(page: Page) -> dict[str, Any]:
    """From the click on it runs by the page's own word: this cannot be early."""
    until(page, "() => !clusterfirst.state.running && clusterfirst.state.plan")
    expect(page.get_by_role("button", name="Plan", exact=True)).to_be_visible()
    return plan_of(page)


def drag_to(page: Page, stop: str, other: str) -> None:
    """Press on a stop and move the mouse to another one."""
    x, y = page.evaluate(AT, stop)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 15, y + 15, steps=3)
    page.mouse.move(*page.evaluate(AT, other), steps=8)


def wait_for(page: Page, found: list[Route], count: int) -> None:
    """Until the page has asked so often."""
    end = time.monotonic() + 30
    while len(found) < count:
        assert time.monotonic() < end
        page.wait_for_timeout(30)


def small_plan(service: Service) -> str:
    """A plan that is done, the newest of the service; its id."""
    body = {"instance": random_day(30), "options": {"time_limit": 0.2}}
    headers = {"Prefer": "wait=60"}
    answer = service.client.post("/v1/plans", json=body, headers=headers).json()
    assert answer["status"] == "done"
    return str(answer["id"])


def picture(page: Page, name: str) -> None:
    """Keep a picture for the docs, when a folder for them is named."""
    folder = os.environ.get("CLUSTERFIRST_PICTURES")
    if folder:
        page.evaluate("document.getElementById('toast').hidden = true")
        page.screenshot(path=Path(folder) / f"{name}.png")


def longest_task(browser: Browser, page: Page, act: Callable[[], None]) -> float:
    """The most that the page's thread was busy without a break."""
    categories = ["toplevel", "devtools.timeline", "__metadata"]
    browser.start_tracing(page=page, categories=categories)
    try:
        act()
    finally:
        trace = browser.stop_tracing()
    events = json.loads(trace)["traceEvents"]
    main = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    tasks = [
        event.get("tdur", 0) / 1000
        for event in events
        if "RunTask" in event["name"] and (event["pid"], event["tid"]) in main
    ]
    assert tasks
    return max(tasks)
