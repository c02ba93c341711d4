"""Reads tamis.toml: where the broker listens, where it keeps its data, and its limits.

A file with mistakes is refused, and the error lists all of them: file, line, what was expected. Options of the command
line override the file, and the file overrides the defaults. Its tables are plain dataclasses, so that a broker
without a file does not load pydantic."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from annotated_types import Ge, Gt, Le, MaxLen, MinLen

from tamis.broker import system
from tamis.broker.addresses import MailboxesConfig, ServicesConfig
from tamis.broker.limit import Limit
from tamis.errors import ConfigError
from tamis.loopback import is_loopback

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from tamis.config.toml_lines import TomlLocation

FILE_NAME = "tamis.toml"

Port = Annotated[int, Ge(0), Le(65_535)]
Text = Annotated[str, MinLen(1), MaxLen(255)]
_FORBID = {"extra": "forbid"}


@dataclass(frozen=True)
class TlsConfig:
    """``[tls]``: encrypted connections, on their own port, with TLS 1.2 or later.

    Attributes:
        cert: the broker's certificate and the intermediate ones, PEM.
        key: the private key of the certificate, PEM.
        ca: the authorities of clients' certificates, PEM.
        verify_peer: whether clients present a certificate: ``no``, ``optional`` or ``required``. The last two need
            `ca`.
        login_from: the name in a client's certificate that is the user of the mechanism EXTERNAL. None: certificates
            log nobody in, and EXTERNAL is not offered; some clients would prefer it to their password.
        port: the port to listen on; 0 takes any free one.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _FORBID

    cert: Path
    key: Path
    ca: Path | None = None
    verify_peer: Literal["no", "optional", "required"] = "no"
    login_from: Literal["common_name", "subject_alt_name"] | None = None
    port: Port = 5671


@dataclass(frozen=True)
class LimitsConfig:
    """``[limits]``: maximum sizes and numbers. A user's own limits (`tamis users`) override those per user.

    Attributes:
        message_bytes: maximum size of a message; a larger one is refused before its body is read.
        frame_bytes: maximum frame size offered to clients.
        channels: maximum per connection.
        connections: maximum for all users together; further ones are closed at once.
        streams: maximum number of streams; a further one is refused with 506.
        connections_per_user: maximum per user; None: no limit.
        queues_per_user: maximum per user; None: no limit.
        heartbeat_s: offered to clients, which may ask for another value, or with 0 for none.
        handshake_s: maximum time for the handshake; then the connection is closed.
        memory_bytes: maximum memory of the process; above it, publishers wait (connection.blocked). By default half of
            what the container or the machine has.
        query_bytes: maximum memory of one compiled query; a larger one is refused with 406.
        query_ns_per_byte: maximum of the worst time that one query takes per byte of a message's text; a higher one is
            refused with 406.
        query_bytes_per_connection: maximum memory of the queries that one connection has bound or consumes with, and
            never more than an eighth of `memory_bytes`.
        query_bytes_per_vhost: maximum memory of all queries of a virtual host, and never more than a quarter of
            `memory_bytes`.
        query_body_bytes: maximum size of a body that queries read.
        query_body_values: maximum number of values of a JSON body that queries read.
        query_body: what happens to a larger body that a query asks for: ``unknown``, its predicates are unknown; or
            ``refuse``, the message is refused with 406.
        query_match_ms: maximum time of matching one message, by the worst times of the queries; a message that would
            take more is refused with 406.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _FORBID

    message_bytes: Annotated[
        int,
        Gt(0),
        Le(512 * 1024 * 1024),
        Limit(
            "a message, as its header announces; if it is kept, half a file of the journal or stream",
            "the channel is closed with 406",
            "bytes",
        ),
    ] = 16 * 1024 * 1024
    frame_bytes: Annotated[
        int, Ge(4096), Le(16 * 1024 * 1024), Limit("a frame", "the connection is closed with 501", "bytes")
    ] = 128 * 1024
    channels: Annotated[
        int, Gt(0), Le(65_535), Limit("channels of a connection", "the connection is closed with 530")
    ] = 2047
    connections: Annotated[
        int,
        Gt(0),
        Le(1_000_000),
        Limit("connections, fewer if the system allows fewer open files", "one is closed at once, and logged"),
    ] = 65_536
    streams: Annotated[
        int,
        Gt(0),
        Le(1_000_000),
        Limit(
            "streams; if the system allows too few open files for this, about a quarter of these files",
            "the connection is closed with 506",
        ),
    ] = 16_384
    connections_per_user: Annotated[int, Ge(0), Limit("connections of a user", "refused with 530")] | None = None
    queues_per_user: Annotated[int, Ge(0), Limit("queues of a user", "refused with 406")] | None = None
    heartbeat_s: Annotated[
        int,
        Ge(0),
        Le(65_535),
        Limit(
            "the heartbeat",
            "a client is disconnected if it is silent for twice as long, or does not read while its frames wait for it",
            "s",
        ),
    ] = 60
    handshake_s: Annotated[
        float, Gt(0), Le(600), Limit("the handshake, and the TLS handshake before it", "the connection is closed", "s")
    ] = 10.0
    memory_bytes: Annotated[
        int,
        Ge(16 * 1024 * 1024),
        Limit(
            "memory",
            "connection.blocked: publishers are not read until there is room, consumers go on; new queues and bindings "
            "are refused with 506. If nine tenths of it are in messages that are in no queue yet, the connection with "
            "the largest part is closed with 506",
            "bytes",
        ),
    ] = field(default_factory=system.default_memory_bytes)
    query_bytes: Annotated[
        int, Ge(4096), Le(4 * 1024 * 1024), Limit("a compiled query", "refused with 406", "bytes")
    ] = 1024 * 1024
    query_ns_per_byte: Annotated[
        int, Gt(0), Limit("the worst time of a query per byte of a message's text", "refused with 406", "ns")
    ] = 100_000
    query_bytes_per_connection: Annotated[
        int,
        Ge(4096),
        Limit("the queries of a connection; at most an eighth of `memory_bytes`", "refused with 406", "bytes"),
    ] = 128 * 1024 * 1024
    query_bytes_per_vhost: Annotated[
        int,
        Ge(4096),
        Limit("the queries of a virtual host; at most a quarter of `memory_bytes`", "refused with 406", "bytes"),
    ] = 256 * 1024 * 1024
    query_body_bytes: Annotated[
        int,
        Ge(0),
        Limit("a body that queries read", "as `query_body` says: unknown to queries, or refused with 406", "bytes"),
    ] = 256 * 1024
    query_body_values: Annotated[
        int, Ge(0), Limit("values of a JSON body that queries read", "as for a body that is too large")
    ] = 20_000
    query_body: Literal["unknown", "refuse"] = "unknown"
    query_match_ms: Annotated[
        int,
        Gt(0),
        Le(60_000),
        Limit("the worst time of matching a message", "the message is refused with 406", "ms"),
    ] = 8

    def query_limits(self) -> dict[str, int]:
        """Return the limits of queries by the data plane's names."""
        return {
            "bytes_max": self.query_bytes,
            "ns_per_byte_max": self.query_ns_per_byte,
            "connection_bytes_max": self.query_bytes_per_connection,
            "vhost_bytes_max": self.query_bytes_per_vhost,
            "body_bytes_max": self.query_body_bytes,
            "body_values_max": self.query_body_values,
            "refuses_large_bodies": int(self.query_body == "refuse"),
            "match_ns_max": self.query_match_ms * 1_000_000,
        }


