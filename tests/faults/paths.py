"""All ways of a message through a broker, a publisher for each, and a ledger for each place where it must be.

A message that goes to several queues must be in each; one that moves, because it expires, is rejected or is pushed out,
must be in one of the queues of its place."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from pamqp import commands
from pamqp.body import ContentBody

from tests.faults.amqp import MAILBOX, PAD, Client, Consumer, Getter, Ledger, Publisher, drain
from tests.faults.broker_process import BrokerProcess
from tests.faults.stream_reader import Reading, StreamReader, read_on

TTL_MS = 300
"""The longest time that a message waits before it moves by itself."""
STREAM = "log"
NARROW = "narrow"
"""A queue that is full while letters for it wait in their own queue, where nobody sees them."""
LETTERS_S_MAX = 60
"""The time in which all letters that wait go on, however busy the machine is, when there is room for them."""
ANNS = f"{MAILBOX}ann"
SERVICE = "amq.service.work"

EXCHANGES: tuple[dict[str, Any], ...] = (
    {"exchange": "fan", "exchange_type": "fanout"},
    {"exchange": "direct", "exchange_type": "direct", "arguments": {"alternate-exchange": "rest"}},
    {"exchange": "topic", "exchange_type": "topic"},
    {"exchange": "headers", "exchange_type": "headers"},
    {"exchange": "query", "exchange_type": "x-query"},
    {"exchange": "inner", "exchange_type": "fanout", "internal": True},
    {"exchange": "rest", "exchange_type": "fanout"},
    {"exchange": "dead", "exchange_type": "direct", "internal": True},
)
QUEUES: dict[str, dict[str, Any]] = {
    "work": {},
    "fan.1": {},
    "fan.2": {},
    "of.direct": {},
    "of.topic": {},
    "of.headers": {},
    "of.query": {},
    "of.inner": {},
    "of.rest": {},
    "dying": {"x-message-ttl": TTL_MS, "x-dead-letter-exchange": "dead", "x-dead-letter-routing-key": "b"},
    "rejecting": {"x-dead-letter-exchange": "dead", "x-dead-letter-routing-key": "c"},
    "rejected": {},
    "waiting": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "waited"},
    "waited": {},
    "full": {"x-max-length": 50, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "overflowed"},
    "overflowed": {},
    "refusing": {"x-max-length": 200, "x-overflow": "reject-publish"},
    "burying": {
        **{"x-max-length": 50, "x-overflow": "reject-publish-dlx"},
        **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "buried"},
    },
    "buried": {},
    "careful": {
        **{"x-max-length": 500, "x-overflow": "reject-publish", "x-message-ttl": TTL_MS},
        **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": NARROW},
        "x-dead-letter-strategy": "at-least-once",
    },
    NARROW: {"x-max-length": 200, "x-overflow": "reject-publish"},
    "tried": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "retry"},
    "retry": {"x-message-ttl": TTL_MS // 3, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "tried"},
    "got": {},
    "transacted.1": {},
    "transacted.2": {},
    STREAM: {"x-queue-type": "stream"},
}
BINDINGS: tuple[dict[str, Any], ...] = (
    {"queue": "fan.1", "exchange": "fan"},
    {"queue": "fan.2", "exchange": "fan"},
    {"queue": "of.direct", "exchange": "direct", "routing_key": "a"},
    {"queue": "of.topic", "exchange": "topic", "routing_key": "a.*"},
    {"queue": "of.headers", "exchange": "headers", "arguments": {"number": 1}},
    {"queue": "of.query", "exchange": "query", "arguments": {"x-query": "number > 5"}},
    {"queue": "of.inner", "exchange": "inner"},
    {"queue": "of.rest", "exchange": "rest"},
    {"queue": "rejecting", "exchange": "dead", "routing_key": "b"},
    {"queue": "rejected", "exchange": "dead", "routing_key": "c"},
)

Taker = Consumer | Getter | StreamReader


@dataclass(frozen=True)
class Way:
    """A way to publish. `places` are groups of queues: the message must be in each group, in one of its queues."""

    exchange: str
    key: str
    places: tuple[tuple[str, ...], ...]
    properties: dict[str, Any] = field(default_factory=dict)
    transaction: int = 0


WAYS = (
    Way("", "work", (("work",),)),
    Way("fan", "", (("fan.1",), ("fan.2",))),
    Way("direct", "a", (("of.direct",),)),
    Way("direct", "b", (("of.rest",),)),
    Way("topic", "a.b", (("of.topic",),)),
    Way("topic", "in.b", (("of.inner",),)),
    Way("headers", "", (("of.headers",),), {"headers": {"number": 1}}),
    Way("query", "", (("of.query",),), {"headers": {"number": 7}}),
    Way("", "dying", (("dying", "rejecting", "rejected"),)),
    Way("", "waiting", (("waiting", "waited"),), {"expiration": str(TTL_MS)}),
    Way("", "full", (("full", "overflowed"),)),
    Way("", "refusing", (("refusing",),)),
    Way("", "burying", (("burying",),)),
    Way("", "careful", ((NARROW, "careful"),)),
    Way("", "tried", (("retry", "tried"),)),
    Way("", "got", (("got",),)),
    Way("", "transacted.1", (("transacted.1",),), transaction=7),
    Way("", "transacted.2", (("transacted.2",),), transaction=40),
    Way("", STREAM, ((STREAM,),)),
    Way("mailbox", "ann", ((ANNS,),)),
    Way("service", "work", ((SERVICE,),)),
)


class Paths:
    """The ledgers of all ways, over as many restarts as there are.

    Attributes:
        ledgers: by the queues of a place.
        reading: the deliveries to a named reader of the stream.
    """

    def __init__(self) -> None:
        self.reading = Reading()
        self._stream: list[str] = []
        self._published = {way: Ledger() for way in map(id, WAYS)}
        self.ledgers = {place: replace(self._published[id(way)], delivered=[]) for way in WAYS for place in way.places}

    def start(self, port: int, name: str, size: int) -> list[Publisher | Taker]:
        """Start a publisher for each way, and those who take: of queues, of those whose messages they reject, of a
        mailbox and of a service, one with basic.get, and a named reader of the stream."""
        declare(port)
        publishers = [
            Publisher(
                port,
                way.key,
                f"{name}w{number}",
                self._published[id(way)],
                size=size,
                window=100,
                exchange=way.exchange,
                properties=way.properties,
                transaction=way.transaction,
            )
            for number, way in enumerate(WAYS)
        ]
        takers: list[Taker] = [
            Consumer(port, "work", self.ledgers["work",]),
            Consumer(port, "rejecting", Ledger(), rejects=True),
            Consumer(port, "tried", Ledger(), rejects=True),
            Getter(port, "got", self.ledgers["got",]),
            Consumer(port, ANNS, self.ledgers[ANNS,], identity="ann"),
            Consumer(port, SERVICE, self.ledgers[SERVICE,], prefetch=1, ack_every=1),
            StreamReader(port, STREAM, self.reading, name="audit"),
        ]
        threads: list[Publisher | Taker] = [*publishers, *takers]
        for thread in threads:
            thread.start()
        return threads

    def confirmed(self) -> dict[tuple[str, ...], set[str]]:
        """Return what is confirmed now, by place. What the named reader has been shown until now is sure, too."""
        self.reading.sure = len(self.reading.seen)
        return {place: set(ledger.confirmed) for place, ledger in self.ledgers.items()}

    def drain(self, broker: BrokerProcess) -> None:
        """Fetch everything from all queues, when all that moves by itself has moved."""
        port = broker.port
        time.sleep(2 * TTL_MS / 1000)
        for place, ledger in self.ledgers.items():
            for queue in place:
                if queue == STREAM:
                    self._stream = read_stream(port)
                    ledger.delivered += self._stream
                    read_on(port, STREAM, self.reading, self._numbered(), name="audit")
                else:
                    count = drain(port, queue, ledger)
                    assert not count or queue not in {"dying", "waiting"}, f"{count} are in '{queue}' after their time"
                    end = time.monotonic() + LETTERS_S_MAX
                    # Asked before: what goes on while the queue is drained is there for the next time.
                    while queue == NARROW and broker.metrics()["letters_waiting"] + drain(port, queue, ledger):
                        assert time.monotonic() < end, f"letters wait although '{queue}' is empty: {broker.metrics()}"
                        time.sleep(0.05)

    def only_confirmed(self, confirmed: dict[tuple[str, ...], set[str]]) -> None:
        """Let only these count as confirmed."""
        for place, ledger in self.ledgers.items():
            self.ledgers[place] = replace(ledger, confirmed=confirmed[place])

    def wrong(self) -> dict[str, str]:
        """Return what is lost, or is there although nobody sent it or it was refused, by place.

        The named reader is a place, too."""
        reading = self.reading.wrong(self._numbered())
        return ({"the named reader": "; ".join(reading)} if reading else {}) | {
            "/".join(place): f"{len(it.lost)} of {len(it.confirmed)} lost, {len(it.phantoms)} phantoms"
            for place, it in self.ledgers.items()
            if it.lost or it.phantoms
        }

    def _numbered(self) -> dict[int, str]:
        """Return the stream's messages by their numbers."""
        return dict(enumerate(self._stream, 1))

    def __str__(self) -> str:
        rows = ((place, len(it.attempted), len(it.confirmed), it.duplicates) for place, it in self.ledgers.items())
        return "; ".join(
            f"{'/'.join(place)} {sent} sent {kept} confirmed {twice} doubled" for place, sent, kept, twice in rows
        )


