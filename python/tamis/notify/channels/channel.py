"""Defines what a channel does: it delivers notifications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from tamis.errors import TamisError
from tamis.store import DueDelivery
from tamis.store.records import Recipients


class ChannelError(TamisError):
    """The whole channel cannot be used now (no server, no folder, a full disk), whatever the notification.

    Attributes:
        wait_s: the least time to leave it alone, in seconds, if it said so.
    """

    def __init__(self, reason: str, wait_s: float = 0.0) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


class ChannelLostError(ChannelError):
    """The connection was lost over what was handed over. The cause may be the channel or one of the notifications.

    Attributes:
        settled: the outcome for those that have one, by delivery id; the others have none.
    """

    def __init__(self, reason: str, settled: Mapping[int, str | None] | None = None) -> None:
        super().__init__(reason)
        self.settled = dict(settled or {})


class ChannelTimeoutError(ChannelLostError):
    """The channel did not answer in time."""


@dataclass(frozen=True)
class Sent:
    """The outcome for the notifications that a channel was given; those not named here were delivered.

    Attributes:
        failures: delivery id -> why it could not be delivered; it is tried again later.
        final: the delivery ids among `failures` that are not tried again.
        notes: delivery id -> what to record for one that was delivered.
        recipients: delivery id -> the recipients that are settled, as in `DueDelivery`; the others are as before.
        file_size: (delivery, file, bytes) if they were appended to a file: its size with them.
    """

    failures: dict[int, str] = field(default_factory=dict)
    notes: dict[int, str] = field(default_factory=dict)
    recipients: dict[int, Recipients] = field(default_factory=dict)
    file_size: tuple[str, Path, int] | None = None
    final: set[int] = field(default_factory=set)


class Channel(Protocol):
    """Delivers notifications. One thread calls `open`, `deliver` as needed, and `close`; any thread `interrupt`.

    Deliveries are recorded only after `deliver` has returned, so a crash in between delivers the same ones again. A
    channel that can detect this makes it harmless; one that cannot (SMTP) takes one at a time.

    Attributes:
        batch_count: maximum number of notifications for one call of `deliver`.
    """

    batch_count: int

    def open(self) -> None:
        """Prepare for deliveries.

        Raises:
            ChannelError: the channel cannot be used now.
        """

    def deliver(self, due: Sequence[DueDelivery]) -> Sent:
        """Deliver these, in this order.

        Raises:
            ChannelLostError: the connection was lost meanwhile; those without an outcome are put aside.
            ChannelError: the channel failed; none of them counts as tried.
        """

    def interrupt(self) -> None:
        """Interrupt a waiting `open` or `deliver` from another thread; they raise a ChannelError."""

    def close(self) -> None:
        """Release everything. Never raises; calling it again does nothing."""


@runtime_checkable
class DigestChannel(Channel, Protocol):
    """A channel to people, which can deliver several notifications as one."""

    def deliver_digest(self, due: Sequence[DueDelivery]) -> Sent:
        """Deliver all of these in one digest; they have one owner and one outcome.

        Raises:
            ChannelError: the channel failed; none of them counts as tried.
        """