@dataclass(frozen=True)
class JournalConfig:
    """``[journal]``: how persistent messages are kept.

    Attributes:
        segment_bytes: size of one file of the journal, which is allocated whole. A message may be nearly half as large.
        confirm: when a publisher's message is confirmed: ``synced``, when it survives a power cut; or ``received``,
            at once, for messages that may be lost.
        sync: False leaves syncing to the system: that is faster, and a power cut loses what has not been synced.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _FORBID

    segment_bytes: Annotated[int, Ge(1024 * 1024), Le(1024 * 1024 * 1024)] = 64 * 1024 * 1024
    confirm: Literal["synced", "received"] = "synced"
    sync: bool = True


@dataclass(frozen=True)
class LogConfig:
    """``[log]``: the log on stderr.

    Attributes:
        format: ``json`` for machines, ``console`` for people; ``auto`` is ``console`` on a terminal.
        level: the lowest level that is written.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _FORBID

    format: Literal["auto", "json", "console"] = "auto"
    level: Literal["debug", "info", "warning", "error"] = "info"


@dataclass(frozen=True)
class BrokerConfig:
    """The whole of tamis.toml. Paths in the file are relative to it.

    Attributes:
        data: the data directory, with journal, users and lock.
        host: the address on which AMQP and HTTP listen. An address that others can reach needs ``[tls]`` or `insecure`.
        amqp_port: the port of AMQP; 0 takes any free one, which the log names.
        http: whether to serve HTTP.
        http_port: the port of HTTP; 0 takes any free one, which the log names.
        unix: a Unix socket for local AMQP clients, in addition to the port.
        insecure: whether passwords and messages may cross a network unencrypted.
        vhosts: the virtual hosts.
        store: the store with the queries that `x-query-key` of a binding names; None: there is no store.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _FORBID

    data: Path = Path("tamis-data")
    host: Text = "127.0.0.1"
    amqp_port: Port = 5672
    http: bool = True
    http_port: Port = 8765
    unix: Path | None = None
    insecure: bool = False
    vhosts: Annotated[tuple[Text, ...], MinLen(1), MaxLen(1000)] = ("/",)
    store: Path | None = None
    tls: TlsConfig | None = None
    journal: JournalConfig = field(default_factory=JournalConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    mailboxes: MailboxesConfig = field(default_factory=MailboxesConfig)
    services: ServicesConfig = field(default_factory=ServicesConfig)
    log: LogConfig = field(default_factory=LogConfig)

    @classmethod
    def load(cls, path: Path | None, options: dict[str, Any] | None = None) -> Self:
        """Read a tamis.toml, and override it by the `options` that are not None.

        Args:
            path: None: tamis.toml in the current folder, if it exists.
            options: fields of this class.

        Raises:
            ConfigError: the file is missing or has mistakes (all of them, one per line), or others could read the
                network on which the broker would listen.
        """
        if path is None and Path(FILE_NAME).is_file():
            path = Path(FILE_NAME)
        config = cls() if path is None else cls._read(path)
        given = {name: value for name, value in (options or {}).items() if value is not None}
        config = dataclasses.replace(config, **given)
        config._check(path)
        return config

    @classmethod
    def _read(cls, path: Path) -> Self:
        from pydantic import TypeAdapter, ValidationError

        from tamis.config import errors as config_errors
        from tamis.config.toml_lines import line_numbers

        text = config_errors.read_text(path)
        document = config_errors.parse(path, text)
        try:
            # In JSON, strict mode refuses text for a number, but accepts text for a path and a list for a tuple.
            config = TypeAdapter(cls).validate_json(json.dumps(document, default=str), strict=True)
        except ValidationError as error:
            lines = line_numbers(text)
            mistakes = [details for details in error.errors(include_url=False) if not config_errors.is_echo(details)]
            mistakes.sort(key=lambda details: config_errors.line_of(lines, details["loc"]))
            problems = [_sentence(path, lines, details) for details in mistakes]
            raise ConfigError("\n".join(dict.fromkeys(problems))) from error
        return config._relative_to(path.parent)

    def _relative_to(self, folder: Path) -> Self:
        """Return the configuration with its paths relative to `folder`."""
        tls = self.tls and dataclasses.replace(
            self.tls,
            cert=folder / self.tls.cert.expanduser(),
            key=folder / self.tls.key.expanduser(),
            ca=self.tls.ca and folder / self.tls.ca.expanduser(),
        )
        return dataclasses.replace(
            self,
            data=folder / self.data.expanduser(),
            unix=self.unix and folder / self.unix.expanduser(),
            store=self.store and folder / self.store.expanduser(),
            tls=tls,
        )

    def _check(self, path: Path | None) -> None:
        """Check what involves several fields."""
        where = f"{path}: " if path else ""
        if self.unix is not None and (not self.unix.name or self.unix.is_dir()):
            raise ConfigError(f"{where}unix: expected the path of a socket, not the folder '{self.unix}'")
        if self.tls and self.tls.verify_peer != "no" and self.tls.ca is None:
            raise ConfigError(f"{where}verify_peer = \"{self.tls.verify_peer}\" in [tls] needs 'ca'")
        if self.tls and self.tls.login_from and self.tls.verify_peer == "no":
            raise ConfigError(f'{where}login_from in [tls] needs verify_peer = "optional" or "required"')
        if not is_loopback(self.host) and self.tls is None and not self.insecure:
            raise ConfigError(
                f"{where}host: expected an address of this machine alone, not '{self.host}', for without TLS others "
                f"can read passwords and messages\n  add [tls] with cert and key to {path or FILE_NAME}, "
                "or say --insecure if nobody else is on that network"
            )

    @property
    def is_local_only(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)

    @property
    def plain_host(self) -> str:
        """The address on which AMQP listens without TLS: this machine's own, unless `insecure`."""
        return self.host if self.is_local_only or self.insecure else "127.0.0.1"


