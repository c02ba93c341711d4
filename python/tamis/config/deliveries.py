"""Defines a ``[[delivery]]`` of pipeline.toml, one class for each type."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_args
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, model_validator

from tamis.config.errors import MistakeError
from tamis.config.fields import (
    ConfigPath,
    Count,
    DatabaseAddress,
    Domain,
    Line,
    MailAddress,
    Name,
    Port,
    Seconds,
    Section,
    TableName,
    TemplatesFolder,
)
from tamis.config.secrets import secret, variable_or_content
from tamis.config.templates import templates_of
from tamis.errors import ConfigError
from tamis.loopback import is_loopback

if TYPE_CHECKING:
    import ssl


ROUTING_FIELDS = ("query", "owner", "topic")
"""The fields of a notification that can stand in a routing key."""

CHATS = (
    *("discord", "gchat", "gotify", "gotifys", "matrix", "matrixs", "mmost", "mmosts", "msteams", "ntfy", "ntfys"),
    *("pover", "rocket", "rockets", "signal", "signals", "slack", "tgram", "workflows", "wxteams", "zulip"),
)
"""The services of Apprise that a chat may be, by the scheme of their addresses: people read there.

Others would let an address reach files, programs or any web server from here."""

_IN_THE_CLEAR = ("gotify", "matrix", "mmost", "ntfy", "rocket", "signal")
"""The schemes without TLS if they name a server."""


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _trusting(delivery: str, ca_file: Path | None) -> ssl.SSLContext:
    """Return the settings of TLS that trust these certificates, or the system's.

    Raises:
        ConfigError: they cannot be read.
    """
    import ssl

    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise ConfigError(f"delivery '{delivery}': {ca_file}: no certificates can be read: {error}") from error


def _web_address(url: str) -> str:
    parts = _parts(url, ("https", "http"), "https://example.org/hook")
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise ValueError(f"'{url}' would send messages in the clear: expected https, or http on this machine")
    return url


def broker_address(url: str) -> str:
    """Return the address of a broker, as it was given.

    Raises:
        ValueError: it is not an address of a broker, or has a password.
    """
    parts = _parts(url, ("amqp", "amqps"), "amqp://user@localhost:5672/")
    if parts.password is not None:
        raise ValueError("the password must not be in the file: name its variable in password_env")
    return url


def _parts(url: str, schemes: tuple[str, ...], example: str) -> SplitResult:
    parts = urlsplit(url)
    if parts.scheme not in schemes or not parts.hostname:
        raise ValueError(f"expected an address such as {example}, not '{url}'")
    _ = parts.port  # raises a ValueError if it is not a number
    return parts


def _one_of(section: Section, *keys: str) -> None:
    """Refuse all but the first of these keys, if there are several."""
    _, *others = [key for key in keys if getattr(section, key) is not None] or [""]
    for key in others:
        raise MistakeError((key,), f"only one of {' and '.join(repr(name) for name in keys)} can be given")


def _known_fields(text: str) -> str:
    for name in re.findall(r"\{([^}]*)\}", text):
        if name not in ROUTING_FIELDS:
            known = ", ".join(f"{{{field}}}" for field in ROUTING_FIELDS)
            raise ValueError(f"expected {known}, not {{{name}}}")
    return text


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


class _Files(_Delivery):
    folder: ConfigPath

    @property
    def target(self) -> Path:
        """The folder that it writes."""
        return self.folder


class _Mail(_Delivery):
    sender: MailAddress = Field(default="tamis@localhost", alias="from")
    recipients: Annotated[tuple[MailAddress, ...], BeforeValidator(_as_tuple), Field(min_length=1)] = Field(
        default=("subscriber@localhost",), alias="to"
    )
    domain: Domain = "tamis.invalid"
    templates: TemplatesFolder | None = None

    @property
    def is_for_people(self) -> bool:
        """True: it follows the rhythms of owners."""
        return True


class StoreDelivery(_Delivery):
    """A delivery of type ``store``: the row in the store is the delivery."""

    type: Literal["store"]


class EmlDelivery(_Mail, _Files):
    """A delivery of type ``eml``: one e-mail per notification, as a file in `folder`."""

    type: Literal["eml"]


class JsonlDelivery(_Delivery):
    """A delivery of type ``jsonl``: one line of JSON per notification, appended to `path`."""

    type: Literal["jsonl"]
    path: ConfigPath

    @property
    def target(self) -> Path:
        """The file that it writes."""
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
        timeout_s: the time limit for each step.
    """

    type: Literal["smtp"]
    host: Line
    port: Port = 0
    tls: Literal["none", "starttls", "tls"] = "starttls"
    ca_file: ConfigPath | None = None
    user: Line | None = None
    password_env: Line | None = None
    timeout_s: Seconds = 30.0
    sender: MailAddress = Field(alias="from")
    recipients: Annotated[tuple[MailAddress, ...], BeforeValidator(_as_tuple), Field(min_length=1)] = Field(alias="to")

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
        if self.user is not None and self.tls == "none" and not is_loopback(self.host):
            raise MistakeError(("user",), f'a password for {self.host} needs tls = "starttls" or "tls"')
        return self

    def password(self) -> str | None:
        """Return the password to log in with; None without a login.

        Raises:
            ConfigError: the environment variable that should hold it is not set.
        """
        return variable_or_content(f"delivery '{self.name}'", self.password_env)

    def tls_context(self) -> ssl.SSLContext | None:
        """Return the settings that check the server's certificate; None without TLS.

        Raises:
            ConfigError: `ca_file` cannot be read.
        """
        return None if self.tls == "none" else _trusting(self.name, self.ca_file)


