"""TLS of the broker: the context of the server, and the user that a client's certificate names."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from typing import Any

from tamis.broker.config import TlsConfig
from tamis.errors import ConfigError

_VERIFY = {"no": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_NAMED_BY = ("DNS", "email", "URI")
"""Kinds of subject alternative names that can name a user; the first one present counts."""


def server_context(config: TlsConfig) -> ssl.SSLContext:
    """Return the server's context, for TLS 1.2 or later.

    Raises:
        ConfigError: a file is missing or not a certificate, or the key belongs to another certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(config.cert, config.key, password=_no_password(config))
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"[tls] cert {config.cert} with key {config.key}: {_reason(error)}") from error
    context.verify_mode = _VERIFY[config.verify_peer]
    if config.ca is not None:
        try:
            context.load_verify_locations(config.ca)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"[tls] ca {config.ca}: {_reason(error)}") from error
    return context


def _no_password(config: TlsConfig) -> Callable[[], str]:
    """Return what OpenSSL calls for the password of a key; without it, OpenSSL would ask on the terminal."""

    def refuse() -> str:
        raise ConfigError(f"[tls] key {config.key}: expected a key without a password")

    return refuse


def user_of(certificate: dict[str, Any] | None, config: TlsConfig) -> str | None:
    """Return the user that a verified certificate names; None if it names none, or certificates log nobody in.

    Args:
        certificate: the certificate, as `ssl.SSLSocket.getpeercert` returns it.
    """
    if not certificate or config.login_from is None:
        return None
    if config.login_from == "common_name":
        return next(_common_names(certificate), None)
    names = dict(reversed(certificate.get("subjectAltName", ())))  # reversed, so that the first of each kind counts
    return next((str(names[kind]) for kind in _NAMED_BY if kind in names), None)


def _common_names(certificate: dict[str, Any]) -> Iterator[str]:
    for part in certificate.get("subject", ()):
        yield from (str(value) for name, value in part if name == "commonName")


_REASONS = {
    None: "expected a certificate and its private key, each in PEM format",  # OpenSSL says no more than 'PEM lib'
    "KEY_VALUES_MISMATCH": "the key belongs to another certificate",
    "NO_CERTIFICATE_OR_CRL_FOUND": "expected certificates in PEM format",
}


def _reason(error: OSError) -> str:
    text = error.strerror or str(error)
    return _REASONS.get(error.reason, text) if isinstance(error, ssl.SSLError) else text