def in_url(host: str) -> str:
    """Return `host` as it stands in a URL: IPv6 addresses in brackets."""
    return f"[{host}]" if ":" in host else host


# ---- error messages ----

_TABLES: dict[str, type[Any]] = {
    "tls": TlsConfig,
    "journal": JournalConfig,
    "limits": LimitsConfig,
    "mailboxes": MailboxesConfig,
    "services": ServicesConfig,
    "log": LogConfig,
}


def _sentence(path: Path, lines: dict[TomlLocation, int], details: ErrorDetails) -> str:
    """Describe one mistake: file, line, what is wrong, what was expected, and the nearest name."""
    location: TomlLocation = details["loc"]
    from tamis.config.errors import place_in_file

    return f"{place_in_file(path, lines, location)}: {_mistake(details, location)}"


def _mistake(details: ErrorDetails, location: TomlLocation) -> str:
    from tamis.config.errors import expected
    from tamis.errors import short
    from tamis.name_hints import did_you_mean

    kind, name = details["type"], str(location[-1]) if location else ""
    table = str(location[0]) if location and location[0] in _TABLES else ""
    if kind == "unexpected_keyword_argument":
        known = _keys(_TABLES[table]) if len(location) > 1 else _keys(BrokerConfig)
        inside = f" in [{table}]" if len(location) > 1 else ""
        return f"unknown key '{name}'{inside}{did_you_mean(name, known)}"
    if kind == "missing":
        return f"[{table}] needs '{name}'"
    shown = ".".join(str(part) for part in location if isinstance(part, str))
    return f"{shown}: {expected(details, {})}, not {short(details['input'])}"


def _keys(record: type[Any]) -> Sequence[str]:
    return [one.name for one in dataclasses.fields(record)]
