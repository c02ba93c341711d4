"""Writes data to stdout, and everything for people to stderr, with colours only on terminals."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import IO, Any

_RED, _GREEN, _YELLOW, _DIM, _BOLD, _END = "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[2m", "\x1b[1m", "\x1b[0m"


def has_colour(stream: IO[str]) -> bool:
    """Return whether `stream` is a terminal whose user has not asked for plain text (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _painted(text: str, code: str, stream: IO[str]) -> str:
    return f"{code}{text}{_END}" if has_colour(stream) else text


def allow_any_text() -> None:
    """Let stdout and stderr take any text: characters that their encoding lacks are escaped; data is always UTF-8."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            encoding = "utf-8" if stream is sys.stdout and not stream.isatty() else None  # JSON must be UTF-8
            stream.reconfigure(encoding=encoding, errors="backslashreplace")


def abandon_stdout() -> None:
    """Discard what stdout still buffers, so that the interpreter's last flush does not fail again."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):  # a test's stdout has no file number
        return


def data(line: str) -> None:
    """Write one line of data to stdout."""
    sys.stdout.write(line + "\n")


def data_json(value: Any) -> None:
    """Write one line of JSON to stdout, with times in ISO 8601 and tuples as lists."""
    data(to_json(value))


def to_json(value: Any) -> str:
    """Return `value` as JSON on one line, in Unicode."""
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)


def counted(number: int, one: str, many: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "line", "lines"), counted(2_000, "line", "lines")
    ('1 line', '2,000 lines')
    """
    return f"{number:,} {one if number == 1 else many}"


def note(text: str) -> None:
    """Print a line for people."""
    print(text, file=sys.stderr)


def hint(text: str) -> None:
    """Print what to do next."""
    print(_painted(f"  {text}", _DIM, sys.stderr), file=sys.stderr)


def warning(text: str) -> None:
    """Print that something was left out, and why."""
    print(_painted("warning:", _YELLOW, sys.stderr), text, file=sys.stderr)


def error(text: str, hint: str | None = None) -> None:
    """Print an error, whose first line begins with ``error:``, and a hint on another line."""
    print(_painted("error:", _RED, sys.stderr), text, file=sys.stderr)
    if hint:
        print(_painted(f"  {hint}", _DIM, sys.stderr), file=sys.stderr)


def success(text: str) -> None:
    """Print that something has succeeded."""
    print(_painted(text, _GREEN, sys.stderr), file=sys.stderr)


def table(header: Sequence[str], rows: Sequence[Sequence[Any]], numbers: Sequence[int] = ()) -> None:
    """Print aligned columns to stdout; lines are cut at the edge of a terminal, never in a pipe.

    Args:
        header: the columns' names.
        rows: values; None is shown as a dash.
        numbers: indices of the columns that are aligned to the right.
    """
    cells = [["-" if value is None else _one_line(value) for value in row] for row in rows]
    widths = [max(len(row[index]) for row in [list(header), *cells]) for index in range(len(header))]
    edge = os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else None
    for number, row in enumerate([list(header), *cells]):
        padded = [
            text.rjust(width) if index in numbers else text.ljust(width)
            for index, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        line = "  ".join(padded).rstrip()
        if edge is not None and len(line) > edge:
            line = line[: edge - 1] + "…"
        data(_painted(line, _BOLD, sys.stdout) if number == 0 else line)


def _one_line(value: Any) -> str:
    """Return `value` as text without control characters, which could move a terminal's cursor."""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, (tuple, list)):
        value = ", ".join(map(str, value))
    text = "".join(character if character.isprintable() else " " for character in str(value))
    return re.sub(" {3,}", "  ", text)
