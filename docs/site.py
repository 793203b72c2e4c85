"""What the site has beyond docs/: the API page, pages of the root, search as files.

mkdocs calls the functions (mkdocs.yml, `hooks`). The API page lists the public names of
the package by itself, so that it cannot drift from them.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import clusterfirst

ROOT = Path(__file__).parent.parent
FROM_ROOT = ("CONTRIBUTING.md", "CHANGELOG.md")
FOREIGN = "https://unpkg.com/iframe-worker/shim"  # what the theme would load
SHIM = "worker_shim.js"
OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./([^)]+)\)")


def api_page() -> str:
    """Every public name with its docstring, as mkdocstrings wants it."""
    lines = [
        "# API",
        "",
        "Every public name of `clusterfirst`, from its docstring.",
        "",
    ]
    for name in clusterfirst.__all__:
        if not name.startswith("_"):
            home = getattr(clusterfirst, name).__module__
            lines += [f"::: {home}.{name}", ""]
    return "\n".join(lines)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the API page and the pages of the root."""
    files.append(File.generated(config, "api.md", content=api_page()))
    for name in FROM_ROOT:
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(
            File.generated(config, name, content=text.replace("](docs/", "]("))
        )
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Links out of docs/: to a page that came along, or as plain words."""

    def replaced(link: re.Match[str]) -> str:
        words, target = link.groups()
        return f"[{words}]({target})" if target in FROM_ROOT else words

    return OUTSIDE.sub(replaced, markdown)


def on_post_page(output: str, **_: object) -> str:
    """No page loads anything from elsewhere: search works from the disk, too."""
    if "iframe-worker" in output and FOREIGN not in output:
        raise ValueError("the theme loads its worker from another place than before")
    return output.replace(FOREIGN, SHIM)
