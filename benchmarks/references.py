"""Keep the costs of the long HGS runs that tables are measured against.

    python benchmarks/references.py [TABLE ...]

CVRP100, CVRP1000 and Belem come without references, and HGS needs 55 core-minutes for
them. Their costs are kept in benchmarks/references (instance, cost), which `tables.py`
then names instead of running HGS again. Runs that are in the cache are not repeated; a
file that exists is left alone: remove it first.
"""

from __future__ import annotations

import sys
from pathlib import Path

from clusterfirst.evidence.bench.sets import SetRequest, open_set, with_references
from clusterfirst.files.atomic import write_text
from machine import ROOT
from tables import KEPT, TABLES, Table, kept_references


def keep(table: Table, path: Path) -> None:
    """Write the costs of all instances that any table of the set uses."""
    part = table.part("alone")
    assert part is not None  # every set has that one
    cases = open_set(table.name, SetRequest(0, part.count))
    found = with_references(cases, table.references, _tell)
    lines = [f"{case.instance.name},{case.reference!r}\n" for case in found.cases]
    write_text(path, "".join(["instance,cost\n", *lines]))
    print(f"{path.relative_to(ROOT)}: {len(found.cases)} costs")


def _tell(done: int, of: int) -> None:
    print(f"{done} of {of}", file=sys.stderr, flush=True)


def main() -> None:
    """Make the files that are missing."""
    wanting = {table.name: table for table in TABLES if table.references}
    for name in sys.argv[1:] or wanting:
        if name not in wanting:
            sys.exit(f"{name}: the sets without references are {', '.join(wanting)}")
        path = kept_references(wanting[name])
        if not path.exists():
            KEPT.mkdir(exist_ok=True)
            keep(wanting[name], path)


if __name__ == "__main__":
    main()
