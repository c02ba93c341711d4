"""What each request of a client does in the model: each function changes a world, and its caller ends the call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tests.model.frames import Said
from tests.model.program import Publish, QueueSpec
from tests.model.state import Client, Consumer, Entry, Held, Message, Queue, Transaction, ViolationError
from tests.model.world import World

PRECONDITION_FAILED, NOT_FOUND, ACCESS_REFUSED = 406, 404, 403


def close_channel(world: World, number: int, *codes: int) -> None:
    """Close the channel of a client: its consumers go, and what it held goes back."""
    client = world.clients[number]
    for consumer in client.consumers.values():
        world.queues[consumer.queue].used = world.now
    client.consumers = {}
    held = list(client.held.values())
    world.clients[number] = Client(client.mode)
    world.expected.closed = codes
    world.put_back(held)


# ---- publishing ----


def mistakes(world: World, publish: Publish) -> list[int]:
    """Return the codes with which a message may be refused: none if it is right."""
    codes = []
    if publish.exchange:
        spec = world.topology.exchanges.get(publish.exchange)
        if spec is None:
            codes.append(NOT_FOUND)
        elif spec.internal:
            codes.append(ACCESS_REFUSED)
    if publish.expiration is not None and not publish.expiration.isdigit():
        codes.append(PRECONDITION_FAILED)
    return codes


def publish_all(world: World, number: int, items: Iterable[tuple[int, Publish]], said: Said) -> None:
    """Publish messages: now, or with the transaction."""
    client = world.clients[number]
    for identity, publish in items:
        codes = mistakes(world, publish)
        if client.mode == "tx":
            client.transaction.publishes.append((identity, publish))
            if codes and _is_refused_now(world, number, codes, said):
                return
        elif codes:
            close_channel(world, number, *codes)
            return
        else:
            publish_now(world, identity, publish)


def message_of(identity: int, publish: Publish) -> Message:
    """Return a message as it is published."""
    where = (identity, publish.exchange, publish.key)
    return Message(*where, publish.persistent, publish.expiration, publish.number, publish.text, publish.size)


def publish_now(world: World, identity: int, publish: Publish) -> None:
    """Put a message into the queues that take it, and note what the publisher is told."""
    is_routed, is_refused = world.publish(message_of(identity, publish))
    world.expected.outcomes.append("Basic.Nack" if is_refused else "Basic.Ack")
    if not is_routed and publish.mandatory:
        world.expected.returned.append(identity)


def _is_refused_now(world: World, number: int, codes: list[int], said: Said) -> bool:
    """Note a mistake in a transaction, which is refused at once or when it is committed."""
    if said.closed is not None:
        close_channel(world, number, *codes)
        return True
    world.clients[number].transaction.is_broken = True
    return False


# ---- settling ----


def open_tags(client: Client) -> list[int]:
    """Return the tags that a client can settle."""
    return sorted(client.held.keys() - client.transaction.settled())


def settle(world: World, number: int, tags: Sequence[int], how: str, said: Said) -> None:
    """Settle deliveries: now, or with the transaction."""
    client = world.clients[number]
    client.last_settled = tags[-1]
    if not set(tags) <= set(open_tags(client)):
        if client.mode != "tx":
            close_channel(world, number, PRECONDITION_FAILED)
        else:
            _is_refused_now(world, number, [PRECONDITION_FAILED], said)
    elif client.mode == "tx":
        client.transaction.settles.append((tuple(tags), how))
    else:
        settle_now(world, client, tags, how)


def settle_now(world: World, client: Client, tags: Iterable[int], how: str) -> None:
    """Acknowledge, requeue or discard deliveries."""
    settled = [_release(client, tag) for tag in tags]
    if how == "requeue":
        world.put_back(settled)
    elif how == "discard":
        for held in settled:
            if world.is_there(held):
                world.discard(world.queues[held.queue], held.entry, "rejected")


def _release(client: Client, tag: int) -> Held:
    held = client.held.pop(tag)
    if held.consumer is not None:
        client.outstanding -= 1
        if held.consumer in client.consumers:
            client.consumers[held.consumer].outstanding -= 1
    return held


def recover(world: World, number: int) -> None:
    """Put everything back that the client holds and has not settled."""
    client = world.clients[number]
    world.put_back([_release(client, tag) for tag in open_tags(client)])
    world.expected.answers.append("Basic.RecoverOk")


def commit(world: World, number: int) -> None:
    """Do all that the transaction holds, or, when there is a mistake in it, nothing.

    The reason of a refusal is any of its mistakes: the specification does not say which of them comes first."""
    client = world.clients[number]
    transaction, client.transaction = client.transaction, Transaction()
    codes = [mistakes(world, publish) for _, publish in transaction.publishes]
    right = [item for item, wrong in zip(transaction.publishes, codes, strict=True) if not wrong]
    if transaction.is_broken or not _fits(world, right):
        codes.append([PRECONDITION_FAILED])
    if any(codes):
        close_channel(world, number, *(code for wrong in codes for code in wrong))
        return
    for identity, publish in transaction.publishes:
        publish_now(world, identity, publish)
    for tags, how in transaction.settles:
        settle_now(world, client, tags, how)
    world.expected.answers.append("Tx.CommitOk")


def _fits(world: World, publishes: Iterable[tuple[int, Publish]]) -> bool:
    """Return whether the queues that refuse messages have room for all of a transaction's."""
    messages = [message_of(identity, publish) for identity, publish in publishes]
    routes = [(message, world.route(message)) for message in messages]
    for name, queue in world.queues.items():
        sizes = [message.size for message, names in routes if name in names]
        ready = [entry.message.size for entry in queue.ready]
        if sizes and queue.spec.rejects and world.is_over(queue.spec, len(ready + sizes), sum(ready + sizes)):
            return False
    return True


