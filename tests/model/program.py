"""A random program for a broker: what is declared at the start, and what clients do then.

Every value prints as the Python that makes it again, so that a failing program can be pasted into a test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class ExchangeSpec:
    """An exchange to be declared."""

    name: str
    kind: str = "direct"
    durable: bool = True
    internal: bool = False
    alternate: str | None = None


@dataclass(frozen=True)
class QueueSpec:
    """A queue to be declared; None is an argument that is not given.

    One that `buries`, makes letters of what it refuses, also `rejects`."""

    name: str
    durable: bool = True
    ttl_ms: int | None = None
    expires_ms: int | None = None
    length_max: int | None = None
    bytes_max: int | None = None
    rejects: bool = False
    buries: bool = False
    dead_letters: str | None = None
    dead_key: str | None = None

    @property
    def is_bounded(self) -> bool:
        """Return whether the queue has a maximum length."""
        return self.length_max is not None or self.bytes_max is not None

    def _overflow(self) -> str | None:
        if self.buries:
            return "reject-publish-dlx"
        return "reject-publish" if self.rejects else None

    def arguments(self) -> dict[str, object]:
        """Return the arguments of queue.declare."""
        given = {
            "x-message-ttl": self.ttl_ms,
            "x-expires": self.expires_ms,
            "x-max-length": self.length_max,
            "x-max-length-bytes": self.bytes_max,
            "x-overflow": self._overflow(),
            "x-dead-letter-exchange": self.dead_letters,
            "x-dead-letter-routing-key": self.dead_key,
        }
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class BindingSpec:
    """A binding of a queue or an exchange (`to_exchange`) to an exchange."""

    source: str
    target: str
    key: str = ""
    arguments: tuple[tuple[str, object], ...] = ()
    to_exchange: bool = False


@dataclass(frozen=True)
class Publish:
    """`count` equal messages; their headers have `number` and `text`."""

    client: int
    exchange: str
    key: str
    persistent: bool = True
    mandatory: bool = False
    expiration: str | None = None
    number: int = 0
    text: str = "a"
    size: int = 20
    count: int = 1


@dataclass(frozen=True)
class Burst:
    """Messages of one client that arrive in one read."""

    publishes: tuple[Publish, ...]


@dataclass(frozen=True)
class Get:
    """basic.get, `late_ms` later, before the broker looks for what has expired."""

    client: int
    queue: str
    no_ack: bool = False
    late_ms: int = 0


@dataclass(frozen=True)
class Consume:
    """basic.consume; `prefetch` is the consumer's."""

    client: int
    queue: str
    prefetch: int = 0
    no_ack: bool = False
    late_ms: int = 0


@dataclass(frozen=True)
class Cancel:
    """basic.cancel of one of the client's consumers."""

    client: int
    pick: int = 0


@dataclass(frozen=True)
class Prefetch:
    """basic.qos for the whole channel."""

    client: int
    count: int


@dataclass(frozen=True)
class Settle:
    """ack, nack or reject of one of the client's deliveries; `all` is tag 0 with multiple."""

    client: int
    pick: int = 0
    how: str = "ack"
    multiple: bool = False
    all: bool = False


@dataclass(frozen=True)
class SettleAgain:
    """An ack of the tag that the client settled last: a mistake."""

    client: int


@dataclass(frozen=True)
class Recover:
    """basic.recover with requeue."""

    client: int


@dataclass(frozen=True)
class Commit:
    """tx.commit."""

    client: int


@dataclass(frozen=True)
class Rollback:
    """tx.rollback."""

    client: int


@dataclass(frozen=True)
class Disconnect:
    """The client's socket closes, and it connects again."""

    client: int


@dataclass(frozen=True)
class Wait:
    """Time passes."""

    ms: int


@dataclass(frozen=True)
class Declare:
    """queue.declare of a queue of the program, which may have been deleted or have expired."""

    queue: str


@dataclass(frozen=True)
class DeclareExtra:
    """A further durable queue, which the limit of queues of a user may refuse."""


@dataclass(frozen=True)
class Purge:
    """queue.purge; with `kill` the broker is killed as soon as purge-ok has come."""

    queue: str
    kill: bool = False


@dataclass(frozen=True)
class Delete:
    """queue.delete."""

    queue: str


@dataclass(frozen=True)
class DeleteExchange:
    """exchange.delete."""

    exchange: str


@dataclass(frozen=True)
class Bind:
    """A binding of the program is made, again perhaps, or removed."""

    index: int
    is_made: bool = True


@dataclass(frozen=True)
class Restart:
    """The broker is stopped, or killed when all is written, and is away for some time."""

    kill: bool = False
    away_ms: int = 0


Operation: TypeAlias = (
    Publish | Burst | Get | Consume | Cancel | Prefetch | Settle | SettleAgain | Recover | Commit | Rollback
    | Disconnect | Wait | Declare | DeclareExtra | Purge | Delete | DeleteExchange | Bind | Restart
)  # fmt: skip


@dataclass(frozen=True)
class Program:
    """What is declared, the clients (each "confirm", "tx" or "plain"), and what they do."""

    exchanges: tuple[ExchangeSpec, ...]
    queues: tuple[QueueSpec, ...]
    bindings: tuple[BindingSpec, ...]
    clients: tuple[str, ...]
    operations: tuple[Operation, ...]
    memory_bytes: int = 1 << 30
    queues_max: int | None = None

    def __str__(self) -> str:
        lines = []
        for name in ("exchanges", "queues", "bindings", "operations"):
            values = "".join(f"        {_short(value)},\n" for value in getattr(self, name))
            lines.append(f"    {name}=(\n{values}    ),\n" if values else f"    {name}=(),\n")
        others = f"    clients={self.clients}, memory_bytes={self.memory_bytes}, queues_max={self.queues_max},\n"
        return f"Program(\n{''.join(lines)}{others})"


def _short(value: object) -> str:
    """Return a value as Python, without the fields that have their defaults."""
    if isinstance(value, Burst):
        return f"Burst(({', '.join(_short(publish) for publish in value.publishes)},))"
    fields = value.__dataclass_fields__.items()  # type: ignore[attr-defined]
    given = [f"{name}={getattr(value, name)!r}" for name, it in fields if getattr(value, name) != it.default]
    return f"{type(value).__name__}({', '.join(given)})"
