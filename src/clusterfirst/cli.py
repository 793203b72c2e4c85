"""The command line: `main(argv) -> int` around a typer app.

Exit codes: 0 done; 1 no feasible solution, and in words whether that is proven or
none was found in time; 2 wrong input, usage, model file or disk; 130 interrupted.
Under --json an error is a document too: {"error": {"code": ..., "message": ...}}.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

import typer

from clusterfirst import __version__
from clusterfirst.commands.benchmarking import bench
from clusterfirst.commands.cities import city_app, sample
from clusterfirst.commands.console import (
    emit,
    emit_json,
    error_document,
    say,
    say_error,
    warnings_as_lines,
)
from clusterfirst.commands.explaining import explain, models
from clusterfirst.commands.first_use import demo, warm_up
from clusterfirst.commands.judging import check, export
from clusterfirst.commands.labelling import label, labels_app
from clusterfirst.commands.learning import learn, pretrain, train
from clusterfirst.commands.likely_days import forecast, quote
from clusterfirst.commands.paper import paper
from clusterfirst.commands.serving import serve
from clusterfirst.commands.solving import solve
from clusterfirst.commands.territories import territories
from clusterfirst.commands.versions import versions
from clusterfirst.problem.errors import (
    INTERRUPTED,
    ClusterfirstError,
    InputError,
    Problem,
)
from clusterfirst.problem.errors import quote as quoted

BROKEN_PIPE = 141  # as a shell reports a program that nobody listens to any more
app = typer.Typer(
    name="clusterfirst",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: quick, and the same in docs/cli.md
)
app.command()(solve)
app.command()(check)
app.add_typer(city_app, name="city")
app.command()(sample)
app.command()(quote)
app.command()(forecast)
app.command()(territories)
app.command()(export)
app.command("plot", hidden=True)(export)  # what people type for a picture
app.command()(explain)
app.command()(models)
app.command()(demo)
app.command()(warm_up)
app.command()(label)
app.add_typer(labels_app, name="labels")
app.command()(pretrain)
app.command()(train)
app.command()(learn)
app.command()(bench)
app.command()(paper)
app.command()(serve)
app.command()(versions)


def _print_version(wanted: bool) -> None:
    if wanted:
        emit(f"clusterfirst {__version__}")
        raise typer.Exit


@app.callback()
def options_of_all(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Routes for your city in seconds: cluster first, route second."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; never a traceback."""
    args = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    _open_standard_streams()
    with warnings_as_lines():
        try:
            _refuse_lost_answers(args)
            code = app(args=args, prog_name="clusterfirst", standalone_mode=False)
            sys.stdout.flush()
        except (BrokenPipeError, SystemExit):  # typer exits when a pipe breaks
            return _leave_quietly()
        except ClusterfirstError as error:
            return _fail(error, args)
        except typer.TyperException as error:
            return _fail(InputError(_usage_problem(error, args)), args)
        except OSError as error:  # what no reader or writer has put into words
            where = quoted(str(error.filename or "file"))
            rule = f"cannot be used: {error.strerror or error}"
            return _fail(InputError(Problem("E102", where, rule=rule)), args)
        except MemoryError:
            problem = Problem("E733", "memory", rule="there is not enough of it")
            return _fail(InputError(problem), args)
        except Exception as error:  # a bug: say so in one line, details on request
            if os.environ.get("CLUSTERFIRST_TRACEBACK"):
                traceback.print_exc()
            rule = "this is a bug; CLUSTERFIRST_TRACEBACK=1 shows where"
            problem = Problem("E999", type(error).__name__, str(error), rule)
            return _fail(InputError(problem), args)
    if code == INTERRUPTED:
        say("clusterfirst: interrupted")
    return int(code or 0)


def _open_standard_streams() -> None:
    """Let no file get number 0, 1 or 2: libraries write there what they have to say."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(handle)


def _refuse_lost_answers(args: Sequence[str]) -> None:
    """Name what makes answers go nowhere, or where nobody meant, before the work."""
    if sys.stdout is None:  # closed by the shell: >&-
        rule = "it is closed; open it, or send it to /dev/null"
        raise InputError(Problem("E731", "standard output", rule=rule))
    if "--out=" in args or ("--out", "") in pairwise(args):
        rule = "a file or folder is needed; the current folder is a dot"
        raise InputError(Problem("E404", "--out", "nothing", rule))


def _usage_problem(error: typer.TyperException, args: Sequence[str]) -> Problem:
    """Name the option and what was typed after it, which typer leaves out."""
    text = error.format_message()
    match = re.fullmatch(r"Invalid value for '(--[\w-]+)': (.*)", text, re.DOTALL)
    if match is None:
        return Problem("E400", "usage", rule=text)
    option, rule = match.groups()
    words = [word for arg in args for word in arg.split("=", maxsplit=1)]
    typed = words[words.index(option) + 1] if option in words[:-1] else ""
    return Problem("E400", option, typed, rule)


def _fail(error: ClusterfirstError, args: Sequence[str]) -> int:
    say_error(error)
    if "--json" in args and sys.stdout is not None:
        emit_json(error_document(error))
    return error.exit_code


def _leave_quietly() -> int:
    """Let nobody flush into the broken pipe when Python ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    return BROKEN_PIPE
