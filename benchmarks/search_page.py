"""The rows of `benchmarks/search.py --store` as a table of docs/benchmarks.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

STORED = Path(__file__).parent / "results" / "search-alone.json"
OURS = "clusterfirst"


def read_rows() -> list[dict[str, Any]]:
    """What is stored; nothing where nothing was measured."""
    if not STORED.exists():
        return []
    rows: list[dict[str, Any]] = json.loads(STORED.read_text(encoding="utf-8"))
    return rows


def search_alone(rows: Sequence[dict[str, Any]]) -> list[str]:
    """One line for each set and number of seconds, methods side by side."""
    methods = sorted({row["method"] for row in rows}, key=lambda m: (m != OURS, m))
    table: dict[tuple[str, float], dict[str, dict[str, Any]]] = {}
    for row in rows:
        table.setdefault((row["set"], row["seconds"]), {})[row["method"]] = row
    out = ["| set | instances | seconds | " + " | ".join(methods) + " |"]
    out.append("|---|---:|---:|" + "---:|" * len(methods))
    for (name, seconds), found in sorted(table.items()):
        if OURS in found:
            cells = " | ".join(_cell(found.get(m), found[OURS]) for m in methods)
            count = found[OURS]["instances"]
            out.append(f"| {name} | {count} | {seconds:g} | {cells} |")
    ours = [row for row in rows if row["method"] == OURS]
    against = {row["set"]: row["references"] for row in ours}
    commits = ", ".join(dict.fromkeys(row["commit"] for row in ours))
    return [
        "Savings and then the search, one thread, **CPU seconds** of its process (so "
        "that other work on the machine changes little), the start included; mean gap "
        "% with its standard error. HGS: CPU seconds as well, on the same instances. "
        "SAVANT, FILO2 and AILS-II: rows measured beforehand with their own programs "
        "on one core of this kind of machine, on the same instances.",
        "\n".join(out),
        "Gaps against: "
        + "; ".join(f"{name}: {what}" for name, what in against.items())
        + f". {max(row['date'] for row in ours)}, commits {commits}, "
        f"{ours[0]['processor']}.",
        "    python benchmarks/search.py X xl --seconds 0.2 1 10 --store",
    ]


def _cell(row: dict[str, Any] | None, ours: dict[str, Any]) -> str:
    """A mean; of others' rows only where they are of the same instances."""
    if row is None or row["instances"] != ours["instances"]:
        return "-"
    error = f" ± {row['error']:.2f}" if row["instances"] > 1 else ""
    return f"{row['gap']:.2f}{error}"
