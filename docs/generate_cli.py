"""Write docs/cli.md from the commands themselves; a test compares the two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer.core import TyperGroup
from typer.main import get_command

from clusterfirst.cli import app

PAGE = Path(__file__).parent / "cli.md"
HEAD = """\
# Command line

<!-- Made by `make docs` from the commands themselves. Do not edit. -->

Data goes to stdout, words to stderr. `--json` prints one document: of one instance
its answer, of several `{"results": [...]}`, of a failure
`{"error": {"code", "where", "got", "rule", "message"}, "problems": [...]}`. The codes
are listed in [errors.md](errors.md), the files in [formats.md](formats.md), and each
command's twin in Python in [python-api.md](python-api.md).

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | no feasible solution: proven, or none found in time, and the message says which |
| 2 | wrong input, usage, model file or disk |
| 130 | interrupted (Ctrl-C, `kill`) |
| 141 | the reader of the output went away, as in `... \\| head` |

`clusterfirst check` ends with 0 if the solution is feasible, 1 if it is not and 2 if
a file cannot be read.
"""


def commands() -> dict[str, Any]:
    """Every command under the words one types: "solve", "city init", ..."""
    found: dict[str, Any] = {}
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    for name, command in group.commands.items():
        inner = getattr(command, "commands", {})
        for other, sub_command in inner.items():
            found[f"{name} {other}"] = sub_command
        if not inner and not command.hidden:
            found[name] = command
    return found


def is_option(parameter: Any) -> bool:
    """Whether it starts with dashes; otherwise it is an argument."""
    return str(parameter.opts[0]).startswith("-")


def usage(words: str, parameters: list[Any]) -> str:
    """The line that shows how the command is typed; what is optional is bracketed."""
    parts = ["clusterfirst", words]
    for parameter in parameters:
        if not is_option(parameter):
            parts.append(parameter.metavar + ("..." if parameter.nargs == -1 else ""))
        elif parameter.required:
            value = parameter.name.upper()
            parts.append(f"{parameter.opts[0]} {value}")
    return " ".join([*parts, "[OPTIONS]"])


def row(parameter: Any) -> str:
    """A row of the table of options."""
    name = parameter.opts[0] if is_option(parameter) else parameter.metavar
    shown = parameter.default is not None and parameter.default is not False
    default = f"`{parameter.default}`" if shown else ""
    text = parameter.help.replace("|", "\\|")
    return f"| `{name}` | {text} | {'needed' if parameter.required else default} |"


def section(words: str, command: Any) -> str:
    """The part of the page about one command."""
    parameters = [p for p in command.params if p.name != "help"]
    rows = "\n".join(row(parameter) for parameter in parameters)
    table = f"\n| | | default |\n|---|---|---|\n{rows}\n" if rows else ""
    line = usage(words, parameters)
    return f"## {words}\n\n```text\n{line}\n```\n\n{command.help}\n{table}"


def page() -> str:
    """The whole of docs/cli.md."""
    parts = [section(words, command) for words, command in commands().items()]
    return "\n".join([HEAD, *parts])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
