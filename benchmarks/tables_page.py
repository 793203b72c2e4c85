"""From stored results to docs/benchmarks.md: what lies between its markers.

Every number in the page comes from benchmarks/results/*.json (measured here) or from
benchmarks/published.json (printed by their authors, marked so).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from search_page import read_rows, search_alone

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
PICTURES = ROOT / "docs" / "pictures"
RESULTS = ROOT / "benchmarks" / "results"
PUBLISHED = ROOT / "benchmarks" / "published.json"
BEGIN, END = "<!-- tables:begin -->", "<!-- tables:end -->"
PEERS = ("hgs", "pyvrp", "ortools", "vroom")
BUSY = 0.6  # of the best matmul rate: a median below it means that others worked too

Stored = dict[str, Any]  # a file of benchmarks/results
Line = dict[str, Any]  # one method at one limit in it


def write_page(order: Sequence[str]) -> None:
    """Replace what lies between the markers of the page."""
    text = PAGE.read_text(encoding="utf-8")
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{PAGE} has no {BEGIN} ... {END}")
    body = "\n\n".join(page(read_results(order), read_published()))
    temporary = PAGE.with_suffix(f".{os.getpid()}")
    temporary.write_text(f"{head}{BEGIN}\n{body}\n{END}{tail}", encoding="utf-8")
    os.replace(temporary, PAGE)


def read_results(order: Sequence[str]) -> list[Stored]:
    """The stored tables, sets in the order given, search-free ones first."""
    paths = [RESULTS / f"{kind}-{name}.json" for name in order for kind in KINDS]
    return [json.loads(p.read_text(encoding="utf-8")) for p in paths if p.exists()]


def read_published() -> list[dict[str, Any]]:
    """What others printed; nothing of it was run here."""
    rows: list[dict[str, Any]] = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    return rows


KINDS = {
    "alone": "The networks",
    "free": "Search-free",
    "search": "With search",
    "one-core": "With search, one core",
}
SEARCHES = ("search", "one-core")


def picture_name(table: str, kind: str) -> str:
    """Where the plot of gap against seconds is kept."""
    return f"bench-{table}{'' if kind == 'search' else f'-{kind}'}.png"


def page(stored: Sequence[Stored], published: Sequence[dict[str, Any]]) -> list[str]:
    """The blocks of the page: where we stand, then set by set."""
    blocks = ["## Where we win and where we lose", *verdicts(stored)]
    alone = [table for table in stored if table["kind"] == "alone"]
    if alone:
        blocks += ["## The networks alone", *networks_alone(alone)]
    searched_alone = read_rows()
    if searched_alone:
        blocks += ["## The search alone, one core", *search_alone(searched_alone)]
    blocks.append("## Set by set")
    rest = [table for table in stored if table["kind"] != "alone"]
    for name in dict.fromkeys(table["name"] for table in rest):
        here = [table for table in rest if table["name"] == name]
        blocks.append(f"### {here[0]['title']}")
        for table in here:
            searched = table["kind"] in SEARCHES
            others = [
                row
                for row in published
                if row["table"] == name and row["search"] == searched
            ]
            blocks += section(table, others)
    return blocks


def networks_alone(tables: Sequence[Stored]) -> list[str]:
    """Every shipped model on every set it fits, one shot and no search."""
    out = ["| set | instances | gap against | method | gap % | took |"]
    out.append("|---|---:|---|---|---:|---:|")
    for table in tables:
        result = table["result"]
        for line in sorted(result["lines"], key=_gap):
            out.append(
                f"| {table['name']} | {line['gap']['count']} | {result['references']} "
                f"| `{line['method']}` | {spread(line['gap'])} | "
                f"{_number(line['seconds'], 2)} |"
            )
    return [
        "One shot, fast assignment, seeds moved twice, no local search; the twin "
        "decodes Fisher-Jaikumar's scores as often. Quality only: other work may have "
        "run beside.",
        "\n".join(out),
        "    python benchmarks/tables.py alone",
    ]


# --- one table ----------------------------------------------------------------------


def section(table: Stored, others: Sequence[dict[str, Any]]) -> list[str]:
    """What was run, the lines, the published rows, the network's share, the command."""
    result = table["result"]
    blocks = [f"**{KINDS[table['kind']]}.** {conditions(table)}", rows(table, others)]
    sources = dict.fromkeys(row["source"] for row in others)
    if sources:
        blocks.append(
            "*Published, not run here* (other machines, most on a GPU): "
            + "; ".join(sources)
            + "."
        )
    blocks += shares(result)
    notes = [f"not run: {n}: {why}" for n, why in result["not_run"].items()]
    notes += [f"no answer: {reason}" for reason in result["no_answer"][:5]]
    if notes:
        blocks.append("\n".join(f"- {note}" for note in notes))
    picture = PICTURES / picture_name(table["name"], table["kind"])
    if table["kind"] in SEARCHES and picture.exists():
        alt = f"gap against seconds, {table['title']}"
        blocks.append(f"![{alt}](pictures/{picture.name})")
    blocks.append("    " + wrapped(table["command"]))
    return blocks


