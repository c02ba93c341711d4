"""Plays a hostile client: random operations inside the documented limits, from one seed, for a time.

Every operation is something that a client may do. The broker may refuse it or close the connection; the client then
comes back. It runs in a process of its own, so that its own work does not look like a stall of the broker."""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.synchronize import Event
from typing import Any

from pamqp import commands

from tests.faults.amqp import BrokerClosedError, BrokerGoneError, Client

CONNECTIONS = 20
QUEUES = 300
SHARED_QUEUES = ["expensive", "bound", "stream", "bodies", "amq.service.hostile"]
EXCHANGES = 20
TIMEOUT_S = 3
"""A client that has waited for so long makes room, and goes on."""
BODY_BYTES = 4 << 20
WORDS = [f"word{number}" for number in range(50)]

Operation = Callable[["HostileClient"], None]


class HostileClient:
    """Several connections that do random things.

    Args:
        port: the broker's.
        seed: of all choices.
    """

    def __init__(self, port: int, seed: int) -> None:
        self.port, self.random = port, random.Random(seed)
        self.clients: list[Client] = []
        self.done: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.gone = self.timeouts = 0

    def run(self, seconds: float, may_play: Event | None = None) -> None:
        """Do random operations until the time is over, while `may_play` is set."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if may_play is not None and not may_play.wait(1.0):
                continue
            operation = self.random.choice(OPERATIONS)
            try:
                operation(self)
                self.done[operation.__name__] += 1
            except BrokerClosedError as error:
                self.refused[f"{operation.__name__} {str(error)[:3]}"] += 1
                self._drop()
            except TimeoutError:
                self.timeouts += 1
                self._drop()
                with contextlib.suppress(BrokerClosedError, BrokerGoneError, TimeoutError, OSError):
                    self._make_room()
            except (BrokerGoneError, OSError):
                self.gone += 1
                self._drop()

    def _make_room(self) -> None:
        """Delete all queues: at its limits the broker lets publishers wait, and would not be bothered any more."""
        with contextlib.closing(Client(self.port, timeout_s=TIMEOUT_S)) as client:
            for number in range(QUEUES):
                client.send(commands.Queue.Delete(queue=f"hostile-{number}", nowait=True))
            for name in SHARED_QUEUES:
                ask(client, commands.Queue.Delete(queue=name), "Queue.DeleteOk")

    def _drop(self) -> None:
        """Close the connection that was used last."""
        if self.clients:
            self.clients.pop(0).close()

    def client(self) -> Client:
        """Return one of the connections, at random; a new one while there are few."""
        if len(self.clients) < CONNECTIONS:
            self.clients.append(Client(self.port, timeout_s=TIMEOUT_S))
        self.random.shuffle(self.clients)
        return self.clients[0]

    def put_first(self, client: Client) -> None:
        """Let this connection be the one that was used last: it is dropped if the broker has closed it."""
        self.clients.remove(client)
        self.clients.insert(0, client)

    def queue(self) -> str:
        """Return the name of one of the queues."""
        return f"hostile-{self.random.randrange(QUEUES)}"

    def take_what_came(self, client: Client) -> None:
        """Read some of what has arrived, without waiting, so that a refusal is noticed."""
        for count, _ in enumerate(client.frames(0.0)):
            if count > 1_000:
                return


def ask(client: Client, method: Any, answer: str) -> None:
    """Send a method, and wait for its answer as long as a client waits."""
    client.call(method, answer, TIMEOUT_S)


def declare(hostile: HostileClient) -> None:
    """Declare a queue with limits, times and dead letters, also in cycles, and bind it to the fan-out."""
    choose = hostile.random
    arguments: dict[str, Any] = {}
    if choose.random() < 0.3:
        arguments["x-message-ttl"] = choose.choice([0, 1, 50, 10_000])
    if choose.random() < 0.3:
        arguments["x-max-length"] = choose.choice([0, 1, 100, 100_000])
        arguments["x-overflow"] = choose.choice(["drop-head", "reject-publish", "reject-publish-dlx", "block"])
    if choose.random() < 0.4:
        arguments["x-dead-letter-exchange"] = choose.choice(["", "amq.fanout", "amq.topic"])
        arguments["x-dead-letter-routing-key"] = hostile.queue()
        arguments["x-dead-letter-strategy"] = choose.choice(["at-most-once", "at-least-once"])
    if choose.random() < 0.1:
        arguments["x-expires"] = 2_000
    name, client = hostile.queue(), hostile.client()
    ask(
        client,
        commands.Queue.Declare(queue=name, durable=choose.random() < 0.5, arguments=arguments),
        "Queue.DeclareOk",
    )
    ask(client, commands.Queue.Bind(queue=name, exchange="amq.fanout"), "Queue.BindOk")


def bind_expensive(hostile: HostileClient) -> None:
    """Bind an expensive query over bodies."""
    choose = hostile.random
    part = choose.choice(
        [
            lambda: rf"REGEX(body, '\w{{{choose.randrange(2, 12)}}}x')",
            lambda: f"body LIKE '%{choose.choice(WORDS)}%{choose.choice(WORDS)}%'",
            lambda: f"NEAR(body, '{choose.choice(WORDS)}', '{choose.choice(WORDS)}', 9)",
            lambda: f"NOT (price < {choose.randrange(100)} OR price > {choose.randrange(100)})",
        ]
    )
    query = " OR ".join(part() for _ in range(choose.choice([1, 10, 300])))
    client = hostile.client()
    arguments: dict[str, Any] = {"x-query": query, "x-query-body": "text"}
    client.send(commands.Queue.Declare(queue="expensive"))
    ask(
        client,
        commands.Queue.Bind(queue="expensive", exchange="amq.topic", routing_key="#", arguments=arguments),
        "Queue.BindOk",
    )


def bind_many(hostile: HostileClient) -> None:
    """Bind a queue a thousand times, without waiting."""
    client = hostile.client()
    ask(client, commands.Queue.Declare(queue="bound"), "Queue.DeclareOk")
    for _ in range(1_000):
        key = f"a.{hostile.random.randrange(1_000_000)}.*"
        client.send(commands.Queue.Bind(queue="bound", exchange="amq.topic", routing_key=key, nowait=True))


def publish_small(hostile: HostileClient) -> None:
    """Publish a thousand small messages to all queues of the fan-out, or to one."""
    choose, client = hostile.random, hostile.client()
    exchange, key = choose.choice([("amq.fanout", ""), ("", hostile.queue()), ("amq.topic", "a.1.b")])
    body = b"x" * choose.choice([0, 16, 200])
    for _ in range(1_000):
        client.publish(exchange, key, body, delivery_mode=choose.choice([1, 2]), expiration=choose.choice([None, "5"]))
    hostile.take_what_came(client)


def publish_large(hostile: HostileClient) -> None:
    """Publish a large body of words past the expensive queries, or to all who consume from queues of the fan-out."""
    choose, client = hostile.random, hostile.client()
    body = " ".join(choose.choices(WORDS, k=1_000)).encode() * (choose.randrange(BODY_BYTES) // 7_000 + 1)
    exchange, key = choose.choice([("amq.topic", "a.1.b"), ("amq.fanout", ""), ("", "bodies"), ("", "stream")])
    client.publish(exchange, key, body[:BODY_BYTES], delivery_mode=2)
    hostile.take_what_came(client)


def consume_without_reading(hostile: HostileClient) -> None:
    """Consume, and read nothing for now."""
    hostile.client().send(commands.Basic.Consume(queue=hostile.queue(), no_ack=hostile.random.random() < 0.5))


def read(hostile: HostileClient) -> None:
    """Read a part of what has come."""
    for client in hostile.clients[:3]:
        hostile.put_first(client)
        hostile.take_what_came(client)


def requeue_all(hostile: HostileClient) -> None:
    """Put everything back that was delivered and not acknowledged."""
    client = hostile.client()
    client.send(commands.Basic.Nack(0, multiple=True, requeue=hostile.random.random() < 0.7))
    ask(client, commands.Basic.Recover(requeue=True), "Basic.RecoverOk")


def transact(hostile: HostileClient) -> None:
    """Publish and settle in a transaction, and commit, roll back or leave."""
    choose = hostile.random
    client = Client(hostile.port, timeout_s=TIMEOUT_S)
    with contextlib.closing(client):
        ask(client, commands.Tx.Select(), "Tx.SelectOk")
        client.send(commands.Basic.Consume(queue=hostile.queue()))
        for _ in range(choose.choice([1, 100, 2_000])):
            client.publish("amq.fanout", "", b"x" * 50, delivery_mode=2)
        hostile.take_what_came(client)
        client.send(choose.choice([commands.Basic.Ack(0, multiple=True), commands.Basic.Nack(0, multiple=True)]))
        match choose.randrange(4):
            case 0:
                ask(client, commands.Tx.Commit(), "Tx.CommitOk")
            case 1:
                ask(client, commands.Tx.Rollback(), "Tx.RollbackOk")
            case 2:
                ask(client, commands.Channel.Close(200, "", 0, 0), "Channel.CloseOk")
            case _:
                pass


def purge_or_delete(hostile: HostileClient) -> None:
    """Purge or delete a queue, whatever it holds."""
    client, queue = hostile.client(), hostile.queue()
    if hostile.random.random() < 0.8:
        ask(client, commands.Queue.Purge(queue=queue), "Queue.PurgeOk")
    else:
        ask(client, commands.Queue.Delete(queue=queue), "Queue.DeleteOk")


def follow_stream(hostile: HostileClient) -> None:
    """Write to a stream, and follow it from the first record with a query that finds nothing."""
    client = hostile.client()
    arguments: dict[str, Any] = {"x-queue-type": "stream", "x-max-length-bytes": 1 << 20}
    ask(client, commands.Queue.Declare(queue="stream", durable=True, arguments=arguments), "Queue.DeclareOk")
    for _ in range(200):
        client.publish("", "stream", b"x" * 100)
    ask(client, commands.Basic.Qos(prefetch_count=10), "Basic.QosOk")
    start: dict[str, Any] = {"x-stream-offset": "first", "x-query": "nothing = 1"}
    client.send(commands.Basic.Consume(queue="stream", arguments=start))


def read_stream_slowly(hostile: HostileClient) -> None:
    """Read a stream from somewhere, without acknowledgement or under a name, and read nothing of it for now."""
    choose, client = hostile.random, hostile.client()
    start: dict[str, Any] = {"x-stream-offset": choose.choice(["first", "last", "next"])}
    if choose.random() < 0.3:
        start["x-stream-reader"] = f"reader-{choose.randrange(100)}"
        ask(client, commands.Basic.Qos(prefetch_count=100), "Basic.QosOk")
    client.send(commands.Basic.Consume(queue="stream", no_ack="x-stream-reader" not in start, arguments=start))


def receive_bodies(hostile: HostileClient) -> None:
    """Get what is large, without reading it for now."""
    choose, client = hostile.random, hostile.client()
    ask(client, commands.Queue.Declare(queue="bodies", durable=True), "Queue.DeclareOk")
    client.send(commands.Basic.Consume(queue="bodies", no_ack=choose.random() < 0.5))
    client.send(commands.Basic.Get(queue="bodies", no_ack=choose.random() < 0.5))


def get_behind_an_answer(hostile: HostileClient) -> None:
    """Get messages behind an answer that waits for the disk."""
    client, queue = hostile.client(), hostile.queue()
    client.send(commands.Queue.Declare(queue=f"durable-{hostile.random.randrange(QUEUES)}", durable=True))
    for _ in range(100):
        client.send(commands.Basic.Get(queue=queue, no_ack=True))


def reject_one_by_one(hostile: HostileClient) -> None:
    """Reject what was delivered, one message at a time, and some twice."""
    choose, client = hostile.random, hostile.client()
    for tag in range(1, choose.choice([2, 100, 1_000])):
        client.send(commands.Basic.Reject(tag, requeue=choose.random() < 0.3))


def consume_and_cancel(hostile: HostileClient) -> None:
    """Begin hundreds of consumers, cancel some of them, and close the channel with the others."""
    choose, client, queue = hostile.random, hostile.client(), hostile.queue()
    for number in range(300):
        client.send(commands.Basic.Consume(queue=queue, consumer_tag=f"c{number}", nowait=True))
    for number in range(0, 300, 3):
        client.send(commands.Basic.Cancel(consumer_tag=f"c{number}", nowait=True))
    if choose.random() < 0.5:
        ask(client, commands.Channel.Close(200, "", 0, 0), "Channel.CloseOk")
        ask(client, commands.Channel.Open(), "Channel.OpenOk")


def change_qos_and_flow(hostile: HostileClient) -> None:
    """Change the prefetch, of consumers or of the channel, and stop and start the flow."""
    choose, client = hostile.random, hostile.client()
    for _ in range(50):
        prefetch = choose.choice([0, 1, 100, 65_535])
        client.send(commands.Basic.Qos(prefetch_count=prefetch, global_=choose.random() < 0.5))
        client.send(commands.Channel.Flow(active=choose.random() < 0.7))
    client.send(commands.Channel.Flow(active=True))


def copy_to_many(hostile: HostileClient) -> None:
    """Publish with hundreds of further keys."""
    client = hostile.client()
    headers: dict[str, Any] = {
        "CC": [hostile.queue() for _ in range(200)],
        "BCC": [hostile.queue() for _ in range(50)],
    }
    for _ in range(20):
        client.publish("", hostile.queue(), b"x" * 100, headers=headers)
    hostile.take_what_came(client)


def change_exchanges(hostile: HostileClient) -> None:
    """Declare exchanges with alternates, bind them to each other, also in circles, publish, unbind and delete."""
    choose, client = hostile.random, hostile.client()
    name, other = (f"hostile-{choose.randrange(EXCHANGES)}" for _ in range(2))
    alternate: dict[str, Any] = {"alternate-exchange": f"hostile-{choose.randrange(EXCHANGES)}"}
    kind: dict[str, Any] = {"exchange_type": "topic", "durable": choose.random() < 0.5}
    for exchange in (name, other):
        ask(client, commands.Exchange.Declare(exchange=exchange, arguments=alternate, **kind), "Exchange.DeclareOk")
    ask(client, commands.Exchange.Bind(destination=name, source=other, routing_key="#"), "Exchange.BindOk")
    ask(client, commands.Queue.Bind(queue=hostile.queue(), exchange=name, routing_key="a.*"), "Queue.BindOk")
    for _ in range(100):
        client.publish(other, choose.choice(["a.b", "nowhere"]), b"x", delivery_mode=2)
    if choose.random() < 0.3:
        ask(client, commands.Exchange.Unbind(destination=name, source=other, routing_key="#"), "Exchange.UnbindOk")
    if choose.random() < 0.3:
        ask(client, commands.Exchange.Delete(exchange=name), "Exchange.DeleteOk")


def send_to_addresses(hostile: HostileClient) -> None:
    """Send to mailboxes whose owners never come, and to a service whose worker answers nobody."""
    choose, client = hostile.random, hostile.client()
    for _ in range(200):
        client.publish("mailbox", f"nobody-{choose.randrange(20)}", b"x" * 200)
        client.publish("service", "hostile", b"x" * 200)
    client.send(commands.Basic.Consume(queue="amq.service.hostile"))
    hostile.take_what_came(client)


def vanish(hostile: HostileClient) -> None:
    """Close a connection in the middle of whatever it does."""
    if hostile.clients:
        hostile.clients.pop().close()


def get(hostile: HostileClient) -> None:
    """Get a hundred messages without waiting for them, and acknowledge none."""
    client, queue = hostile.client(), hostile.queue()
    for _ in range(100):
        client.send(commands.Basic.Get(queue=queue))


OPERATIONS: list[Operation] = [
    declare,
    bind_expensive,
    bind_many,
    publish_small,
    publish_large,
    consume_without_reading,
    read,
    requeue_all,
    transact,
    purge_or_delete,
    follow_stream,
    vanish,
    get,
    read_stream_slowly,
    receive_bodies,
    get_behind_an_answer,
    reject_one_by_one,
    consume_and_cancel,
    change_qos_and_flow,
    copy_to_many,
    change_exchanges,
    send_to_addresses,
]
