"""Reads whole text files of a limited size, with errors that name the file."""

from __future__ import annotations

from pathlib import Path

from tamis.errors import ConfigError


def read_text(path: Path, size_bytes_max: int, what: str) -> str:
    """Read a file of text in UTF-8.

    Args:
        path: the file.
        size_bytes_max: its maximum size.
        what: what it holds, as the subject of the error: ``the file of queries``.

    Raises:
        ConfigError: it is missing, cannot be read, is too large or is not UTF-8.

    Cost: linear in its size.
    """
    try:
        if path.stat().st_size > size_bytes_max:
            raise ConfigError(f"{path}: expected a file of at most {size_bytes_max} bytes")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: expected UTF-8 text ({error.reason} at byte {error.start})") from error
    except OSError as error:
        raise ConfigError(f"{path}: {what} cannot be read: {error.strerror}") from error