class WebhookDelivery(_Delivery):
    """A delivery of type ``webhook``: one signed HTTP request per notification.

    Attributes:
        url: the address to which it is posted; ``https``, or ``http`` on this machine.
        secret_env: the environment variables that hold the secrets; each gives a signature, so that a secret can be
            changed without a gap.
        ca_file: certificates to trust instead of the system's.
        timeout_s: the time limit for the whole of one request.
        templates: a folder with the template of the request's body.
    """

    type: Literal["webhook"]
    url: Annotated[Line, AfterValidator(_web_address)]
    secret_env: Annotated[tuple[Line, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
    ca_file: ConfigPath | None = None
    timeout_s: Seconds = 15.0
    templates: TemplatesFolder | None = None

    @model_validator(mode="after")
    def _template_is_there(self) -> Self:
        if self.templates is not None and "webhook.json" not in templates_of(self.templates).names:
            raise MistakeError(("templates",), f"{self.templates}: expected the template webhook.json")
        return self

    def secrets(self) -> list[bytes]:
        """Return the secrets, in the order of `secret_env`.

        Raises:
            ConfigError: a variable is not set, or holds no secret.
        """
        return [secret(f"delivery '{self.name}'", name) for name in self.secret_env]

    def tls_context(self) -> ssl.SSLContext:
        """Return the settings that check the server's certificate.

        Raises:
            ConfigError: `ca_file` cannot be read.
        """
        return _trusting(self.name, self.ca_file)


class AmqpDelivery(_Delivery):
    """A delivery of type ``amqp``: one message per notification, published to a broker and confirmed by it.

    Attributes:
        url: the broker, as ``amqp://user@host:5672/vhost`` or ``amqps://``.
        password_env: the environment variable that holds the password.
        exchange: the exchange; ``mailbox`` for the mailboxes of tamis, "" for the queue that `routing_key` names.
        routing_key: the key, in which ``{query}``, ``{owner}`` and ``{topic}`` stand for those of the notification.
        ca_file: certificates to trust instead of the system's.
        timeout_s: the time limit for each step.
    """

    type: Literal["amqp"]
    url: Annotated[Line, AfterValidator(broker_address)]
    password_env: Line | None = None
    exchange: Annotated[str, Field(max_length=127)] = ""
    routing_key: Annotated[Line, AfterValidator(_known_fields)] = "{query}"
    ca_file: ConfigPath | None = None
    timeout_s: Seconds = 15.0

    def password(self) -> str | None:
        """Return the password to log in with; None: that of `url`, or guest's.

        Raises:
            ConfigError: the environment variable that should hold it is not set.
        """
        return variable_or_content(f"delivery '{self.name}'", self.password_env)

    def tls_context(self) -> ssl.SSLContext | None:
        """Return the settings that check the broker's certificate; None without TLS.

        Raises:
            ConfigError: `ca_file` cannot be read.
        """
        return _trusting(self.name, self.ca_file) if urlsplit(self.url).scheme == "amqps" else None


class FeedDelivery(_Files):
    """A delivery of type ``feed``: an Atom feed for each query, as a file in `folder`.

    Attributes:
        folder: the folder of the files ``<query>.atom``.
        entries_max: maximum number of entries of a feed; the oldest are removed.
        domain: the domain in the ids of the feeds.
    """

    type: Literal["feed"]
    entries_max: Annotated[Count, Field(le=10_000)] = 100
    domain: Domain = "tamis.invalid"


class DatabaseDelivery(_Delivery):
    """A delivery of type ``database``: one row per notification, in a table of a database.

    Attributes:
        url: an SQLite file, or a database of a PostgreSQL server.
        table: the table, as ``name`` or ``schema.name``.
        create: whether the table, and an SQLite file, is made if it is absent.
        password_env: the environment variable that holds the password of a server.
        password_file: the file that holds it.
        timeout_s: the time limit for one transaction of up to 500 rows.
    """

    type: Literal["database"]
    url: DatabaseAddress
    table: TableName = "notifications"
    create: bool = Field(default=False, strict=True)
    password_env: Line | None = None
    password_file: ConfigPath | None = None
    timeout_s: Seconds = 30.0

    @model_validator(mode="after")
    def _one_password_of_a_server(self) -> Self:
        _one_of(self, "password_env", "password_file")
        for key in ("password_env", "password_file"):
            if getattr(self, key) is not None and isinstance(self.url, Path):
                raise MistakeError((key,), "an SQLite file has no password")
        if isinstance(self.url, Path) and "." in self.table:
            raise MistakeError(("table",), "a table of an SQLite file has no schema")
        return self

    @property
    def file(self) -> Path | None:
        """The SQLite file; None: it is a server."""
        return self.url if isinstance(self.url, Path) else None

    def password(self) -> str | None:
        """Return the password to log in with; None: libpq looks for it.

        Raises:
            ConfigError: the variable is not set, or the file cannot be read.
        """
        return variable_or_content(f"delivery '{self.name}'", self.password_env, self.password_file)


class ParquetDelivery(_Files):
    """A delivery of type ``parquet``: a Parquet file in `folder` for up to 500 notifications."""

    type: Literal["parquet"]


class DeltaDelivery(_Files):
    """A delivery of type ``delta``: rows of the Delta table in `folder`."""

    type: Literal["delta"]


class ChatDelivery(_Delivery):
    """A delivery of type ``chat``: one message per notification or digest, in a chat that Apprise knows.

    Attributes:
        url_env: the environment variable that holds the address, which is a secret.
        url_file: the file that holds it.
        timeout_s: the time limit for one message.
        templates: a folder with templates of e-mails, which the text uses.
    """

    type: Literal["chat"]
    url_env: Line | None = None
    url_file: ConfigPath | None = None
    timeout_s: Seconds = 30.0
    templates: TemplatesFolder | None = None

    @property
    def is_for_people(self) -> bool:
        """True: it follows the rhythms of owners."""
        return True

    @model_validator(mode="after")
    def _one_address(self) -> Self:
        _one_of(self, "url_env", "url_file")
        if self.url_env is None and self.url_file is None:
            raise MistakeError((), "[[delivery]] needs 'url_env' or 'url_file': where the address of the chat is")
        return self

    def address(self) -> str:
        """Return the address, which must not be shown.

        Raises:
            ConfigError: it is not there, or is of a service that is not allowed.
        """
        where = f"delivery '{self.name}'"
        url = variable_or_content(where, self.url_env, self.url_file) or ""
        scheme = url.partition("://")[0].lower()
        if "://" not in url or scheme not in CHATS or len(url.split()) != 1:
            raise ConfigError(f"{where}: expected the address of a chat, which begins with {', '.join(CHATS)} and ://")
        try:
            host = urlsplit(url).hostname or ""
        except ValueError:
            raise ConfigError(f"{where}: the address of the chat cannot be read") from None
        if scheme in _IN_THE_CLEAR and "." in host and not is_loopback(host):
            raise ConfigError(f"{where}: {scheme}:// sends messages in the clear: expected {scheme}s://")
        return url


DeliveryConfig = Annotated[
    StoreDelivery
    | EmlDelivery
    | JsonlDelivery
    | SmtpDelivery
    | WebhookDelivery
    | AmqpDelivery
    | FeedDelivery
    | DatabaseDelivery
    | ParquetDelivery
    | DeltaDelivery
    | ChatDelivery,
    Field(discriminator="type"),
]
"""A ``[[delivery]]``, by its `type`."""

DELIVERIES: dict[str, type[BaseModel]] = {
    get_args(model.model_fields["type"].annotation)[0]: model for model in get_args(get_args(DeliveryConfig)[0])
}
"""Type -> model, of every type."""
