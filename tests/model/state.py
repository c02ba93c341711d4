"""The state of the model: messages, queues as lists of entries, and clients with what they hold."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tests.model.program import Publish, QueueSpec

Deaths = tuple[tuple[str, str, int], ...]


class ViolationError(AssertionError):
    """The broker did what no rule allows."""


@dataclass(frozen=True)
class Message:
    """A message as it was published, or as a queue sent it on: then with `deaths`, the latest first."""

    id: int
    exchange: str
    key: str
    persistent: bool
    expiration: str | None
    number: int
    text: str
    size: int
    deaths: Deaths = ()
    first_death: tuple[str, str] | None = None

    @property
    def headers(self) -> dict[str, object]:
        """Return the headers that routing looks at."""
        return {"number": self.number, "text": self.text}


@dataclass(frozen=True)
class Entry:
    """A message in a queue. `redelivered` is None where the broker may say either."""

    message: Message
    position: int
    deadline: int | None
    redelivered: bool | None = False


@dataclass
class Queue:
    """The ready entries of a queue, oldest first; `used` is when `x-expires` began to count."""

    spec: QueueSpec
    used: int
    position: int = 0
    is_gone: bool = False
    ready: list[Entry] = field(default_factory=list)

    def extent(self) -> tuple[int, int]:
        """Return the number of ready entries, and their size."""
        return len(self.ready), sum(entry.message.size for entry in self.ready)


@dataclass
class Consumer:
    """A consumer: what it consumes, and how many of its deliveries are not settled."""

    queue: str
    prefetch: int
    no_ack: bool
    outstanding: int = 0


@dataclass(frozen=True)
class Held:
    """A delivery that is not settled; no consumer when it was fetched."""

    queue: str
    declared: int
    entry: Entry
    consumer: str | None


@dataclass
class Transaction:
    """What the next commit does; `is_broken` when a mistake in it was not refused at once."""

    publishes: list[tuple[int, Publish]] = field(default_factory=list)
    settles: list[tuple[tuple[int, ...], str]] = field(default_factory=list)
    is_broken: bool = False

    def settled(self) -> set[int]:
        """Return the tags that it settles."""
        return {tag for tags, _ in self.settles for tag in tags}

    def copy(self) -> Transaction:
        """Return a copy that changes separately."""
        return Transaction(list(self.publishes), list(self.settles), self.is_broken)


@dataclass
class Client:
    """A client with one channel, opened as `mode` says."""

    mode: str
    consumers: dict[str, Consumer] = field(default_factory=dict)
    held: dict[int, Held] = field(default_factory=dict)
    transaction: Transaction = field(default_factory=Transaction)
    tag: int = 0
    last_settled: int = 0
    prefetch: int = 0
    outstanding: int = 0

    def copy(self) -> Client:
        """Return a copy that changes separately."""
        consumers = {tag: replace(consumer) for tag, consumer in self.consumers.items()}
        return replace(self, consumers=consumers, held=dict(self.held), transaction=self.transaction.copy())


@dataclass
class Expected:
    """What the broker must say in a call besides deliveries and the answer of basic.get.

    Attributes:
        closed: the codes of channel.close that are right; none when the channel stays open.
        outcomes: "Basic.Ack" or "Basic.Nack" for each message that was published, in their order.
    """

    closed: tuple[int, ...] = ()
    answers: list[str] = field(default_factory=list)
    returned: list[int] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    cancelled: set[str] = field(default_factory=set)
