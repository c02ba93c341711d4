"""The rules by which messages move.

A call of the broker (a read of a socket, a tick) has phases, in the model as in the broker: what the client asked for
is done; consumers are served; dead letters are published. Which consumer is served is the broker's choice: the model
takes it from the deliveries that it was shown, and refuses those that no rule allows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tests.model.frames import Delivery
from tests.model.program import Program, QueueSpec
from tests.model.routing import Topology
from tests.model.state import Client, Consumer, Deaths, Entry, Expected, Held, Message, Queue, ViolationError


@dataclass
class World:
    """One state that the broker may be in.

    Attributes:
        queues: those that exist; `declared` counts declarations, so that a second queue of one name is another one.
        deliveries: what the broker delivered in this call, and no rule has explained yet.
        order: where the broker may take queues in any order, the model takes this one.
        sources: the queues that sent letters in this call, to see whether that order matters.
    """

    topology: Topology
    queues: dict[str, Queue]
    clients: list[Client]
    now: int
    declared: dict[str, int] = field(default_factory=dict)
    deliveries: list[Delivery] = field(default_factory=list)
    letters: list[Message] = field(default_factory=list)
    order: tuple[str, ...] = ()
    sources: set[str] = field(default_factory=set)
    expected: Expected = field(default_factory=Expected)

    def copy(self) -> World:
        """Return a copy that changes separately."""
        queues = {name: replace(queue, ready=list(queue.ready)) for name, queue in self.queues.items()}
        return replace(
            self,
            topology=self.topology.copy(),
            queues=queues,
            clients=[client.copy() for client in self.clients],
            declared=dict(self.declared),
            deliveries=list(self.deliveries),
            letters=[],
            sources=set(),
            expected=Expected(),
        )

    def fingerprint(self) -> str:
        """Return a text that is equal for equal worlds."""
        return repr((self.queues, self.clients, self.topology))

    def ranked(self, names: Iterable[str]) -> list[Queue]:
        """Return queues in the order of this world."""
        known = sorted(
            (name for name in names if name in self.queues),
            key=lambda name: (self.order.index(name) if name in self.order else len(self.order), name),
        )
        return [self.queues[name] for name in known]

    # ---- entries ----

    def put(self, queue: Queue, message: Message) -> None:
        """Put a message at the end of a queue, or hand it to a consumer that waits."""
        times = [queue.spec.ttl_ms, None if message.expiration is None else int(message.expiration)]
        given = [ms for ms in times if ms is not None]
        queue.position += 1
        entry = Entry(message, queue.position, self.now + min(given) * 1000 if given else None)
        if queue.ready or not self.deliver(queue, entry):
            queue.ready.append(entry)
            self.drop_head(queue)

    def put_back(self, held: Iterable[Held]) -> None:
        """Put deliveries back where they were."""
        back = [it for it in held if self.is_there(it)]
        for queue in self.ranked({it.queue for it in back}):
            entries = [replace(it.entry, redelivered=True) for it in back if it.queue == queue.spec.name]
            queue.ready = sorted(queue.ready + entries, key=lambda entry: entry.position)
            self.drop_head(queue)

    def is_there(self, held: Held) -> bool:
        """Return whether the queue of a delivery exists still."""
        return held.queue in self.queues and self.declared[held.queue] == held.declared

    def drop_head(self, queue: Queue) -> None:
        """Drop the oldest entries of a queue that is over its bounds. One that refuses messages drops none."""
        while not queue.spec.rejects and self.is_over(queue.spec, *queue.extent()):
            self.discard(queue, queue.ready.pop(0), "maxlen")

    @staticmethod
    def is_over(spec: QueueSpec, length: int, size: int) -> bool:
        """Return whether that is more than a queue may have."""
        return (spec.length_max is not None and length > spec.length_max) or (
            spec.bytes_max is not None and size > spec.bytes_max
        )

    def refuses(self, queue: Queue, size: int) -> bool:
        """Return whether a queue refuses a message of that size."""
        length, total = queue.extent()
        return queue.spec.rejects and self.is_over(queue.spec, length + 1, total + size)

    def discard(self, queue: Queue, entry: Entry, reason: str) -> None:
        """Drop an entry; it becomes a letter if the queue has a dead letter exchange."""
        spec, message = queue.spec, entry.message
        if spec.dead_letters is None:
            return
        same = [count for name, why, count in message.deaths if (name, why) == (spec.name, reason)]
        others = tuple(death for death in message.deaths if death[:2] != (spec.name, reason))
        self.sources.add(spec.name)
        self.letters.append(
            replace(
                message,
                exchange=spec.dead_letters,
                key=message.key if spec.dead_key is None else spec.dead_key,
                expiration=None,
                deaths=((spec.name, reason, sum(same) + 1), *others),
                first_death=message.first_death or (spec.name, reason),
            )
        )

    def route(self, message: Message) -> set[str]:
        """Return the queues that a message goes to."""
        return self.topology.route(message.exchange, message.key, message.headers, set(self.queues))

    def publish(self, message: Message) -> tuple[bool, bool]:
        """Route a message and put it into queues. Returns whether there are any, and whether one refused it."""
        queues = self.ranked(self.route(message))
        return bool(queues), self.put_into(queues, message)

    def put_into(self, queues: list[Queue], message: Message) -> bool:
        """Put a message into the queues that take it; the others may bury it. Returns whether there are others.

        Letters of those that bury it and of those that drop their heads come in the order of the queues.
        """
        refusing = [queue for queue in queues if self.refuses(queue, message.size)]
        for queue in queues:
            if queue not in refusing:
                self.put(queue, message)
            elif queue.spec.buries:
                self.discard(queue, Entry(message, 0, None), "maxlen")
        return bool(refusing)

    # ---- deliveries ----

    def can_take(self, client: Client, consumer: Consumer) -> bool:
        """Return whether a consumer has credit."""
        return consumer.no_ack or (
            (consumer.prefetch == 0 or consumer.outstanding < consumer.prefetch)
            and (client.prefetch == 0 or client.outstanding < client.prefetch)
        )

    def takers(self, queue: Queue) -> list[tuple[int, str]]:
        """Return the consumers that could take an entry of a queue now."""
        return [
            (number, tag)
            for number, client in enumerate(self.clients)
            for tag, consumer in client.consumers.items()
            if consumer.queue == queue.spec.name and self.can_take(client, consumer)
        ]

    def deliver(self, queue: Queue, entry: Entry) -> bool:
        """Match an entry with a delivery that was seen. False when nobody got it.

        Two clients may have seen it in one call, where the first has gone before its end: the flag tells who was first.
        """
        seen = [it for number, tag in self.takers(queue) if (it := self.next_of(number, tag, queue, entry))]
        if not seen:
            return False
        first = next((it for it in seen if it.redelivered == entry.redelivered), seen[0])
        self.deliveries.remove(first)
        self.check(first, queue, entry)
        self.hold(first.client, first.tag, queue, entry, first.consumer)
        return True

    def next_of(self, number: int, tag: str, queue: Queue, entry: Entry) -> Delivery | None:
        """Return the next delivery that a client saw from a queue, if it is this entry, and for this consumer."""
        consumers, name = self.clients[number].consumers, queue.spec.name
        of_queue = (it for it in self.deliveries if it.client == number and consumers[it.consumer].queue == name)
        following = next(of_queue, None)
        fits = following and following.consumer == tag and following.id == entry.message.id
        return following if fits else None

    def hold(self, number: int, delivery_tag: int, queue: Queue, entry: Entry, consumer_tag: str | None) -> None:
        """Note that a client has a delivery, unless it need not settle it."""
        client = self.clients[number]
        if consumer_tag is not None:
            consumer = client.consumers[consumer_tag]
            if consumer.no_ack:
                return
            consumer.outstanding += 1
            client.outstanding += 1
        name = queue.spec.name
        client.held[delivery_tag] = Held(name, self.declared[name], entry, consumer_tag)

    def check(self, seen: Delivery, queue: Queue, entry: Entry) -> None:
        """Check what was delivered: flags, address and the story of a dead letter."""
        message = entry.message
        expected = (message.exchange, message.key, message.persistent, message.expiration, message.deaths)
        if (seen.exchange, seen.key, seen.persistent, seen.expiration, seen.deaths) != expected:
            raise ViolationError(f"{seen} came from '{queue.spec.name}', expected {message}")
        if seen.first_death != message.first_death:
            raise ViolationError(f"{seen} came from '{queue.spec.name}', expected first death {message.first_death}")
        if entry.redelivered is not None and seen.redelivered != entry.redelivered:
            raise ViolationError(f"{seen} came from '{queue.spec.name}', expected redelivered={entry.redelivered}")

    # ---- the end of a call ----

    def finish(self) -> None:
        """End a call: serve consumers, publish letters, and refuse what is not explained."""
        self.serve()
        self.send_letters()
        self.serve()
        for queue in self.queues.values():
            if queue.ready and self.takers(queue):
                raise ViolationError(f"{queue.ready[0]} of '{queue.spec.name}' was not delivered to a waiting consumer")

    def rest(self) -> None:
        """Let everything expire whose time has come, and refuse deliveries that nothing explains."""
        while any(time <= self.now for time in self.due_times()):
            self.tick()
        if self.deliveries:
            raise ViolationError(f"{self.deliveries[0]} was delivered, which no rule allows")

    def serve(self) -> None:
        """Deliver from the heads of queues while the deliveries that were seen explain it."""
        for queue in self.ranked(list(self.queues)):
            while queue.ready and self.takers(queue):
                if self.is_overdue(queue.ready[0]):
                    self.discard(queue, queue.ready.pop(0), "expired")
                elif self.deliver(queue, queue.ready[0]):
                    queue.ready.pop(0)
                else:
                    break

    def send_letters(self) -> None:
        """Publish letters, oldest first, with those that result. One that only goes round in a circle is dropped."""
        while self.letters:
            letter = self.letters.pop(0)
            if letter.exchange and letter.exchange not in self.topology.exchanges:
                continue
            names = [name for name in self.route(letter) if not is_cycle(letter.deaths, name)]
            self.put_into(self.ranked(names), letter)

    # ---- time ----

    def is_overdue(self, entry: Entry) -> bool:
        """Return whether an entry's time has run out."""
        return entry.deadline is not None and entry.deadline <= self.now

    def expire_head(self, queue: Queue) -> None:
        """Drop what is at the head of a queue and overdue."""
        while queue.ready and self.is_overdue(queue.ready[0]):
            self.discard(queue, queue.ready.pop(0), "expired")

    def queue_expiry(self, queue: Queue) -> int | None:
        """Return when a queue is deleted because nobody uses it."""
        is_used = any(it.queue == queue.spec.name for client in self.clients for it in client.consumers.values())
        return None if queue.spec.expires_ms is None or is_used else queue.used + queue.spec.expires_ms * 1000

    def due_times(self) -> set[int]:
        """Return the times at which something expires: heads of queues, and queues."""
        heads = {queue.ready[0].deadline for queue in self.queues.values() if queue.ready}
        return {it for it in heads | {self.queue_expiry(queue) for queue in self.queues.values()} if it is not None}

    def tick(self) -> None:
        """Let expire what is at the head of a queue and overdue, and queues that nobody has used for long."""
        for queue in self.ranked(list(self.queues)):
            self.expire_head(queue)
            expiry = self.queue_expiry(queue)
            if expiry is not None and expiry <= self.now:
                self.remove_queue(queue.spec.name)
        self.finish()

    def remove_queue(self, name: str) -> None:
        """Remove a queue with its entries, its bindings and its consumers."""
        del self.queues[name]
        self.topology.remove_target(name, is_exchange=False)
        for client in self.clients:
            client.consumers = {tag: it for tag, it in client.consumers.items() if it.queue != name}


def is_cycle(deaths: Deaths, name: str) -> bool:
    """Return whether a message was in this queue before, and nobody rejected it since: it would go round for ever.

    Source: RabbitMQ, "Dead Letter Exchanges": dropped "if there was no rejections in the entire cycle"."""
    for queue, reason, _ in deaths:
        if reason == "rejected":
            return False
        if queue == name:
            return True
    return False


def begin(program: Program, now: int) -> World:
    """Return the world in which everything of a program was declared just now."""
    topology = Topology({spec.name: spec for spec in program.exchanges}, list(dict.fromkeys(program.bindings)))
    queues = {spec.name: Queue(spec, now) for spec in program.queues}
    clients = [Client(mode) for mode in program.clients]
    return World(topology, queues, clients, now, dict.fromkeys(queues, 1))
