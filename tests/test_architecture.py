"""The shape of the source: one-way imports, a light command line, short files.

The order of the modules is read from the map in CONTRIBUTING.md, so that the map
cannot drift from the code.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "clusterfirst"
MAX_LINES = 400
HEAVY = ("torch", "scipy", "highspy", "numba", "matplotlib", "numpy")
STAGES = "**stages**"


def read_map() -> list[tuple[str, str, bool]]:
    """Module, section and whether it may import torch, in the order of the map."""
    rows, section = [], ""
    for line in (ROOT / "CONTRIBUTING.md").read_text().splitlines():
        if not line.startswith("|"):
            continue
        cell = line.split("|")[1].strip()
        section = cell if cell.startswith("**") else section
        for name in re.findall(r"`(\w+)(?:\.py|/)`", cell):
            rows.append((name, section, "(torch)" in cell))
    return rows


MAP = read_map()
ORDER = {name: place for place, (name, _, _) in enumerate(MAP)}
SECTION = {name: section for name, section, _ in MAP}
MAY_IMPORT_TORCH = {name for name, _, torch in MAP if torch}
FILES = sorted(SOURCE.rglob("*.py"))


def module_of(path: Path) -> str:
    """The name on the map: the file's, or that of the folder it is in."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_names(path: Path) -> list[str]:
    """Everything a file imports, wherever in the file, as dotted names."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def own_imports(path: Path) -> set[str]:
    """The modules on the map that a file imports."""
    own = [name.split(".") for name in imported_names(path)]
    return {parts[1] for parts in own if parts[0] == "clusterfirst" and parts[1:]}


def test_every_module_is_on_the_map() -> None:
    """A newcomer finds each file in CONTRIBUTING.md, and the map names no ghosts."""
    on_disk = {module_of(path) for path in FILES} - {"__init__", "__main__", "data"}
    assert on_disk - set(ORDER) == set(), "files that the map does not name"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_module_imports_only_modules_above_it(path: Path) -> None:
    """The map is in the order of the data, and no import runs against it."""
    module = module_of(path)
    if module in ("__init__", "__main__"):
        return
    for other in own_imports(path) - {module, "__version__"}:
        assert ORDER[other] < ORDER[module], f"{module} imports {other} below it"


def test_stages_never_import_each_other() -> None:
    """Stages take arrays and return arrays; solver.py alone knows their order."""
    stages = {name for name, section in SECTION.items() if section == STAGES}
    for path in FILES:
        module = module_of(path)
        if module in stages:
            others = (own_imports(path) & stages) - {module}
            assert not others, f"{module} imports the stages {others}"


def test_only_marked_modules_import_torch() -> None:
    """numpy outside, torch inside."""
    for path in FILES:
        tops = {name.split(".")[0] for name in imported_names(path)}
        if "torch" in tops:
            assert module_of(path) in MAY_IMPORT_TORCH, path


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_files_are_short(path: Path) -> None:
    """A file has one idea and at most 400 lines."""
    assert len(path.read_text().splitlines()) <= MAX_LINES


@pytest.mark.parametrize(
    "statement", ["import clusterfirst", "import clusterfirst.cli"]
)
def test_start_up_imports_nothing_heavy(statement: str) -> None:
    """`--help` is quick because the command line imports no heavy package."""
    program = f"{statement}; import sys; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = {name.split(".")[0] for name in run.stdout.split()}
    assert not loaded & set(HEAVY)


def test_public_names_exist() -> None:
    """Every name in `clusterfirst.__all__` can be imported, and dir() lists it."""
    import clusterfirst

    for name in clusterfirst.__all__:
        assert getattr(clusterfirst, name) is not None
    assert set(clusterfirst.__all__) <= set(dir(clusterfirst))
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = clusterfirst.no_such_name
