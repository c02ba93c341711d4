"""Defines ``[unsubscribe]`` of pipeline.toml: where people end their e-mails with one click."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

from tamis.config.fields import Line, Section
from tamis.config.secrets import secret


def _public_address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"url: expected an address such as https://example.org/unsubscribe, not '{url}'")
    return url.rstrip("/")


def _listening(text: str) -> str:
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and int(port) <= 65_535):
        raise ValueError(f"listen: expected an address and a port, as in 127.0.0.1:8410, not '{text}'")
    return text


class UnsubscribeSection(Section):
    """``[unsubscribe]``: links in e-mails that end them, and where a running pipeline answers.

    Attributes:
        url: the address that the links begin with, as people reach it; mail programs want ``https``.
        listen: the address and port of this machine to which a web server passes requests for `url`.
        secret_env: the environment variable with the secret that signs the links.
    """

    url: Annotated[Line, AfterValidator(_public_address)]
    listen: Annotated[Line, AfterValidator(_listening)] = "127.0.0.1:8410"
    secret_env: Line

    @property
    def address(self) -> tuple[str, int]:
        """The address and port to listen on."""
        host, _, port = self.listen.rpartition(":")
        return host.strip("[]"), int(port)

    def secret(self) -> bytes:
        """Return the secret.

        Raises:
            ConfigError: the variable is not set, or holds none.
        """
        return secret("[unsubscribe]", self.secret_env)
