"""tamis.toml: where the broker listens, what it keeps where, and its limits.

A file with a mistake is refused as a whole, with every mistake: file, line, what was expected. What the command line
says counts before the file, the file before the defaults. The records are plain dataclasses, so that a broker
without a file does not load pydantic."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from annotated_types import Ge, Gt, Le, MaxLen, MinLen

from tamis.errors import ConfigError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from tamis.config.toml_lines import TomlLocation

FILE_NAME = "tamis.toml"

Port = Annotated[int, Ge(0), Le(65_535)]
Text = Annotated[str, MinLen(1), MaxLen(255)]
_FORBID = {"extra": "forbid"}


@dataclass(frozen=True)
class TlsConfig:
    """``[tls]``: encrypted connections, on a port of their own. TLS 1.2 or later.

    Attributes:
        cert: the broker's certificate with those between it and its authority, PEM.
        key: its private key, PEM.
        ca: authorities of clients' certificates, PEM.
        verify_peer: whether clients show a certificate: ``no``, ``optional`` or ``required``; the latter two need `ca`.
        login_from: which name in a client's certificate is the user that EXTERNAL logs in.
        port: where to listen; 0 takes any free one.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _FORBID

    cert: Path
    key: Path
    ca: Path | None = None
    verify_peer: Literal["no", "optional", "required"] = "no"
    login_from: Literal["common_name", "subject_alt_name"] = "common_name"
    port: Port = 5671


@dataclass(frozen=True)
class LimitsConfig:
    """``[limits]``: how much anybody may ask for. A user's own limits (`tamis users`) count before these.

    Attributes:
        message_bytes: the largest message; one that says it is larger is refused before its body is read.
        frame_bytes: the largest frame offered to clients.
        channels: of a connection.
        connections: of all users together; further ones are closed at once.
        connections_per_user: None: as many as there are.
        queues_per_user: None: as many as there are.
        heartbeat_s: offered to clients, who may ask for another or, with 0, for none.
        handshake_s: a connection that is not open by then is closed.
        memory_bytes: of messages waiting in memory; above it publishers wait (connection.blocked).
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _FORBID

    message_bytes: Annotated[int, Gt(0), Le(512 * 1024 * 1024)] = 16 * 1024 * 1024
    frame_bytes: Annotated[int, Ge(4096), Le(16 * 1024 * 1024)] = 128 * 1024
    channels: Annotated[int, Gt(0), Le(65_535)] = 2047
    connections: Annotated[int, Gt(0), Le(1_000_000)] = 65_536
    connections_per_user: Annotated[int, Ge(0)] | None = None
    queues_per_user: Annotated[int, Ge(0)] | None = None
    heartbeat_s: Annotated[int, Ge(0), Le(65_535)] = 60
    handshake_s: Annotated[float, Gt(0), Le(600)] = 10.0
    memory_bytes: Annotated[int, Ge(16 * 1024 * 1024)] = 1024 * 1024 * 1024


@dataclass(frozen=True)
class JournalConfig:
    """``[journal]``: how what must not be lost is kept.

    Attributes:
        segment_bytes: of one file of the journal, which is allocated whole. A message may be nearly half as large.
        confirm: when a publisher is told that its message is safe: ``synced``, when a power cut cannot take it any
            more; or ``received``, at once, for messages that may be lost.
        sync: False leaves writing to the system: faster, and a power cut takes what it has not written.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _FORBID

    segment_bytes: Annotated[int, Ge(1024 * 1024), Le(1024 * 1024 * 1024)] = 64 * 1024 * 1024
    confirm: Literal["synced", "received"] = "synced"
    sync: bool = True


