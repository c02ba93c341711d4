"""Reaching a broker as any AMQP client does, through pika, and saying in the user's words what went wrong there."""

from __future__ import annotations

import logging
import re
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pika
from pika.adapters.base_connection import _StreamingProtocolShim
from pika.adapters.select_connection import IOLoop
from pika.adapters.utils.connection_workflow import AMQPConnectorException, AMQPConnectorStackTimeout
from pika.adapters.utils.selector_ioloop_adapter import SelectorIOServicesAdapter

from tamis import __version__
from tamis.cli.places import URL_VARIABLE
from tamis.errors import TamisError

CONNECT_S = 10.0
"""Name look-up, connecting, TLS and AMQP's handshake together."""


class BrokerError(TamisError):
    """A broker that cannot be reached, or that refused something."""


@dataclass(frozen=True)
class Target:
    """Which broker, and who wants to know.

    Attributes:
        url: host, user, password, virtual host; TLS with ``amqps``.
        unix: takes the place of the URL's host and port.
        command: what the broker's list of connections shows.
    """

    url: str
    unix: Path | None
    command: str

    @property
    def place(self) -> str:
        """Where it is, without the password."""
        parameters = self.parameters()
        return str(self.unix or f"{parameters.host}:{parameters.port}")

    def parameters(self) -> Any:
        """What pika takes.

        Raises:
            BrokerError: no URL of AMQP.
        """
        try:
            if not self.url.startswith(("amqp://", "amqps://")):
                raise ValueError("another scheme")
            parts = urlsplit(self.url)
            if parts.username and parts.password is None:
                raise ValueError(f"user '{parts.username}' without a password")
            parameters = pika.URLParameters(self.url)
        except (ValueError, TypeError, AssertionError) as error:
            raise BrokerError(
                f"--url: expected amqp://user:password@host:port/vhost, or amqps:// for TLS ({error})"
            ) from error
        parameters.socket_timeout = parameters.stack_timeout = CONNECT_S
        parameters.client_properties = {
            "product": "tamis",
            "version": __version__,
            "connection_name": f"tamis {self.command}",
        }
        return parameters


def connect(target: Target) -> Any:
    """A blocking connection.

    Raises:
        BrokerError: there is no broker, or it does not let us in.
    """
    parameters = target.parameters()
    with explained(target):
        try:
            return pika.BlockingConnection(parameters, _impl_class=connection_class(target))
        except (OSError, AMQPConnectorException) as error:
            raise broker_error(error, target) from error


@contextmanager
def explained(target: Target) -> Iterator[None]:
    """Turn what pika raises into a `BrokerError`, and keep pika from printing it too.

    Errors of the system pass: while connected, they are about something else than the broker.
    """
    logging.getLogger("pika").setLevel(logging.CRITICAL + 1)
    try:
        yield
    except pika.exceptions.AMQPError as error:
        raise broker_error(error, target) from error


def broker_error(error: BaseException, target: Target) -> BrokerError:
    """What happened, in the user's words, and what to do about it."""
    return BrokerError(_explanation(error, target))


def _explanation(error: BaseException, target: Target) -> str:
    if isinstance(error, pika.exceptions.ProbableAuthenticationError | pika.exceptions.AuthenticationError):
        user = target.parameters().credentials.username
        return (
            f"{target.place} refused user '{user}': {_said(error)}\n"
            f"  give user and password: --url amqp://user:password@host:port/, or in ${URL_VARIABLE}"
        )
    if isinstance(error, pika.exceptions.ProbableAccessDeniedError):
        return f"{target.place} refused virtual host '{target.parameters().virtual_host}': {_said(error)}"
    if isinstance(error, pika.exceptions.ChannelClosed | pika.exceptions.ConnectionClosed):
        return f"the broker refused: {_said(error)}"
    if isinstance(error, pika.exceptions.IncompatibleProtocolError | pika.exceptions.ProtocolVersionMismatch):
        return (
            f"{target.place}: expected a broker that speaks AMQP 0-9-1; whatever is there does not\n"
            "  amqps:// is with TLS"
        )
    if isinstance(error, pika.exceptions.StreamLostError):
        return f"the connection to {target.place} was lost"
    if isinstance(error, pika.exceptions.AMQPHeartbeatTimeout):
        return f"{target.place} has not been heard of for too long (heartbeat)"
    reason = _root(error)
    if isinstance(reason, ssl.SSLCertVerificationError):
        return (
            f"{target.place} has a certificate that is not trusted here: {reason.verify_message}\n"
            "  $SSL_CERT_FILE names a file with the certificates of the authorities that are"
        )
    if isinstance(reason, ssl.SSLError):
        return f"no TLS with {target.place}: {_said_by_system(reason)}\n  amqp:// is without TLS"
    return (
        f"no broker can be reached at {target.place}: {_said_by_system(reason)}\n"
        "  `tamis serve` starts one on this machine; --url names another"
    )