def declare(port: int) -> None:
    """Declare everything."""
    client = Client(port)
    for exchange in EXCHANGES:
        client.call(commands.Exchange.Declare(durable=True, **exchange), "Exchange.DeclareOk")
    for name, arguments in QUEUES.items():
        client.call(commands.Queue.Declare(queue=name, durable=True, arguments=arguments), "Queue.DeclareOk")
    for binding in BINDINGS:
        client.call(commands.Queue.Bind(**binding), "Queue.BindOk")
    client.call(commands.Exchange.Bind(destination="inner", source="topic", routing_key="in.#"), "Exchange.BindOk")
    client.close()


def read_stream(port: int) -> list[str]:
    """Return the messages of the stream, from the first to the last."""
    client = Client(port)
    client.call(commands.Basic.Qos(prefetch_count=1000), "Basic.QosOk")
    state = client.call(commands.Queue.Declare(queue=STREAM, passive=True), "Queue.DeclareOk")
    client.send(commands.Basic.Consume(queue=STREAM, arguments={"x-stream-offset": "first"}))
    bodies = list(_bodies(client, state.message_count))
    client.close()
    return bodies


def _bodies(client: Client, count: int) -> Iterator[str]:
    taken, end = 0, time.monotonic() + 120
    while taken < count and time.monotonic() < end:
        for value in client.frames(1.0):
            if isinstance(value, ContentBody):
                taken += 1
                yield value.value.decode().rstrip(PAD)
                if taken % 100 == 0:
                    client.send(commands.Basic.Ack(taken, multiple=True))
    assert taken == count, f"{taken} of {count} messages of the stream came"
