"""Defines what goes into the store and what comes out of it, as plain values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from tamis.query import QuerySpec

Recipients = Mapping[str, str | None]
"""Recipient -> None if a notification was delivered to them, else why they refused it for good."""

DeliveryState = Literal["pending", "delivered", "dead"]
StepKind = Literal["delivered", "retried", "waiting", "dead", "revived", "digested", "throttled", "quiet"]
Which = Literal["all", "alone", "decided"]
AdapterDesire = Literal["running", "paused", "stopped"]


CONTENT = ("text", "language", "owner", "tags", "deliveries", "paused", "expires_at")
"""The fields of a query that make another version of it when they change."""

_DIGITS_OF_A_LOG = range(11, 21)  # its id is a random number of 64 bits, where others have the digest of a message
_SUFFIXES_OF_ROWS = (".csv", ".tsv")


def place_text(source: str, partition: str, offset: int, digest: str) -> str:
    """Return the place of a message as people read it.

    A message in a file with others has the byte where it begins, or the number of its row; one of a stream has its
    number. The others are a file, or come from the address of a feed, a mailbox or a server, which is their place.
    """
    place = f"{source}, {partition}"
    if digest.isdecimal() and len(digest) in _DIGITS_OF_A_LOG:
        return f"{place}, message {offset}"
    unit = "row" if partition.lower().endswith(_SUFFIXES_OF_ROWS) else "byte"
    return f"{place}, {unit} {offset}" if offset else place


@dataclass(frozen=True, slots=True)
class QueryRecord:
    """One version of a query.

    Attributes:
        key: the query's name.
        version: the version, from 1. It is never used again, also if the key is removed and added again.
        text: the text in `language`.
        language: one of ``tamis.query.LANGUAGES``.
        owner: the owner's name.
        tags: free words.
        deliveries: the names of the deliveries for its matches; empty: the pipeline's default.
        created_at: when this version was added, UTC.
        origin: the file in which alone it can be changed; None if it was added by hand.
        paused: whether it matches nothing until it is resumed.
        expires_at: the time from which on it matches nothing, UTC; None: it never expires.
    """

    key: str
    version: int
    text: str
    language: str
    owner: str
    tags: tuple[str, ...]
    deliveries: tuple[str, ...]
    created_at: datetime
    origin: str | None = None
    paused: bool = False
    expires_at: datetime | None = None

    def spec(self) -> QuerySpec:
        """Return the query as it is written down."""
        from tamis.query import QuerySpec

        return QuerySpec(self.key, **{name: getattr(self, name) for name in CONTENT})


@dataclass(frozen=True, slots=True)
class HierarchyRecord:
    """One version of the hierarchy of an attribute.

    Attributes:
        attribute: the property whose values it orders.
        version: the version, from 1.
        parents: value -> its parent, or None for a root.
        created_at: when this version was set, UTC.
        origin: the file in which alone it can be changed; None if it was set by hand.
        valid: whether it is the version that counts now.
    """

    attribute: str
    version: int
    parents: Mapping[str, str | None]
    created_at: datetime
    origin: str | None
    valid: bool


@dataclass(frozen=True, slots=True)
class Change:
    """A difference between a file and the store.

    Attributes:
        kind: ``query`` or ``hierarchy``.
        name: the query's key, or the hierarchy's attribute.
        action: ``added``, ``changed`` or ``removed``.
        before: the fields in the store, by name; only those that differ if it is changed. None if added.
        after: the fields in the file, by name; None if removed.
    """

    kind: Literal["query", "hierarchy"]
    name: str
    action: Literal["added", "changed", "removed"]
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class FileChanges:
    """The result of applying files: the changes, and the number of unchanged queries and hierarchies."""

    changes: tuple[Change, ...]
    unchanged: int

    def count(self, action: str) -> int:
        """Return the number of changes that were ``added``, ``changed`` or ``removed``."""
        return sum(change.action == action for change in self.changes)


@dataclass(frozen=True, slots=True)
class ImportCounts:
    """The result of importing a file of queries: new keys, keys with a new version, and unchanged keys."""

    added: int
    changed: int
    unchanged: int


class MessageRow(NamedTuple):
    """A message that matched; its first four fields name it for ever, and `properties` is JSON text."""

    source: str
    partition: str
    offset: int
    digest: str
    topic: str
    properties: str
    body: str | None
    xml: str | None


class Notification(NamedTuple):
    """A match of a message by a version of a query; `id` is its `notification_id`."""

    id: str
    query_key: str
    query_version: int
    source: str
    partition: str
    offset: int
    digest: str


def notification_id(query_key: str, query_version: int, *message: str | int) -> str:
    """Return the id of the notification that this version of this query matched this message: 32 hexadecimal digits.

    A replay after a crash computes the same id, and the outbox holds each id once, so that nothing is repeated. A
    message with an identity of its own, such as a mail, has the same id wherever it is found again. Any other is
    another message at another place, and so are other bytes at the same place. It is 128 bits of SHA-256: among a
    hundred thousand million ids, two collide with a chance of 1 in 10^16. Cost: 3 µs.

    Args:
        query_key: the query.
        query_version: its version.
        message: its identity alone; else its source, partition, offset and digest.

    >>> notification_id("frost", 1, "inbox", "mail/1.mbox", 0, "00")
    'e76f3d58f534a751e2f31d84994bb1de'
    """
    named = json.dumps([query_key, query_version, *message], separators=(",", ":"))
    return hashlib.sha256(named.encode()).hexdigest()[:32]


class DeadLetter(NamedTuple):
    """A message that could not be read: its place, the reason, and its bytes."""

    source: str
    partition: str
    offset: int
    digest: str
    reason: str
    raw: bytes


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of matching one batch.

    Attributes:
        messages: those that matched, each once.
        notifications: one for each pair of message and query.
        dead_letters: messages that could not be read.
        read_count: messages in the batch, including dead letters.
        matched_count: messages with at least one match.
    """

    messages: Sequence[MessageRow] = ()
    notifications: Sequence[Notification] = ()
    dead_letters: Sequence[DeadLetter] = ()
    read_count: int = 0
    matched_count: int = 0


