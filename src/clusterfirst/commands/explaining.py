"""`explain` and `models`: look inside a solution, and at the models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clusterfirst.commands import options
from clusterfirst.commands.console import emit, emit_json, say, say_error, write_forms
from clusterfirst.commands.reading import Reader, folders_read, with_reader
from clusterfirst.problem.errors import (
    ClusterfirstError,
    InputError,
    Problem,
    require_one_of,
)

if TYPE_CHECKING:
    from clusterfirst.networks.model_folder import Model
    from clusterfirst.problem.instance import Instance
    from clusterfirst.problem.solution import Solution
    from clusterfirst.solving.explaining.explain import Explanation

TABLES = (".csv", ".json")
PICTURES = (".png", ".svg")
NEW_LOCATIONS = ("refuse", "nearest")

ModelName = Annotated[
    str | None,
    typer.Option("--model", help="Name of a shipped model, or a model folder."),
]
NewLocations = Annotated[
    str,
    typer.Option(
        help="What a model does with locations it does not know: refuse, or nearest "
        "(use its nearest known one)."
    ),
]


@with_reader
def explain(
    instance_file: options.InstanceFile,
    reader: Reader,
    solution_file: Annotated[
        Path | None,
        typer.Argument(
            metavar="SOLUTION",
            help="The solution (.sol, .json, stops as .csv or .xlsx); without it the "
            "instance is solved first.",
        ),
    ] = None,
    customer: Annotated[
        str | None,
        typer.Option(help="Explain this order in five sentences."),
    ] = None,
    model: ModelName = None,
    new_locations: NewLocations = "refuse",
    out: Annotated[
        list[Path] | None,
        typer.Option(
            help="A .csv or .json table, or a .png or .svg picture; may be repeated."
        ),
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Show why each customer is on its vehicle, and what moving it would cost.

    One row per customer, cheapest move first: the vehicle it got, the next best one,
    the change of the total length if it moved there, and whether it fits. A model
    adds seeds, latent distances and the shares of the transport plan. With --customer,
    five sentences about one order, its limits and every other vehicle.
    """
    from clusterfirst.files.outputs import Outputs
    from clusterfirst.solving.explaining.explain import explain as explain_solution
    from clusterfirst.solving.explaining.picture import draw_explanation

    targets = [] if out is None else out
    if customer is not None and (targets or model is not None):
        rule = "--customer prints sentences; leave --out and --model out"
        raise InputError(Problem("E404", "--customer", customer, rule))
    for target in targets:
        if target.suffix.lower() not in TABLES + PICTURES:
            rule = f"a file that ends in {', '.join(TABLES + PICTURES)} is needed"
            raise InputError(Problem("E404", "--out", str(target), rule))
    require_one_of("--new-locations", new_locations, NEW_LOCATIONS)
    read = [path for path in (instance_file, solution_file) if path is not None]
    read += reader.files.paths
    outputs = Outputs([*read, *folders_read(reader.city_name, model)])
    for target in targets:
        outputs.file(target)
    instance = reader.instance(instance_file)
    if solution_file is not None:
        solution, _ = reader.solution(solution_file, instance)
    else:
        solution = _solved(instance, model, new_locations)
    if customer is not None:
        return _one(instance, solution, customer, as_json)
    borrow = new_locations == "nearest"
    explanation = explain_solution(instance, solution, model, borrow=borrow)
    code = write_forms(
        targets,
        figure=lambda: draw_explanation(explanation),
        table=explanation.as_csv,
        document=explanation.as_dict,
    )
    if as_json:
        emit_json(explanation.as_dict())
    elif not targets:
        emit(_table(explanation))
    say(explanation.summary())
    return code


def _one(instance: Instance, solution: Solution, customer: str, as_json: bool) -> int:
    """Five sentences about one order."""
    from clusterfirst.solving.explaining.customer import why

    reasons = why(instance, solution, customer)
    if as_json:
        emit_json(reasons.as_dict())
    else:
        emit("\n".join(reasons.sentences))
    return 0


def _solved(instance: Instance, model: str | None, new_locations: str) -> Solution:
    """Routes of our own: the model's, or without one those of `solve`."""
    from clusterfirst.solving.solver import SolveOptions, solve

    if model is None:
        return solve(instance).solution
    options = SolveOptions("neural", model=model, new_locations=new_locations)
    return solve(instance, options).solution


def _table(explanation: Explanation) -> str:
    """The rows in columns, for a person to read."""
    rows = explanation.rows()
    if not rows:
        return "no customers"
    cells = [[_cell(value) for value in row.values()] for row in rows]
    names = [name.replace("_", " ") for name in rows[0]]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    return "\n".join(
        "  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True))
        for line in (names, *cells)
    )


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
    return str(value)


def models(
    folders: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL", help="Names or folders; by default all shipped models."
        ),
    ] = None,
    as_json: options.Json = False,
) -> int:
    """List models and verify them: hashes, shapes, and that every number is finite.

    Exit code 0 means that all of them are sound, 2 that one is not.
    """
    from clusterfirst.networks.model_folder import (
        all_training,
        find_model,
        read_model,
        shipped,
    )

    code, documents = 0, []
    for name in folders if folders else shipped():
        try:
            facts = _facts(read_model(find_model(name)))
        except ClusterfirstError as error:
            code = error.exit_code
            facts = {"name": name, "problem": str(error.problems[0])}
            if not as_json:
                say_error(error)
        documents.append(facts)
    if as_json:
        emit_json({"models": documents})
    elif not documents:
        say("no models come with this package; train one, or name a folder")
    for facts in documents:
        if not as_json and "problem" not in facts:
            passes, _ = all_training(facts.pop("provenance"))
            facts["passes"] = passes or "unknown"
            emit("  ".join(f"{key} {value}" for key, value in facts.items()))
    return code


def _facts(model: Model) -> dict[str, Any]:
    config = model.config
    facts: dict[str, Any] = {
        "name": model.name,
        "input": config.input,
        "layers": f"{config.seed_layers}+{config.cluster_layers}",
        "parameters": model.num_parameters(),
        "city": "any" if model.city is None else model.city.name or "unnamed",
    }
    if model.city is not None:
        facts["locations"] = model.city.num_locations
        facts["city_hash"] = model.city.hash[:12]
    return facts | {"provenance": model.provenance}
