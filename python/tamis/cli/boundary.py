"""Where errors become one message and an exit code. Nothing behind it prints a traceback."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

from tamis.cli import output
from tamis.errors import QueryError, TamisError

OK, NOTHING, ERROR, BUG, INTERRUPTED, READER_GONE = 0, 1, 2, 70, 130, 141
"""Exit codes. 70 is EX_SOFTWARE of sysexits.h; 130 and 141 are 128 + SIGINT and 128 + SIGPIPE, as shells count."""

EXTRAS = {
    "sqlalchemy": "store",
    "alembic": "store",
    "pydantic": "store",
    "pydantic_settings": "store",
    "pyspark": "spark",
    "pyarrow": "spark",
    "pandas": "spark",
    "selectolax": "adapters",
    "aiosmtplib": "notify",
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
        arguments: without the program's name; None takes the process's.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    output.allow_any_text()
    try:
        code = _call(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        output.abandon_stdout()
        return READER_GONE
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the boundary: whatever it is, it is explained and ends in an exit code
        return _explain(error, arguments)
    return code


def _call(arguments: list[str]) -> int:
    """The command's own exit code; a command that returns nothing went well."""
    import typer

    from tamis.cli.app import build

    command = typer.main.get_command(build(arguments))
    try:
        with command.make_context(
            "tamis", list(arguments)
        ) as context:  # not main(): it takes a broken pipe for an error
            result = command.invoke(context)
    except typer.Exit as ended:
        return ended.exit_code
    return result if isinstance(result, int) else OK


def _explain(error: Exception, arguments: list[str]) -> int:
    """Print what went wrong in the user's words."""
    import typer

    if isinstance(error, typer.TyperException):
        if not error.format_message():  # no arguments where some were expected: the help is printed already
            return ERROR
        output.error(
            error.format_message(), hint="`tamis --help` lists the commands, `tamis COMMAND --help` explains one"
        )
        return ERROR
    if isinstance(error, (TamisError, QueryError)):
        output.error(str(error))
        return ERROR
    if isinstance(error, OSError):
        output.abandon_stdout()  # it may be what failed; flushing it again at exit would fail again
        output.error(_of_the_system(error))
        return ERROR
    if isinstance(error, ModuleNotFoundError) and (extra := EXTRAS.get((error.name or "").partition(".")[0])):
        output.error(f"this command needs the extra '{extra}'", hint=f"pip install 'tamis[{extra}]'")
        return ERROR
    return _bug(error, arguments)


def _of_the_system(error: OSError) -> str:
    """An error of the operating system: which file, and what is the matter with it."""
    what = error.strerror or str(error)
    names = [os.fspath(name) for name in (error.filename, error.filename2) if isinstance(name, (str, os.PathLike))]
    if error.errno == errno.ENOSPC:
        where = f" for {names[0]}" if names else ""
        return f"{what}{where}: free some and run it again; what was reported as done is done"
    return f"{names[0]}: {what}" if names else what


def _bug(error: Exception, arguments: list[str]) -> int:
    """An exception that nobody expected: one line, or with ``--debug`` the whole of it."""
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