def conditions(table: Stored) -> str:
    """Instances, cores, reference, date, commit and matmul rate in words."""
    result = table["result"]
    rate = result["gflops"]
    busy = ""
    if is_busy(table):
        busy = (
            " **Busy machine**: quality only, and methods that use up their seconds "
            f"got about {rate['median'] / rate['most']:.0%} of a core in them."
        )
    return (
        f"{result['title']}; gap against {result['references']}. {table['date']}, "
        f"commit {table['commit']}, {table['processor']}, fp32 matmul "
        f"{rate['median']:.0f} GFLOP/s ({rate['least']:.0f} to {rate['most']:.0f})."
        f"{busy}"
    )


def is_busy(table: Stored) -> bool:
    """Whether other work took much of the machine: the median matmul tells."""
    rate = table["result"]["gflops"]
    return bool(rate["median"] < BUSY * rate["most"])


def rows(table: Stored, others: Sequence[dict[str, Any]]) -> str:
    """Methods from best to worst at the largest limit, limits side by side."""
    lines = table["result"]["lines"]
    limits = sorted({line["limit"] for line in lines})
    by_method: dict[str, dict[float, Line]] = {}
    for line in lines:
        by_method.setdefault(_name(line), {})[line["limit"]] = line
    head = "".join(f" gap % in {limit:g} s | took |" for limit in limits)
    out = [f"| method |{head} solved | vehicles |"]
    out.append("|---|" + "---:|---:|" * len(limits) + "---:|---:|")
    ranked = sorted(by_method.items(), key=lambda item: _gap(item[1][max(item[1])]))
    for method, found in ranked:
        cells = "".join(_cells(found.get(limit)) for limit in limits)
        last = found[max(found)]
        solved = min(line["solved"] for line in found.values())
        out.append(
            f"| `{method}` |{cells} {solved:.0%} | {_number(last['vehicles'], 1)} |"
        )
    blank = " |" * (2 * len(limits) + 1)
    for row in sorted(others, key=lambda row: float(row["gap"])):
        named = f"*{row['method']}; published, vs {row['against']}*"
        out.append(f"| {named} | {row['gap']:g} |{blank}")
    return "\n".join(out)


def _cells(line: Line | None) -> str:
    if line is None:
        return " | |"
    late = "!" if line["seconds"] > 1.2 * line["limit"] else ""
    return f" {spread(line['gap'])} | {_number(line['seconds'], 2)}{late} |"


def spread(mean: dict[str, Any]) -> str:
    """A mean with its interval."""
    if not mean["count"] or mean["value"] is None:
        return "-"
    half = "" if mean["half"] is None else f" ± {mean['half']:.2f}"
    return f"{mean['value']:.2f}{half}"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _name(line: Line) -> str:
    """A method; what somebody else measured is marked so."""
    return f"{line['method']} (published)" if _published(line) else line["method"]