@dataclass(frozen=True)
class LogConfig:
    """``[log]``: what is written to stderr.

    Attributes:
        format: ``json`` for machines, ``console`` for people; ``auto`` is ``console`` on a terminal.
        level: nothing below it is written.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _FORBID

    format: Literal["auto", "json", "console"] = "auto"
    level: Literal["debug", "info", "warning", "error"] = "info"


@dataclass(frozen=True)
class BrokerConfig:
    """The whole of tamis.toml. Paths in the file are relative to it.

    Attributes:
        data: the data directory: journal, users, lock.
        host: where AMQP and HTTP listen. Another address than this machine's needs ``[tls]``, or `insecure`.
        amqp_port: 0 takes any free one, and the log says which.
        http: whether there is HTTP at all.
        http_port: as above.
        unix: a Unix socket for local AMQP clients; beside the port.
        insecure: whether passwords and messages may cross a network that others can read.
        vhosts: the virtual hosts.
        store: where `x-query-key` of a binding finds its query; None: nowhere.
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
    log: LogConfig = field(default_factory=LogConfig)

    @classmethod
    def load(cls, path: Path | None, options: dict[str, Any] | None = None) -> Self:
        """Read a tamis.toml, and let `options` that are not None count before what it says.

        Args:
            path: None: tamis.toml of the current folder, where there is one.
            options: fields of this class.

        Raises:
            ConfigError: the file is missing or has mistakes (all of them, one a line), or the broker would listen
                where others can listen in.
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
            # As JSON, so that strict means: no text for a number, and yet text for a path and a list for a tuple.
            config = TypeAdapter(cls).validate_json(json.dumps(document, default=str), strict=True)
        except ValidationError as error:
            lines = line_numbers(text)
            found = [details for details in error.errors(include_url=False) if not config_errors.is_echo(details)]
            found.sort(key=lambda details: config_errors.line_of(lines, details["loc"]))
            problems = [_sentence(path, lines, details) for details in found]
            raise ConfigError("\n".join(dict.fromkeys(problems))) from error
        return config._beside(path.parent)

    def _beside(self, folder: Path) -> Self:
        """With paths relative to `folder`."""
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
        """What no field can see alone."""
        where = f"{path}: " if path else ""
        if self.tls and self.tls.verify_peer != "no" and self.tls.ca is None:
            raise ConfigError(f"{where}verify_peer = \"{self.tls.verify_peer}\" in [tls] needs 'ca'")
        if not is_loopback(self.host) and self.tls is None and not self.insecure:
            raise ConfigError(
                f"{where}host: expected an address of this machine alone, not '{self.host}', for without TLS others "
                f"can read passwords and messages\n  add [tls] with cert and key to {path or FILE_NAME}, "
                "or say --insecure if nobody else is on that network"
            )

    @property
    def is_local_only(self) -> bool:
        """Whether nobody but this machine can connect."""
        return is_loopback(self.host)

    @property
    def plain_host(self) -> str:
        """Where AMQP without TLS listens: not on other addresses, unless `insecure`."""
        return self.host if self.is_local_only or self.insecure else "127.0.0.1"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`. Names other than localhost may mean anything."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


# ---- what is said of a mistake ----

_SECTIONS: dict[str, type[Any]] = {"tls": TlsConfig, "journal": JournalConfig, "limits": LimitsConfig, "log": LogConfig}


def _sentence(path: Path, lines: dict[TomlLocation, int], details: ErrorDetails) -> str:
    """One mistake: file, line, what is wrong, what was expected, and the nearest name."""
    location: TomlLocation = details["loc"]
    from tamis.config.errors import place_in_file

    return f"{place_in_file(path, lines, location)}: {_mistake(details, location)}"


def _mistake(details: ErrorDetails, location: TomlLocation) -> str:
    from tamis.config.errors import expected
    from tamis.errors import short
    from tamis.name_hints import did_you_mean

    kind, name = details["type"], str(location[-1]) if location else ""
    section = str(location[0]) if location and location[0] in _SECTIONS else ""
    if kind == "unexpected_keyword_argument":
        known = _keys(_SECTIONS[section]) if len(location) > 1 else _keys(BrokerConfig)
        inside = f" in [{section}]" if len(location) > 1 else ""
        return f"unknown key '{name}'{inside}{did_you_mean(name, known)}"
    if kind == "missing":
        return f"[{section}] needs '{name}'"
    shown = ".".join(str(part) for part in location if isinstance(part, str))
    return f"{shown}: {expected(details, {})}, not {short(details['input'])}"


def _keys(record: type[Any]) -> Sequence[str]:
    return [one.name for one in dataclasses.fields(record)]
