"""Runs one command, and turns its errors into a message and an exit code."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Sequence
from typing import TextIO

from tamis.cli import output
from tamis.cli.exit_codes import BUG, DISK_FAILED, ERROR, INTERRUPTED, OK, READER_GONE
from tamis.errors import QueryError, QueryWarning, TamisError, has_disk_failed

EXTRAS = {
    "sqlalchemy": "store",
    "alembic": "store",
    "pydantic": "store",
    "pydantic_settings": "store",
    "pyspark": "spark",
    "pyarrow": "spark",
    "pandas": "spark",
    "numpy": "spark",
    "selectolax": "adapters",
    "aiosmtplib": "notify",
    "psycopg": "postgres",
    "deltalake": "delta",
    "apprise": "chat",
    "argon2": "server",
    "uvloop": "server",
    "structlog": "server",
    "starlette": "server",
    "uvicorn": "server",
    "prometheus_client": "server",
    "pika": "client",
    "rich": "cli",
}
"""Top-level module -> the extra that installs it."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Args:
        arguments: without the program's name; None: those of the process.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    output.allow_any_text()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", QueryWarning)
            warnings.showwarning = _show_warning
            code = _call(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        output.abandon_stdout()
        return READER_GONE
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - every error is explained and gives an exit code
        return _explain(error, arguments)
    return code


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print the warnings of a query as lines for people, and any other warning as Python does."""
    if isinstance(message, QueryWarning):
        output.warning(str(message))
    else:
        (file or sys.stderr).write(warnings.formatwarning(message, category, filename, lineno, line))


def _call(arguments: list[str]) -> int:
    """Call the command; return its exit code, which is 0 if it returns none."""
    import typer

    from tamis.cli.app import build

    command = typer.main.get_command(build(arguments))
    try:
        with command.make_context("tamis", list(arguments)) as context:  # main() would take a broken pipe for an error
            result = command.invoke(context)
    except typer.Exit as ended:
        return ended.exit_code
    return result if isinstance(result, int) else OK


def _explain(error: Exception, arguments: list[str]) -> int:
    """Print an error in the user's terms; return the exit code."""
    import typer

    if isinstance(error, typer.TyperException):
        if not error.format_message():  # arguments are missing, and the help has been printed
            return ERROR
        output.error(
            error.format_message(), hint="`tamis --help` lists the commands, `tamis COMMAND --help` explains one"
        )
        return ERROR
    if isinstance(error, (TamisError, QueryError)):
        output.error(str(error))
        return DISK_FAILED if has_disk_failed(error) else ERROR
    if isinstance(error, OSError):
        output.abandon_stdout()  # it may have failed, and would fail again when it is flushed at exit
        output.error(_system_error(error))
        return DISK_FAILED if has_disk_failed(error) else ERROR
    if isinstance(error, ModuleNotFoundError) and (extra := EXTRAS.get((error.name or "").partition(".")[0])):
        output.error(f"this command needs the extra '{extra}'", hint=f"pip install 'tamis[{extra}]'")
        return ERROR
    return _bug(error, arguments)


def _system_error(error: OSError) -> str:
    """Describe an error of the operating system, with its file."""
    what = error.strerror or str(error)
    names = [os.fspath(name) for name in (error.filename, error.filename2) if isinstance(name, (str, os.PathLike))]
    if error.errno == errno.ENOSPC:
        where = f" for {names[0]}" if names else ""
        return f"{what}{where}: free some space and run it again; what was reported as done is done"
    return f"{names[0]}: {what}" if names else what


def _bug(error: Exception, arguments: list[str]) -> int:
    """Print an unexpected exception: one line, or with ``--debug`` its traceback."""
    if "--debug" in arguments:
        import traceback

        traceback.print_exception(error)
        return BUG
    line = (str(error).strip().splitlines() or [""])[0]
    output.error(
        f"this is a bug in tamis: {type(error).__name__}: {line}",
        hint="`tamis --debug ...` shows where; please report it with that",
    )
    return BUG
