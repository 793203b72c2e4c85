"""The docs site opened as files: its search needs a worker, which browsers refuse."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser

SHIM = Path(__file__).parents[2] / "docs" / "worker_shim.js"
ECHO = "self.addEventListener('message', (e) => self.postMessage(e.data + '!'));"
ASK = """
() => new Promise((done) => {
  const worker = new Worker(new URL("echo.js", location.href).href);
  worker.addEventListener("message", (event) => done(event.data));
  worker.postMessage("found");
})
"""


def test_a_worker_answers_without_a_server(browser: Browser, tmp_path: Path) -> None:
    """A message goes in and its answer comes out, as the site's search needs it."""
    (tmp_path / "echo.js").write_text(ECHO)
    (tmp_path / "shim.js").write_text(SHIM.read_text())
    (tmp_path / "index.html").write_text("<body><script src=shim.js></script>")
    page = browser.new_page()
    page.goto((tmp_path / "index.html").as_uri())
    assert page.evaluate(ASK) == "found!"
    page.close()
