"""Keep the costs of the long HGS runs that tables are measured against.

    python benchmarks/references.py [TABLE ...]

CVRP100, CVRP1000 and Belem come without references, and HGS needs 55 core-minutes for
them. Their costs are kept in benchmarks/references (instance, cost), which `tables.py`
then names instead of running HGS again. Runs that are in the cache are not repeated; a
file that exists is left alone: remove it first.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from clusterfirst.bench.sets import SetRequest, open_set, with_references
from machine import ROOT
from tables import KEPT, TABLES, Table, kept_references


def keep(table: Table, path: Path) -> None:
    """Write the costs of all instances that any table of the set uses."""
    part = table.part("alone")
    assert part is not None  # every set has that one
    cases = open_set(table.name, SetRequest(0, part.count))
    found = with_references(cases, table.references, _tell)
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("instance", "cost"))
        rows.writerows(
            (case.instance.name, repr(case.reference)) for case in found.cases
        )
    print(f"{path.relative_to(ROOT)}: {len(found.cases)} costs")


def _tell(done: int, of: int) -> None:
    print(f"{done} of {of}", file=sys.stderr, flush=True)


def main() -> None:
    """Make the files that are missing."""
    KEPT.mkdir(exist_ok=True)
    for table in TABLES:
        wanted = not sys.argv[1:] or table.name in sys.argv[1:]
        path = kept_references(table)
        if wanted and table.references and not path.exists():
            keep(table, path)


if __name__ == "__main__":
    main()
