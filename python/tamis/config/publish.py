"""Defines ``publish`` of an ``[[adapter]]``: the broker that each of its messages is published to, too."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from tamis.config.deliveries import broker_address
from tamis.config.fields import ConfigPath, Line, Seconds, Section
from tamis.config.secrets import variable_or_content
from tamis.errors import ConfigError


class PublishConfig(Section):
    """The broker to which the messages of an adapter are published: with their topic as routing key, confirmed.

    Attributes:
        url: the broker, as ``amqp://user@host:5672/vhost`` or ``amqps://``.
        password_env: the environment variable that holds the password.
        password_file: a file that holds it.
        exchange: the exchange, which must exist.
        ca_file: certificates to trust instead of the system's; on each machine that reads.
        timeout_s: the time limit for each step.
    """

    url: Annotated[Line, AfterValidator(broker_address)]
    password_env: Line | None = None
    password_file: ConfigPath | None = None
    exchange: Annotated[str, Field(min_length=1, max_length=127)] = "amq.topic"
    ca_file: ConfigPath | None = None
    timeout_s: Seconds = 15.0

    def password(self, adapter: str) -> str | None:
        """Return the password to log in with; None: that of `url`, or guest's.

        Raises:
            ConfigError: both are named; the environment variable is not set, or the file cannot be read.
        """
        where = f"adapter '{adapter}'"
        if self.password_env is not None and self.password_file is not None:
            raise ConfigError(f"{where}: publish: expected password_env or password_file, not both")
        return variable_or_content(where, self.password_env, self.password_file)
