"""Write log/README.md: every entry of the log, newest first.

    python log/index.py

An entry is a file DATE-what-was-asked.md: the question as its title, then command,
figure, load of the machine and what follows. Failures stay.
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
HEAD = """\
# Log of experiments

One dated file per question: what was tried, the command or script, the figure, the load
of the machine (two shared cores, fp32, no GPU), and what follows. Failures stay.
`python log/index.py` writes this list.

| date | question |
|---|---|
"""


def index() -> str:
    """The page, newest first."""
    rows = []
    for entry in sorted(HERE.glob("20*.md"), key=lambda p: (p.name[:10], p.name))[::-1]:
        title = entry.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        title = title.replace("|", "\\|")
        rows.append(f"| {entry.name[:10]} | [{title}]({entry.name}) |")
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    (HERE / "README.md").write_text(index(), encoding="utf-8")
