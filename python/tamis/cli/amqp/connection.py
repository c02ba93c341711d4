"""Connects to a broker through pika, and explains errors in the user's terms."""

from __future__ import annotations

import logging
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pika
from pika.adapters.utils.connection_workflow import AMQPConnectorException, AMQPConnectorStackTimeout

from tamis import __version__
from tamis.cli.amqp.pika_extensions import connection_class
from tamis.cli.options import URL_VARIABLE
from tamis.errors import TamisError

CONNECT_S = 10.0
"""Maximum time for name look-up, connecting, TLS and the AMQP handshake together."""


class BrokerError(TamisError):
    """The broker cannot be reached, or refused something."""


@dataclass(frozen=True)
class BrokerAddress:
    """The address of the broker, and the login.

    Attributes:
        url: host, user, password, virtual host; TLS with ``amqps``.
        unix: a Unix socket, instead of the URL's host and port.
        command: the command's name, for the broker's list of connections.
    """

    url: str
    unix: Path | None
    command: str

    @property
    def shown(self) -> str:
        """The address without the password."""
        parameters = self.parameters()
        return str(self.unix or f"{parameters.host}:{parameters.port}")

    def parameters(self) -> Any:
        """Return pika's parameters.

        Raises:
            BrokerError: the URL is not one of AMQP.
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


def connect(address: BrokerAddress) -> Any:
    """Return a blocking connection.

    Raises:
        BrokerError: the broker cannot be reached, or refuses the connection.
    """
    parameters = address.parameters()
    with explained(address):
        try:
            return pika.BlockingConnection(parameters, _impl_class=connection_class(address.unix))
        except (OSError, AMQPConnectorException) as error:
            raise broker_error(error, address) from error


@contextmanager
def explained(address: BrokerAddress) -> Iterator[None]:
    """Turn pika's errors into a `BrokerError`, and keep pika from logging them.

    Errors of the system pass unchanged: while connected, they do not concern the broker.
    """
    logging.getLogger("pika").setLevel(logging.CRITICAL + 1)
    try:
        yield
    except pika.exceptions.AMQPError as error:
        raise broker_error(error, address) from error


def broker_error(error: BaseException, address: BrokerAddress) -> BrokerError:
    """Return an error that explains what happened and what to do."""
    return BrokerError(_explanation(error, address))


def _explanation(error: BaseException, address: BrokerAddress) -> str:
    if isinstance(error, pika.exceptions.ProbableAuthenticationError | pika.exceptions.AuthenticationError):
        user = address.parameters().credentials.username
        return (
            f"{address.shown} refused user '{user}': {_reply(error)}\n"
            f"  give user and password: --url amqp://user:password@host:port/, or in ${URL_VARIABLE}"
        )
    if isinstance(error, pika.exceptions.ProbableAccessDeniedError):
        return f"{address.shown} refused virtual host '{address.parameters().virtual_host}': {_reply(error)}"
    if isinstance(error, pika.exceptions.ChannelClosed | pika.exceptions.ConnectionClosed):
        return f"the broker refused: {_reply(error)}"
    if isinstance(error, pika.exceptions.IncompatibleProtocolError | pika.exceptions.ProtocolVersionMismatch):
        return f"{address.shown}: expected a broker that speaks AMQP 0-9-1\n  amqps:// connects with TLS"
    if isinstance(error, pika.exceptions.StreamLostError):
        return f"the connection to {address.shown} was lost"
    if isinstance(error, pika.exceptions.AMQPHeartbeatTimeout):
        return f"{address.shown} has sent nothing for too long (heartbeat)"
    reason = _root(error)
    if isinstance(reason, ssl.SSLCertVerificationError):
        return (
            f"{address.shown} has a certificate that is not trusted here: {reason.verify_message}\n"
            "  $SSL_CERT_FILE names a file with the certificates of trusted authorities"
        )
    if isinstance(reason, ssl.SSLError):
        return f"no TLS with {address.shown}: {_system_reason(reason)}\n  amqp:// connects without TLS"
    return (
        f"no broker can be reached at {address.shown}: {_system_reason(reason)}\n"
        "  `tamis serve` starts one on this machine; --url names another"
    )


def _reply(error: Any) -> str:
    """Return the broker's code and text; of errors in the handshake, pika has only a rendered form."""
    code, text = (*error.args, "", "")[:2]
    if rendered := re.fullmatch(r"\w+: \((\d+)\) (['\"])(.*)\2", str(code), re.DOTALL):
        code, text = rendered[1], rendered[3]
    return f"{code} {text}".strip() or "it closed the connection"


def _root(error: BaseException) -> BaseException:
    """Return the system's error at the bottom of pika's."""
    for _ in range(8):  # pika nests three errors
        inner = getattr(error, "exception", None) or next(
            (part for part in error.args if isinstance(part, BaseException)), None
        )
        if inner is None:
            break
        error = inner
    return error


def _system_reason(error: BaseException) -> str:
    if isinstance(error, AMQPConnectorStackTimeout):  # its text is the address as a tuple
        return f"there was no answer of a broker within {CONNECT_S:.0f} s"
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    return str(error) or type(error).__name__
