"""A browser, and a service whose page it looks at."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

sys.path.insert(0, str(Path(__file__).parent.parent))

from services import Service

expect.set_options(timeout=30_000)  # a busy machine is slow, not wrong
# Without the network flags Chromium keeps calling home, which a closed network refuses.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, without a screen."""
    with sync_playwright() as play:
        found = play.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield found
        found.close()


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service of one worker; a test may kill it and start it again."""
    found = Service(tmp_path_factory.mktemp("browser") / "data").wait()
    yield found
    found.close()


@pytest.fixture
def page(browser: Browser, service: Service) -> Iterator[Page]:
    """The page of the service; anything on its console is a failure."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    said: list[str] = []
    found = context.new_page()
    found.on("console", lambda message: said.append(message.text))
    found.on("pageerror", lambda error: said.append(str(error)))
    found.on(
        "response",
        lambda answer: said.append(answer.text()) if answer.status >= 400 else None,
    )
    found.goto(f"http://127.0.0.1:{service.port}/")
    yield found
    context.close()
    assert not said, "\n".join(said)