@dataclass(frozen=True, slots=True)
class BatchCounts:
    """The counts of a committed batch; `notifications` and `dead` count what was new in the store."""

    read: int
    matched: int
    notifications: int
    dead: int


@dataclass(frozen=True, slots=True)
class Counts:
    """Totals of the whole store."""

    revision: int
    queries: int
    batches: int
    read: int
    matched: int
    notifications: int
    dead_letters: int
    deliveries_pending: int
    deliveries_delivered: int
    deliveries_dead: int


@dataclass(frozen=True, slots=True)
class NotificationRecord:
    """A notification with its message and the text of its query; `seq` numbers notifications in order of creation.

    `created_at` is when its batch was committed, UTC, taken as the last step before the disk is asked to keep it.
    """

    seq: int
    id: str
    query_key: str
    query_version: int
    query_text: str
    query_language: str
    created_at: datetime
    source: str
    partition: str
    offset: int
    digest: str
    topic: str
    properties: str
    body: str | None
    xml: str | None
    hierarchies: str = ""
    """The hierarchies that the query may ask for, as they are now: JSON, attribute -> value -> its parent."""

    @property
    def asks_hierarchies(self) -> bool:
        """Whether the query may ask for a hierarchy; it is not compiled for that."""
        return "under" in self.query_text.lower() or self.query_language.startswith("boolean:")

    @property
    def message_key(self) -> tuple[str, str, int, str]:
        """Return the name of the message: notifications of one message have the same."""
        return self.source, self.partition, self.offset, self.digest

    def message_properties(self) -> dict[str, Any]:
        """Return the properties as the adapter gave them: the date, which is text in JSON, is a time again.

        Raises:
            ValueError: `properties` is not JSON.
        """
        properties: dict[str, Any] = json.loads(self.properties)
        if isinstance(date := properties.get("date"), str):
            with suppress(ValueError):  # a JSON message may have any text there
                properties["date"] = datetime.fromisoformat(date)
        return properties


@dataclass(frozen=True, slots=True)
class DueDelivery:
    """A notification that is due for delivery.

    Attributes:
        delivery_id: the id of the delivery.
        attempts: number of earlier tries.
        notification: what is to be delivered.
        recipients: the recipients that earlier tries have settled: None if they got it, else why they refused it.
        owner: the owner of the query.
    """

    delivery_id: int
    attempts: int
    notification: NotificationRecord
    recipients: Recipients = field(default_factory=dict)
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Undecided:
    """A delivery for which no time is decided: its query with the owner, and when the message matched, UTC."""

    delivery_id: int
    owner: str
    query_key: str
    matched_at: datetime


