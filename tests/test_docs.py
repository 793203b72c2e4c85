"""Documentation that cannot drift: generated pages, and snippets that run."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MODELS = ROOT / "src" / "clusterfirst" / "models"
FURTHER = [
    *(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "labels/README.md")),
    *sorted(MODELS.glob("*/README.md")),
]


def load_generator(name: str = "generate_cli") -> ModuleType:
    """A script of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATOR = load_generator()


def test_cli_page_is_up_to_date() -> None:
    """docs/cli.md equals what the commands say now; `make docs` writes it."""
    assert GENERATOR.PAGE.read_text(encoding="utf-8") == GENERATOR.page()


@pytest.mark.parametrize("words", GENERATOR.commands())
def test_every_command_and_option_has_help(words: str) -> None:
    """No command is without a sentence, and no option or argument either."""
    command = GENERATOR.commands()[words]
    assert command.help.split("\n\n")[0].endswith(".")
    for parameter in command.params:
        assert parameter.help.endswith("."), parameter.name
    assert f"## {words}\n" in GENERATOR.PAGE.read_text(encoding="utf-8")


def python_snippets(page: Path) -> list[str]:
    """The code of every ```python block."""
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_python_snippets_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snippets of a page run one after the other, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "snippet"}
    for number, code in enumerate(python_snippets(page), start=1):
        exec(compile(code, f"{page.name} snippet {number}", "exec"), names)


def test_readme_has_python_snippets() -> None:
    """The test above is not vacuous."""
    assert python_snippets(ROOT / "README.md")


def typed_commands(page: Path) -> list[list[str]]:
    """The words of every line that begins with the command and leaves nothing out."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    found = []
    for line in re.findall(r"^\s*(?:\$ )?clusterfirst (\w[^\n]*)", text, re.MULTILINE):
        words = shlex.split(line, comments=True)
        cuts = [words.index(c) for c in ("|", ">", "&&", "&") if c in words]
        if "..." not in words and not any(word.startswith("[") for word in words):
            found.append(words[: min(cuts, default=len(words))])
    return found


@pytest.mark.parametrize(
    "page", [*PAGES, *FURTHER], ids=lambda p: str(p.relative_to(ROOT))
)
def test_typed_commands_exist(page: Path) -> None:
    """Every command of a page is parsed as it stands, options and all."""
    commands = GENERATOR.commands()
    if page == GENERATOR.PAGE:
        return  # its usage lines are made from the commands
    for words in typed_commands(page):
        name = " ".join(words[:2])
        if name not in commands:
            name = words[0]
        assert name in commands, words
        commands[name].make_context(name, words[len(name.split()) :])


def test_readme_has_commands() -> None:
    """The test above is not vacuous."""
    assert len(typed_commands(ROOT / "README.md")) > 5


def anchors(page: Path) -> set[str]:
    """What headings of a page are called in links, on the site and on GitHub."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    found = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", heading.lower())
        found |= {plain.replace(" ", "-"), re.sub(r"[- ]+", "-", plain)}
    return found


