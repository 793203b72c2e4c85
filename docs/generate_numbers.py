"""Fill measured numbers into README.md and the model cards, between markers.

    python docs/generate_numbers.py

A number stands once, in benchmarks/results (measured here) or benchmarks/published.json
(printed by its authors); a test compares the pages with them. `<!-- numbers:NAME -->`
opens a block and `<!-- numbers:end -->` closes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
MODELS = ROOT / "src" / "clusterfirst" / "models"
BLOCK = re.compile(
    r"(<!-- numbers:(\w[^>]*?) -->\n).*?(<!-- numbers:end -->)", re.DOTALL
)
SETS = (
    "city-100",
    "city-200",
    "city-500",
    "city-1000",
    "cvrp100",
    "lehd200",
    "lehd500",
    "cvrp1000",
    "xml100",
    "X",
    "belem",
    "leuven1",
)
PAPER = "Neural CFRS"


def pages() -> list[Path]:
    """Every page with such blocks."""
    return [ROOT / "README.md", *sorted(MODELS.glob("*/README.md"))]


def filled(text: str) -> str:
    """The text with every block written anew."""

    def block(found: re.Match[str]) -> str:
        name, _, argument = found[2].partition(" ")
        return f"{found[1]}{MAKERS[name](argument)}\n{found[3]}"

    return BLOCK.sub(block, text)


def gaps_of_model(model: str) -> str:
    """The search-free gaps of a shipped model, the paper's best beside them."""
    rows = ["| set | gap % | seconds | the paper (its own reference) | our reference |"]
    rows.append("|---|---:|---:|---:|---|")
    for name in SETS:
        table = _stored("alone", name)
        line = _line(table, f"neural:{model}")
        if line is None:
            continue
        rows.append(
            f"| {table['title']}, {line['gap']['count']} | {_gap(line)} "
            f"| {line['seconds']:.2g} | {_papers(name)} "
            f"| {table['result']['references']} |"
        )
    dates = sorted(_stored("alone", name)["date"][:10] for name in SETS)
    return "\n".join(
        [
            f"Measured {dates[0]} to {dates[-1]} on one core, other work beside "
            "(`python benchmarks/tables.py alone`).",
            "",
            *rows,
        ]
    )


def with_search(arguments: str) -> str:
    """Our best and the peers on a set at one limit, best first: one line."""
    name, limit = arguments.split()
    table = _stored("search", name)
    at = [line for line in table["result"]["lines"] if f"{line['limit']:g}" == limit]
    ranked = sorted((one for one in at if one["gap"]["count"]), key=_value)
    words = ", ".join(f"`{line['method']}` {_value(line):.2f} %" for line in ranked)
    return (
        f"- {table['title']}, {limit} s on {table['cores']} cores, above "
        f"{table['result']['references']}: {words} ({_when(table)})."
    )


def search_free(arguments: str) -> str:
    """One model on several sets without search: one line."""
    model, *names = arguments.split()
    parts = []
    for name in names:
        table = _stored("alone", name)
        line = _line(table, f"neural:{model}")
        assert line is not None
        paper = _papers(name)
        beside = f" (the paper {paper})" if paper else ""
        title = table["title"].replace("The ", "the ", 1)
        parts.append(f"{_value(line):.2f} % on {title}{beside}")
    when = _when(_stored("alone", names[-1]))
    return f"- Without search, `{model}`: a gap of {'; '.join(parts)} ({when})."


MAKERS: dict[str, Callable[[str], str]] = {
    "gaps": gaps_of_model,
    "search": with_search,
    "free": search_free,
}


def _stored(kind: str, name: str) -> dict[str, Any]:
    path = RESULTS / f"{kind}-{name}.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _line(table: dict[str, Any], method: str) -> dict[str, Any] | None:
    lines = table["result"]["lines"]
    return next((line for line in lines if line["method"] == method), None)


def _when(table: dict[str, Any]) -> str:
    """Day and commit of a measurement: the code may have changed since."""
    return f"{table['date'][:10]}, {table['commit'].rstrip('+')}"


def _value(line: dict[str, Any]) -> float:
    return float(line["gap"]["value"])


def _gap(line: dict[str, Any]) -> str:
    half = line["gap"]["half"]
    return f"{_value(line):.2f}" + ("" if half is None else f" ± {half:.2f}")


def _papers(name: str) -> str:
    """The best that the paper prints of its own method on a set."""
    path = ROOT / "benchmarks" / "published.json"
    rows = json.loads(path.read_text(encoding="utf-8"))
    found = [
        row["gap"]
        for row in rows
        if row["table"] == name and row["method"].startswith(PAPER)
    ]
    return f"{min(found):g}" if found else ""


def main() -> None:
    """Write every page."""
    for page in pages():
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
