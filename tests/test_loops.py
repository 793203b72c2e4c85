"""Every loop without a count is written down with why it ends (A2)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "clusterfirst"
OF_SOLVE = ("stages", "solving", "networks", "problem", "files", "cli.py")
ELSEWHERE = "networks/trainable"  # runs in training only


def has_open_loop(path: Path) -> bool:
    """Whether there is a `while`, or a `for` over `itertools.count`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.While):
            return True
        if isinstance(node, ast.For) and ast.unparse(node.iter) == "count()":
            return True
    return False


def files() -> list[str]:
    """Those that run in a `solve`, relative to the package."""
    found = [path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py")]
    return sorted(
        name
        for name in found
        if name.startswith(OF_SOLVE) and not name.startswith(ELSEWHERE)
    )


@pytest.mark.parametrize("name", [n for n in files() if has_open_loop(SOURCE / n)])
def test_every_open_loop_is_in_the_list(name: str) -> None:
    """docs/loops.md says why the loops of each file end."""
    assert f"`{name}`" in (ROOT / "docs" / "loops.md").read_text()


def test_the_list_names_no_file_that_has_none() -> None:
    """What is gone from the code is gone from the list."""
    text = (ROOT / "docs" / "loops.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    named = {word for row in rows for word in row.split("|")[1].split("`")[1::2]}
    assert named == {n for n in files() if has_open_loop(SOURCE / n)}
