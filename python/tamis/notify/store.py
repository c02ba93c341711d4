"""The channel ``store``: a notification is delivered by being in the store, where people and programs read it."""

from __future__ import annotations

from collections.abc import Sequence

from tamis.notify.channel import Sent
from tamis.store import DueDelivery


class StoreChannel:
    """Delivers by doing nothing: the row is the delivery."""

    batch_count = 1000

    def open(self) -> None:
        """Nothing to get ready."""

    def deliver(self, due: Sequence[DueDelivery]) -> Sent:
        """All of them are delivered."""
        return Sent()

    def close(self) -> None:
        """Nothing to let go of."""