@dataclass(frozen=True, slots=True)
class Hold:
    """When a delivery is sent.

    Attributes:
        delivery_id: the id of the `Undecided` delivery.
        digest: the name of the digest that it goes into; empty: it goes alone.
        until: when the digest is sent, UTC; None: now.
        step: the step in the log if it waits.
        reason: why it waits.
    """

    delivery_id: int
    digest: str = ""
    until: datetime | None = None
    step: StepKind = "digested"
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one try of a delivery.

    Attributes:
        delivery_id: the id of the `DueDelivery`.
        state: ``delivered``, ``dead``, or ``pending`` for one to be tried again.
        reason: the reason in one line, or None.
        next_attempt_at: the earliest time of the next try; only for ``pending``.
        counted: whether the try counts against the notification; it does not if the whole channel was down.
        recipients: those that this try and earlier ones have settled, as in `DueDelivery`.
    """

    delivery_id: int
    state: DeliveryState
    reason: str | None = None
    next_attempt_at: datetime | None = None
    counted: bool = True
    recipients: Recipients = field(default_factory=dict)

    @property
    def step(self) -> StepKind:
        """Return the text for the log."""
        if self.state != "pending":
            return self.state
        return "retried" if self.counted else "waiting"


@dataclass(frozen=True, slots=True)
class DeliveryRecord:
    """One line of the log of deliveries: a decision and its reason.

    `recipients` are those that are settled: None if they got it, else why they refused it.
    """

    notification_id: str
    query_key: str
    delivery: str
    state: DeliveryState
    attempts: int
    next_attempt_at: datetime
    reason: str | None
    updated_at: datetime
    recipients: Recipients = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeliveryStep:
    """One step of a delivery, as the log has it.

    Attributes:
        notification_id: the notification.
        delivery: the name of the ``[[delivery]]``.
        at: when it was decided, UTC.
        step: the decision.
        reason: the reason in one line; None if the step needs none.
    """

    notification_id: str
    delivery: str
    at: datetime
    step: StepKind
    reason: str | None


@dataclass(frozen=True, slots=True)
class DeadLetterRecord:
    """A dead letter with the time at which it was recorded; `number` names it."""

    number: int
    source: str
    partition: str
    offset: int
    digest: str
    reason: str
    raw: bytes
    created_at: datetime


@dataclass(frozen=True, slots=True)
class AdapterState:
    """The state of an adapter.

    Attributes:
        name: the name in pipeline.toml.
        desired: the requested state.
        status: the status that it last reported (``running``, ``stopped``, ``failed``, ...).
        last_error: its last error; None if it has run since without one.
        read_count: messages read so far.
        dead_count: dead letters among them.
        last_batch_at: when it last read messages, UTC.
        updated_at: when it last reported, UTC.
        polled_at: when it last looked for new messages, UTC; None if it never did.
        next_poll_at: when it was to look next, UTC.
    """

    name: str
    desired: AdapterDesire
    status: str
    last_error: str | None
    read_count: int
    dead_count: int
    last_batch_at: datetime | None
    updated_at: datetime
    polled_at: datetime | None = None
    next_poll_at: datetime | None = None


class AdapterProblem(NamedTuple):
    """An error of an adapter, and when it was reported, UTC."""

    at: datetime
    error: str


@dataclass(frozen=True, slots=True)
class QueryMatches:
    """A query and the matches of all its versions; `timeline` has (start of the bucket, matches), ascending."""

    key: str
    version: int
    text: str
    language: str
    matches: int
    first_subject: str | None
    last_match_at: datetime | None
    timeline: tuple[tuple[datetime, int], ...] = field(default=())


class Unsubscription(NamedTuple):
    """An address that wants no more e-mails of a query, or with an empty key of any, since a time, UTC."""

    address: str
    query_key: str
    created_at: datetime


class Poll(NamedTuple):
    """When an adapter looked for new messages, and when it will look again, UTC; None if it will not."""

    at: datetime
    next_at: datetime | None


@dataclass(frozen=True, slots=True)
class Lease:
    """The process that runs a pipeline over the store, or ran the last one.

    Attributes:
        token: the id of this run.
        pid: the number of its process.
        host: the name of its machine.
        config: the path of its configuration.
        taken_at: when it began, UTC.
        renewed_at: when the lease was last renewed, UTC.
        expires_at: the time from which on it no longer counts unless it is renewed, UTC.
        ended_at: when it was given back, UTC; None if it was not.
    """

    token: str
    pid: int
    host: str
    config: str
    taken_at: datetime
    renewed_at: datetime
    expires_at: datetime
    ended_at: datetime | None

    def is_valid(self, now: datetime) -> bool:
        """Return whether it counts at `now`: it was not given back, and has not expired."""
        return self.ended_at is None and now < self.expires_at

    @property
    def last_seen_at(self) -> datetime:
        """When the pipeline certainly ran for the last time, UTC."""
        return self.ended_at or self.renewed_at
