"""Draw docs/pictures/architecture.svg from the imports of the source.

    python docs/draw_architecture.py

One row per folder, in the order of the map in CONTRIBUTING.md, with what is inside;
an arc on the right leads from a folder to one that it imports. As a rule they all
lead upwards; what leads downwards is drawn in red.
"""

from __future__ import annotations

import ast
import html
import re
from collections.abc import Collection, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "clusterfirst"
PICTURE = ROOT / "docs" / "pictures" / "architecture.svg"
ROWS = {  # folder -> what it is for
    "problem": "the checked problem, its one judge, its errors",
    "files": "every format in and out",
    "cities, memory": "past days and their law",
    "stages": "arrays in, arrays out; none imports another",
    "networks": "the networks as they answer, and (torch) as they learn",
    "solving": "the order of the stages: solve, many, explain",
    "learning": "experts, labels, training",
    "cities, answers": "quotes, forecasts and more from likely days",
    "evidence": "comparisons and the paper's tables",
    "service": "HTTP around solve, and the page",
    "commands": "one thin function per command",
}
TOP, HEIGHT, GAP, LEFT, WIDTH = 56, 54, 18, 20, 560
INK, FAINT, BOX, WRONG = "#22262e", "#5a636e", "#eef3f8", "#d8006c"
FONT = "font-family='system-ui, sans-serif'"


def row_of(parts: Sequence[str], memory: Collection[str]) -> str:
    """The row of a module; those of cities/ stand on both sides of the stages."""
    folder = parts[0]
    if folder != "cities":
        return folder
    return f"cities, {'memory' if parts[1] in memory else 'answers'}"


def imports() -> set[tuple[str, str]]:
    """Pairs of rows: the first imports the second."""
    found = set()
    upper = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    memory = re.findall(r"`cities/(\w+)\.py`", upper.partition("`stages/")[0])
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        own = row_of(parts, memory)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            for name in names:
                first, _, rest = name.partition(".")
                other = row_of([*rest.split("."), ""], memory)
                if first == "clusterfirst" and own in ROWS and other in ROWS:
                    found.add((own, other))
    return {(a, b) for a, b in found if a != b}


def inside(folder: str) -> str:
    """The folders inside a folder."""
    place = SOURCE / folder.partition(",")[0]
    below = sorted(p.parent.name for p in place.glob("*/__init__.py"))
    return ", ".join([f"{name}/" for name in below])


def svg() -> str:
    """Return the picture."""
    names = list(ROWS)
    middle = {
        name: TOP + row * (HEIGHT + GAP) + HEIGHT / 2 for row, name in enumerate(names)
    }
    height = TOP + len(names) * (HEIGHT + GAP) + 10
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 860 {height}' {FONT}>",
        "<title>Which folder imports which</title>",
        "<defs><marker id='a' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='7' "
        f"markerHeight='7' orient='auto'><path d='M0 0 8 4 0 8z' fill='{FAINT}'/>"
        "</marker></defs>",
        f"<rect width='860' height='{height}' fill='white'/>",
        f"<text x='{LEFT}' y='30' font-size='17' fill='{INK}'>clusterfirst: a folder "
        "imports only what stands above it</text>",
    ]
    for name, about in ROWS.items():
        y = middle[name] - HEIGHT / 2
        parts.append(
            f"<rect x='{LEFT}' y='{y:g}' width='{WIDTH}' height='{HEIGHT}' rx='8' "
            f"fill='{BOX}' stroke='{FAINT}' stroke-width='0.7'/>"
            f"<text x='{LEFT + 14}' y='{y + 23:g}' font-size='15' font-weight='600' "
            f"fill='{INK}'>{name}</text>"
            f"<text x='{LEFT + 150}' y='{y + 23:g}' font-size='13' fill='{INK}'>"
            f"{html.escape(about)}</text>"
            f"<text x='{LEFT + 150}' y='{y + 42:g}' font-size='12' fill='{FAINT}'>"
            f"{html.escape(inside(name))}</text>"
        )
    right = LEFT + WIDTH
    for start, end in sorted(imports(), key=lambda pair: tuple(map(names.index, pair))):
        rows = names.index(start) - names.index(end)
        colour = FAINT if rows > 0 else WRONG
        # Arcs leave at the place of what they lead to, so that few of them meet.
        y0 = middle[start] + 16 - 32 * (names.index(end) + 0.5) / len(names)
        y1 = middle[end] + 16 - 32 * (names.index(start) + 0.5) / len(names)
        reach = right + 24 + 24 * abs(rows)
        parts.append(
            f"<path d='M{right} {y0:.1f}C{reach} {y0:.1f} {reach} {y1:.1f} {right + 2} "
            f"{y1:.1f}' fill='none' stroke='{colour}' stroke-width='1.1' "
            "stroke-opacity='0.75' marker-end='url(#a)'/>"
        )
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(svg(), encoding="utf-8")
