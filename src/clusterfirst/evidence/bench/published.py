"""Costs that somebody else measured, as rows beside ours that are marked so.

A table with the columns method, seconds, instance, cost (and `measured`, the seconds
taken, if known). Nothing of it was run or judged here. As in `cmd:`, a first word
`search-free` of the method says under which heading it belongs.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from pathlib import Path

from clusterfirst.evidence.bench.rows import PUBLISHED, Row
from clusterfirst.evidence.bench.sets import BenchSet, Case
from clusterfirst.files.source import named, read_text
from clusterfirst.problem.errors import InputError, Problem, quote

COLUMNS = ("method", "seconds", "instance", "cost")


def read_published(path: Path, bench_set: BenchSet) -> list[Row]:
    """The rows of the table whose instance is in the set, by its name."""
    with named(path):
        text = read_text(path)
    cases = {case.instance.name: case for case in bench_set.cases}
    found: dict[tuple[str, float, str], Row] = {}
    for number, method, instance, values in _cells(path, text):
        seconds, cost, measured = values
        key = (method, seconds, instance)
        if key in found:
            rule = f"a second cost of {quote(instance)} for this method and time"
            raise _problem(path, number, method, rule)
        if instance in cases:
            found[key] = _row(bench_set.name, cases[instance], key, (cost, measured))
    if not found:
        rule = f"none of its instances is in the set {bench_set.name}"
        raise InputError(Problem("E404", "published", str(path), rule))
    return list(found.values())


Values = tuple[float, float, float]


def _cells(path: Path, text: str) -> Iterator[tuple[int, str, str, Values]]:
    """Line number, method, instance and numbers of each row; every cell checked."""
    try:
        reader = csv.DictReader(io.StringIO(text), strict=True)
        missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            rule = f"a table with the columns {', '.join(COLUMNS)} is needed"
            raise InputError(Problem("E311", "published", str(path), rule))
        for row in reader:
            method, instance = row["method"] or "", row["instance"] or ""
            if not method or not instance:
                raise _problem(path, reader.line_num, method, "a cell is empty")
            words = (row["seconds"], row["cost"], row.get("measured") or row["seconds"])
            try:
                seconds, cost, measured = (float(word or "") for word in words)
            except ValueError:
                seconds = cost = measured = math.nan
            if not all(0 < value < math.inf for value in (seconds, cost, measured)):
                rule = "seconds and cost must be numbers above 0"
                raise _problem(path, reader.line_num, method, rule)
            yield reader.line_num, method, instance, (seconds, cost, measured)
    except csv.Error as error:
        raise InputError(Problem("E311", "published", str(path), str(error))) from error


def _row(
    set_name: str, case: Case, key: tuple[str, float, str], found: tuple[float, float]
) -> Row:
    method, limit, instance = key
    return Row(
        set_name=set_name,
        instance=instance,
        customers=case.instance.num_customers,
        digest=case.digest,
        method=method,
        model="",
        limit=limit,
        seed=0,
        cores=1,
        engine=PUBLISHED,
        cost=found[0],
        vehicles=None,
        seconds=found[1],
        startup=0.0,
        gflops=0.0,
        reason="",
        at="",
        version="",
    )


def _problem(path: Path, line: int, got: str, rule: str) -> InputError:
    return InputError(Problem("E311", f"line {line}", got, rule), quote(str(path)))
