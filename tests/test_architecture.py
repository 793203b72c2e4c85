"""The shape of the source: one-way imports, a light command line, short files.

The order of the modules is read from the map in CONTRIBUTING.md, so that the map
cannot drift from the code.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "clusterfirst"
HEAVY = ("torch", "scipy", "highspy", "numba", "matplotlib", "numpy")
STAGES = "**stages**"
COMPILED = ("kernel", "inner", "inlined", "summing", "inner_summing")


@dataclass(frozen=True)
class Place:
    """Where the map has a module; modules in one row make up one stage."""

    order: int
    row: int
    section: str
    torch: bool


def read_map() -> dict[str, Place]:
    """The modules of the map, from top to bottom."""
    places: dict[str, Place] = {}
    section = ""
    for row, line in enumerate((ROOT / "CONTRIBUTING.md").read_text().splitlines()):
        if not line.startswith("|"):
            continue
        cell = line.split("|")[1].strip()
        section = cell if cell.startswith("**") else section
        for name in re.findall(r"`([\w/]+?)(?:\.py|/)`", cell):
            torch = "(torch)" in cell
            places[name] = Place(len(places), row, section, torch)
    return places


MAP = read_map()
FILES = sorted(
    path
    for path in SOURCE.rglob("*.py")
    if path.name != "__init__.py" or path.parent == SOURCE
)


def place_of(parts: Sequence[str]) -> str:
    """The name on the map of a dotted path: the file's own, or its folder's."""
    names = ["/".join(parts[:depth]) for depth in range(len(parts), 0, -1)]
    return next((name for name in names if name in MAP), parts[0])


def module_of(path: Path) -> str:
    """The name on the map: the file's, or that of the folder it is in."""
    return place_of(path.relative_to(SOURCE).with_suffix("").parts)


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
    return {
        place_of(parts[1:]) for parts in own if parts[0] == "clusterfirst" and parts[1:]
    }


def test_every_module_is_on_the_map() -> None:
    """A newcomer finds each file in CONTRIBUTING.md."""
    on_disk = {module_of(path) for path in FILES} - {"__init__", "__main__"}
    missing = sorted(on_disk - set(MAP))
    assert not missing, f"not in the map of CONTRIBUTING.md: {missing}"


def test_a_module_imports_only_modules_above_it() -> None:
    """The map is in the order of the data, and no import runs against it."""
    wrong = []
    for path in FILES:
        module = module_of(path)
        if module in ("__init__", "__main__"):
            continue  # the doors: one exports names from everywhere, the other runs cli
        for other in own_imports(path) - {module, "__version__"}:
            if other not in MAP:
                wrong.append(f"{other} is not in the map of CONTRIBUTING.md")
            elif MAP[other].order >= MAP[module].order:
                wrong.append(f"{path.relative_to(SOURCE)} imports {other} below it")
    assert not wrong, "\n".join(wrong)


def test_stages_never_import_each_other() -> None:
    """Stages take arrays and return arrays; solver.py alone knows their order."""
    stages = {name: at.row for name, at in MAP.items() if at.section == STAGES}
    assert len(set(stages.values())) > 5
    for path in FILES:
        module = module_of(path)
        for other in own_imports(path) & set(stages) if module in stages else ():
            assert stages[other] == stages[module], f"{module} imports {other}"


def test_only_marked_modules_import_torch() -> None:
    """numpy outside, torch inside."""
    for path in FILES:
        if "torch" in {name.split(".")[0] for name in imported_names(path)}:
            assert MAP[module_of(path)].torch, f"{path} is not marked (torch)"


def test_files_are_short() -> None:
    """A file has one idea and at most 400 lines."""
    lines = {path: len(path.read_text().splitlines()) for path in FILES}
    long = [f"{path.name}: {count}" for path, count in lines.items() if count > 400]
    assert not long, f"more than 400 lines: {', '.join(long)}"


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function of the source, with its place."""
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}", node


def test_functions_are_short_and_take_few_parameters() -> None:
    """60 lines after the signature; 5 parameters by position, 8 in all.

    Private functions and compiled kernels, which know no keywords, may have 8 by
    position. Commands are their options, so their signatures are not counted.
    """
    wrong = []
    for where, node in functions():
        lines = node.body[-1].end_lineno - node.body[0].lineno + 1  # type: ignore[operator]  # ast knows where a statement ends
        if lines > 60:
            wrong.append(f"{where}: {lines} lines")
        arguments = node.args.posonlyargs + node.args.args
        names = [a.arg for a in arguments if a.arg not in ("self", "cls")]
        compiled = any(
            isinstance(d, ast.Name) and d.id in COMPILED for d in node.decorator_list
        )
        most = 8 if node.name.startswith("_") or compiled else 5
        total = len(names) + len(node.args.kwonlyargs)
        if not where.startswith("commands/") and (len(names) > most or total > 8):
            wrong.append(f"{where}: {total} parameters, {len(names)} by position")
    assert not wrong, "\n".join(wrong)


def test_no_network_imports_training() -> None:
    """Models are read, and answer, without what made them."""
    for path in FILES:
        if path.is_relative_to(SOURCE / "networks"):
            backwards = [n for n in imported_names(path) if ".learning" in n]
            assert not backwards, f"{path.name} imports {backwards[0]}"


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
