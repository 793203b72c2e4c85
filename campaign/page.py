"""docs/reliability.md from what is on record in campaign/results.

python campaign/page.py
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from record import RESULTS, ROOT

PAGE = ROOT / "docs" / "reliability.md"
# In the order of the page; each is a script of this folder.
PROMISES = ("answers", "files", "kills", "limits", "models", "symmetries", "rest")
TENTH = 0.1  # of a full count: the least to call a promise tried

HEAD = """# What was tried, and how often it failed

Every promise below has a script in `campaign/` that tries to break it. The figures are
those on record in `campaign/results`; nothing is written here by hand. A case depends
on its number alone, so that anyone can run a failed one again:

    make campaign                                   # goes on where it stopped; hours
    python campaign/answers.py --count 1000         # 1,000 more cases of one promise
    python campaign/answers.py --again              # those that failed, once more
    python campaign/answers.py --repeat 1000        # the first 1,000 with today's code

A kill loses at most ten seconds of it. "Reached" counts cases at any commit since the
campaign began; the last column says which.
"""


def page(results: Path) -> str:
    """The page as text."""
    records = {name: _read(results / f"{name}.json") for name in PROMISES}
    lines = [HEAD, "| promise | reached | of | failures on record | at |"]
    lines += ["|---|---:|---:|---:|---|"]
    for name, record in records.items():
        if record is None:
            lines.append(f"| [{name}](#{name}) | 0 | | | not begun |")
            continue
        lines.append(
            f"| [{name}](#{name}) | {record['done']:,} | {record['full']:,} | "
            f"{len(record['failures'])} | {_when(record)} |"
        )
    for name, record in records.items():
        if record is not None:
            lines += ["", *_section(name, record)]
    return "\n".join(lines) + "\n"


def _read(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _when(record: dict[str, Any]) -> str:
    slices = record["slices"]
    if not slices:
        return ""
    commits = dict.fromkeys(one["commit"] for one in slices)
    shown = ", ".join(f"`{commit}`" for commit in list(commits)[-3:])
    return f"{slices[-1]['date']}, {shown}"


def _section(name: str, record: dict[str, Any]) -> list[str]:
    done, full = record["done"], record["full"]
    lines = [f"## {name}", "", record["claim"], ""]
    share = f"{done:,} of {full:,} {record['unit']}"
    if done < TENTH * full:
        share += ": less than a tenth, not enough to call it tried"
    seconds = sum(one["seconds"] for one in record["slices"])
    loads = [one["load"] for one in record["slices"]]
    busy = f", load average {min(loads):g} to {max(loads):g}" if loads else ""
    lines.append(f"{share}, in {seconds / 3600:.1f} hours{busy}.")
    found, mended = record.get("failed", 0), _mended(record)
    if found:
        cases = ", ".join(str(case) for case in sorted(mended))
        again = f" (run again: {cases})" if mended else ""
        lines.append(
            f"{found} failed when first run; {len(record['failures'])} still do{again}."
        )
    if record["counts"]:
        lines += ["", f"What came out: {_counts(record['counts'], mended)}."]
    for one in record.get("repeated", []):
        lines += [
            "",
            f"{one['cases']:,} of the first {one['to']:,} once more at "
            f"`{one['commit']}` ({one['date']}): {_counts(one['counts'], {})}.",
        ]
    if record["values"]:
        lines += [
            "",
            "| measured | n | median | p99 | most |",
            "|---|---:|---:|---:|---:|",
        ]
        for what, values in sorted(record["values"].items()):
            lines.append(f"| {what} | {len(values):,} | {_summary(values)} |")
    for failure in record["failures"][:20]:
        what = failure["what"].replace("|", "/").replace("\n", " ")
        lines += ["", f"- case {failure['case']}: {what[:200]}"]
    return lines


def _mended(record: dict[str, Any]) -> dict[int, dict[str, int]]:
    """What came out of the cases that hold only since they were run again."""
    again = record.get("again", [])
    return {one["case"]: one["counts"] for one in again if one["mended"]}


def _counts(counts: dict[str, int], mended: dict[int, dict[str, int]]) -> str:
    """Each word with its count, and how many of it took a second run."""
    later: Counter[str] = Counter()
    for case in mended.values():
        later.update(case)
    shown = (
        f"{word} {n:,}"
        + (f" ({later[word]} only when run again)" if later[word] else "")
        for word, n in sorted(counts.items())
        if n
    )
    return ", ".join(shown)


def _summary(values: list[float]) -> str:
    ordered = sorted(values)
    high = ordered[min(len(ordered) - 1, math.ceil(0.99 * len(ordered)) - 1)]
    return f"{statistics.median(ordered):.3g} | {high:.3g} | {ordered[-1]:.3g}"


if __name__ == "__main__":
    PAGE.write_text(page(RESULTS), encoding="utf-8")
