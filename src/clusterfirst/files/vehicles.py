"""The table of vehicles: a row per kind, missing columns and empty cells no limit."""

from __future__ import annotations

import os

import numpy as np

from clusterfirst.files.csv_files import amount_column
from clusterfirst.files.source import (
    DEFAULT_LIMITS,
    Complaints,
    Limits,
    named,
    plain_number,
)
from clusterfirst.files.tables import Table, parse_table, table_text
from clusterfirst.problem.fleet import BoolArray, Fleet

# Columns, and what an empty cell means.
AMOUNTS = {
    "count": 1.0,
    "max_stops": np.inf,
    "max_distance": np.inf,
    "max_duration": np.inf,
    "fixed_cost": 0.0,
}
YES = ("yes", "true", "1", "y")
NO = ("no", "false", "0", "n")


def read_fleet(path: str | os.PathLike[str], limits: Limits = DEFAULT_LIMITS) -> Fleet:
    """Return the vehicles of a .csv or .xlsx table."""
    with named(path):
        return parse_fleet(table_text(path, limits))


def parse_fleet(text: str) -> Fleet:
    """Return the vehicles in CSV text; every wrong line is named."""
    table = parse_table(text, [("name", "capacity")])
    wrong = Complaints()
    capacities = table.numbers("capacity", wrong)
    for line, cell in zip(table.lines(), table.digits("capacity"), strict=True):
        if plain_number(cell) is not None:
            wrong.require_exact(cell, f"line {line} capacity")
    amounts = {
        name: np.array(amount_column(table, name, empty, wrong))
        for name, empty in AMOUNTS.items()
        if name in table.columns
    }
    optional = _optional(table, wrong)
    wrong.stop_if_wrong()
    counts = amounts.pop("count", np.ones(len(capacities)))
    return Fleet(
        tuple(table.column("name")),
        np.array(capacities),
        counts,
        optional=optional,
        **amounts,
    )


def _optional(table: Table, wrong: Complaints) -> BoolArray:
    if "optional" not in table.columns:
        return np.ones(len(table.rows), dtype=np.bool_)
    words = [cell.lower() or "yes" for cell in table.column("optional")]
    for line, word in zip(table.lines(), words, strict=True):
        if word not in YES + NO:
            rule = "yes (it may stay at home) or no is needed"
            wrong.complain("E313", f"line {line} optional", word, rule)
    return np.array([word in YES for word in words], dtype=np.bool_)