def _said(error: Any) -> str:
    """The broker's own code and text; during the handshake pika has only its own rendering of them."""
    code, text = (*error.args, "", "")[:2]
    if found := re.fullmatch(r"\w+: \((\d+)\) (['\"])(.*)\2", str(code), re.DOTALL):
        code, text = found[1], found[3]
    return f"{code} {text}".strip() or "it closed the connection"


def _root(error: BaseException) -> BaseException:
    """The system's error at the bottom of pika's."""
    for _ in range(8):  # pika's are three deep
        inner = getattr(error, "exception", None) or next(
            (part for part in error.args if isinstance(part, BaseException)), None
        )
        if inner is None:
            break
        error = inner
    return error


def _said_by_system(error: BaseException) -> str:
    if isinstance(error, AMQPConnectorStackTimeout):  # its text is the address as a tuple
        return f"whatever is there did not answer as a broker within {CONNECT_S:.0f} s"
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    return str(error) or type(error).__name__


# ---- what pika lacks ----


def _teach_floats(data: Any) -> None:
    """pika 1.4 cuts floating-point fields of tables to whole numbers when it reads them, and cannot write any."""
    encode, decode = data.encode_value, data.decode_value

    def encode_value(pieces: list[Any], value: Any) -> int:
        if not isinstance(value, float):
            return int(encode(pieces, value))
        pieces.append(struct.pack(">cd", b"d", value))
        return 9

    def decode_value(encoded: bytes, offset: int) -> tuple[Any, int]:
        form = _FLOATS.get(encoded[offset : offset + 1])
        if form is None:
            value, end = decode(encoded, offset)
            return value, end
        return form.unpack_from(encoded, offset + 1)[0], offset + 1 + form.size

    data.encode_value, data.decode_value = encode_value, decode_value


_FLOATS = {b"f": struct.Struct(">f"), b"d": struct.Struct(">d")}
_teach_floats(pika.data)


def connection_class(target: Target) -> Any:
    """The class of connections to `target`: pika's own, or one that goes through a Unix socket."""
    return pika.SelectConnection if target.unix is None else _through(target.unix)


def _through(path: Path) -> Any:
    class UnixConnection(pika.SelectConnection):  # type: ignore[misc] # pika has no types
        """pika connects to hosts only; this gives it a socket that is connected already."""

        @classmethod
        def create_connection(
            cls,
            connection_configs: Any,
            on_done: Callable[[Any], None],
            custom_ioloop: Any = None,
            workflow: Any = None,
        ) -> Any:
            connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connected.connect(str(path))
            except OSError:
                connected.close()
                raise
            connected.setblocking(False)
            nbio = SelectorIOServicesAdapter(custom_ioloop or IOLoop())

            def make() -> Any:
                return _StreamingProtocolShim(
                    cls(parameters=connection_configs[0], custom_ioloop=nbio, internal_connection_workflow=False)
                )

            def linked(result: Any) -> None:
                if isinstance(result, BaseException):
                    on_done(result)
                    return
                connection = result[1].conn
                connection.add_on_open_error_callback(lambda _, error: on_done(error), remove_default=True)
                connection.add_on_open_callback(on_done)

            return nbio.create_streaming_connection(make, connected, on_done=linked)

    return UnixConnection
