"""Tells which hosts are this machine, so that what is sent to them is not on a network."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach `host`. Names other than localhost may stand for any address.

    Args:
        host: a name or an address; an IPv6 address may stand in brackets.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "[::1]", "10.0.0.1", "example.org")]
    [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return False
