"""Dispatches what is due in the outbox to one channel, and records the outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from tamis.config.deliveries import DeliveryConfig
from tamis.config.owners import OwnerConfig
from tamis.notify.channels.channel import Channel, ChannelError, ChannelLostError, DigestChannel, Sent
from tamis.notify.planner import Planner
from tamis.store import DueDelivery, Outcome, Store
from tamis.store.records import Which

_PAGE = 500  # maximum number of due deliveries that are read from the store at once
_DAY_S = 86_400.0  # the longest pause of a channel, whatever Retry-After it sends
_UNCONFIGURED_WAIT = timedelta(minutes=1)  # the time between two notes on deliveries that no block configures

Now = Callable[[], datetime]
"""Returns the time, UTC."""

HandOver = Callable[[Sequence[DueDelivery]], Sent]
"""Delivers some notifications: each alone, or all in one digest."""


@dataclass
class DeliveryCounts:
    """The results of one call.

    Attributes:
        delivered: notifications handed over.
        retried: those that failed and are tried again later.
        dead: those that failed for the last time.
        troubles: delivery -> why its channel cannot be used now; its notifications wait.
    """

    delivered: int = 0
    retried: int = 0
    dead: int = 0
    troubles: dict[str, str] = field(default_factory=dict)

    @property
    def tried(self) -> int:
        """Notifications that were tried."""
        return self.delivered + self.retried + self.dead

    def add(self, other: DeliveryCounts) -> None:
        """Add the counts of another call."""
        self.delivered += other.delivered
        self.retried += other.retried
        self.dead += other.dead
        self.troubles.update(other.troubles)


class Dispatcher(Protocol):
    """Delivers what the outbox has for one delivery. One thread uses it; any thread may call `interrupt`."""

    name: str

    def deliver(self, limit: int, stopped: Callable[[], bool]) -> DeliveryCounts:
        """Try what is due now: at most `limit` notifications, the longest due first.

        Args:
            limit: the maximum number of notifications.
            stopped: asked between two notifications, or two groups of them; true ends the call.

        Raises:
            StoreError: the store cannot be written; what it did not record is delivered again.
        """

    def interrupt(self) -> None:
        """Interrupt, from another thread, what is in progress."""


class ChannelDispatcher:
    """Dispatches to the channel of one delivery.

    A channel that is down is not used for a while, and no notification loses a try by that. A notification over which
    the connection was lost, or timed out, is put aside, so that the others go first. From then on it goes alone. It
    loses a try only if that happens again, and the channel worked in between.

    Args:
        config: the delivery.
        channel: its channel.
        store: the outbox.
        now: the clock.
        owners: those with a rhythm, if the channel is for people.
    """

    def __init__(
        self, config: DeliveryConfig, channel: Channel, store: Store, now: Now, owners: Mapping[str, OwnerConfig] = {}
    ) -> None:
        self.name = config.name
        self._planner = Planner(config.name, owners, store) if owners and config.is_for_people else None
        self._config, self._channel, self._store, self._now = config, channel, store, now
        self._trouble_count = 0  # failures of the channel since it last worked
        self._trouble, self._until = "", now()
        self._suspects: set[int] = set()  # delivery ids that were in progress when the connection was lost

    def deliver(self, limit: int, stopped: Callable[[], bool] = lambda: False) -> DeliveryCounts:
        """Implement `Dispatcher.deliver`."""
        counts = DeliveryCounts()
        if self._trouble_count and self._until > self._now():
            counts.troubles[self.name] = self._trouble
            return counts
        is_open = False
        if self._planner is not None:
            self._planner.plan()
        try:
            if stopped() or next(self._due(1), None) is None:
                return counts
            self._channel.open()  # comes first: it may find out that some deliveries were made before
            is_open = True
            for due, hand_over in self._due(limit):
                if stopped():
                    break
                self._try(due, hand_over, counts)
        except ChannelError as error:
            if not stopped():
                self._pause(error, counts)
        finally:
            if is_open:
                self._channel.close()
        return counts

    def interrupt(self) -> None:
        """Implement `Dispatcher.interrupt`."""
        self._channel.interrupt()

    def _due(self, limit: int) -> Iterator[tuple[list[DueDelivery], HandOver]]:
        left, channel = limit, self._channel
        which: Which = "all" if not self._config.is_for_people else "decided" if self._planner else "alone"
        while left > 0 and (page := self._store.due_deliveries(self.name, min(left, _PAGE), self._now(), which)):
            left -= len(page)
            suspects = [one for one in page if one.delivery_id in self._suspects]
            others = [one for one in page if one.delivery_id not in self._suspects]
            for start in range(0, len(others), channel.batch_count):
                yield others[start : start + channel.batch_count], channel.deliver
            for one in suspects:
                yield [one], channel.deliver
        if isinstance(channel, DigestChannel):
            for digest in self._store.due_digests(self.name, self._now()):
                while left > 0 and (page := self._store.due_digest(self.name, digest, _PAGE, self._now())):
                    left -= len(page)
                    for group in _alike(page):
                        yield group, channel.deliver_digest

    def _try(self, due: Sequence[DueDelivery], hand_over: HandOver, counts: DeliveryCounts) -> None:
        try:
            sent = hand_over(due)
        except ChannelLostError as error:
            settled = [one for one in due if one.delivery_id in error.settled]
            failures = {number: reason for number, reason in error.settled.items() if reason is not None}
            self._record(settled, Sent(failures), counts)
            self._put_aside([one for one in due if one.delivery_id not in error.settled], str(error), counts)
            raise
        self._record(due, sent, counts)
        self._trouble_count = 0

    def _put_aside(self, due: Sequence[DueDelivery], reason: str, counts: DeliveryCounts) -> None:
        """Let the others go first; what has stopped a working channel before has failed."""
        suspects = self._suspects.copy() if self._trouble_count == 0 else set()
        failed = [one for one in due if one.delivery_id in suspects]
        self._record(failed, Sent({one.delivery_id: reason for one in failed}), counts)
        later = self._now() + self._wait(self._trouble_count + 1)
        self._store.record_outcomes(
            Outcome(one.delivery_id, "pending", reason, later, counted=False, recipients=one.recipients)
            for one in due
            if one.delivery_id not in suspects
        )
        self._suspects.update(one.delivery_id for one in due)

    def _record(self, due: Sequence[DueDelivery], sent: Sent, counts: DeliveryCounts) -> None:
        outcomes = [self._outcome(delivery, sent) for delivery in due]
        self._store.record_outcomes(outcomes, sent.file_size)
        self._suspects.difference_update(outcome.delivery_id for outcome in outcomes)
        counts.delivered += sum(outcome.state == "delivered" for outcome in outcomes)
        counts.retried += sum(outcome.state == "pending" for outcome in outcomes)
        counts.dead += sum(outcome.state == "dead" for outcome in outcomes)

    def _outcome(self, delivery: DueDelivery, sent: Sent) -> Outcome:
        number, tries = delivery.delivery_id, delivery.attempts + 1
        reason, recipients = sent.failures.get(number), sent.recipients.get(number, delivery.recipients)
        if reason is None:
            note = f"delivered at try {tries}" if tries > 1 else None
            return Outcome(number, "delivered", sent.notes.get(number, note), recipients=recipients)
        if number in sent.final:
            return Outcome(number, "dead", reason, recipients=recipients)
        if tries >= self._config.tries:
            reason = f"{reason} (try {tries} of {self._config.tries})"
            return Outcome(number, "dead", reason, recipients=recipients)
        return Outcome(number, "pending", reason, self._now() + self._wait(tries), recipients=recipients)

    def _pause(self, error: ChannelError, counts: DeliveryCounts) -> None:
        """Do not use the channel for a while; its notifications record why they wait."""
        self._trouble_count += 1
        reason, wait = str(error), max(self._wait(self._trouble_count), timedelta(seconds=min(error.wait_s, _DAY_S)))
        self._trouble, self._until = reason, self._now() + wait
        self._store.note_pending(self.name, reason)
        counts.troubles[self.name] = reason

    def _wait(self, tries: int) -> timedelta:
        """Return the time to wait after this number of consecutive failures."""
        waits = self._config.back_off_s
        return timedelta(seconds=waits[min(tries, len(waits)) - 1])


class UnconfiguredDispatcher:
    """Records why notifications wait if no block configures their delivery."""

    name = "none"

    def __init__(self, known: Sequence[str], store: Store, now: Now) -> None:
        self._known, self._store, self._now = frozenset(known), store, now
        self._noted: set[str] = set()
        self._until = now()

    def deliver(self, limit: int, stopped: Callable[[], bool] = lambda: False) -> DeliveryCounts:
        """Note the reason once a minute; nothing is delivered."""
        del limit, stopped
        names = [name for name in self._store.pending_delivery_names() if name not in self._known]
        troubles = {name: f"no [[delivery]] is named '{name}'" for name in names}
        if troubles.keys() - self._noted or self._until <= self._now():
            for name, reason in troubles.items():
                self._store.note_pending(name, reason)
            self._noted, self._until = set(troubles), self._now() + _UNCONFIGURED_WAIT
        return DeliveryCounts(troubles=troubles)

    def interrupt(self) -> None:
        """Do nothing: nothing here waits."""


def _alike(page: Sequence[DueDelivery]) -> list[list[DueDelivery]]:
    """Return the deliveries in groups of those that still wait for the same recipients."""
    groups: dict[frozenset[str], list[DueDelivery]] = {}
    for one in page:
        groups.setdefault(frozenset(one.recipients), []).append(one)
    return list(groups.values())
