"""`warm-up` and `demo`: what a new installation does first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from clusterfirst.commands import options
from clusterfirst.commands.answers import summary
from clusterfirst.commands.console import emit
from clusterfirst.commands.solving import compiled, refuse_contradictions, warmed


def warm_up(
    method: options.Method = None,
    model: options.Model = None,
    polish: options.Polish = None,
) -> int:
    """Compile, on all cores, what `solve` with the same options runs.

    The first solve after an installation would do the same.
    """
    from clusterfirst.solving.solver import SolveOptions

    refuse_contradictions(model, method, False)
    chosen = "neural" if model is not None else method
    given = {"method": chosen, "model": model, "polish": polish}
    settings = SolveOptions(**{k: v for k, v in given.items() if v is not None})  # type: ignore[arg-type]  # each has its type
    emit(f"ready after {compiled(settings):.1f} s")
    return 0


def demo(
    out: Annotated[Path, typer.Option(help="The picture to draw.")] = Path(
        "out/demo.png"
    ),
) -> int:
    """Solve the bundled day of the bundled city and draw it."""
    from clusterfirst.files import BUNDLED_ORDERS, bundled_city, read_orders
    from clusterfirst.files.atomic import make_folder
    from clusterfirst.files.outputs import Outputs
    from clusterfirst.files.picture import write_picture
    from clusterfirst.solving.solver import SolveOptions
    from clusterfirst.solving.solver import solve as solve_instance

    make_folder(out.parent)
    Outputs().file(out)
    day = read_orders(BUNDLED_ORDERS, bundled_city()).replace(name="bundled day")
    startup = warmed(day, SolveOptions())
    result = solve_instance(day, SolveOptions())
    result = replace(result, startup=startup + result.startup)
    write_picture(out, day, result.solution)
    emit(summary(result))
    emit(f"drew {out}")
    return 0
