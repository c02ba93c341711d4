"""Writes docs/commands.md, a page of every command of `tamis`, from the commands themselves."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from tamis.cli.app import build

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "commands.md"
HEAD = """\
# Every command

`tamis COMMAND --help` prints the same. This page is written from the commands by `make commands`; a test compares it.

Two options stand before the command: `tamis --version` prints the version, and `tamis --debug COMMAND ...` shows the
traceback of an unexpected error.

| exit code | of every command |
|---|---|
| 0 | it is done |
| 1 | nothing was found, where the command says so below |
| 2 | an error, which is explained on stderr |
| 70 | a bug of tamis |
| 74 | the disk failed |
| 130 | Ctrl-C interrupted it |
| 141 | the program that reads its output has ended, as in `tamis match ... \\| head -1` |

`run`, `serve`, `consume`, `tail` and `stream tail` end in order after Ctrl-C, with the exit codes that are named below.
"""


def page() -> str:
    """Return the page: a chapter for each command."""
    root: Any = typer.main.get_command(build([]))
    return "\n".join([HEAD, *(part for name in root.commands for part in _command(root.commands[name], name))])


def _command(command: Any, name: str, depth: int = 2) -> Iterator[str]:
    """Yield the parts of a command: its help, its arguments and options, and then its own commands."""
    context = command.make_context(f"tamis {name}", [], resilient_parsing=True)
    yield f"{'#' * depth} tamis {name}\n"
    if usage := " ".join(command.collect_usage_pieces(context)):
        yield f"```text\ntamis {name} {usage}\n```\n"
    yield _text(command.help or "") + "\n"
    rows = [row for parameter in command.params if (row := _row(parameter, context))]
    if rows:
        yield "| argument or option | meaning |\n|---|---|\n" + "\n".join(rows) + "\n"
    for inner in getattr(command, "commands", {}):
        yield from _command(command.commands[inner], f"{name} {inner}", depth + 1)


def _text(text: str) -> str:
    """Return a help text as Markdown."""
    return re.sub(r"[ \t]+\n", "\n", inspect.cleandoc(text.replace("\b", ""))).strip()


def _row(parameter: Any, context: Any) -> str | None:
    """Return the line of the table for an argument or option; None for one without help."""
    record = parameter.get_help_record(context)
    if record is None or parameter.name == "help":
        return None
    name, meaning = (" ".join(text.split()).replace("|", "\\|") for text in record)
    return f"| `{name}` | {meaning.replace('<', '&lt;').replace('*', '&#42;')} |"


def write() -> None:
    """Write the page."""
    DOCUMENT.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write()
