"""Defines a ``[[delivery]]`` of pipeline.toml, one class for each type."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from tamis.config.errors import MistakeError
from tamis.config.fields import Count, Domain, Line, Name, PathBeside, Port, Seconds, Section
from tamis.errors import ConfigError

if TYPE_CHECKING:
    import ssl


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


class _Delivery(Section):
    name: Name
    tries: Count = 5
    back_off_s: Annotated[tuple[Seconds, ...], Field(min_length=1)] = (10.0, 60.0, 300.0, 1800.0)

    @property
    def target(self) -> Path | None:
        """The file or folder that it writes, which no other delivery may write; None if it writes none."""
        return None

    @property
    def is_for_people(self) -> bool:
        """Whether it follows the rhythms of owners."""
        return False


class _Mail(_Delivery):
    sender: Line = Field(default="tamis@localhost", alias="from")
    recipients: Annotated[tuple[Line, ...], BeforeValidator(_as_tuple), Field(min_length=1)] = Field(
        default=("subscriber@localhost",), alias="to"
    )
    domain: Domain = "tamis.invalid"

    @property
    def is_for_people(self) -> bool:
        """As of every delivery."""
        return True


class StoreDelivery(_Delivery):
    """A delivery of type ``store``: the row in the store is the delivery."""

    type: Literal["store"]


class EmlDelivery(_Mail):
    """A delivery of type ``eml``: one e-mail per notification, as a file in `folder`."""

    type: Literal["eml"]
    folder: PathBeside

    @property
    def target(self) -> Path:
        """As of every delivery."""
        return self.folder


class JsonlDelivery(_Delivery):
    """A delivery of type ``jsonl``: one line of JSON per notification, appended to `path`."""

    type: Literal["jsonl"]
    path: PathBeside

    @property
    def target(self) -> Path:
        """As of every delivery."""
        return self.path


class SmtpDelivery(_Mail):
    """A delivery of type ``smtp``: one e-mail per notification, handed to a mail server.

    Attributes:
        host: the server.
        port: default 465 with ``tls = "tls"``, 587 with ``starttls``, 25 with ``none``.
        tls: ``starttls`` (an error if the server does not offer it), ``tls`` from the first byte, or ``none``.
        ca_file: certificates to trust instead of the system's.
        user: the name to log in with.
        password_env: the environment variable that holds the password.
        timeout_s: for each step.
    """

    type: Literal["smtp"]
    host: Line
    port: Port = 0
    tls: Literal["none", "starttls", "tls"] = "starttls"
    ca_file: PathBeside | None = None
    user: Line | None = None
    password_env: Line | None = None
    timeout_s: Seconds = 30.0
    sender: Line = Field(alias="from")
    recipients: Annotated[tuple[Line, ...], BeforeValidator(_as_tuple), Field(min_length=1)] = Field(alias="to")

    @model_validator(mode="before")
    @classmethod
    def _port_of_the_protocol(cls, values: Any) -> Any:
        if isinstance(values, dict) and "port" not in values:
            port = {"none": 25, "tls": 465}.get(values.get("tls", "starttls"), 587)
            return values | {"port": port}
        return values

    @model_validator(mode="after")
    def _no_password_in_the_clear(self) -> Self:
        if (self.user is None) != (self.password_env is None):
            given = "user" if self.user is not None else "password_env"
            raise MistakeError((given,), "'user' and 'password_env' belong together")
        if self.user is not None and self.tls == "none" and self.host not in ("127.0.0.1", "::1", "localhost"):
            raise MistakeError(("user",), f'a password for {self.host} needs tls = "starttls" or "tls"')
        return self

    def password(self) -> str | None:
        """The password to log in with; None without a login.

        Raises:
            ConfigError: the environment variable that should hold it is not set.
        """
        if self.password_env is None:
            return None
        if (password := os.environ.get(self.password_env)) is None:
            raise ConfigError(f"delivery '{self.name}': the environment variable {self.password_env} is not set")
        return password

    def tls_context(self) -> ssl.SSLContext | None:
        """The settings that check the server's certificate; None without TLS.

        Raises:
            ConfigError: `ca_file` cannot be read.
        """
        if self.tls == "none":
            return None
        import ssl

        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise ConfigError(
                f"delivery '{self.name}': {self.ca_file}: no certificates can be read: {error}"
            ) from error


DeliveryConfig = Annotated[StoreDelivery | EmlDelivery | JsonlDelivery | SmtpDelivery, Field(discriminator="type")]
"""A ``[[delivery]]``, by its `type`."""
