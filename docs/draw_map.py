"""Take the picture of a map for docs/dispatch.md: the week in Ghent, in Chromium.

    python docs/draw_map.py

The map of the week's last day, beside the day before. Needs the test browser
(`make test-browser` installs it).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "examples"))

from one_week import plan_week  # noqa: E402  # an example, not a package


def main() -> None:
    """Plan the week, open the map and take its picture."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        plan_week(Path(folder), "--iterations", "20000")
        flags = ["--no-sandbox", "--disable-gpu"]
        browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=flags)
        page = browser.new_page(viewport={"width": 1100, "height": 640})
        page.goto((Path(folder) / "friday.html").as_uri())
        page.wait_for_selector("body[data-ready]")
        page.screenshot(path=ROOT / "docs" / "pictures" / "map.png")
        browser.close()


if __name__ == "__main__":
    main()
