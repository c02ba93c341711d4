"""Reads secrets from environment variables, which are never in the file."""

from __future__ import annotations

import os
from base64 import b64decode

from tamis.errors import ConfigError

PREFIX = "whsec_"
"""The prefix of the text of a secret, as in Standard Webhooks."""


def variable(where: str, name: str) -> str:
    """The value of an environment variable.

    Args:
        where: who needs it, for the error.
        name: of the variable.

    Raises:
        ConfigError: it is not set.
    """
    if (value := os.environ.get(name)) is None:
        raise ConfigError(f"{where}: the environment variable {name} is not set")
    return value


def secret(where: str, name: str) -> bytes:
    """The secret in an environment variable: 24 to 64 bytes.

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
