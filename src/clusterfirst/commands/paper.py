"""`paper`: the paper's tables and figures again, its numbers beside ours."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterfirst.commands import options
from clusterfirst.commands.console import ProgressLine, emit, emit_json, say
from clusterfirst.problem.errors import (
    INTERRUPTED,
    InputError,
    Problem,
    require_one_of,
)

if TYPE_CHECKING:
    from clusterfirst.evidence.paper.page import Page

ALL = "all"


def paper(
    tables: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE",
            help="main-a, main-b, sizes, one-layer, ablation, fleet, sweep, plan, "
            "mip-gap, histogram, pictures, or all.",
        ),
    ],
    scale: Annotated[
        str,
        typer.Option(
            help="small: minutes; full: as many instances and seconds as the paper, "
            "and the estimated hours first."
        ),
    ] = "small",
    instances: Annotated[
        int | None, typer.Option(help="Use at most this many instances of each set.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FOLDER",
            help="Weights for the rows of NAME, such as city-xy-one-layer=DIR; may be "
            "repeated. By default the shipped model of that name.",
        ),
    ] = None,
    data: options.Data = None,
    out: Annotated[
        Path, typer.Option(help="Folder for the results; run again to resume.")
    ] = Path("out/paper"),
    as_json: options.Json = False,
) -> int:
    """Repeat tables and figures of the paper, ours beside the printed numbers.

    Search-free, as the paper decodes: network, transport plan, exact / sparse / hard
    assignment, tours; every answer is judged. Rows whose weights do not exist yet say
    so. Writes TABLE.txt, .csv, .json and pictures into --out. Ctrl-C loses nothing:
    finished cells are printed and kept, and the same command resumes.
    """
    from clusterfirst.evidence.paper.instances import Sets, scale_of
    from clusterfirst.evidence.paper.runs import Runs
    from clusterfirst.evidence.paper.tables import TABLES
    from clusterfirst.evidence.paper.variants import Models
    from clusterfirst.files.lock import locked

    wanted = list(TABLES) if ALL in tables else list(dict.fromkeys(tables))
    for name in wanted:
        require_one_of("TABLE", name, [*TABLES, ALL])
    size = scale_of(scale, instances)
    sets = Sets(size, data, say, ProgressLine(at_once=True))
    runs = Runs(size, sets, Models(_folders(model)), out, say)
    pages: list[Page] = []
    try:
        with locked(out):
            runs.claim(wanted)
            for name in wanted:
                if runs.interrupted:
                    break
                pages.append(TABLES[name](runs))
                _deliver(pages[-1], out, as_json)
    except KeyboardInterrupt:  # outside the runs, which see to it themselves
        runs.interrupted = True
    if as_json:
        emit_json({"results": [page.document() for page in pages]})
    if runs.interrupted:
        say(f"finished runs are kept in {out}; run the same command again to resume")
        return INTERRUPTED
    return 0


def _deliver(page: Page, out: Path, as_json: bool) -> None:
    """Write the files of a table; print it unless a document will hold them all."""
    from clusterfirst.evidence.paper.page import text, write_page

    written = write_page(out, page)
    if not as_json:
        emit(text(page, _width(), colour=sys.stdout.isatty()))
    say(f"wrote {', '.join(str(path) for path in [*written, *page.pictures])}")


def _folders(given: list[str] | None) -> dict[str, Path]:
    """NAME=FOLDER, each name once."""
    found: dict[str, Path] = {}
    for word in given or []:
        name, equals, folder = word.partition("=")
        if not (name and equals and folder):
            rule = "NAME=FOLDER is needed"
            raise InputError(Problem("E400", "--model", word, rule))
        found[name] = Path(folder)
    return found


def _width() -> int | None:
    """Characters of a line of the terminal; None into a file or pipe."""
    import shutil

    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
