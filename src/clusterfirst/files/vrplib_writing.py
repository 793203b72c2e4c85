"""Writing CVRPLIB instances (.vrp) so that every number reads back exactly."""

from __future__ import annotations

from collections.abc import Sequence

from clusterfirst.files.source import check_title, warn
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import Instance


def format_vrp(instance: Instance) -> str:
    """Return the text of a .vrp file; what the format cannot hold is named."""
    if instance.metric == "greatcircle":
        rule = "a .vrp file has no distances on the globe; write .json"
        raise InputError(Problem("E151", "metric", instance.metric, rule))
    check_title(instance.name, "name")
    _warn_of_loss(instance)
    size = instance.num_customers + 1
    explicit = instance.matrix is not None
    lines = [
        f"NAME : {instance.name}",
        "COMMENT : written by clusterfirst",
        "TYPE : CVRP",
        f"DIMENSION : {size}",
        f"EDGE_WEIGHT_TYPE : {'EXPLICIT' if explicit else 'EUC_2D'}",
    ]
    if explicit:
        form = "LOWER_ROW" if instance.symmetric else "FULL_MATRIX"
        lines.append(f"EDGE_WEIGHT_FORMAT : {form}")
    lines.append(f"CAPACITY : {plain_text(instance.capacity)}")
    if instance.vehicles is not None:
        lines.append(f"VEHICLES : {instance.vehicles}")
    if instance.coords is not None:
        lines.append("NODE_COORD_SECTION")
        lines += _table(instance.coords.tolist())
    if instance.matrix is not None:
        lines.append("EDGE_WEIGHT_SECTION")
        for i in range(1 if instance.symmetric else 0, size):
            row = instance.matrix[i, : i if instance.symmetric else size].tolist()
            lines.append(" ".join(plain_text(value) for value in row))
    lines.append("DEMAND_SECTION")
    lines += _table([[value] for value in instance.demands.tolist()])
    lines += ["DEPOT_SECTION", "1", "-1", "EOF", ""]
    return "\n".join(lines)


def plain_text(value: float) -> str:
    """Return a number that reads back exactly, whole ones without a point."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _table(rows: Sequence[Sequence[float]]) -> list[str]:
    return [
        f"{i} {' '.join(plain_text(value) for value in row)}"
        for i, row in enumerate(rows, start=1)
    ]


def _warn_of_loss(instance: Instance) -> None:
    own_ids = instance.ids != tuple(map(str, range(instance.num_customers + 1)))
    lost = [
        what
        for what, there in (
            ("ids", own_ids),
            ("city rows", instance.city_rows is not None),
            ("vehicles and limits", instance.constraints is not None),
            ("columns", bool(instance.columns)),
            (f"rounding '{instance.rounding}'", instance.rounding != "none"),
        )
        if there
    ]
    if lost:
        rule = "a .vrp file cannot hold this: left out (.json can)"
        warn(Problem("W151", "instance", ", ".join(lost), rule))
