"""How wrong logins are slowed, address by address. Pure: the clock is the caller's.

Only the answer to a *wrong* login waits, so that one client with an old password does not slow its neighbours. An
address cannot go round that with many connections: at most `WAITING_MAX` of its wrong logins wait at once, and
further logins from it are refused unseen until one has been answered."""

from __future__ import annotations

from collections import OrderedDict
from ipaddress import IPv6Address, ip_address

FREE_FAILURES = 3
"""So many in a row are answered at once: people mistype."""
DELAY_S_MIN, DELAY_S_MAX = 0.25, 5.0
"""The first delay, doubled by each failure, and the longest."""
HALF_LIFE_S = 60.0
"""After so long without a failure, half of them are forgotten."""
WAITING_MAX = 10
ADDRESSES_MAX = 10_000
"""So many addresses are remembered; then the one longest without a failure is forgotten."""


class _Record:
    __slots__ = ("failures", "last_s", "waiting")

    def __init__(self) -> None:
        self.failures, self.last_s, self.waiting = 0.0, 0.0, 0


class Backoff:
    """Wrong logins by address."""

    def __init__(self) -> None:
        self._records: OrderedDict[str, _Record] = OrderedDict()

    def may_try(self, address: str) -> bool:
        """Whether a login from `address` is looked at at all."""
        record = self._records.get(_network(address))
        return record is None or record.waiting < WAITING_MAX

    def failed(self, address: str, now_s: float) -> float:
        """Note a wrong login; how many seconds its answer waits. `answered` is to be called when it was given."""
        network = _network(address)
        record = self._records.setdefault(network, _Record())
        self._records.move_to_end(network)
        record.failures = record.failures * 0.5 ** ((now_s - record.last_s) / HALF_LIFE_S) + 1
        record.last_s = now_s
        record.waiting += 1
        self._forget_the_oldest()
        over = record.failures - FREE_FAILURES
        return 0.0 if over <= 0 else min(DELAY_S_MAX, DELAY_S_MIN * 2 ** min(over, 30))

    def answered(self, address: str) -> None:
        """Note that a wrong login has got its answer, or its connection has gone."""
        record = self._records.get(_network(address))
        if record and record.waiting:
            record.waiting -= 1

    def _forget_the_oldest(self) -> None:
        while len(self._records) > ADDRESSES_MAX:
            self._records.popitem(last=False)


def _network(address: str) -> str:
    """What counts as one address: of IPv6 the /64, which is what one customer has."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv6Address) and found.ipv4_mapped is None:
        return str(IPv6Address(int(found) >> 64 << 64))
    return str(found)