def rollback(world: World, number: int) -> None:
    """Forget the transaction."""
    world.clients[number].transaction = Transaction()
    world.expected.answers.append("Tx.RollbackOk")


# ---- consuming ----


def get(world: World, number: int, name: str, no_ack: bool, said: Said) -> None:
    """Fetch the first entry of a queue that has not expired."""
    queue = world.queues.get(name)
    if queue is None:
        close_channel(world, number, NOT_FOUND)
        return
    queue.used = world.now
    world.expire_head(queue)
    seen = said.got[0] if said.got else None
    if not queue.ready:
        if seen is not None:
            raise ViolationError(f"{seen} came from '{name}', which is empty")
        return
    entry = queue.ready.pop(0)
    if seen is None or seen.id != entry.message.id or seen.count_left != len(queue.ready):
        raise ViolationError(f"{seen} came from '{name}', expected {entry} and {len(queue.ready)} left")
    world.check(seen, queue, entry)
    if not no_ack:
        world.hold(number, seen.tag, queue, entry, None)


def consume(world: World, number: int, tag: str, consumer: Consumer) -> None:
    """Add a consumer."""
    if consumer.queue not in world.queues:
        close_channel(world, number, NOT_FOUND)
        world.expected.answers.append("Basic.QosOk")
        return
    world.queues[consumer.queue].used = world.now
    world.clients[number].consumers[tag] = replace(consumer)
    world.expected.answers += ["Basic.QosOk", "Basic.ConsumeOk"]


def cancel(world: World, number: int, tag: str) -> None:
    """Remove a consumer; its deliveries stay with the channel."""
    consumer = world.clients[number].consumers.pop(tag)
    world.queues[consumer.queue].used = world.now
    world.expected.answers.append("Basic.CancelOk")


# ---- the administrator's ----


def declare(world: World, spec: QueueSpec, queues_max: int | None) -> None:
    """Declare a queue, which may exist; the limit of queues refuses a new one."""
    if spec.name in world.queues:
        world.queues[spec.name].used = world.now
    elif queues_max is not None and len(world.queues) >= queues_max:
        world.expected.closed = (PRECONDITION_FAILED,)
        return
    else:
        world.queues[spec.name] = Queue(spec, world.now)
        world.declared[spec.name] = world.declared.get(spec.name, 0) + 1
    world.expected.answers.append("Queue.DeclareOk")


def delete(world: World, name: str) -> None:
    """Delete a queue; its consumers are told."""
    world.expected.cancelled = {
        tag for client in world.clients for tag, it in client.consumers.items() if it.queue == name
    }
    if name in world.queues:
        world.remove_queue(name)
    world.expected.answers.append("Queue.DeleteOk")


# ---- restarts ----


def stop(world: World) -> None:
    """Close all channels, as a broker that stops does."""
    for number in range(len(world.clients)):
        close_channel(world, number)


def restart(world: World, now: int, *, is_clean: bool) -> None:
    """Keep what survives: persistent messages of durable queues. After a kill any may be flagged as redelivered."""
    held = [it for client in world.clients for it in client.held.values() if world.is_there(it)]
    world.queues = {name: queue for name, queue in world.queues.items() if queue.spec.durable}
    world.topology = world.topology.restarted(set(world.queues))
    world.clients = [Client(client.mode) for client in world.clients]
    world.now = now
    for name, queue in world.queues.items():
        back = [replace(it.entry, redelivered=True) for it in held if it.queue == name]
        entries = sorted(queue.ready + back, key=lambda entry: entry.position)
        queue.ready = [_recovered(entry, is_clean) for entry in entries if entry.message.persistent]
        queue.used = now


def drop_overflow(world: World) -> None:
    """Drop what bounded queues have too much of when what was not acknowledged has come back."""
    for queue in world.ranked(list(world.queues)):
        world.drop_head(queue)


def _recovered(entry: Entry, is_clean: bool) -> Entry:
    return entry if is_clean or entry.redelivered else replace(entry, redelivered=None)
