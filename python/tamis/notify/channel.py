"""What a channel is: a way to hand notifications over. Each has a file of its own beside this one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tamis.errors import TamisError
from tamis.store import DueDelivery


class ChannelError(TamisError):
    """The whole channel cannot be used now: no server, no folder, a full disk. No notification is to blame."""


@dataclass(frozen=True)
class Sent:
    """What became of the notifications that a channel was given; those not named here were delivered.

    Attributes:
        failures: delivery id -> why that one could not be delivered; it is tried again later.
        notes: delivery id -> what to remember of one that was delivered.
        file_size: (delivery, file, bytes) when they were appended to a file: how long it is with them.
    """

    failures: Mapping[int, str] = field(default_factory=dict)
    notes: Mapping[int, str] = field(default_factory=dict)
    file_size: tuple[str, Path, int] | None = None


class Channel(Protocol):
    """Hands notifications over. Used from one thread: `open`, `deliver` as often as needed, `close`.

    What was delivered is on record only after `deliver` returned: a crash in between delivers the same ones again,
    so a channel that can tell makes that harmless, and one that cannot (SMTP) takes one at a time.

    Attributes:
        batch_count: the most notifications that `deliver` takes at once.
    """

    batch_count: int

    def open(self) -> None:
        """Get ready.

        Raises:
            ChannelError: it cannot be used now.
        """

    def deliver(self, due: Sequence[DueDelivery]) -> Sent:
        """Hand these over, in this order.

        Raises:
            ChannelError: the channel failed; none of them counts as tried.
        """

    def close(self) -> None:
        """Let go of everything. Never raises; calling it again does nothing."""