@pytest.mark.parametrize(
    "page", [*PAGES, *FURTHER], ids=lambda p: str(p.relative_to(ROOT))
)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link and picture of a page exists, and its anchor too."""
    links = re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?", page.read_text())
    for target, anchor in links:
        if "://" in target or target.startswith("mailto:"):
            continue
        place = page.parent / target if target else page
        assert place.exists(), target
        if anchor and place.suffix == ".md":
            assert anchor in anchors(place), f"{target}#{anchor}"


def test_the_site_leads_to_every_page() -> None:
    """A page that the navigation of mkdocs.yml forgets is found by nobody."""
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert f": {page.name}\n" in navigation, page.name


def test_the_picture_of_the_imports_is_up_to_date() -> None:
    """`python docs/draw_architecture.py` changes nothing, and no arc leads down."""
    drawing = load_generator("draw_architecture")
    assert drawing.PICTURE.read_text(encoding="utf-8") == drawing.svg()
    rows = list(drawing.ROWS)
    assert all(rows.index(a) > rows.index(b) for a, b in drawing.imports())
    folders = {p.parent.name for p in drawing.SOURCE.glob("*/__init__.py")}
    assert folders <= {row.partition(",")[0] for row in rows}


def test_where_to_change_what_names_files_that_exist() -> None:
    """Each row of the table in CONTRIBUTING.md names a source and a test."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    part = text.partition("## Where do I change X?")[2].partition("\n## ")[0]
    rows = [line.split("|")[2:4] for line in part.splitlines() if line.startswith("| ")]
    assert len(rows) > 10
    for source, held_by in rows[1:]:
        named = re.findall(r"`([\w/]+\.py)`", source)
        tests = re.findall(r"`(tests/[\w/.]+)`", held_by)
        assert tests, held_by
        homes = {Path(name).parent for name in named if "/" in name} | {Path()}
        for name in named:
            places = [ROOT / "src" / "clusterfirst" / home / name for home in homes]
            assert any(p.exists() for p in [*places, ROOT / name]), name
        assert all((ROOT / test).exists() for test in tests), held_by


def test_files_that_pages_name_exist() -> None:
    """A page that names a module names one that is there."""
    homes = [ROOT, ROOT / "src" / "clusterfirst", ROOT / "docs"]
    for page in [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]:
        for name in re.findall(r"`((?:[\w-]+/)+[\w-]+\.py)`", page.read_text()):
            assert any((home / name).exists() for home in homes), f"{page.name}: {name}"


def test_numbers_are_those_of_the_stored_results() -> None:
    """Nobody copies a figure by hand: README and cards equal what is measured."""
    numbers = load_generator("generate_numbers")
    blocks = 0
    for page in numbers.pages():
        text = page.read_text(encoding="utf-8")
        assert numbers.filled(text) == text, page
        blocks += len(numbers.BLOCK.findall(text))
    assert blocks >= len(numbers.pages()) - 1


def test_the_index_of_the_log_names_every_entry() -> None:
    """`python log/index.py` changes nothing, and every entry begins with its title."""
    spec = importlib.util.spec_from_file_location("index", ROOT / "log" / "index.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (ROOT / "log" / "README.md").read_text(encoding="utf-8")
    assert text == module.index()
    for entry in (ROOT / "log").glob("20*.md"):
        assert entry.read_text(encoding="utf-8").startswith("# "), entry.name


def test_words_about_repeating_are_true() -> None:
    """A clock repeats nothing: whoever says the same answer says --iterations (B2)."""
    claims = [
        sentence
        for page in PAGES
        for sentence in re.split(r"(?<=[.;:|])\s", page.read_text(encoding="utf-8"))
        if re.search(r"\bsame answer\b", sentence)
    ]
    assert any("--iterations" in sentence for sentence in claims)
    for sentence in claims:
        if "seed" in sentence or "every time" in sentence:
            assert "--iterations" in sentence or "no clock" in sentence, sentence


def test_words_about_the_paper_s_methods_are_true() -> None:
    """A single pass stands beside a single pass, and the layer is what it is (C6)."""
    tables = (ROOT / "docs" / "paper-tables.md").read_text(encoding="utf-8")
    printed = [
        line for line in tables.split("\n") if "| Fisher-Jaikumar-LKH3 |" in line
    ]
    assert printed
    after = tables[tables.index(printed[-1]) :]
    assert "Fisher-Jaikumar is `fisher-jaikumar:once` here" in after
    assert "another method" in after
    reading = (ROOT / "docs" / "reading-the-paper.md").read_text(encoding="utf-8")
    [activation] = re.findall(r"\| Activation \| (.*) \|", reading)
    source = ROOT / "src" / "clusterfirst" / "networks" / "trainable" / "embed.py"
    assert ("ReLU in the autoencoder" in activation) == (
        "nn.ReLU()" in source.read_text(encoding="utf-8")
    )
