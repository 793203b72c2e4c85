"""`serve`: the service and its page."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from clusterfirst.commands import options
from clusterfirst.commands.console import say
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.machine import usable_cores


def serve(
    data: Annotated[
        Path, typer.Option(help="Folder of the database; made if it is missing.")
    ] = Path("clusterfirst-data"),
    host: Annotated[
        str,
        typer.Option(help="Address to listen on; others than 127.0.0.1 need a token."),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on.")
    ] = 8760,
    token_file: Annotated[
        Path | None,
        typer.Option(help="File with the token that every request has to bring."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, max=256, help="Processes that solve; by default one per core."
        ),
    ] = None,
    engine: options.Engine = "pool",
    max_bytes: Annotated[
        int, typer.Option(help="Refuse requests with more bytes than this.")
    ] = 10 << 20,
    max_customers: Annotated[
        int, typer.Option(help="Refuse plans with more customers than this.")
    ] = 20_000,
    max_seconds: Annotated[
        float, typer.Option(help="Refuse plans that ask for more seconds than this.")
    ] = 60.0,
    max_queue: Annotated[
        int, typer.Option(help="Refuse plans while this many are waiting.")
    ] = 100,
    keep_days: Annotated[
        float, typer.Option(help="Forget plans that are older than this many days.")
    ] = 30.0,
    basemap: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A street map for the page: a PMTiles file of vector tiles.",
        ),
    ] = None,
    backup: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Copy the database to this file, even while it is in use, and end.",
        ),
    ] = None,
) -> int:
    """Serve plans to other programs, and a page to people.

    The page is at http://127.0.0.1:8760/ and the interface under /v1 (docs/service.md).
    Needs the extra `serve`.
    """
    try:
        import uvicorn

        from clusterfirst.service.app import create_app
    except ImportError as error:
        rule = "it is not installed: pip install 'clusterfirst[serve]'"
        raise InputError(Problem("E422", "serve", error.name or "", rule)) from error
    from clusterfirst.files.lock import locked
    from clusterfirst.files.map_page import require_basemap
    from clusterfirst.service.settings import (
        ServiceLimits,
        ServiceSettings,
        listening,
        read_token,
        require_guarded,
    )
    from clusterfirst.service.store import Store
    from clusterfirst.solving.cluster import join_cluster, require_engine

    if backup is not None:
        return _back_up(data, backup)
    token = None if token_file is None else read_token(token_file)
    require_guarded(host, token)
    shown = None if basemap is None else require_basemap(basemap)
    limits = ServiceLimits(max_bytes, max_customers, max_seconds, max_queue, keep_days)
    count = workers or len(usable_cores())
    where = require_engine(engine)
    if where == "ray":
        join_cluster(count)
    # Two services would each run again what the other has under way.
    with locked(data), listening(host, port) as listener:
        Store(data).close()  # what is wrong with it is said here, in a sentence
        app = create_app(ServiceSettings(data, count, token, limits, shown, where))
        port = listener.getsockname()[1]
        at = f"[{host}]" if ":" in host else host
        say(f"clusterfirst: http://{at}:{port}/ with {count} workers; Ctrl-C ends it")
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=5,
        )
        with suppress(KeyboardInterrupt):  # a signal is how a service ends
            uvicorn.Server(config).run(sockets=[listener])
    return 0


def _back_up(data: Path, target: Path) -> int:
    from clusterfirst.files.outputs import Outputs
    from clusterfirst.service.store import FILE, Store

    if not (data / FILE).is_file():
        raise InputError(Problem("E102", "--data", str(data), "no database is there"))
    if target.exists():
        rule = "it is there already; name another file"
        raise InputError(Problem("E734", "--backup", str(target), rule))
    Outputs([data / FILE]).file(target)
    store = Store(data)
    try:
        store.backup(target)
    finally:
        store.close()
    say(f"wrote {target}")
    return 0
