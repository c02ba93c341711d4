"""The notification engine: takes due deliveries from the outbox, hands them to channels, and records the outcomes.

A retry is a row with a time in the store, so it outlives the process. A notification that failed too often is dead,
with its reason, and does not delay others. While a channel is down (no server, no folder), no try is counted.

Source: the PNNL paper, "notification engine"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import assert_never

from tamis.config.deliveries import (
    AmqpDelivery,
    ChatDelivery,
    DatabaseDelivery,
    DeliveryConfig,
    DeltaDelivery,
    EmlDelivery,
    FeedDelivery,
    JsonlDelivery,
    ParquetDelivery,
    SmtpDelivery,
    StoreDelivery,
    WebhookDelivery,
)
from tamis.config.owners import OwnerConfig
from tamis.notify.channels.channel import Channel
from tamis.notify.channels.store import StoreChannel
from tamis.notify.dispatch import ChannelDispatcher, DeliveryCounts, Dispatcher, Now, UnconfiguredDispatcher
from tamis.notify.mail_writer import MailWriter
from tamis.notify.retention import RetentionDispatcher
from tamis.notify.unsubscribe import Links
from tamis.store import Store

__all__ = ["DeliveryCounts", "NotificationEngine", "make_channel"]


class NotificationEngine:
    """Delivers the notifications in the outbox. Use one engine per store.

    Args:
        store: the outbox.
        deliveries: the deliveries; a notification for another name waits, and its reason says so.
        now: returns the time, UTC.
        owners: people with addresses and rhythms of their own.
        links: makes the links with which people unsubscribe.
        keep: how long settled notifications stay in the store; None: no limit.

    Attributes:
        dispatchers: one for each delivery, one for notifications without a configured delivery, and one that prunes.
            Each may have a thread of its own, so that none waits for another.

    Raises:
        ConfigError: a channel lacks something, such as the variable with its password.
    """

    def __init__(
        self,
        store: Store,
        deliveries: Sequence[DeliveryConfig],
        now: Now = lambda: datetime.now(UTC),
        keep: timedelta | None = None,
        owners: Sequence[OwnerConfig] = (),
        links: Links | None = None,
    ) -> None:
        """Make the channels; nothing is opened yet."""
        by_name = {owner.name: owner for owner in owners}
        self.dispatchers: list[Dispatcher] = [
            ChannelDispatcher(config, make_channel(config, store, by_name, links), store, now, by_name)
            for config in deliveries
        ]
        self.dispatchers.append(UnconfiguredDispatcher([config.name for config in deliveries], store, now))
        if keep is not None:
            self.dispatchers.append(RetentionDispatcher(keep, store, now))

    def deliver_pending(self, limit: int = 1000) -> DeliveryCounts:
        """Deliver what is due now, one delivery after another: at most `limit` for each, the longest due first.

        Returns:
            The counts; all zero if nothing is due.

        Raises:
            StoreError: the store cannot be written; what it did not record is delivered again.
        """
        counts = DeliveryCounts()
        for dispatcher in self.dispatchers:
            counts.add(dispatcher.deliver(limit, lambda: False))
        return counts


def make_channel(
    config: DeliveryConfig, store: Store, owners: Mapping[str, OwnerConfig], links: Links | None = None
) -> Channel:
    """Make the channel of a ``[[delivery]]``.

    Raises:
        ConfigError: it lacks something, such as the variable with its password.
    """
    match config:
        case StoreDelivery():
            return StoreChannel()
        case EmlDelivery():
            from tamis.notify.channels.eml import EmlChannel

            return EmlChannel(config, MailWriter(config, owners, store, links))
        case JsonlDelivery():
            from tamis.notify.channels.jsonl import JsonlChannel

            return JsonlChannel(config, store)
        case SmtpDelivery():
            from tamis.notify.channels.smtp import SmtpChannel

            return SmtpChannel(config, MailWriter(config, owners, store, links))
        case WebhookDelivery():
            from tamis.notify.channels.webhook import WebhookChannel

            return WebhookChannel(config, owners)
        case AmqpDelivery():
            from tamis.notify.channels.amqp import AmqpChannel

            return AmqpChannel(config)
        case FeedDelivery():
            from tamis.notify.channels.feed import FeedChannel

            return FeedChannel(config)
        case DatabaseDelivery():
            from tamis.notify.channels.database import DatabaseChannel

            return DatabaseChannel(config)
        case ParquetDelivery():
            from tamis.notify.channels.parquet import ParquetChannel

            return ParquetChannel(config, store)
        case DeltaDelivery():
            from tamis.notify.channels.delta import DeltaChannel

            return DeltaChannel(config, store)
        case ChatDelivery():
            from tamis.notify.channels.chat import ChatChannel

            return ChatChannel(config, owners)
    assert_never(config)
