"""Delays the answers to wrong logins, separately for each address.

Only the answer to a *wrong* login is delayed, so that one client with an old password does not slow others at its
address. Many connections do not evade that: at most `WAITING_MAX` wrong logins of an address wait at once, and further
logins from it are refused without verification until one of them has been answered."""

from __future__ import annotations

from collections import OrderedDict
from ipaddress import IPv6Address, ip_address

FREE_FAILURES = 3
"""Number of consecutive failures that are answered at once: people mistype."""
DELAY_S_MIN, DELAY_S_MAX = 0.25, 5.0
"""First and longest delay; each failure doubles it."""
HALF_LIFE_S = 60.0
"""Time without a failure after which half of the failures are forgotten."""
REMEMBERED_FAILURES_MIN = 0.5
"""Number of remembered failures from which an address waits behind others."""
WAITING_MAX = 10
"""Maximum number of wrong logins of an address that wait for their answers."""
ADDRESSES_MAX = 10_000
"""Maximum number of addresses that are remembered; then the one with the oldest failure is forgotten."""


class _Record:
    __slots__ = ("failures", "last_s", "waiting")

    def __init__(self) -> None:
        self.failures, self.last_s, self.waiting = 0.0, 0.0, 0

    def failures_at(self, now_s: float) -> float:
        return self.failures * float(0.5 ** ((now_s - self.last_s) / HALF_LIFE_S))


class Backoff:
    """The wrong logins of each address."""

    def __init__(self) -> None:
        self._records: OrderedDict[str, _Record] = OrderedDict()

    def may_try(self, address: str) -> bool:
        """Return whether a login from `address` may be verified."""
        record = self._records.get(_network(address))
        return record is None or record.waiting < WAITING_MAX

    def has_failed(self, address: str, now_s: float) -> bool:
        """Return whether a login from `address` was wrong lately: once within a minute, or more often before."""
        record = self._records.get(_network(address))
        return record is not None and record.failures_at(now_s) >= REMEMBERED_FAILURES_MIN

    def failed(self, address: str, now_s: float) -> float:
        """Record a wrong login; return the delay of its answer in seconds. Call `answered` when it has been given."""
        network = _network(address)
        record = self._records.setdefault(network, _Record())
        self._records.move_to_end(network)
        record.failures = record.failures_at(now_s) + 1
        record.last_s = now_s
        record.waiting += 1
        self._forget_the_oldest()
        over = record.failures - FREE_FAILURES
        return 0.0 if over <= 0 else min(DELAY_S_MAX, DELAY_S_MIN * 2 ** min(over, 30))

    def answered(self, address: str) -> None:
        """Record that a wrong login has been answered, or that its connection has closed."""
        record = self._records.get(_network(address))
        if record and record.waiting:
            record.waiting -= 1

    def _forget_the_oldest(self) -> None:
        while len(self._records) > ADDRESSES_MAX:
            self._records.popitem(last=False)


def _network(address: str) -> str:
    """Return what counts as one address: for IPv6 the /64, which is what one customer has."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return str(IPv6Address(int(parsed) >> 64 << 64))
    return str(parsed)
