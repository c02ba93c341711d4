"""The notification engine: takes due deliveries from the outbox, hands them to channels, and records the outcomes.

A retry is a row with a time in the store, so it outlives the process. A notification that failed too often is dead,
with its reason, and does not delay others. While a channel is down (no server, no folder), no try is counted.

Source: the PNNL paper, "notification engine"."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import assert_never

from tamis.config.deliveries import DeliveryConfig, EmlDelivery, JsonlDelivery, SmtpDelivery, StoreDelivery
from tamis.notify.channel import Channel, ChannelError, Sent
from tamis.notify.store import StoreChannel
from tamis.store import DueDelivery, Outcome, Store

_PAGE = 500  # due deliveries that are read from the store at once
_NO_CHANNEL_WAIT = timedelta(minutes=1)  # between two notes on deliveries without a configured channel


@dataclass
class DeliveryCounts:
    """The results of one call.

    Attributes:
        delivered: notifications handed over.
        retried: those that failed and are tried again later.
        dead: those that failed for the last time.
        troubles: channel -> why it cannot be used now; its notifications wait.
    """

    delivered: int = 0
    retried: int = 0
    dead: int = 0
    troubles: dict[str, str] = field(default_factory=dict)


@dataclass
class _Trouble:
    reason: str
    count: int
    until: datetime


class NotificationEngine:
    """Delivers what the outbox holds. Use one engine per store, from one thread at a time.

    Args:
        store: the outbox.
        deliveries: the channels; what is pending for another name waits, with that as its reason.
        now: returns the time, UTC.

    Raises:
        ConfigError: a channel lacks something, such as the variable with its password.
    """

    def __init__(
        self,
        store: Store,
        deliveries: Sequence[DeliveryConfig],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Make the channels; nothing is opened yet."""
        self._store, self._now = store, now
        self._configs = {config.name: config for config in deliveries}
        self._channels = {config.name: make_channel(config, store) for config in deliveries}
        self._troubles: dict[str, _Trouble] = {}

    def deliver_pending(self, limit: int = 1000) -> DeliveryCounts:
        """Try what is due now: at most `limit` for each channel, the longest due first.

        Returns:
            The counts; all zero if nothing that can be tried is due.

        Raises:
            StoreError: the store cannot be written; what it did not record is delivered again.
        """
        counts = DeliveryCounts()
        for name in self._store.pending_delivery_names():
            if self._waits(name, counts):
                continue
            if name in self._channels:
                self._deliver(name, limit, counts)
            else:
                self._pause(name, f"no [[delivery]] is named '{name}'", counts)
        return counts

    def _waits(self, name: str, counts: DeliveryCounts) -> bool:
        """Whether the channel was down a moment ago."""
        trouble = self._troubles.get(name)
        if trouble is None or trouble.until <= self._now():
            return False
        counts.troubles[name] = trouble.reason
        return True

    def _deliver(self, name: str, limit: int, counts: DeliveryCounts) -> None:
        channel, is_open = self._channels[name], False
        try:
            for due in self._due(name, limit, channel.batch_count):
                if not is_open:
                    channel.open()
                    is_open = True
                self._record(name, due, channel.deliver(due), counts)
                self._troubles.pop(name, None)
        except ChannelError as error:
            self._pause(name, str(error), counts)
        finally:
            if is_open:
                channel.close()

    def _due(self, name: str, limit: int, batch_count: int) -> Iterator[list[DueDelivery]]:
        left = limit
        while left > 0 and (page := self._store.due_deliveries(name, min(left, _PAGE), self._now())):
            left -= len(page)
            for start in range(0, len(page), batch_count):
                yield page[start : start + batch_count]

    def _record(self, name: str, due: Sequence[DueDelivery], sent: Sent, counts: DeliveryCounts) -> None:
        outcomes = [self._outcome(name, delivery, sent) for delivery in due]
        self._store.record_outcomes(outcomes, sent.file_size)
        counts.delivered += sum(outcome.state == "delivered" for outcome in outcomes)
        counts.retried += sum(outcome.state == "pending" for outcome in outcomes)
        counts.dead += sum(outcome.state == "dead" for outcome in outcomes)

    def _outcome(self, name: str, delivery: DueDelivery, sent: Sent) -> Outcome:
        number, config, tries = delivery.delivery_id, self._configs[name], delivery.attempts + 1
        reason = sent.failures.get(number)
        if reason is None:
            note = f"delivered at try {tries}" if tries > 1 else None
            return Outcome(number, "delivered", sent.notes.get(number, note))
        if tries >= config.tries:
            return Outcome(number, "dead", f"{reason} (try {tries} of {config.tries})")
        return Outcome(number, "pending", reason, self._now() + _wait(config, tries))

    def _pause(self, name: str, reason: str, counts: DeliveryCounts) -> None:
        """Do not use the channel for a while; its notifications record why they wait."""
        before = self._troubles.get(name)
        count = before.count + 1 if before else 1
        config = self._configs.get(name)
        wait = _wait(config, count) if config else _NO_CHANNEL_WAIT
        self._troubles[name] = _Trouble(reason, count, self._now() + wait)
        self._store.note_pending(name, reason)
        counts.troubles[name] = reason


def _wait(config: DeliveryConfig, tries: int) -> timedelta:
    """The time to wait after this number of consecutive failures."""
    return timedelta(seconds=config.back_off_s[min(tries, len(config.back_off_s)) - 1])


def make_channel(config: DeliveryConfig, store: Store) -> Channel:
    """Make the channel of a ``[[delivery]]``.

    Raises:
        ConfigError: it lacks something, such as the variable with its password.
    """
    match config:
        case StoreDelivery():
            return StoreChannel()
        case EmlDelivery():
            from tamis.notify.eml import EmlChannel

            return EmlChannel(config)
        case JsonlDelivery():
            from tamis.notify.jsonl import JsonlChannel

            return JsonlChannel(config, store)
        case SmtpDelivery():
            from tamis.notify.smtp import SmtpChannel

            return SmtpChannel(config)
    assert_never(config)
