"""Reads secrets from environment variables or files of their own, never from pipeline.toml."""

from __future__ import annotations

import os
from base64 import b64decode
from pathlib import Path

from tamis.errors import ConfigError

PREFIX = "whsec_"
"""The prefix of the text of a secret, as in Standard Webhooks."""

_CHARACTERS_MAX = 64 * 1024


def variable(where: str, name: str) -> str:
    """Return the value of an environment variable.

    Args:
        where: who needs it, for the error.
        name: the name of the variable.

    Raises:
        ConfigError: it is not set.
    """
    if (value := os.environ.get(name)) is None:
        raise ConfigError(f"{where}: the environment variable {name} is not set")
    return value


def content(where: str, file: Path) -> str:
    """Return the secret in a file, without the line feed at its end.

    Args:
        where: who needs it, for the error.
        file: the file, of at most 64 KiB.

    Raises:
        ConfigError: it cannot be read, is too long, or is empty.
    """
    try:
        with file.open(encoding="utf-8") as opened:
            text = opened.read(_CHARACTERS_MAX + 1).strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{where}: {file}: the secret cannot be read: {why}") from error
    if not text or len(text) > _CHARACTERS_MAX:
        raise ConfigError(f"{where}: {file}: expected a secret of 1 to {_CHARACTERS_MAX:,} characters")
    return text


def variable_or_content(where: str, name: str | None, file: Path | None = None) -> str | None:
    """Return the secret in a file or else in an environment variable; None if neither is named.

    Raises:
        ConfigError: the variable is not set, or the file cannot be used.
    """
    if file is not None:
        return content(where, file)
    return None if name is None else variable(where, name)


def secret(where: str, name: str) -> bytes:
    """Return the secret in an environment variable: 24 to 64 bytes.

    Raises:
        ConfigError: it is not set, or holds no secret.
    """
    text = variable(where, name)
    try:
        found = b64decode(text.removeprefix(PREFIX), validate=True)
    except ValueError:
        found = b""
    if not text.startswith(PREFIX) or not 24 <= len(found) <= 64:
        raise ConfigError(
            f"{where}: the environment variable {name} holds no secret: expected {PREFIX} and 24 to 64 bytes in base64"
        )
    return found
