"""A plain CVRP beside the code that knew no limits yet: ratio of CPU seconds.

    python benchmarks/plain.py

Both answer the same day by equal counts, in turn, in processes of their own; the older
code is a work tree of the same repository and compiles its kernels first.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from machine import ROOT, facts

BEFORE = "ca61be3"  # the last commit whose solver knew no limits
# One plain day, searched by whichever code is on the path; the second turn counts.
PLAIN_DAY = """
import json, time
import numpy as np
from clusterfirst import Instance, SolveOptions, solve
rng = np.random.default_rng(26)
day = Instance(np.r_[0, rng.integers(1, 10, 500)], 50, coords=rng.random((501, 2)))
for _ in range(2):
    begin = time.process_time()
    found = solve(day, SolveOptions("savings", iterations=100_000, threads=1))
    spent = time.process_time() - begin
print(json.dumps([spent, found.verdict.cost]))
"""


def main(turns: int = 5) -> None:
    """A plain CVRP today and by the code before limits: ratio of CPU seconds."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        old = Path(folder) / "old"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", old, BEFORE], check=True)
        try:
            for turn in range(turns + 1):  # the first one compiles
                row: dict[str, Any] = {}
                for name, root in (("before", old), ("today", ROOT)):
                    here = {**os.environ, "PYTHONPATH": str(root / "src")}
                    said = subprocess.run(
                        [sys.executable, "-c", PLAIN_DAY],
                        env=here, check=True, capture_output=True, cwd=folder,
                    )  # fmt: skip
                    row[f"{name}_cpu"], row[name] = json.loads(said.stdout)
                print(json.dumps(row), flush=True)
                rows += [row] if turn else []
        finally:
            subprocess.run([*git, "remove", "--force", old], check=True)
    path = ROOT / "benchmarks" / "results" / "dispatch-plain.json"
    path.write_text(
        json.dumps({**facts(), "before_commit": BEFORE, "rows": rows}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