def _published(line: Line) -> bool:
    return bool(line.get("published"))


def _gap(line: Line) -> float:
    value = line["gap"]["value"]
    return float("inf") if value is None else float(value)


def shares(result: dict[str, Any]) -> list[str]:
    """What the network adds to its twins, in points of gap."""
    found = [
        f"`{s['method']}` minus `{s['twin']}` in {s['limit']:g} s: "
        f"{spread(s['points'])}"
        for s in result["network_share"]
    ]
    if not found:
        return []
    return [
        "The network's own share, points of gap paired by instance (below 0 it "
        "helps): " + "; ".join(found) + "."
    ]


def wrapped(command: str) -> str:
    """A long command over several lines."""
    return command.replace(" --", " \\\n        --")


# --- the verdict --------------------------------------------------------------------


def verdicts(stored: Iterable[Stored]) -> list[str]:
    """Our best line against the best of the others, set by set and limit by limit.

    Equal seconds mean nothing on a busy machine: what was measured there is left out.
    """
    fair = [table for table in stored if not is_busy(table)]
    searched = [table for table in fair if table["kind"] == "search"]
    free = [table for table in fair if table["kind"] == "free"]
    blocks = []
    if searched:
        lost = [line for table in searched for line in duels(table)]
        blocks.append(
            "With search, our best method against the best peer in the same seconds "
            "on the same cores. *No difference* means that the 95 % intervals overlap."
        )
        head = "| set | seconds | ours | gap % | best peer | gap % | |"
        blocks.append("\n".join([head, "|---|---:|---|---:|---|---:|---|", *lost]))
    if free:
        blocks.append(
            "Search-free, the best model against Fisher-Jaikumar on the same stages "
            "in the same seconds, and the best other classical method."
        )
        head = "| set | network | gap % | fisher-jaikumar gap % | best other | gap % |"
        body = [line for table in free for line in free_line(table)]
        blocks.append("\n".join([head, "|---|---|---:|---:|---|---:|", *body]))
    return blocks or [
        "Only what was measured on an idle machine counts here, and nothing was yet."
    ]


def duels(table: Stored) -> list[str]:
    """One line of the verdict for each limit."""
    out = []
    lines = [line for line in table["result"]["lines"] if line["gap"]["count"]]
    for limit in sorted({line["limit"] for line in lines}):
        here = [line for line in lines if line["limit"] == limit]
        theirs = [line for line in here if _published(line) or line["method"] in PEERS]
        ours = [line for line in here if line not in theirs]
        if theirs and ours:
            a, b = min(ours, key=_gap), min(theirs, key=_gap)
            out.append(
                f"| {table['name']} | {limit:g} | `{a['method']}` | "
                f"{spread(a['gap'])} | `{_name(b)}` | {spread(b['gap'])} | "
                f"{outcome(a['gap'], b['gap'])} |"
            )
    return out


def outcome(ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    """Whether two means differ beyond their intervals."""
    reach = (ours["half"] or 0.0) + (theirs["half"] or 0.0)
    apart = ours["value"] - theirs["value"]
    if abs(apart) <= reach:
        return "no difference"
    return "**we lose**" if apart > 0 else "we win"


def free_line(table: Stored) -> list[str]:
    """The best network, its twin of equal seconds, and the best of the rest."""
    lines = [line for line in table["result"]["lines"] if line["gap"]["count"]]
    nets = [line for line in lines if line["method"].startswith("neural")]
    twin = [line for line in lines if line["method"] == "fisher-jaikumar"]
    names = ("sweep", "petal", "savings")
    rest = [line for line in lines if line["method"] in names]
    if not (twin and rest):
        return []
    best = min(rest, key=_gap)
    net = min(nets, key=_gap) if nets else None
    first = f"`{net['method']}` | {spread(net['gap'])}" if net else "none fits | -"
    return [
        f"| {table['name']} | {first} | {spread(twin[0]['gap'])} | "
        f"`{best['method']}` | {spread(best['gap'])} |"
    ]
