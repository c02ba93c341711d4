"""The channel ``store``: a notification counts as delivered because people and programs read it in the store."""

from __future__ import annotations

from collections.abc import Sequence

from tamis.notify.channels.channel import Sent
from tamis.store import DueDelivery


class StoreChannel:
    """Delivers by doing nothing: the row is the delivery."""

    batch_count = 1000

    def open(self) -> None:
        """Do nothing: the store is open."""

    def deliver(self, due: Sequence[DueDelivery]) -> Sent:
        """Report all of them as delivered."""
        return Sent()

    def interrupt(self) -> None:
        """Do nothing: nothing here waits."""

    def close(self) -> None:
        """Do nothing: the store stays open."""
